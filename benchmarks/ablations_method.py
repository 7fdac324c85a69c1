"""The method that the ablations vary: link, seed, walk, for all questions of a set-up at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from ablations_graphs import transition
from ablations_setups import STOP_WORDS, Positions, Scores, Setup

from hippo_core.pagerank import Transition, personalized_pagerank
from hippo_core.similarity import min_max, top_k
from hippo_core.text import normalise_phrase

DEPTH = 20  # passages that are compared
OFFERED = 10  # triples that a judge is shown
TOLERANCE = 1e-12
ALIKE = 1e-9  # a batch of walks against one walk of the core
CHUNK = 10  # questions whose seeds are walked from one by one at once
K1, B = 1.2, 0.75  # of BM25


@dataclass(frozen=True, kw_only=True)
class SecondHop:
    """More triples: near to a question and a triple it was linked to, and touching that triple."""

    first: int = 3
    """Linked triples, the best, from which a second step is taken."""
    added: int = 3
    weight: float = 0.25
    """Score of the best added triple; the linked ones have up to 1."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """Every number of linking and seeding; the defaults are those of the default linking."""

    rendering: Literal["words", "tuple"] = "words"
    context: float = 0.5
    anchors: float = 0.6
    anchor_exponent: float = 1.0
    """Of |C(v)|, by which an anchor is divided."""
    meeting: float = 0.4
    lexical_context: float = 0.0
    """BM25 beside the dense score of the passages that state a triple."""
    lexical_seeds: float = 0.0
    """BM25 beside the dense score of the passage seeds."""
    lexical_triples: float = 0.0
    """BM25 between question and triple."""
    linked: int = 5
    margin: float | None = 0.25
    judge: Literal["reference", "anchored"] | None = None
    offered_only: bool = False
    """Whether what a judge kept counts only among the ten best of this linking."""
    kept_scores: bool = False
    """Whether what a judge kept counts by its score, and not 1."""
    seed_phrases: int | None = None
    combine: Literal["mean", "sum", "max"] = "mean"
    """Of the scores of a phrase's triples."""
    specificity: float = 1.0
    """Exponent of |C(p)|, by which a seed is divided."""
    passage_weight: float = 0.05
    damping: float = 0.5
    graph: str = "default"
    second_hop: SecondHop | None = None
    concave: float | None = None
    """Exponent a: walk from each seed phrase alone, and join the masses by (sum m^a)^(1/a)."""

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)


DEFAULT = Method()
HIPPORAG2 = Method(rendering="tuple", context=0, anchors=0, meeting=0, margin=None, seed_phrases=5)


def rankings(setup: Setup, method: Method | None) -> dict[str, list[str]]:
    """Give the best passages of each question; without a method, those by dense score."""
    scores = setup.dense if method is None else _scores(setup, method)
    best = [top_k(row, DEPTH) for row in scores]
    return {
        q: [setup.ids[i] for i in places] for q, places in zip(setup.questions, best, strict=True)
    }


def offered(setup: Setup, method: Method) -> int:
    """Count the kept triples that are among those a judge would be shown."""
    kept = setup.judged[method.judge or "anchored"].kept
    return sum(
        int(np.isin(k, top_k(_triple_scores(setup, q, method), OFFERED)).sum())
        for q, k in enumerate(kept)
    )


# -- link ------------------------------------------------------------------------------------------


def _link(setup: Setup, q: int, method: Method) -> tuple[Positions, Scores]:
    """Choose triples, and give their scores, min-max scaled over all triples or 1."""
    scores = _triple_scores(setup, q, method)
    if method.judge is not None:
        chosen = setup.judged[method.judge].kept[q]
        if method.offered_only:
            chosen = chosen[np.isin(chosen, top_k(scores, OFFERED))]
        chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    else:
        chosen = top_k(scores, method.linked)
        if method.margin is not None:
            chosen = chosen[scores[chosen] >= scores[chosen[0]] - method.margin]
    counts = min_max(scores)[chosen]
    if method.judge is not None and not method.kept_scores:
        counts = np.ones(len(chosen))
    if method.second_hop is not None and len(chosen):
        return _second_hop(setup, q, chosen, counts, method.second_hop)
    return chosen, counts


def _triple_scores(setup: Setup, q: int, method: Method) -> Scores:
    scores: Scores = setup.triples[method.rendering][q].copy()
    if method.context:
        stated = setup.graph.triple_passages
        near = _passage_scores(setup, q, method.lexical_context)
        scores += method.context * np.maximum.reduceat(near[stated.indices], stated.indptr[:-1])
    if method.anchors:
        anchors = setup.anchors[q]
        worth = np.zeros(setup.graph.n_phrases)
        worth[anchors] = setup.graph.passage_counts[anchors] ** -method.anchor_exponent
        scores += method.anchors * worth[setup.graph.triple_phrases].max(axis=1)
    if method.meeting:
        scores += method.meeting * _meets(setup, setup.anchors[q])
    if method.lexical_triples:
        scores += method.lexical_triples * _lexical(setup, "triples")[q]
    return scores


def _meets(setup: Setup, anchors: Positions) -> Scores:
    """Give 1 where a triple joins an anchor to a phrase that at least two anchors are joined to."""
    joined = np.asarray(setup.joined[anchors].sum(axis=0)).ravel()  # how many anchors, by phrase
    is_point, is_anchor = joined >= 2, np.zeros(len(joined), dtype=bool)
    is_point[anchors], is_anchor[anchors] = False, True
    subjects, objects = setup.graph.triple_phrases.T
    meets = (is_anchor[subjects] & is_point[objects]) | (is_point[subjects] & is_anchor[objects])
    return meets.astype(np.float64)


def _second_hop(
    setup: Setup, q: int, chosen: Positions, counts: Scores, hop: SecondHop
) -> tuple[Positions, Scores]:
    question = list(setup.questions.values())[q]
    bases = chosen[: hop.first]
    texts = [f"{question} {setup.triple_texts[t]}" for t in bases]
    near: dict[int, float] = {}
    for base, vector in zip(bases, setup.embedder.embed(texts, "query_to_triple"), strict=True):
        phrases = setup.graph.triple_phrases[base]
        synonyms = setup.corpus.synonyms
        phrases = np.unique(
            np.concatenate(
                [
                    phrases,
                    synonyms.left[np.isin(synonyms.right, phrases)],
                    synonyms.right[np.isin(synonyms.left, phrases)],
                ]
            )
        )
        others = np.setdiff1d(setup.graph.touching(phrases), chosen)
        cosines = setup.triple_vectors[others] @ (vector / np.linalg.norm(vector))
        for triple, cosine in zip(others.tolist(), cosines.tolist(), strict=True):
            near[triple] = max(cosine, near.get(triple, -1.0))
    added = sorted(near, key=lambda triple: -near[triple])[: hop.added]
    best = max((near[t] for t in added), default=1.0)
    more = [hop.weight * near[t] / best for t in added]
    return np.concatenate([chosen, np.array(added, np.int64)]), np.concatenate([counts, more])


# -- seed ------------------------------------------------------------------------------------------


def _resets(setup: Setup, method: Method) -> Scores:
    """Give the reset vectors, (n_nodes, n_questions); 0 where no triple was chosen."""
    columns = []
    for q in range(len(setup.questions)):
        triples, counts = _link(setup, q, method)
        phrases = _phrase_seeds(setup, triples, counts, method)
        passages = method.passage_weight * _passage_scores(setup, q, method.lexical_seeds)
        columns.append(np.concatenate([phrases, passages if len(triples) else 0 * passages]))
    return np.stack(columns, axis=1)


def _phrase_seeds(setup: Setup, triples: Positions, counts: Scores, method: Method) -> Scores:
    seeds = np.zeros(setup.graph.n_phrases)
    ends, counts = setup.graph.triple_phrases[triples].ravel(), np.repeat(counts, 2)
    if method.combine == "max":
        np.maximum.at(seeds, ends, counts)
    else:
        np.add.at(seeds, ends, counts)
    if method.combine == "mean":
        seeds /= np.maximum(np.bincount(ends, minlength=len(seeds)), 1)
    seeds *= np.maximum(setup.graph.passage_counts, 1.0) ** -method.specificity
    if method.seed_phrases is not None:
        best = top_k(seeds, method.seed_phrases)
        seeds, all_seeds = np.zeros_like(seeds), seeds
        seeds[best] = all_seeds[best]
    return seeds


def _passage_scores(setup: Setup, q: int, lexical: float) -> Scores:
    if not lexical:
        return setup.dense[q]
    return min_max(setup.dense[q] + lexical * _lexical(setup, "passages")[q])


# -- BM25 ------------------------------------------------------------------------------------------

_lexicals: dict[tuple[int, str], Scores] = {}


def _lexical(setup: Setup, of: Literal["passages", "triples"]) -> Scores:
    """Give BM25 by question, the best of each 1."""
    key = (id(setup), of)
    if key not in _lexicals:
        texts = setup.words if of == "passages" else [text.split() for text in setup.triple_texts]
        asked = [
            set(normalise_phrase(question).replace("'s", "").split()) - STOP_WORDS
            for question in setup.questions.values()
        ]
        scores = bm25(texts, asked)
        scores /= np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
        _lexicals[key] = scores
    return _lexicals[key]


def bm25(documents: Sequence[Sequence[str]], queries: Sequence[set[str]]) -> Scores:
    """Score words of documents for words of queries, no stemming, (n_queries, n_documents).

    >>> bm25([["a", "rare", "word"], ["a", "word"]], [{"rare"}]).round(2)
    array([[0.62, 0.  ]])
    """
    counts = [Counter(words) for words in documents]
    n, lengths = len(documents), np.array([len(words) for words in documents])
    holders = Counter(word for count in counts for word in count)
    norms = K1 * (1 - B + B * lengths / lengths.mean())
    scores = np.zeros((len(queries), n))
    for word in set().union(*queries) & holders.keys():
        held = np.array([count[word] for count in counts], dtype=np.float64)
        rarity = np.log(1 + (n - holders[word] + 0.5) / (holders[word] + 0.5))
        asking = [q for q, words in enumerate(queries) if word in words]
        scores[asking] += rarity * held * (K1 + 1) / (held + norms)
    return scores


# -- walk ------------------------------------------------------------------------------------------


def _scores(setup: Setup, method: Method) -> Scores:
    """Give the mass of passages, (n_questions, n_passages); the dense scores where none linked."""
    reset = _resets(setup, method)
    walk = transition(setup, method.graph)
    if method.concave is None:
        found = pagerank(walk, reset, method.damping)[setup.graph.n_phrases :].T
    else:
        found = _walks_apart(setup, walk, reset, method)
    return np.where(reset.any(axis=0)[:, np.newaxis], found, setup.dense)


def pagerank(walk: Transition, reset: Scores, damping: float) -> Scores:
    """Give what `personalized_pagerank` gives, for each column of `reset`."""
    total = reset.sum(axis=0, keepdims=True)
    seeds: Scores = reset / np.where(total > 0, total, 1)
    scores, change = seeds, np.inf
    while change > TOLERANCE:
        restart = 1 - damping + damping * scores[walk.dangling].sum(axis=0)
        following = damping * (walk.walk @ scores) + restart * seeds
        change = damping / (1 - damping) * np.abs(following - scores).sum(axis=0).max()
        scores = following
    return scores


def _walks_apart(setup: Setup, walk: Transition, reset: Scores, method: Method) -> Scores:
    n, a = setup.graph.n_phrases, method.concave or 1.0
    found = []
    for start in range(0, reset.shape[1], CHUNK):
        alone, owners = [], []
        for q in range(start, min(start + CHUNK, reset.shape[1])):
            column = reset[:, q] / max(reset[:, q].sum(), 1e-300)
            for seed in [*np.flatnonzero(column[:n]).tolist(), None]:
                part = np.zeros_like(column)
                where = slice(n, None) if seed is None else seed
                part[where] = column[where]
                alone.append(part)
                owners.append((q, seed is None))
        parts = np.stack(alone, axis=1)
        masses = pagerank(walk, parts, method.damping)[n:] * parts.sum(axis=0)
        for q in dict.fromkeys(q for q, _ in owners):
            phrases = masses[:, [owner == (q, False) for owner in owners]]
            passages = masses[:, owners.index((q, True))]
            found.append(passages + (phrases**a).sum(axis=1) ** (1 / a))
    return np.stack(found)


def check(setup: Setup) -> dict[str, Any]:
    """Compare with the core: a batch of walks with single ones, and HippoRAG 2's rankings."""
    reset, walk = _resets(setup, DEFAULT), transition(setup, DEFAULT.graph)
    batch = pagerank(walk, reset, DEFAULT.damping)
    apart = max(
        float(np.abs(batch[:, q] - personalized_pagerank(walk, reset[:, q]).scores).max())
        for q in range(reset.shape[1])
    )
    if apart > ALIKE:
        raise RuntimeError(f"a batch of walks differs from single ones by {apart}")
    ours = rankings(setup, HIPPORAG2)
    same = 0
    for q, question in setup.questions.items():
        hits = setup.memory.retrieve(question, k=DEPTH)
        same += [hit.passage.id for hit in hits] == ours[q]
    return {
        "largest difference of a batch of walks from single ones": apart,
        f"questions whose {DEPTH} passages are those of the core's HippoRAG 2": same,
    }
