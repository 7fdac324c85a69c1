"""`where` through LangChain: a smaller corpus, whichever way a query is asked."""

import copy
import datetime

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import create_retriever_tool

from hippo_core import InputError
from hippo_core.testing import HashEmbedder
from langchain_hipporag import HippoRAGDocumentIndex, HippoRAGRetriever

ALLOWED = ["bridge", "roebling", "hippos"]
WHERE = {"source": {"$in": [f"{name}.txt" for name in ALLOWED]}}


def ids(found):
    return [document.id for document in found]


def is_allowed(metadata):
    return metadata["source"].removesuffix(".txt") in ALLOWED


@pytest.fixture
def alone(chat, embeddings, documents, closing):
    """A retriever of only the documents that the filter allows."""
    allowed = [document for document in documents if document.id in ALLOWED]
    options = {"llm": chat, "embeddings": embeddings, "k": 3}
    return closing(HippoRAGRetriever.from_documents(allowed, **options))


# -- a smaller corpus, whichever way ---------------------------------------------------------------


@pytest.mark.parametrize("where", [WHERE, is_allowed], ids=["dict", "callable"])
async def test_a_filter_ranks_as_a_memory_of_only_what_it_allows(retriever, alone, question, where):
    expected = alone.invoke(question)
    assert sorted(ids(expected)) == sorted(ALLOWED)
    filtered = retriever.model_copy(update={"where": where})
    configurable = retriever.configurable_fields(where=ConfigurableField(id="where"))
    config = {"configurable": {"where": where}}
    assert filtered.invoke(question) == expected
    assert await filtered.ainvoke(question) == expected
    assert retriever.invoke(question, where=where) == expected
    assert await retriever.ainvoke(question, where=where) == expected
    assert retriever.bind(where=where).invoke(question) == expected
    assert retriever.batch([question] * 3, where=where) == [expected] * 3
    assert await retriever.abatch([question] * 3, where=where) == [expected] * 3
    assert configurable.invoke(question, config) == expected
    assert await configurable.ainvoke(question, config) == expected
    assert configurable.with_config(config).batch([question] * 2) == [expected] * 2
    assert HippoRAGRetriever(hippo=retriever.hippo, where=where, k=3).invoke(question) == expected


def test_a_query_may_bring_k_and_filter_at_once(retriever, alone, question):
    assert retriever.invoke(question, where=WHERE, k=2) == alone.invoke(question, k=2)


def test_a_tool_searches_what_its_retriever_allows(retriever, question):
    tool = create_retriever_tool(
        retriever.model_copy(update={"where": {"source": "hippos.txt"}}), "search", "Search."
    )
    assert tool.invoke({"query": question}) == "Hippos swim in the Nile, a river."


def test_a_querys_filter_takes_the_place_of_the_retrievers(retriever, question):
    filtered = retriever.model_copy(update={"where": {"source": "town.txt"}})
    assert ids(filtered.invoke(question, where={"source": "hippos.txt"})) == ["hippos"]
    assert filtered.invoke(question, where={}) == retriever.invoke(question)
    assert ids(filtered.invoke(question, where=None)) == ["town"]
    assert ids(filtered.invoke(question)) == ["town"]


def test_a_filter_that_allows_nothing_gives_nothing(retriever, question):
    assert retriever.invoke(question, where={"source": "no such"}) == []


def test_a_document_index_filters_too(chat, embeddings, documents, question, closing):
    index = closing(
        HippoRAGDocumentIndex.from_models(llm=chat, embeddings=embeddings, where=WHERE, k=6)
    )
    index.upsert(documents)
    assert sorted(ids(index.invoke(question))) == sorted(ALLOWED)
    assert ids(index.invoke(question, where={"source": "town.txt"})) == ["town"]
    assert len(index.get([document.id for document in documents])) == 6
    assert index.delete(["town"])["succeeded"] == ["town"]  # whatever the filter allows


# -- what a filter sees ----------------------------------------------------------------------------


def test_a_filter_sees_the_documents_metadata_as_given(empty):
    given = {
        "source": "a.txt",
        "title": "Hippos",
        "hipporag_score": "mine",
        "k": 1,
        "n": [1.0, {"deep": None}],
        "id": "mine",
    }
    empty.add_documents([Document("They swim.", id="h", metadata=copy.deepcopy(given))])
    seen = []
    (found,) = empty.invoke("hippos", where=lambda metadata: not seen.append(metadata))
    assert seen == [given]
    assert found.metadata["hipporag_score"] == 1.0
    assert ids(empty.invoke("hippos", where={"hipporag_score": "mine", "n": given["n"]})) == ["h"]
    assert empty.invoke("hippos", where={"hipporag_rank": {"$exists": True}}) == []


def test_a_filter_sees_what_the_encoder_stored(empty):
    encoding = empty.model_copy(update={"metadata_encoder": str})
    dates = {"old": datetime.date(1883, 5, 24), "new": datetime.date(2024, 1, 1)}
    encoding.add_documents(
        [Document(f"A {name} note.", id=name, metadata={"at": at}) for name, at in dates.items()]
    )
    assert ids(encoding.invoke("note", where={"at": {"$gte": "2000-01-01"}})) == ["new"]
    assert ids(encoding.invoke("note", where=lambda m: m["at"] == "1883-05-24")) == ["old"]
    with pytest.raises(InputError, match="date"):
        encoding.invoke("note", where={"at": dates["old"]})


def test_a_filter_that_changes_what_it_sees_changes_nothing(retriever, question):
    before = retriever.invoke(question)

    def vandal(metadata):
        metadata.clear()
        return True

    assert retriever.invoke(question, where=vandal) == before


# -- what is no filter -----------------------------------------------------------------------------

NO_FILTERS = [
    ({"year": {"$gtr": 1}}, r"where\['year'\] has the unknown operator"),
    ({"$nor": []}, r"\$nor"),
    ({"year": {1, 2}}, r"where\['year'\]"),
    (5, "must be a dict .* got int"),
    ("year", "must be a dict .* got str"),
]


@pytest.mark.parametrize(("where", "message"), NO_FILTERS)
async def test_what_is_no_filter_is_refused_before_a_model_is_asked(
    retriever, core_chat, embeddings, question, where, message
):
    core_chat.calls.clear()
    embeddings.core.calls.clear()
    for ask in (retriever.invoke, lambda q, **kw: retriever.batch([q], **kw)):
        with pytest.raises(InputError, match=message):
            ask(question, where=where)
    with pytest.raises(InputError, match=message):
        await retriever.ainvoke(question, where=where)
    with pytest.raises(InputError, match=message):
        HippoRAGRetriever(hippo=retriever.hippo, where=where)
    with pytest.raises(InputError, match=message):
        retriever.delete_documents(where=where)
    configurable = retriever.configurable_fields(where=ConfigurableField(id="where"))
    with pytest.raises(InputError, match=message):
        configurable.invoke(question, {"configurable": {"where": where}})
    assert core_chat.calls == []
    assert embeddings.core.calls == []


@pytest.mark.parametrize(("where", "message"), NO_FILTERS)
def test_such_a_filter_is_refused_before_a_document_is_read(
    chat, core_chat, embeddings, documents, where, message
):
    with pytest.raises(InputError, match=message):
        HippoRAGRetriever.from_documents(documents, llm=chat, embeddings=embeddings, where=where)
    assert core_chat.calls == []


def test_a_filter_that_answers_no_bool_is_refused(retriever, question):
    with pytest.raises(InputError, match="must return a bool"):
        retriever.invoke(question, where=lambda metadata: 1)


def test_changing_the_dict_of_a_filter_later_changes_nothing(retriever, question):
    where = {"source": {"$in": ["town.txt"]}}
    filtered = HippoRAGRetriever(hippo=retriever.hippo, where=where)
    where["source"]["$in"].append("hippos.txt")
    assert ids(filtered.invoke(question)) == ["town"]


def test_a_retriever_with_a_callable_can_be_dumped(retriever):
    filtered = retriever.model_copy(update={"where": is_allowed})
    assert "where" not in filtered.model_dump(mode="json")


# -- deleting --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "gone"),
    [
        ({"ids": ["town", "ghost"]}, {"town"}),
        ({"where": WHERE}, set(ALLOWED)),
        ({"where": is_allowed}, set(ALLOWED)),
        ({"where": {}}, {"bridge", "roebling", "town", "forth", "tower", "hippos"}),
        ({"source_id": "forth.txt"}, {"forth"}),
        ({"source_id": "no such"}, set()),
    ],
    ids=["ids", "dict", "callable", "all", "source", "no source"],
)
async def test_documents_are_deleted_by_ids_filter_or_source(
    chat, embeddings, documents, closing, chosen, gone
):
    options = {"llm": chat, "embeddings": embeddings}
    one, other = (closing(HippoRAGRetriever.from_documents(documents, **options)) for _ in "ab")
    report = one.delete_documents(**chosen)
    assert await other.adelete_documents(**chosen) == report
    assert set(report.deleted) == gone
    unknown = {"ghost", "no such"} & {*chosen.get("ids", ()), chosen.get("source_id")}
    assert set(report.not_found) == unknown
    for retriever in (one, other):
        assert {passage.id for passage in retriever.hippo} == {d.id for d in documents} - gone


@pytest.mark.parametrize("chosen", [{}, {"ids": ["town"], "where": {}}, {"ids": "town"}], ids=str)
async def test_it_must_be_said_which_documents_are_deleted(retriever, chosen):
    with pytest.raises(InputError):
        retriever.delete_documents(**chosen)
    with pytest.raises(InputError):
        await retriever.adelete_documents(**chosen)
    assert len(retriever.hippo) == 6


def test_the_retrievers_filter_guards_nothing_from_deletion(retriever):
    filtered = retriever.model_copy(update={"where": {"source": "town.txt"}})
    assert filtered.delete_documents(["hippos"]).deleted == ("hippos",)


# -- the memory behind it --------------------------------------------------------------------------


def test_upkeep_is_the_memorys(retriever, question, tmp_path, chat, embeddings, closing):
    before = retriever.invoke(question)
    memory = retriever.hippo
    assert memory.verify().ok
    memory.rebuild()
    memory.backup(tmp_path / "copy")
    memory.aliases = [["Mühlhausen", "Muhlhausen"]]
    memory.aliases = []
    memory.purge()
    assert retriever.invoke(question) == before
    copied = closing(
        HippoRAGRetriever.load(tmp_path / "copy", llm=chat, embeddings=embeddings, k=3)
    )
    assert copied.invoke(question) == before


def test_a_retriever_goes_on_with_the_embedder_that_its_memory_was_given(
    retriever, question, tracer
):
    assert retriever.hippo.reembed(HashEmbedder(name="others")) > 0
    assert len(retriever.invoke(question, {"callbacks": [tracer]})) == 3
    assert tracer.roots[0].extra["metadata"]["ls_embedding_provider"] == "HashEmbedder"
