"""Law 3: a filter is a smaller corpus, whatever is asked, and whatever came before."""

import asyncio
import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hippo_core import (
    Edge,
    Extraction,
    HippoConfig,
    HippoRAG,
    InputError,
    Passage,
    RetrievalPath,
    Status,
    index,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from hippo_core.where import checked_where

# -- what is drawn ---------------------------------------------------------------------------------
# Few words, so that passages share texts, triples and phrases, and phrases are synonyms.

IDS = "abcdef"
TEXTS = ["Ada wrote notes.", "Notes by Ada.", "notes Ada by", "Rome fell.", "Nothing to see."]
PHRASES = ["Ada", "ADA", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab", "!!!"]
QUERIES = {"Who wrote the notes?": ["Notes of Ada", "Rome"], "Ada Lovelace": ["ada"], "Hm": []}
SHAPE = {"synonymy_threshold": 0.5}
CONFIGS = [
    HippoConfig.hipporag2(**SHAPE),
    HippoConfig.hipporag2(**SHAPE, node_specificity=False, linked_triples=2, seed_phrases=1),
    HippoConfig.hipporag2(**SHAPE, synonymy=False, passage_weight=1.0, damping=0.9),
    HippoConfig.hipporag2(**SHAPE, synonymy_on_related="add", relation_count="occurrence"),
    HippoConfig.hipporag2(**SHAPE, user_edges=False),
    HippoConfig(**SHAPE),
    HippoConfig(**SHAPE, second_hop=3, linking_margin=0.0),
    HippoConfig(**SHAPE, second_hop=1, second_hop_weight=1.0),
    HippoConfig.hipporag(**SHAPE),
    HippoConfig.hipporag(**SHAPE, dense_ensemble=True, ensemble_threshold=1.0),
    HippoConfig.hipporag(**SHAPE, expansion="linked_phrases"),
    HippoConfig.hipporag(**SHAPE, expansion="neighbours", node_specificity=False),
    HippoConfig.dense(**SHAPE),
]


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


facts = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "Wrote", "is"]), st.sampled_from(PHRASES)
)
tables = st.fixed_dictionaries(
    dict.fromkeys(
        TEXTS,
        st.builds(
            Extraction,
            triples=st.lists(facts, max_size=4),
            status=st.sampled_from([Status.OK, Status.OK, Status.OK, Status.PARTIAL]),
        ),
    )
)
marks = st.fixed_dictionaries(
    {}, optional={"group": st.integers(0, 2), "tags": st.lists(st.sampled_from("xy"), max_size=2)}
)
written = st.builds(
    Passage,
    text=st.sampled_from(TEXTS),
    id=st.sampled_from(IDS),
    source_id=st.sampled_from([None, "s", "t"]),
    metadata=marks,
    embed_text=st.sampled_from(["", "", TEXTS[0], "Of its own."]),
)
batches = st.lists(written, min_size=1, max_size=6, unique_by=lambda p: p.id)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("add"), batches),
        st.tuples(st.just("add"), batches),
        st.tuples(st.just("delete"), st.lists(st.sampled_from(IDS), min_size=1, max_size=2)),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("look"), st.none()),
    ),
    min_size=1,
    max_size=5,
)
filters = st.sampled_from(
    [
        {},
        {"group": 0},
        {"group": {"$gte": 1}},
        {"group": {"$in": [0, 2]}},
        {"tags": {"$contains": "x"}},
        {"tags": {"$exists": True}, "group": {"$ne": 1}},
        {"$or": [{"group": 2}, {"tags": {"$contains": "y"}}]},
        {"$not": {"group": 0}},
        {"group": 9},
        lambda metadata: metadata.get("group") != 1,
        lambda metadata: "x" in metadata.get("tags", "x"),
        lambda _metadata: False,
    ]
)
groups = st.sampled_from(
    [(), (), [["Ada", "Lovelace"]], [["none", "Rome", "ada lovelace"], ["ab", "C#", "Ada"]]]
)
some = st.lists(st.sampled_from(CONFIGS), min_size=2, max_size=3, unique=True)
apart = st.sampled_from([(), [("Ada Lovelace", "notes of Ada"), ("Rome", "Ada Lovelace X")]])


def linked(passage):
    """Edges that a passage itself decides, to what is there and what is not."""
    place = IDS.index(passage.id)
    yield Edge(passage, to_passage=IDS[place - 1], weight=0.3)
    yield Edge(passage, to_passage=IDS[place - 2], weight=1 + place)
    yield Edge(passage, to_phrase=PHRASES[place], weight=2)
    yield Edge(passage, to_phrase=PHRASES[len(passage.text) % 8])
    yield Edge(passage, to_source="st"[place % 2])


# -- how answers are compared ----------------------------------------------------------------------


def scores(found):
    return [
        *(hit.score for hit in found.passages),
        *(link.score for link in (*found.triples, *found.phrases)),
    ]


def without_scores(found):
    unscored = {
        name: [dataclasses.replace(part, score=0) for part in getattr(found, name)]
        for name in ("passages", "triples", "phrases")
    }
    return found.query, found.path, found.detail, found.anchors, unscored


def assert_same(one, other):
    assert without_scores(one) == without_scores(other)
    assert scores(one) == pytest.approx(scores(other), abs=1e-9, rel=1e-9)


def assert_alike(some_found, others):
    for one, other in zip(some_found, others, strict=True):
        assert_same(one, other)


def answers(memory, where=None, configs=CONFIGS):
    return [
        memory.retrieve(query, k=99, where=where, config=config)
        for query, config in itertools.product(QUERIES, configs)
    ]


def opened(store=None):
    openie = TableOpenIE(queries=QUERIES)
    return HippoRAG(None, HashEmbedder(16), store=store, openie=openie, config=CONFIGS[0])


def curate(memory, aliases, never_link):
    memory.aliases = aliases
    memory.never_link = never_link


def filled(passages, table, aliases=(), never_link=()):
    memory = opened()
    curate(memory, aliases, never_link)
    if passages:
        memory.add_extracted([(p, table[p.text]) for p in passages], edges=linked)
    return memory


def play(history, table, memory, folder):
    """Add, delete and reopen; give the memory and the passages that it should hold."""
    live = {}
    for step, what in history:
        if step == "add":
            memory.add_extracted([(p, table[p.text]) for p in what], edges=linked)
            live |= {p.id: p for p in what}
        elif step == "delete":
            memory.delete(what)
            live = {i: p for i, p in live.items() if i not in what}
        elif step == "reopen":
            memory.close()
            memory = opened(folder)
        else:
            answers(memory, {"group": 0}, CONFIGS[:1])
    return memory, list(live.values())


@pytest.fixture(scope="module", autouse=True)
def small_memories_are_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "WORTH_KEEPING", 1)
        yield


# -- 3: a filter is a smaller corpus ---------------------------------------------------------------


@given(passages=batches, table=tables, where=filters, configs=some)
@examples(15)
def test_a_filter_ranks_as_an_index_of_only_the_allowed_passages(passages, table, where, configs):
    allows = checked_where(where).allows
    with filled(passages, table) as memory:
        allowed = [p for p in passages if allows(p.metadata)]
        with filled(allowed, table) as smaller:
            assert_alike(answers(memory, where, configs), answers(smaller, None, configs))
            restricted = memory._index.snapshot().restricted(checked_where(where))
            assert restricted.stats() == smaller.stats()


@given(
    history=histories,
    table=tables,
    where=filters,
    aliases=groups,
    never_link=apart,
    configs=some,
)
@examples(20)
def test_so_it_does_after_any_history_and_with_the_users_aliases(
    history, table, where, aliases, never_link, configs, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("memory") / "m"
    allows = checked_where(where).allows
    memory = opened(folder)
    curate(memory, aliases, never_link)
    memory, live = play(history, table, memory, folder)
    with memory, filled([p for p in live if allows(p.metadata)], table, aliases, never_link) as few:
        assert_alike(answers(memory, where, configs), answers(few, None, configs))


@given(passages=batches, table=tables, one=filters, other=filters, configs=some)
@examples(6)
def test_filters_do_not_disturb_each_other_nor_what_is_whole(passages, table, one, other, configs):
    with filled(passages, table) as memory:
        whole, first = answers(memory, None, configs), answers(memory, one, configs)
        answers(memory, other, configs)
        assert_alike(answers(memory, one, configs), first)
        assert_alike(answers(memory, None, configs), whole)


@pytest.mark.parametrize(("dimension", "n"), [(16, 3), (64, 7), (1024, 39)])
def test_passages_of_one_text_are_alike_under_a_filter(dimension, n):
    """Their scores may differ in the last bit, by place; scaling must not make that all of it."""
    told = Extraction(triples=[("Ada", "wrote", "notes")])
    alike = [(Passage("T", id=f"t{i:02}", metadata={"t": True}), told) for i in range(n)]
    others = [(Passage(f"U {i}", id=f"a{i}"), Extraction()) for i in range(200)]
    with HippoRAG(None, HashEmbedder(dimension)) as memory:
        memory.add_extracted([*alike, *others])
        scored = [hit.score for hit in memory.retrieve("Who wrote?", k=99, where={"t": True})]
        assert scored == pytest.approx([scored[0]] * n, rel=1e-9)


# -- nothing of the others shows -------------------------------------------------------------------

OPEN = [
    (
        Passage("Ada wrote notes.", id="ada", metadata={"open": True}),
        Extraction(triples=[("Ada", "wrote", "notes")]),
    ),
    (
        Passage("Notes on an engine.", id="notes", metadata={"open": True}),
        Extraction(triples=[("notes", "on", "engine"), ("Ada", "wrote", "notes")]),
    ),
]
SECRET = [
    (
        Passage(f"Zyx {i}: ADA wrote notes.", f"zyx{i}", f"Zyx {i}", "zyx", {"zyx": "Zyx"}),
        Extraction(
            triples=[
                ("ADA", "WROTE", "NOTES"),  # keys of the others, spelled otherwise
                ("Ada", "wrote", f"zyx notes {i}"),
                ("notes zyx", "of", "ada"),
            ]
        ),
    )
    for i in range(5)
]


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_of_a_disallowed_passage_leaks(config):
    seen = []

    def choose(messages):
        seen.append(str(messages))
        return '{"keep": [1, 2], "named_entities": ["Ada"]}'

    chat = ScriptedChatModel(choose)
    with (
        HippoRAG(chat, HashEmbedder(16), config=config) as memory,
        HippoRAG(ScriptedChatModel(choose), HashEmbedder(16), config=config) as smaller,
    ):
        memory.add_extracted(OPEN + SECRET)
        smaller.add_extracted(OPEN)
        found = memory.retrieve("Who wrote what?", k=99, where={"open": True})
        answer = memory.answer("Who wrote what?", k=99, where={"open": True})
        shown = [repr(found), repr(answer), *seen]
        assert not [text for text in shown if "zyx" in text.lower() or "NOTES" in text]
        assert_same(found, smaller.retrieve("Who wrote what?", k=99))
        assert_same(answer.retrieval, found)


def test_recognition_sees_only_triples_of_allowed_passages():
    chat = ScriptedChatModel(lambda _: '{"keep": [1]}')
    with HippoRAG(chat, HashEmbedder()) as memory:
        memory.add_extracted(OPEN + SECRET)
        found = memory.retrieve("Who wrote notes?", where={"open": True})
        assert found.path is RetrievalPath.GRAPH
        assert {i for link in found.triples for i in link.passage_ids} == {"ada", "notes"}
        (prompt,) = chat.calls
        assert "zyx" not in str(prompt).lower()


# -- nothing is allowed ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{"open": "never"}, lambda _: False, {"$not": {}}])
@pytest.mark.parametrize("config", CONFIGS)
def test_a_filter_that_allows_nothing_gives_nothing_and_asks_no_model(where, config):
    embedder, chat = HashEmbedder(), ScriptedChatModel([])
    with HippoRAG(chat, embedder, config=config) as memory:
        memory.add_extracted(OPEN)
        embedder.calls.clear()
        found = memory.retrieve("Who wrote notes?", where=where)
        assert (found.path, found.passages, found.triples) == (RetrievalPath.EMPTY, (), ())
        assert embedder.calls == chat.calls == []


# -- when a filter is evaluated --------------------------------------------------------------------


@pytest.fixture
def memory(open_memory):
    memory = open_memory(ScriptedChatModel(lambda _: '{"keep": [1]}'))
    memory.add_extracted(OPEN + SECRET)
    return memory


def test_a_callable_is_asked_of_each_passage_for_each_query(memory):
    asked = []

    def where(metadata):
        asked.append(metadata)
        return metadata.get("open", False)

    memory.retrieve("Ada", where=where)
    assert len(asked) == len(memory)
    memory.retrieve("Ada", where=where)
    memory.retrieve_many(["Ada", "notes"], where=where)
    assert len(asked) == 4 * len(memory)


def test_what_a_callable_says_may_change(memory):
    allowed = {"open": True}
    found = [
        memory.retrieve("Ada", k=99, where=lambda m: m.get("open", False) is allowed["open"])
        for allowed["open"] in (True, False, True)
    ]
    assert [len(f) for f in found] == [len(OPEN), len(SECRET), len(OPEN)]


def test_a_dict_is_evaluated_once_for_a_state_and_forgotten_with_it(memory):
    def restricted():
        return memory._index.snapshot().restricted(checked_where({"open": True}))

    before = restricted()
    memory.retrieve("Ada", where={"open": True})
    assert restricted() is before
    memory.add_extracted([(Passage("More.", id="more", metadata={"open": True}), Extraction())])
    assert restricted() is not before
    assert len(memory.retrieve("Ada", k=99, where={"open": True})) == len(OPEN) + 1
    after = restricted()
    memory.aliases = [["Ada", "notes"]]
    assert restricted() is not after
    kept = restricted()
    memory.delete(["more"])
    assert restricted() is not kept
    assert len(memory.retrieve("Ada", k=99, where={"open": True})) == len(OPEN)


def test_dicts_of_equal_meaning_are_one_and_of_other_types_are_not(memory):
    snapshot = memory._index.snapshot()
    one = snapshot.restricted(checked_where({"open": True, "zyx": "Zyx"}))
    assert snapshot.restricted(checked_where({"zyx": "Zyx", "open": True})) is one
    assert len(memory.retrieve("Ada", where={"open": 1})) == 0
    assert len(memory.retrieve("Ada", k=99, where={"open": True})) == len(OPEN)


def test_only_the_last_filters_are_kept(memory):
    snapshot = memory._index.snapshot()
    first = snapshot.restricted(checked_where({"n": 0}))
    for n in range(1, 100):
        memory.retrieve("Ada", where={"n": n})
    assert len(snapshot._restricted) < 50
    assert snapshot.restricted(checked_where({"n": 0})) is not first


def test_what_a_callable_raises_passes_through_and_harms_nothing(memory):
    def where(_metadata):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        memory.retrieve("Ada", where=where)
    assert len(memory.retrieve("Ada", k=99)) == len(memory)


def test_a_callable_may_ask_the_memory(memory):
    inner = lambda m: bool(memory.get(["ada"])) and m.get("open", False)  # noqa: E731
    assert len(memory.retrieve("Ada", k=99, where=inner)) == len(OPEN)


def test_a_callable_cannot_change_what_is_stored(memory):
    def where(metadata):
        metadata["open"] = False
        return True

    memory.retrieve("Ada", where=where)
    assert len(memory.retrieve("Ada", k=99, where={"open": True})) == len(OPEN)


# -- on every way to ask ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{"open": True}, lambda m: m.get("open", False)])
def test_all_ways_to_retrieve_take_the_filter(where, memory):
    alone = memory.retrieve("Ada", where=where)
    assert [hit.passage.id for hit in alone] == ["ada", "notes"]
    asked = [
        asyncio.run(memory.aretrieve("Ada", where=where)),
        *memory.retrieve_many(["Ada"] * 2, where=where),
        *asyncio.run(memory.aretrieve_many(["Ada"] * 2, where=where)),
        memory.answer("Ada", where=where).retrieval,
        asyncio.run(memory.aanswer("Ada", where=where)).retrieval,
    ]
    for found in asked:
        assert_same(found, alone)


@pytest.mark.parametrize("where", [{"$gt": 3}, {"a": {"$gtr": 1}}, "open", 7, [{"a": 1}]])
def test_what_is_no_filter_is_refused_before_any_model_is_asked(where, memory):
    memory.embedder.calls.clear()
    memory.chat_model.calls.clear()
    uses = [
        lambda: memory.retrieve("Ada", where=where),
        lambda: memory.retrieve_many(["Ada"], where=where),
        lambda: memory.answer("Ada", where=where),
        lambda: asyncio.run(memory.aretrieve("Ada", where=where)),
        lambda: asyncio.run(memory.aanswer("Ada", where=where)),
        lambda: memory.delete(where=where),
        lambda: memory.reextract(where=where),
    ]
    for use in uses:
        with pytest.raises(InputError, match="where"):
            use()
    assert memory.embedder.calls == memory.chat_model.calls == []
    assert len(memory) == len(OPEN + SECRET)


def test_a_callable_that_returns_no_bool_is_refused_before_any_model_is_asked(memory):
    memory.embedder.calls.clear()
    for use in (memory.retrieve, memory.answer):
        with pytest.raises(InputError, match="bool"):
            use("Ada", where=lambda m: m.get("open"))
    assert memory.embedder.calls == []
