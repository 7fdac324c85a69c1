"""Explanations: exact splits of a score by seed and by edge, and the strongest paths to it."""

import contextlib
import io
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import (
    Edge,
    Explanation,
    Extraction,
    HippoConfig,
    HippoRAG,
    Passage,
    Triple,
)
from hippo_core.testing import HashEmbedder, TableOpenIE

PAGE = Path(__file__).parents[2] / "docs" / "explaining.md"
WORDS = ["ada", "brass", "cairo", "delta", "engine", "frome", "ghent"]
QUERY = "ada engine cairo"
TWO = [HippoConfig(), HippoConfig.hipporag2(), HippoConfig(second_hop=2, user_edges=False)]
ONE = [
    HippoConfig.hipporag(),
    HippoConfig.hipporag(expansion="linked_phrases"),
    HippoConfig.hipporag(expansion="neighbours"),
    HippoConfig.hipporag(dense_ensemble=True, ensemble_threshold=1.0),
]

triples = st.lists(
    st.builds(
        Triple, st.sampled_from(WORDS), st.sampled_from(["made", "saw"]), st.sampled_from(WORDS)
    ),
    max_size=3,
)
corpora = st.lists(triples, min_size=1, max_size=6)
links = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.5, 1.0, 3.0])), max_size=3
)


def filled(corpus, edges=()):
    """A memory of passages p0, p1, ... that state triples, with edges between passages."""
    memory = HippoRAG(
        None, HashEmbedder(), openie=TableOpenIE({QUERY: Extraction(("ada", "cairo"))})
    )
    texts = [f"{i}. " + ". ".join(" ".join(t) for t in stated) for i, stated in enumerate(corpus)]
    own = [
        Edge(f"p{a}", to_passage=f"p{b}", weight=weight)
        for a, b, weight in edges
        if a != b and max(a, b) < len(corpus)
    ]
    memory.add_extracted(
        [
            (Passage(text, id=f"p{i}", metadata={"n": i}), Extraction(triples=tuple(stated)))
            for i, (text, stated) in enumerate(zip(texts, corpus, strict=True))
        ],
        edges=own,
    )
    return memory


def total(parts):
    return sum(part.amount for part in parts)


@given(
    config=st.sampled_from([*TWO, *ONE, HippoConfig.dense()]),
    corpus=corpora,
    edges=links,
    mode=st.sampled_from(["ppr", "relative"]),
)
def test_each_split_sums_to_the_score(config, corpus, edges, mode):
    with filled(corpus, edges) as memory:
        found = memory.retrieve(QUERY, k=9, config=config, score_mode=mode, explain=True)
        for hit in found:
            assert hit.explanation.score == hit.score
            assert total(hit.explanation.by_seed) == pytest.approx(hit.score, abs=1e-9)
            assert total(hit.explanation.by_edge) == pytest.approx(hit.score, abs=1e-9)
            if config in TWO and found.path.used_graph:  # the walk alone says it all
                assert {part.kind for part in hit.explanation.by_seed} <= {"phrase", "passages"}
                parts = {part.kind for part in hit.explanation.by_edge}
                assert parts <= {"context", "edge", "restart"}


class Solved:
    """The walk of one query, solved as a dense linear system."""

    def __init__(self, memory, config, monkey):
        self.resets = []
        import hippo_core.retrieval as retrieval

        walk = retrieval.personalized_pagerank

        def listening(transition, reset, **kwargs):
            self.transition, self.reset = transition, np.asarray(reset, float)
            return walk(transition, reset, **kwargs)

        monkey.setattr(retrieval, "personalized_pagerank", listening)
        self.found = memory.retrieve(QUERY, k=9, config=config, explain=True)
        self.snapshot = memory._index.snapshot()
        self.n_phrases = self.snapshot.graph.n_phrases
        self.reset = self.reset / self.reset.sum()
        self.steps = config.damping * self.transition.walk.toarray()
        inverse = np.linalg.inv(np.eye(len(self.reset)) - self.steps)
        self.scale = 1 / (inverse @ self.reset).sum()  # the whole mass is 1
        self.inverse = inverse

    def node(self, passage_id):
        ids = [live.passage.id for live in self.snapshot.corpus.passages]
        return self.n_phrases + ids.index(passage_id)


CHAIN = [
    [Triple("ada", "made", "engine")],
    [Triple("engine", "saw", "cairo"), Triple("ada", "saw", "ghent")],
    [Triple("cairo", "made", "delta")],
    [],
]


@pytest.mark.parametrize("config", TWO)
def test_a_seeds_part_is_what_a_walk_from_it_alone_would_bring(config, monkeypatch):
    with filled(CHAIN, [(3, 0, 2.0)]) as memory:
        solved = Solved(memory, config, monkeypatch)
        for hit in solved.found:
            node = solved.node(hit.passage.id)
            brought = solved.scale * solved.inverse[node] * solved.reset
            phrases = brought[: solved.n_phrases]
            expected = {
                solved.snapshot.display_form(i): phrases[i] for i in np.flatnonzero(phrases)
            }
            by_seed = hit.explanation.by_seed
            found = {part.name: part.amount for part in by_seed if part.kind == "phrase"}
            assert found == pytest.approx(expected, abs=1e-9)
            rest = sum(part.amount for part in by_seed if part.kind == "passages")
            assert rest == pytest.approx(brought[solved.n_phrases :].sum(), abs=1e-9)


def all_paths(solved, target, longest=5):
    """Every simple path to a node, with what it brings: the seed first."""
    paths = [(target,)]
    while paths:
        following = []
        for path in paths:
            if len(path) > 1:
                along = np.prod([solved.steps[to, origin] for origin, to in pairwise(path)])
                yield path, solved.scale * solved.reset[path[0]] * along
            if len(path) <= longest:
                origins = np.flatnonzero(solved.steps[path[0]])
                following += [(int(o), *path) for o in origins if o not in path]
        paths = following


@pytest.mark.parametrize("config", TWO)
def test_paths_are_the_strongest_from_each_seed(config, monkeypatch):
    with filled(CHAIN, [(3, 0, 2.0)]) as memory:
        solved = Solved(memory, config, monkeypatch)
        for hit in solved.found:
            best = {}
            for path, amount in all_paths(solved, solved.node(hit.passage.id)):
                if amount >= 1e-3 * hit.score:
                    best[path[0]] = max(best.get(path[0], 0.0), amount)
            expected = sorted(best.values(), reverse=True)[:3]
            paths = hit.explanation.paths
            assert [path.amount for path in paths] == pytest.approx(expected, abs=1e-12)
            assert all(path.steps[-1].to == hit.passage.id for path in paths)


def test_a_path_names_phrases_passages_and_the_triples_between():
    with filled(CHAIN) as memory:
        found = memory.retrieve(QUERY, k=9, config=HippoConfig.hipporag2(), explain=True)
    (hit,) = [hit for hit in found if hit.passage.id == "p2"]
    paths = {path.seed: path.steps for path in hit.explanation.paths}
    steps = [(step.kind, step.to, step.triple) for step in paths["engine"]]
    assert steps == [
        ("relation", "cairo", ("engine", "saw", "cairo")),
        ("context", "p2", None),
    ]


def test_synonyms_and_your_edges_are_named_for_what_they_are():
    corpus = [
        [Triple("brass engine", "made", "ada")],
        [Triple("the brass engine", "saw", "frome")],
        [],
    ]
    with filled(corpus, [(2, 1, 1.0)]) as memory:
        config = HippoConfig(linked_triples=1)
        found = memory.retrieve("brass engine made ada", k=3, config=config, explain=True)
    by_id = {hit.passage.id: hit.explanation for hit in found}
    kinds = {step.kind for path in by_id["p1"].paths for step in path.steps}
    assert "synonymy" in kinds
    (edge,) = [part for part in by_id["p2"].by_edge if part.kind == "edge"]
    assert edge.name == "p2 -> p1"


def test_an_isolated_passage_has_its_own_seed_alone():
    with filled(CHAIN) as memory:
        found = memory.retrieve(QUERY, k=9, explain=True)
    (hit,) = [hit for hit in found if hit.passage.id == "p3"]
    assert [part.kind for part in hit.explanation.by_edge] in ([], ["restart"])
    assert hit.explanation.paths == ()


@pytest.mark.parametrize("config", [*TWO, *ONE, HippoConfig.dense()])
def test_explaining_changes_no_ranking(config):
    with filled(CHAIN, [(3, 0, 2.0)]) as memory:
        plain = memory.retrieve(QUERY, k=9, config=config)
        told = memory.retrieve(QUERY, k=9, config=config, explain=True)
        assert [(h.passage.id, h.score, h.triples, h.edges) for h in plain] == [
            (h.passage.id, h.score, h.triples, h.edges) for h in told
        ]
        assert {h.explanation for h in plain} == {None}
        assert all(isinstance(h.explanation, Explanation) for h in told)


async def test_async_and_many_explain_alike():
    with filled(CHAIN) as memory:
        told = [hit.explanation for hit in memory.retrieve(QUERY, explain=True)]
        assert told == [hit.explanation for hit in await memory.aretrieve(QUERY, explain=True)]
        (many,) = memory.retrieve_many([QUERY], explain=True)
        assert told == [hit.explanation for hit in many]


def test_an_explanation_is_plain_values():
    with filled(CHAIN) as memory:
        for hit in memory.retrieve(QUERY, explain=True):
            told = hit.explanation.as_dict()
            assert json.loads(json.dumps(told)) == told


def test_an_explanation_reads_as_a_tree():
    with filled(CHAIN) as memory:
        hit = next(iter(memory.retrieve(QUERY, explain=True)))
    lines = str(hit.explanation).splitlines()
    assert lines[0] == f"score {hit.score:.6g}"
    shares = [float(line.split("%")[0].split()[-1]) for line in lines if "%" in line]
    assert sum(shares[: len(hit.explanation.by_seed)]) == pytest.approx(100, abs=0.5)


def test_a_filter_is_a_smaller_corpus_for_explanations_too():
    with filled(CHAIN) as memory, filled(CHAIN[:2]) as smaller:
        allowed = memory.retrieve(QUERY, explain=True, where={"n": {"$lt": 2}})
        expected = smaller.retrieve(QUERY, explain=True)
        assert [h.explanation for h in allowed] == [h.explanation for h in expected]


@pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no docs")
def test_the_pages_example_prints_what_the_page_shows():
    program, printed = re.findall(
        r"^```(?:python)?\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S
    )
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})  # noqa: S102 - our own page
    assert printed in out.getvalue()
