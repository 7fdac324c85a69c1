"""What an index and its retrievers tell LlamaIndex's event handlers, and its progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.utils import get_tqdm_iterable
from llama_index_instrumentation import get_dispatcher

from hippo_core import IterativeRetrieval, Progress, Retrieval

OnProgress = Callable[[Progress], None]

_dispatcher = get_dispatcher(__name__)


class HippoRAGRetrievalEvent(BaseEvent):
    """After each retrieval: which way it took, what went wrong on it, and what it cost."""

    query: str
    path: str
    detail: str
    triples: list[dict[str, Any]]
    phrases: list[dict[str, Any]]
    usage: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Name the event."""
        return "HippoRAGRetrievalEvent"


class HippoRAGIRCoTEvent(BaseEvent):
    """After the steps of one question: what each of them was and cost, and why it was the last."""

    query: str
    ended: str
    detail: str
    answer: str | None
    steps: list[dict[str, Any]]
    """Of each its number, `thought`, `retrieval`, `ids` of the nodes found, and `usage`."""
    usage: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Name the event."""
        return "HippoRAGIRCoTEvent"


class HippoRAGProgressEvent(BaseEvent):
    """After each node that was read, or could not be."""

    done: int
    failed: int
    total: int
    usage: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Name the event."""
        return "HippoRAGProgressEvent"


def tell_retrieval(found: Retrieval) -> None:
    """Send a retrieval's event, in plain values."""
    _dispatcher.event(HippoRAGRetrievalEvent(**_about_retrieval(found)))


def tell_ircot(found: IterativeRetrieval) -> None:
    """Send the event of a question's steps, in plain values."""
    _dispatcher.event(
        HippoRAGIRCoTEvent(
            query=found.query,
            ended=found.ended.value,
            detail=found.detail,
            answer=found.answer,
            steps=[
                {
                    "step": step.number,
                    "thought": step.thought,
                    "retrieval": step.retrieval and _about_retrieval(step.retrieval),
                    "ids": [hit.passage.id for hit in step.retrieval or ()],
                    "usage": step.usage.as_dict(),
                }
                for step in found.steps
            ],
            usage=found.usage.as_dict(),
        )
    )


def _about_retrieval(found: Retrieval) -> dict[str, Any]:
    return {
        "query": found.query,
        "path": found.path.value,
        "detail": found.detail,
        "triples": [
            {"triple": list(link.triple), "score": link.score, "kept": link.kept}
            for link in found.triples
        ],
        "phrases": [
            {"entity": link.entity, "phrase": link.phrase, "score": link.score}
            for link in found.phrases
        ],
        "usage": found.usage.as_dict(),
    }


@contextmanager
def telling_progress(progress: OnProgress | None, *, show: bool) -> Iterator[OnProgress]:
    """Give a callback that calls another one, sends the event, and draws a bar if it is to."""
    bars: list[Any] = []

    def tell(so_far: Progress) -> None:
        if progress is not None:
            progress(so_far)
        _dispatcher.event(
            HippoRAGProgressEvent(
                done=so_far.done,
                failed=so_far.failed,
                total=so_far.total,
                usage=so_far.usage.as_dict(),
            )
        )
        if show:
            if not bars:  # what is to be read is known now
                bars.append(get_tqdm_iterable((), True, "Reading nodes", so_far.total))
            bars[0].update(so_far.done - bars[0].n)

    try:
        yield tell
    finally:
        for bar in bars:
            bar.close()
