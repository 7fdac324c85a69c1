"""What the retriever promises: documents out as they went in, LangChain's contract, one memory."""

import asyncio
import copy
import datetime
import json
import logging
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from pydantic import ValidationError

from hippo_core import (
    ClosedError,
    EmbedderMismatchError,
    HippoConfig,
    IndexingError,
    InputError,
    ModelRequiredError,
    NotAStoreError,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableChatModel, TableOpenIE
from langchain_hipporag import HippoRAGRetriever

ROOT = Path(__file__).parents[2]
CHAIN = ["bridge", "town", "roebling"]  # the passages that answer the question together


def ids(found):
    return [document.id for document in found]


# -- ranking ---------------------------------------------------------------------------------------


def test_the_passage_that_shares_no_word_with_the_question_is_found(retriever, question):
    dense = retriever.hippo.retrieve(question, config=HippoConfig.dense(), k=6)
    assert dense.passages[-1].passage.id == "roebling"
    assert ids(retriever.invoke(question)) == CHAIN


def test_ranks_count_from_one_and_scores_fall(retriever, question):
    found = retriever.invoke(question, k=6)
    assert [d.metadata["hipporag_rank"] for d in found] == [1, 2, 3, 4, 5, 6]
    scores = [d.metadata["hipporag_score"] for d in found]
    assert scores == sorted(scores, reverse=True)


def test_a_cutoff_of_one_half_keeps_the_best(retriever, question):
    found = retriever.invoke(question, k=6)
    assert found[0].metadata["hipporag_score"] == 1.0
    good = [d for d in found if d.metadata["hipporag_score"] >= 0.5]
    assert ids(good) == CHAIN


def test_the_mass_of_the_walk_is_there_for_who_asks(retriever, question):
    mass = retriever.model_copy(update={"score_mode": "ppr"}).invoke(question, k=6)
    assert ids(mass) == ids(retriever.invoke(question, k=6))
    assert sum(d.metadata["hipporag_score"] for d in mass) < 1


def test_triples_explain_a_document_on_request(retriever, question):
    assert "hipporag_triples" not in retriever.invoke(question)[0].metadata
    explained = retriever.model_copy(update={"include_triples": True}).invoke(question)
    assert ["Brooklyn Bridge", "was designed by", "John Roebling"] in (
        explained[0].metadata["hipporag_triples"]
    )


# -- documents -------------------------------------------------------------------------------------


async def test_a_document_keeps_its_id_everywhere(retriever, question):
    assert ids(retriever.invoke(question)) == CHAIN
    assert ids(await retriever.ainvoke(question)) == CHAIN
    assert [ids(found) for found in retriever.batch([question] * 2)] == [CHAIN] * 2
    assert ids(retriever.get_documents(CHAIN)) == CHAIN


def test_a_document_without_an_id_gets_one_from_its_content(empty):
    texts = [Document("Hippos swim.", metadata={"source": s}) for s in ("a", "b", "a")]
    first, second, third = empty.add_documents(texts)
    assert first == third != second
    assert empty.add_documents(texts[:1]) == [first]
    assert len(empty.hippo) == 2


def test_given_ids_stand_in_for_the_documents_own(empty, documents):
    assert empty.add_documents(documents[:2], ids=["x", "y"]) == ["x", "y"]
    with pytest.raises(InputError, match="1 for 2"):
        empty.add_documents(documents[:2], ids=["x"])


def test_metadata_comes_back_as_it_went_in(empty):
    mine = {"id": "mine", "score": "mine", "rank": [1, {"two": None}], "ok": True, "at": 1.0}
    given = Document("Hippos swim.", id="h", metadata=copy.deepcopy(mine))
    empty.add_documents([given])
    assert given == Document("Hippos swim.", id="h", metadata=mine)
    (found,) = empty.invoke("hippos")
    ours = {"hipporag_score", "hipporag_rank"}
    assert {key: v for key, v in found.metadata.items() if key not in ours} == mine
    assert set(found.metadata) == ours | set(mine)
    assert empty.get_documents(["h"]) == [given]


def test_whoever_changes_a_found_document_changes_nothing_else(retriever, question):
    first = retriever.invoke(question)
    first[0].metadata["tags"][1]["year"] = 0
    first[0].page_content = ""
    assert retriever.invoke(question)[0].metadata["tags"] == ["bridge", {"year": 1883}]
    assert retriever.get_documents(["town"])[0].page_content


def test_all_metadata_is_plain(retriever, question):
    explained = retriever.model_copy(update={"include_triples": True}).invoke(question)
    for document in explained:
        json.dumps(document.metadata)
        assert type(document.metadata["hipporag_score"]) is float
        assert type(document.metadata["hipporag_rank"]) is int
        assert all(type(triple) is list for triple in document.metadata["hipporag_triples"])


def test_metadata_that_is_no_json_is_named(empty):
    dated = Document("Hippos swim.", metadata={"when": [datetime.date(1883, 5, 24)]})
    with pytest.raises(InputError, match=r"metadata\['when'\]\[0\].*datetime\.date"):
        empty.add_documents([dated])
    assert not len(empty.hippo)


def test_an_encoder_makes_json_of_what_is_none(chat, embeddings, closing):
    encoding = closing(
        HippoRAGRetriever.from_models(llm=chat, embeddings=embeddings, metadata_encoder=str)
    )
    metadata = {
        "when": [datetime.date(1883, 5, 24)],
        "source": Path("a.txt"),
        "weight": np.float32(0.5),
        "missing": float("nan"),
        "n": 1,
    }
    given = Document("Hippos swim.", id="h", metadata=dict(metadata))
    encoding.add_documents([given])
    (found,) = encoding.get_documents(["h"])
    assert found.metadata == {
        "when": ["1883-05-24"],
        "source": "a.txt",
        "weight": "0.5",
        "missing": "nan",
        "n": 1,
    }
    assert given.metadata["when"] == metadata["when"]
    assert encoding.hippo.get(["h"])[0].source_id == "a.txt"


def test_what_an_encoder_gives_is_encoded_in_turn(empty):
    class Place:
        def __init__(self, found: datetime.date) -> None:
            self.found = found

    def encode(value):
        return {"found": value.found} if isinstance(value, Place) else str(value)

    encoding = empty.model_copy(update={"metadata_encoder": encode})
    place = Place(datetime.date(1883, 5, 24))
    encoding.add_documents([Document("Hippos swim.", id="h", metadata={"place": place})])
    assert empty.get_documents(["h"])[0].metadata == {"place": {"found": "1883-05-24"}}


def test_source_and_title_reach_the_passage(empty, core_chat):
    titled = Document("They swim.", id="t", metadata={"source": "a.txt", "title": "Hippos"})
    empty.add_documents(
        [titled, Document("No title.", id="n", metadata={"title": " ", "source": 1})]
    )
    one, other = empty.hippo.get(["t", "n"])
    assert (one.title, one.source_id, one.text) == ("Hippos", "a.txt", "They swim.")
    assert (other.title, other.source_id) == ("", None)
    assert any("Hippos\nThey swim." in messages[-1].content for messages in core_chat.calls)


def test_another_key_or_none_may_hold_the_title(chat, embeddings, closing):
    for key, title in (("heading", "Hippos"), (None, "")):
        retriever = closing(
            HippoRAGRetriever.from_texts(
                ["They swim."],
                metadatas=[{"heading": "Hippos", "title": "Animals"}],
                ids=["t"],
                llm=chat,
                embeddings=embeddings,
                title_key=key,
            )
        )
        assert retriever.hippo.get(["t"])[0].title == title


def test_a_blank_document_is_skipped_and_has_no_id(empty, core_chat):
    blank = Document(" \n", id="blank")
    assert empty.add_documents([blank, Document("Hippos swim.", id="h"), blank]) == ["h"]
    assert empty.add_documents([]) == []
    assert empty.get_documents(["blank"]) == []


@pytest.mark.parametrize("wrong", [["text"], Document("a"), [("a", {})], "text"])
def test_what_is_no_document_is_refused(empty, wrong):
    with pytest.raises(TypeError, match="from_texts"):
        empty.add_documents(wrong)


def test_deleting_reports_what_was_not_there(retriever, question):
    report = retriever.delete_documents(["town", "ghost"])
    assert (report.deleted, report.not_found) == (("town",), ("ghost",))
    assert "town" not in ids(retriever.invoke(question, k=6))
    assert retriever.get_documents(["town"]) == []


# -- k ---------------------------------------------------------------------------------------------


def test_k_is_the_calls_or_else_the_retrievers(retriever, question):
    assert len(retriever.invoke(question)) == 3
    assert len(retriever.invoke(question, k=1)) == 1
    assert len(retriever.bind(k=2).invoke(question)) == 2
    assert len(retriever.invoke(question, k=100)) == 6
    assert len(retriever.batch([question], k=2)[0]) == 2


async def test_k_reaches_the_async_methods_too(retriever, question):
    assert len(await retriever.ainvoke(question, k=1)) == 1
    assert len(await retriever.bind(k=2).ainvoke(question)) == 2


def test_k_may_be_a_configurable_field(retriever, question):
    configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    assert len(configurable.invoke(question)) == 3
    assert len(configurable.with_config(configurable={"k": 1}).invoke(question)) == 1
    assert len(configurable.invoke(question, {"configurable": {"k": 2}})) == 2


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", True])
def test_a_k_that_is_no_number_of_documents_is_refused(retriever, question, k):
    with pytest.raises(InputError, match="at least 1"):
        retriever.invoke(question, k=k)


def test_the_constructor_refuses_such_a_k_too(retriever):
    with pytest.raises(ValidationError):
        HippoRAGRetriever(hippo=retriever.hippo, k=0)


@pytest.mark.parametrize("query", ["", "  \n"])
async def test_a_blank_query_is_refused(retriever, query):
    with pytest.raises(InputError, match="blank"):
        retriever.invoke(query)
    with pytest.raises(InputError, match="blank"):
        await retriever.ainvoke(query)


def test_an_empty_memory_gives_nothing(empty, question):
    assert empty.invoke(question) == []


# -- arguments -------------------------------------------------------------------------------------


async def test_a_typo_is_an_error(retriever, question, embeddings):
    with pytest.raises(TypeError, match="kk"):
        retriever.invoke(question, kk=1)
    with pytest.raises(TypeError, match="kk"):
        await retriever.ainvoke(question, kk=1)
    with pytest.raises(ValidationError, match="kk"):
        HippoRAGRetriever(hippo=retriever.hippo, kk=1)
    with pytest.raises(ValidationError, match="persist_dir"):
        HippoRAGRetriever.from_texts([], embeddings=embeddings, persist_dir="x")


def test_what_is_no_model_is_refused_with_the_fix(chat, embeddings):
    with pytest.raises(TypeError, match=r"got str; .* init_chat_model"):
        HippoRAGRetriever.from_models(llm="gpt-5.5", embeddings=embeddings)
    with pytest.raises(TypeError, match="got the class Chat"):
        HippoRAGRetriever.from_models(llm=type(chat), embeddings=embeddings)
    with pytest.raises(TypeError, match=r"got str; .* init_embeddings"):
        HippoRAGRetriever.from_models(llm=chat, embeddings="some-model")
    with pytest.raises(TypeError, match="llm must be .* got WordEmbeddings;"):
        HippoRAGRetriever.from_models(llm=embeddings, embeddings=chat)


def test_parts_of_the_core_serve_as_models(table, question, documents, closing):
    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents, llm=TableChatModel(table), embeddings=HashEmbedder(name="words"), k=3
        )
    )
    assert ids(retriever.invoke(question)) == CHAIN


def test_an_openie_needs_no_llm(table, question, documents, embeddings, closing):
    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents, embeddings=embeddings, openie=TableOpenIE(table)
        )
    )
    assert len(retriever.invoke(question)) == 5


def test_reading_without_a_reader_is_refused(documents, embeddings):
    with pytest.raises(ModelRequiredError):
        HippoRAGRetriever.from_documents(documents, embeddings=embeddings)


def test_texts_and_metadata_go_in_pairs(chat, embeddings):
    with pytest.raises(InputError, match="1 for 2"):
        HippoRAGRetriever.from_texts(["a", "b"], metadatas=[{}], llm=chat, embeddings=embeddings)
    with pytest.raises(InputError, match="list"):
        HippoRAGRetriever.from_texts("a", llm=chat, embeddings=embeddings)


# -- one handle ------------------------------------------------------------------------------------


def test_copies_share_the_memory(retriever):
    for twin in (
        copy.copy(retriever),
        copy.deepcopy(retriever),
        retriever.model_copy(),
        retriever.model_copy(deep=True),
        HippoRAGRetriever(hippo=retriever.hippo),
    ):
        assert twin.hippo is retriever.hippo


def test_the_memory_is_not_shown(retriever):
    assert "hippo=" not in repr(retriever)
    assert "hippo" not in retriever.model_dump()


def test_a_subclass_may_add_fields(retriever, question):
    class Mine(HippoRAGRetriever):
        label: str = "mine"

    mine = Mine(hippo=retriever.hippo, k=1, label="x")
    assert ids(mine.invoke(question)) == CHAIN[:1]


def test_a_closed_memory_says_so(retriever, question):
    retriever.close()
    with pytest.raises(ClosedError):
        retriever.invoke(question)


# -- sync, async, batch ----------------------------------------------------------------------------


async def test_sync_methods_work_inside_a_running_loop(chat, embeddings, documents, question):
    retriever = HippoRAGRetriever.from_documents(documents, llm=chat, embeddings=embeddings, k=3)
    assert ids(retriever.invoke(question)) == CHAIN
    assert [ids(found) for found in retriever.batch([question] * 3)] == [CHAIN] * 3
    retriever.delete_documents(["hippos"])
    retriever.close()


def test_methods_work_in_a_thread_without_a_loop(retriever, question):
    found = []
    thread = threading.Thread(target=lambda: found.extend(retriever.invoke(question)))
    thread.start()
    thread.join()
    assert ids(found) == CHAIN


async def test_async_equals_sync(chat, embeddings, documents, question, closing):
    options = {"llm": chat, "embeddings": embeddings, "k": 6}
    one = closing(HippoRAGRetriever.from_documents(documents, **options))
    other = closing(await HippoRAGRetriever.afrom_documents(documents, **options))
    assert await other.ainvoke(question) == one.invoke(question)
    assert await other.aadd_documents(documents) == one.add_documents(documents)
    assert await other.adelete_documents(["town", "x"]) == one.delete_documents(["town", "x"])
    assert await other.ainvoke(question) == one.invoke(question)


async def test_async_texts_equal_sync_texts(chat, embeddings, closing):
    options = {"metadatas": [{"n": 1}, {"n": 2}], "llm": chat, "embeddings": embeddings}
    one = closing(HippoRAGRetriever.from_texts(["a b", "b c"], **options))
    other = closing(await HippoRAGRetriever.afrom_texts(["a b", "b c"], **options))
    assert await other.ainvoke("a") == one.invoke("a")


async def test_a_batch_equals_single_calls(retriever, documents, question):
    queries = [f"{question} {d.page_content} {n}" for n, d in enumerate(documents * 17)]
    single = [retriever.invoke(query) for query in queries]
    assert len({tuple(ids(found)) for found in single}) > 1
    assert retriever.batch(queries) == single
    assert await retriever.abatch(queries) == single


async def test_a_large_batch_has_few_calls_in_flight(
    chat_of, core_chat, embeddings, documents, question, closing
):
    slow = chat_of(core_chat, seconds=0.01)
    config = HippoConfig(concurrency=4)
    retriever = closing(
        await HippoRAGRetriever.afrom_documents(
            documents, llm=slow, embeddings=embeddings, config=config
        )
    )
    assert slow.most_in_flight <= 4
    slow.most_in_flight = 0
    found = await retriever.abatch([question] * 30)
    assert len(found) == 30
    assert 1 < slow.most_in_flight <= 4


async def test_the_loop_beats_while_the_model_thinks(
    chat_of, core_chat, embeddings, documents, question, closing
):
    slow = chat_of(core_chat, seconds=0.5)
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)

    heart = asyncio.create_task(beat())
    retriever = closing(
        await HippoRAGRetriever.afrom_documents(documents, llm=slow, embeddings=embeddings)
    )
    await retriever.ainvoke(question)
    heart.cancel()
    gaps = [after - before for before, after in zip(beats, beats[1:], strict=False)]
    assert len(beats) > 20
    assert max(gaps) < 0.4  # a call that blocked the loop would show as 0.5


# -- tracing ---------------------------------------------------------------------------------------


def assert_one_retrieval_with_its_llm_call(tracer, parent=None):
    (root,) = tracer.roots
    run = root if parent is None else next(r for r in root.child_runs if r.run_type == "retriever")
    assert run.run_type == "retriever"
    (call,) = run.child_runs
    assert (call.run_type, call.parent_run_id) == ("llm", run.id)
    assert tracer.counts == {"start": 1, "end": 1}


async def test_a_tracer_sees_the_llm_call_under_the_retrieval(retriever, question, tracer):
    retriever.invoke(question, {"callbacks": [tracer]})
    assert_one_retrieval_with_its_llm_call(tracer)
    atracer = type(tracer)()
    await retriever.ainvoke(question, {"callbacks": [atracer]})
    assert_one_retrieval_with_its_llm_call(atracer)


async def test_so_it_does_inside_a_chain(retriever, question, tracer):
    chain = RunnablePassthrough() | retriever
    chain.invoke(question, {"callbacks": [tracer]})
    assert_one_retrieval_with_its_llm_call(tracer, parent="chain")
    atracer = type(tracer)()
    await chain.ainvoke(question, {"callbacks": [atracer]})
    assert_one_retrieval_with_its_llm_call(atracer, parent="chain")


async def test_an_error_ends_the_run_once(retriever, tracer):
    with pytest.raises(InputError):
        retriever.invoke("", {"callbacks": [tracer]})
    with pytest.raises(InputError):
        await retriever.ainvoke("", {"callbacks": [tracer]})
    assert tracer.counts == {"start": 2, "error": 2}


async def test_each_query_of_a_batch_has_its_own_run(retriever, question, tracer):
    await retriever.abatch([question] * 5, {"callbacks": [tracer]})
    retriever.batch([question] * 5, {"callbacks": [tracer]})
    assert [len(root.child_runs) for root in tracer.roots] == [1] * 10


async def test_callbacks_see_what_indexing_asks(empty, documents, tracer):
    empty.add_documents(documents[:2], callbacks=[tracer])
    await empty.aadd_documents(documents[2:3], callbacks=[tracer])
    assert [root.run_type for root in tracer.roots] == ["llm"] * 6


async def test_indexing_inside_a_run_belongs_to_it(empty, documents, tracer):
    async def aadd(found):
        return await empty.aadd_documents(found)

    step = RunnableLambda(empty.add_documents, afunc=aadd)
    step.invoke(documents[:2], {"callbacks": [tracer]})
    await step.ainvoke(documents[2:3], {"callbacks": [tracer]})
    assert [len(root.child_runs) for root in tracer.roots] == [4, 2]


async def test_indexing_inside_a_run_sends_an_event_for_each_document(empty, documents, tracer):
    async def aadd(found):
        return await empty.aadd_documents(found)

    seen = []
    step = RunnableLambda(partial(empty.add_documents, progress=seen.append), afunc=aadd)
    step.invoke(documents[:2], {"callbacks": [tracer]})
    await step.ainvoke(documents[2:5], {"callbacks": [tracer]})
    assert {name for name, _ in tracer.events} == {"hipporag_progress"}
    told = [(data["done"], data["failed"], data["total"]) for _, data in tracer.events]
    assert told == [(1, 0, 2), (2, 0, 2), (1, 0, 3), (2, 0, 3), (3, 0, 3)]
    assert tracer.events[1][1]["usage"]["triples"]["calls"] == 2
    assert [progress.done for progress in seen] == [1, 2]
    json.dumps(tracer.events)


async def test_a_stream_of_events_shows_progress_while_documents_are_read(empty, documents):
    async def aadd(found):
        return await empty.aadd_documents(found)

    stream = RunnableLambda(empty.add_documents, afunc=aadd).astream_events(documents[:3])
    names = [e["name"] async for e in stream if e["event"] == "on_custom_event"]
    assert names == ["hipporag_progress"] * 3


def test_outside_of_a_run_nothing_is_sent(empty, documents, tracer):
    empty.add_documents(documents[:2], callbacks=[tracer])
    assert tracer.events == []


async def test_an_event_tells_how_a_retrieval_went(retriever, question, tracer):
    retriever.invoke(question, {"callbacks": [tracer]})
    await retriever.ainvoke(question, {"callbacks": [tracer]})
    (name, told), (_, atold) = tracer.events
    assert name == "hipporag_retrieval"
    assert (told["path"], told["detail"]) == ("graph", "")
    assert told["triples"] == atold["triples"]
    assert told["triples"][0] == {
        "triple": ["Brooklyn Bridge", "was designed by", "John Roebling"],
        "score": 1.0,
        "kept": True,
    }
    assert told["usage"]["recognition"]["calls"] == 1
    json.dumps(told)


def test_a_failed_recognition_is_told(documents, table, embeddings, question, closing, tracer):
    broken = RunnableLambda(lambda _: {"no": "message"})
    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents, llm=broken, openie=TableOpenIE(table), embeddings=embeddings
        )
    )
    assert retriever.invoke(question, {"callbacks": [tracer]})
    ((_, told),) = tracer.events
    assert told["path"] == "unfiltered: call failed"
    assert "must give a message or a str, got dict" in told["detail"]


def test_tracing_names_the_embeddings(retriever, question, tracer):
    retriever.invoke(question, {"callbacks": [tracer]})
    metadata = tracer.roots[0].extra["metadata"]
    assert metadata["ls_retriever_name"] == "hipporag"
    assert metadata["ls_embedding_provider"] == "WordEmbeddings"
    assert metadata["ls_embedding_model"] == "words"


# -- persistence -----------------------------------------------------------------------------------

IN_ANOTHER_PROCESS = """
import json, sys
from langchain_core.runnables import RunnableLambda
from hippo_core.testing import HashEmbedder
from langchain_hipporag import HippoRAGRetriever

asked = []
def llm(messages):
    asked.append(messages)
    return '{"keep": [1, 2]}'

embeddings = HashEmbedder(name="words")
retriever = HippoRAGRetriever.load(sys.argv[1], llm=RunnableLambda(llm), embeddings=embeddings, k=6)
before = len(asked), len(embeddings.calls)
found = retriever.invoke(sys.argv[2])
print(json.dumps([before, len(asked), [[d.id, d.page_content, d.metadata] for d in found]]))
retriever.close()
"""


def test_another_process_ranks_alike_and_reads_nothing_again(
    chat, documents, question, tmp_path, closing
):
    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents,
            llm=chat,
            embeddings=HashEmbedder(name="words"),
            persist_directory=tmp_path / "memory",
            k=6,
        )
    )
    here = [[d.id, d.page_content, d.metadata] for d in retriever.invoke(question)]
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path / "memory"), question],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    before, asked, there = json.loads(done.stdout)
    assert (before, asked) == ([0, 0], 1)  # one call: recognition
    assert there == here


def test_loading_needs_no_llm(chat, embeddings, documents, question, tmp_path):
    options = {"embeddings": embeddings, "persist_directory": tmp_path}
    HippoRAGRetriever.from_documents(documents, llm=chat, **options).close()
    loaded = HippoRAGRetriever.load(tmp_path, embeddings=embeddings)
    assert len(loaded.invoke(question)) == 5
    with pytest.raises(ModelRequiredError):
        loaded.add_documents([Document("Something new.")])
    loaded.close()


def test_loading_makes_no_folder(embeddings, tmp_path):
    with pytest.raises(NotAStoreError):
        HippoRAGRetriever.load(tmp_path / "missing", embeddings=embeddings)
    assert not (tmp_path / "missing").exists()


def test_other_embeddings_are_refused(chat, embeddings_of, documents, question, tmp_path):
    options = {"llm": chat, "persist_directory": tmp_path}
    HippoRAGRetriever.from_documents(documents, embeddings=embeddings_of("a"), **options).close()
    with pytest.raises(EmbedderMismatchError, match="WordEmbeddings a.*WordEmbeddings b"):
        HippoRAGRetriever.load(tmp_path, embeddings=embeddings_of("b"))
    disguised = embeddings_of("b")
    disguised.model = "a"
    loaded = HippoRAGRetriever.load(tmp_path, embeddings=disguised)
    with pytest.raises(EmbedderMismatchError):
        loaded.invoke(question)
    loaded.close()


def test_namespaces_do_not_mix(chat, embeddings, documents, question, tmp_path, closing):
    options = {"llm": chat, "embeddings": embeddings, "persist_directory": tmp_path}
    one = closing(HippoRAGRetriever.from_documents(documents[:2], namespace="one", **options))
    two = closing(HippoRAGRetriever.from_documents(documents[2:3], namespace="two", **options))
    assert len(one.invoke(question)) == 2
    assert ids(two.invoke(question)) == ["town"]


# -- failures --------------------------------------------------------------------------------------


def failing_at(word, core_chat):
    """Give a chat model that answers nonsense about a text with a word, while told so."""

    def reply(messages):
        if broken["now"] and any(word in message.content for message in messages):
            return "no JSON at all"
        return core_chat.complete(messages)

    broken = {"now": True}
    return ScriptedChatModel(reply, name="table"), broken


def test_a_failed_add_shows_nothing_and_a_second_pays_for_the_rest(
    chat_of, core_chat, embeddings, documents, tmp_path
):
    failing, broken = failing_at("Hippos", core_chat)
    options = {
        "llm": chat_of(failing),
        "embeddings": embeddings,
        "persist_directory": tmp_path,
        "on_error": "raise",
    }
    with pytest.raises(IndexingError) as raised:
        HippoRAGRetriever.from_documents(documents, **options)
    assert list(raised.value.failed) == ["hippos"]
    broken["now"] = False
    failing.calls.clear()
    retriever = HippoRAGRetriever.from_documents(documents, **options)
    assert len(retriever.hippo) == 6
    assert len(failing.calls) == 2  # entities and triples of the one that failed
    retriever.close()


async def test_a_skipped_document_is_named_in_the_log(
    chat_of, core_chat, embeddings, documents, closing, caplog
):
    failing, broken = failing_at("Hippos", core_chat)
    retriever = closing(HippoRAGRetriever.from_models(llm=chat_of(failing), embeddings=embeddings))
    with caplog.at_level(logging.WARNING):
        added = await retriever.aadd_documents(documents, on_error="skip")
    assert added == ids(documents)
    (record,) = caplog.records
    assert "1 documents could not be read" in record.getMessage()
    assert "hippos" in record.getMessage()
    assert "hippos" in ids(retriever.invoke("hippos", k=6))
    broken["now"] = False
    caplog.clear()
    retriever.add_documents(documents)
    assert not caplog.records
    assert retriever.hippo.stats().by_status == {"ok": 6}


# -- explanations ----------------------------------------------------------------------------------


async def test_a_document_is_explained_where_that_is_asked_for(retriever, question):
    plain = retriever.invoke(question)
    assert not any("hipporag_explanation" in document.metadata for document in plain)
    telling = retriever.model_copy(update={"include_explanations": True})
    found = telling.invoke(question)
    assert await telling.ainvoke(question) == found
    for document in found:
        told = document.metadata["hipporag_explanation"]
        assert told["score"] == document.metadata["hipporag_score"]
        assert sum(part["amount"] for part in told["by_seed"]) == pytest.approx(told["score"])
    assert json.loads(json.dumps(found[0].metadata)) == found[0].metadata
