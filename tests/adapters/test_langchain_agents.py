"""What agents do with a retriever: call it as a tool, and keep its documents in checkpoints."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import create_retriever_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

CHAIN = ["bridge", "town", "roebling"]


class ToolCaller(GenericFakeChatModel):
    """Says what it is told to say, whatever tools it is given."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ToolCaller":
        return self


def caller(question):
    call = {"name": "search", "args": {"query": question}, "id": "1", "type": "tool_call"}
    replies = [AIMessage(content="", tool_calls=[call]), AIMessage(content="The Unstrut.")]
    return ToolCaller(messages=iter(replies))


@pytest.fixture
def tool(retriever):
    return create_retriever_tool(
        retriever.model_copy(update={"include_triples": True}),
        "search",
        "Search the corpus.",
        document_prompt=PromptTemplate.from_template(
            "{hipporag_rank}. {page_content} ({source}, {hipporag_score:.2f})"
        ),
        response_format="content_and_artifact",
    )


def assert_searched(state):
    (found,) = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert [document.id for document in found.artifact] == CHAIN
    assert found.content.startswith("1. The Brooklyn Bridge")
    assert "(bridge.txt, 1.00)" in found.content
    assert state["messages"][-1].content == "The Unstrut."


def asking(question):
    return {"messages": [{"role": "user", "content": question}]}


def test_an_agent_finds_documents_through_a_tool(tool, question):
    agent = create_agent(caller(question), tools=[tool])
    assert_searched(agent.invoke(asking(question)))


async def test_an_async_agent_does_too(tool, question):
    agent = create_agent(caller(question), tools=[tool])
    assert_searched(await agent.ainvoke(asking(question)))


def test_documents_stay_whole_in_a_checkpoint(tool, question):
    agent = create_agent(caller(question), tools=[tool], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke(asking(question), thread)
    state = agent.get_state(thread).values
    (found,) = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    found.artifact = [Document(**kept) for kept in found.artifact]  # LangGraph keeps dicts
    assert_searched(state)


def test_found_documents_survive_langgraphs_serializer(retriever, question):
    found = retriever.model_copy(update={"include_triples": True}).invoke(question)
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(found)) == found
