"""The user's hand on the graph: aliases make phrases one, and pairs are never linked."""

import dataclasses
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import Extraction, HippoConfig, HippoRAG, InputError, Passage, index
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.text import normalise_phrase

CONFIG = HippoConfig(synonymy_threshold=0.4)
QUERIES = {"Who wrote the notes?": ["Notes of Ada", "Rome"], "Ada Lovelace": ["ada"]}
METHODS = [
    HippoConfig.hipporag2(synonymy_threshold=0.4),
    HippoConfig.hipporag(synonymy_threshold=0.4),
    HippoConfig.dense(synonymy_threshold=0.4),
]
PHRASES = ["Ada", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab", "O'Ada"]
KEYS = [normalise_phrase(phrase) for phrase in PHRASES]


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


facts = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "is"]), st.sampled_from(PHRASES)
)
stated = st.lists(st.lists(facts, max_size=4), min_size=1, max_size=5)


@st.composite
def alias_groups(draw):
    """Disjoint groups of phrases, some of which nothing states."""
    pool = draw(st.permutations([*PHRASES, "never stated", "nor this"]))
    sizes = draw(st.lists(st.integers(2, 4), max_size=3))
    starts = list(itertools.accumulate(sizes, initial=0))
    groups = [pool[a:b] for a, b in itertools.pairwise(starts)]
    return [group for group in groups if len(group) > 1]


pairs = st.lists(
    st.lists(st.sampled_from(PHRASES), min_size=2, max_size=2, unique=True), max_size=3
)


def items_of(lists):
    return [
        (Passage(f"Text {n}", id=f"p{n}", metadata={"n": n}), Extraction(triples=triples))
        for n, triples in enumerate(lists)
    ]


def opened(store=None, config=CONFIG, **more):
    openie = TableOpenIE(queries=QUERIES)
    return HippoRAG(None, HashEmbedder(16), store=store, config=config, openie=openie, **more)


def filled(items, aliases=(), never_link=(), config=CONFIG):
    memory = opened(config=config)
    memory.aliases = aliases
    memory.never_link = never_link
    memory.add_extracted(items)
    return memory


def arrays(memory):
    """What is searched, as plain values."""
    snapshot, config = memory._index.snapshot(), memory.config
    corpus, graph = snapshot.corpus, snapshot.graph
    return {
        "phrases": list(corpus.phrases),
        "triples": list(corpus.triples),
        "shown": [snapshot.display_triple(i) for i in range(len(graph.triples))],
        "triple_passages": graph.triple_passages.toarray().tolist(),
        "phrase_passages": graph.phrase_passages.toarray().tolist(),
        "specificity": graph.node_specificity().tolist(),
        "synonyms": [part.tolist() for part in corpus.synonyms],
        "edges": [part.tolist() for part in graph.phrase_edges(config)],
        "walks": [
            graph.transition(config, with_passages=both).walk.toarray().tolist()
            for both in (True, False)
        ],
        "phrase_vectors": np.asarray(corpus.phrase_vectors).tolist(),
        "triple_vectors": np.asarray(corpus.triple_vectors).tolist(),
        "lengths": corpus.lengths.tolist(),
        "stats": memory.stats(),
    }


def answers(memory, **more):
    return [
        dataclasses.replace(memory.retrieve(query, k=99, config=config, **more), usage=None)
        for query, config in itertools.product(QUERIES, METHODS)
    ]


def edges_by_phrase(memory, config):
    """Weights of the edges among phrases, by the pair of phrases."""
    graph = memory._index.snapshot().graph
    left, right, weight = graph.phrase_edges(config)
    return {
        frozenset((graph.phrases[a], graph.phrases[b])): w
        for a, b, w in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True)
    }


def synonyms_by_phrase(memory):
    graph = memory._index.snapshot().graph
    return {
        frozenset((graph.phrases[a], graph.phrases[b])): c
        for a, b, c in zip(*(part.tolist() for part in graph.synonyms), strict=True)
    }


def representatives(lists, groups):
    """Which phrase key stands for each that is stated."""
    there = {normalise_phrase(p) for triples in lists for s, _, o in triples for p in (s, o)}
    stands = {key: key for key in there}
    for group in groups:
        keys = [k for k in map(normalise_phrase, group) if k in there]
        stands |= dict.fromkeys(keys, keys[0] if keys else "")
    return stands


def spelled_alike(lists, groups):
    stands = representatives(lists, groups)
    return [
        [(stands[normalise_phrase(s)], r, stands[normalise_phrase(o)]) for s, r, o in triples]
        for triples in lists
    ]


# -- aliases ---------------------------------------------------------------------------------------

GRAPH = ("phrases", "triples", "triple_passages", "phrase_passages", "specificity", "lengths")


@given(
    lists=stated, groups=alias_groups(), relation_count=st.sampled_from(["passage", "occurrence"])
)
@examples(15)
def test_aliases_are_as_if_the_phrases_were_spelled_alike(lists, groups, relation_count):
    config = CONFIG.but(synonymy=False, relation_count=relation_count)
    with (
        filled(items_of(lists), groups, config=config) as memory,
        filled(items_of(spelled_alike(lists, groups)), config=config) as alike,
    ):
        one, other = arrays(memory), arrays(alike)
        for part in (*GRAPH, "edges", "walks", "phrase_vectors", "stats"):
            assert one[part] == other[part], part


@given(lists=stated, groups=alias_groups(), never_link=pairs)
@examples(15)
def test_a_group_has_the_synonyms_of_all_its_phrases_but_those_kept_apart(
    lists, groups, never_link
):
    stands = representatives(lists, groups)
    of_group = {k: n for n, g in enumerate(groups) for k in map(normalise_phrase, g)}

    def node(phrase):
        """A group, or a phrase alone; also of what is not stated."""
        key = normalise_phrase(phrase)
        return of_group.get(key, key)

    never_link = [(a, b) for a, b in never_link if node(a) != node(b)]
    apart = {frozenset(map(node, pair)) for pair in never_link}
    with filled(items_of(lists)) as plain:
        expected = {}
        for pair, cosine in synonyms_by_phrase(plain).items():
            ends = frozenset(stands[key] for key in pair)
            if len(ends) == 2 and frozenset(map(node, pair)) not in apart:
                expected[ends] = max(cosine, expected.get(ends, -1))
        with filled(items_of(lists), groups, never_link) as memory:
            assert synonyms_by_phrase(memory) == expected
            plain.aliases = groups
            plain.never_link = never_link
            assert arrays(plain) == arrays(memory)
            assert answers(plain) == answers(memory)


@given(lists=stated, groups=alias_groups(), never_link=pairs)
@examples(8)
def test_taking_it_back_gives_the_old_graph_bit_for_bit(lists, groups, never_link):
    try:
        changed = filled(items_of(lists), groups, never_link)
    except InputError:  # of one group, and apart
        return
    with changed, filled(items_of(lists)) as plain:
        changed.aliases = []
        changed.never_link = []
        assert arrays(changed) == arrays(plain)
        assert answers(changed) == answers(plain)
        assert (changed.aliases, changed.never_link) == ((), ())


@given(lists=stated, groups=alias_groups(), data=st.data())
@examples(8)
def test_neither_order_nor_history_matters(lists, groups, data):
    items = items_of(lists)
    with filled(items, groups) as first, opened() as last, opened() as between:
        last.add_extracted(data.draw(st.permutations(items)))
        last.aliases = groups[::-1]
        between.add_extracted(
            [*items[:1], (Passage("X", id="x"), Extraction(triples=[facts_of()]))]
        )
        between.aliases = [["Rome", "Ada", "Lovelace"]]
        list(map(between.retrieve, QUERIES))
        between.add_extracted(items[1:])
        between.aliases = groups
        between.delete(["x"])
        assert arrays(first) == arrays(last) == arrays(between)
        assert answers(first) == answers(last) == answers(between)


def facts_of():
    return ("never stated", "is", "Ada Lovelace")


FIRST = [("USA", "has", "Ohio")], [("United States", "has", "Ohio")], [("America", "has", "Ohio")]
GROUP = [["U.S.A.", "USA", "United States", "America"]]


def test_a_groups_first_phrase_that_is_there_stands_for_it():
    with filled(items_of(FIRST), GROUP) as memory:
        assert memory.stats().triples == 1
        for gone, left in (("p0", "united states"), ("p1", "america")):
            assert left not in memory._index.snapshot().graph.phrases
            memory.delete([gone])
            assert left in memory._index.snapshot().graph.phrases
            assert memory.stats().phrases == 2
        memory.add_extracted(items_of(FIRST))
        assert memory._index.snapshot().graph.phrases == ("ohio", "usa")
        for n, there in enumerate(["usa", "united states", "america"]):
            found = memory.retrieve("Ohio", where={"n": n})
            assert normalise_phrase(found.triples[0].triple.subject) == there
            assert found.triples[0].passage_ids == (f"p{n}",)
        found = memory.retrieve("Ohio", where={"n": {"$gte": 1}})
        assert found.triples[0].passage_ids == ("p1", "p2")


def test_the_commonest_spelling_of_all_aliases_is_shown():
    lists = [[("USA", "has", "Ohio")], *([[("America", "has", f"x{n}")] for n in range(3)])]
    with filled(items_of(lists), GROUP) as memory:
        assert {link.triple.subject for link in memory.retrieve("Ohio").triples} == {"America"}


def test_a_triple_that_one_passage_states_in_two_spellings_counts_once():
    lists = [[("USA", "has", "Ohio"), ("America", "has", "Ohio")]]
    with filled(items_of(lists), GROUP) as memory:
        assert edges_by_phrase(memory, CONFIG) == {frozenset(("usa", "ohio")): 2.0}
        twice = CONFIG.but(relation_count="occurrence")
        assert edges_by_phrase(memory, twice) == {frozenset(("usa", "ohio")): 4.0}


def test_a_triple_between_aliases_is_no_edge():
    with filled(items_of([[("USA", "is", "America")]]), GROUP) as memory:
        assert edges_by_phrase(memory, CONFIG) == {}
        assert memory.stats().relation_edges == 0
        assert memory.retrieve("America").path.used_graph


# -- pairs that are never linked -------------------------------------------------------------------

LINKED = [[("Ada Lovelace", "is", "Ada Byron")], [("Ada King", "is", "Countess Ada")]]


@pytest.mark.parametrize(
    "pair", [("Ada Lovelace", "Ada Byron"), ("Ada King", "Ada Byron"), ("Ada King", "Ada Lovelace")]
)
def test_exactly_the_pair_is_no_longer_linked(pair):
    with filled(items_of(LINKED)) as plain, filled(items_of(LINKED), (), [pair]) as memory:
        before = synonyms_by_phrase(plain)
        gone = frozenset(map(normalise_phrase, pair))
        assert gone in before
        assert synonyms_by_phrase(memory) == {p: c for p, c in before.items() if p != gone}
        assert arrays(memory)["triples"] == arrays(plain)["triples"]


def test_a_relation_between_a_pair_that_is_never_linked_stays():
    with filled(items_of(LINKED), (), [("Ada Byron", "Ada Lovelace")]) as memory:
        related = edges_by_phrase(memory, CONFIG)[frozenset(("ada byron", "ada lovelace"))]
        assert related == 2.0


def test_a_pair_is_kept_apart_also_between_groups_and_whichever_phrase_is_there():
    groups = [["Ada Lovelace", "Ada Byron"], ["Ada King", "Countess Ada"]]
    for pair in itertools.product(*groups):
        with filled(items_of(LINKED), groups, [pair]) as memory:
            assert synonyms_by_phrase(memory) == {}
            assert memory.retrieve("Ada", where={"n": 0}).path.used_graph
    absent = [["Nobody", "Ada Lovelace"]]
    with filled(items_of(LINKED), absent, [("nobody", "Ada Byron")]) as memory:
        assert frozenset(("ada byron", "ada lovelace")) not in synonyms_by_phrase(memory)


def test_settings_are_given_back_as_keys():
    with opened() as memory:
        memory.aliases = [("U.S.A.", "USA", "usa", "United  States"), ["one", "ONE"]]
        memory.never_link = [("b", "A"), ("a", "B"), ("C", "d")]
        assert memory.aliases == (("u s a", "usa", "united states"),)
        assert memory.never_link == (("a", "b"), ("c", "d"))
        memory.aliases = memory.aliases
        memory.never_link = iter(memory.never_link)
        assert memory.never_link == (("a", "b"), ("c", "d"))


@pytest.mark.parametrize(
    ("aliases", "complaint"),
    [
        ("Ada", "list"),
        ([["only one"]], "two phrases"),
        (["Ada", "Bob"], "list"),
        ([["a", "b"], ["c", "B!"]], "two groups"),
        ([["a", 7]], "int"),
        ([["a", "!!!"]], "letter"),
        (7, "list"),
        ([None], "list"),
        ([["Ada Lovelace", "Ada Byron"]], "choose"),
    ],
)
def test_aliases_that_contradict_or_are_none_are_refused_and_change_nothing(aliases, complaint):
    with opened() as memory:
        memory.aliases = [["x", "y"]]
        memory.never_link = [("Ada Byron", "ada lovelace")]
        with pytest.raises(InputError, match=complaint):
            memory.aliases = aliases
        assert memory.aliases == (("x", "y"),)
        assert memory.never_link == (("ada byron", "ada lovelace"),)


@pytest.mark.parametrize(
    ("pairs_", "complaint"),
    [
        ("Ada", "list"),
        ([["only one"]], "two phrases"),
        ([("a",)], "two phrases"),
        ([("a", "b", "c")], "two phrases"),
        ([("Ada", "ADA!")], "two phrases"),
        ([("a", None)], "NoneType"),
        (["ab"], "list"),
        ([("y", "X")], "choose"),
    ],
)
def test_pairs_that_contradict_or_are_none_are_refused_and_change_nothing(pairs_, complaint):
    with opened() as memory:
        memory.aliases = [["x", "y"]]
        memory.never_link = [("a", "b")]
        with pytest.raises(InputError, match=complaint):
            memory.never_link = pairs_
        assert memory.never_link == (("a", "b"),)
        assert memory.aliases == (("x", "y"),)


# -- where it is kept ------------------------------------------------------------------------------


def test_no_model_is_asked_and_nothing_stored_of_passages_changes(tmp_path):
    chat, embedder = ScriptedChatModel([]), HashEmbedder(16)
    with HippoRAG(chat, embedder, store=tmp_path / "m", config=CONFIG) as memory:
        memory.add_extracted(items_of(LINKED))
        embedder.calls.clear()
        memory.aliases = [["Ada Lovelace", "Ada King"]]
        memory.never_link = [["Ada Lovelace", "Ada Byron"]]
        memory.stats()
        memory.strongest_synonyms()
        assert embedder.calls == chat.calls == []
        assert memory.add_extracted(items_of(LINKED)).unchanged == ("p0", "p1")
        assert memory.verify().ok


def test_another_handle_and_process_see_it_at_their_next_query(tmp_path):
    with opened(tmp_path / "m") as memory, opened(tmp_path / "m") as other:
        memory.add_extracted(items_of(LINKED))
        before = answers(other)
        memory.aliases = [["Ada Lovelace", "Ada King"]]
        assert answers(other) == answers(memory) != before
        assert other.aliases == memory.aliases
        code = (
            "import sys\nfrom hippo_core import HippoConfig, HippoRAG\n"
            "memory = HippoRAG(None, None, store=sys.argv[1], "
            "config=HippoConfig(synonymy_threshold=0.4))\n"
            "assert memory.aliases == (('ada lovelace', 'ada king'),)\n"
            "assert memory.stats().phrases == 3\n"
            "memory.aliases = []"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "m")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.returncode == 0, done.stderr
        assert answers(other) == answers(memory) == before


def test_two_handles_that_set_aliases_and_pairs_lose_neither(tmp_path, at_once):
    with opened(tmp_path / "m") as one, opened(tmp_path / "m") as two:

        def set_aliases():
            for n in range(20):
                one.aliases = [["a", f"b{n}"]]

        def set_pairs():
            for n in range(20):
                two.never_link = [["c", f"d{n}"]]

        at_once(set_aliases, set_pairs)
        assert one.aliases == (("a", "b19"),)
        assert one.never_link == (("c", "d19"),)


@pytest.mark.parametrize("kept", [True, False])
def test_it_survives_reopening_a_backup_and_a_copy(kept, tmp_path, monkeypatch):
    if kept:
        monkeypatch.setattr(index, "WORTH_KEEPING", 1)
    aliases, never_link = [["Ada Lovelace", "Ada King"]], [["Ada Byron", "Countess Ada"]]
    with opened(tmp_path / "m") as memory:
        memory.add_extracted(items_of(LINKED))
        memory.aliases = aliases
        memory.never_link = never_link
        expected = arrays(memory), answers(memory), memory.aliases, memory.never_link
        memory.backup(tmp_path / "backup")
        memory.copy_to(tmp_path / "copy")
    for folder in ("m", "backup", "copy"):
        with opened(tmp_path / folder) as again:
            assert (arrays(again), answers(again), again.aliases, again.never_link) == expected
            again.aliases = []
            again.never_link = []
            with filled(items_of(LINKED)) as plain:
                assert arrays(again) == arrays(plain)


def test_each_namespace_has_its_own(tmp_path):
    with opened(tmp_path / "m") as one, opened(tmp_path / "m", namespace="two") as two:
        one.aliases = [["a", "b"]]
        assert two.aliases == ()
        two.aliases = [["c", "d"]]
        assert one.aliases == (("a", "b"),)


# -- review ----------------------------------------------------------------------------------------


@given(lists=stated, groups=alias_groups(), n=st.integers(1, 60))
@examples(8)
def test_the_strongest_synonyms_are_the_first_of_all_in_display_form(lists, groups, n):
    with filled(items_of(lists), groups) as memory:
        everything = memory.strongest_synonyms(10**6)
        assert memory.strongest_synonyms(n) == everything[:n]
        cosines = [edge.cosine for edge in everything]
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(cosines))
        assert len(everything) == memory.stats().synonymy_edges
        spelled = {p for triples in lists for s, _, o in triples for p in (s, o)}
        stands = representatives(lists, groups)
        expected = synonyms_by_phrase(memory)
        for edge in everything:
            assert {edge.left, edge.right} <= spelled
            pair = frozenset(stands[normalise_phrase(p)] for p in (edge.left, edge.right))
            assert expected.pop(pair) == edge.cosine
        assert not expected


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None])
def test_how_many_synonyms_must_be_a_whole_number(n):
    with opened() as memory, pytest.raises(InputError, match="n must"):
        memory.strongest_synonyms(n)


def test_no_synonyms_are_none():
    with opened() as memory:
        assert memory.strongest_synonyms() == []
        memory.add_extracted(items_of([[("x", "y", "z")]]))
        assert memory.strongest_synonyms(5) == []
