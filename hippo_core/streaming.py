"""Streaming: a reply piece by piece, and the whole at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from hippo_core.errors import HippoError, PermanentModelError
from hippo_core.ports import ChatModel, StreamingChatModel
from hippo_core.types import Completion, Message

OnPiece = Callable[[str], None]


class Stopped(PermanentModelError):
    """Nobody listens any more."""


def completed(model: ChatModel, messages: Sequence[Message], on_piece: OnPiece) -> Completion:
    """Have a prompt answered piece by piece, or in one if the model knows no other way.

    Raises:
        PermanentModelError: It failed after its first piece: another try would say it twice.
    """
    if not isinstance(model, StreamingChatModel):
        whole = model.complete(messages)
        if isinstance(whole, Completion):
            on_piece(whole.text)
        return whole
    joined = _Joined(on_piece)
    pieces = model.stream(messages)
    try:
        for piece in pieces:
            joined.add(piece)
    except NotImplementedError:  # a model that streams not, behind an adapter that would
        if joined.has_begun:
            raise
        whole = model.complete(messages)
        on_piece(whole.text)
        return whole
    except Exception as error:  # noqa: BLE001 - the port: what SDKs raise
        joined.fail(error)
    finally:
        _close(pieces)
    return joined.whole()


async def acompleted(
    model: ChatModel, messages: Sequence[Message], on_piece: OnPiece
) -> Completion:
    """Do what `completed` does, without blocking the event loop."""
    if not isinstance(model, StreamingChatModel):
        whole = await model.acomplete(messages)
        if isinstance(whole, Completion):
            on_piece(whole.text)
        return whole
    joined = _Joined(on_piece)
    pieces = model.astream(messages)
    try:
        async for piece in pieces:
            joined.add(piece)
    except NotImplementedError:
        if joined.has_begun:
            raise
        whole = await model.acomplete(messages)
        on_piece(whole.text)
        return whole
    except Exception as error:  # noqa: BLE001 - the port: what SDKs raise
        joined.fail(error)
    finally:
        await _aclose(pieces)
    return joined.whole()


class _Joined:
    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self._pieces: list[Completion] = []

    @property
    def has_begun(self) -> bool:
        """Whether some text was given on."""
        return any(piece.text for piece in self._pieces)

    def add(self, piece: Completion) -> None:
        if not isinstance(piece, Completion):
            raise TypeError(f"a ChatModel's stream gives Completions, got {type(piece).__name__}")
        self._pieces.append(piece)
        if piece.text:
            self._on_piece(piece.text)

    def fail(self, error: Exception) -> None:
        if isinstance(error, Stopped) or not self.has_begun:
            raise error
        if isinstance(error, HippoError):
            said = str(error)
        else:
            said = f"{type(error).__name__}: {error}"
        raise PermanentModelError(f"the reply broke off after its beginning: {said}") from error

    def whole(self) -> Completion:
        usages = [piece.usage for piece in self._pieces if piece.usage is not None]
        reasons = [piece.finish_reason for piece in self._pieces if piece.finish_reason]
        return Completion(
            "".join(piece.text for piece in self._pieces),
            usages[-1] if usages else None,
            reasons[-1] if reasons else None,
            cached=bool(self._pieces) and all(piece.cached for piece in self._pieces),
        )


def _close(pieces: Iterator[Any]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()


async def _aclose(pieces: AsyncIterator[Any]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
