"""Copies of a retriever, in this process and in others, and stores on a server."""

import copy
import multiprocessing
import os
import pickle
import uuid
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel

from hippo_core import (
    ConfigError,
    InputError,
    NotAStoreError,
    Prompts,
    StoreError,
    StoreUnavailableError,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from langchain_hipporag import HippoRAGDocumentIndex, HippoRAGRetriever

POSTGRES = os.environ.get("HIPPO_TEST_POSTGRES")  # as tests/postgres_server.py sets it
TAGGED = {"tags": {"$exists": True}}


@pytest.fixture
def options(table):
    """Models that another process can unpickle."""
    return {
        "llm": FakeListChatModel(responses=['{"keep": [1, 2]}']),
        "embeddings": HashEmbedder(name="words"),
        "openie": TableOpenIE(table),
        "k": 3,
    }


# -- in this process -------------------------------------------------------------------------------

IN_PROCESS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "model_copy": lambda retriever: retriever.model_copy(),
    "deep model_copy": lambda retriever: retriever.model_copy(deep=True),
}


@pytest.mark.parametrize("copied", IN_PROCESS.values(), ids=IN_PROCESS)
def test_a_copy_shares_the_memory_and_not_the_fields(copied, retriever, question):
    other = copied(retriever)
    assert other.hippo is retriever.hippo
    other.k, other.where = 1, {"source": "town.txt"}
    assert (retriever.k, retriever.where) == (3, None)
    other.delete_documents(["town"])
    assert "town" not in [d.id for d in retriever.invoke(question, k=6)]


def test_a_retriever_in_memory_refuses_to_be_pickled_and_says_what_to_do(retriever):
    with pytest.raises(StoreError, match=r"backup\(\)"):
        pickle.dumps(retriever)


# -- in others -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HippoRAGRetriever, HippoRAGDocumentIndex])
def test_an_unpickled_retriever_opens_the_same_memory(
    kind, options, documents, question, tmp_path, closing
):
    one = closing(
        kind.from_documents(
            documents,
            persist_directory=tmp_path / "m",
            where={"tags": {"$exists": True}},
            **options,
        )
    )
    other = closing(pickle.loads(pickle.dumps(one)))
    assert type(other) is kind
    assert other.hippo is not one.hippo
    assert (other.k, other.where) == (3, TAGGED)
    assert other.invoke(question) == one.invoke(question)
    other.add_documents([Document("New.", id="new", metadata={"tags": 1})])
    assert one.get_documents(["new"])


def test_a_spawned_process_ranks_alike(options, documents, question, tmp_path, closing):
    retriever = closing(
        HippoRAGRetriever.from_documents(documents, persist_directory=tmp_path / "m", **options)
    )
    here = retriever.invoke(question)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        assert pool.submit(retriever.invoke, question).result(60) == here
        narrow = retriever.model_copy(update={"where": {"source": "town.txt"}})
        assert [d.id for d in pool.submit(narrow.invoke, question).result(60)] == ["town"]


def test_langchains_models_go_along(documents, question, tmp_path, closing):
    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents,
            llm=FakeListChatModel(responses=['{"named_entities": [], "triples": []}']),
            embeddings=DeterministicFakeEmbedding(size=64),
            persist_directory=tmp_path / "m",
        )
    )
    other = closing(pickle.loads(pickle.dumps(retriever)))
    assert other.invoke(question) == retriever.invoke(question)


# -- stores on a server ----------------------------------------------------------------------------


def test_a_url_of_no_postgresql_is_refused(options):
    for url in ("mysql://host/db", "https://host/memory"):
        with pytest.raises(InputError, match="a folder or a PostgreSQL URL"):
            HippoRAGRetriever.from_models(persist_directory=url, **options)


def test_a_server_that_does_not_answer_is_named_without_the_password(options, tmp_path):
    pytest.importorskip("psycopg")
    url = f"postgresql://me:hunter2@/memory?host={tmp_path}"
    with pytest.raises(StoreUnavailableError, match="does not answer") as raised:
        HippoRAGRetriever.from_models(persist_directory=url, **options)
    assert "hunter2" not in str(raised.value)


@pytest.mark.skipif(not POSTGRES, reason="needs HIPPO_TEST_POSTGRES: tests/postgres_server.py")
def test_a_memory_may_be_on_a_server(options, documents, question, tmp_path, closing):
    namespace = uuid.uuid4().hex
    place = {"persist_directory": POSTGRES, "snapshot_dir": tmp_path, "namespace": namespace}
    with pytest.raises(NotAStoreError):
        HippoRAGRetriever.load(f"{POSTGRES}&options=-csearch_path%3Dno_such", **options)
    one = closing(HippoRAGRetriever.from_documents(documents, **place, **options))
    other = closing(HippoRAGRetriever.load(**place, **options))
    assert other.invoke(question) == one.invoke(question)
    assert closing(pickle.loads(pickle.dumps(one))).invoke(question) == one.invoke(question)
    assert one.delete_documents(where={}).deleted
    assert other.invoke(question) == []


# -- progress --------------------------------------------------------------------------------------


async def test_progress_is_told_document_by_document(chat, embeddings, documents, closing):
    options = {"llm": chat, "embeddings": embeddings}
    told = {name: [] for name in ("from", "afrom", "texts", "atexts", "add", "aadd", "up", "aup")}

    def into(name):
        return {"progress": lambda progress: told[name].append((progress.done, progress.total))}

    texts = [document.page_content for document in documents]
    closing(HippoRAGRetriever.from_documents(documents, **options, **into("from")))
    closing(await HippoRAGRetriever.afrom_documents(documents, **options, **into("afrom")))
    closing(HippoRAGRetriever.from_texts(texts, **options, **into("texts")))
    closing(await HippoRAGRetriever.afrom_texts(texts, **options, **into("atexts")))
    one, other = (closing(HippoRAGDocumentIndex.from_models(**options)) for _ in "ab")
    one.add_documents(documents[:3], **into("add"))
    one.upsert(documents, **into("up"))
    await other.aadd_documents(documents[:3], **into("aadd"))
    await other.aupsert(documents, **into("aup"))
    six, three = [(n, 6) for n in range(1, 7)], [(n, 3) for n in range(1, 4)]
    assert [told[name] for name in ("from", "afrom", "texts", "atexts")] == [six] * 4
    assert [told[name] for name in ("add", "aadd", "up", "aup")] == [three] * 4


def test_callbacks_of_a_call_do_not_go_into_a_pickle(options, documents, tmp_path, closing):
    class Handler(BaseCallbackHandler):
        def __reduce__(self):
            raise AssertionError("pickled")

    retriever = closing(
        HippoRAGRetriever.from_documents(
            documents, persist_directory=tmp_path / "m", callbacks=[Handler()], **options
        )
    )
    retriever.invoke("Where?", {"callbacks": [Handler()]})
    pickle.dumps(retriever)


@pytest.mark.parametrize("cls", [HippoRAGRetriever, HippoRAGDocumentIndex])
def test_prompts_of_ones_own_are_what_the_model_is_asked_also_after_a_pickle(
    cls, documents, tmp_path, closing, chat_of
):
    core = ScriptedChatModel(lambda _: '{"named_entities": [], "triples": []}')
    german = replace(Prompts(), passage_label="Abschnitt", entities_task="Nenne die Namen.")
    options = {"embeddings": HashEmbedder(), "prompts": german}
    folder = tmp_path / "m"
    closing(
        cls.from_documents(documents[:1], persist_directory=folder, llm=chat_of(core), **options)
    )
    assert all(call[0].content.startswith("Nenne") for call in core.calls[::2])
    assert core.calls[0] == german.entities(documents[0].page_content)
    loaded = closing(cls.load(folder, **options))
    assert loaded.hippo._models.prompts == german
    copied = closing(pickle.loads(pickle.dumps(loaded)))
    assert copied.hippo._models.prompts == german
    with pytest.raises(ConfigError, match="prompts must be"):
        cls.from_models(**(options | {"prompts": "Ask!"}))
