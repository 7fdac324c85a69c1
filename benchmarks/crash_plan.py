"""What a child does until it is killed: a plan of steps out of a seed, and the state after each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from hippo_core import Edge, Extraction, HippoConfig, Passage, Triple

STEPS = 12
CONCURRENCY = 4
CONFIG = HippoConfig(
    concurrency=CONCURRENCY,
    embed_batch_size=2,
    synonymy_threshold=0.75,
    triple_rendering="words",
    recognition_memory=False,
)
METHODS = (
    CONFIG,
    CONFIG.but(method="dense"),
    CONFIG.but(method="hipporag", relation_count="occurrence"),
)
PHRASES = [
    f"{colour} {thing}"
    for colour in ("red", "blue", "old", "red old", "tall")
    for thing in ("fox", "tower", "river", "sea port", "king")
]
QUERIES = {
    "Who saw the red fox at the old tower?": ["red fox", "old tower"],
    "What does the blue king of the sea port own?": ["blue king", "sea port"],
}

What = Literal["add", "given", "update", "metadata", "delete", "reopen"]
State = dict[str, Passage]


class Step(NamedTuple):
    """One operation of the plan."""

    what: What
    passages: tuple[Passage, ...] = ()
    ids: tuple[str, ...] = ()
    on_a_loop: bool = False
    then_retrieve: bool = False


@dataclass
class Plan:
    """The steps of one store, what each text says, and the state after each step."""

    steps: list[Step] = field(default_factory=list)
    table: dict[str, Extraction] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)

    def state_after(self, step: int) -> State:
        """Give the passages by id; step -1 is before the first."""
        return self.states[step] if step >= 0 else {}

    def used_after(self, step: int) -> dict[str, set[str]]:
        """Give the texts whose vectors the passages need, by kind."""
        texts = {p.full_text for p in self.state_after(step).values()}
        told = [triple for text in texts for triple in self.table[text].triples]
        return {
            "passage": texts,
            "phrase": {phrase for t in told for phrase in (t.subject, t.object)},
            "triple": {" ".join(t) for t in told},
        }


def linked(passage: Passage) -> Iterator[Edge]:
    """Give a passage's edges: its text and metadata decide, so that they change with these."""
    number, place = map(int, re.findall(r"\d+", passage.text)[:2])
    for other in (f"id {number - 1}-{place}", f"id {number}-{place + 1}"):
        if other != passage.id:
            yield Edge(passage, to_passage=other, weight=0.5 + place)
    last = passage.metadata.get("step", number)
    yield Edge(passage, to_phrase=PHRASES[(last + place) % len(PHRASES)], weight=3)


def plan_of(seed: Sequence[int]) -> Plan:
    """Make the plan of a seed; each step's texts are its own, so that no extraction recurs."""
    random = np.random.default_rng(list(seed))
    plan = Plan()
    state: State = {}
    for number in range(STEPS):
        step = _step(number, state, random, plan.table)
        state = {**state, **{p.id: p for p in step.passages}}
        state = {id_: p for id_, p in state.items() if id_ not in step.ids}
        plan.steps.append(step)
        plan.states.append(state)
    return plan


def _step(
    number: int, state: State, random: np.random.Generator, table: dict[str, Extraction]
) -> Step:
    options: list[What] = ["add", "add", "add", "given", "update", "update"]
    options += ["metadata", "delete", "delete", "reopen", "reopen"]
    what = options[random.integers(len(options))] if len(state) > 3 else "add"
    on_a_loop, then_retrieve = bool(random.random() < 0.3), bool(random.random() < 0.3)
    some = list(random.permutation(sorted(state))[: random.integers(1, 7)])
    if what in ("add", "given"):
        new = [
            _passage(number, place, f"id {number}-{place}", random, table)
            for place in range(random.integers(4, 10))
        ]
        if what == "add" and some and random.random() < 0.5:
            new.append(state[some[0]])  # unchanged
        return Step(what, tuple(new), (), on_a_loop, then_retrieve)
    if what == "update":
        new = [_passage(number, place, id_, random, table) for place, id_ in enumerate(some)]
        return Step(what, tuple(new), (), on_a_loop, then_retrieve)
    if what == "metadata":
        changed = [replace(state[id_], metadata={"step": number}) for id_ in some]
        return Step(what, tuple(changed), (), on_a_loop, then_retrieve)
    if what == "delete":
        return Step(what, (), tuple(some), on_a_loop, then_retrieve)
    return Step(what, then_retrieve=then_retrieve)


def _passage(
    number: int, place: int, id_: str, random: np.random.Generator, table: dict[str, Extraction]
) -> Passage:
    triples = []
    for _ in range(random.integers(0, 4)):
        subject, object_ = random.choice(PHRASES, 2)
        relation = random.choice(["saw", "owns", "is near"])
        triples.append(Triple(str(subject), str(relation), str(object_)))
    triples = list(dict.fromkeys(triples))  # of a reply with one twice, the parser keeps one
    told = ". ".join(" ".join(triple) for triple in triples)
    passage = Passage(f"Note {number}-{place}. {told}", id=str(id_), metadata={"first": number})
    entities = tuple(dict.fromkeys(p for t in triples for p in (t.subject, t.object)))
    table[passage.full_text] = Extraction(entities, tuple(triples))
    return passage
