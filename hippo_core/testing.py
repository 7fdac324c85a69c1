"""Deterministic stand-ins for models, for the tests of whoever uses this package."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hippo_core.prompts import entities_prompt, triples_prompt
from hippo_core.types import Completion, Extraction, Kind, Message, TokenUsage

Reply = str | Completion | Exception


class HashEmbedder:
    """Embeds a text as the sum of its words' fixed random vectors: texts that share words are near.

    >>> a, b = HashEmbedder().embed(["Ada wrote notes", "notes by Ada"], "passage")
    >>> bool(a @ b > 0.3)
    True
    """

    one_query_encoding = True

    def __init__(self, dimension: int = 64, name: str = "hash") -> None:
        self.dimension = dimension
        self.name = name
        self.calls: list[tuple[Kind, list[str]]] = []

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d), unit rows."""
        self.calls.append((kind, list(texts)))
        rows = np.zeros((len(texts), self.dimension))
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.casefold()) or [text]:
                row += self._vector(word)
            row /= np.linalg.norm(row)
        return rows.astype(np.float32)

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts, shape (n, d), unit rows."""
        await asyncio.sleep(0)
        return self.embed(texts, kind)

    def _vector(self, word: str) -> NDArray[np.float64]:
        seed = hashlib.sha256(f"{self.name}:{word}".encode("utf-8", "surrogatepass")).digest()
        return np.random.default_rng(list(seed[:16])).standard_normal(self.dimension)


class ScriptedChatModel:
    """Answers with what a function of the messages gives, or with a list of replies in order.

    An exception is raised instead of returned. `calls` logs the messages of every call.
    """

    def __init__(
        self,
        replies: Callable[[Sequence[Message]], Reply] | Sequence[Reply],
        name: str = "scripted",
    ) -> None:
        self.name = name
        self.calls: list[list[Message]] = []
        self._lock = threading.Lock()
        self._replies = replies if callable(replies) else _in_order(replies)

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        with self._lock:
            self.calls.append(list(messages))
            reply = self._replies(messages)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Completion):
            return reply
        words = sum(len(m.content.split()) for m in messages)
        return Completion(reply, TokenUsage(words, len(reply.split())))

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        await asyncio.sleep(0)
        return self.complete(messages)


class TableChatModel(ScriptedChatModel):
    """Reads passages from a table of extractions, by full text; keeps the first candidates.

    Args:
        table: Extraction by the text that is read (title, newline, text).
        keep: What it answers when it is asked anything else, such as recognition.
    """

    def __init__(
        self, table: Mapping[str, Extraction], keep: str = '{"keep": [1, 2]}', name: str = "table"
    ) -> None:
        self._keep = keep
        self._table: dict[tuple[Message, ...], str] = {}
        for text, extraction in table.items():
            entities = list(extraction.entities)
            triples = [list(t) for t in extraction.triples]
            self._table[tuple(entities_prompt(text))] = json.dumps({"named_entities": entities})
            self._table[tuple(triples_prompt(text, entities))] = json.dumps({"triples": triples})
        super().__init__(self._reply, name)

    def _reply(self, messages: Sequence[Message]) -> Reply:
        return self._table.get(tuple(messages), self._keep)


class TableOpenIE:
    """An OpenIE that looks extractions and query entities up, and finds nothing elsewhere."""

    def __init__(
        self,
        table: Mapping[str, Extraction] | None = None,
        queries: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._table = dict(table or {})
        self._queries = dict(queries or {})
        self.calls: list[str] = []

    @property
    def fingerprint(self) -> str:
        """Name the extractor."""
        return "table"

    def extract(self, text: str) -> Extraction:
        """Look a passage up."""
        self.calls.append(text)
        return self._table.get(text, Extraction())

    def query_entities(self, query: str) -> Sequence[str]:
        """Look a query up."""
        return self._queries.get(query, ())


def _in_order(replies: Sequence[Reply]) -> Callable[[Sequence[Message]], Reply]:
    remaining = iter(replies)

    def reply(_messages: Sequence[Message]) -> Reply:
        try:
            return next(remaining)
        except StopIteration:
            raise AssertionError("the script has no reply left") from None

    return reply
