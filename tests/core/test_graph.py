"""The graph: edge weights row by row, node order, specificity; equal to a plain multigraph."""

import itertools

import igraph
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import Extraction, HippoConfig, HippoRAG, Passage
from hippo_core.columns import Columns
from hippo_core.contributions import contribution
from hippo_core.graph import KnowledgeGraph
from hippo_core.pagerank import personalized_pagerank
from hippo_core.seeding import entity_seeds, passage_seeds, triple_seeds
from hippo_core.similarity import unit_rows
from hippo_core.synonyms import SynonymPairs
from hippo_core.testing import HashEmbedder
from hippo_core.text import letters_and_digits, normalise_phrase
from hippo_core.vectors import VectorTable

PER_PASSAGE = HippoConfig.hipporag2()
PER_OCCURRENCE = HippoConfig.hipporag()
ADDING = HippoConfig(synonymy_on_related="add")


def graph_of(corpus, synonyms=None):
    """Build the graph of triples by passage id, and cosines by pair of phrases."""
    columns = Columns(str)
    for id_, triples in corpus.items():
        columns.put(contribution(Passage(id_, id=id_), Extraction(triples=triples)))
    slots = [
        (columns.phrases.get(a), columns.phrases.get(b), cosine)
        for (a, b), cosine in (synonyms or {}).items()
    ]
    left, right, cosine = zip(*slots, strict=True) if slots else ((), (), ())
    pairs = SynonymPairs(np.array(left, int), np.array(right, int), np.array(cosine, float))
    none = {kind: VectorTable().view() for kind in ("passage", "phrase", "triple")}
    return KnowledgeGraph(columns.corpus(none, pairs))


def weights(graph, config):
    """The weight of each joined pair of phrases."""
    left, right, weight = graph.phrase_edges(config)
    assert (left < right).all()
    pairs = [(graph.phrases[i], graph.phrases[j]) for i, j in zip(left, right, strict=True)]
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, weight.tolist(), strict=True))


A_B = ("anna", "knows", "bert")


# -- relation edges --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("corpus", "per_passage", "per_occurrence"),
    [
        ({"1": [A_B]}, 2, 2),
        ({"1": [A_B], "2": [A_B]}, 4, 4),
        ({"1": [A_B, A_B, A_B]}, 2, 6),
        ({"1": [A_B, ("Anna", "KNOWS", "Bert!")]}, 2, 4),
        ({"1": [A_B, ("bert", "knows", "anna")]}, 4, 4),
        ({"1": [A_B, ("anna", "likes", "bert")]}, 4, 4),
        ({"1": [A_B, A_B], "2": [A_B, ("anna", "likes", "bert")]}, 6, 8),
    ],
    ids=[
        "one triple",
        "in two passages",
        "three times in one passage",
        "in other spellings",
        "the other way round",
        "the relation is ignored",
        "all together",
    ],
)
def test_a_relation_edge_weighs_twice_the_triples_that_join_the_pair(
    corpus, per_passage, per_occurrence
):
    graph = graph_of(corpus)
    assert weights(graph, PER_PASSAGE) == {("anna", "bert"): per_passage}
    assert weights(graph, PER_OCCURRENCE) == {("anna", "bert"): per_occurrence}


@pytest.mark.parametrize("loop", [("anna", "is", "anna"), ("Anna", "is", "ANNA!")])
def test_a_self_loop_is_no_edge_and_its_phrase_a_node(loop):
    graph = graph_of({"1": [loop]})
    assert weights(graph, PER_PASSAGE) == {}
    assert graph.phrases == ("anna",)
    assert graph.phrase_passages.toarray().tolist() == [[1]]  # once, not twice
    walk = graph.transition(PER_PASSAGE, with_passages=True).walk.toarray()
    assert walk.tolist() == [[0, 1], [1, 0]]


def test_a_triple_without_a_key_is_no_edge():
    graph = graph_of({"1": [("!!!", "is", "anna"), ("anna", "is", "—"), A_B]})
    assert graph.phrases == ("anna", "bert")
    assert weights(graph, PER_PASSAGE) == {("anna", "bert"): 2}


# -- synonymy edges --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "weight"),
    [
        ("anna", "annie", 2 * 0.9),
        ("anna", "an", 0.9),
        ("an", "anna", 0.9),
        ("ab", "ac", None),
        ("a", "b", None),
        ("c++", "c#", None),  # one letter each
        ("3.1", "3.14", 0.9),  # two digits and three
        ("u s", "usa", 0.9),
        ("東京", "東京都", 0.9),
    ],
)
def test_a_synonymy_edge_weighs_the_cosine_once_for_each_long_end(one, other, weight):
    corpus = {"1": [(one, "is", "xxx"), (other, "is", "yyy")]}
    graph, pair = graph_of(corpus, {(one, other): 0.9}), tuple(sorted((one, other)))
    assert weights(graph, PER_PASSAGE).get(pair) == (weight and pytest.approx(weight))
    counted = weights(graph, PER_OCCURRENCE).get(pair)  # in HippoRAG a synonym counts 1
    assert counted == (weight and pytest.approx(weight / 0.9))


@pytest.mark.parametrize(
    ("one", "other", "times", "replaced", "added"),
    [
        ("anna", "bert", 1, 2 * 0.9, 2 + 2 * 0.9),
        ("anna", "bert", 3, 2 * 0.9, 6 + 2 * 0.9),  # heavier without the cosine
        ("anna", "bo", 3, 3 + 0.9, 6 + 0.9),  # each direction for itself
        ("al", "bo", 3, 6, 6),
    ],
)
def test_the_cosine_replaces_or_joins_the_count_in_each_long_direction(
    one, other, times, replaced, added
):
    triples = [(one, f"relation {n}", other) for n in range(times)]
    graph = graph_of({"1": triples}, {(one, other): 0.9})
    assert weights(graph, PER_PASSAGE) == {(one, other): pytest.approx(replaced)}
    assert weights(graph, ADDING) == {(one, other): pytest.approx(added)}
    assert weights(graph, HippoConfig(synonymy=False)) == {(one, other): 2 * times}
    ends = sum(len(phrase) > 2 for phrase in (one, other))
    ones = {(one, other): pytest.approx(ends + (2 - ends) * times)}
    assert weights(graph, HippoConfig(synonymy_weight="one")) == ones


# -- context edges, counts and matrices ------------------------------------------------------------


def test_a_context_edge_weighs_1_for_each_distinct_phrase():
    graph = graph_of({"p": [A_B, A_B, ("anna", "likes", "carl")], "q": [], "r": [A_B]})
    left, right, weight = graph.context_edges()
    assert set(weight.tolist()) == {1.0}
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == [
        (0, 3), (0, 5), (1, 3), (1, 5), (2, 3)
    ]  # fmt: skip


def test_passages_that_hold_a_phrase_are_counted_once_each():
    graph = graph_of({"p": [A_B, A_B, ("anna", "likes", "carl")], "q": [A_B], "r": []})
    assert dict(zip(graph.phrases, graph.passage_counts.tolist(), strict=True)) == {
        "anna": 2, "bert": 2, "carl": 1
    }  # fmt: skip
    assert graph.node_specificity().tolist() == [0.5, 0.5, 1.0]


def test_the_matrix_counts_a_passages_distinct_triples_that_hold_a_phrase():
    graph = graph_of(
        {"p": [A_B, A_B, ("anna", "likes", "carl"), ("anna", "is", "anna")], "q": [A_B]}
    )
    assert graph.phrase_passages.toarray().tolist() == [[3, 1], [1, 1], [1, 0]]
    assert graph.triple_passages.toarray().tolist() == [[1, 0], [1, 1], [1, 0]]


def test_nodes_stand_in_canonical_order():
    corpus = {"b": [("Zoe", "met", "Ann")], "a": [("Ärla", "met", "zoe"), ("10", "is", "9")]}
    graph = graph_of(corpus)
    assert graph.phrases == ("10", "9", "ann", "zoe", "ärla")
    assert graph.triples == (("10", "is", "9"), ("zoe", "met", "ann"), ("ärla", "met", "zoe"))
    assert graph.triple_phrases.tolist() == [[0, 1], [3, 2], [4, 3]]
    assert graph.triple_passages.toarray().tolist() == [[1, 0], [0, 1], [1, 0]]
    size = graph.n_phrases + 2
    assert graph.transition(PER_PASSAGE, with_passages=True).walk.shape == (size, size)
    assert graph.transition(PER_PASSAGE, with_passages=False).walk.shape == (5, 5)


def test_phrases_of_any_script_are_nodes_of_their_own():
    graph = graph_of(
        {
            "1": [("東京", "は", "首都")],
            "2": [("Москва", "столица", "Россия")],
            "3": [("🦛", "is", "hippo")],
            "4": [("Cafe\u0301", "is", "Café")],
            "5": [("Electrons", "are", "ELECTRONS"), ("electrons", "are", "small")],
        }
    )
    assert len(graph.phrases) == 9
    assert all(graph.phrases)
    assert graph.passage_counts.tolist() == [1] * 9


def test_a_graph_of_nothing_is_whole():
    graph = graph_of({})
    assert (graph.n_phrases, graph.n_passages, graph.triples) == (0, 0, ())
    assert weights(graph, PER_PASSAGE) == {}
    graph = graph_of({"p": []})
    assert graph.transition(PER_PASSAGE, with_passages=True).dangling.tolist() == [0]
    assert graph.transition(PER_PASSAGE, with_passages=False).walk.shape == (0, 0)


def test_each_config_has_its_own_walk():
    likes = ("anna", "likes", "carl")
    corpus = {"1": [A_B, likes, likes], "2": [("doris", "is", "dora")]}
    graph = graph_of(corpus, {("anna", "bert"): 0.9, ("anna", "dora"): 0.85})
    configs = [
        PER_PASSAGE,
        PER_OCCURRENCE,
        ADDING,
        HippoConfig(synonymy=False),
        HippoConfig(synonymy_weight="one"),
    ]
    walks = [graph.transition(c, with_passages=True).walk.toarray().tolist() for c in configs]
    again = [graph.transition(c, with_passages=True).walk.toarray().tolist() for c in configs]
    assert walks == again
    assert len({str(walk) for walk in walks}) == len(configs)


# -- seeds -----------------------------------------------------------------------------------------


def test_phrase_seeds_are_the_mean_triple_score_by_passage_count():
    """The fixture of the reference: kept (a, r, b) at 1.0 and (a, r, c) at 0.8."""
    kept, scores = np.array([[0, 1], [0, 2]]), np.array([1.0, 0.8])
    specificity = 1 / np.array([4.0, 1.0, 2.0])
    seeds = triple_seeds(kept, scores, specificity, top=5)
    assert seeds == pytest.approx([0.225, 1.0, 0.4])
    assert triple_seeds(kept, scores, specificity, top=2) == pytest.approx([0, 1.0, 0.4])
    assert triple_seeds(kept, scores, np.ones(3), top=5) == pytest.approx([0.9, 1.0, 0.8])


def test_a_triple_of_one_phrase_seeds_it_like_any_other():
    assert triple_seeds(np.array([[0, 0]]), np.array([0.5]), np.ones(1), top=5) == [0.5]


def test_kept_triples_that_all_scale_to_0_count_alike():
    kept = np.array([[0, 1], [1, 2]])
    seeds = triple_seeds(kept, np.zeros(2), 1 / np.array([1.0, 2.0, 1.0]), top=5)
    assert seeds.tolist() == [1, 0.5, 1]


def test_no_triple_no_seed():
    empty = np.zeros((0, 2), dtype=int)
    assert triple_seeds(empty, np.zeros(0), np.ones(3), top=5).tolist() == [0, 0, 0]


def test_equal_seeds_at_the_cut_go_by_position():
    kept = np.array([[5, 4], [3, 2], [1, 0]])
    seeds = triple_seeds(kept, np.ones(3), np.ones(6), top=4)
    assert seeds.tolist() == [1, 1, 1, 1, 0, 0]


def test_passage_seeds_are_scaled_dense_scores():
    assert passage_seeds(np.array([0.9, 0.6, 0.3]), 0.05) == pytest.approx([0.05, 0.025, 0])
    assert passage_seeds(np.array([0.3]), 0.05) == pytest.approx([0.05])


def test_two_entities_on_one_phrase_seed_it_once():
    specificity = np.array([0.5, 1.0, 0.25])
    assert entity_seeds(np.array([2, 0, 2]), specificity).tolist() == [0.5, 0, 0.25]
    assert entity_seeds(np.array([], dtype=int), specificity).tolist() == [0, 0, 0]


# -- against igraph --------------------------------------------------------------------------------

PHRASES = ["Ada", "Ada Lovelace", "lovelace ada", "notes", "ada notes", "C", "ab", "ab c", "Rome"]
phrase = st.sampled_from(PHRASES)
corpora_ = st.dictionaries(
    st.sampled_from("pqrst"),
    st.lists(st.tuples(phrase, st.sampled_from(["is", "met"]), phrase), max_size=5),
    min_size=1,
)
THRESHOLD = 0.5


def plain_multigraph(corpus, config, *, with_passages):
    """Build the graph as the reference does: a dictionary of ordered pairs, then igraph."""
    keyed = {
        id_: [tuple(map(normalise_phrase, triple)) for triple in triples]
        for id_, triples in corpus.items()
    }
    phrases = sorted({p for triples in keyed.values() for s, _, o in triples for p in (s, o)})
    per_occurrence = config.relation_count == "occurrence"
    pairs = {}
    for triples in keyed.values():
        for subject, _, object_ in triples if per_occurrence else dict.fromkeys(triples):
            pairs[subject, object_] = pairs.get((subject, object_), 0) + 1
            pairs[object_, subject] = pairs.get((object_, subject), 0) + 1
    rows = unit_rows(HashEmbedder().embed(phrases, "phrase")) if phrases else []
    vectors = dict(zip(phrases, np.asarray(rows, dtype=np.float64), strict=True))
    for one, other in itertools.permutations(phrases, 2):
        cosine = float(vectors[one] @ vectors[other])
        if cosine >= THRESHOLD and letters_and_digits(one) > 2:
            pairs[one, other] = cosine if config.synonymy_weight == "cosine" else 1.0  # overwrites
    nodes = list(phrases)
    if with_passages:
        nodes += [("passage", id_) for id_ in sorted(corpus)]
        for id_, triples in keyed.items():
            for held in {p for s, _, o in triples for p in (s, o)}:
                pairs[("passage", id_), held] = 1.0
    place = {node: i for i, node in enumerate(nodes)}
    graph = igraph.Graph(len(nodes))
    joined = {pair: weight for pair, weight in pairs.items() if pair[0] != pair[1]}
    graph.add_edges([(place[a], place[b]) for a, b in joined])
    graph.es["weight"] = list(joined.values())
    return graph


@given(corpus=corpora_, config=st.sampled_from([PER_PASSAGE, PER_OCCURRENCE]), data=st.data())
@settings(max_examples=60)
def test_the_walk_is_that_of_the_references_multigraph(corpus, config, data):
    config = config.but(synonymy_threshold=THRESHOLD)
    with HippoRAG(None, HashEmbedder(), config=config) as memory:
        memory.add_extracted(
            [(Passage(id_, id=id_), Extraction(triples=t)) for id_, t in corpus.items()]
        )
        graph = memory._index.snapshot().graph
    for with_passages in (True, False):
        plain = plain_multigraph(corpus, config, with_passages=with_passages)
        size = plain.vcount()
        total = np.zeros((size, size))
        for edge in plain.es:
            total[edge.source, edge.target] += edge["weight"]
            total[edge.target, edge.source] += edge["weight"]
        transition = graph.transition(config, with_passages=with_passages)
        strength = total.sum(axis=0)
        expected = total / np.where(strength > 0, strength, 1)
        assert transition.walk.toarray() == pytest.approx(expected, abs=1e-12)
        if size == 0:
            continue
        reset = data.draw(st.lists(st.sampled_from([0, 0.05, 1]), min_size=size, max_size=size))
        if not any(reset):
            continue
        theirs = plain.personalized_pagerank(
            directed=False, damping=0.5, reset=reset, weights="weight", implementation="prpack"
        )
        ours = personalized_pagerank(transition, np.array(reset)).scores
        assert ours == pytest.approx(theirs, abs=1e-9)
