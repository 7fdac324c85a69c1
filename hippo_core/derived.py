"""Derived files: where corpora are kept beside a store, and which of them still holds.

A folder per state: arrays and a manifest that names the store, the commit and the settings that it
was derived with. Whoever finds none that fits derives everything from the store.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
import unicodedata
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hippo_core.config import HippoConfig
from hippo_core.corpus import Corpus
from hippo_core.corpus_files import DamagedFilesError, file_hash, map_corpus, write_corpus
from hippo_core.text import canonical_json, sha256_hex

FORMAT = 1
MANIFEST = "manifest.json"
_DRAFT = "draft-"
_ABANDONED = 3600  # seconds after which a draft is nobody's
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
        self._fits = {
            "format": FORMAT,
            "store": store_id,
            "namespace": sha256_hex(namespace),
            "unicode": unicodedata.unidata_version,  # phrase keys depend on it
            "synonymy_threshold": config.synonymy_threshold if config.synonymy else None,
            "triple_rendering": config.triple_rendering,
        }

    def write(self, corpus: Corpus, state: State) -> Path | None:
        """Write a corpus and delete those of other states; give its folder.

        Raises:
            OSError: It cannot be written.
        """
        if self._folder is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{_DRAFT}{uuid.uuid4().hex}"
        draft.mkdir()
        try:
            hashes = write_corpus(corpus, draft)
            manifest = {**self._fits, **_plain(state), "files": hashes}
            (draft / MANIFEST).write_text(canonical_json(manifest), encoding="utf-8")
            place = self._folder / f"{state.version:012d}-{uuid.uuid4().hex[:8]}"
            draft.rename(place)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        self.delete(but=place)
        return place

    def newest(self) -> tuple[Corpus, State] | None:
        """Map the newest corpus that can be used; the caller knows whether its commit was made."""
        for folder in self._folders():
            try:
                manifest = self._manifest(folder)
                return map_corpus(folder), State(
                    int(manifest["version"]), str(manifest["commit"]), manifest["generation"]
                )
            except (DamagedFilesError, OSError, KeyError, TypeError, ValueError) as error:
                log.warning("derived files in %s are not used: %s", folder, error)
        return None

    def damaged(self) -> list[str]:
        """Give what is wrong with the files: every byte is read and hashed."""
        found = []
        for folder in self._folders():
            try:
                files = dict(self._manifest(folder)["files"])
                wrong = [name for name, digest in files.items() if _differs(folder, name, digest)]
                found += [f"{folder / name} is not what was written" for name in wrong]
            except (DamagedFilesError, OSError, KeyError, TypeError, ValueError) as error:
                found.append(f"{folder}: {error}")
        return found

    def ignore(self) -> None:
        """Read and write no files from now on."""
        self._folder = None

    def delete(self, *, but: Path | None = None) -> None:
        """Delete all corpora but one, and drafts that nobody writes any more.

        On systems where a mapped file cannot be deleted, that waits for the next time.
        """
        for folder in self._folders():
            if folder != but:
                shutil.rmtree(folder, ignore_errors=True)
        drafts = self._folder.glob(f"{_DRAFT}*") if self._folder is not None else ()
        for draft in drafts:
            if time.time() - draft.stat().st_mtime > _ABANDONED:
                shutil.rmtree(draft, ignore_errors=True)
        if but is None and self._folder is not None and self._folder.is_dir():
            try:
                self._folder.rmdir()
            except OSError:  # a draft of another process is in it
                pass

    def _folders(self) -> list[Path]:
        """Give the folders of whole corpora, the newest first."""
        if self._folder is None or not self._folder.is_dir():
            return []
        found = [f for f in self._folder.iterdir() if not f.name.startswith(_DRAFT)]
        return sorted(found, reverse=True)

    def _manifest(self, folder: Path) -> dict[str, Any]:
        path = folder / MANIFEST
        if path.stat().st_size > _LIMIT:
            raise DamagedFilesError(f"{MANIFEST} is too long")
        manifest = json.loads(path.read_text(encoding="utf-8"))
        for name, value in self._fits.items():
            if manifest.get(name) != value:
                raise DamagedFilesError(f"made with {name}={manifest.get(name)!r}, not {value!r}")
        found: dict[str, Any] = manifest
        return found


def _plain(state: State) -> dict[str, Any]:
    return {"version": state.version, "commit": state.commit, "generation": state.generation}


def _differs(folder: Path, name: str, digest: str) -> bool:
    """Whether a file is another than was written; a name is never taken as a path."""
    path = folder / Path(name).name
    return not path.is_file() or file_hash(path) != digest
