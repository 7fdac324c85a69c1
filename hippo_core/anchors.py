"""Anchors: the phrases of the graph that stand verbatim in a question, in any script.

They choose among triples and never seed the walk. No model names them: every stretch of the
question that may be a phrase is looked up among the keys of the graph, by its checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
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
    (0x1980, 0x19FF),  # New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x312F),  # Han radicals, Kana, Bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9FF),  # Javanese, Myanmar
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
        first = np.empty(len(sums), dtype=np.int64)
        order = np.argsort(sums)  # neighbours are found in memory that was just read
        first[order] = np.searchsorted(self._checksums, sums[order])
        found: list[int | None] = list(map(self._aliases.get, texts))
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
    positions = lookup.find([text[start:end] for start, end, _ in spans])
    there = [
        (-size, start, -end, position)
        for (start, end, size), position in zip(spans, positions, strict=True)
        if position is not None and _tells(text[start:end], size)
    ]
    taken = np.zeros(len(text), dtype=bool)
    chosen: list[tuple[int, int]] = []
    for _, start, minus_end, position in sorted(there):
        if not taken[start:-minus_end].any():
            taken[start:-minus_end] = True
            chosen.append((start, position))
    return tuple(dict.fromkeys(position for _, position in sorted(chosen)))


class _Piece(NamedTuple):
    """The shortest stretch between two places at which a phrase may begin or end."""

    start: int
    end: int
    size: int
    """In thirds of a word."""
    begins: bool
    """Whether a phrase may begin with it."""


def _spans(text: str) -> Iterator[tuple[int, int, int]]:
    """Give start, end and size of all that may be a phrase in a normalised text, to eight words."""
    pieces = list(_pieces(text))
    for i, first in enumerate(pieces):
        if not first.begins:
            continue
        start, size = first.start, 0
        for _, end, size_of_piece, _ in pieces[i : i + _MOST_PIECES]:
            size += size_of_piece
            if size > _LONGEST:
                break
            yield start, end, size


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
    cuts, scripts = [0], [_script(word[0])]
    for place, character in enumerate(word[1:], start=1):
        script = _script(character)
        # A mark, such as a vowel sign or an accent, belongs to what it stands on.
        if script != "mark" and (script in _SIZES or scripts[-1] in _SIZES):
            cuts.append(place)
            scripts.append(script)
    ends, befores = [*cuts[1:], len(word)], ["", *scripts]
    for start, end, script, before in zip(cuts, ends, scripts, befores, strict=False):
        begins = script != "apostrophe" and (before, script) != ("hangul", "hangul")
        yield _Piece(offset + start, offset + end, _SIZES.get(script, _CHARACTERS), begins)


_SIZES = {"unspaced": 1, "hangul": 1, "apostrophe": 0}  # of a character that is a piece


@lru_cache(maxsize=1 << 16)
def _script(character: str) -> str:
    code = ord(character)
    if character == "'":
        return "apostrophe"
    if category(character)[0] == "M":
        return "mark"
    if any(low <= code <= high for low, high in _UNSPACED):
        return "unspaced"
    return "hangul" if _HANGUL[0] <= code <= _HANGUL[1] else "spaced"


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
