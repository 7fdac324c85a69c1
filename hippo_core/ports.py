"""What the core asks of the world: a chat model, an embedder, maybe a reader and a judge."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hippo_core.types import Completion, Extraction, Kind, Message, Triple


@runtime_checkable
class ChatModel(Protocol):
    """A chat model. Calls come from several threads at once.

    An implementation may raise what its SDK raises: the caller converts it once, by its status
    code. Turn the SDK's own retries off; the core tries a call `HippoConfig.tries` times. With a
    `call_timeout` each call of `complete` is made in a thread of its own, in the caller's context;
    one that is late goes on there, and its reply is used if it comes. `acomplete` is cancelled.

    An optional attribute `name: str` goes into the extractor's fingerprint.
    """

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt."""
        ...

    async def acomplete(self, messages: Sequence[Message]) -> Completion:
        """Answer a prompt without blocking the event loop."""
        ...


@runtime_checkable
class StreamingChatModel(ChatModel, Protocol):
    """A chat model that can also say a reply piece by piece, for `HippoRAG.stream`.

    Each piece is a Completion: its text is what comes next; usage and finish reason are those of
    the whole, in whichever piece knows them, the last counts. Closing the iterator ends the call.
    """

    def stream(self, messages: Sequence[Message]) -> Iterator[Completion]:
        """Answer a prompt piece by piece."""
        ...

    def astream(self, messages: Sequence[Message]) -> AsyncIterator[Completion]:
        """Answer a prompt piece by piece without blocking the event loop."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """An embedding model. Calls come from several threads at once, as those of a ChatModel do.

    Optional attributes: `name: str`, compared when an index is opened, and `one_query_encoding:
    bool`, True where the three query kinds give the same vector, so that a query is embedded once.
    """

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Give one row per text, shape (n, d), any norm: the core normalises."""
        ...

    async def aembed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Give one row per text, shape (n, d), without blocking the event loop."""
        ...


@runtime_checkable
class OpenIE(Protocol):
    """An extractor that needs no chat model: rules, a local parser, a table."""

    @property
    def fingerprint(self) -> str:
        """Name and version of the extractor, stored with what it reads."""
        ...

    def extract(self, text: str) -> Extraction:
        """Read a passage: its entities and triples."""
        ...

    def query_entities(self, query: str) -> Sequence[str]:
        """Name the entities of a query (HippoRAG)."""
        ...


@runtime_checkable
class RecognitionMemory(Protocol):
    """A judge of linked triples that needs no chat model."""

    def choose(self, query: str, candidates: Sequence[Triple]) -> Sequence[int]:
        """Give the 0-based positions of the candidates that help to answer; empty if none does.

        Other numbers are passed over; if there are no others, that is no answer, and what is linked
        without a judge stays.
        """
        ...
