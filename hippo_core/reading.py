"""Reading: an answer out of retrieved passages (HippoRAG 2, section 3.4)."""

from __future__ import annotations

from typing import NamedTuple

from hippo_core.control_tokens import as_written
from hippo_core.errors import ContextTooLongError, ParseError
from hippo_core.flows import Complete, Flow
from hippo_core.inputs import is_unicode
from hippo_core.iterations import IterativeRetrieval
from hippo_core.parsing import parse_reading
from hippo_core.prompts import Prompts, checked
from hippo_core.showing import Shown, fewer, fitting
from hippo_core.streaming import Listener
from hippo_core.types import Completion, Message, Retrieval


class Read(NamedTuple):
    """What a reader said of some passages."""

    answer: str
    thought: str = ""
    citations: tuple[str, ...] = ()
    is_cut: bool = False


def read(
    question: str,
    found: Retrieval | IterativeRetrieval,
    prompts: Prompts,
    *,
    context_limit: int | None = None,
    listener: Listener | None = None,
) -> Flow[Read]:
    """Ask the chat model the question over the retrieved passages, best first, if there are any.

    It is shown as many as leave room for a reply, and fewer where it refuses them.

    Raises:
        ConfigError: The context limit leaves no room for any passage.
        ModelError: The call failed.
        ParseError: There is no answer in the reply.
    """
    if not found.passages:
        return Read("")
    shown: Shown = [(hit.passage.title, hit.passage.text) for hit in found]

    def prompt(passages: Shown) -> list[Message]:
        return checked(prompts.reading(question, passages), "reading")

    while True:
        asked, shown = fitting(shown, prompt, context_limit, "an answer")
        try:
            completion: Completion = yield Complete(asked, "answer", listener=listener)
        except ContextTooLongError:
            if not (shown := fewer(shown)):
                raise
        else:
            break
    if not is_unicode(completion.text):
        raise ParseError("it holds a lone surrogate", completion.text)
    reading = parse_reading(
        completion.text,
        len(shown),
        label=prompts.answer_label,
        passage_label=prompts.passage_label,
    )
    source = "\n".join([question, *(part for both in shown for part in both)])
    return Read(
        as_written(reading.answer, source),
        as_written(reading.thought, source),
        tuple(found.passages[number - 1].passage.id for number in reading.cited),
        completion.finish_reason == "length",
    )
