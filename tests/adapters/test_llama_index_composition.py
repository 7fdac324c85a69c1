"""What LlamaIndex users put around a retriever: fusion, routing, recursion, engines, workflows."""

import asyncio

import pytest
from llama_index.core import (
    ComposableGraph,
    Settings,
    StorageContext,
    SummaryIndex,
    VectorStoreIndex,
)
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
    TransformRetriever,
)
from llama_index.core.schema import IndexNode, NodeRelationship, QueryBundle, TextNode
from llama_index.core.selectors import LLMMultiSelector, LLMSingleSelector
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from hippo_core.testing import ScriptedChatModel
from llama_index_hipporag import HippoRAGIndex

CHAIN = ["bridge", "town", "roebling"]
NIGH = "Which river flows through the city where John Roebling was born?"
SCORED = ["reciprocal_rerank", "relative_score", "dist_based_score"]


def ids(found):
    return [node.node_id for node in found]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def ask(request):
    """Retrieve or query, either way."""

    async def ask(asked, query):
        if hasattr(asked, "retrieve") and not hasattr(asked, "query"):
            sync, awaited = asked.retrieve, asked.aretrieve
        else:
            sync, awaited = asked.query, asked.aquery
        return await awaited(query) if request.param else await asyncio.to_thread(sync, query)

    return ask


@pytest.fixture
def scripted(core_chat, llama_chat_of):
    """Make an LLM that has replies to prompts with some words, and reads and judges as ours."""

    def make(*replies):
        def reply(messages):
            prompt = "\n".join(message.content for message in messages)
            if any(key in prompt for key in ('"keep"', '"triples"', '"named_entities"')):
                return core_chat.complete(messages).text
            llm.asked.append(prompt)
            return next((said for words, said in replies if words in prompt), "The Unstrut.")

        llm = llama_chat_of(ScriptedChatModel(reply))
        object.__setattr__(llm, "asked", [])
        return llm

    return make


@pytest.fixture
def vectors(nodes, words):
    """Dense retrieval of the same nodes, by the same embeddings."""
    return VectorStoreIndex(nodes, embed_model=words)


# -- fusion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", SCORED)
async def test_fusion_takes_a_node_of_two_retrievers_for_one(
    nodes, models, words, closing, scripted, question, ask, mode
):
    for node in nodes:  # as readers write them: in no order
        node.metadata = {"year": 1883, "file": node.node_id, "by": {"of": None, "at": 1}}
    graph = closing(HippoRAGIndex(nodes, **models)).as_retriever(similarity_top_k=4)
    dense = VectorStoreIndex(nodes, embed_model=words).as_retriever(similarity_top_k=4)
    fusion = QueryFusionRetriever(
        [graph, dense], llm=scripted(), num_queries=1, mode=mode, similarity_top_k=6
    )
    fusion.use_async = False
    found = ids(await ask(fusion, question))
    assert sorted(found) == sorted({*ids(graph.retrieve(question)), *ids(dense.retrieve(question))})
    weighted = QueryFusionRetriever(
        [graph, dense], llm=scripted(), num_queries=1, mode="relative_score",
        retriever_weights=[0.9, 0.1], similarity_top_k=3, use_async=False,
    )  # fmt: skip
    assert ids(await ask(weighted, question)) == CHAIN


@pytest.mark.parametrize("mode", [*SCORED, "simple"])
async def test_fusion_takes_a_node_of_two_queries_for_one(llama, scripted, question, ask, mode):
    llm = scripted(("search queries", f"{NIGH}\nWho designed the Brooklyn Bridge?"))
    fusion = QueryFusionRetriever(
        [llama.as_retriever(similarity_top_k=4)],
        llm=llm, num_queries=3, mode=mode, similarity_top_k=6, use_async=False,
    )  # fmt: skip
    found = ids(await ask(fusion, question))
    assert len(found) == len({*found})
    if mode != "simple":  # to which the best of each query is as good as any
        assert {*found[:3]} == {*CHAIN}


def test_fusion_may_run_its_queries_at_once(llama, scripted, question):
    llm = scripted(("search queries", NIGH))
    fusion = QueryFusionRetriever(
        [llama.as_retriever(similarity_top_k=4)],
        llm=llm, num_queries=2, mode="reciprocal_rerank", similarity_top_k=3,
    )  # fmt: skip
    assert {*ids(fusion.retrieve(question))} == {*CHAIN}


async def test_simple_fusion_compares_raw_scores_so_mass_loses_to_any_similarity(
    llama, vectors, scripted, question, ask
):
    dense = vectors.as_retriever(similarity_top_k=2)
    mass = llama.as_retriever(similarity_top_k=3, score_mode="ppr")
    fusion = QueryFusionRetriever(
        [mass, dense], llm=scripted(), num_queries=1, mode="simple", use_async=False
    )
    fusion.similarity_top_k = 2
    assert max(node.score for node in mass.retrieve(question)) < dense.retrieve(question)[1].score
    assert ids(await ask(fusion, question)) == ids(dense.retrieve(question))


# -- routing ---------------------------------------------------------------------------------------


CHOICE = '[{{"choice": {}, "reason": "it fits"}}]'


async def test_a_router_leads_to_its_query_engine(llama, vectors, scripted, question, ask):
    llm = scripted(("Some choices", CHOICE.format(2)))
    engine = RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=llm),
        query_engine_tools=[
            QueryEngineTool.from_defaults(vectors.as_query_engine(llm=llm), description="one fact"),
            QueryEngineTool.from_defaults(
                llama.as_query_engine(llm=llm, similarity_top_k=3), description="several facts"
            ),
        ],
        llm=llm,
    )
    response = await ask(engine, question)
    assert str(response) == "The Unstrut."
    assert ids(response.source_nodes) == CHAIN


async def test_a_router_of_retrievers_asks_in_the_users_words(
    llama, vectors, scripted, question, ask
):
    both = '[{"choice": 2, "reason": "a"}, {"choice": 1, "reason": "b"}]'
    llm = scripted(("Some choices", both))
    router = RouterRetriever(
        selector=LLMMultiSelector.from_defaults(llm=llm),
        retriever_tools=[
            RetrieverTool.from_defaults(vectors.as_retriever(), description="one fact"),
            RetrieverTool.from_defaults(llama.as_retriever(3), description="several facts"),
        ],
        llm=llm,
    )
    found = ids(await ask(router, question))
    assert found[:3] == CHAIN
    assert len(found) == len({*found})


async def test_sub_questions_have_their_own_nodes(llama, scripted, question, ask):
    parts = ["Who designed the Brooklyn Bridge?", "Which river flows through Mühlhausen?"]
    asked = ", ".join(f'{{"sub_question": "{part}", "tool_name": "corpus"}}' for part in parts)
    llm = scripted(("sub-questions", f'```json\n{{"items": [{asked}]}}\n```'))
    tool = QueryEngineTool.from_defaults(
        llama.as_query_engine(llm=llm, similarity_top_k=3), name="corpus", description="facts"
    )
    engine = SubQuestionQueryEngine.from_defaults(
        [tool],
        llm=llm,
        question_gen=LLMQuestionGenerator.from_defaults(llm=llm),
        verbose=False,
        use_async=False,
    )
    response = await ask(engine, question)
    assert str(response) == "The Unstrut."
    assert {"bridge", "town"} <= {*ids(response.source_nodes)}
    assert sum(prompt.count(f"Query: {parts[0]}") for prompt in llm.asked) == 1


# -- transformed queries ---------------------------------------------------------------------------


async def test_a_transformed_query_is_asked(llama, question, ask):
    class Whole(BaseQueryTransform):
        def _get_prompts(self):
            return {}

        def _update_prompts(self, prompts):
            pass

        def _run(self, query_bundle, metadata):
            return QueryBundle(question)

    assert ids(await ask(TransformRetriever(llama.as_retriever(3), Whole()), "?")) == CHAIN


async def test_a_hypothetical_document_is_compared_with_nodes(llama, scripted, question, ask):
    llm = scripted(("", "Hippos swim in the Nile."))
    plain = llama.as_retriever(6)
    hyde = TransformRetriever(plain, HyDEQueryTransform(llm=llm, include_original=False))
    found = await ask(hyde, question)
    given = llama.hippo.retrieve(
        question, k=6, score_mode="relative", dense_queries=["Hippos swim in the Nile."]
    )
    assert [(n.node_id, n.score) for n in found] == [(h.passage.id, h.score) for h in given]
    assert found != plain.retrieve(question)


# -- nodes that lead to others ---------------------------------------------------------------------


async def test_children_that_are_found_together_become_their_parent(
    llama_empty, nodes, question, ask
):
    parent = TextNode(id_="parent", text="Of Roebling and his bridge.")
    by_id = {node.node_id: node for node in nodes}
    children = [by_id["bridge"], by_id["roebling"]]
    parent.relationships[NodeRelationship.CHILD] = [c.as_related_node_info() for c in children]
    for child in children:
        child.relationships[NodeRelationship.PARENT] = parent.as_related_node_info()
    llama_empty.docstore.add_documents([parent])
    llama_empty.insert_nodes(nodes)
    context = StorageContext.from_defaults(docstore=llama_empty.docstore)
    merging = AutoMergingRetriever(llama_empty.as_retriever(3), context)
    found = await ask(merging, question)
    assert {*ids(found)} == {"parent", "town"}
    assert all(0.0 < node.score <= 1.0 for node in found)


async def test_an_index_node_leads_to_another_retriever_or_engine(
    llama, models, scripted, question, closing, ask
):
    root = closing(HippoRAGIndex([IndexNode(text="All of bridges.", index_id="all")], **models))
    recursive = RecursiveRetriever(
        "root", retriever_dict={"root": root.as_retriever(1), "all": llama.as_retriever(3)}
    )
    assert ids(await ask(recursive, question)) == CHAIN
    one = RecursiveRetriever(
        "root",
        retriever_dict={"root": root.as_retriever(1)},
        query_engine_dict={"all": llama.as_query_engine(llm=scripted())},
    )
    (answer,) = await ask(one, question)
    assert answer.node.get_content().endswith("The Unstrut.")


async def test_a_graph_of_indices_holds_ours_as_root_and_as_child(
    nodes, words, scripted, question, closing, ask, monkeypatch
):
    models = {"llm": scripted(), "embed_model": words}
    monkeypatch.setattr(Settings, "_llm", models["llm"])
    child = closing(HippoRAGIndex(nodes, **models))
    ours = ComposableGraph.from_indices(HippoRAGIndex, [child], ["All of bridges."], **models)
    closing(ours.root_index)
    theirs = ComposableGraph.from_indices(SummaryIndex, [child], ["All of bridges."])
    for graph in (ours, theirs):
        response = await ask(graph.as_query_engine(llm=models["llm"]), question)
        assert str(response) == "The Unstrut."
        assert ids(response.source_nodes)[1:4] == CHAIN  # the first one is the child's answer


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["accumulate", "compact_accumulate", "context_only", "no_text"])
async def test_other_response_modes_have_the_same_nodes(
    llama, scripted, question, ask, mode, monkeypatch
):
    llm = scripted()
    monkeypatch.setattr(Settings, "_llm", llm)  # two of them ask for it, and never use it
    engine = llama.as_query_engine(llm=llm, similarity_top_k=3, response_mode=mode)
    assert ids((await ask(engine, question)).source_nodes) == CHAIN


async def test_answers_cite_nodes_by_number(llama, scripted, question, ask):
    llm = scripted(("numbered sources", "The Unstrut [2]."))
    engine = CitationQueryEngine.from_args(llama, llm=llm, similarity_top_k=3)
    response = await ask(engine, question)
    assert str(response) == "The Unstrut [2]."
    numbered = [node.node.get_content() for node in response.source_nodes]
    assert [text.split(":")[0] for text in numbered] == ["Source 1", "Source 2", "Source 3"]
    assert [node.node.metadata["file"] for node in response.source_nodes] == CHAIN
    assert "Unstrut" in numbered[1]
    assert not any("hipporag_" in prompt for prompt in llm.asked)


async def test_a_synthesizer_takes_what_was_found(llama, scripted, question):
    synthesizer = get_response_synthesizer(llm=scripted(), response_mode="compact")
    found = llama.as_retriever(3).retrieve(question)
    assert ids(synthesizer.synthesize(question, found).source_nodes) == CHAIN
    assert ids((await synthesizer.asynthesize(question, found)).source_nodes) == CHAIN


# -- evaluation and workflows ----------------------------------------------------------------------


async def test_an_evaluator_counts_the_nodes_by_id(llama, vectors, question):
    def evaluator(retriever):
        names = ["hit_rate", "mrr", "recall"]
        return RetrieverEvaluator.from_metric_names(names, retriever=retriever)

    ours = await evaluator(llama.as_retriever(3)).aevaluate(question, expected_ids=CHAIN)
    assert ours.metric_vals_dict == {"hit_rate": 1.0, "mrr": 1.0, "recall": 1.0}
    dense = await evaluator(vectors.as_retriever(similarity_top_k=3)).aevaluate(
        question, expected_ids=CHAIN
    )
    assert dense.metric_vals_dict["recall"] < 1.0


async def test_a_step_of_a_workflow_awaits_the_retriever(llama, question):
    class Lookup(Workflow):
        @step
        async def look_up(self, event: StartEvent) -> StopEvent:
            return StopEvent(result=await llama.as_retriever(3).aretrieve(event.query))

    assert ids(await Lookup(timeout=10).run(query=question)) == CHAIN
