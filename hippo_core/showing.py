"""Showing: as many passages as leave room for a reply, best first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hippo_core.errors import ConfigError
from hippo_core.pieces import prompt_tokens, shorter
from hippo_core.splitting import split_text
from hippo_core.types import Message

REPLY = 256  # tokens kept free for a reply

Shown = list[tuple[str, str]]  # title and text
Prompt = Callable[[Shown], list[Message]]


def fitting(
    passages: Sequence[tuple[str, str]], prompt: Prompt, context_limit: int | None, what: str
) -> tuple[list[Message], Shown]:
    """Give the prompt with as many of the passages as leave room for a reply, best first.

    Of the best one its beginning is shown where all of it does not fit.

    Args:
        passages: Title and text, best first.
        prompt: Writes what is asked over some of them.
        context_limit: Tokens of prompt and reply; None for no limit.
        what: What is asked for, for an error.

    Raises:
        ConfigError: Nothing fits, not even without a passage.
    """

    def fits(shown: Shown) -> bool:
        return context_limit is None or prompt_tokens(prompt(shown)) + REPLY <= context_limit

    for n in range(len(passages), 0, -1):
        shown = list(passages[:n])
        if fits(shown):
            return prompt(shown), shown
    if not fits([]):
        least = prompt_tokens(prompt([])) + REPLY
        raise ConfigError(
            f"context_limit must be at least {least} tokens for {what}, without any passage; got "
            f"{context_limit}"
        )
    if not passages:
        return prompt([]), []
    title, text = passages[0]
    pieces = split_text(text, lambda piece: fits([(title, piece)]))
    beginning = [(title, pieces[0])]
    return prompt(beginning), beginning


def fewer(shown: Shown) -> Shown:
    """Give about half of what a model refused as too long: nothing where there is little left."""
    if len(shown) > 1:
        return shown[: len(shown) // 2]
    if not shown:
        return []
    title, text = shown[0]
    first, *rest = shorter(text) or [""]
    return [(title, first)] if rest else []
