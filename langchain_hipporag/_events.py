"""What a retriever tells LangChain's handlers, as custom events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import Callbacks, dispatch_custom_event
from langchain_core.runnables.config import ensure_config, get_callback_manager_for_config

from hippo_core import IterativeRetrieval, Progress, Retrieval

OnProgress = Callable[[Progress], None]

RETRIEVAL = "hipporag_retrieval"  # after each retrieval
IRCOT = "hipporag_ircot"  # after the steps of one question
PROGRESS = "hipporag_progress"  # after each document that was read


def about_retrieval(found: Retrieval) -> dict[str, Any]:
    """Say how a retrieval went, in plain values."""
    return {
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


def about_ircot(found: IterativeRetrieval) -> dict[str, Any]:
    """Say what the steps of a question were, and what each of them cost, in plain values."""
    return {
        "ended": found.ended.value,
        "detail": found.detail,
        "answer": found.answer,
        "steps": [
            {
                "step": step.number,
                "thought": step.thought,
                "retrieval": step.retrieval and about_retrieval(step.retrieval),
                "ids": [hit.passage.id for hit in step.retrieval or ()],
                "usage": step.usage.as_dict(),
            }
            for step in found.steps
        ],
        "usage": found.usage.as_dict(),
    }


def about_progress(progress: Progress) -> dict[str, Any]:
    """Say how far an indexing run is, in plain values."""
    return {
        "done": progress.done,
        "failed": progress.failed,
        "total": progress.total,
        "usage": progress.usage.as_dict(),
    }


def telling_progress(progress: OnProgress | None, callbacks: Callbacks) -> OnProgress | None:
    """Give a callback that calls another one and sends the event, where there is a run to send to.

    LangChain knows custom events inside of a run alone: documents are added in a chain, a graph or
    a tool, or `callbacks` is a run's manager.
    """
    config = ensure_config(None if callbacks is None else {"callbacks": callbacks})
    manager = get_callback_manager_for_config(config)
    if manager.parent_run_id is None:
        return progress

    def tell(so_far: Progress) -> None:
        if progress is not None:
            progress(so_far)
        dispatch_custom_event(PROGRESS, about_progress(so_far), config={"callbacks": manager})

    return tell
