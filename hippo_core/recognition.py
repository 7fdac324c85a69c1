"""Recognition memory: the choice among linked triples (HippoRAG 2, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hippo_core.errors import ModelError, ParseError
from hippo_core.flows import Choose, Complete, Flow, Models
from hippo_core.parsing import parse_choice
from hippo_core.prompts import recognition_prompt
from hippo_core.types import Completion, RetrievalPath, Triple


class Recognition(NamedTuple):
    """Which candidates stay, and how that came about."""

    kept: tuple[int, ...]
    path: RetrievalPath
    detail: str = ""


def recognise(
    query: str, candidates: Sequence[Triple], limit: int, models: Models
) -> Flow[Recognition]:
    """Ask once which candidates help to answer the query, by number.

    "None" is an answer: dense ranking follows. A reply that cannot be read, or a call that failed,
    is no answer: all candidates stay, and the path says so.
    """
    everything = tuple(range(len(candidates)))
    try:
        if models.recognition is not None:
            chosen = yield Choose(query, candidates)
            known = dict.fromkeys(int(i) for i in chosen if 0 <= int(i) < len(candidates))
        else:
            prompt = recognition_prompt(query, candidates, limit)
            completion: Completion = yield Complete(prompt, "recognition")
            known = dict.fromkeys(parse_choice(completion.text, len(candidates)).value)
    except ParseError as error:
        return Recognition(everything, RetrievalPath.UNFILTERED_UNREADABLE, str(error))
    except ModelError as error:
        return Recognition(everything, RetrievalPath.UNFILTERED_FAILED, str(error))
    kept = tuple(known)[:limit]
    return Recognition(kept, RetrievalPath.GRAPH if kept else RetrievalPath.DENSE_NONE_KEPT)
