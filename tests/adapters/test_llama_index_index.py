"""Filling a LlamaIndex index: what goes in, what a failure leaves, what is replaced and deleted."""

import logging

import pytest
from llama_index.core import StorageContext
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    Document,
    IndexNode,
    MetadataMode,
    TextNode,
    TransformComponent,
)

from hippo_core import (
    Budget,
    BudgetExceededError,
    Edge,
    HippoRAG,
    IndexingError,
    InputError,
    Prices,
)
from hippo_core.testing import ScriptedChatModel
from llama_index_hipporag import HippoRAGExtractor, HippoRAGIndex


def found(index, question):
    """Give texts and scores, to the precision to which they do not depend on the nodes' ids."""
    return [
        (node.text, round(node.score, 9))
        for node in index.as_retriever(similarity_top_k=6).retrieve(question)
    ]


class Failing:
    """Fails at texts with some words, until it is mended."""

    def __init__(self, core, *words):
        self.core = core
        self.words = words

    def model(self):
        def reply(messages):
            if any(word in messages[-1].content for word in self.words):
                raise ValueError("no")
            return self.core.complete(messages).text

        return ScriptedChatModel(reply)


@pytest.fixture
def failing(core_chat):
    return Failing(core_chat, "imperial")


@pytest.fixture
def flaky(failing, llama_chat_of, words, closing):
    """An empty index whose LLM fails at the town's text."""
    return closing(HippoRAGIndex(llm=llama_chat_of(failing.model()), embed_model=words))


# -- every way in ----------------------------------------------------------------------------------


async def test_every_way_in_gives_the_same_index(
    models, nodes, llama_documents, question, closing, core_chat
):
    by_document = closing(HippoRAGIndex.from_documents(llama_documents, **models))
    expected = found(by_document, question)
    awaited = closing(await HippoRAGIndex.afrom_documents(llama_documents, **models))
    inserted, ainserted, refreshed, arefreshed = (
        closing(HippoRAGIndex(**models)) for _ in range(4)
    )
    for document in llama_documents:
        inserted.insert(document)
        await ainserted.ainsert(document)
    assert refreshed.refresh_ref_docs(llama_documents) == [True] * 6
    assert await arefreshed.arefresh_ref_docs(llama_documents) == [True] * 6
    for index in (awaited, inserted, ainserted, refreshed, arefreshed):
        assert found(index, question) == expected
        assert set(index.ref_doc_info) == {document.id_ for document in llama_documents}
    by_node = closing(HippoRAGIndex(nodes, **models))
    anode = closing(HippoRAGIndex([], **models))
    await anode.ainsert_nodes(nodes)
    assert found(anode, question) == found(by_node, question)


def test_a_tuple_of_nodes_will_do(models, nodes, closing):
    assert len(closing(HippoRAGIndex(tuple(nodes), **models)).hippo) == 6


def test_one_node_is_one_passage_with_its_own_id(llama, nodes):
    assert [passage.id for passage in llama.hippo] == sorted(node.node_id for node in nodes)
    assert llama.get_nodes([node.node_id for node in nodes]) == nodes


def test_the_docstore_has_the_nodes_as_llamaindex_expects(llama, nodes):
    for node in nodes:
        assert llama.docstore.get_document(node.node_id) == node
        assert llama.docstore.get_ref_doc_info(node.ref_doc_id).node_ids == [node.node_id]


def test_users_nodes_and_documents_stay_as_they_are(llama_empty, nodes, llama_documents):
    before = [thing.model_copy(deep=True) for thing in [*nodes, *llama_documents]]
    llama_empty.insert_nodes(nodes)
    llama_empty.refresh_ref_docs(llama_documents)
    assert [*nodes, *llama_documents] == before


def test_nodes_of_an_ingestion_pipeline_go_in(llama_empty, llama_documents):
    pipeline = IngestionPipeline(transformations=[SentenceSplitter()])
    llama_empty.insert_nodes(pipeline.run(documents=llama_documents))
    assert set(llama_empty.ref_doc_info) == {document.id_ for document in llama_documents}


def test_a_node_without_text_is_skipped(llama_empty):
    llama_empty.insert_nodes([TextNode(text=" ", metadata={"a": 1})])
    assert len(llama_empty.hippo) == 0
    assert llama_empty.docstore.docs == {}


def test_new_node_ids_for_an_old_text_cost_nothing(llama, nodes, core_chat):
    calls = len(core_chat.calls)
    llama.insert_nodes([TextNode(text=node.text) for node in nodes])
    assert len(core_chat.calls) == calls
    assert len(llama.hippo) == 12


def test_metadata_are_not_read_unless_one_says_so(models, nodes, core_chat, closing):
    closing(HippoRAGIndex(nodes, **models))
    assert not any("year:" in message.content for call in core_chat.calls for message in call)
    closing(HippoRAGIndex(nodes, extract_metadata_mode=MetadataMode.ALL, **models))
    assert any("year:" in message.content for call in core_chat.calls for message in call)


def test_a_metadata_value_that_is_no_json_is_an_error_or_encoded(models, closing):
    node = TextNode(text="x", metadata={"of": {1, 2}})
    with pytest.raises(InputError, match="of"):
        HippoRAGIndex([node], **models)
    index = closing(HippoRAGIndex([node], metadata_encoder=sorted, **models))
    assert index.get_nodes([node.node_id])[0].metadata == {"of": [1, 2]}
    assert index.docstore.get_document(node.node_id).metadata == {"of": [1, 2]}


async def test_a_transformation_that_changes_documents_does_not_make_them_new(models, closing):
    class Stamp(TransformComponent):
        def __call__(self, nodes, **kwargs):
            for node in nodes:
                node.metadata["stamped"] = True
            return nodes

    def documents():
        return [Document(id_="d", text="Hippos swim in the Nile, a river.")]

    index = closing(HippoRAGIndex(transformations=[Stamp(), SentenceSplitter()], **models))
    assert index.refresh_ref_docs(documents()) == [True]
    assert index.refresh_ref_docs(documents()) == [False]
    assert await index.arefresh_ref_docs(documents()) == [False]


# -- failures --------------------------------------------------------------------------------------


async def test_after_a_failure_nothing_counts_as_done_and_a_refresh_retries(
    flaky, failing, llama_documents
):
    with pytest.raises(IndexingError):
        flaky.refresh_ref_docs(llama_documents)
    with pytest.raises(IndexingError):
        await flaky.arefresh_ref_docs(llama_documents)
    assert len(flaky.hippo) == 0
    assert flaky.docstore.docs == {}
    assert flaky.docstore.get_document_hash("town.txt") is None
    failing.words = ()
    paid = len(failing.core.calls)
    assert await flaky.arefresh_ref_docs(llama_documents) == [True] * 6
    assert len(failing.core.calls) == paid + 2  # the one text that was not read
    assert len(flaky.hippo) == 6
    assert flaky.refresh_ref_docs(llama_documents) == [False] * 6
    assert flaky.docstore.get_document_hash("town.txt") == llama_documents[2].hash


def test_what_was_skipped_is_retried_by_the_next_refresh(flaky, failing, llama_documents, caplog):
    with caplog.at_level(logging.WARNING):
        flaky.refresh_ref_docs(llama_documents, on_error="skip")
    assert "1 nodes could not be read" in caplog.text
    assert flaky.docstore.get_document_hash("town.txt") is None
    failing.words = ()
    assert flaky.refresh_ref_docs(llama_documents) == [False, False, True, False, False, False]
    assert len(flaky.hippo) == 6
    assert len(flaky.docstore.docs) == 6


def test_a_failed_update_leaves_the_document_as_it_was(flaky, llama_documents):
    flaky.insert(llama_documents[0])
    changed = Document(id_=llama_documents[0].id_, text="An imperial city.")
    with pytest.raises(IndexingError):
        flaky.update_ref_doc(changed)
    (passage,) = flaky.hippo
    assert passage.text == llama_documents[0].text
    assert flaky.docstore.get_document_hash(changed.id_) == llama_documents[0].hash


async def test_an_index_that_failed_leaves_nothing_in_its_storage_context(
    failing, llama_chat_of, words, llama_documents, nodes
):
    context = StorageContext.from_defaults()
    models = {"llm": llama_chat_of(failing.model()), "embed_model": words}
    with pytest.raises(IndexingError):
        HippoRAGIndex.from_documents(llama_documents, storage_context=context, **models)
    with pytest.raises(IndexingError):
        await HippoRAGIndex.afrom_documents(llama_documents, storage_context=context, **models)
    with pytest.raises(IndexingError):
        HippoRAGIndex(nodes, storage_context=context, **models)
    assert context.index_store.index_structs() == []
    assert list(context.vector_stores) == ["default", "image"]


def test_a_budget_ends_an_insert_and_inserting_again_goes_on(llama_empty, nodes, core_chat):
    with pytest.raises(BudgetExceededError):
        llama_empty.insert_nodes(nodes, budget=Budget(calls=3))
    llama_empty.insert_nodes(nodes)
    assert len(core_chat.calls) == 12


async def test_an_estimate_is_that_of_the_insert(llama_empty, nodes, llama_documents, core_chat):
    told = llama_empty.estimate(llama_documents, prices=Prices(input=1.0, output=2.0))
    assert told.usage.chat_calls == 12
    assert told.cost
    assert (await llama_empty.aestimate(nodes)).usage.chat_calls == 12
    assert not core_chat.calls
    llama_empty.refresh_ref_docs(llama_documents)
    assert llama_empty.estimate(nodes).usage.chat_calls == 0


@pytest.mark.parametrize("call", ["insert_nodes", "refresh_ref_docs", "update_ref_doc", "insert"])
def test_an_unknown_option_is_an_error(llama_empty, call):
    with pytest.raises(TypeError, match="unexpected keyword arguments: buget; there are edges"):
        getattr(llama_empty, call)([], buget=1)


def test_an_unknown_option_of_the_constructor_is_an_error(models):
    with pytest.raises(TypeError, match="unexpected keyword arguments: similarity"):
        HippoRAGIndex(similarity=1, **models)


# -- replace and delete ----------------------------------------------------------------------------


async def test_a_refresh_is_one_batch_of_what_changed(llama_empty, llama_documents, core_chat):
    llama_empty.refresh_ref_docs(llama_documents)
    changed = [*llama_documents[:5], Document(id_="hippos.txt", text="Hippos sleep.")]
    commits = []
    llama_empty.hippo.add = lambda *args, **kw: (
        commits.append(args) or HippoRAG.add(llama_empty.hippo, *args, **kw)
    )
    new = Document(id_="new.txt", text="Whales sing.")
    flags = llama_empty.refresh_ref_docs([*changed, new, new])
    assert flags == [False] * 5 + [True, True, False]
    assert len(commits) == 1
    assert {p.text for p in llama_empty.hippo} >= {"Hippos sleep.", "Whales sing."}
    assert len(llama_empty.hippo) == 7
    assert len(llama_empty.docstore.docs) == 7


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_update_takes_the_place_of_all_old_nodes(llama_empty, core_chat, asynchronous):
    llama_empty._transformations = [SentenceSplitter(chunk_size=20, chunk_overlap=0)]
    sentence = "Hippos swim in the Nile, a river, all day long, says Ada. "
    llama_empty.insert(Document(id_="d", text=sentence * 3))
    assert len(llama_empty.hippo) == 3
    calls = len(core_chat.calls)
    changed = Document(id_="d", text=sentence * 2)
    if asynchronous:
        await llama_empty.aupdate_ref_doc(changed, delete_kwargs={}, insert_kwargs={})
    else:
        llama_empty.update_ref_doc(changed, delete_kwargs={}, insert_kwargs={})
    assert len(llama_empty.hippo) == 2
    assert len(llama_empty.docstore.docs) == 2
    assert len(llama_empty.ref_doc_info["d"].node_ids) == 2
    assert sorted(llama_empty.docstore.get_ref_doc_info("d").node_ids) == sorted(
        llama_empty.ref_doc_info["d"].node_ids
    )
    assert len(core_chat.calls) == calls  # the sentence was read before


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("by", ["nodes", "document"])
async def test_deleting_undoes_inserting(
    llama, nodes, models, question, closing, asynchronous, by, caplog
):
    without = closing(HippoRAGIndex(nodes[1:], **models))
    match by, asynchronous:
        case "nodes", False:
            llama.delete_nodes(["bridge", "unknown"], delete_from_docstore=True)
        case "nodes", True:
            await llama.adelete_nodes(["bridge", "unknown"], delete_from_docstore=True)
        case "document", False:
            llama.delete_ref_doc("bridge.txt", delete_from_docstore=True)
            llama.delete_ref_doc("unknown")
        case "document", True:
            await llama.adelete_ref_doc("bridge.txt", delete_from_docstore=True)
            await llama.adelete_ref_doc("unknown")
    assert found(llama, question) == found(without, question)
    assert llama.hippo.stats() == without.hippo.stats()
    assert set(llama.docstore.docs) == {node.node_id for node in nodes[1:]}
    assert "bridge.txt" not in llama.ref_doc_info
    assert ("unknown" in caplog.text) == (by == "document")


def test_a_document_that_was_deleted_is_indexed_again(llama_empty, llama_documents):
    llama_empty.refresh_ref_docs(llama_documents)
    llama_empty.delete_ref_doc("bridge.txt")  # LlamaIndex keeps it in the docstore by default
    assert llama_empty.refresh_ref_docs(llama_documents[:2]) == [True, False]
    assert "bridge.txt" in llama_empty.ref_doc_info


def test_ref_doc_info_has_nodes_and_metadata(llama):
    info = llama.ref_doc_info["town.txt"]
    assert info.node_ids == ["town"]
    assert info.metadata == {"file": "town", "year": 1874}


async def test_inserts_take_edges_by_node_and_by_document(llama_empty, nodes, question):
    llama_empty.insert_nodes(nodes, edges=[Edge("town", to_source="hippos.txt", weight=20.0)])
    assert llama_empty.hippo.stats().user_edges == 1
    assert "Hippos swim in the Nile, a river." in dict(found(llama_empty, question))
    await llama_empty.ainsert_nodes(nodes, edges=[])
    assert llama_empty.hippo.stats().user_edges == 0


def test_progress_is_drawn_where_it_is_to_be_shown(models, nodes, llama_documents, closing, capsys):
    closing(HippoRAGIndex(nodes, **models))
    assert capsys.readouterr().err == ""
    closing(HippoRAGIndex.from_documents(llama_documents, show_progress=True, **models))
    shown = capsys.readouterr().err
    assert "Reading nodes: 100%" in shown


def test_a_node_that_became_blank_is_deleted(llama):
    llama.insert_nodes([TextNode(id_="hippos", text=" ")])
    assert llama.get_nodes(["hippos"]) == []
    assert "hippos" not in llama.docstore.docs


async def test_a_document_that_became_blank_is_no_longer_found(models, closing):
    splitter = SentenceSplitter(id_func=lambda i, document: f"{document.id_}-{i}")
    index = closing(HippoRAGIndex(transformations=[splitter], **models))
    index.insert(Document(id_="d", text="Hippos swim in the Nile, a river."))
    assert await index.arefresh_ref_docs([Document(id_="d", text="")]) == [True]
    assert index.as_retriever().retrieve("Do hippos swim?") == []
    assert not index.docstore.docs


def test_objects_are_inserted_as_nodes_are(models, llama, question, closing):
    about = IndexNode(id_="i", index_id="all", text="All on bridges.", obj=llama.as_retriever(1))
    index = closing(HippoRAGIndex([TextNode(id_="t", text="Hippos.")], objects=[about], **models))
    assert {passage.id for passage in index.hippo} == {"i", "t"}
    asked = "All on bridges?"
    (found,) = index.as_retriever(similarity_top_k=1).retrieve(asked)
    assert found.node_id == llama.as_retriever(1).retrieve(asked)[0].node_id


def test_what_a_retrieval_said_of_a_node_is_not_kept(llama, question):
    found = llama.as_retriever(include_scores=True, include_triples=True).retrieve(question)
    llama.insert_nodes([one.node for one in found])
    for passage in llama.hippo.get([one.node_id for one in found]):
        assert not [key for key in passage.metadata if key.startswith("hipporag_")]


def test_a_graph_among_a_nodes_metadata_is_not_kept(llama, models):
    extracted = HippoRAGExtractor(hippo=llama.hippo)([TextNode(id_="x", text="Hippos swim.")])
    assert {"nodes", "relations"} <= extracted[0].metadata.keys()
    llama.insert_nodes(extracted)
    llama.insert_nodes([TextNode(id_="own", text="Hippos.", metadata={"nodes": ["a", "b"]})])
    (read, own) = llama.get_nodes(["x", "own"])
    assert read.metadata == {}
    assert own.metadata == {"nodes": ["a", "b"]}
