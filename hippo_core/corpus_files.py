"""Corpus files: a corpus on disk, one `.npy` file per array, mapped when it is opened.

They are derived and may be deleted at any time. Integers and floats are little-endian; texts are
UTF-8 with the byte at which each ends. Nothing in them is ever unpickled or run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import KeyedTriple
from hippo_core.corpus import SUBJECT, TRIPLE, Corpus, Live, Selection
from hippo_core.segments import distinct
from hippo_core.synonyms import SynonymPairs
from hippo_core.text import canonical_json
from hippo_core.types import Passage, Status
from hippo_core.vectors import BLOCK, VectorRows, VectorView

T = TypeVar("T")

TEXTS = ("passages", "phrases", "relations", "spellings")
VECTORS = ("passage", "phrase", "triple")
NUMBERS = (
    "lengths",
    "triple_phrases",
    "starts",
    "occurrences",
    "synonyms_left",
    "synonyms_right",
    "passage_rows",
    "triple_rows",
)


class DamagedFilesError(ValueError):
    """The files are not what their manifest says, or contradict each other."""


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
    }
    passage_rows, of_passage = _first_uses(corpus.passage_vectors)
    triple_rows, of_triple = _first_uses(corpus.triple_vectors)
    arrays = {
        "lengths": corpus.lengths,
        "triple_phrases": corpus.triple_phrases,
        "starts": corpus.starts,
        "occurrences": occurrences,
        "synonyms_left": corpus.synonyms.left,
        "synonyms_right": corpus.synonyms.right,
        "passage_rows": of_passage,
        "triple_rows": of_triple,
    }
    for name, items in texts.items():
        _write_texts(folder, name, items)
    for name, numbers in arrays.items():
        np.save(folder / f"{name}.npy", numbers.astype("<i8", copy=False), allow_pickle=False)
    cosines = corpus.synonyms.cosine.astype("<f8", copy=False)
    np.save(folder / "synonyms_cosine.npy", cosines, allow_pickle=False)
    _write_vectors(folder, "passage", corpus.passage_vectors.at(passage_rows))
    _write_vectors(folder, "phrase", corpus.phrase_vectors)
    _write_vectors(folder, "triple", corpus.triple_vectors.at(triple_rows))
    return {path.name: file_hash(path) for path in sorted(folder.iterdir())}


def map_corpus(folder: Path) -> Corpus:
    """Map a corpus that was written; texts and vectors are read as they are needed.

    Raises:
        DamagedFilesError: A file is missing, or its numbers point to where nothing is.
    """
    numbers = {name: _array(folder, name, "<i8") for name in NUMBERS}
    texts = {name: _texts(folder, name) for name in TEXTS}
    vectors = {name: _array(folder, f"{name}_vectors", "<f4") for name in VECTORS}
    phrases, triple_phrases = texts["phrases"], numbers["triple_phrases"]
    corpus = Corpus(
        passages=_all(_Decoded(texts["passages"], _live)),
        phrases=_all(phrases),
        lengths=numbers["lengths"],
        triples=_all(_Triples(phrases, triple_phrases, texts["relations"])),
        triple_phrases=triple_phrases,
        starts=numbers["starts"],
        occurrences=numbers["occurrences"],
        spellings=texts["spellings"],
        synonyms=SynonymPairs(
            numbers["synonyms_left"],
            numbers["synonyms_right"],
            _array(folder, "synonyms_cosine", "<f8"),
        ),
        passage_vectors=VectorRows(VectorView.of(vectors["passage"]), numbers["passage_rows"]),
        phrase_vectors=VectorRows(VectorView.of(vectors["phrase"]), np.arange(len(phrases))),
        triple_vectors=VectorRows(VectorView.of(vectors["triple"]), numbers["triple_rows"]),
    )
    _check(corpus, {name: len(array) for name, array in vectors.items()})
    return corpus


def file_hash(path: Path) -> str:
    """Give a file's sha256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- texts -----------------------------------------------------------------------------------------


class _Texts(Sequence[str]):
    """Texts in one array of bytes, decoded when they are asked for."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._data = data
        self._ends = ends

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
        return self._data[start : self._ends[position]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        data, start = self._data.tobytes(), 0
        for end in self._ends.tolist():
            yield data[start:end].decode()
            start = end


class _Decoded(Sequence[T]):
    """Values that are made of texts when they are asked for."""

    def __init__(self, texts: Sequence[str], decode: Callable[[str], T]) -> None:
        self._texts = texts
        self._decode = decode

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> list[T]: ...
    def __getitem__(self, position: int | slice) -> T | list[T]:
        if isinstance(position, slice):
            return [*map(self._decode, self._texts[position])]
        return self._decode(self._texts[position])


class _Triples(Sequence[KeyedTriple]):
    """Keyed triples, of phrases by position and the relation's text."""

    def __init__(
        self, phrases: Sequence[str], ends: NDArray[np.int64], relations: Sequence[str]
    ) -> None:
        self._phrases = phrases
        self._ends = ends
        self._relations = relations

    def __len__(self) -> int:
        return len(self._relations)

    @overload
    def __getitem__(self, position: int) -> KeyedTriple: ...
    @overload
    def __getitem__(self, position: slice) -> list[KeyedTriple]: ...
    def __getitem__(self, position: int | slice) -> KeyedTriple | list[KeyedTriple]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        subject, object_ = self._ends[position].tolist()
        return KeyedTriple(
            self._phrases[subject], self._relations[position], self._phrases[object_]
        )


def _all(items: Sequence[T]) -> Selection[T]:
    return Selection(items, np.arange(len(items)))


def _passage_json(live: Live) -> str:
    p = live.passage
    parts = [p.id, p.text, p.title, p.source_id, dict(p.metadata), live.status.value]
    return canonical_json(parts)


def _live(text: str) -> Live:
    id_, body, title, source_id, metadata, status = json.loads(text)
    return Live(Passage(body, id_, title, source_id, metadata), Status(status))


def _write_texts(folder: Path, name: str, items: Iterator[str]) -> None:
    encoded = [item.encode() for item in items]
    ends = np.fromiter(accumulate(map(len, encoded)), dtype="<i8", count=len(encoded))
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    np.save(folder / f"{name}.npy", data, allow_pickle=False)
    np.save(folder / f"{name}_ends.npy", ends, allow_pickle=False)


def _texts(folder: Path, name: str) -> _Texts:
    data, ends = _array(folder, name, "|u1"), _array(folder, f"{name}_ends", "<i8")
    if len(ends) and (ends[0] < 0 or ends[-1] != len(data) or (np.diff(ends) < 0).any()):
        raise DamagedFilesError(f"{name}: the texts do not end where they should")
    return _Texts(data, ends)


# -- vectors ---------------------------------------------------------------------------------------


def _first_uses(vectors: VectorRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the positions that first use each row, and for each position which of those it is."""
    _, first, which = np.unique(vectors.rows, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.astype(np.int64)


def _write_vectors(folder: Path, name: str, vectors: VectorRows) -> None:
    shape = (len(vectors), vectors.view.dimension)
    path = folder / f"{name}_vectors.npy"
    if 0 in shape:
        np.save(path, np.zeros(shape, dtype="<f4"), allow_pickle=False)
        return
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=shape)
    for start in range(0, shape[0], BLOCK):
        some = np.arange(start, min(start + BLOCK, shape[0]))
        matrix[some] = np.asarray(vectors.at(some))
    matrix.flush()


# -- opening ---------------------------------------------------------------------------------------


def _array(folder: Path, name: str, dtype: str) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # what is empty cannot be mapped; or it is no array
        try:
            found = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise DamagedFilesError(f"{path.name}: {error}") from error
    except (OSError, EOFError) as error:
        raise DamagedFilesError(f"{path.name}: {error}") from error
    if not isinstance(found, np.ndarray) or found.dtype != np.dtype(dtype):
        raise DamagedFilesError(f"{path.name}: not the numbers that it should hold")
    return np.asarray(found)


def _check(corpus: Corpus, rows: Mapping[str, int]) -> None:
    """Refuse numbers that point to where nothing is: compiled code would follow them."""
    n_passages, n_phrases, n_triples = (
        len(corpus.passages),
        len(corpus.phrases),
        len(corpus.triples),
    )
    n_occurrences = len(corpus.occurrences)
    shapes = {
        "lengths": (corpus.lengths, (n_phrases,)),
        "triple_phrases": (corpus.triple_phrases, (n_triples, 2)),
        "starts": (corpus.starts, (n_passages + 1,)),
        "occurrences": (corpus.occurrences, (n_occurrences, 4)),
        "synonyms_right": (corpus.synonyms.right, corpus.synonyms.left.shape),
        "synonyms_cosine": (corpus.synonyms.cosine, corpus.synonyms.left.shape),
        "passage_rows": (corpus.passage_vectors.rows, (n_passages,)),
        "triple_rows": (corpus.triple_vectors.rows, (n_triples,)),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise DamagedFilesError(f"{name}: shape {array.shape} and not {shape}")
    limits = (
        ("triple_phrases", corpus.triple_phrases, n_phrases),
        ("triples", corpus.occurrences[:, TRIPLE], n_triples),
        ("spellings", corpus.occurrences[:, SUBJECT:], len(corpus.spellings)),
        ("starts", corpus.starts, n_occurrences + 1),
        ("synonyms_left", corpus.synonyms.left, n_phrases),
        ("synonyms_right", corpus.synonyms.right, n_phrases),
        ("passage_rows", corpus.passage_vectors.rows, rows["passage"]),
        ("phrase_vectors", corpus.phrase_vectors.rows, rows["phrase"]),
        ("triple_rows", corpus.triple_vectors.rows, rows["triple"]),
    )
    for name, array, limit in limits:
        if array.size and not (array.min() >= 0 and array.max() < limit):
            raise DamagedFilesError(f"{name}: a number that points to nothing")
    starts = corpus.starts
    if starts[0] != 0 or starts[-1] != n_occurrences or (np.diff(starts) < 0).any():
        raise DamagedFilesError("starts: the occurrences do not begin where they should")
