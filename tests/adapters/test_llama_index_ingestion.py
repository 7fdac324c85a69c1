"""An ingestion pipeline before an index: what a second run costs, and what a change leaves."""

import pytest
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from hippo_core import IndexingError
from hippo_core.testing import ScriptedChatModel
from llama_index_hipporag import HippoRAGIndex

CHAIN = ["bridge.txt", "town.txt", "roebling.txt"]


@pytest.fixture
def changed(llama_documents):
    """The documents, of which the last one says something else."""
    return [*llama_documents[:5], Document(id_="hippos.txt", text="Hippos sleep.")]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def run(request):
    """Run a pipeline and insert its nodes, either way."""

    async def run(pipeline, index, documents):
        if request.param:
            nodes = await pipeline.arun(documents=documents)
            await index.ainsert_nodes(nodes)
        else:
            nodes = pipeline.run(documents=documents)
            index.insert_nodes(nodes)
        return nodes

    return run


def sources(index, question):
    found = index.as_retriever(similarity_top_k=3).retrieve(question)
    return [node.node.ref_doc_id for node in found]


def texts(index):
    return [passage.text for passage in index.hippo if passage.source_id == "hippos.txt"]


@pytest.fixture(params=["cache", "docstore", "upserts"])
def pipeline(request, words):
    match request.param:
        case "cache":
            return IngestionPipeline(transformations=[SentenceSplitter()])
        case "docstore":
            return IngestionPipeline(
                transformations=[SentenceSplitter()],
                docstore=SimpleDocumentStore(),
                docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY,
            )
        case "upserts":  # which LlamaIndex does with a vector store only
            return IngestionPipeline(
                transformations=[SentenceSplitter(), words],
                docstore=SimpleDocumentStore(),
                vector_store=SimpleVectorStore(),
                docstore_strategy=DocstoreStrategy.UPSERTS,
            )


async def test_a_second_run_pays_nothing(
    pipeline, llama_empty, llama_documents, question, core_chat, run
):
    assert len(await run(pipeline, llama_empty, llama_documents)) == 6
    assert sources(llama_empty, question) == CHAIN
    state, calls = llama_empty.hippo.stats(), len(core_chat.calls)
    again = await run(pipeline, llama_empty, llama_documents)
    assert len(again) == (6 if pipeline.docstore is None else 0)
    assert len(core_chat.calls) == calls
    assert llama_empty.hippo.stats() == state


async def test_a_changed_document_is_read_alone_and_its_old_nodes_stay(
    pipeline, llama_empty, llama_documents, changed, core_chat, run
):
    await run(pipeline, llama_empty, llama_documents)
    calls = len(core_chat.calls)
    await run(pipeline, llama_empty, changed)
    assert len(core_chat.calls) == calls + 2
    assert sorted(texts(llama_empty)) == ["Hippos sleep.", "Hippos swim in the Nile, a river."]


async def test_old_nodes_are_those_that_their_documents_have_beside_the_new_ones(
    pipeline, llama_empty, llama_documents, changed, core_chat, run, question
):
    await run(pipeline, llama_empty, llama_documents)
    calls = len(core_chat.calls)
    nodes = await run(pipeline, llama_empty, changed)
    assert len(core_chat.calls) == calls + 2
    new = {node.node_id for node in nodes}
    known = llama_empty.ref_doc_info
    had = [id_ for source in {n.ref_doc_id for n in nodes} for id_ in known[source].node_ids]
    llama_empty.delete_nodes([id_ for id_ in had if id_ not in new], delete_from_docstore=True)
    assert texts(llama_empty) == ["Hippos sleep."]
    assert len(llama_empty.hippo) == len(llama_empty.docstore.docs) == 6
    assert sources(llama_empty, question) == CHAIN


async def test_a_refresh_with_the_pipelines_transformations_replaces(
    models, llama_documents, changed, core_chat, question, closing
):
    pipeline = IngestionPipeline(transformations=[SentenceSplitter()])
    index = closing(HippoRAGIndex(transformations=pipeline.transformations, **models))
    assert index.refresh_ref_docs(llama_documents) == [True] * 6
    calls = len(core_chat.calls)
    assert await index.arefresh_ref_docs(changed) == [False] * 5 + [True]
    assert len(core_chat.calls) == calls + 2
    assert texts(index) == ["Hippos sleep."]
    assert sources(index, question) == CHAIN


def test_a_pipelines_docstore_knows_nothing_of_a_failed_insert(
    llama_documents, core_chat, llama_chat_of, words, closing
):
    def failing(messages):
        if is_down:
            raise ValueError("down")
        return core_chat.complete(messages).text

    is_down = True
    llm = llama_chat_of(ScriptedChatModel(failing))
    index = closing(HippoRAGIndex(llm=llm, embed_model=words))
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter()],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY,
    )
    nodes = pipeline.run(documents=llama_documents)
    with pytest.raises(IndexingError):
        index.insert_nodes(nodes)
    is_down = False
    assert pipeline.run(documents=llama_documents) == []  # it takes them for done
    index.insert_nodes(nodes)  # so one keeps them until they are in
    assert len(index.hippo) == 6


async def test_embeddings_of_a_pipeline_are_not_kept(words, llama_empty, llama_documents, run):
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(), words])
    nodes = await run(pipeline, llama_empty, llama_documents)
    assert all(node.embedding for node in nodes)
    assert not any(node.embedding for node in llama_empty.docstore.docs.values())
