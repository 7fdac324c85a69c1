"""Reading: an answer out of retrieved passages (HippoRAG 2, section 3.4)."""

from __future__ import annotations

from hippo_core.flows import Complete, Flow
from hippo_core.parsing import parse_answer
from hippo_core.prompts import reading_prompt
from hippo_core.types import Completion, Retrieval


def read(question: str, retrieval: Retrieval) -> Flow[str]:
    """Ask the chat model the question over the retrieved passages, best first."""
    passages = [(hit.passage.title, hit.passage.text) for hit in retrieval]
    completion: Completion = yield Complete(reading_prompt(question, passages), "answer")
    return parse_answer(completion.text)
