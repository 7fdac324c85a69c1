"""What LlamaIndex's postprocessors see of a found node, and what they do with its score."""

import asyncio

import pytest
from llama_index.core.node_parser import SentenceWindowNodeParser
from llama_index.core.postprocessor import (
    LLMRerank,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    Document,
    MetadataMode,
    NodeRelationship,
    QueryBundle,
    RelatedNodeInfo,
)

from hippo_core.testing import ScriptedChatModel
from llama_index_hipporag import HippoRAGIndex

CHAIN = ["bridge", "town", "roebling"]


def ids(found):
    return [node.node_id for node in found]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def ask(request, llama_chat_of):
    """Query an engine of a retriever and a postprocessor, either way, and give its nodes."""
    llm = llama_chat_of(ScriptedChatModel(lambda _messages: "The Unstrut."))

    async def ask(retriever, query, *postprocessors):
        engine = RetrieverQueryEngine.from_args(
            retriever, llm=llm, node_postprocessors=list(postprocessors)
        )
        if request.param:
            return (await engine.aquery(query)).source_nodes
        return (await asyncio.to_thread(engine.query, query)).source_nodes

    return ask


async def test_a_cutoff_keeps_the_best_by_relative_scores(llama, question, ask):
    scores = {n.node_id: n.score for n in llama.as_retriever(6).retrieve(question)}
    half = SimilarityPostprocessor(similarity_cutoff=0.5)
    found = ids(await ask(llama.as_retriever(6), question, half))
    assert found == [id_ for id_, score in scores.items() if score >= 0.5]
    assert found[0] == "bridge"
    third = SimilarityPostprocessor(similarity_cutoff=scores["roebling"])
    assert ids(await ask(llama.as_retriever(6), question, third)) == CHAIN


async def test_a_cutoff_drops_everything_by_the_walks_mass(llama, question, ask):
    mass = llama.as_retriever(6, score_mode="ppr")
    cutoff = SimilarityPostprocessor(similarity_cutoff=0.7)
    assert await ask(mass, question, cutoff) == []


async def test_an_llm_that_reranks_reads_the_nodes_alone(llama, question, ask, llama_chat_of):
    prompts = []

    def reply(messages):
        prompts.append("\n".join(message.content for message in messages))
        return "Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7\nDoc: 2, Relevance: 8"

    rerank = LLMRerank(llm=llama_chat_of(ScriptedChatModel(reply)), top_n=2)
    retriever = llama.as_retriever(3, include_triples=True, include_scores=True)
    found = await ask(retriever, question, rerank)
    assert ids(found) == ["roebling", "town"]
    assert [node.score for node in found] == [9.0, 8.0]
    assert [node.node.metadata["hipporag_rank"] for node in found] == [3, 2]
    (prompt,) = prompts
    assert "The Brooklyn Bridge was designed by John Roebling." in prompt
    assert "hipporag_" not in prompt


class ByTriples(BaseNodePostprocessor):
    """Puts what explains itself by more triples first."""

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return sorted(nodes, key=lambda n: -len(n.node.metadata["hipporag_triples"]))


async def test_a_postprocessor_of_ones_own_sees_triples(llama, question, ask):
    found = await ask(llama.as_retriever(3, include_triples=True), question, ByTriples())
    assert sorted(ids(found)) == sorted(CHAIN)


async def test_a_cross_encoder_is_given_the_text_that_a_node_lets_be_embedded(llama, question):
    retriever = llama.as_retriever(3, include_triples=True, include_scores=True)
    for found in await retriever.aretrieve(question):
        text = found.node.get_content(metadata_mode=MetadataMode.EMBED)
        assert "hipporag_" not in text
        assert text.endswith(found.node.text)


async def test_a_reordering_keeps_what_was_found(llama, question, ask):
    found = await ask(llama.as_retriever(3), question, LongContextReorder())
    assert sorted(ids(found)) == sorted(CHAIN)


async def test_neighbours_come_out_of_the_indexs_docstore(llama_empty, nodes, question, ask):
    by_id = {node.node_id: node for node in nodes}
    by_id["roebling"].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="hippos")
    by_id["hippos"].relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id="roebling")
    llama_empty.insert_nodes(nodes)
    neighbours = PrevNextNodePostprocessor(docstore=llama_empty.docstore, num_nodes=1, mode="both")
    found = await ask(llama_empty.as_retriever(3), question, neighbours)
    assert {*ids(found)} == {*CHAIN, "hippos"}
    assert ids(found).index("hippos") == ids(found).index("roebling") + 1


async def test_a_sentence_is_found_and_its_window_is_read(models, table, question, closing, ask):
    sentences = list(table)[:3]
    parser = SentenceWindowNodeParser.from_defaults(
        window_size=1, sentence_splitter=lambda text: text.split("\n")
    )
    index = closing(HippoRAGIndex(transformations=[parser], **models))
    index.insert(Document(text="\n".join(sentences)))
    assert {passage.text for passage in index.hippo} == {*sentences}
    replace = MetadataReplacementPostProcessor(target_metadata_key="window")
    found = await ask(index.as_retriever(3), question, replace)
    assert " ".join(sentences) in {node.node.get_content() for node in found}
    plain = index.as_retriever(3).retrieve(QueryBundle(question))
    assert {node.node.get_content() for node in plain} == {*sentences}
    assert {node.node.metadata["original_text"] for node in plain} == {*sentences}
