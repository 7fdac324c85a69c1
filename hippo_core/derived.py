"""Derived files: where corpora are kept beside a store, and which of them still holds.

A folder per state: arrays and a manifest that names the store, the commit and the settings that it
was derived with. Whoever finds none that fits derives everything from the store.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hippo_core.config import RENDERINGS, HippoConfig, TripleRendering
from hippo_core.corpus import Corpus
from hippo_core.corpus_checks import DamagedFilesError
from hippo_core.corpus_files import file_hash, map_corpus, open_regular, write_corpus
from hippo_core.text import canonical_json, sha256_hex

FORMAT = 3
MANIFEST = "manifest.json"
_DRAFT = "draft-"
_CORPUS = re.compile(r"\d{12,}-[0-9a-f]{8}")
_ABANDONED = 3600.0  # seconds after which a draft is nobody's
_LIMIT = 1 << 20  # bytes of a manifest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """Which state of a namespace a corpus is."""

    version: int
    commit: str
    generation: int | None
    """Of the embedder."""


class DerivedFiles:
    """The corpora of one namespace on disk; none where `root` is None."""

    def __init__(
        self, root: Path | None, store_id: str, namespace: str, config: HippoConfig
    ) -> None:
        self._folder = None if root is None else root / sha256_hex(namespace)[:32]
        self._belongs = {"store": store_id, "namespace": sha256_hex(namespace)}
        self._fits = {
            "format": FORMAT,
            "unicode": unicodedata.unidata_version,  # phrase keys depend on it
            "synonymy_threshold": config.synonymy_threshold if config.synonymy else None,
        }

    def write(
        self,
        corpus: Corpus,
        state: State,
        is_present: Callable[[], bool],
        rendering: TripleRendering,
    ) -> Path | None:
        """Write a corpus in place of those that are there; give its folder.

        None where its state is not the present one once it is written: then it may hold what was
        deleted meanwhile, and goes too.

        Raises:
            OSError: It cannot be written.
        """
        if self._folder is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._leads_away():
            raise NotADirectoryError(f"{self._folder} is a link to elsewhere")
        others = self._folders()  # not those that another handle puts beside it from now on
        draft = self._folder / f"{_DRAFT}{uuid.uuid4().hex}"
        place = self._folder / f"{state.version:012d}-{uuid.uuid4().hex[:8]}"
        is_kept = False
        try:
            draft.mkdir()
            hashes = write_corpus(corpus, draft)
            of = {**self._belongs, **self._fits, **asdict(state), "triple_rendering": rendering}
            manifest = {**of, "files": hashes}
            (draft / MANIFEST).write_text(canonical_json(manifest), encoding="utf-8")
            draft.rename(place)
            is_kept = is_present()
        finally:
            for folder in others if is_kept else (draft, place):
                _remove(folder)
        self._delete_drafts(_ABANDONED)
        return place if is_kept else None

    def newest(
        self, holds: Callable[[State], bool]
    ) -> tuple[Corpus, State, TripleRendering] | None:
        """Map the newest corpus that can be used, of a state that holds, and its triples' text."""
        for folder in self._folders():
            try:
                manifest = self._manifest(folder)
                misfit = [name for name, value in self._fits.items() if manifest[name] != value]
                if misfit:
                    log.info("derived files in %s were made with another %s", folder, misfit[0])
                elif holds(state := _state_of(manifest)):
                    return map_corpus(folder), state, _rendering_of(manifest)
            except (OSError, ValueError) as error:
                if folder.exists():  # or it was deleted meanwhile
                    log.warning("derived files in %s are not used: %s", folder, error)
        return None

    def damaged(self) -> list[str]:
        """Give what is wrong with the files: every byte is read and hashed."""
        found = []
        for folder in self._folders():
            try:
                files = self._manifest(folder)["files"].items()
                wrong = [name for name, digest in files if _differs(folder, name, digest)]
                said = [f"{folder / name} is not what was written" for name in wrong]
            except (OSError, ValueError) as error:
                said = [f"{folder}: {error}"]
            found += said if folder.exists() else []  # it may have been deleted meanwhile
        return found

    def ignore(self) -> None:
        """Read and write no files from now on."""
        self._folder = None

    def delete(self) -> None:
        """Delete all corpora, and what is being written: who writes it is told by an OSError.

        On systems where a mapped file cannot be deleted, that waits for the next time.
        """
        for folder in self._folders():
            _remove(folder)
        self._delete_drafts(0)
        if self._folder is not None:
            with suppress(OSError):  # there is none, or another process writes in it
                self._folder.rmdir()

    def _folders(self) -> list[Path]:
        """Give the folders of whole corpora, the newest first."""
        return [f for f in self._there() if _CORPUS.fullmatch(f.name)]

    def _delete_drafts(self, age: float) -> None:
        """Delete drafts that were begun so many seconds ago."""
        for draft in self._there():
            with suppress(OSError):  # it was finished meanwhile
                is_old = not age or abs(time.time() - draft.stat().st_mtime) >= age
                if is_old and draft.name.startswith(_DRAFT):
                    _remove(draft)

    def _there(self) -> list[Path]:
        """Give the folders in ours; a link in a store that a stranger made leads elsewhere."""
        if self._folder is None or self._leads_away():
            return []
        try:
            found = [f for f in self._folder.iterdir() if f.is_dir() and not f.is_symlink()]
            return sorted(found, reverse=True)
        except OSError:  # mostly since there is none
            return []

    def _leads_away(self) -> bool:
        folder = self._folder
        return folder is not None and (folder.is_symlink() or folder.parent.is_symlink())

    def _manifest(self, folder: Path) -> dict[str, Any]:
        """Read a manifest of this namespace; every name that `write` gives it is there."""
        with open_regular(folder / MANIFEST) as file:
            text = file.read(_LIMIT + 1)
        if len(text) > _LIMIT:
            raise DamagedFilesError(f"{MANIFEST} is too long")
        try:
            manifest = json.loads(text)
        except RecursionError as error:
            raise DamagedFilesError(f"{MANIFEST} is nested too deep") from error
        if not isinstance(manifest, dict) or not _is_whole(manifest, self._fits):
            raise DamagedFilesError(f"{MANIFEST} is not what was written")
        for name, value in self._belongs.items():
            if manifest.get(name) != value:
                raise DamagedFilesError(f"made with {name}={manifest.get(name)!r}, not {value!r}")
        return manifest


def _remove(folder: Path) -> None:
    """Delete a folder so that at no time a part of it stands under its name."""
    moved = folder.with_name(f"{_DRAFT}{uuid.uuid4().hex}")
    try:
        folder.rename(moved)
    except OSError:  # there is none; or it is mapped, on a system that minds
        moved = folder
    shutil.rmtree(moved, ignore_errors=True)


def _is_whole(manifest: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether a manifest has all of its values, of their types."""
    files, generation = manifest.get("files"), manifest.get("generation")
    return (
        manifest.keys() >= {*names, "generation"}
        and _is_count(manifest.get("version"))
        and isinstance(manifest.get("commit"), str)
        and (generation is None or _is_count(generation))
        and isinstance(files, dict)
        and all(isinstance(digest, str) for digest in files.values())
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63  # as the database counts


def _rendering_of(manifest: Mapping[str, Any]) -> TripleRendering:
    for rendering in RENDERINGS:
        if manifest.get("triple_rendering") == rendering:
            return rendering
    raise DamagedFilesError(f"{MANIFEST} does not say how triples were embedded")


def _state_of(manifest: Mapping[str, Any]) -> State:
    return State(manifest["version"], manifest["commit"], manifest["generation"])


def _differs(folder: Path, name: str, digest: str) -> bool:
    """Whether a file is another than was written; a name is never taken as a path."""
    path = folder / Path(name).name
    return not path.is_file() or file_hash(path) != digest
