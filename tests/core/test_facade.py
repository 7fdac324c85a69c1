"""The memory as one holds it: what is in it, what it hands out, and what it answers."""

import asyncio
import copy
import doctest
import inspect
import pickle
from collections.abc import Mapping

import pytest

import hippo_core
from hippo_core import (
    ChatModel,
    ClosedError,
    Completion,
    Embedder,
    Extraction,
    HippoConfig,
    HippoRAG,
    InputError,
    ModelRequiredError,
    NotAStoreError,
    OpenIE,
    Passage,
    PermanentModelError,
    RecognitionMemory,
    RetrievalPath,
    Stats,
    StoreError,
    TokenUsage,
    hipporag,
    testing,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableChatModel, TableOpenIE

NESTED = {"tags": ["a", {"deep": [1, 2]}], "page": 3, "none": None, "yes": True, "half": 0.5}


@pytest.fixture
def memory(open_memory):
    memory = open_memory()
    memory.add_extracted(
        [
            (
                Passage("Ada wrote notes.", id="b", title="Ada", source_id="s", metadata=NESTED),
                Extraction(["Ada"], [("Ada", "wrote", "notes"), ("Ada", "wrote", "letters")]),
            ),
            (Passage("Bob met Ada.", id="a"), Extraction(triples=[("Bob", "met", "Ada")])),
            (Passage("It rained.", id="c"), Extraction()),
        ]
    )
    return memory


# -- looking ---------------------------------------------------------------------------------------


def test_a_passage_comes_back_as_it_was_given(memory):
    given = Passage("Ada wrote notes.", id="b", title="Ada", source_id="s", metadata=NESTED)
    assert memory.get(["b"]) == [given]
    assert next(p for p in memory if p.id == "b") == given
    assert next(h.passage for h in memory.retrieve("Ada") if h.passage.id == "b") == given


def test_users_may_have_their_own_id_and_score_in_the_metadata(open_memory):
    memory = open_memory()
    metadata = {"id": "mine", "score": "mine", "rank": [], "status": None}
    memory.add_extracted([(Passage("T", id="x", metadata=metadata), Extraction())])
    assert memory.retrieve("T").passages[0].passage.metadata == metadata


def test_get_keeps_the_order_and_leaves_out_what_is_unknown(memory):
    assert [p.id for p in memory.get(["c", "ghost", "a", "c"])] == ["c", "a", "c"]
    assert memory.get([]) == []


def test_many_ids_can_be_got_and_deleted_at_once(open_memory):
    memory = open_memory()
    ids = [f"{i:04}" for i in range(1203)]
    memory.add_extracted([(Passage("Same.", id=i), Extraction()) for i in ids])
    assert [p.id for p in memory.get(ids)] == ids
    assert memory.delete([*ids[3:], "ghost"]).not_found == ("ghost",)
    assert [p.id for p in memory] == ids[:3]


def test_iterating_gives_one_state_by_id(memory):
    passages = iter(memory)
    assert next(passages).id == "a"
    memory.delete(["b", "c"])
    assert [p.id for p in passages] == ["b", "c"]
    assert [p.id for p in memory] == ["a"]


def test_length_and_membership(memory):
    assert len(memory) == 3
    assert "a" in memory
    for other in ("ghost", "", None, 3, "A", "a "):
        assert other not in memory


def test_stats_count_what_is_there(memory):
    assert memory.stats() == Stats(
        passages=3,
        phrases=4,
        triples=3,
        relation_edges=3,
        synonymy_edges=0,
        context_edges=5,
        by_status={"empty": 1, "ok": 2},
    )


def test_stats_count_synonymy_edges_only_where_they_are_used(open_memory):
    for synonymy in (True, False):
        memory = open_memory(config=HippoConfig(synonymy=synonymy))
        memory.add_extracted([("T", Extraction(triples=[("the old clock", "is", "old clock")]))])
        assert memory.stats().synonymy_edges == int(synonymy)


# -- what is handed out and taken in ---------------------------------------------------------------


def test_changing_what_was_handed_out_harms_nothing(memory):
    def spoil(passage):
        passage.metadata["tags"][1]["deep"].append("spoilt")
        passage.metadata["new"] = 1

    for _ in range(2):
        spoil(memory.get(["b"])[0])
        spoil(next(p for p in memory if p.id == "b"))
        spoil(next(h.passage for h in memory.retrieve("Ada") if h.passage.id == "b"))
    for passage in (
        memory.get(["b"])[0],
        next(p for p in memory if p.id == "b"),
        next(h.passage for h in memory.retrieve("Ada") if h.passage.id == "b"),
    ):
        assert passage.metadata == NESTED
    memory.stats().by_status["ok"] = 99
    assert memory.stats().by_status["ok"] == 2


def test_changing_what_was_given_harms_nothing(open_memory):
    metadata = {"tags": ["a"]}
    passage = Passage("T", id="x", metadata=metadata)
    memory = open_memory()
    memory.add_extracted([(passage, Extraction())])
    metadata["tags"].append("b")
    assert memory.get(["x"])[0].metadata == {"tags": ["a"]}
    assert memory.retrieve("T").passages[0].passage.metadata == {"tags": ["a"]}


def test_what_was_given_is_not_changed(open_memory):
    metadata = {"b": 1, "a": [1]}
    passage = Passage("T", metadata=metadata)
    report = open_memory(openie=TableOpenIE()).add(p for p in [passage])  # any iterable
    assert report.ids[0]
    assert passage == Passage("T", metadata={"b": 1, "a": [1]})
    assert list(metadata) == ["b", "a"]


def test_metadata_may_be_any_mapping_and_comes_back_a_dict(open_memory):
    class Frozen(Mapping):
        def __getitem__(self, key):
            return {"a": 1}[key]

        def __iter__(self):
            return iter(["a"])

        def __len__(self):
            return 1

    memory = open_memory()
    memory.add_extracted([(Passage("T", id="x", metadata=Frozen()), Extraction())])
    assert type(memory.get(["x"])[0].metadata) is dict


# -- the handle ------------------------------------------------------------------------------------


def test_a_copy_is_the_same_handle(memory):
    assert copy.copy(memory) is memory
    assert copy.deepcopy({"memory": memory})["memory"] is memory


def test_a_memory_in_this_process_only_refuses_to_be_pickled_and_says_what_to_do(memory):
    with pytest.raises(StoreError, match=r"backup\(\)"):
        pickle.dumps(memory)


def test_the_repr_tells_where_and_no_secret(open_memory, tmp_path):
    class Paid(HashEmbedder):
        api_key = "sk-secret"

        def __repr__(self):
            return f"Paid({self.api_key})"

    chat = ScriptedChatModel([])
    chat.api_key = "sk-secret"
    memory = open_memory(chat, Paid(), store=tmp_path / "m", namespace="acme")
    memory.add_extracted([("A secret text.", Extraction())])
    assert repr(memory) == f"HippoRAG(store={str(tmp_path / 'm')!r}, namespace='acme')"
    assert repr(open_memory()) == "HippoRAG(store='in memory', namespace='default')"


def test_no_secret_reaches_the_disk(open_memory, tmp_path):
    chat = ScriptedChatModel(lambda _: '{"named_entities": [], "triples": []}', name="gpt")
    chat.api_key = "sk-secret"
    memory = open_memory(chat, store=tmp_path / "m")
    memory.add(["T"])
    memory.close()
    data = (tmp_path / "m" / "hippo.sqlite").read_bytes()
    assert b"sk-secret" not in data
    assert b"gpt, prompts" in data


def test_the_doubles_are_ports():
    assert isinstance(HashEmbedder(), Embedder)
    assert isinstance(ScriptedChatModel([]), ChatModel)
    assert isinstance(TableChatModel({}), ChatModel)
    assert isinstance(TableOpenIE(), OpenIE)
    assert not isinstance(TableOpenIE(), RecognitionMemory)


def test_the_table_chat_model_reads_what_is_in_its_table(open_memory):
    table = {"T\nx": Extraction(["Ada"], [("Ada", "wrote", "notes")]), "y": Extraction()}
    memory = open_memory(TableChatModel(table, keep='{"keep": [1]}'))
    report = memory.add([Passage("x", title="T", id="1"), Passage("y", id="2")])
    assert (report.added, report.empty) == (("1", "2"), ("2",))
    assert memory.retrieve("Ada").path == RetrievalPath.GRAPH


def test_the_hash_embedder_sees_words_and_not_their_order():
    embedder = HashEmbedder()
    one, other, far = embedder.embed(["Ada wrote", "wrote Ada!", "zebra"], "passage")
    assert one @ other == pytest.approx(1)
    assert one @ one == pytest.approx(1)
    assert abs(one @ far) < 0.5


def test_each_async_method_has_the_parameters_of_its_sync_one():
    for name, method in inspect.getmembers(HippoRAG, inspect.iscoroutinefunction):
        if name.startswith("_"):
            continue
        twin = getattr(HippoRAG, name.removeprefix("a"))
        assert inspect.signature(method) == inspect.signature(twin)
    twins = {n for n, _ in inspect.getmembers(HippoRAG, inspect.iscoroutinefunction) if n[0] != "_"}
    assert twins == {
        "aadd", "aadd_extracted", "adelete", "aretrieve", "aretrieve_many", "aanswer",
            "aanswer_many",
            "aretry_failed", "areextract", "areembed", "aestimate", "aextract", "aircot",
    }  # fmt: skip


def test_the_async_methods_that_nothing_else_calls_do_as_the_others(open_memory):
    memory = open_memory(ScriptedChatModel(lambda _: "Answer: notes"))

    async def use():
        report = await memory.aadd_extracted([(Passage("T", id="t"), Extraction())])
        answer = await memory.aanswer("What?")
        return report, answer, await memory.adelete(["t", "u"])

    report, answer, deleted = asyncio.run(use())
    assert report.added == ("t",)
    assert answer.text == "notes"
    assert (deleted.deleted, deleted.not_found) == (("t",), ("u",))


@pytest.mark.parametrize("module", [hippo_core.types, hipporag, testing])
def test_the_examples_in_the_documentation_run(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


# -- answers ---------------------------------------------------------------------------------------


def test_an_answer_is_read_from_the_retrieved_passages(memory):
    chat = ScriptedChatModel(
        lambda messages: Completion(
            "I think.\nAnswer: the notes" if "Answer" in messages[0].content else '{"keep": [1]}',
            TokenUsage(10, 2),
        )
    )
    answer = memory.answer("What did Ada write?", k=2, chat_model=chat)
    assert answer.text == "the notes"
    found = memory.retrieve("What did Ada write?", k=2, chat_model=chat)
    assert answer.retrieval.passages == found.passages
    assert set(answer.usage.stages) == {"recognition", "embedding", "answer"}
    assert answer.usage.chat_calls == 2
    asked = chat.calls[1][-1].content
    assert all(hit.passage.text in asked for hit in answer.retrieval)
    assert "It rained." not in asked
    assert asked.index(found.passages[0].passage.text) < asked.index(found.passages[1].passage.text)


def test_an_answer_is_read_from_what_other_settings_retrieve(memory):
    chat, config = ScriptedChatModel(lambda _messages: "Answer: notes"), HippoConfig.dense()
    found = memory.retrieve("What did Ada write?", k=2, config=config)
    answer = memory.answer("What did Ada write?", k=2, config=config, chat_model=chat)
    later = asyncio.run(memory.aanswer("What did Ada write?", k=2, config=config, chat_model=chat))
    assert answer.retrieval.passages == later.retrieval.passages == found.passages
    assert answer.retrieval.path is RetrievalPath.DENSE


def test_an_answer_needs_a_chat_model(memory):
    with pytest.raises(ModelRequiredError, match="retrieve"):
        memory.answer("What?")
    with pytest.raises(ModelRequiredError, match="retrieve"):
        asyncio.run(memory.aanswer("What?"))


def test_a_reader_that_fails_is_an_error_and_no_empty_answer(memory):
    def reply(messages):
        return PermanentModelError("401") if "Answer" in messages[0].content else '{"keep": []}'

    with pytest.raises(PermanentModelError, match="401"):
        memory.answer("What?", chat_model=ScriptedChatModel(reply))
    with pytest.raises(InputError):
        memory.answer(" ", chat_model=ScriptedChatModel(reply))


def test_a_memory_of_nothing_still_answers(open_memory):
    chat = ScriptedChatModel([])  # whom nobody asks
    answer = open_memory(chat).answer("What?")
    assert answer.text == ""
    assert answer.retrieval.path == RetrievalPath.EMPTY


# -- errors ----------------------------------------------------------------------------------------


def test_every_error_of_a_store_is_one_error_to_catch(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(StoreError):
        HippoRAG(None, HashEmbedder(), store=tmp_path)
    with pytest.raises(StoreError):
        HippoRAG(None, HashEmbedder(), store=tmp_path / "missing", create=False)


def test_asking_an_empty_memory_is_told_once_with_where_something_is(open_memory, tmp_path, caplog):
    with open_memory(store=tmp_path / "m", namespace="filled") as filled:
        filled.add_extracted([(Passage("Ada wrote."), Extraction())])
    memory = open_memory(store=tmp_path / "m", namespace="fileld")
    assert [len(memory.retrieve("Ada")) for _ in range(3)] == [0, 0, 0]
    (warning,) = [r.getMessage() for r in caplog.records if "is empty" in r.getMessage()]
    assert "'fileld'" in warning
    assert "'filled'" in warning


def test_without_a_model_no_store_is_begun(tmp_path):
    with pytest.raises(NotAStoreError):
        HippoRAG(None, None, store=tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()


async def test_a_memory_is_closed_at_the_end_of_an_async_block(tmp_path):
    async with HippoRAG(None, HashEmbedder(), store=tmp_path / "m") as memory:
        await memory.aadd_extracted([(Passage("Ada wrote."), Extraction())])
    with pytest.raises(ClosedError):
        len(memory)


def test_a_class_in_the_place_of_an_object_is_named():
    with pytest.raises(TypeError, match="class HashEmbedder"):
        HippoRAG(None, HashEmbedder)
