"""OpenIE with a chat model: named entities, then triples conditioned on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from hippo_core._reply_lists import CUT_OFF
from hippo_core.control_tokens import as_written, broken_up
from hippo_core.costs import Stage
from hippo_core.errors import EXCERPT, ParseError
from hippo_core.flows import Complete, Flow
from hippo_core.parsing import parse_entities, parse_triples
from hippo_core.prompts import ENTITIES_SHAPE, Prompts, checked
from hippo_core.prompts import fingerprint as prompts_fingerprint
from hippo_core.types import Completion, Extraction, Message, Status, Triple

T = TypeVar("T")
Late = Callable[[T], None]

CUT_ENTITIES = "the reply with the entities was cut by the model's token limit, or on its way"
CUT_TRIPLES = "the reply with the triples was cut by the model's token limit, or on its way"
TRIPLES_SHAPE = '{"triples": [["subject", "relation", "object"]]}'


def fingerprint(model_name: str, prompts: Prompts) -> str:
    """Name the extractor: the model, and the version or a hash of the prompts."""
    return f"{model_name}, prompts {prompts_fingerprint(prompts)}"


def read_entities(
    text: str, prompts: Prompts, late: Late[tuple[tuple[str, ...], str]] | None = None
) -> Flow[tuple[tuple[str, ...], str]]:
    """Ask for the named entities of a passage, and say how the reply was cut, if it was.

    `late` is given what a reply says that comes after its time-out.

    Raises:
        ParseError: Neither the reply nor the second one could be read.
    """

    def read(completion: Completion) -> tuple[tuple[str, ...], str]:
        cut = _is_cut(completion)
        parsed = parse_entities(completion.text, truncated=cut)
        cut = cut or CUT_OFF in parsed.dropped
        reason = _cut(CUT_ENTITIES, completion) if cut else ""
        return tuple(as_written(name, text) for name in parsed.value), reason

    prompt = checked(prompts.entities(text), "entities")
    return (yield from _ask(_Question(prompt, "entities", ENTITIES_SHAPE), read, prompts, late))


def read_triples(
    text: str, entities: Sequence[str], prompts: Prompts, late: Late[Extraction] | None = None
) -> Flow[Extraction]:
    """Ask for the triples of a passage, given its entities.

    A reply that was cut keeps what is whole, and the extraction is partial. `late` is
    given what a reply says that comes after its time-out.

    Raises:
        ParseError: Neither the reply nor the second one could be read.
    """

    def read(completion: Completion) -> Extraction:
        cut = _is_cut(completion)
        parsed = parse_triples(completion.text, truncated=cut)
        cut = cut or CUT_OFF in parsed.dropped  # not every model says so, and streams break off
        triples = tuple(
            Triple(*(as_written(said, text) for said in triple)) for triple in parsed.value
        )
        status = Status.PARTIAL if cut else Status.OK if triples else Status.EMPTY
        reason = _cut(CUT_TRIPLES, completion) if cut else ""
        return Extraction(tuple(entities), triples, status, reason, parsed.dropped)

    prompt = checked(prompts.triples(text, entities), "triples")
    return (yield from _ask(_Question(prompt, "triples", TRIPLES_SHAPE), read, prompts, late))


def read_query_entities(query: str, prompts: Prompts) -> Flow[tuple[str, ...]]:
    """Ask for the named entities of a query (HippoRAG, section 2.2)."""
    prompt = checked(prompts.query_entities(query), "query_entities")
    completion: Completion = yield Complete(prompt, "query_entities")
    names = parse_entities(completion.text).value
    return tuple(as_written(name, query) for name in names)


class _Question(NamedTuple):
    prompt: list[Message]
    stage: Stage
    shape: str


def _ask(
    question: _Question,
    read: Callable[[Completion], T],
    prompts: Prompts,
    late: Late[T] | None,
) -> Flow[T]:
    """Ask, and once more with the complaint if the reply cannot be read."""
    prompt, stage, shape = question

    def keep(completion: Completion) -> None:
        if late is not None:
            late(read(completion))

    completion: Completion = yield Complete(prompt, stage, keep)
    try:
        return read(completion)
    except ParseError as error:
        complaint = checked(prompts.complaint(error.complaint, shape), "complaint")
    said = Message("assistant", broken_up(completion.text))
    completion = yield Complete([*prompt, said, *complaint], stage, keep)
    return read(completion)


def _cut(what: str, completion: Completion) -> str:
    return f"{what}; it began with {completion.text[:EXCERPT]!r}"


def _is_cut(completion: Completion) -> bool:
    return completion.finish_reason in ("length", "max_tokens")
