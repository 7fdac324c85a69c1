"""Single words that stand in for titles and quotations while a text is parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A parser takes the sentence inside "It'll Be Me" for a sentence.
_MISLEADING = frozenset(
    "i you he she it we they me him her us them my your his its our their who whom what which when"
    " where why how that this is are was were be am do does did has have had will would can could"
    " and or but in on to for with at by from a an the not".split()
)
_QUOTED = re.compile(r'"(?P<text>[A-Z0-9][^"\n]{0,60}?)(?P<end>[,.]?)"')
_MOST_WORDS = 9


class StandIns:
    """A text in which names that mislead a parser are one made-up word each.

    >>> stand_ins = StandIns('He wrote "What Is This?" in 1960.', [])
    >>> stand_ins.text
    'He wrote Zoraria in 1960.'
    >>> stand_ins.restore("Zoraria")
    'What Is This?'
    """

    def __init__(self, text: str, titles: Sequence[str]) -> None:
        """Replace the misleading forms of the title and what stands in quotes."""
        self._words: dict[str, str] = {}  # by original
        self._stem = "Zor"
        while self._stem in text:
            self._stem += "z"
        self.text = _QUOTED.sub(self._replace_quoted, text)
        for title in titles:
            if _misleads(title):
                pattern = rf"(?<!\w)(?:[Tt]he )?{re.escape(title)}[?!]?(?!\w)"
                self.text = re.sub(pattern, self._word_for(title), self.text)
        self._originals = {word: original for original, word in self._words.items()}
        self._pattern = re.compile("|".join(sorted(map(re.escape, self._originals))) or r"(?!)")

    def has(self, word: str) -> bool:
        """Say whether a word is a stand-in."""
        return word in self._originals

    def restore(self, text: str) -> str:
        """Put the originals back."""
        return self._pattern.sub(lambda match: self._originals[match[0]], text)

    def _replace_quoted(self, match: re.Match[str]) -> str:
        if len(match["text"].split()) > _MOST_WORDS:
            return match[0]
        return self._word_for(match["text"]) + match["end"]

    def _word_for(self, original: str) -> str:
        if original not in self._words:
            number, letters = len(self._words), ""
            while number or not letters:
                number, digit = divmod(number, 20)
                letters += "abdeghiklmnoprstuvyz"[digit]
            self._words[original] = f"{self._stem}{letters}ria"
        return self._words[original]


def _misleads(title: str) -> bool:
    words = re.findall(r"[^\W_]+", title.casefold())
    return len(words) > 1 and (
        any(word in _MISLEADING for word in words) or bool(re.search(r"[?!:;,]", title))
    )
