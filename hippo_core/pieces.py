"""Pieces: as much of a passage as fits into one extraction prompt, and what was read of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hippo_core.errors import ConfigError
from hippo_core.prompts import Prompts
from hippo_core.splitting import halves, split_text
from hippo_core.tokens import count_tokens
from hippo_core.types import Extraction, Message, Status

# The prompt for triples holds the passage and its entities, and the reply repeats both in triples:
# for 99 in 100 of 1,890 passages of Wikipedia, read by GPT-3.5, all three together had less.
_TIMES_ITS_TOKENS = 3.5
_AND = 100


def prompt_tokens(messages: Sequence[Message]) -> int:
    """Count the tokens of a prompt's texts."""
    return sum(count_tokens(message.content) for message in messages)


class Pieces:
    """Splits passages that would not leave room for a reply in a model's context.

    Args:
        prompts: What is asked of each piece.
        context_limit: Tokens of prompt and reply together; None for any number.

    Raises:
        ConfigError: The prompts leave no room in it.
    """

    def __init__(self, prompts: Prompts, context_limit: int | None) -> None:
        self._room: float | None = None
        if context_limit is None:
            return
        alone = prompt_tokens(prompts.triples("", ()))
        self._room = (context_limit - alone - _AND) / _TIMES_ITS_TOKENS
        if self._room < _LEAST:
            least = round(alone + _AND + _LEAST * _TIMES_ITS_TOKENS) + 1
            raise ConfigError(
                f"context_limit must be at least {least} tokens: the prompt has {alone} without "
                f"any passage; got {context_limit}"
            )

    def of(self, title: str, text: str) -> list[str]:
        """Give the parts of a text to read, each under the title: one, if all of it fits."""
        whole = titled(title, text)
        if self._room is None or count_tokens(whole) <= self._room:
            return [text]
        room = max(self._room - count_tokens(titled(title, "")), _LEAST)
        return _not_blank(split_text(text, lambda piece: count_tokens(piece) <= room))


_LEAST = 32  # tokens of a piece of use


def titled(title: str, text: str) -> str:
    """Give the text under its title, as it is read."""
    return f"{title}\n{text}" if title else text


def shorter(text: str) -> list[str]:
    """Give the pieces of a text that a model refused as too long: one, if it is short enough."""
    return [text] if count_tokens(text) <= _LEAST else _not_blank(halves(text))


def merged(parts: Sequence[Extraction]) -> Extraction:
    """Join what was read of a passage's pieces, in their order, each thing once.

    It is failed if one of them is, and partial if one of them is; the reason says which.
    """
    if failed := _reasons(parts, Status.FAILED):
        return Extraction(status=Status.FAILED, reason=failed)
    partial = _reasons(parts, Status.PARTIAL)
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    return Extraction(
        entities=tuple(dict.fromkeys(e for part in parts for e in part.entities)),
        triples=tuple(dict.fromkeys(t for part in parts for t in part.triples)),
        status=Status.PARTIAL if partial else Status.OK,
        reason=partial,
        dropped=dict(dropped),
    )


def _reasons(parts: Sequence[Extraction], status: Status) -> str:
    return "; ".join(
        f"part {n} of {len(parts)}: {part.reason}"
        for n, part in enumerate(parts, 1)
        if part.status is status
    )


def _not_blank(pieces: Sequence[str]) -> list[str]:
    return [piece.strip() for piece in pieces if piece.strip()]
