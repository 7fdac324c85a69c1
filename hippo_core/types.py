"""The values that cross the borders of the package: frozen, and made of plain Python parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from hippo_core.costs import TokenUsage, Usage
from hippo_core.explanations import Explanation

JSON = str | int | float | bool | None | list[Any] | dict[str, Any]

Kind = Literal[
    "passage", "phrase", "triple", "query_to_passage", "query_to_triple", "query_to_phrase"
]
"""What a text is embedded for; an asymmetric encoder or an instruction may depend on it."""

Role = Literal["system", "user", "assistant"]
"""Whose turn of a chat a message is."""


class Triple(NamedTuple):
    """A statement read out of a passage."""

    subject: str
    relation: str
    object: str


class Message(NamedTuple):
    """One turn of a chat prompt."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat model's reply."""

    text: str
    usage: TokenUsage | None = None
    """None where the model did not say; the tokens are counted on our side then."""
    finish_reason: str | None = None
    """`length` where the token limit cut the reply."""
    cached: bool = False
    """True where a cache answered and nothing was paid."""


class Status(StrEnum):
    """What became of a passage's extraction."""

    OK = "ok"
    EMPTY = "empty"
    """Read, and it states no triple."""
    PARTIAL = "partial"
    """The reply was cut; what was whole is kept, and the next `add` asks again."""
    FAILED = "failed"
    """Not read; only dense retrieval finds it, and the next `add` asks again."""

    @property
    def finished(self) -> bool:
        """Whether the next `add` may leave the passage alone."""
        return self in (Status.OK, Status.EMPTY)


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit that is indexed and returned.

    `id` defaults to the sha256 of text, title, source, metadata and, where it is given,
    `embed_text`, so that adding the same passage twice is idempotent.
    `metadata` is JSON: str keys; str, int, float, bool, None, list and dict values.
    """

    text: str
    id: str = ""
    title: str = ""
    source_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embed_text: str = ""
    """Text to embed in place of title and text, such as with metadata; empty: these."""

    @property
    def full_text(self) -> str:
        """Title and text as they are read."""
        return f"{self.title}\n{self.text}" if self.title else self.text

    @property
    def embedded_text(self) -> str:
        """The text that its vector is of: dense retrieval ranks it by that."""
        return self.embed_text or self.full_text

    def copy(self) -> Passage:
        """Give an equal passage that shares no mutable part."""
        return replace(self, metadata=deepcopy(dict(self.metadata)))


HEAVIEST = 1e100
"""Weight of an edge at the most: so the weights of any number of them have a finite sum."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A link of the user's own: from a passage to one target, such as a citation or a hyperlink.

    The walk goes both ways over it. It waits in the store while its target is not there, and goes
    with `passage`. Exactly one target is named.

    >>> Edge("article-12", to_passage="article-30", weight=2.0).to_passage
    'article-30'
    """

    passage: Passage | str
    """Whose edge it is: an id, or a passage, whose id may be left to its content."""
    _: KW_ONLY
    to_passage: Passage | str | None = None
    to_source: str | None = None
    """A source_id: an edge to each passage of that source. So n passages that all name a source of
    n make n * n edges of the graph: name one of its passages where that is enough."""
    to_phrase: str | None = None
    """A phrase of some triple, in any spelling of the same key."""
    weight: float = 1.0
    """Above 0 and at most 1e100; a context edge weighs 1."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What OpenIE read out of one passage, in the passage's own spelling."""

    entities: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    status: Status = Status.OK
    reason: str = ""
    """Why it is partial or failed."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many items of the reply were not usable, by kind."""
    extractor: str = field(default="", compare=False)
    """Who read it, as the store has it: a model and its prompts, rules, or "imported". Two
    extractions that say the same are equal whoever read them."""

    def __post_init__(self) -> None:
        if isinstance(self.entities, str):
            raise TypeError(f"entities must be a list of str, got {self.entities!r}")
        object.__setattr__(self, "triples", tuple(_triple(t) for t in self.triples))
        object.__setattr__(self, "status", Status(self.status))
        for entity in (entities := tuple(self.entities)):
            if not isinstance(entity, str):
                raise TypeError(f"an entity must be a str, got {entity!r}")
        object.__setattr__(self, "entities", tuple(map(str, entities)))


def _triple(fields: Sequence[str]) -> Triple:
    if isinstance(fields, str) or len(fields) != 3 or not all(isinstance(f, str) for f in fields):
        raise TypeError(f"a triple must be subject, relation and object, three str, got {fields!r}")
    return Triple(*map(str, fields))  # of a subclass, such as NumPy's, a plain str


@dataclass(frozen=True, slots=True)
class LinkedTriple:
    """A triple of the graph that the query was linked to, in display forms."""

    triple: Triple
    score: float
    """Min-max scaled over all triples of the index: the best is 1.0. Of a second hop: its cosine
    over that of the best there."""
    passage_ids: tuple[str, ...]
    """The passages that state it."""
    kept: bool = True
    """False where recognition memory dropped it, or, without it, where it is too far from the
    best: it did not seed the walk."""
    hop: int = 1
    """2 for a triple of the second hop: it was found beside a kept one, not by the query alone."""


@dataclass(frozen=True, slots=True)
class LinkedPhrase:
    """A phrase of the graph that an entity of the query was linked to (HippoRAG)."""

    entity: str
    phrase: str
    score: float
    """Cosine of entity and phrase."""


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage as a retrieval ranks it."""

    passage: Passage
    score: float
    """Higher is better; comparable inside one retrieval only."""
    rank: int
    """1 is the best."""
    status: Status = Status.OK
    triples: tuple[Triple, ...] = ()
    """Why it is here: the triples over which most of the walk came to it, best first.

    Each has one of the passage's phrases; it may be stated by another passage."""
    edges: tuple[Edge, ...] = ()
    """The user's edges over which most of the walk came to it, best first."""
    explanation: Explanation | None = None
    """Where the retrieval was asked to explain."""


class RetrievalPath(StrEnum):
    """Which way a retrieval took."""

    GRAPH = "graph"
    UNFILTERED_OFF = "unfiltered: recognition memory off"
    UNFILTERED_UNREADABLE = "unfiltered: reply unreadable"
    UNFILTERED_FAILED = "unfiltered: call failed"
    EDGES = "edges: nothing linked"
    """No passage states a triple, and the walk went over the user's edges."""
    ENSEMBLE = "ensemble: uncertain links"
    DENSE = "dense: as configured"
    DENSE_NONE_KEPT = "dense: none kept"
    DENSE_NOTHING_LINKED = "dense: nothing linked"
    DENSE_NO_ENTITY = "dense: no entity in the query"
    DENSE_FAILED = "dense: query entities not read"
    EMPTY = "empty: no passages"

    @property
    def used_graph(self) -> bool:
        """Whether Personalized PageRank had a part in the ranking."""
        return not self.value.startswith(("dense", "empty"))


@dataclass(frozen=True, slots=True)
class Walk:
    """How the PageRank scores were computed."""

    method: str
    """`power`: power iteration, exact up to the bound."""
    bound: float
    """Bound on the L1 error of the mass, which sums to 1."""
    iterations: int


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The answer to one query: ranked passages, and how they were found."""

    query: str
    passages: tuple[ScoredPassage, ...]
    path: RetrievalPath
    detail: str = ""
    """What went wrong, where the path says that something did."""
    triples: tuple[LinkedTriple, ...] = ()
    """The candidates of linking, best first; `kept` says which of them seeded the walk."""
    anchors: tuple[str, ...] = ()
    """The phrases of the graph that stand in the query, by which triples were chosen."""
    phrases: tuple[LinkedPhrase, ...] = ()
    """HippoRAG: the phrases that the query's entities were linked to."""
    walk: Walk | None = None
    """None where no walk was made."""
    usage: Usage = field(default_factory=Usage)

    def __iter__(self) -> Iterator[ScoredPassage]:
        return iter(self.passages)

    def __len__(self) -> int:
        return len(self.passages)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What became of each passage of one `add`."""

    ids: tuple[str, ...] = ()
    """The passages' ids in input order; a skipped blank passage has none."""
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    """Of the call, and others that share a text of which something else was read now."""
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Reason by id; with on_error="skip" these passages are there for dense retrieval only."""
    partial: Mapping[str, str] = field(default_factory=dict)
    """Reason by id: the reply was cut, the whole triples are indexed."""
    empty: tuple[str, ...] = ()
    """Read, and no triple was found."""
    blank: int = 0
    """Passages without any text, skipped."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Entities and triples that could not be used, by kind."""
    warnings: tuple[str, ...] = ()
    """What looks wrong about the call as a whole, each with its likely cause; logged too."""
    edges: int = 0
    """The user's edges that the call gave, each once; 0 where it left them as they were."""
    pending_edges: int = 0
    """Of these, edges whose target is not there yet."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What a `delete` found."""

    deleted: tuple[str, ...] = ()
    """Ids of the passages that are gone."""
    not_found: tuple[str, ...] = ()
    """What was asked for and is not there: ids, or a source."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an `add` is; given to the `progress` callback after each passage."""

    done: int
    failed: int
    total: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes of a memory."""

    passages: int
    phrases: int
    triples: int
    relation_edges: int
    synonymy_edges: int
    context_edges: int
    by_status: Mapping[str, int]
    user_edges: int = 0
    """The user's edges whose target is there."""
    pending_edges: int = 0
    """Those that wait for it."""
    by_extractor: Mapping[str, int] = field(default_factory=dict, compare=False)
    """How many passages each extractor read; those that could not be read are in none. Memories
    that hold the same are of equal size, whoever read it."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` found."""

    problems: tuple[str, ...]
    """In words, each with the thing that it is about; empty where all is well."""
    passages: int
    """How many were checked."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class SynonymEdge:
    """Two phrases that are linked as synonyms, in display form."""

    left: str
    right: str
    cosine: float
