"""OpenIE with a chat model: named entities, then triples conditioned on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hippo_core._reply_lists import Parsed
from hippo_core.control_tokens import as_written, broken_up
from hippo_core.costs import Stage
from hippo_core.errors import ParseError
from hippo_core.flows import Complete, Flow
from hippo_core.parsing import parse_entities, parse_triples
from hippo_core.prompts import ENTITIES_SHAPE, Prompts, checked
from hippo_core.prompts import fingerprint as prompts_fingerprint
from hippo_core.types import Completion, Extraction, Message, Status, Triple

T = TypeVar("T")

CUT_ENTITIES = "the reply with the entities was cut by the model's token limit"
CUT_TRIPLES = "the reply with the triples was cut by the model's token limit"
TRIPLES_SHAPE = '{"triples": [["subject", "relation", "object"]]}'


def fingerprint(model_name: str, prompts: Prompts) -> str:
    """Name the extractor: the model, and the version or a hash of the prompts."""
    return f"{model_name}, prompts {prompts_fingerprint(prompts)}"


def read_entities(text: str, prompts: Prompts) -> Flow[tuple[tuple[str, ...], bool]]:
    """Ask for the named entities of a passage, and say whether the reply was cut.

    Raises:
        ParseError: Neither the reply nor the second one could be read.
    """
    prompt = checked(prompts.entities(text), "entities")
    parsed, cut = yield from _ask(prompt, "entities", parse_entities, ENTITIES_SHAPE, prompts)
    return tuple(map(as_written, parsed.value)), cut


def read_triples(text: str, entities: Sequence[str], prompts: Prompts) -> Flow[Extraction]:
    """Ask for the triples of a passage, given its entities.

    A reply that the token limit cut keeps what is whole, and the extraction is partial.

    Raises:
        ParseError: Neither the reply nor the second one could be read.
    """
    prompt = checked(prompts.triples(text, entities), "triples")
    parsed, cut = yield from _ask(prompt, "triples", parse_triples, TRIPLES_SHAPE, prompts)
    triples = tuple(Triple(*map(as_written, triple)) for triple in parsed.value)
    status = Status.PARTIAL if cut else Status.OK if triples else Status.EMPTY
    reason = CUT_TRIPLES if cut else ""
    return Extraction(tuple(entities), triples, status, reason, parsed.dropped)


def read_query_entities(query: str, prompts: Prompts) -> Flow[tuple[str, ...]]:
    """Ask for the named entities of a query (HippoRAG, section 2.2)."""
    prompt = checked(prompts.query_entities(query), "query_entities")
    completion: Completion = yield Complete(prompt, "query_entities")
    return tuple(map(as_written, parse_entities(completion.text).value))


def _ask(
    prompt: list[Message],
    stage: Stage,
    parse: Callable[..., Parsed[T]],
    shape: str,
    prompts: Prompts,
) -> Flow[tuple[Parsed[T], bool]]:
    """Ask, and once more with the complaint if the reply cannot be read; say whether it was cut."""
    completion: Completion = yield Complete(prompt, stage)
    try:
        return _parsed(completion, parse)
    except ParseError as error:
        complaint = checked(prompts.complaint(error.complaint, shape), "complaint")
    said = Message("assistant", broken_up(completion.text))
    completion = yield Complete([*prompt, said, *complaint], stage)
    return _parsed(completion, parse)


def _parsed(completion: Completion, parse: Callable[..., Parsed[T]]) -> tuple[Parsed[T], bool]:
    cut = completion.finish_reason in ("length", "max_tokens")
    return parse(completion.text, truncated=cut), cut
