"""What goes into a LlamaIndex index and its retrievers: used as it is meant, or refused."""

import copy
import pickle

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.schema import TextNode

from hippo_core import InputError
from hippo_core.testing import TableOpenIE
from llama_index_hipporag import HippoRAGIndex, HippoRAGRetriever


def ids(found):
    return [node.node_id for node in found]


# -- documents -------------------------------------------------------------------------------------


async def test_documents_may_come_one_by_one(models, llama_documents, closing):
    index = closing(HippoRAGIndex.from_documents(iter(llama_documents), **models))
    assert len(index.hippo) == 6
    assert index.refresh_ref_docs(iter(llama_documents)) == [False] * 6
    assert await index.arefresh_ref_docs(iter(llama_documents)) == [False] * 6
    awaited = closing(await HippoRAGIndex.afrom_documents(iter(llama_documents), **models))
    assert len(awaited.hippo) == 6
    inserted = closing(HippoRAGIndex(**models))
    inserted.insert_documents(iter(llama_documents[:3]))
    await inserted.ainsert_documents(iter(llama_documents[3:]))
    inserted.insert_nodes(TextNode(text=f"Node {n}.") for n in range(2))
    assert len(inserted.hippo) == 8


@pytest.mark.parametrize("wrong", ["text", ["text"], [None], [{"text": "text"}]])
async def test_what_is_no_list_of_documents_is_refused(llama_empty, wrong):
    for call in (llama_empty.insert_documents, llama_empty.refresh_ref_docs):
        with pytest.raises(TypeError, match="documents must be a list of Document"):
            call(wrong)
    for acall in (llama_empty.ainsert_documents, llama_empty.arefresh_ref_docs):
        with pytest.raises(TypeError, match="documents must be a list of Document"):
            await acall(wrong)
    for call in (llama_empty.insert, llama_empty.update_ref_doc):
        with pytest.raises(TypeError, match="documents must be a list of Document"):
            call(wrong)
    assert len(llama_empty.hippo) == 0


async def test_an_encoder_that_is_at_its_end_holds_nobody_up(models, closing):
    index = closing(HippoRAGIndex(metadata_encoder=lambda _: next(iter(())), **models))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await index.ainsert_nodes([TextNode(text="Hippos swim.", metadata={"of": {1}})])


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["filter", "where", "k", "top_k", "similarity_topk", "doc_ids", "node_ids"]
)
def test_an_argument_that_nobody_reads_is_refused_everywhere(llama, models, name):
    """Were it ignored, a filter by another name would let everything through."""
    for call in (llama.as_retriever, llama.as_query_engine, llama.as_chat_engine):
        with pytest.raises(TypeError, match=f"unexpected keyword arguments: {name}; a retr"):
            call(**{name: ["town"]})


def test_what_an_engine_takes_goes_through(llama):
    llm = MockLLM()
    assert llama.as_query_engine(llm=llm, response_mode="compact", use_async=False, verbose=False)
    assert CitationQueryEngine.from_args(llama, llm=llm, similarity_top_k=2, citation_chunk_size=64)
    for mode, options in {
        "context": {"system_prompt": "Be brief.", "chat_history": []},
        "condense_plus_context": {"skip_condense": True},
        "condense_question": {"prefix_messages": None},
        "simple": {"system_prompt": "Be brief."},
    }.items():
        memory = ChatMemoryBuffer.from_defaults(token_limit=1000)
        assert llama.as_chat_engine(mode, llm=llm, memory=memory, **options)


# -- copies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_share_the_memory_and_not_the_options(llama, question, copied):
    retriever = llama.as_retriever(similarity_top_k=3)
    other = copied(retriever)
    other.similarity_top_k = 1
    assert len(retriever.retrieve(question)) == 3
    assert len(other.retrieve(question)) == 1
    assert copied(llama).hippo is llama.hippo
    copied(llama).delete_nodes(["bridge"])
    assert "bridge" not in ids(llama.as_retriever(similarity_top_k=6).retrieve(question))


def test_an_unpickled_retriever_opens_the_same_memory(tmp_path, nodes, table, closing):
    index = closing(
        HippoRAGIndex(
            nodes,
            openie=TableOpenIE(table),
            embed_model=MockEmbedding(embed_dim=8),
            transformations=[],  # LlamaIndex leaves its splitters' functions out, with a warning
            persist_directory=tmp_path / "m",
        )
    )
    retriever = index.as_retriever(similarity_top_k=3, include_triples=True)
    other = pickle.loads(pickle.dumps(retriever))
    closing(other._index)
    assert other._index.hippo is not index.hippo
    assert other.retrieve("Where?") == retriever.retrieve("Where?")
    other._index.insert_nodes([TextNode(id_="new", text="New.")])
    assert index.get_nodes(["new"])


def test_a_subclass_may_add_what_it_likes(llama, question):
    class Mine(HippoRAGRetriever):
        def __init__(self, *args, label, **options):
            super().__init__(*args, **options)
            self.label = label

        def _retrieve(self, query_bundle):
            return super()._retrieve(query_bundle)[:1]

    mine = Mine(llama, similarity_top_k=3, label="x")
    assert len(mine.retrieve(question)) == 1
    assert copy.deepcopy(mine).label == "x"
    with pytest.raises(InputError):
        Mine(llama, similarity_top_k=0, label="x")
