"""A corpus of any size out of a seed, and an embedder that keeps up with it.

Phrases recur by Zipf's law, about as often as in MuSiQue. They come in families of up to four
spellings, which are synonyms of each other. Passage i is the same in a corpus of any size.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hippo_core import Extraction, Kind, Passage, Triple

FAMILIES = 60_000
ZIPF = 0.7
PHRASES = 10  # drawn for a passage
TRIPLES = 8
VERBS = 200
WORDS = 30_000
MIXERS = (2_654_435_761, 2_246_822_519, 3_266_489_917)  # odd: other families, other words
SUFFIXES = ("", " ii", " co", " st")
SHARE_OF_SUFFIX = (0.4, 0.25, 0.2, 0.15)
FIRST_YEAR, LAST_YEAR = 1990, 2029


def passages(
    start: int, stop: int, seed: int = 0, triples: int = TRIPLES
) -> list[tuple[Passage, Extraction]]:
    """Give passages by number, with their extractions; `year` in the metadata is any of forty."""
    return [_passage(number, seed, triples) for number in range(start, stop)]


def questions(count: int, among: int, seed: int = 0) -> list[str]:
    """Give questions about phrases of the first `among` passages."""
    random = np.random.default_rng([seed, 1])
    found = []
    for number in random.integers(0, among, count):
        _, extraction = _passage(int(number), seed, TRIPLES)
        first, second = extraction.triples[0], extraction.triples[-1]
        found.append(f"What does {first.subject} {first.relation}, and who {second.object}?")
    return found


def _passage(number: int, seed: int, triples: int) -> tuple[Passage, Extraction]:
    random = np.random.default_rng([seed, 0, number])
    families = np.searchsorted(_zipf(), random.random(PHRASES)).tolist()
    spellings = random.choice(len(SUFFIXES), PHRASES, p=SHARE_OF_SUFFIX).tolist()
    phrases = [phrase(f, s) for f, s in zip(families, spellings, strict=True)]
    subjects = np.minimum(random.geometric(0.6, triples) - 1, 2).tolist()
    verbs = random.integers(0, VERBS, triples).tolist()
    told = tuple(
        Triple(phrases[subject], word(verb), phrases[2 + place % (PHRASES - 2)])
        for place, (subject, verb) in enumerate(zip(subjects, verbs, strict=True))
    )
    text = " ".join(f"{t.subject} {t.relation} {t.object}." for t in told)
    year = int(random.integers(FIRST_YEAR, LAST_YEAR + 1))
    passage = Passage(text, id=f"p{number:07}", metadata={"year": year})
    return passage, Extraction(tuple(dict.fromkeys(phrases)), told)


@cache
def _zipf() -> NDArray[np.float64]:
    shares = 1.0 / np.arange(1, FAMILIES + 1) ** ZIPF
    whole: NDArray[np.float64] = np.cumsum(shares)
    return whole / whole[-1]


def phrase(family: int, spelling: int) -> str:
    """Spell a phrase: three words of its family, and maybe a short one.

    >>> phrase(7, 0), phrase(7, 1)
    ('sekose dazito lofora', 'sekose dazito lofora ii')
    """
    mixed = [
        family * factor % 2**32 >> 8 for factor in (2_654_435_761, 2_246_822_519, 3_266_489_917)
    ]
    return " ".join(word(place % WORDS + 200) for place in mixed) + SUFFIXES[spelling]


def word(number: int) -> str:
    """Give a word that can be said."""
    consonants, vowels = "bdfgklmnprstvzhjcwxq", "aeiou"
    syllables = []
    for _ in range(3):
        number, rest = divmod(number * 37 + 11, 100)
        syllables.append(consonants[rest // 5] + vowels[rest % 5])
    return "".join(syllables)


class WordEmbedder:
    """Embeds a text as the sum of its words' random vectors, many texts at once.

    Words of two letters count half, so that the spellings of one family are near each other.
    """

    one_query_encoding = True

    def __init__(self, dimension: int = 384) -> None:
        self.name = f"words {dimension}"
        random = np.random.default_rng(0)
        self._vectors = random.standard_normal((1 << 15, dimension), dtype=np.float32)
        self.seconds = 0.0
        """Spent embedding so far."""

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d)."""
        began = time.perf_counter()
        places, weights, ends = [], [], [0]
        for text in texts:
            for place, weight in _words(text):
                places.append(place)
                weights.append(weight)
            ends.append(len(places))
        shape = (len(texts), len(self._vectors))
        counts = sp.csr_array((np.array(weights, dtype=np.float32), places, ends), shape=shape)
        rows = np.asarray(counts @ self._vectors, dtype=np.float32)
        self.seconds += time.perf_counter() - began
        return rows

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d)."""
        return self.embed(texts, kind)


def _words(text: str) -> Iterator[tuple[int, float]]:
    for found in re.findall(r"\w+", text.casefold()) or [text]:
        yield zlib.crc32(found.encode()) & 0x7FFF, 0.5 if len(found) <= 2 else 1.0
