"""Splitting: a text that is too long for one prompt, in pieces at the best borders there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# Each gives the text behind which a unit may end; what it matches stays with that unit.
_PARAGRAPH = re.compile(r"\n[^\S\n]*+\n\s*+")
# A full stop needs white space behind it, so that 3.14 is whole; the others of CJK do not.
_SENTENCE = re.compile(r"""[.!?…؟۔।॥][)\]"'”’»]*+\s++|[。！？｡][」』）”’]*+\s*+|\n\s*+""")
_CLAUSE = re.compile(r"[,;:،؛]\s++|[，；：、]\s*+")
_WORD = re.compile(r"\s++")
_BORDERS = (_PARAGRAPH, _SENTENCE, _CLAUSE, _WORD)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into pieces that fit, at the borders of paragraphs, else sentences, and so on.

    Joined they are the text again. What cannot be split further, one character, is a piece though
    it does not fit.

    >>> split_text("Ada wrote. Bob read it. Cy slept.", lambda piece: len(piece) <= 24)
    ['Ada wrote. Bob read it. ', 'Cy slept.']

    Args:
        text: Any text.
        fits: Whether a piece is short enough; where a text is, each part of it must be too.
    """
    return _split(text, fits, _BORDERS)


def halves(text: str) -> list[str]:
    """Split a text into pieces of at most about half its length; a single character stays whole."""
    # Somewhat more, so that a border near the middle will do.
    longest = min(-(-len(text) * 6 // 10), len(text) - 1)
    return split_text(text, lambda piece: len(piece) <= longest)


def _split(text: str, fits: Callable[[str], bool], borders: Sequence[re.Pattern[str]]) -> list[str]:
    if len(text) <= 1 or fits(text):
        return [text]
    if not borders:
        middle = len(text) // 2
        return [*_split(text[:middle], fits, ()), *_split(text[middle:], fits, ())]
    border, *finer = borders
    pieces: list[str] = []
    for unit in _units(text, border):
        if pieces and fits(pieces[-1] + unit):
            pieces[-1] += unit
        else:
            pieces += _split(unit, fits, finer)
    return pieces


def _units(text: str, border: re.Pattern[str]) -> list[str]:
    ends = [match.end() for match in border.finditer(text)]
    starts = [0, *(end for end in ends if end < len(text))]
    return [text[i:j] for i, j in zip(starts, [*starts[1:], len(text)], strict=True)]
