"""Reading: an answer out of retrieved passages (HippoRAG 2, section 3.4)."""

from __future__ import annotations

from hippo_core.control_tokens import as_written
from hippo_core.flows import Complete, Flow
from hippo_core.parsing import parse_answer
from hippo_core.prompts import Prompts, checked
from hippo_core.types import Completion, Retrieval


def read(question: str, retrieval: Retrieval, prompts: Prompts) -> Flow[str]:
    """Ask the chat model the question over the retrieved passages, best first."""
    passages = [(hit.passage.title, hit.passage.text) for hit in retrieval]
    prompt = checked(prompts.reading(question, passages), "reading")
    completion: Completion = yield Complete(prompt, "answer")
    answer = parse_answer(completion.text, label=prompts.answer_label)
    return as_written(answer, "\n".join([question, *(part for both in passages for part in both)]))
