"""Deterministic stand-ins for models, for the tests of whoever uses this package."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hippo_core.costs import TokenUsage
from hippo_core.ports import ChatModel, Embedder
from hippo_core.prompts import Prompts
from hippo_core.text import sha256_hex
from hippo_core.types import Completion, Extraction, Kind, Message

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


class SlowChatModel:
    """Answers as another chat model does, after a fixed time, as one on a server would.

    >>> slow = SlowChatModel(ScriptedChatModel(["Hi!"]), seconds=0.01)
    >>> slow.complete([Message("user", "Hi?")]).text
    'Hi!'
    """

    def __init__(self, inner: ChatModel, seconds: float) -> None:
        self.name = _name(inner)
        self.seconds = seconds
        self._inner = inner

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        time.sleep(self.seconds)
        return self._inner.complete(messages)

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        await asyncio.sleep(self.seconds)
        return await self._inner.acomplete(messages)


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
            self._table[tuple(Prompts().entities(text))] = json.dumps({"named_entities": entities})
            self._table[tuple(Prompts().triples(text, entities))] = json.dumps({"triples": triples})
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


@dataclass(frozen=True, slots=True)
class LoggedReply:
    """A reply that a logged model acknowledged."""

    kind: str
    """`chat`, or what texts were embedded for."""
    keys: tuple[str, ...]
    """What was asked: a hash of the messages, or the texts that were embedded in one call."""
    asker: str
    """The process and, in it, the task or thread that asked."""


class LoggedChatModel:
    """A chat model whose replies are in a file, and on disk, before they are given back.

    So the file tells after a crash which replies were paid for. Threads and processes may share it.
    """

    def __init__(self, inner: ChatModel, path: str | Path) -> None:
        self.name = _name(inner)
        self._inner = inner
        self._path = path

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        completion = self._inner.complete(messages)
        self._log(messages)
        return completion

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        completion = await self._inner.acomplete(messages)
        self._log(messages)
        return completion

    def _log(self, messages: Sequence[Message]) -> None:
        key = sha256_hex(*(part for message in messages for part in message))
        _append(self._path, LoggedReply("chat", (key,), _asker()))


class LoggedEmbedder:
    """An embedder whose replies are in a file, and on disk, before they are given back."""

    def __init__(self, inner: Embedder, path: str | Path) -> None:
        self.name = _name(inner)
        self.one_query_encoding = bool(getattr(inner, "one_query_encoding", False))
        self._inner = inner
        self._path = path

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts."""
        rows = self._inner.embed(texts, kind)
        _append(self._path, LoggedReply(kind, tuple(texts), _asker()))
        return rows

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts."""
        rows = await self._inner.aembed(texts, kind)
        _append(self._path, LoggedReply(kind, tuple(texts), _asker()))
        return rows


def replies(path: str | Path) -> list[LoggedReply]:
    """Read a file of logged replies, in the order in which they were given back.

    A line that its process could not finish is left out: it was killed before the reply was given.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found = []
    for line in filter(None, lines):
        try:
            logged = json.loads(line)
        except ValueError:
            continue
        found.append(LoggedReply(logged["kind"], tuple(logged["keys"]), logged["asker"]))
    return found


def _append(path: str | Path, reply: LoggedReply) -> None:
    # The line break comes first: it ends the line that a killed process left half-written.
    line = b"\n" + json.dumps(asdict(reply)).encode("ascii")
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        while line:  # nearly always one write, so that lines of others do not come between
            line = line[os.write(file, line) :]
        os.fsync(file)
    finally:
        os.close(file)


def _asker() -> str:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    name = task.get_name() if task else threading.current_thread().name
    return f"{os.getpid()} {name}"


def _name(model: object) -> str:
    return str(getattr(model, "name", "") or type(model).__qualname__)


def _in_order(replies: Sequence[Reply]) -> Callable[[Sequence[Message]], Reply]:
    remaining = iter(replies)

    def reply(_messages: Sequence[Message]) -> Reply:
        try:
            return next(remaining)
        except StopIteration:
            raise AssertionError("the script has no reply left") from None

    return reply
