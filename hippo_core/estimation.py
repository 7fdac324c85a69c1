"""Estimation: what an `add` would cost, before any call is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from hippo_core.contributions import contribution
from hippo_core.costs import Estimate, Prices, Stage, StageUsage, Usage
from hippo_core.extracting import finished_extractions, pieces_for, require_reader
from hippo_core.flows import Models
from hippo_core.index import HippoIndex
from hippo_core.pieces import prompt_tokens, titled
from hippo_core.planning import Plan
from hippo_core.records import part_key, text_key
from hippo_core.tokens import count_tokens, counted_by
from hippo_core.types import Kind, Passage


class _Line(NamedTuple):
    """A figure that grows with the tokens of a passage, as a straight line."""

    slope: float
    start: float = 0.0

    def at(self, tokens: int) -> float:
        return self.start + self.slope * tokens


# Least squares over 1,890 passages of Wikipedia as GPT-3.5 read them, in tokens of o200k_base.
_ENTITIES = _Line(0.23, 28)  # tokens of a reply
_TRIPLES = _Line(0.79, 68)  # tokens of a reply
_NEW_PHRASES = _Line(0.080)  # phrases that no passage before has; each is embedded once
_NEW_TRIPLES = _Line(0.083)
_TOKENS_OF_PHRASE = 4.5
_TOKENS_OF_TRIPLE = 9.6


def estimate(
    plan: Plan, index: HippoIndex, models: Models, extractor: str, prices: Prices | None
) -> Estimate:
    """Say what carrying out a plan would cost, with no reply that has to be asked for twice.

    Prompts and passages are counted, replies estimated by the length of their passage.

    Raises:
        ModelRequiredError: Passages would have to be read, and nothing can.
    """
    passages = {text_key(p.full_text): p for p in plan.changed.values()}
    known = finished_extractions(index, passages.keys())
    missing = {key: p for key, p in passages.items() if key not in known}
    usage = Usage()
    if missing:
        require_reader(models, len(missing))
    if missing and models.openie is None:
        usage += _reading(missing.values(), index, models, extractor)
    texts: dict[Kind, set[str]] = {
        "passage": {p.embedded_text for p in plan.changed.values()},
        "phrase": set(),
        "triple": set(),
    }
    for key, extraction in known.items():
        read = contribution(passages[key], extraction)
        texts["phrase"] |= read.phrases
        texts["triple"] |= {index.render(triple) for triple in read.triples}
    usage += _embedding(texts, missing.values(), index)
    cost = None if prices is None else prices.of(usage)
    return Estimate(len(missing), usage, counted_by(), cost)


def _reading(
    passages: Iterable[Passage], index: HippoIndex, models: Models, extractor: str
) -> Usage:
    """Estimate the calls of the chat model."""
    pieces, prompts = pieces_for(index, models), models.prompts
    entities = triples = StageUsage()
    by_key: dict[str, str] = {}
    for passage in passages:
        key = text_key(passage.full_text)
        parts = [titled(passage.title, p) for p in pieces.of(passage.title, passage.text)]
        by_key |= {key: parts[0]} if len(parts) == 1 else {part_key(key, p): p for p in parts}
    done = finished_extractions(index, by_key.keys(), extractor=extractor)
    with index.store.read() as reader:
        for key, part in by_key.items():
            if key in done:
                continue
            tokens = count_tokens(part)
            named = reader.entities(index.namespace, key, extractor)
            if named is None:
                prompt = prompt_tokens(prompts.entities(part))
                entities += _call(prompt, _ENTITIES.at(tokens))
                prompt = prompt_tokens(prompts.triples(part, ())) + round(_ENTITIES.at(tokens))
            else:
                prompt = prompt_tokens(prompts.triples(part, named))
            triples += _call(prompt, _TRIPLES.at(tokens))
    stages: dict[Stage, StageUsage] = {"entities": entities, "triples": triples}
    return Usage({stage: used for stage, used in stages.items() if used.calls})


def _call(prompt: int, reply: float) -> StageUsage:
    return StageUsage(calls=1, input_tokens=prompt, output_tokens=round(reply), estimated=True)


def _embedding(
    texts: Mapping[Kind, set[str]], unread: Iterable[Passage], index: HippoIndex
) -> Usage:
    """Estimate the calls of the embedder: for known texts, and for those yet to be read."""
    batch = index.config.embed_batch_size
    calls = count = 0
    tokens = 0.0
    to_read = [count_tokens(passage.full_text) for passage in unread]
    expected: dict[Kind, tuple[float, float]] = {
        "phrase": (_NEW_PHRASES.at(sum(to_read)), _TOKENS_OF_PHRASE),
        "triple": (_NEW_TRIPLES.at(sum(to_read)), _TOKENS_OF_TRIPLE),
    }
    for kind, known in texts.items():
        with index.store.read() as reader:
            there = reader.vectors(index.namespace, kind, known)
        new = known - there.keys()
        more, length = expected.get(kind, (0.0, 0.0))
        here = len(new) + round(more)
        calls += ceil(here / batch)
        count += here
        tokens += sum(map(count_tokens, new)) + more * length
    if not calls:
        return Usage()
    used = StageUsage(calls=calls, texts=count, input_tokens=round(tokens), estimated=True)
    return Usage({"embedding": used})
