"""The user's edges: what is taken and refused, when an edge is there, and what it weighs."""

import asyncio
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import (
    Edge,
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexingError,
    InputError,
    MetadataEdges,
    Passage,
    PermanentModelError,
    RegexEdges,
    RetrievalPath,
    Status,
    StoreCorruptError,
    Triple,
    index,
)
from hippo_core.contributions import Target
from hippo_core.keys import Keys
from hippo_core.tables import edges as table
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.user_edges import EdgesBySlot
from hippo_core.where import checked_where

QUERY = "Who wrote notes?"
A = Passage("Ada wrote notes.", id="a")
B = Passage("It rained at sea.", id="b", source_id="s")
C = Passage("Nothing here.", id="c", source_id="s")
READ = {
    "a": Extraction(triples=[("Ada", "wrote", "notes")]),
    "b": Extraction(triples=[("rain", "fell on", "the sea")]),
    "c": Extraction(),
}


def items(*passages):
    return [(p, READ[p.id]) for p in passages]


@pytest.fixture
def memory(open_memory):
    """A memory of three passages that share nothing."""
    memory = open_memory()
    memory.add_extracted(items(A, B, C))
    return memory


def counts(memory):
    stats = memory.stats()
    return stats.user_edges, stats.pending_edges


def weights(memory, config=None):
    """The weight of each edge of a passage, by the names of both ends."""
    snapshot = memory._index.snapshot()
    names = [*snapshot.graph.phrases, *(live.passage.id for live in snapshot.corpus.passages)]
    return {
        frozenset((names[a], names[b])): w
        for a, b, w in zip(*map(np.ndarray.tolist, snapshot.graph.passage_edges(
            config or HippoConfig())), strict=True)
    }  # fmt: skip


def given_edges(memory):
    """The edges that are stored, by passage and target."""
    with memory._store.read() as reader:
        stored = reader.passages(memory.namespace)
        rows = reader._connection.execute(sa.select(table)).all()
    assert {row.passage_id for row in rows} == {s.passage.id for s in stored if s.edges}
    return {(s.passage.id, *target): w for s in stored for target, w in s.edges.items()}


# -- what an edge is in the graph ------------------------------------------------------------------


def test_an_edge_joins_its_passage_to_a_passage_to_all_of_a_source_and_to_a_phrase(memory):
    context = weights(memory)
    links = [
        Edge("a", to_passage="b", weight=0.5),
        Edge("b", to_source="s", weight=2),
        Edge("c", to_phrase="ADA", weight=3),
    ]
    memory.add([], edges=links)
    assert weights(memory) == context | {
        frozenset("ab"): 0.5,
        frozenset("bc"): 2,  # and none of b with itself
        frozenset(("c", "ada")): 3,
    }
    assert counts(memory) == (3, 0)


def test_edges_of_one_pair_add_up_with_each_other_and_with_a_context_edge(memory):
    links = [
        Edge("a", to_passage="b"),
        Edge("b", to_passage="a", weight=2),
        Edge("a", to_source="s", weight=4),
        Edge("a", to_phrase="Ada", weight=8),
    ]
    memory.add([], edges=links)
    assert weights(memory)[frozenset("ab")] == 7
    assert weights(memory)[frozenset("ac")] == 4
    assert weights(memory)[frozenset(("a", "ada"))] == 9


def test_of_edges_from_one_passage_to_one_target_the_heaviest_counts(memory):
    links = [Edge("a", to_passage="b", weight=w) for w in (2, 2, 5, 1)]
    links += [Edge("a", to_phrase=phrase) for phrase in ("The Sea", "the sea", "THE  SEA!")]
    report = memory.add([], edges=links)
    assert (report.edges, report.pending_edges) == (2, 0)
    assert weights(memory)[frozenset("ab")] == 5
    assert weights(memory)[frozenset(("a", "the sea"))] == 1


def test_the_walk_goes_over_an_edge_both_ways(open_memory):
    for owner, target in ("ab", "ba"):
        memory = open_memory()
        memory.add_extracted(items(A, B, C), edges=[Edge(owner, to_passage=target)])
        found = {hit.passage.id: hit for hit in memory.retrieve(QUERY)}
        plain = {
            hit.passage.id: hit
            for hit in memory.retrieve(QUERY, config=HippoConfig(user_edges=False))
        }
        assert found["b"].score > 10 * plain["b"].score
        assert found["a"].edges == found["b"].edges == (Edge(owner, to_passage=target),)
        assert all(hit.edges == () for hit in plain.values())
        assert found["c"].edges == ()


def test_a_walk_over_a_heavier_edge_brings_more(memory):
    scores = []
    for weight in (0.1, 1.0, 10.0):
        memory.add([], edges=[Edge("a", to_passage="b", weight=weight)])
        (hit,) = (h for h in memory.retrieve(QUERY) if h.passage.id == "b")
        scores.append(hit.score)
    assert scores == sorted(scores)
    assert scores[0] < scores[2] / 2


@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e100])
def test_a_walk_over_edges_of_any_weight_is_one(memory, weight):
    memory.add([], edges=[Edge(o, to_passage=t, weight=weight) for o, t in ("ab", "bc", "cb")])
    found = memory.retrieve(QUERY)
    assert all(math.isfinite(hit.score) for hit in found)
    assert 0 < sum(hit.score for hit in found) <= 1


def test_hipporag_and_dense_retrieval_know_nothing_of_edges(open_memory):
    openie = TableOpenIE(queries={QUERY: ["Ada"]})
    plain, linked = open_memory(openie=openie), open_memory(openie=openie)
    plain.add_extracted(items(A, B, C))
    linked.add_extracted(
        items(A, B, C), edges=[Edge("b", to_phrase="Ada"), Edge("a", to_source="s")]
    )
    for config in (HippoConfig.hipporag(), HippoConfig.dense(), HippoConfig(user_edges=False)):
        one, two = plain.retrieve(QUERY, config=config), linked.retrieve(QUERY, config=config)
        assert one.passages == two.passages


# -- what waits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "passage"),
    [
        (Edge("a", to_passage="b"), B),
        (Edge("a", to_source="s"), B),
        (Edge("a", to_phrase="The sea"), B),
    ],
)
def test_an_edge_waits_for_its_target_and_again_when_that_goes(link, passage, open_memory):
    memory, other = open_memory(), open_memory()
    report = memory.add_extracted(items(A), edges=[link])
    assert (report.edges, report.pending_edges) == (1, 1)
    assert counts(memory) == (0, 1)
    assert memory.retrieve(QUERY).passages[0].edges == ()
    report = memory.add_extracted(items(passage))
    assert (report.edges, report.pending_edges) == (0, 0)
    assert counts(memory) == (1, 0)
    assert memory.retrieve(QUERY).passages[0].edges == (link,) or link.to_phrase
    other.add_extracted(items(passage, A), edges=[link])
    assert weights(memory) == weights(other)
    memory.delete([passage.id])
    assert counts(memory) == (0, 1)
    assert given_edges(memory)
    assert memory.verify().ok
    memory.add_extracted(items(passage))
    assert counts(memory) == (1, 0)
    assert weights(memory) == weights(other)


def test_an_edge_goes_with_its_passage_and_does_not_come_back_with_it(memory):
    memory.add([], edges=[Edge("a", to_passage="b"), Edge("b", to_passage="a")])
    memory.delete(["a"])
    assert given_edges(memory) == {("b", "passage", "a"): 1}
    memory.add_extracted(items(A))
    assert counts(memory) == (1, 0)
    memory.delete(source_id="s")
    assert given_edges(memory) == {}


def test_an_edge_to_a_source_that_is_its_own_waits_for_another_passage(open_memory):
    memory = open_memory()
    report = memory.add_extracted(items(B), edges=[Edge("b", to_source="s")])
    assert report.pending_edges == 1
    assert counts(memory) == (0, 1)
    assert memory.add_extracted(items(C), edges=[Edge("b", to_source="s")]).pending_edges == 0
    assert counts(memory) == (1, 0)
    assert frozenset("bc") in weights(memory)


def test_a_passage_that_leaves_a_source_leaves_its_edges(memory):
    memory.add([], edges=[Edge("a", to_source="s")])
    moved = Passage(B.text, id="b", source_id="t")
    memory.add_extracted([(moved, READ["b"])])
    assert frozenset("ab") not in weights(memory)
    assert frozenset("ac") in weights(memory)


def test_who_takes_the_place_of_a_target_does_not_get_its_edges(memory):
    links = [Edge("a", to_source="s"), Edge("a", to_passage="b"), Edge("a", to_phrase="rain")]
    memory.add([], edges=links)
    assert counts(memory) == (3, 0)
    memory.delete(source_id="s")
    stranger = Passage("Elsewhere.", id="z", source_id="t")
    memory.add_extracted([(stranger, Extraction(triples=[("fog", "is", "mist")]))])
    assert counts(memory) == (0, 3)
    assert {frozenset("az"), frozenset(("a", "fog"))}.isdisjoint(weights(memory))


def test_a_phrase_is_there_only_as_long_as_a_triple_holds_it(memory):
    report = memory.add([], edges=[Edge("a", to_phrase="fell on"), Edge("a", to_phrase="rain")])
    assert report.pending_edges == 1  # a relation is no phrase
    memory.add_extracted([(B, Extraction())])
    assert counts(memory) == (0, 2)
    assert memory.stats().phrases == 2


def test_an_alias_is_what_it_stands_for(memory):
    links = [Edge("c", to_phrase="A. Lovelace", weight=2), Edge("c", to_phrase="Ada")]
    assert memory.add([], edges=links).pending_edges == 1
    assert weights(memory)[frozenset(("c", "ada"))] == 1
    memory.aliases = [["A. Lovelace", "Ada", "Lady Ada"]]
    assert weights(memory)[frozenset(("c", "ada"))] == 2  # one target: the heavier counts
    assert counts(memory) == (1, 0)
    assert memory.add([], edges=[Edge("b", to_phrase="Lady Ada")]).pending_edges == 0
    assert weights(memory)[frozenset(("b", "ada"))] == 1
    memory.aliases = []
    assert counts(memory) == (1, 2)


phrases = st.sampled_from(["Ada", "notes", "Rome", "ada l", "none", "nor"])


@given(
    stated=st.lists(
        st.lists(st.tuples(phrases, st.just("is"), phrases), max_size=3), min_size=1, max_size=4
    ),
    links=st.lists(
        st.tuples(st.integers(0, 3), phrases, st.sampled_from([0.5, 1.0, 2.0])), max_size=6
    ),
    group=st.lists(phrases, min_size=2, max_size=4, unique=True),
)
@settings(max_examples=25)
def test_with_aliases_edges_are_those_of_a_corpus_that_spells_them_as_one(stated, links, group):
    texts = [(Passage(f"Text {n}", id=f"p{n}"), t) for n, t in enumerate(stated)]
    there = {phrase for triples in stated for s, _, o in triples for phrase in (s, o)}
    standing = next((phrase for phrase in group if phrase in there), None)

    def spelled(phrase):
        return standing if phrase in group and standing else phrase

    def filled(name, aliases):
        memory = HippoRAG(None, HashEmbedder(16), config=HippoConfig(synonymy=False))
        memory.aliases = aliases
        memory.add_extracted(
            [
                (p, Extraction(triples=[(name(s), r, name(o)) for s, r, o in triples]))
                for p, triples in texts
            ],
            edges=[
                Edge(f"p{n}", to_phrase=name(phrase), weight=w)
                for n, phrase, w in links
                if n < len(texts)
            ],
        )
        return memory

    with filled(str, [group]) as aliased, filled(spelled, []) as one:
        assert weights(aliased) == weights(one)
        assert counts(aliased)[0] == counts(one)[0]


# -- adding ----------------------------------------------------------------------------------------


def test_edges_of_a_call_replace_those_of_its_passages_and_of_each_that_is_named(memory):
    memory.add([], edges=[Edge(o, to_passage=t) for o, t in ("ab", "bc", "ca")])
    memory.add_extracted(items(A), edges=[Edge("b", to_phrase="Ada")])
    assert set(given_edges(memory)) == {("b", "phrase", "ada"), ("c", "passage", "a")}
    memory.add_extracted(items(A, B))
    assert set(given_edges(memory)) == {("b", "phrase", "ada"), ("c", "passage", "a")}
    memory.add([], edges=[])
    assert set(given_edges(memory)) == {("b", "phrase", "ada"), ("c", "passage", "a")}
    memory.add_extracted(items(B, C), edges=[])
    assert given_edges(memory) == {}


def test_an_update_without_edges_keeps_them(memory):
    memory.add([], edges=[Edge("a", to_passage="b", weight=2)])
    report = memory.add_extracted([(Passage("Ada wrote more.", id="a"), READ["a"])])
    assert (report.updated, report.edges) == (("a",), 0)
    assert given_edges(memory) == {("a", "passage", "b"): 2}
    assert counts(memory) == (1, 0)


def test_edges_alone_cost_no_model_call_and_are_a_new_version_once(open_memory):
    chat = ScriptedChatModel([])
    embedder = HashEmbedder()
    memory = open_memory(chat, embedder)
    memory.add_extracted(items(A, B))
    embedder.calls.clear()
    version = memory._index._state.version
    report = memory.add([A], edges=[Edge(A, to_passage=B)])
    assert (report.unchanged, report.updated, report.edges) == (("a",), (), 1)
    assert memory._index._state.version == version + 1
    memory.add([A], edges=[Edge(A, to_passage=B)])
    memory.add([A])
    memory._index.refresh()
    assert memory._index._state.version == version + 1
    memory.add([A], edges=[])
    assert memory._index._state.version == version + 2
    assert chat.calls == embedder.calls == []


def test_an_edge_may_name_passages_by_themselves(open_memory):
    memory = open_memory()
    one, two = Passage("One."), Passage("Two.", metadata={"n": 2})
    report = memory.add_extracted(
        [(one, READ["a"]), (two, READ["b"])], edges=[Edge(one, to_passage=two)]
    )
    first, second = report.ids
    assert given_edges(memory) == {(first, "passage", second): 1}


def test_a_passage_that_cannot_be_read_has_its_edges(open_memory, corpora):
    chat = corpora.Reader({A.text: []}, other=PermanentModelError("down"))
    memory = open_memory(chat)
    with pytest.raises(IndexingError):
        memory.add([A, B], edges=[Edge("b", to_passage="a")])
    assert len(memory) == 0
    report = memory.add([A, B], edges=[Edge("b", to_passage="a")], on_error="skip")
    assert set(report.failed) == {"b"}
    assert given_edges(memory) == {("b", "passage", "a"): 1}
    assert memory.add([B], on_error="skip").failed
    assert memory.add([A, B], edges=[Edge("a", to_passage="b")], on_error="skip").failed
    assert given_edges(memory) == {("a", "passage", "b"): 1}
    assert [h.status for h in memory.retrieve("sea")].count(Status.FAILED) == 1


async def test_all_ways_to_add_take_edges(open_memory):
    link = Edge("a", to_passage="b")
    openie = TableOpenIE({p.text: READ[p.id] for p in (A, B)})
    memories = [open_memory(openie=openie) for _ in range(4)]
    reports = [
        memories[0].add([A, B], edges=[link]),
        await memories[1].aadd([A, B], edges=[link]),
        memories[2].add_extracted(items(A, B), edges=[link]),
        await memories[3].aadd_extracted(items(A, B), edges=[link]),
    ]
    assert {(r.edges, r.pending_edges) for r in reports} == {(1, 0)}
    for memory in memories:
        assert weights(memory) == weights(memories[0])
        assert memory.retrieve(QUERY).passages == memories[0].retrieve(QUERY).passages


def test_others_of_the_same_text_keep_their_own_edges(memory):
    twin = Passage(A.text, id="twin")
    memory.add_extracted([(twin, READ["a"])], edges=[Edge("twin", to_passage="b")])
    report = memory.add_extracted(
        [(A, Extraction(triples=[("Ada", "read", "notes")]))], edges=[Edge("a", to_passage="c")]
    )
    assert report.updated == ("a", "twin")
    assert set(given_edges(memory)) == {("a", "passage", "c"), ("twin", "passage", "b")}
    assert memory.verify().ok


def test_an_owner_alone_is_not_reported_as_updated(memory):
    report = memory.add_extracted(items(A), edges=[Edge("b", to_passage="c")])
    assert (report.ids, report.unchanged, report.updated) == (("a",), ("a",), ())


# -- what is refused -------------------------------------------------------------------------------

NO_EDGES = {
    "no target": (Edge("a"), "one target .* got none"),
    "two targets": (Edge("a", to_passage="b", to_phrase="x"), "to_passage and to_phrase"),
    "itself": (Edge("a", to_passage="a"), "goes to itself"),
    "nobody's": (Edge("ghost", to_passage="a"), "'ghost'.* neither in this call nor there"),
    "no id": (Edge("", to_passage="a"), "passage of an edge must be"),
    "no passage": (Edge(7, to_passage="a"), "passage of an edge must be .* got 7"),
    "no name": (Edge("a", to_passage=7), "to_passage of an edge must be .* got 7"),
    "no source": (Edge("a", to_source=7), "to_source must be a str, got int"),
    "no phrase": (Edge("a", to_phrase=b"x"), "to_phrase must be a str, got bytes"),
    "no key": (Edge("a", to_phrase="!!!"), "'!!!'.* must hold a letter"),
    "half a character": (Edge("a", to_passage="\ud800"), "to_passage"),
    "no edge": (("a", "b"), "must be an Edge or a function .* got tuple"),
    "a class": (RegexEdges, "got RegexEdges"),
    "nothing found": (lambda _: None, "finder must give a list of Edge, got NoneType"),
    "a strange finder": (lambda _: [("a", "b")], "must be an Edge, got tuple"),
    "of another": (lambda _: [Edge("b", to_passage="c")], "given passage 'a' .* an edge of 'b'"),
    **{
        f"weight {weight!r}": (
            Edge("a", to_passage="b", weight=weight),
            "weight of an edge must be",
        )
        for weight in (0, -1, math.nan, math.inf, 1e101, 10**400, "1", True, None, 1j)
    },
}


@pytest.mark.parametrize("name", NO_EDGES)
def test_what_is_no_edge_is_refused_before_anything_is_done(name, open_memory):
    edge, said = NO_EDGES[name]
    chat = ScriptedChatModel([])
    memory = open_memory(chat)
    memory.add_extracted(items(B, C))
    version = memory._index._state.version
    for add in (
        lambda: memory.add([A], edges=[Edge("b", to_passage="c"), edge]),
        lambda: memory.add_extracted(items(A), edges=[Edge("b", to_passage="c"), edge]),
        lambda: asyncio.run(memory.aadd([A], edges=[edge])),
    ):
        with pytest.raises(InputError, match=said):
            add()
    memory._index.refresh()
    assert memory._index._state.version == version
    assert chat.calls == []


@pytest.mark.parametrize("edges", [Edge("a", to_passage="b"), "ab", 7, {"a": "b"}])
def test_what_is_no_list_of_edges_is_refused(edges, memory):
    with pytest.raises(InputError, match="edges must be a list of Edge or of finders"):
        memory.add([A], edges=edges)


def test_a_blank_passage_is_skipped_and_owns_no_edge(memory):
    blank = Passage(" ", id="blank")
    assert memory.add([blank], edges=lambda _: [][0]).blank == 1
    before = counts(memory)
    assert memory.add([blank], edges=[Edge("blank", to_passage="a")]).blank == 1
    assert counts(memory) == before
    with pytest.raises(InputError, match="neither in this call nor there"):
        memory.add([], edges=[Edge("blank", to_passage="a")])


def test_where_no_triple_is_there_the_walk_goes_over_edges_alone(open_memory):
    memory = open_memory()
    silent = [Passage(f"Rain fell {i} days.", id=f"r{i}") for i in range(9)]
    notes, target = Passage("Ada wrote notes.", id="notes"), Passage("Zinc.", id="zinc")
    memory.add_extracted(
        [(p, Extraction()) for p in (notes, target, *silent)],
        edges=[Edge("notes", to_passage="zinc", weight=3.0)],
    )
    found = memory.retrieve("Who wrote notes?", k=2)
    assert found.path == RetrievalPath.EDGES
    assert found.path.used_graph
    assert [hit.passage.id for hit in found] == ["notes", "zinc"]
    assert found.passages[1].edges == (Edge("notes", to_passage="zinc", weight=3.0),)
    without = memory.retrieve("Who wrote notes?", config=HippoConfig(user_edges=False))
    assert without.path == RetrievalPath.DENSE_NOTHING_LINKED


# -- finders ---------------------------------------------------------------------------------------


def names(finder, passage):
    return [e.to_passage or e.to_source or e.to_phrase for e in finder(passage)]


def test_a_regular_expression_finds_links_in_the_text():
    passage = Passage("See section 30 and Section 3a; section 30.", id="x", title="section 99")
    assert names(RegexEdges(r"section (\d+)"), passage) == ["30", "30"]
    assert names(RegexEdges(r"section \d+"), passage) == ["section 30", "section 30"]
    assert names(RegexEdges(r"(?i)section (\d+)(a?)", target=r"s-\1\2"), passage) == [
        "s-30",
        "s-3a",
        "s-30",
    ]
    by = RegexEdges(
        re.compile("SECTION (.+?)[ .;]", re.I), target=lambda m: m[1] if m[1] != "3a" else None
    )
    assert names(by, passage) == ["30", "30"]
    assert list(RegexEdges(r"x(\d)?", weight=2)(Passage("x x1", id="x"))) == [
        Edge("x", to_passage="1", weight=2)
    ]


@pytest.mark.parametrize("to", ["passage", "source", "phrase"])
def test_a_finder_says_what_it_finds(to):
    for finder in (RegexEdges(r"b\d", to=to, weight=3), MetadataEdges("links", to=to, weight=3)):
        found = list(finder(Passage("b1", id="x", metadata={"links": "b1"})))
        assert found == [Edge("x", **{f"to_{to}": "b1"}, weight=3)]


def test_metadata_name_one_or_several():
    def found(value):
        return names(MetadataEdges("cites"), Passage("T", id="x", metadata={"cites": value}))

    assert found("b") == ["b"]
    assert found(["b", 30, "", None]) == ["b", "30"]
    assert found(7) == ["7"]
    assert found(None) == found("") == found([]) == []
    assert names(MetadataEdges("cites"), Passage("T", id="x")) == []


@pytest.mark.parametrize("value", [1.5, True, {"a": 1}, ["b", ["c"]], [False]])
def test_metadata_of_another_type_are_refused_by_name(value, open_memory):
    memory = open_memory(ScriptedChatModel([]))
    passage = Passage("T", id="x", metadata={"cites": value})
    kind = type(value[-1] if isinstance(value, list) else value).__name__
    with pytest.raises(InputError, match=f"'x' has a {kind} in metadata 'cites'"):
        memory.add([passage], edges=MetadataEdges("cites"))


def test_a_finder_that_cannot_work_is_refused_where_it_is_made_or_first_used(memory):
    for make in (
        lambda: RegexEdges("("),
        lambda: RegexEdges(None),
        lambda: RegexEdges("a", to="chapter"),
        lambda: MetadataEdges("a", to="to_passage"),
        lambda: MetadataEdges(7),
        lambda: RegexEdges(b"a"),
        lambda: RegexEdges(re.compile(b"a")),
        lambda: RegexEdges("a", weight=-1),
        lambda: MetadataEdges("a", weight=float("nan")),
        lambda: MetadataEdges("a", weight="1"),
    ):
        with pytest.raises(InputError):
            make()
    with pytest.raises(InputError, match="does not fit the pattern"):
        memory.add([A], edges=RegexEdges("Ada", target=r"\1"))
    with pytest.raises(InputError, match="must be a str"):
        memory.add_extracted(items(A), edges=RegexEdges("Ada", target=lambda _: 7, to="source"))


def test_finders_are_asked_for_each_passage_of_a_call_and_no_other(memory):
    asked = []

    def finder(passage):
        asked.append(passage)
        passage.metadata["spoilt"] = True
        return [Edge(passage.id, to_passage="c"), Edge(passage.id, to_phrase="?!")]

    report = memory.add_extracted(items(A, C, A), edges=[finder, Edge("b", to_phrase="Ada")])
    assert [p.id for p in asked] == ["a", "c"]
    assert report.edges == 2  # none of c to itself, and none to nothing
    assert set(given_edges(memory)) == {("a", "passage", "c"), ("b", "phrase", "ada")}
    assert all(not p.metadata for p in memory)


def test_what_a_finder_raises_passes_through_and_nothing_was_done(memory):
    def finder(_passage):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        memory.add([Passage("New.", id="new")], edges=finder)
    assert len(memory) == 3


# -- explanation -----------------------------------------------------------------------------------


def test_edges_that_brought_a_passage_up_are_shown_best_first_and_at_most_three(open_memory):
    memory = open_memory()
    links = [
        Edge("b", to_phrase="aDa", weight=4),
        Edge("a", to_passage="b", weight=8),
        Edge("b", to_source="u", weight=1),
        Edge("b", to_passage="d", weight=0.5),
        Edge("b", to_passage="never", weight=9),
    ]
    more = [(Passage(f"Other {i}.", id=i, source_id="u"), Extraction()) for i in "de"]
    memory.add_extracted([*items(A, B), *more], edges=links)
    hits = {hit.passage.id: hit for hit in memory.retrieve(QUERY, k=9)}
    shown = hits["b"].edges
    assert shown[:2] == (Edge("b", to_phrase="Ada", weight=4.0), links[1])
    assert len(shown) == 3
    assert Edge("b", to_passage="never", weight=9) not in shown
    assert hits["e"].edges == (Edge("b", to_source="u"),)
    assert hits["d"].edges == (Edge("b", to_source="u"), Edge("b", to_passage="d", weight=0.5))


def test_an_edge_brings_its_share_of_what_its_other_end_has(memory):
    """By the definition: the mass of the other end, times weight over the sum of its weights."""
    links = [Edge("a", to_passage="b", weight=0.5), Edge("c", to_passage="b", weight=2.0)]
    memory.add([], edges=links)
    snapshot = memory._index.snapshot()
    graph = snapshot.graph
    mass = np.arange(1.0, graph.n_phrases + 4)
    edges, flow = graph.flow_over_edges(1, mass, HippoConfig())
    a, b, c = graph.n_phrases + np.arange(3)
    walk = graph.transition(HippoConfig(), with_passages=True).walk.toarray()
    assert [snapshot.edge(int(e)) for e in edges] == links
    assert flow == pytest.approx([mass[a] * walk[b, a], mass[c] * walk[b, c]])
    assert walk[b, a] == pytest.approx(0.5 / 2.5)  # beside two context edges


# -- filters ---------------------------------------------------------------------------------------


def test_under_a_filter_an_edge_has_the_ends_and_the_weight_that_it_has_without_the_others():
    made = [
        Passage(f"Text {i}.", id=i, source_id="s", metadata={"in": i in "bdf"}) for i in "abcdef"
    ]
    told = {
        i: Extraction(triples=[(f"{other} x", "is", f"{other} y")])
        for i, other in zip("abcdef", "fedcba", strict=True)
    }
    links = [
        Edge(one, to_passage=other, weight=1 + n)
        for n, (one, other) in enumerate(("ab", "ba", "bd", "db", "df", "fa", "cf", "ef"))
    ]
    links += [
        Edge(i, to_phrase=f"{o} y", weight=20 + n)
        for n, (i, o) in enumerate(zip("abdf", "fbea", strict=True))
    ]
    links += [Edge("f", to_source="s", weight=40), Edge("a", to_source="s", weight=50)]
    with HippoRAG(None, HashEmbedder()) as memory, HippoRAG(None, HashEmbedder()) as smaller:
        memory.add_extracted([(p, told[p.id]) for p in made], edges=links)
        allowed = [p for p in made if p.id in "bdf"]
        smaller.add_extracted(
            [(p, told[p.id]) for p in allowed], edges=[e for e in links if e.passage in "bdf"]
        )
        restricted = memory._index.snapshot().restricted(checked_where({"in": True}))
        assert restricted.stats() == smaller.stats()
        assert smaller.stats().pending_edges
        for mine, own in zip(
            restricted.graph.passage_edges(HippoConfig()),
            smaller._index.snapshot().graph.passage_edges(HippoConfig()),
            strict=True,
        ):
            assert mine.tolist() == own.tolist()
        one, other = memory.retrieve("e y", where={"in": True}), smaller.retrieve("e y")
        assert [(h.passage, h.edges) for h in one] == [(h.passage, h.edges) for h in other]


def test_the_columns_of_edges_do_not_depend_on_the_order_in_which_they_are_given():
    edges = {Target("source", "s"): 1.0, Target("phrase", "x"): 2.0, Target("passage", "b"): 3.0}
    columns = []
    for order in (list(edges), sorted(edges)):
        ids = Keys[str]()
        slot = ids.take("a")
        held = EdgesBySlot()
        held.put(slot, A, {target: edges[target] for target in order}, Keys[str](), ids)
        found = held.columns(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))
        columns.append((found.targets.tolist(), found.weights.tolist(), found.names))
    assert columns[0] == columns[1] == ([0, 1, 2], [3, 2, 1], sorted(edges))


# -- what is kept ----------------------------------------------------------------------------------


def test_another_handle_and_process_see_a_change_of_edges_alone(new_location):
    location = new_location()
    with HippoRAG(None, HashEmbedder(), store=location) as one:
        with HippoRAG(None, HashEmbedder(), store=location) as two:
            one.add_extracted(items(A, B, C))
            assert counts(two) == (0, 0)
            one.add([], edges=[Edge("a", to_passage="b"), Edge("a", to_passage="later")])
            assert counts(two) == (1, 1)
            assert weights(one) == weights(two)
            two.add_extracted(items(C), edges=[Edge("a", to_source="s")])
            assert counts(one) == (1, 0)
        code = (
            "import sys; from hippo_core import HippoRAG\n"
            "from hippo_core.testing import HashEmbedder\n"
            "found = HippoRAG(None, HashEmbedder(), store=sys.argv[1]).retrieve(sys.argv[2])\n"
            "print([(h.passage.id, h.score, [e.to_source for e in h.edges]) for h in found])"
        )
        told = subprocess.run(
            [sys.executable, "-c", code, str(location), QUERY],
            capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)},
        ).stdout  # fmt: skip
        found = one.retrieve(QUERY)
        assert told.strip() == str(
            [(h.passage.id, h.score, [e.to_source for e in h.edges]) for h in found]
        )


@pytest.mark.sqlite
def test_edges_that_are_taken_back_leave_no_trace_and_new_ones_keep_the_files(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(index, "WORTH_KEEPING", 1)

    def holding():
        files = [p for p in tmp_path.rglob("*") if p.is_file()]
        return {p.name for p in files if b"zyxlink" in p.read_bytes().lower()}

    def opened():
        return HippoRAG(None, HashEmbedder(), store=tmp_path / "m")

    links = [Edge("a", to_source="Zyxlink"), Edge("a", to_phrase="zyxlink")]
    with opened() as memory:
        memory.add_extracted(items(A, B, C), edges=links)
    kept = set(tmp_path.glob("m/snapshots/*/*"))
    assert len(kept) == 1
    assert holding() == {"hippo.sqlite", "targets.npy"}
    with opened() as memory:
        memory.add([], edges=[*links, Edge("a", to_passage="b")])
        assert set(tmp_path.glob("m/snapshots/*/*")) == kept
        memory.add([], edges=[Edge("a", to_passage="b")])
        assert not holding()
    assert not holding()


def test_copies_have_the_edges(memory, tmp_path, new_location):
    memory.add([], edges=[Edge("a", to_passage="b"), Edge("c", to_source="none", weight=3)])
    memory.backup(tmp_path / "backup")
    memory.save(tmp_path / "saved")
    memory.delete(["c"])
    memory.save(tmp_path / "saved")
    target = new_location()
    memory.copy_to(target)
    for place, gone in ((tmp_path / "backup", 0), (tmp_path / "saved", 1), (target, 1)):
        with HippoRAG(None, HashEmbedder(), store=place) as copy:
            assert counts(copy) == (1, 1 - gone)
            assert copy.verify().ok
            if gone:
                assert weights(copy) == weights(memory)
                assert given_edges(copy) == given_edges(memory)


def test_a_namespace_is_deleted_with_its_edges_and_no_other(new_location):
    location = new_location()
    with (
        HippoRAG(None, HashEmbedder(), store=location) as one,
        HippoRAG(None, HashEmbedder(), store=location, namespace="other") as other,
    ):
        for memory in (one, other):
            memory.add_extracted(items(A, B), edges=[Edge("a", to_passage="b")])
        one.delete_namespace()
        assert counts(one) == (0, 0)
        assert counts(other) == (1, 0)
        with one._store.read() as reader:
            rows = reader._connection.execute(sa.select(table)).all()
        assert [row.namespace for row in rows] == ["other"]
        one.add_extracted(items(A, B))
        assert counts(one) == (0, 0)


@pytest.mark.parametrize(
    "row",
    ["x", "7", "[7]", '[["passage","b"]]', '[["chapter","b",1.0]]', '[["passage",7,1.0]]',
     '[["passage","b",true]]', '[["passage","b",0.0]]', '[["passage","b",1e999]]'],
)  # fmt: skip
def test_no_row_of_edges_is_believed(row, memory):
    memory.add([], edges=[Edge("a", to_passage="b")])
    with memory._store.write() as writer:
        writer._connection.execute(table.update().values(edges=row))
        writer.raise_version("default")
    assert any("passage 'a' cannot be read" in p for p in memory.verify().problems)
    with pytest.raises(StoreCorruptError, match="passage 'a' cannot be read"):
        memory.rebuild()


def test_verify_finds_edges_that_are_nobodys_and_edges_that_memory_lacks(memory):
    memory.add([], edges=[Edge("a", to_passage="b")])
    assert memory.verify().ok
    with memory._store.write() as writer:
        writer.put(table, [{"namespace": "default", "passage_id": "ghost", "edges": "[]"}])
        writer._connection.execute(
            table.update()
            .where(table.c.passage_id == "a")
            .values(edges=json.dumps([["passage", "b", 2.0]]))
        )
    problems = memory.verify().problems
    assert any("edges of passage 'ghost'" in p for p in problems)
    assert any("other edges than the store" in p for p in problems)
    memory.rebuild()
    assert weights(memory)[frozenset("ab")] == 2


def test_catching_up_looks_at_the_edges_of_a_change_and_no_others(open_memory, monkeypatch):
    """Counted: how many edges are put and taken back for one passage among many."""
    memory = open_memory()
    many = [(Passage(f"Note {i}.", id=f"n{i}"), Extraction()) for i in range(300)]
    memory.add_extracted(
        [*many, *items(A, B)], edges=lambda p: [Edge(p, to_passage=t) for t in "ab" if t != p.id]
    )
    put = []
    edges = memory._index._columns._edges
    monkeypatch.setattr(
        edges._targets, "take", lambda t, take=edges._targets.take: put.append(t) or take(t)
    )
    memory.add_extracted(items(C), edges=[Edge("c", to_passage="a")])
    memory.delete(["n7"])
    memory.add_extracted([(Passage("New.", id="n8"), Extraction(triples=[Triple("x", "is", "y")]))])
    assert len(put) == 3  # of c, and the two that n8 keeps
    assert counts(memory) == (300 * 2 - 2 + 2 + 1, 0)


# -- at random -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_graph_is_that_of_the_definition(seed):
    """Against a plain reading of what an edge is, over random corpora with random edges."""
    random = np.random.default_rng(seed)
    ids, sources, words = list("abcdefgh"), ["s", "t", None], ["Ada", "Rome", "sea", "note", "ink"]
    made = [Passage(f"T {i}", id=i, source_id=sources[random.integers(3)]) for i in ids]
    told = {
        i: [
            (words[random.integers(4)], "is", words[random.integers(4)])
            for _ in range(random.integers(3))
        ]
        for i in ids
    }
    links = {}
    for _ in range(40):
        kind = ["to_passage", "to_source", "to_phrase"][random.integers(3)]
        names_ = {"to_passage": [*ids, "none"], "to_source": ["s", "t", "u"], "to_phrase": words}
        owner, name = str(random.choice(ids)), str(random.choice(names_[kind]))
        if name != owner:
            links[owner, kind, name] = float(random.random() + 0.1)
    expected = {}

    def join(one, other, weight):
        if one != other:
            expected[frozenset((one, other))] = expected.get(frozenset((one, other)), 0) + weight

    live = pending = 0
    for i, triples in told.items():
        for phrase in {p.casefold() for s, _, o in triples for p in (s, o)}:
            join(i, phrase, 1)
    there = {p.casefold() for triples in told.values() for s, _, o in triples for p in (s, o)}
    for (owner, kind, name), weight in links.items():
        ends = {
            "to_passage": [name] if name in ids else [],
            "to_source": [p.id for p in made if p.source_id == name and p.id != owner],
            "to_phrase": [name.casefold()] if name.casefold() in there else [],
        }[kind]
        live, pending = live + bool(ends), pending + (not ends)
        for end in ends:
            join(owner, end, weight)
    with HippoRAG(None, HashEmbedder()) as memory:
        given_ = [Edge(o, **{kind: n}, weight=w) for (o, kind, n), w in links.items()]
        report = memory.add_extracted(
            [(p, Extraction(triples=told[p.id])) for p in made], edges=given_
        )
        assert weights(memory) == pytest.approx(expected)
        assert counts(memory) == (live, pending)
        assert (report.edges, report.pending_edges) == (len(links), pending)
