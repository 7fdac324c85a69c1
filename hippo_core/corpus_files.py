"""Corpus files: a corpus on disk, one `.npy` file per array, mapped when it is opened.

They are derived and may be deleted at any time. Integers and floats are little-endian; texts are
UTF-8 with the byte at which each ends. Nothing in them is ever unpickled or run.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from itertools import accumulate
from os import SEEK_END
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import TARGET_KINDS, KeyedTriple, Target
from hippo_core.corpus import SUBJECT, Corpus, Live, Selection
from hippo_core.corpus_checks import DamagedFilesError, check_corpus, checked_pairs
from hippo_core.errors import StoreCorruptError
from hippo_core.segments import distinct
from hippo_core.synonyms import SynonymPairs
from hippo_core.text import canonical_json
from hippo_core.types import Passage, Status
from hippo_core.user_edges import UserEdges
from hippo_core.vectors import BLOCK, VectorRows, VectorView

T = TypeVar("T")

TEXTS = ("passages", "phrases", "relations", "spellings", "targets")
VECTORS = ("passage", "phrase", "triple")
NUMBERS = (
    "lengths",
    "checksums",
    "triple_phrases",
    "starts",
    "occurrences",
    "synonyms_left",
    "synonyms_right",
    "passage_rows",
    "triple_rows",
    "edge_starts",
    "edge_targets",
    "edge_passage_starts",
    "edge_passages",
    "edge_phrase_starts",
    "edge_phrases",
)
FLOATS = ("synonyms_cosine", "edge_weights")


_DIMENSIONS = {
    **dict.fromkeys(("triple_phrases", "occurrences"), 2),
    **{f"{name}_vectors": 2 for name in VECTORS},
}
"""Of the arrays that have more than one."""

# As `np.save` writes it. Its own reader evaluates the header, as a literal, and allocates what that
# says.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>[^']+)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
    re.DOTALL,
)
_HEADER_BYTES = 256  # at most


def write_corpus(corpus: Corpus, folder: Path) -> dict[str, str]:
    """Write a corpus into an empty folder; give the sha256 of each file by name."""
    spelled = distinct(corpus.occurrences[:, SUBJECT:].reshape(-1))
    occurrences = corpus.occurrences.copy()
    occurrences[:, SUBJECT:] = np.searchsorted(spelled, corpus.occurrences[:, SUBJECT:])
    texts: dict[str, Iterator[str]] = {
        "passages": map(_passage_json, corpus.passages),
        "phrases": iter(corpus.phrases),
        "relations": (triple.relation for triple in corpus.triples),
        "spellings": (corpus.spellings[i] for i in spelled.tolist()),
        "targets": map(" ".join, corpus.edges.names),
    }
    passage_rows, of_passage = _first_uses(corpus.passage_vectors)
    triple_rows, of_triple = _first_uses(corpus.triple_vectors)
    firsts = np.arange(len(corpus.edges.names) + 1)
    arrays = {
        "lengths": corpus.lengths,
        "checksums": corpus.checksums,
        "triple_phrases": corpus.triple_phrases,
        "starts": corpus.starts,
        "occurrences": occurrences,
        "synonyms_left": corpus.synonyms.left,
        "synonyms_right": corpus.synonyms.right,
        "passage_rows": of_passage,
        "triple_rows": of_triple,
        "edge_starts": corpus.edges.starts,
        "edge_targets": corpus.edges.targets,
        "edge_passage_starts": np.searchsorted(corpus.edges.passages[:, 0], firsts),
        "edge_passages": corpus.edges.passages[:, 1],
        "edge_phrase_starts": np.searchsorted(corpus.edges.phrases[:, 0], firsts),
        "edge_phrases": corpus.edges.phrases[:, 1],
    }
    for name, items in texts.items():
        _write_texts(folder, name, items)
    for name, numbers in arrays.items():
        _write_array(folder, name, numbers, "<i8")
    _write_array(folder, "synonyms_cosine", corpus.synonyms.cosine, "<f8")
    _write_array(folder, "edge_weights", corpus.edges.weights, "<f8")
    _write_vectors(folder, "passage", corpus.passage_vectors.at(passage_rows))
    _write_vectors(folder, "phrase", corpus.phrase_vectors)
    _write_vectors(folder, "triple", corpus.triple_vectors.at(triple_rows))
    return {path.name: file_hash(path) for path in sorted(folder.iterdir())}


def map_corpus(folder: Path) -> Corpus:
    """Map a corpus that was written; texts and vectors are read as they are needed.

    Raises:
        DamagedFilesError: A file is not the array that it should be, or its numbers point to where
            nothing is.
        OSError: A file is missing or cannot be read.
    """
    numbers = {name: _array(folder, name, "<i8") for name in NUMBERS}
    floats = {name: _array(folder, name, "<f8") for name in FLOATS}
    texts = {name: _texts(folder, name) for name in TEXTS}
    vectors = {name: _array(folder, f"{name}_vectors", "<f4") for name in VECTORS}
    phrases, triple_phrases = texts["phrases"], numbers["triple_phrases"]
    stored, relations, names = texts["passages"], texts["relations"], texts["targets"]
    pairs = {
        kind: checked_pairs(
            f"edge_{kind}_starts",
            numbers[f"edge_{kind}_starts"],
            numbers[f"edge_{kind}s"],
            len(names),
        )
        for kind in ("passage", "phrase")
    }

    def keyed(position: int) -> KeyedTriple:
        subject, object_ = triple_phrases[position].tolist()
        return KeyedTriple(phrases[subject], relations[position], phrases[object_])

    corpus = Corpus(
        passages=_all(_Made(len(stored), lambda i: _live(stored[i]), folder / "passages.npy")),
        phrases=_all(phrases),
        lengths=numbers["lengths"],
        checksums=numbers["checksums"],
        triples=_all(_Made(len(relations), keyed, folder / "relations.npy")),
        triple_phrases=triple_phrases,
        starts=numbers["starts"],
        occurrences=numbers["occurrences"],
        spellings=texts["spellings"],
        synonyms=SynonymPairs(
            numbers["synonyms_left"], numbers["synonyms_right"], floats["synonyms_cosine"]
        ),
        edges=UserEdges(
            starts=numbers["edge_starts"],
            targets=numbers["edge_targets"],
            weights=floats["edge_weights"],
            names=_Made(len(names), lambda i: _target(names[i]), folder / "targets.npy"),
            passages=pairs["passage"],
            phrases=pairs["phrase"],
        ),
        passage_vectors=VectorRows(VectorView.of(vectors["passage"]), numbers["passage_rows"]),
        phrase_vectors=VectorRows(VectorView.of(vectors["phrase"]), np.arange(len(phrases))),
        triple_vectors=VectorRows(VectorView.of(vectors["triple"]), numbers["triple_rows"]),
    )
    check_corpus(corpus, vectors)
    return corpus


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read; what is no file, such as a pipe, would keep its reader waiting.

    Raises:
        OSError: It is none, or a link.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(f"{path} is no regular file")
    return path.open("rb")


def file_hash(path: Path) -> str:
    """Give a file's sha256."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- texts -----------------------------------------------------------------------------------------


class _Texts(Sequence[str]):
    """Texts in one array of bytes, decoded when they are asked for."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64], path: Path) -> None:
        self._data = data
        self._ends = ends
        self._path = path

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        start = self._ends[position - 1] if position else 0
        with _telling(self._path):
            return self._data[start : self._ends[position]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        data, start = self._data.tobytes(), 0
        with _telling(self._path):
            for end in self._ends.tolist():
                yield data[start:end].decode()
                start = end


class _Made(Sequence[T]):
    """Values that are made, by position, when they are asked for."""

    def __init__(self, count: int, make: Callable[[int], T], path: Path) -> None:
        self._count = count
        self._make = make
        self._path = path  # of what they are made from

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> list[T]: ...
    def __getitem__(self, position: int | slice) -> T | list[T]:
        with _telling(self._path):
            if isinstance(position, slice):
                return [*map(self._make, range(*position.indices(self._count)))]
            return self._make(position)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Turn the error of a text that was never written into one that tells the way out."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreCorruptError(
            f"{path} is damaged ({error!s:.200}); rebuild() derives it from the store again"
        ) from error


def _all(items: Sequence[T]) -> Selection[T]:
    return Selection(items, np.arange(len(items)))


def _passage_json(live: Live) -> str:
    p = live.passage
    parts = [p.id, p.text, p.title, p.source_id, dict(p.metadata), p.embed_text]
    return canonical_json([*parts, live.status.value])


def _live(text: str) -> Live:
    id_, body, title, source_id, metadata, embed_text, status = json.loads(text)
    return Live(Passage(body, id_, title, source_id, metadata, embed_text), Status(status))


def _target(text: str) -> Target:
    kind, _, name = text.partition(" ")
    if kind not in TARGET_KINDS:
        raise ValueError(f"{kind!r} is no kind of target")
    return Target(kind, name)


def _write_texts(folder: Path, name: str, items: Iterator[str]) -> None:
    encoded = [item.encode() for item in items]
    ends = np.fromiter(accumulate(map(len, encoded)), dtype="<i8", count=len(encoded))
    _write_array(folder, name, np.frombuffer(b"".join(encoded), dtype=np.uint8), "|u1")
    _write_array(folder, f"{name}_ends", ends, "<i8")


def _texts(folder: Path, name: str) -> _Texts:
    data, ends = _array(folder, name, "|u1"), _array(folder, f"{name}_ends", "<i8")
    if len(ends) and (ends[0] < 0 or ends[-1] != len(data) or (np.diff(ends) < 0).any()):
        raise DamagedFilesError(f"{name}: the texts do not end where they should")
    return _Texts(data, ends, folder / f"{name}.npy")


# -- vectors ---------------------------------------------------------------------------------------


def _first_uses(vectors: VectorRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the positions that first use each row, and for each position which of those it is."""
    _, first, which = np.unique(vectors.rows, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.astype(np.int64)


def _write_vectors(folder: Path, name: str, vectors: VectorRows) -> None:
    shape = (len(vectors), vectors.view.dimension)
    path = folder / f"{name}_vectors.npy"
    if 0 in shape:
        _write_array(folder, f"{name}_vectors", np.zeros(shape), "<f4")
        return
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=shape)
    for start in range(0, shape[0], BLOCK):
        some = np.arange(start, min(start + BLOCK, shape[0]))
        matrix[some] = np.asarray(vectors.at(some))
    matrix.flush()


def _write_array(folder: Path, name: str, array: NDArray[Any], dtype: str) -> None:
    np.save(folder / f"{name}.npy", np.ascontiguousarray(array, dtype), allow_pickle=False)


# -- opening ---------------------------------------------------------------------------------------


def _array(folder: Path, name: str, dtype: str) -> NDArray[Any]:
    """Map an array, if it is one of this type, and exactly as long as its header says."""
    path = folder / f"{name}.npy"
    with open_regular(path) as file:
        header = _HEADER.match(file.read(_HEADER_BYTES))
        size = file.seek(0, SEEK_END)
    if header is None or header["type"].decode() != dtype:
        raise DamagedFilesError(f"{path.name}: not the array that it should be")
    shape = tuple(int(n) for n in header["shape"].decode().replace(",", " ").split())
    if len(shape) != _DIMENSIONS.get(name, 1):
        raise DamagedFilesError(f"{path.name}: an array of {len(shape)} dimensions")
    entries = math.prod(shape)
    if size != len(header[0]) + entries * np.dtype(dtype).itemsize:
        raise DamagedFilesError(f"{path.name}: {size} bytes are not an array of shape {shape}")
    if not entries:  # which cannot be mapped
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset=len(header[0]), shape=shape))
