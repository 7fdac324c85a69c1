"""Anchors: the phrases of the graph that stand verbatim in a question, in any script.

They choose among triples and never seed the walk. No model names them: every stretch of the
question that may be a phrase is looked up among the keys of the graph, by its checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from hippo_core.text import checksum, normalise_phrase

MOST_WORDS = 8  # of an anchor
_CHARACTERS = 3  # of a script without spaces that count as one word
_LONGEST = MOST_WORDS * _CHARACTERS
_MOST_PIECES = 2 * _LONGEST  # each with an apostrophe

STOP_WORDS = frozenset(
    "a an the this that these those there it its of in on at to for from by with as into than then "
    "and or but not no is are was were be been being do does did has have had can could will would "
    "who whom whose what which when where why how his her their they he she many much".split()
)
"""English words that are no anchors alone. In other languages a phrase's count says enough."""

# Scripts that put no spaces between words, by the blocks of their letters.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x312F),  # Han radicals, Kana, Bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),  # Han
    (0x20000, 0x3FFFF),
)
_HANGUL = (0xAC00, 0xD7A3)  # words are spaced, but particles are written onto them


class PhraseLookup:
    """Finds phrases among the keys of a corpus, of which there may be millions.

    Args:
        phrases: The keys.
        checksums: (n_phrases,), of each key.
        aliases: Groups of keys that stand for one phrase, one of which is among the keys.
    """

    def __init__(
        self,
        phrases: Sequence[str],
        checksums: NDArray[np.int64],
        aliases: Iterable[Sequence[str]] = (),
    ) -> None:
        self._phrases = phrases
        self._order = np.argsort(checksums)
        self._checksums = checksums[self._order]
        self._aliases: dict[str, int] = {}
        for group in aliases:
            there = [position for position in self.find(group) if position is not None]
            self._aliases |= dict.fromkeys(group, there[0]) if there else {}

    def find(self, texts: Sequence[str]) -> list[int | None]:
        """Give the position of each text among the phrases; None where it is none of them."""
        sums = np.fromiter(map(checksum, texts), dtype=np.int64, count=len(texts))
        first = np.searchsorted(self._checksums, sums)
        found: list[int | None] = [self._aliases.get(text) for text in texts]
        inside = np.flatnonzero(first < len(self._checksums))
        alike = inside[self._checksums[first[inside]] == sums[inside]]
        for i in alike.tolist():
            if found[i] is None:
                found[i] = self._among(int(first[i]), int(sums[i]), texts[i])
        return found

    def _among(self, place: int, sum_: int, text: str) -> int | None:
        """Compare a text with the phrases of one checksum, which are most often one."""
        while place < len(self._order) and self._checksums[place] == sum_:
            if self._phrases[int(self._order[place])] == text:
                return int(self._order[place])
            place += 1
        return None


def find_anchors(query: str, lookup: PhraseLookup) -> tuple[int, ...]:
    """Give the positions of the phrases that stand in a query, each once, as they stand there.

    The longest come first and none overlaps one before: of "Clifton Suspension Bridge" the phrase
    "bridge" is no anchor. A phrase begins and ends with a word; in a script without spaces
    anywhere; in Korean it may end before a particle; an apostrophe ends a word too, as in "Ada's".
    It is no anchor if it is made of stop words or too short to tell anything: a word of one or two
    letters, of one or two digits, or one character. A vowel sign counts with the letters.

    Args:
        query: As the user wrote it.
        lookup: Of the phrases of the graph.
    """
    text = normalise_phrase(query)
    spans = list(_spans(text))
    positions = lookup.find([text[span.start : span.end] for span in spans])
    there = [
        (span, position)
        for span, position in zip(spans, positions, strict=True)
        if position is not None and _tells(text[span.start : span.end], span.size)
    ]
    there.sort(key=lambda item: (-item[0].size, item[0].start, -item[0].end))
    taken = np.zeros(len(text), dtype=bool)
    chosen: list[tuple[int, int]] = []
    for span, position in there:
        if not taken[span.start : span.end].any():
            taken[span.start : span.end] = True
            chosen.append((span.start, position))
    return tuple(dict.fromkeys(position for _, position in sorted(chosen)))


class _Span(NamedTuple):
    start: int
    end: int
    size: int
    """In thirds of a word."""


class _Piece(NamedTuple):
    """The shortest stretch between two places at which a phrase may begin or end."""

    start: int
    end: int
    size: int
    begins: bool
    """Whether a phrase may begin with it."""


def _spans(text: str) -> Iterator[_Span]:
    """Give every stretch of a normalised text that may be a phrase, up to eight words."""
    pieces = list(_pieces(text))
    for i, first in enumerate(pieces):
        if not first.begins:
            continue
        size = 0
        for piece in pieces[i : i + _MOST_PIECES]:
            size += piece.size
            if size > _LONGEST:
                break
            yield _Span(first.start, piece.end, size)


def _pieces(text: str) -> Iterator[_Piece]:
    start = 0
    for word in text.split(" "):
        if word.isascii() and "'" not in word:
            yield _Piece(start, start + len(word), _CHARACTERS, True)
        else:
            yield from _pieces_of(word, start)
        start += len(word) + 1


def _pieces_of(word: str, offset: int) -> Iterator[_Piece]:
    """Cut a word at apostrophes, between characters of an unspaced script, and after syllables."""
    cuts = [0, *(i for i in range(1, len(word)) if _may_cut(word[i - 1], word[i])), len(word)]
    for start, end in zip(cuts, cuts[1:], strict=False):
        here, before = word[start], word[start - 1] if start else " "
        is_particle = _is_hangul(before) and _is_hangul(here)
        size = 0 if here == "'" else _size(here)
        yield _Piece(offset + start, offset + end, size, here != "'" and not is_particle)


def _size(character: str) -> int:
    return 1 if _is_unspaced(character) or _is_hangul(character) else _CHARACTERS


def _may_cut(before: str, after: str) -> bool:
    if category(after)[0] == "M":  # a vowel sign or an accent belongs to what it stands on
        return False
    if "'" in (before, after):
        return True
    return any(_is_unspaced(c) or _is_hangul(c) for c in (before, after))


def _is_unspaced(character: str) -> bool:
    code = ord(character)
    return code >= _UNSPACED[0][0] and any(low <= code <= high for low, high in _UNSPACED)


def _is_hangul(character: str) -> bool:
    return _HANGUL[0] <= ord(character) <= _HANGUL[1]


def _tells(phrase: str, size: int) -> bool:
    """Whether a phrase may be an anchor: it is more than stop words, and long enough."""
    words = phrase.split(" ")
    if all(word in STOP_WORDS for word in words):
        return False
    if len(words) > 1 or len(phrase) > 2 or size != _CHARACTERS:
        return size > 1
    # One or two characters of one word: C# and U2 tell something.
    return len(phrase) == 2 and not (
        phrase.isdigit() or all(category(c)[0] in "LM" for c in phrase)
    )
