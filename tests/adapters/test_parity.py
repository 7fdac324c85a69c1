"""One corpus through the core and both adapters, sync and async: the same ids, order and scores."""

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from hippo_core import HippoConfig, HippoRAG, Passage
from langchain_hipporag import HippoRAGRetriever, LangChainChatModel, LangChainEmbedder
from llama_index_hipporag import HippoRAGIndex, LlamaIndexChatModel, LlamaIndexEmbedder

CONFIGS = {
    "default": HippoConfig(),
    "second hop": HippoConfig(second_hop=3),
    "hipporag2": HippoConfig.hipporag2(),
    "hipporag": HippoConfig.hipporag(),
    "dense": HippoConfig.dense(),
}
QUERIES = ["Do hippos swim?", "Who built a tower?", "Where was John Roebling born?"]
RECENT = {"year": {"$gte": 1876}}
FILTERS = MetadataFilters(
    filters=[MetadataFilter(key="year", operator=FilterOperator.GTE, value=1876)]
)


@pytest.fixture
def passages(nodes):
    """Metadata that no adapter embeds, so that all embed the same."""
    return [Passage(n.text, id=n.node_id, metadata={"year": n.metadata["year"]}) for n in nodes]


@pytest.fixture(params=CONFIGS)
def memories(request, passages, core_chat, chat, embeddings, llama_chat, words, closing):
    """The corpus in four memories: twice in the core, with each framework's models, and adapted."""
    config = CONFIGS[request.param]
    core = closing(HippoRAG(core_chat, embeddings.core, config=config))
    core.add(passages)
    langchain = closing(
        HippoRAGRetriever.from_documents(
            [Document(id=p.id, page_content=p.text, metadata=dict(p.metadata)) for p in passages],
            llm=chat,
            embeddings=embeddings,
            config=config,
        )
    )
    excluded = {"excluded_embed_metadata_keys": ["year"]}
    nodes = [
        TextNode(id_=p.id, text=p.text, metadata=dict(p.metadata), **excluded) for p in passages
    ]
    llama = closing(HippoRAGIndex(nodes, llm=llama_chat, embed_model=words, config=config))
    return core, langchain, llama


def of_core(found):
    return [(hit.passage.id, hit.score, hit.rank) for hit in found]


def of_documents(found):
    return [(d.id, d.metadata["hipporag_score"], d.metadata["hipporag_rank"]) for d in found]


def of_nodes(found):
    return [(n.node_id, n.score, n.metadata["hipporag_rank"]) for n in found]


@pytest.mark.parametrize("score_mode", ["relative", "ppr"])
@pytest.mark.parametrize("filtered", [False, True])
async def test_ids_order_and_scores_are_the_same(memories, question, score_mode, filtered):
    core, langchain, llama = memories
    langchain.k, langchain.score_mode = 6, score_mode
    where = RECENT if filtered else None
    filters = FILTERS if filtered else None
    retriever = llama.as_retriever(6, filters=filters, score_mode=score_mode, include_scores=True)
    options = {"k": 6, "where": where, "score_mode": score_mode}
    for query in [question, *QUERIES]:
        expected = of_core(core.retrieve(query, **options))
        assert len(expected) == (3 if filtered else 6)
        assert of_core(await core.aretrieve(query, **options)) == expected
        assert of_documents(langchain.invoke(query, where=where)) == expected
        assert of_documents(await langchain.ainvoke(query, where=where)) == expected
        assert of_nodes(retriever.retrieve(query)) == expected
        assert of_nodes(await retriever.aretrieve(query)) == expected


def test_the_graphs_are_the_same(memories):
    core, langchain, llama = memories
    assert langchain.hippo.stats() == llama.hippo.stats() == core.stats()


def test_the_core_with_a_frameworks_models_gives_the_same(
    memories, passages, chat, embeddings, llama_chat, words, question, closing
):
    core, *_ = memories
    for models in (
        (LangChainChatModel(chat), LangChainEmbedder(embeddings)),
        (LlamaIndexChatModel(llama_chat), LlamaIndexEmbedder(words)),
    ):
        with HippoRAG(*models, config=core.config) as memory:
            memory.add(passages)
            assert of_core(memory.retrieve(question)) == of_core(core.retrieve(question))
