"""What LlamaIndex's engines take: all of it reaches the retriever too, which needs none of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from inspect import signature

from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse arguments that neither a retriever nor an engine takes.

    A filter by a name that nobody reads would let everything through.

    Raises:
        TypeError: There is one.

    >>> refuse_unknown(["filter"], ["filters"])
    Traceback (most recent call last):
    TypeError: unexpected keyword arguments: filter; a retriever takes filters
    """
    if unknown := sorted(set(given) - _of_engines()):
        raise TypeError(
            f"unexpected keyword arguments: {', '.join(unknown)}; a retriever takes "
            f"{', '.join(known)}"
        )


@cache
def _of_engines() -> frozenset[str]:
    makers = (
        RetrieverQueryEngine.from_args,
        CitationQueryEngine.from_args,
        CondensePlusContextChatEngine.from_defaults,
        CondenseQuestionChatEngine.from_defaults,
        ContextChatEngine.from_defaults,
        SimpleChatEngine.from_defaults,
    )
    return frozenset(name for maker in makers for name in signature(maker).parameters)
