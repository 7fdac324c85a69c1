"""Keys and passwords stay where the user put them: in the model objects and in the URL."""

import contextlib
import logging
import os
import pickle
import traceback
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.load import dumps
from pydantic import SecretStr

from hippo_core import HippoError, HippoRAG, InputError, StoreUnavailableError
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
from langchain_hipporag import HippoRAGRetriever

KEY = "sk-do-not-show-me"
PASSWORD = "hunter2-do-not-show-me"
POSTGRES = os.environ.get("HIPPO_TEST_POSTGRES")  # as tests/postgres_server.py sets it


class PaidEmbeddings(Embeddings):
    """Shows its key wherever it is shown."""

    def __init__(self) -> None:
        self.model = "words"
        self.api_key = KEY
        self.secret = SecretStr(KEY)
        self.core = HashEmbedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.core.embed(texts, "passage").tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.core.embed([text], "query_to_passage")[0].tolist()

    def __repr__(self) -> str:
        return f"PaidEmbeddings(api_key={self.api_key})"

    __str__ = __repr__


class PaidOpenIE(TableOpenIE):
    """Shows its key wherever it is shown."""

    api_key = KEY

    def __repr__(self) -> str:
        return f"PaidOpenIE(api_key={self.api_key})"


@pytest.fixture
def options(chat_of, core_chat, table):
    """Models that hold a key in attributes, and show it in their repr."""

    class PaidChat(type(chat_of(core_chat))):
        api_key: str
        secret: SecretStr

    chat = PaidChat(core=core_chat, api_key=KEY, secret=SecretStr(KEY))
    return {"llm": chat, "embeddings": PaidEmbeddings()}


@pytest.fixture
def logged(caplog):
    """All that is logged, by the database's library too."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="sqlalchemy")
    return caplog


def test_the_models_would_show_their_key(options, table):
    assert all(KEY in repr(model) for model in [*options.values(), PaidOpenIE(table)])


def files_below(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def errors_of(*uses):
    """Give what the errors of some calls say, with all that led to them."""
    told = []
    for use in uses:
        with pytest.raises((HippoError, TypeError, ValueError)) as raised:
            use()
        told.append("".join(traceback.format_exception(raised.value)))
    return "".join(told)


# -- keys of models --------------------------------------------------------------------------------


async def test_a_models_key_is_nowhere_but_in_the_model(
    options, table, documents, question, tmp_path, logged, tracer, closing
):
    folder = tmp_path / "m"
    retriever = closing(
        HippoRAGRetriever.from_documents(documents, persist_directory=folder, **options)
    )
    retriever.invoke(question, {"callbacks": [tracer]})
    await retriever.ainvoke(question)
    await retriever.aadd_documents([Document("More.", id="more")])
    retriever.delete_documents(["more"])
    memory = retriever.hippo
    shown = [repr(retriever), str(retriever), repr(memory), str(memory), dumps(retriever)]
    shown += [repr(memory.stats()), repr(memory.verify()), repr(memory.retrieve(question))]
    shown += [str(tracer.events), str(retriever.model_dump())]
    memory.rebuild()
    memory.backup(tmp_path / "backup")
    while_open = files_below(tmp_path)
    retriever.close()
    with_openie = {"embeddings": PaidEmbeddings(), "openie": PaidOpenIE(table)}
    other = closing(HippoRAGRetriever.load(folder, **with_openie))
    other.add_documents([Document("Other.", id="other")])
    shown += [repr(other), repr(other.hippo)]
    other.close()
    assert logged.records
    assert KEY not in logged.text
    assert KEY not in "".join(shown)
    assert KEY.encode() not in while_open
    assert KEY.encode() not in files_below(tmp_path)


def test_a_models_key_is_in_no_error(options, embeddings_of, documents, tmp_path, logged, closing):
    retriever = closing(
        HippoRAGRetriever.from_documents(documents, persist_directory=tmp_path / "m", **options)
    )
    others = {**options, "embeddings": embeddings_of("others")}
    told = errors_of(
        lambda: retriever.invoke(" "),
        lambda: retriever.invoke("Who?", k=0),
        lambda: retriever.invoke("Who?", where={"$x": 1}),
        lambda: retriever.add_documents([Document("D.", metadata={"model": options["llm"]})]),
        lambda: HippoRAGRetriever.load(tmp_path / "m", **others),
        lambda: HippoRAGRetriever.load(tmp_path / "none", **options),
        lambda: HippoRAGRetriever.from_models(llm=options["embeddings"], embeddings=None),
        lambda: HippoRAGRetriever.from_models(embeddings=options["llm"]),
        lambda: HippoRAGRetriever(hippo=options["llm"]),
        lambda: HippoRAG(options["llm"], options["embeddings"]),
    )
    retriever.close()
    told += errors_of(lambda: retriever.invoke("Who?"))
    assert KEY not in told
    assert KEY not in logged.text


def test_the_failure_of_a_model_shows_what_it_said_and_not_what_it_is(
    options, documents, tmp_path, logged, closing
):

    def down(_messages):
        raise RuntimeError("401: wrong key")

    options["llm"].core = ScriptedChatModel(down)
    retriever = closing(HippoRAGRetriever.from_models(persist_directory=tmp_path / "m", **options))
    told = errors_of(lambda: retriever.add_documents(documents))
    assert "401: wrong key" in told
    retriever.add_documents(documents, on_error="skip")
    retriever.invoke("Who?")
    assert KEY not in told
    assert KEY not in logged.text
    assert KEY.encode() not in files_below(tmp_path)


def test_a_pickle_holds_the_models_and_nothing_else_of_them(options, documents, tmp_path, closing):
    class Pickler(pickle.Pickler):
        def persistent_id(self, thing: Any) -> str | None:
            return "model" if isinstance(thing, Embeddings) or thing is options["llm"] else None

    retriever = closing(
        HippoRAGRetriever.from_documents(documents, persist_directory=tmp_path / "m", **options)
    )
    path = tmp_path / "pickle"
    with path.open("wb") as file:
        Pickler(file).dump(retriever)
    assert KEY.encode() not in path.read_bytes()
    assert b"hippo_core" in path.read_bytes()


# -- passwords of servers --------------------------------------------------------------------------

SECRET_URLS = [
    "postgresql://me:{}@127.0.0.1:1/memory",
    "postgresql://127.0.0.1:1/memory?user=me&password={}",
    "postgresql://me@127.0.0.1:1/memory?sslmode=disable&sslpassword={}",
    "postgres://me:{}@[::1]:1/memory?connect_timeout=2",
]


@pytest.mark.parametrize("url", SECRET_URLS)
def test_the_password_of_a_server_that_is_down_is_not_shown(url, options, logged):
    pytest.importorskip("psycopg")
    place = {"persist_directory": url.format(PASSWORD), "snapshot_dir": None}
    with pytest.raises(StoreUnavailableError) as raised:
        HippoRAGRetriever.from_models(**place, **options)
    assert "memory" in str(raised.value)
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))
    assert PASSWORD not in logged.text


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@host:port/db",
        f"mysql://me:{PASSWORD}@host/db",
        f"x://{PASSWORD}",
    ],
)
def test_nor_is_that_of_a_url_that_cannot_be_used(url, options):
    with pytest.raises(InputError) as raised:
        HippoRAGRetriever.from_models(persist_directory=url, **options)
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


@pytest.mark.skipif(not POSTGRES, reason="needs HIPPO_TEST_POSTGRES: tests/postgres_server.py")
def test_nor_is_that_of_a_server_that_works(
    options, documents, question, tmp_path, logged, closing
):
    url = POSTGRES.replace("hippo@", f"hippo:{PASSWORD}@")
    assert PASSWORD in url
    place = {"persist_directory": url, "snapshot_dir": tmp_path / "s", "namespace": "secrets"}
    retriever = closing(HippoRAGRetriever.from_documents(documents, **place, **options))
    retriever.invoke(question)
    memory = retriever.hippo
    memory.backup(tmp_path / "backup")
    shown = [repr(retriever), repr(memory), repr(memory.verify())]
    retriever.delete_documents(where={})
    memory.purge()
    with contextlib.suppress(InputError):
        memory.copy_to(url)
    retriever.close()
    shown.append(errors_of(lambda: retriever.invoke(question)))
    assert PASSWORD not in "".join(shown)
    assert PASSWORD not in logged.text
    assert PASSWORD.encode() not in files_below(tmp_path)
    # Another process could not open the memory without it: SECURITY.md says how to keep it out.
    reopened = HippoRAG(None, HashEmbedder(), store=url, namespace="others")
    assert PASSWORD.encode() in pickle.dumps(reopened)
    reopened.close()
