"""Linking, part by part: each equation beside a slow oracle that reads what was added."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import Extraction, HippoConfig, HippoRAG, Passage
from hippo_core.linking import (
    Evidence,
    TripleLinks,
    anchoring,
    choose,
    context,
    hop,
    link_triples,
    meeting,
    neighbouring,
    parts,
    similarity,
)
from hippo_core.testing import HashEmbedder
from hippo_core.text import normalise_phrase

PHRASES = ["Ada", "ADA", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab", "x y"]
PARTS = [similarity, context, anchoring, meeting]


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


facts = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "Wrote", "is"]), st.sampled_from(PHRASES)
)
# What each passage states; the first states something.
corpora_ = st.builds(
    lambda first, others: [first, *others],
    st.lists(facts, min_size=1, max_size=4),
    st.lists(st.lists(facts, max_size=4), max_size=4),
)
seeds = st.integers(0, 2**32 - 1)


class World:
    """A corpus as it was written, and the graph that was made of it."""

    def __init__(self, stated):
        with HippoRAG(None, HashEmbedder(16), config=HippoConfig(synonymy_threshold=0.5)) as memory:
            memory.add_extracted(
                [
                    (Passage(f"Passage {i}.", id=f"p{i}"), Extraction(triples=triples))
                    for i, triples in enumerate(stated)
                ]
            )
            self.graph = memory._index.snapshot().graph
        keyed = [{tuple(map(normalise_phrase, t)) for t in triples} for triples in stated]
        self.passages = keyed  # what each states, in the order of ids
        self.triples = [tuple(triple) for triple in self.graph.triples]
        self.phrases = list(self.graph.phrases)
        assert self.triples == sorted(set().union(*keyed))
        assert self.phrases == sorted({p for s, _, o in self.triples for p in (s, o)})

    def evidence(self, seed, anchors=None):
        """Draw cosines and anchors."""
        drawn = np.random.default_rng(seed)
        if anchors is None:
            anchors = np.flatnonzero(drawn.random(len(self.phrases)) < 0.5)
        return Evidence(
            drawn.uniform(-1, 1, len(self.triples)),
            drawn.uniform(-1, 1, len(self.passages)),
            np.asarray(anchors, dtype=np.int64),
            self.graph,
        )

    def named(self, evidence):
        return {self.phrases[i] for i in evidence.anchors}


def scaled(values):
    low, high = min(values), max(values)
    return [1.0 if high == low else (v - low) / (high - low) for v in values]


# -- oracles: one equation each --------------------------------------------------------------------


def slow_similarity(world, evidence):
    return scaled(evidence.near.tolist())


def slow_context(world, evidence):
    d = scaled(evidence.dense.tolist())
    return [
        max(d[p] for p, stated in enumerate(world.passages) if triple in stated)
        for triple in world.triples
    ]


def slow_anchoring(world, evidence):
    def specificity(phrase):
        return 1 / sum(any(phrase in (s, o) for s, _, o in stated) for stated in world.passages)

    return [
        max((specificity(v) for v in {s, o} & world.named(evidence)), default=0.0)
        for s, _, o in world.triples
    ]


def slow_meeting(world, evidence):
    anchors = world.named(evidence)
    joined = defaultdict(set)  # anchors by what triples join to them
    for s, _, o in world.triples:
        for one, other in ((s, o), (o, s)):
            if one in anchors and other not in anchors:
                joined[other].add(one)
    points = {phrase for phrase, names in joined.items() if len(names) >= 2}
    return [
        float(len({s, o} & anchors) == 1 and len({s, o} & points) == 1) for s, _, o in world.triples
    ]


ORACLES = {
    similarity: slow_similarity,
    context: slow_context,
    anchoring: slow_anchoring,
    meeting: slow_meeting,
}


@pytest.mark.parametrize("part", PARTS)
@given(stated=corpora_, seed=seeds)
@examples(40)
def test_a_part_is_its_equation_and_from_0_to_1(part, stated, seed):
    world = World(stated)
    evidence = world.evidence(seed)
    found = part(evidence)
    assert found.shape == (len(world.triples),)
    assert found.tolist() == pytest.approx(ORACLES[part](world, evidence))
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("part", [anchoring, meeting])
@given(stated=corpora_, seed=seeds)
@examples(10)
def test_without_anchors_they_count_for_nothing(part, stated, seed):
    assert not part(World(stated).evidence(seed, anchors=[])).any()


def test_anchors_count_by_how_rare_they_are_and_where_they_meet():
    world = World(
        [
            [("Ada", "wrote", "notes of Ada"), ("Rome", "is", "notes of Ada"), ("ab", "is", "x y")],
            [("Ada", "is", "ab"), ("C#", "is", "Rome")],
        ]
    )
    evidence = world.evidence(1, [world.phrases.index("ada"), world.phrases.index("rome")])
    found = {triple: meeting(evidence)[i] for i, triple in enumerate(world.triples)}
    assert found == {
        ("ada", "is", "ab"): 0,
        ("ab", "is", "x y"): 0,
        ("ada", "wrote", "notes of ada"): 1,
        ("c#", "is", "rome"): 0,
        ("rome", "is", "notes of ada"): 1,
    }
    assert set(anchoring(evidence)) == {0, 0.5}
    one = world.evidence(1, [world.phrases.index("c#")])
    assert set(anchoring(one)) == {0, 1}


def test_a_triple_of_an_anchor_with_itself_or_another_is_no_meeting():
    world = World([[("Ada", "is", "Ada"), ("Ada", "met", "Rome"), ("x y", "of", "Ada")]])
    evidence = world.evidence(1, [world.phrases.index("ada"), world.phrases.index("rome")])
    assert not meeting(evidence).any()


# -- sums ------------------------------------------------------------------------------------------


def test_hipporag_2_scores_by_similarity_alone():
    assert parts(HippoConfig.hipporag2()) == ((similarity, 1.0),)


def test_a_part_of_weight_0_is_left_out_and_the_others_have_their_weights():
    config = HippoConfig(context_weight=0.0, anchor_weight=0.3, meeting_weight=2.0)
    assert parts(config) == ((similarity, 1.0), (anchoring, 0.3), (meeting, 2.0))
    assert {part for part, _ in parts(HippoConfig())} == set(PARTS)


weights = st.sampled_from([0.0, 0.25, 1.0, 3.0])


@given(
    stated=corpora_, seed=seeds, weighed=st.tuples(weights, weights, weights), k=st.integers(1, 20)
)
@examples(40)
def test_a_score_is_the_weighted_sum_of_the_parts_and_the_best_are_linked(stated, seed, weighed, k):
    world = World(stated)
    evidence = world.evidence(seed)
    names = ("context_weight", "anchor_weight", "meeting_weight")
    config = HippoConfig(**dict(zip(names, weighed, strict=True)))
    every = zip((1.0, *weighed), PARTS, strict=True)
    columns = [[w * s for s in ORACLES[part](world, evidence)] for w, part in every]
    sums = [sum(column) for column in zip(*columns, strict=True)]
    links = link_triples(evidence, parts(config), k)
    best = sorted(range(len(sums)), key=lambda i: (-round(sums[i], 9), i))[:k]
    assert links.positions.tolist() == best
    assert links.scores == pytest.approx([sums[i] for i in best])
    assert links.scaled == pytest.approx([scaled(sums)[i] for i in best])


# -- how many --------------------------------------------------------------------------------------


def links_of(scores):
    scores = np.array(sorted(scores, reverse=True))
    return TripleLinks(np.arange(len(scores)), scores, scores)


some_scores = st.lists(st.integers(0, 300).map(lambda n: n / 100), max_size=12)
margins = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.25, 1.0, 9.0]))


@given(scores=some_scores, k=st.integers(1, 14), margin=margins)
@examples(300)
def test_the_best_are_chosen_as_far_as_they_are_within_the_margin(scores, k, margin):
    links = links_of(scores)
    chosen = choose(links, k, margin)
    assert chosen == tuple(range(len(chosen)))  # a prefix: the best
    assert len(chosen) <= k
    reach = math.inf if margin is None else margin
    good = [s for s in links.scores if round(links.scores[0] - s, 8) <= reach]
    assert len(chosen) == min(k, len(good))


@given(scores=some_scores, k=st.integers(1, 14))
@examples(50)
def test_a_wider_margin_takes_no_fewer_and_the_best_is_taken_always(scores, k):
    counts = [len(choose(links_of(scores), k, m)) for m in (0.0, 0.1, 0.5, 2.0, None)]
    assert counts == sorted(counts)
    assert counts[0] >= bool(scores)


def test_the_last_bit_of_a_score_does_not_decide():
    for scores in ([1.5, 1.5 - 1e-15, 1.25 - 1e-15], [1.5 - 1e-15, 1.5, 1.25]):
        links = TripleLinks(np.arange(3), np.array(scores), np.array(scores))
        assert choose(links, 5, 0.0) == (0, 1)
        assert choose(links, 5, 0.25) == (0, 1, 2)


# -- second hop ------------------------------------------------------------------------------------


@given(stated=corpora_, data=st.data())
@examples(40)
def test_beside_a_triple_are_those_that_share_a_phrase_or_a_synonym_of_one(stated, data):
    world = World(stated)
    triple = data.draw(st.integers(0, len(world.triples) - 1))
    left, right, _ = world.graph.synonyms
    pairs = {frozenset((world.phrases[a], world.phrases[b])) for a, b in zip(left, right)}  # noqa: B905

    def is_beside(one, other):
        return any(a == b or frozenset((a, b)) in pairs for a in one[::2] for b in other[::2])

    here = world.triples[triple]
    assert neighbouring(triple, world.graph).tolist() == [
        i for i, there in enumerate(world.triples) if i != triple and is_beside(here, there)
    ]


def test_these_corpora_have_synonyms_and_they_lead_on():
    world = World([[("Ada", "wrote", "x y")], [("ada lovelace", "is", "Rome")]])
    assert len(world.graph.synonyms.left) == 1
    assert neighbouring(0, world.graph).tolist() == [1]
    apart = World([[("Ada", "wrote", "x y")], [("C#", "is", "Rome")]])
    assert neighbouring(0, apart.graph).tolist() == []


cosines_ = st.sampled_from([-0.5, 0.0, 0.1, 0.25, 0.5, 1.0])
reached = st.lists(st.dictionaries(st.integers(0, 9), cosines_, max_size=6), min_size=1, max_size=4)


@given(reached=reached, taken=st.lists(st.integers(0, 9), unique=True), k=st.integers(1, 5))
@examples(300)
def test_a_hop_takes_what_leads_on_best_from_any_of_the_taken(reached, taken, k):
    best = {}
    for found in reached:
        for triple, cosine in found.items():
            best[triple] = max(cosine, best.get(triple, -1))
    usable = {t: c for t, c in best.items() if t not in taken and c > 0}
    expected = sorted(usable, key=lambda t: (-usable[t], t))[:k]
    links = hop(
        [np.array(sorted(found), dtype=np.int64) for found in reached],
        [np.array([found[t] for t in sorted(found)], dtype=np.float64) for found in reached],
        np.array(taken, dtype=np.int64),
        k,
    )
    assert links.positions.tolist() == expected
    assert links.scores.tolist() == [usable[t] for t in expected]
    highest = max(usable.values(), default=1)
    assert links.scaled == pytest.approx([usable[t] / highest for t in expected])


def test_a_hop_from_where_nothing_is_beside_finds_nothing():
    nothing = np.empty(0, dtype=np.int64)
    links = hop([nothing, nothing], [np.empty(0), np.empty(0)], np.array([3, 4]), 3)
    assert [len(part) for part in links] == [0, 0, 0]


# -- a path-finding question -----------------------------------------------------------------------

PATHS = [
    [("Tom Dee", "works at", "Stanford")],
    [("Tom Dee", "studies", "Alzheimer's")],
    [("Ann Ray", "works at", "Stanford")],
    [("Bo Lim", "studies", "Alzheimer's")],
    [("Professor", "studies what at which Stanford", "neuroscience")],
    [("neuroscience", "is what the professor studies at", "a university")],
]
NAMES = ["stanford", "alzheimer's"]


def test_what_lies_between_two_names_of_a_question_is_found():
    world = World(PATHS)
    evidence = world.evidence(1, [world.phrases.index(name) for name in NAMES])
    # By itself each triple of the two names is as near, and those of neither are nearer.
    near = np.array([0.4 if {t[0], t[2]} & {*NAMES} else 0.5 for t in world.triples])
    evidence = Evidence(near, evidence.dense * 0, evidence.anchors, world.graph)

    def best(config):
        return [world.triples[i] for i in link_triples(evidence, parts(config), 2).positions]

    between = [("tom dee", "studies", "alzheimer's"), ("tom dee", "works at", "stanford")]
    assert best(HippoConfig(anchor_weight=2.0, meeting_weight=1.0)) == between
    assert best(HippoConfig(anchor_weight=2.0, meeting_weight=0.0)) != between
    assert not {*best(HippoConfig.hipporag2())} & {*between}
