"""Recognition memory: the choice among linked triples (HippoRAG 2, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hippo_core.errors import ModelError, ParseError
from hippo_core.flows import Choose, Complete, Flow, Models
from hippo_core.parsing import parse_choice
from hippo_core.prompts import checked
from hippo_core.types import Completion, RetrievalPath, Triple


class Recognition(NamedTuple):
    """Which candidates stay, and how that came about."""

    kept: tuple[int, ...]
    path: RetrievalPath
    detail: str = ""


def recognise(
    query: str,
    candidates: Sequence[Triple],
    limit: int,
    models: Models,
    *,
    sources: Sequence[str] | None = None,
    otherwise: tuple[int, ...] | None = None,
    strict: bool = False,
) -> Flow[Recognition]:
    """Ask once which candidates help to answer the query, by number.

    "None" is an answer: dense ranking follows. A reply that cannot be read, or a call that failed,
    is no answer: what was to be taken without a judge stays, and the path says so. Numbers that are
    no candidate's are passed over.

    Args:
        query: What is asked.
        candidates: Best first.
        limit: How many may be kept.
        models: With a chat model or a judge of its own.
        sources: For a chat model, the title of the passage that each is taken from, or "".
        otherwise: Which candidates stay where there is no answer; None for all.
        strict: Whether no answer is an error.

    Raises:
        ParseError: The reply cannot be read, and that is an error.
        ModelError: The call failed, and that is an error.
    """
    otherwise = tuple(range(len(candidates))) if otherwise is None else otherwise
    try:
        if models.recognition is not None:
            chosen = [int(i) for i in (yield Choose(query, candidates))]
            known = dict.fromkeys(i for i in chosen if 0 <= i < len(candidates))
            if chosen and not known:
                problem = f"the judge chose {chosen[:5]} of {len(candidates)} candidates"
                raise ParseError(problem, str(chosen))
        else:
            prompt = models.prompts.recognition(query, candidates, limit, sources)
            completion: Completion = yield Complete(checked(prompt, "recognition"), "recognition")
            known = dict.fromkeys(parse_choice(completion.text, len(candidates)).value)
    except (ParseError, ModelError) as error:
        if strict:
            raise
        unreadable = isinstance(error, ParseError)
        path = (
            RetrievalPath.UNFILTERED_UNREADABLE if unreadable else RetrievalPath.UNFILTERED_FAILED
        )
        return Recognition(otherwise, path, str(error))
    kept = tuple(known)[:limit]
    return Recognition(kept, RetrievalPath.GRAPH if kept else RetrievalPath.DENSE_NONE_KEPT)
