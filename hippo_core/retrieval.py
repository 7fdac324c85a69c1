"""The read path: one query to ranked passages, by HippoRAG 2, HippoRAG, or dense retrieval alone.

Each method turns the query into a `Ranking` of all passages of one snapshot; what is returned to
the user is cut and explained afterwards, in the same way for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hippo_core.config import HippoConfig
from hippo_core.embedding import QUERY_KINDS, Embedding
from hippo_core.errors import ModelError, ModelRequiredError, ParseError
from hippo_core.flows import Flow, Models, NameEntities
from hippo_core.inputs import Search
from hippo_core.linking import (
    Evidence,
    PhraseLinks,
    TripleLinks,
    choose,
    hop,
    link_entities,
    link_triples,
    neighbouring,
    parts,
)
from hippo_core.openie import read_query_entities
from hippo_core.pagerank import PageRank, personalized_pagerank
from hippo_core.recognition import Recognition, recognise
from hippo_core.seeding import entity_seeds, hop_seeds, passage_seeds, triple_seeds
from hippo_core.segments import distinct
from hippo_core.similarity import min_max, top_k
from hippo_core.snapshot import Snapshot
from hippo_core.text import normalise_phrase
from hippo_core.types import (
    Edge,
    LinkedPhrase,
    LinkedTriple,
    Retrieval,
    RetrievalPath,
    ScoredPassage,
    Triple,
    Walk,
)

EXPLAINING_TRIPLES = 3  # triples shown with a passage
EXPLAINING_EDGES = 3  # and edges of the user's


Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scores of all passages, and what they came from."""

    scores: Scores  # (n_passages,)
    path: RetrievalPath
    detail: str = ""
    triples: tuple[LinkedTriple, ...] = ()
    anchors: tuple[str, ...] = ()
    phrases: tuple[LinkedPhrase, ...] = ()
    mass: Scores | None = None
    """(n_phrases,), the walk's mass on the phrases."""
    node_mass: Scores | None = None
    """(n_phrases + n_passages,), the mass of a walk that went over the user's edges."""
    walk: Walk | None = None


def retrieve(
    query: str, snapshot: Snapshot, embedding: Embedding, models: Models, search: Search
) -> Flow[Retrieval]:
    """Rank the passages of a snapshot for a query; give the k best, or all if there are fewer."""
    if search.where is not None:
        snapshot = snapshot.restricted(search.where)
    if not snapshot.graph.n_passages:
        return Retrieval(query, (), RetrievalPath.EMPTY)
    if snapshot.state.generation is not None:  # it may have been recorded since
        embedding.expect(snapshot.state.generation)
    ranked = _Search(query, snapshot, embedding, models, search.config)
    match search.config.method:
        case "hipporag2":
            ranking = yield from ranked.hipporag2()
        case "hipporag":
            ranking = yield from ranked.hipporag()
        case "dense":
            ranking = yield from ranked.dense(RetrievalPath.DENSE)
    return Retrieval(
        query=query,
        passages=_best(ranking, snapshot, search),
        path=ranking.path,
        detail=ranking.detail,
        triples=ranking.triples,
        anchors=ranking.anchors,
        phrases=ranking.phrases,
        walk=ranking.walk,
    )


class _Search:
    """One query over one snapshot; used once."""

    def __init__(
        self,
        query: str,
        snapshot: Snapshot,
        embedding: Embedding,
        models: Models,
        config: HippoConfig,
    ) -> None:
        self.query = query
        self.snapshot = snapshot
        self.corpus = snapshot.corpus
        self.graph = snapshot.graph
        self.embedding = embedding
        self.models = models
        self.config = config

    def dense(self, path: RetrievalPath, detail: str = "") -> Flow[Ranking]:
        """Rank by the cosine of query and passage."""
        (to_passage,) = yield from self.embedding.query(self.query, QUERY_KINDS[:1])
        return Ranking(self.corpus.passage_vectors.cosines(to_passage), path, detail)

    def hipporag2(self) -> Flow[Ranking]:
        """Link to triples, let recognition memory choose, walk from their phrases and passages."""
        if not len(self.graph.triples):
            return (yield from self._unlinked())
        to_passage, to_triple = yield from self.embedding.query(self.query, QUERY_KINDS[:2])
        dense = self.corpus.passage_vectors.cosines(to_passage)
        near = self.corpus.triple_vectors.cosines(to_triple)
        evidence = Evidence(near, dense, self._anchors(), self.graph)
        links = self._link(evidence)
        shown = [self.snapshot.display_triple(int(i)) for i in links.positions]
        choice = yield from self._recognise(links, shown, dense)
        triples = self._linked(links, shown, choice.kept)
        anchors = tuple(map(self.snapshot.display_form, evidence.anchors.tolist()))
        if not choice.kept:
            return Ranking(dense, choice.path, choice.detail, triples, anchors)
        kept = links.positions[list(choice.kept)]
        was_judged = choice.path is RetrievalPath.GRAPH
        seeds = self._seeds(kept, self._scores(links, choice.kept, was_judged=was_judged))
        further, detail = yield from self._hop(kept, links.positions if was_judged else kept)
        if further is not None:
            weight = self.config.second_hop_weight
            seeds = hop_seeds(seeds, self._seeds(further.positions, further.scaled), weight)
            again = np.isin(links.positions, further.positions)  # too far from the best at first
            triples = tuple(t for t, is_again in zip(triples, again, strict=True) if not is_again)
            led_to = [self.snapshot.display_triple(int(i)) for i in further.positions]
            triples += self._linked(further, led_to, range(len(led_to)), hop=2)
        return self._walked(
            seeds,
            dense,
            path=choice.path,
            detail="; ".join(filter(None, (choice.detail, detail))),
            triples=triples,
            anchors=anchors,
        )

    def hipporag(self) -> Flow[Ranking]:
        """Link the query's entities to phrases, walk over phrases, sum their mass by passage."""
        try:
            entities = yield from self._query_entities()
        except (ModelError, ParseError) as error:
            if self._is_strict:
                raise
            return (yield from self.dense(RetrievalPath.DENSE_FAILED, str(error)))
        named = {key: entity for entity in entities if (key := normalise_phrase(entity))}
        if not named:
            return (yield from self.dense(RetrievalPath.DENSE_NO_ENTITY))
        if not self.graph.n_phrases:
            return (yield from self.dense(RetrievalPath.DENSE_NOTHING_LINKED))
        vectors = yield from self.embedding.texts(list(named), "query_to_phrase")
        links = link_entities([self.corpus.phrase_vectors.cosines(vector) for vector in vectors])
        seeds = entity_seeds(links.positions, self._specificity())
        mass, walked = self._expand(seeds)
        by_passage = min_max(self.graph.phrase_passages.T @ mass)
        ranking = Ranking(
            scores=by_passage,
            path=RetrievalPath.GRAPH,
            phrases=self._linked_phrases(list(named.values()), links),
            mass=mass,
            walk=_walk_of(walked) if walked else None,
        )
        certain = links.cosines.min() > self.config.ensemble_threshold
        if certain or not self.config.dense_ensemble:
            return ranking
        dense = yield from self.dense(RetrievalPath.ENSEMBLE)
        share = self.config.ensemble_weight
        mean = (1 - share) * by_passage + share * min_max(dense.scores)
        return replace(ranking, scores=mean, path=RetrievalPath.ENSEMBLE)

    def _unlinked(self) -> Flow[Ranking]:
        """Rank where no passage states a triple: over the user's edges, if there are any."""
        dense = yield from self.dense(RetrievalPath.DENSE_NOTHING_LINKED)
        if not (self.config.user_edges and len(self.graph.ends.edge)):
            return dense
        seeds = np.zeros(self.graph.n_phrases)
        return self._walked(seeds, dense.scores, path=RetrievalPath.EDGES)

    def _walked(self, seeds: Scores, dense: Scores, **told: Any) -> Ranking:
        """Walk over phrases and passages, from the seeds and all passages."""
        reset = np.concatenate([seeds, passage_seeds(dense, self.config.passage_weight)])
        walked = self._walk(reset, with_passages=True)
        mass, scores = np.split(walked.scores, [self.graph.n_phrases])
        node_mass = walked.scores if self.config.user_edges else None
        return Ranking(scores, **told, mass=mass, node_mass=node_mass, walk=_walk_of(walked))

    def _anchors(self) -> NDArray[np.int64]:
        if self.config.anchor_weight or self.config.meeting_weight:
            return self.snapshot.anchors(self.query)
        return np.empty(0, dtype=np.int64)

    def _link(self, evidence: Evidence) -> TripleLinks:
        k = self.config.linked_triples
        if self._is_judged:
            k = self.config.recognition_candidates
        return link_triples(evidence, parts(self.config), k)

    @property
    def _is_judged(self) -> bool:
        return self.config.recognition_memory and self.models.can_recognise

    @property
    def _is_strict(self) -> bool:
        return self.config.on_failure == "raise"

    def _recognise(
        self, links: TripleLinks, shown: Sequence[Triple], dense: Scores
    ) -> Flow[Recognition]:
        own = choose(links, self.config.linked_triples, self.config.linking_margin)
        if not self._is_judged:
            return Recognition(own, RetrievalPath.UNFILTERED_OFF)
        sources = self._sources(links, dense) if self.config.recognition_sources else None
        limit = self.config.recognition_limit
        flow = recognise(
            self.query,
            shown,
            limit,
            self.models,
            sources=sources,
            otherwise=own,
            strict=self._is_strict,
        )
        return (yield from flow)

    def _sources(self, links: TripleLinks, dense: Scores) -> list[str]:
        """Give for each link the title of the passage nearest to the query that states it."""
        stating = [self.snapshot.stating(int(i)) for i in links.positions]
        nearest = [int(passages[top_k(dense[passages], 1)[0]]) for passages in stating]
        return [self.corpus.passages[i].passage.title for i in nearest]

    def _scores(self, links: TripleLinks, kept: Sequence[int], *, was_judged: bool) -> Scores:
        """Give what each kept triple counts: one, or its score, where nobody judged it."""
        if was_judged and self.config.kept_score == "one":
            return np.ones(len(kept))
        return links.scaled[list(kept)]

    def _seeds(self, triples: NDArray[np.int64], scores: Scores) -> Scores:
        return triple_seeds(
            self.graph.triple_phrases[triples],
            scores,
            self._specificity(),
            top=self.config.seed_phrases,
        )

    def _hop(
        self, taken: NDArray[np.int64], seen: NDArray[np.int64]
    ) -> Flow[tuple[TripleLinks | None, str]]:
        """Look from each taken triple for those that lead on, but not for those that were seen.

        It is one call of the embedder for all.
        Where it fails, what is linked is enough: nothing is added, and the second value says why.
        """
        if not self.config.second_hop:
            return None, ""
        beside = partial(neighbouring, graph=self.graph, synonymy=self.config.synonymy)
        candidates = [beside(triple) for triple in taken.tolist()]
        texts = [f"{self.query} {' '.join(filter(None, self.graph.triples[i]))}" for i in taken]
        try:
            vectors = yield from self.embedding.texts(texts, "query_to_triple")
        except ModelError as error:
            if self._is_strict:
                raise
            return None, f"no second hop: {error}"
        cosines = [
            self.corpus.triple_vectors.at(near).cosines(vector)
            for near, vector in zip(candidates, vectors, strict=True)
        ]
        found = hop(candidates, cosines, seen, self.config.second_hop)
        return (found if len(found.positions) else None), ""

    def _query_entities(self) -> Flow[tuple[str, ...]]:
        if self.models.openie is not None:
            named: tuple[str, ...] = yield NameEntities(self.query)
            return named
        if self.models.chat is not None:
            return (yield from read_query_entities(self.query, self.models.prompts))
        raise ModelRequiredError(
            "HippoRAG reads the query's entities with a chat model or an OpenIE, and neither was "
            "given; "
            "give one, or use HippoConfig.hipporag2() or HippoConfig.dense()"
        )

    def _specificity(self) -> Scores:
        if self.config.node_specificity:
            return self.graph.node_specificity()
        return np.ones(self.graph.n_phrases)

    def _walk(self, reset: Scores, *, with_passages: bool) -> PageRank:
        return personalized_pagerank(
            self.graph.transition(self.config, with_passages=with_passages),
            reset,
            damping=self.config.damping,
            tolerance=self.config.ppr_tolerance,
        )

    def _expand(self, seeds: Scores) -> tuple[Scores, PageRank | None]:
        """Spread the seeds over the phrases, as configured."""
        if self.config.expansion == "ppr":
            walked = self._walk(seeds, with_passages=False)
            return walked.scores, walked
        if self.config.expansion == "linked_phrases":
            return seeds, None
        near = self.graph.neighbours(self.config)[np.flatnonzero(seeds)].indices
        mass = seeds.copy()
        mass[distinct(near)] += self.config.neighbour_share * seeds[seeds > 0].min()
        return mass, None

    def _linked(
        self,
        links: TripleLinks,
        shown: Sequence[Triple],
        kept: Sequence[int],
        *,
        hop: int = 1,
    ) -> tuple[LinkedTriple, ...]:
        passages = self.corpus.passages
        return tuple(
            LinkedTriple(
                triple=triple,
                score=float(score),
                passage_ids=tuple(passages[i].passage.id for i in self.snapshot.stating(position)),
                kept=place in kept,
                hop=hop,
            )
            for place, (position, score, triple) in enumerate(
                zip(links.positions.tolist(), links.scaled, shown, strict=True)
            )
        )

    def _linked_phrases(
        self, entities: Sequence[str], links: PhraseLinks
    ) -> tuple[LinkedPhrase, ...]:
        return tuple(
            LinkedPhrase(entity, self.snapshot.display_form(int(position)), float(cosine))
            for entity, position, cosine in zip(
                entities, links.positions, links.cosines, strict=True
            )
        )


def _walk_of(walked: PageRank) -> Walk:
    return Walk("power", float(walked.bound), int(walked.iterations))


def _best(ranking: Ranking, snapshot: Snapshot, search: Search) -> tuple[ScoredPassage, ...]:
    """Cut a ranking to its k best, by rounded score, then passage id."""
    best = top_k(ranking.scores, search.k)
    # Scores that tie stand in the order of ids, in which their last bits may rise.
    scores = np.minimum.accumulate(ranking.scores[best])
    if search.score_mode == "relative":
        scores = scores / scores[0] if scores[0] > 0 else 1.0 + scores - scores[0]
    return tuple(
        ScoredPassage(
            passage=snapshot.corpus.passages[position].passage.copy(),
            score=float(score),
            rank=rank,
            status=snapshot.corpus.passages[position].status,
            triples=_explanation(position, ranking.mass, snapshot),
            edges=_bringing(position, ranking.node_mass, snapshot, search.config),
        )
        for rank, (position, score) in enumerate(zip(best.tolist(), scores, strict=True), start=1)
    )


def _explanation(position: int, mass: Scores | None, snapshot: Snapshot) -> tuple[Triple, ...]:
    """Give the triples over which most of the walk came to the passage: both ends hold mass."""
    if mass is None:
        return ()
    graph = snapshot.graph
    own = graph.triple_phrases[snapshot.corpus.triples_of(position)]
    near = graph.touching(distinct(own.reshape(-1)))
    flow = mass[graph.triple_phrases[near]].prod(axis=1)
    best = [i for i in top_k(flow, EXPLAINING_TRIPLES) if flow[i] > 0]
    return tuple(snapshot.display_triple(int(near[i])) for i in best)


def _bringing(
    position: int, mass: Scores | None, snapshot: Snapshot, config: HippoConfig
) -> tuple[Edge, ...]:
    """Give the user's edges over which most of the walk came to the passage."""
    if mass is None or not len(snapshot.graph.ends.edge):
        return ()
    return snapshot.bringing(position, mass, config, EXPLAINING_EDGES)
