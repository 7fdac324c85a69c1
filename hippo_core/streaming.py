"""Streaming: a reply piece by piece, and the whole at its end."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from hippo_core.errors import HippoError, PermanentModelError
from hippo_core.ports import ChatModel, StreamingChatModel
from hippo_core.types import Completion, Message


class Stopped(PermanentModelError):
    """Nobody listens any more."""


class Listener:
    """Hears a reply piece by piece, of one try of a call at a time."""

    def __init__(self, give: Callable[[str], None]) -> None:
        self._give = give
        self._lock = threading.Lock()
        self._try = 0
        self._is_stopped = False
        self.has_begun = False
        """Whether a piece was given on: then no other try may begin."""

    def of_a_try(self) -> Callable[[str], None]:
        """Begin a try: what an earlier one still says is not heard.

        Raises:
            Stopped: By what is given, in the next piece, once nobody listens.
        """
        with self._lock:
            self._try += 1
            number = self._try

        def say(piece: str) -> None:
            with self._lock:
                if self._is_stopped or number != self._try:
                    raise Stopped("nobody listens to the reply any more")
                if piece:
                    self.has_begun = True
                    self._give(piece)

        return say

    def give_up(self) -> bool:
        """Hear no more of a try that is late; say whether it was heard before."""
        with self._lock:
            self._try += 1
            return self.has_begun

    def stop(self) -> None:
        """Listen no more."""
        self._is_stopped = True


def completed(model: ChatModel, messages: Sequence[Message], listener: Listener) -> Completion:
    """Have a prompt answered piece by piece, or in one if the model knows no other way.

    Raises:
        PermanentModelError: It failed after its first piece: another try would say it twice.
    """
    say = listener.of_a_try()
    if not isinstance(model, StreamingChatModel):
        return _said_whole(model.complete(messages), say)
    joined, pieces = _Joined(say), None
    try:
        pieces = model.stream(messages)
        for piece in pieces:
            joined.add(piece)
    except NotImplementedError:  # a model that streams not, behind an adapter that would
        if joined.has_begun:
            raise
        return _said_whole(model.complete(messages), say)
    except Exception as error:  # noqa: BLE001 - the port: what SDKs raise
        joined.fail(error)
    finally:
        _close(pieces)
    return joined.whole()


async def acompleted(
    model: ChatModel, messages: Sequence[Message], listener: Listener
) -> Completion:
    """Do what `completed` does, without blocking the event loop."""
    say = listener.of_a_try()
    if not isinstance(model, StreamingChatModel):
        return _said_whole(await model.acomplete(messages), say)
    joined, pieces = _Joined(say), None
    try:
        pieces = model.astream(messages)
        async for piece in pieces:
            joined.add(piece)
    except NotImplementedError:
        if joined.has_begun:
            raise
        return _said_whole(await model.acomplete(messages), say)
    except Exception as error:  # noqa: BLE001 - the port: what SDKs raise
        joined.fail(error)
    finally:
        await _aclose(pieces)
    return joined.whole()


def _said_whole(whole: Completion, say: Callable[[str], None]) -> Completion:
    if isinstance(whole, Completion):  # else the call's check says what it is
        say(whole.text)
    return whole


class _Joined:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._pieces: list[Completion] = []

    @property
    def has_begun(self) -> bool:
        """Whether some text was given on."""
        return any(piece.text for piece in self._pieces)

    def add(self, piece: Completion) -> None:
        if not isinstance(piece, Completion):
            raise TypeError(f"a ChatModel's stream gives Completions, got {type(piece).__name__}")
        self._pieces.append(piece)
        self._say(piece.text)

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


def _close(pieces: Iterator[Any] | None) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()


async def _aclose(pieces: AsyncIterator[Any] | None) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()
