"""Every number that the method has, validated, with the settings of both papers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, get_args

from hippo_core.errors import ConfigError

Method = Literal["hipporag2", "hipporag", "dense"]
Expansion = Literal["ppr", "linked_phrases", "neighbours"]
TripleRendering = Literal["tuple", "words"]
RENDERINGS: tuple[TripleRendering, ...] = get_args(TripleRendering)
RelationCount = Literal["passage", "occurrence"]
RelatedSynonymy = Literal["replace", "add"]
SynonymyWeight = Literal["cosine", "one"]
KeptScore = Literal["one", "linking"]
OnFailure = Literal["go_on", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HippoConfig:
    """Settings of indexing and retrieval.

    The defaults are HippoRAG 2's walk with a linking of our own, `docs/quality.md` says what it is
    worth; `hipporag2()`, `hipporag()` and `dense()` give the published methods and the baseline.

    >>> HippoConfig.hipporag(damping=0.3).damping
    0.3
    >>> HippoConfig(damping=1.0)
    Traceback (most recent call last):
        ...
    hippo_core.errors.ConfigError: damping must be at least 0 and below 1, got 1.0
    """

    method: Method = "hipporag2"
    """`hipporag2`: query to triples, as the linking below says; phrase and passage nodes.
    `hipporag`: query entities to phrases, phrase nodes. `dense`: passages by cosine."""

    # Graph
    synonymy: bool = True
    """Whether phrases of similar meaning are joined (ablation: off)."""
    synonymy_threshold: float = 0.8
    """Cosine from which two phrases are joined (both papers: 0.8)."""
    synonymy_min_length: int = 3
    """Letters and digits from which a phrase looks for synonyms."""
    synonymy_weight: SynonymyWeight = "cosine"
    """Weight of a synonymy edge in each direction: `cosine` (HippoRAG 2) or `one` (HippoRAG)."""
    synonymy_on_related: RelatedSynonymy = "replace"
    """What it does to a pair that triples join too: `replace` their count, as the reference does,
    or `add` to it."""
    synonymy_limit: float = 100.0
    """Accepted pairs per phrase on average above which indexing stops: the embedder is unfit."""
    relation_count: RelationCount = "passage"
    """How a triple repeated in one passage counts: once per `passage` (HippoRAG 2), or at every
    `occurrence` (HippoRAG)."""
    triple_rendering: TripleRendering = "words"
    """A triple's text for embedding: plain `words`, or that of a Python `tuple`, as in the
    reference. It is set when a memory reads its first triple, and stays: a memory that is opened
    or asked with other settings keeps its own."""
    user_edges: bool = True
    """Whether the walk over phrases and passages goes over the user's own edges (ablation: off)."""

    # Linking: a triple's score is its similarity plus these weights times a part from 0 to 1
    context_weight: float = 0.5
    """Of the best passage that states it, see `linking.context` (HippoRAG 2: 0)."""
    anchor_weight: float = 0.6
    """Of the most specific phrase that stands in the query, see `linking.anchoring` (0)."""
    meeting_weight: float = 0.4
    """Of a phrase at which phrases of the query meet, see `linking.meeting` (0)."""
    linked_triples: int = 5
    """Triples that the query is linked to at the most, where nobody judges them."""
    linking_margin: float | None = 0.25
    """How far below the best the score of such a triple may be; None: any way (HippoRAG 2)."""
    second_hop: int = 0
    """Triples that are added beside those linked, for one more embedding call of a text for each of
    them; see `linking.hop`. 3 is a good number. HippoRAG and dense retrieval have none."""
    second_hop_weight: float = 0.25
    """What the best triple of the second hop counts beside a linked one of score 1."""

    # Recognition memory
    recognition_memory: bool = True
    """Whether a chat model, where there is one, chooses among the linked triples."""
    recognition_candidates: int = 10
    """Triples that it chooses from (HippoRAG 2: 5)."""
    recognition_sources: bool = True
    """Whether a chat model sees the title of the passage that states a triple (HippoRAG 2: not)."""
    recognition_limit: int = 4
    """Triples that it may keep."""
    kept_score: KeptScore = "one"
    """What a kept triple counts: `one`, or its `linking` score (HippoRAG 2)."""

    # Seeding
    seed_phrases: int = 10
    """Phrases that seed the walk: all of five triples (HippoRAG 2: 5)."""
    passage_weight: float = 0.05
    """Weight of a passage seed beside a phrase seed (HippoRAG 2, section 3.4)."""

    # Expansion and ensemble of HippoRAG
    expansion: Expansion = "ppr"
    """How the linked phrases spread: `ppr`, or the ablations `linked_phrases` (they alone) and
    `neighbours` (they and their neighbours)."""
    dense_ensemble: bool = False
    """Whether dense scores are averaged in where a link is uncertain: its cosine is at most
    `ensemble_threshold`."""
    ensemble_threshold: float = 0.9
    ensemble_weight: float = 0.5
    """Share of the dense score where it is averaged in."""
    neighbour_share: float = 0.5
    """Weight of a neighbour beside the smallest seed, with `neighbours`."""

    # Both
    node_specificity: bool = True
    """Whether a seed is divided by the number of passages that hold its phrase."""
    damping: float = 0.5
    """Probability of following an edge; the rest restarts (both papers: 0.5)."""
    ppr_tolerance: float = 1e-12
    """Bound on the L1 error of the walk's mass, which sums to 1."""
    on_failure: OnFailure = "go_on"
    """What a query does where recognition memory, the naming of its entities or the second hop
    fails: `go_on` without it, as `Retrieval.path` and `detail` say, or `raise` the error."""

    # Calls. Those of a memory hold: `config=` of one query does not change them.
    concurrency: int = 8
    """Model calls in flight at once."""
    call_timeout: float | None = 600.0
    """Seconds that one try of a call of the chat model or the embedder may take, not counting its
    wait for one of the `concurrency` places; then it is a TransientModelError, and tried again. A
    reply that comes later is kept where there is use for it. None: as long as the SDK waits."""
    tries: int = 4
    """Tries of one call, the first among them, where another may mend it: a rate limit, a time-out,
    a broken connection, a server's fault; 1 to 10. A server that asks to wait is given the time,
    up to 120 seconds. Turn the retries of your SDK off, or they multiply."""
    context_limit: int | None = None
    """Tokens, of prompt and reply together, that the chat model takes. A passage that would leave
    no room for its reply is read in pieces, at borders of sentences, and stays whole. None: what
    the model refuses as too long is read in pieces; but some servers cut a prompt silently."""
    embed_batch_size: int = 64
    """Texts in one embedding call."""

    def __post_init__(self) -> None:
        for name, options in _OPTIONS.items():
            if getattr(self, name) not in options:
                raise ConfigError(
                    f"{name} must be one of {', '.join(options)}, got {getattr(self, name)!r}"
                )
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if field_.type == "bool" and not isinstance(value, bool):
                raise ConfigError(f"{field_.name} must be True or False, got {value!r}")
            kind = str(field_.type).removesuffix(" | None")
            if kind in ("int", "float") and not (value is None and kind != field_.type):
                _check_number(field_.name, value, whole=kind == "int")
        for name in (
            "linked_triples",
            "recognition_candidates",
            "recognition_limit",
            "seed_phrases",
            "concurrency",
            "embed_batch_size",
        ):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        self._require(
            "synonymy_threshold", 0 < self.synonymy_threshold <= 1, "above 0 and at most 1"
        )
        self._require("synonymy_limit", self.synonymy_limit > 0, "above 0")
        self._require("passage_weight", 0 <= self.passage_weight, "at least 0")
        for name in ("context_weight", "anchor_weight", "meeting_weight"):
            self._require(name, 0 <= getattr(self, name) <= 1e6, "between 0 and 1e6")
        if self.linking_margin is not None:
            self._require("linking_margin", self.linking_margin >= 0, "at least 0, or None")
        self._require("second_hop", self.second_hop >= 0, "at least 0")
        self._require("ensemble_threshold", -1 <= self.ensemble_threshold <= 1, "between -1 and 1")
        for name in ("ensemble_weight", "neighbour_share", "second_hop_weight"):
            self._require(name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        self._require("synonymy_min_length", self.synonymy_min_length >= 0, "at least 0")
        self._require("damping", 0 <= self.damping < 1, "at least 0 and below 1")
        self._require("ppr_tolerance", 0 < self.ppr_tolerance < 1, "above 0 and below 1")
        self._check_calls()

    def _check_calls(self) -> None:
        if self.context_limit is not None:
            self._require("context_limit", self.context_limit >= 1, "at least 1, or None")
        self._require("tries", 1 <= self.tries <= 10, "between 1 and 10")
        if self.call_timeout is not None:
            self._require(
                "call_timeout", 0 < self.call_timeout <= 1e6, "above 0 and at most 1e6, or None"
            )

    def _require(self, name: str, holds: bool, claim: str) -> None:
        if not holds:
            raise ConfigError(f"{name} must be {claim}, got {getattr(self, name)!r}")

    @classmethod
    def hipporag2(cls, **changes: Any) -> Self:
        """Give HippoRAG 2 as published (ICML 2025), with the reference's effective edge weights."""
        return cls(method="hipporag2", **{**_HIPPORAG2, **changes})

    @classmethod
    def hipporag(cls, **changes: Any) -> Self:
        """Give HippoRAG as published (Gutiérrez et al., NeurIPS 2024)."""
        return cls(method="hipporag", **{**_HIPPORAG, **changes})

    @classmethod
    def dense(cls, **changes: Any) -> Self:
        """Give the baseline: passages by cosine, over the same index."""
        return cls(method="dense", **changes)

    def but(self, **changes: Any) -> Self:
        """Give a copy with some settings changed."""
        return replace(self, **changes)


_HIPPORAG2: dict[str, Any] = {
    "triple_rendering": "tuple",
    "context_weight": 0.0,
    "anchor_weight": 0.0,
    "meeting_weight": 0.0,
    "linking_margin": None,
    "recognition_candidates": 5,
    "recognition_sources": False,
    "kept_score": "linking",
    "seed_phrases": 5,
}

_HIPPORAG: dict[str, Any] = {"relation_count": "occurrence", "synonymy_weight": "one"}

_OPTIONS: dict[str, tuple[str, ...]] = {
    "method": get_args(Method),
    "expansion": get_args(Expansion),
    "triple_rendering": get_args(TripleRendering),
    "relation_count": get_args(RelationCount),
    "synonymy_on_related": get_args(RelatedSynonymy),
    "synonymy_weight": get_args(SynonymyWeight),
    "kept_score": get_args(KeptScore),
    "on_failure": get_args(OnFailure),
}


def _check_number(name: str, value: object, *, whole: bool) -> None:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ConfigError(f"{name} must be a {'whole ' if whole else ''}number, got {value!r}")
    if value != value or value in (float("inf"), float("-inf")):
        raise ConfigError(f"{name} must be finite, got {value!r}")
