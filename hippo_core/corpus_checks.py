"""Whether the arrays of a corpus that was mapped fit together: compiled code follows them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hippo_core.corpus import SUBJECT, TRIPLE, Corpus
from hippo_core.types import HEAVIEST
from hippo_core.user_edges import UserEdges

_Numbers = NDArray[np.int64]


class DamagedFilesError(ValueError):
    """The files are not what their manifest says, or contradict each other."""


def check_corpus(corpus: Corpus, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    """Refuse numbers that point to where nothing is.

    Raises:
        DamagedFilesError: Some do, or arrays are not of one length.
    """
    n_passages, n_phrases = len(corpus.passages), len(corpus.phrases)
    n_triples, n_occurrences = len(corpus.triples), len(corpus.occurrences)
    n_synonyms = len(corpus.synonyms.left)
    _check_shapes(
        {
            "lengths": (corpus.lengths, (n_phrases,)),
            "checksums": (corpus.checksums, (n_phrases,)),
            "triple_phrases": (corpus.triple_phrases, (n_triples, 2)),
            "starts": (corpus.starts, (n_passages + 1,)),
            "occurrences": (corpus.occurrences, (n_occurrences, 4)),
            "synonyms_right": (corpus.synonyms.right, (n_synonyms,)),
            "synonyms_cosine": (corpus.synonyms.cosine, (n_synonyms,)),
            "passage_rows": (corpus.passage_vectors.rows, (n_passages,)),
            "triple_rows": (corpus.triple_vectors.rows, (n_triples,)),
        }
    )
    if not np.isfinite(corpus.synonyms.cosine).all():
        raise DamagedFilesError("synonyms_cosine: not a number")
    _check_pointing(
        ("synonyms_left", corpus.synonyms.left, n_phrases),
        ("synonyms_right", corpus.synonyms.right, n_phrases),
    )
    _check_starts("starts", corpus.starts, n_occurrences)
    _check_using(  # what is there is there since it is used
        ("triple_phrases", corpus.triple_phrases, n_phrases),
        ("occurrences of triples", corpus.occurrences[:, TRIPLE], n_triples),
        ("occurrences of spellings", corpus.occurrences[:, SUBJECT:], len(corpus.spellings)),
        ("passage_rows", corpus.passage_vectors.rows, len(vectors["passage"])),
        ("phrase_vectors", corpus.phrase_vectors.rows, len(vectors["phrase"])),
        ("triple_rows", corpus.triple_vectors.rows, len(vectors["triple"])),
    )
    dimensions = {array.shape[1] for array in vectors.values() if len(array)}
    if len(dimensions) > 1:
        raise DamagedFilesError(f"vectors of {' and '.join(map(str, dimensions))} dimensions")
    _check_edges(corpus.edges, n_passages, n_phrases)


def _check_edges(edges: UserEdges, n_passages: int, n_phrases: int) -> None:
    _check_shapes(
        {
            "edge_starts": (edges.starts, (n_passages + 1,)),
            "edge_weights": (edges.weights, (len(edges),)),
        }
    )
    if not ((edges.weights > 0) & (edges.weights <= HEAVIEST)).all():
        raise DamagedFilesError("edge_weights: not the weight of an edge")
    _check_starts("edge_starts", edges.starts, len(edges))
    _check_using(("edge_targets", edges.targets, len(edges.names)))
    _check_pointing(
        ("edge_passages", edges.passages[:, 1], n_passages),
        ("edge_phrases", edges.phrases[:, 1], n_phrases),
    )


def checked_pairs(name: str, starts: _Numbers, seconds: _Numbers, n: int) -> _Numbers:
    """Give pairs, (m, 2), of which the seconds of first i begin at starts[i], for n firsts.

    Raises:
        DamagedFilesError: They do not begin where they should.
    """
    _check_shapes({name: (starts, (n + 1,))})
    _check_starts(name, starts, len(seconds))
    return np.column_stack([np.repeat(np.arange(n), np.diff(starts)), seconds])


def _check_shapes(shapes: Mapping[str, tuple[NDArray[np.generic], tuple[int, ...]]]) -> None:
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise DamagedFilesError(f"{name}: shape {array.shape} and not {shape}")


def _check_starts(name: str, starts: _Numbers, total: int) -> None:
    if starts[0] != 0 or starts[-1] != total or (np.diff(starts) < 0).any():
        raise DamagedFilesError(f"{name}: parts do not begin where they should")


def _check_pointing(*pointing: tuple[str, _Numbers, int]) -> None:
    for name, array, limit in pointing:
        if array.size and not (array.min() >= 0 and array.max() < limit):
            raise DamagedFilesError(f"{name}: a number that points to nothing")


def _check_using(*using: tuple[str, _Numbers, int]) -> None:
    for name, array, limit in using:
        if not _uses_all(array, limit):
            raise DamagedFilesError(f"{name}: not each of {limit} things and nothing else")


def _uses_all(numbers: _Numbers, n: int) -> bool:
    """Whether 0, 1, ... n - 1 are all there, and no other number."""
    if not numbers.size:
        return n == 0
    if numbers.min() < 0 or numbers.max() >= n:
        return False
    used = np.zeros(n, dtype=bool)
    used[numbers.reshape(-1)] = True
    return bool(used.all())
