"""The default linking as a whole: what is asked of models, what is chosen, and the second hop."""

import asyncio
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import (
    Extraction,
    HippoConfig,
    HippoRAG,
    Passage,
    PermanentModelError,
    RetrievalPath,
    Triple,
)
from hippo_core.pagerank import personalized_pagerank
from hippo_core.seeding import passage_seeds, triple_seeds
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

QUESTION = "Which professor works at Stanford and studies the illness Alzheimer's?"
FACTS = [
    ("Tom Dee", "works at", "Stanford"),
    ("Tom Dee", "studies", "Alzheimer's"),
    ("Ann Ray", "works at", "Stanford"),
    ("Ann Ray", "studies", "rivers"),
    ("Bo Lim", "studies", "Alzheimer's"),
    ("Bo Lim", "works at", "Velmora"),
    ("Cy Nix", "works at", "Stanford"),
    ("an illness", "is of", "the professor"),
    ("the professor", "studies", "at night"),
    ("rivers", "flow through", "Velmora"),
    ("Velmora", "is in", "Osk"),
    ("Osk", "has", "a mill"),
    ("the mill", "is of", "wood"),
    ("wood", "is from", "trees"),
]
ITEMS = [
    (
        Passage(f"{' '.join(fact)}.", id=f"p{i:02}", title=f"About {i}", metadata={"even": i % 2}),
        Extraction(triples=[fact]),
    )
    for i, fact in enumerate(FACTS)
]


class TwoEncodings(HashEmbedder):
    """Encodes a query for passages and for triples differently."""

    one_query_encoding = False


@pytest.fixture
def filled(open_memory):
    def filled(chat=None, embedder=None, items=ITEMS, **settings_):
        memory = open_memory(chat, embedder, **settings_)
        memory.add_extracted(items)
        memory.embedder.calls.clear()
        return memory

    return filled


def saying(reply):
    return ScriptedChatModel(lambda _: reply)


def keeping(*numbers):
    return saying(json.dumps({"keep": numbers}))


def ranked(found):
    return [(hit.passage.id, round(hit.score, 12)) for hit in found]


def kept(found, hop=1):
    return [link.triple for link in found.triples if link.kept and link.hop == hop]


def fact_lines(chat):
    """Give the facts that were shown, as they were written: a dict, or a list without a title."""
    (messages,) = chat.calls
    lines = messages[-1].content.split("Facts:\n```\n")[1].removesuffix("\n```").split("\n")
    numbers, facts = zip(*(line.split(". ", 1) for line in lines), strict=True)
    assert list(numbers) == [str(i) for i in range(1, len(lines) + 1)]
    return [json.loads(fact) for fact in facts]


# -- what is asked of models -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("embedder", "kinds"),
    [
        (HashEmbedder, ["query_to_passage"]),
        (TwoEncodings, ["query_to_passage", "query_to_triple"]),
    ],
)
def test_without_a_chat_model_a_query_costs_its_own_embedding(embedder, kinds, filled):
    memory = filled(embedder=embedder())
    found = memory.retrieve(QUESTION)
    assert memory.embedder.calls == [(kind, [QUESTION]) for kind in kinds]
    assert found.usage.stages.keys() == {"embedding"}
    assert found.usage.stages["embedding"].calls == len(kinds)
    assert found.path == RetrievalPath.UNFILTERED_OFF


REPLIES = ['{"keep": [1]}', '{"keep": []}', "Well...", '{"keep": [99]}', PermanentModelError("401")]


@pytest.mark.parametrize("hop", [0, 3])
@pytest.mark.parametrize("reply", REPLIES)
def test_with_a_chat_model_a_query_costs_one_completion_whatever_it_says(reply, hop, filled):
    chat = saying(reply)
    found = filled(chat).retrieve(QUESTION, config=HippoConfig(second_hop=hop))
    assert len(chat.calls) == 1
    assert found.usage.chat_calls <= 1


def test_finding_anchors_asks_nobody(filled):
    memory = filled()
    assert memory.retrieve(QUESTION).anchors == ("Stanford", "Alzheimer's")
    assert len(memory.embedder.calls) == 1


# -- what is chosen without a judge ----------------------------------------------------------------


def test_the_triples_that_join_both_names_come_first(filled):
    memory = filled()
    found = memory.retrieve(QUESTION)
    joining = {Triple(*FACTS[0]), Triple(*FACTS[1])}
    assert {link.triple for link in found.triples[:2]} == joining
    assert {hit.passage.id for hit in found.passages[:2]} == {"p00", "p01"}
    by_words = memory.retrieve(QUESTION, config=HippoConfig.hipporag2())
    assert {link.triple for link in by_words.triples[:2]} != joining


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.25, 0.5, 1.0, 5.0, None])
def test_those_within_the_margin_are_kept_and_they_are_the_first(margin, filled):
    found = filled().retrieve(QUESTION, config=HippoConfig(linking_margin=margin))
    flags = [link.kept for link in found.triples]
    assert len(flags) == 5
    assert flags == sorted(flags, reverse=True)
    assert flags[0]
    if margin in (5.0, None):
        assert all(flags)
    if margin == 0.0:
        assert not all(flags)


# -- recognition -----------------------------------------------------------------------------------


def test_ten_candidates_are_shown_with_the_titles_of_their_passages(filled):
    chat = keeping(1)
    found = filled(chat).retrieve(QUESTION)
    shown = fact_lines(chat)
    assert len(shown) == len(found.triples) == 10
    assert [tuple(line["fact"]) for line in shown] == [link.triple for link in found.triples]
    for line in shown:
        assert line["title"] == f"About {FACTS.index(tuple(line['fact']))}"


def test_a_title_is_of_the_nearest_passage_that_states_the_triple(filled):
    fact = ("Tom", "met", "Ann")
    items = [
        (Passage(text, id=id_, title=title, metadata={"open": is_open}), Extraction(triples=[fact]))
        for id_, text, title, is_open in [
            ("a", "Nothing of the sort is told.", "Far", True),
            ("b", "Whom Tom met was Ann.", "Near", False),
            ("c", "Tom and others.", "", True),
        ]
    ]

    def titles(question, **how):
        chat = keeping(1)
        filled(chat, items=items).retrieve(question, **how)
        return [line["title"] if isinstance(line, dict) else None for line in fact_lines(chat)]

    assert titles("Whom was it that Tom met?") == ["Near"]
    assert titles("Nothing of the sort is told") == ["Far"]
    assert titles("Tom and others.") == [None]  # it has no title
    assert titles("Near: whom was it that Tom met?", where={"open": True})[0] != "Near"


def test_titles_are_not_shown_where_the_settings_say_so(filled):
    chat = keeping(1)
    filled(chat).retrieve(QUESTION, config=HippoConfig(recognition_sources=False))
    assert all(isinstance(line, list) for line in fact_lines(chat))
    assert "About" not in str(chat.calls)


@pytest.mark.parametrize("n", [1, 5, 12, 99])
def test_as_many_are_shown_as_the_settings_say(n, filled):
    chat = keeping(1)
    filled(chat).retrieve(QUESTION, config=HippoConfig(recognition_candidates=n))
    assert len(fact_lines(chat)) == min(n, len(FACTS))


@pytest.mark.parametrize("wrong", [[11], [0], [-1], [99, 10**6], ["x"], [None], [2.5]])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_wrong_numbers_are_passed_over(wrong, place, filled):
    right = filled(keeping(7, 2)).retrieve(QUESTION)
    numbers = [7, 2]
    numbers[place:place] = wrong
    found = filled(saying(json.dumps({"keep": numbers}))).retrieve(QUESTION)
    assert found.path == RetrievalPath.GRAPH
    assert ranked(found) == ranked(right)
    assert kept(found) == kept(right)
    assert len(kept(found)) == 2


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        ("Well...", RetrievalPath.UNFILTERED_UNREADABLE),
        ('{"keep": [11, 0, 99]}', RetrievalPath.UNFILTERED_UNREADABLE),
        (PermanentModelError("401"), RetrievalPath.UNFILTERED_FAILED),
    ],
)
@pytest.mark.parametrize("margin", [0.0, 0.25, None])
@pytest.mark.parametrize("hop", [0, 3])
def test_where_there_is_no_answer_our_own_choice_stays(reply, path, margin, hop, filled):
    config = HippoConfig(linking_margin=margin, second_hop=hop)
    own = filled().retrieve(QUESTION, config=config, k=99)
    found = filled(saying(reply)).retrieve(QUESTION, config=config, k=99)
    assert found.path == path
    assert found.detail
    assert ranked(found) == ranked(own)
    assert kept(found) == kept(own)
    assert 1 <= len(kept(found)) <= 5 < len([link for link in found.triples if link.hop == 1])


@pytest.mark.parametrize("hop", [0, 3])
def test_none_kept_is_dense_retrieval(hop, filled):
    memory = filled(keeping())
    found = memory.retrieve(QUESTION, k=99, config=HippoConfig(second_hop=hop))
    assert found.path == RetrievalPath.DENSE_NONE_KEPT
    assert not kept(found)
    assert len(found.triples) == 10
    assert found.passages == memory.retrieve(QUESTION, k=99, config=HippoConfig.dense()).passages
    assert len(memory.embedder.calls) == 2  # one a query


# -- what a kept triple counts ---------------------------------------------------------------------


def expected_scores(memory, found, config, counts, further=(), further_counts=()):
    """Walk from the phrases of given triples, which count so much."""
    snapshot = memory._index.snapshot()
    graph = snapshot.graph
    position = {snapshot.display_triple(i): i for i in range(len(graph.triples))}

    def seeds(triples, counts):
        ends = graph.triple_phrases[[position[t] for t in triples]]
        specificity = graph.node_specificity()
        return triple_seeds(ends, np.array(counts, float), specificity, top=config.seed_phrases)

    own = seeds(kept(found), counts)
    if further:
        own = np.maximum(own, config.second_hop_weight * seeds(further, further_counts))
    (query,) = HashEmbedder().embed([QUESTION], "query_to_passage")
    dense = snapshot.corpus.passage_vectors.cosines(query)
    reset = np.concatenate([own, passage_seeds(dense, config.passage_weight)])
    transition = graph.transition(config, with_passages=True)
    walked = personalized_pagerank(transition, reset, damping=0.5, tolerance=1e-12).scores
    ids = [live.passage.id for live in snapshot.corpus.passages]
    return dict(zip(ids, walked[graph.n_phrases :], strict=True))


def scores(found):
    return {hit.passage.id: hit.score for hit in found}


@pytest.mark.parametrize("numbers", [(1, 2), (9, 1, 4), (10,)])
def test_a_kept_triple_counts_one_or_its_linking_score(numbers, filled):
    memory = filled(keeping(*numbers))
    every = {}
    for kind in ("one", "linking"):
        config = HippoConfig(kept_score=kind)
        found = memory.retrieve(QUESTION, k=99, config=config)
        linked = [link.score for link in found.triples if link.kept]
        counts = linked if kind == "linking" else [1.0] * len(linked)
        every[kind] = scores(found)
        assert every[kind] == pytest.approx(expected_scores(memory, found, config, counts))
    if numbers == (9, 1, 4):
        assert every["one"] != pytest.approx(every["linking"])


def test_without_a_judge_a_triple_counts_its_linking_score(filled):
    memory = filled()
    config = HippoConfig(linking_margin=None, kept_score="one")
    found = memory.retrieve(QUESTION, k=99, config=config)
    counts = [link.score for link in found.triples]
    assert len(set(counts)) == 5
    assert scores(found) == pytest.approx(expected_scores(memory, found, config, counts))


# -- second hop ------------------------------------------------------------------------------------


def test_no_second_hop_asks_no_more(filled):
    memory = filled()
    found = memory.retrieve(QUESTION, config=HippoConfig(second_hop=0))
    assert len(memory.embedder.calls) == 1
    assert {link.hop for link in found.triples} == {1}


@pytest.mark.parametrize("embedder", [HashEmbedder, TwoEncodings])
@pytest.mark.parametrize("chat", [None, keeping(1, 3), keeping(2, 4, 6, 8)])
def test_a_second_hop_is_one_more_embedding_call_of_a_text_for_each_kept_triple(
    chat, embedder, filled
):
    memory = filled(chat, embedder())
    plain = memory.retrieve(QUESTION, config=HippoConfig(second_hop=0))
    before = list(memory.embedder.calls)
    memory.embedder.calls.clear()
    found = memory.retrieve(QUESTION, config=HippoConfig(second_hop=3))
    *first, (kind, texts) = memory.embedder.calls
    assert first == before
    assert kind == "query_to_triple"
    assert len(texts) == len(set(texts)) == len(kept(found)) > 0
    assert all(text.startswith(f"{QUESTION} ") for text in texts)
    counted = found.usage.stages["embedding"]
    assert counted.calls == len(before) + 1
    assert counted.texts == plain.usage.stages["embedding"].texts + len(texts)


def slow_hop(memory, found, k):
    """Give the triples that lead on best from those that are kept, with their cosines."""
    snapshot = memory._index.snapshot()
    triples = [snapshot.display_triple(i) for i in range(len(snapshot.graph.triples))]
    keyed = dict(zip(triples, snapshot.graph.triples, strict=True))
    embed = HashEmbedder().embed
    best = {}
    first = [linked.triple for linked in found.triples if linked.hop == 1]
    seen = first if found.path == RetrievalPath.GRAPH else kept(found)  # a judge saw them all
    for here, there in itertools.product(kept(found), triples):
        if there in seen or not {here[0], here[2]} & {there[0], there[2]}:
            continue
        rows = embed([f"{QUESTION} {' '.join(keyed[here])}", " ".join(keyed[there])], "triple")
        best[there] = max(best.get(there, -1.0), float(rows[0] @ rows[1]))
    chosen = sorted((t for t in best if best[t] > 0), key=lambda t: -best[t])[:k]
    return [(t, best[t]) for t in chosen]


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_a_second_hop_adds_what_leads_on_best_and_it_counts_its_weight(k, weight, filled):
    memory = filled(keeping(1, 2, 5))
    assert not memory.stats().synonymy_edges  # so that beside is: of a phrase in common
    config = HippoConfig(second_hop=k, second_hop_weight=weight, recognition_candidates=6)
    found = memory.retrieve(QUESTION, k=99, config=config)
    expected = slow_hop(memory, found, k)
    further = [link for link in found.triples if link.hop == 2]
    assert [link.triple for link in further] == [triple for triple, _ in expected]
    counts = [cosine / expected[0][1] for _, cosine in expected]
    assert [link.score for link in further] == pytest.approx(counts)
    assert all(link.kept and link.passage_ids for link in further)
    assert not {link.triple for link in further} & {*kept(found)}
    assert list(found.triples) == [link for link in found.triples if link.hop == 1] + further
    walked = expected_scores(
        memory, found, config, [1.0] * 3, [link.triple for link in further], counts
    )
    assert scores(found) == pytest.approx(walked)
    if weight == 0.0:
        plain = memory.retrieve(QUESTION, k=99, config=HippoConfig(recognition_candidates=6))
        assert scores(found) == pytest.approx(scores(plain))


def test_a_second_hop_from_where_nothing_is_beside_changes_nothing(filled):
    memory = filled(items=[ITEMS[0], ITEMS[-1]])
    how = {"k": 9, "config": HippoConfig(second_hop=3, linked_triples=1)}
    found = memory.retrieve(QUESTION, **how)
    assert {link.hop for link in found.triples} == {1}
    plain = memory.retrieve(QUESTION, k=9, config=HippoConfig(linked_triples=1))
    assert found.passages == plain.passages


def test_a_second_hop_that_fails_costs_neither_the_answer_nor_the_judge(filled):
    class Failing(HashEmbedder):
        def embed(self, texts, kind):
            if kind == "query_to_triple":
                raise PermanentModelError("too long")
            return super().embed(texts, kind)

    chat = keeping(2, 1)
    memory = filled(chat, embedder=Failing())
    found = memory.retrieve(QUESTION, config=HippoConfig(second_hop=1))
    assert found.usage.chat_calls == 1
    assert found.path == RetrievalPath.GRAPH
    assert "no second hop" in found.detail
    assert "too long" in found.detail
    assert ranked(found) == ranked(memory.retrieve(QUESTION))


def test_a_second_hop_brings_nothing_back_that_the_judge_dropped(filled):
    memory = filled(keeping(1))
    found = memory.retrieve(QUESTION, config=HippoConfig(second_hop=50))
    first = [linked.triple for linked in found.triples if linked.hop == 1]
    assert len(first) == 10
    further = [linked.triple for linked in found.triples if linked.hop == 2]
    assert not set(further) & set(first)


def test_a_second_hop_goes_over_synonyms_where_they_are_on(filled):
    facts = [("Ada King Lovelace", "wrote", "notes"), ("Ada King Lovelaces", "sang", "a song")]
    items = [(Passage(f"{i}", id=f"s{i}"), Extraction(triples=[f])) for i, f in enumerate(facts)]
    memory = filled(items=items, config=HippoConfig(synonymy_threshold=0.5))
    assert memory.stats().synonymy_edges
    base = HippoConfig(synonymy_threshold=0.5, second_hop=3, linked_triples=1)
    on, off = (
        memory.retrieve("Who wrote notes?", config=base.but(synonymy=synonymy))
        for synonymy in (True, False)
    )
    assert [linked.triple.subject for linked in on.triples if linked.hop == 2] == [
        "Ada King Lovelaces"
    ]
    assert [linked for linked in off.triples if linked.hop == 2] == []


@pytest.mark.parametrize("chat", [None, keeping(2, 1), saying("Well...")])
def test_in_threads_on_a_loop_and_many_at_once_a_second_hop_is_the_same(chat, filled):
    memory = filled(chat, config=HippoConfig(second_hop=3, recognition_candidates=5))
    queries = [QUESTION, "Where do rivers flow?", "Osk", QUESTION]

    async def each():
        return await asyncio.gather(*(memory.aretrieve(query) for query in queries))

    def unmetered(all_found):
        parts = ("passages", "triples", "anchors", "path", "walk")
        return [[getattr(found, part) for part in parts] for found in all_found]

    def costs(all_found):
        return [
            {s: (u.calls, u.texts, u.input_tokens) for s, u in found.usage.stages.items()}
            for found in all_found
        ]

    one = [memory.retrieve(query) for query in queries]
    assert any(link.hop == 2 for link in one[0].triples)
    for way in (
        asyncio.run(each()),
        memory.retrieve_many(queries),
        asyncio.run(memory.aretrieve_many(queries)),
    ):
        assert unmetered(way) == unmetered(one)
        assert costs(way) == costs(one)


# -- law 1 -----------------------------------------------------------------------------------------

PHRASES = ["Ada", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab"]
facts = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "is"]), st.sampled_from(PHRASES)
)
stated = st.lists(st.lists(facts, max_size=3), min_size=1, max_size=6)


@given(
    stated=stated,
    second_hop=st.integers(0, 4),
    margin=st.sampled_from([0.0, 0.25, None]),
    chat=st.sampled_from([None, keeping(1, 3)]),
    data=st.data(),
)
@settings(max_examples=max(25, settings.default.max_examples // 4))
def test_no_order_of_adds_and_deletes_changes_what_is_linked(
    stated, second_hop, margin, chat, data
):
    items = [
        (Passage(f"Text {i % 3}.", id=f"p{i}", title=f"{i}"), Extraction(triples=triples))
        for i, triples in enumerate(stated)
    ]
    config = HippoConfig(synonymy_threshold=0.5, second_hop=second_hop, linking_margin=margin)
    with (
        HippoRAG(chat, HashEmbedder(16), config=config) as one,
        HippoRAG(chat, HashEmbedder(16), config=config) as other,
    ):
        one.add_extracted(items)
        for item in data.draw(st.permutations(items)):
            other.add_extracted([item])
            if data.draw(st.booleans()):
                other.delete([item[0].id])
                other.add_extracted([item])
        for query in ("Did Ada Lovelace write the notes of Ada in Rome?", "C# is ab"):
            some, others = one.retrieve(query, k=9), other.retrieve(query, k=9)
            assert [hit.passage for hit in some] == [hit.passage for hit in others]
            assert scores(some) == pytest.approx(scores(others), abs=1e-9, rel=1e-9)
            unscored = [
                [(link.triple, link.passage_ids, link.kept, link.hop) for link in found.triples]
                for found in (some, others)
            ]
            assert unscored[0] == unscored[1]
            assert (some.anchors, some.path) == (others.anchors, others.path)


# -- the published methods -------------------------------------------------------------------------


def test_a_memory_of_the_default_rendering_is_asked_by_each_preset(filled):
    openie = TableOpenIE(queries={QUESTION: ["Stanford", "Alzheimer's"]})
    memory = filled(openie=openie)
    for preset in (HippoConfig.hipporag2, HippoConfig.hipporag, HippoConfig.dense):
        found = memory.retrieve(QUESTION, k=99, config=preset())
        own = filled(openie=openie, config=preset(triple_rendering="words"))
        assert ranked(found) == ranked(own.retrieve(QUESTION, k=99))
        assert len(found) == len(ITEMS)


def test_a_memory_of_hipporag_2_is_asked_by_the_default(filled):
    memory = filled(config=HippoConfig.hipporag2())
    found = memory.retrieve(QUESTION, k=99, config=HippoConfig(second_hop=3))
    own = filled(config=HippoConfig(triple_rendering="tuple", second_hop=3))
    assert ranked(found) == ranked(own.retrieve(QUESTION, k=99))


def test_hipporag_2_links_by_the_cosine_of_triples_alone(filled):
    memory = filled(config=HippoConfig.hipporag2())
    found = memory.retrieve(QUESTION)
    assert found.anchors == ()
    (query,) = HashEmbedder().embed([QUESTION], "query_to_triple")
    snapshot = memory._index.snapshot()
    near = np.asarray(snapshot.corpus.triple_vectors, float) @ query
    best = np.argsort(-near)[:5]
    assert [link.triple for link in found.triples] == [
        snapshot.display_triple(int(i)) for i in best
    ]
    scaled = (near - near.min()) / (near.max() - near.min())
    assert [link.score for link in found.triples] == pytest.approx(scaled[best].tolist())
    assert all(link.kept for link in found.triples)


def test_hipporag_2_shows_a_judge_five_candidates_without_titles(filled):
    chat = keeping(5, 1)
    memory = filled(chat, config=HippoConfig.hipporag2())
    found = memory.retrieve(QUESTION, k=99)
    assert len(fact_lines(chat)) == 5
    assert all(isinstance(line, list) for line in fact_lines(chat))
    counts = [link.score for link in found.triples if link.kept]
    config = HippoConfig.hipporag2()
    assert scores(found) == pytest.approx(expected_scores(memory, found, config, counts))


LINKING = {
    "context_weight": 0.0,
    "anchor_weight": 3.0,
    "meeting_weight": 0.0,
    "linking_margin": 0.0,
    "second_hop": 3,
    "recognition_candidates": 1,
    "kept_score": "linking",
}


@pytest.mark.parametrize("preset", [HippoConfig.hipporag, HippoConfig.dense])
def test_hipporag_and_dense_have_nothing_of_the_linking(preset, filled):
    openie = TableOpenIE(queries={QUESTION: ["Stanford", "Alzheimer's"]})
    memory = filled(openie=openie)
    plain = memory.retrieve(QUESTION, k=99, config=preset())
    calls = len(memory.embedder.calls)
    other = memory.retrieve(QUESTION, k=99, config=preset(**LINKING))
    assert ranked(other) == ranked(plain)
    assert len(memory.embedder.calls) == 2 * calls
    assert plain.triples == plain.anchors == other.anchors == ()
