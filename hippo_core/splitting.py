"""Splitting: a text that is too long for one prompt, in pieces at the best borders there are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial

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
    ends = _unit_ends(text, border)
    pieces: list[str] = []
    done = at = 0  # units, and characters, that are in pieces
    while done < len(ends):
        begin = at - (len(pieces[-1]) if pieces else 0)
        look = partial(_fits_between, text, fits, begin, ends, done)
        if more := _most(len(ends) - done, look):
            pieces[-1:] = [text[begin : ends[done + more - 1]]]
        else:  # not one unit goes behind what the last piece has
            more = 1
            pieces += _split(text[at : ends[done]], fits, finer)
        done += more
        at = ends[done - 1]
    return pieces


def _fits_between(
    text: str, fits: Callable[[str], bool], begin: int, ends: Sequence[int], done: int, units: int
) -> bool:
    return fits(text[begin : ends[done + units - 1]])


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """Give the greatest number up to a limit that fits, in few looks: each may be at much text."""
    least, step = 0, 1
    while least < limit and fits(most := min(least + step, limit)):
        least, step = most, 2 * step
    if least == limit:
        return limit
    return least + bisect_left(range(least + 1, most), True, key=lambda n: not fits(n))


def _unit_ends(text: str, border: re.Pattern[str]) -> list[int]:
    ends = (match.end() for match in border.finditer(text))
    return [*(end for end in ends if end < len(text)), len(text)]
