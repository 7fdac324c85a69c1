"""What agents do with a retriever: call it as a tool, and keep its documents in checkpoints."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import create_retriever_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import Field

from hippo_core import ContextTooLongError, TransientModelError
from langchain_hipporag import hipporag_tool

CHAIN = ["bridge", "town", "roebling"]


class ToolCaller(GenericFakeChatModel):
    """Says what it is told to say, whatever tools it is given."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ToolCaller":
        return self


def caller(*queries, tool="search"):
    """Calls the tool with one query after the other, then answers."""
    calls = [
        {"name": tool, "args": {"query": query}, "id": str(n), "type": "tool_call"}
        for n, query in enumerate(queries)
    ]
    replies = [AIMessage(content="", tool_calls=[call]) for call in calls]
    return ToolCaller(messages=iter([*replies, AIMessage(content="The Unstrut.")]))


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


def told(state):
    """What the agent was told by its tools."""
    return [m for m in state["messages"] if isinstance(m, ToolMessage)]


def assert_searched(state):
    (found,) = told(state)
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


def test_langchains_own_tool_gives_the_agent_no_ids_but_texts(retriever, question):
    tool = create_retriever_tool(retriever, "search", "Search the corpus.")
    state = create_agent(caller(question), tools=[tool]).invoke(asking(question))
    (found,) = told(state)
    assert found.content == "\n\n".join(d.page_content for d in retriever.invoke(question))


def test_documents_stay_whole_in_a_checkpoint(tool, question):
    agent = create_agent(caller(question), tools=[tool], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke(asking(question), thread)
    state = agent.get_state(thread).values
    (found,) = told(state)
    found.artifact = [Document(**kept) for kept in found.artifact]  # LangGraph keeps dicts
    assert_searched(state)


def test_found_documents_survive_langgraphs_serializer(retriever, question):
    found = retriever.model_copy(update={"include_triples": True}).invoke(question)
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(found)) == found


# -- our own tool ----------------------------------------------------------------------------------


class Listed(BaseRetriever):
    """Finds a list of documents; says whether it was asked natively."""

    found: list[Document]
    asked: list[str] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.asked.append("sync")
        return self.found

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.asked.append("async")
        return self.found


class Failing(BaseRetriever):
    error: Exception

    model_config = {"arbitrary_types_allowed": True}

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise self.error


def agent_of(retriever, *queries):
    model = caller(*queries, tool="search_documents")
    return create_agent(model, tools=[hipporag_tool(retriever)])


def assert_looked_up(state, retriever, question):
    (found,) = told(state)
    documents = retriever.invoke(question)
    assert [document.id for document in documents] == CHAIN
    assert found.artifact == documents
    assert found.content == "\n\n".join(f"[{d.id}]\n{d.page_content}" for d in documents)
    assert found.status == "success"
    assert state["messages"][-1].content == "The Unstrut."


def test_an_agent_sees_ids_and_texts_best_first(retriever, question):
    state = agent_of(retriever, question).invoke(asking(question))
    assert_looked_up(state, retriever, question)


async def test_an_async_agent_sees_the_same(retriever, question):
    state = await agent_of(retriever, question).ainvoke(asking(question))
    assert_looked_up(state, retriever, question)


async def test_the_tool_is_async_all_the_way():
    listed = Listed(found=[])
    tool = hipporag_tool(listed)
    assert tool.invoke({"query": "Who?"}) == "Nothing was found."
    assert await tool.ainvoke({"query": "Who?"}) == "Nothing was found."
    assert listed.asked == ["sync", "async"]


def test_the_agent_gives_a_query_and_nothing_else(retriever):
    tool = hipporag_tool(retriever, name="lookup", description="Look it up.")
    assert (tool.name, tool.description) == ("lookup", "Look it up.")
    assert list(tool.tool_call_schema.model_json_schema()["properties"]) == ["query"]


def test_a_title_is_said_before_a_documents_text():
    titled = Document("He was born in Dijon.", id="a", metadata={"title": "Eiffel", "name": "G."})
    bare = Document("He built a tower.", metadata={"title": ""})
    listed = Listed(found=[titled, bare])
    said = hipporag_tool(listed).invoke({"query": "Who?"})
    assert said == "[a]\ntitle: Eiffel\n\nHe was born in Dijon.\n\nHe built a tower."
    by_name = hipporag_tool(listed, title_key="name").invoke({"query": "Who?"})
    assert by_name == said.replace("title: Eiffel", "name: G.")
    untitled = hipporag_tool(listed, title_key=None).invoke({"query": "Who?"})
    assert untitled == "[a]\nHe was born in Dijon.\n\nHe built a tower."


def test_whatever_retrieves_can_be_a_tool(retriever, question):
    call = {"name": "t", "args": {"query": question}, "id": "1", "type": "tool_call"}
    message = hipporag_tool(retriever.bind(k=1)).invoke(call)
    assert [document.id for document in message.artifact] == ["bridge"]
    chain = RunnableLambda(str.casefold) | retriever
    assert [document.id for document in hipporag_tool(chain).invoke(call).artifact] == CHAIN


async def test_the_retrievers_run_is_a_child_of_the_tools(retriever, question, tracer):
    tool = hipporag_tool(retriever)
    config = {"callbacks": [tracer], "tags": ["mine"]}
    tool.invoke({"query": question}, config)
    await tool.ainvoke({"query": question}, config)
    assert len(tracer.roots) == 2
    for root in tracer.roots:
        (child,) = root.child_runs
        assert (root.run_type, child.run_type) == ("tool", "retriever")
        assert child.inputs == {"query": question}
        assert "mine" in child.tags
        assert [run.run_type for run in child.child_runs] == ["llm"]
    assert tracer.counts == {"start": 2, "end": 2}


async def test_a_query_that_cannot_be_used_is_told_to_the_agent_which_goes_on(retriever, question):
    states = [
        agent_of(retriever, " ", question).invoke(asking(question)),
        await agent_of(retriever, " ", question).ainvoke(asking(question)),
    ]
    for state in states:
        refused, found = told(state)
        assert (refused.status, found.status) == ("error", "success")
        assert refused.content == "the query must be text that is not blank, got ' '"
        assert refused.artifact is None
        assert [document.id for document in found.artifact] == CHAIN


@pytest.mark.parametrize("query", [None, 7, ["Who?"], {"text": "Who?"}])
def test_a_query_that_is_no_text_is_told_to_the_agent(retriever, query):
    (refused,) = told(agent_of(retriever, query).invoke(asking("Who?")))
    assert refused.status == "error"
    assert "query" in refused.content


def test_a_query_that_is_too_long_for_the_embedder_is_told_to_the_agent():
    failing = Failing(error=ContextTooLongError("512 tokens at most"))
    (refused,) = told(agent_of(failing, "Who?").invoke(asking("Who?")))
    assert (refused.status, refused.content) == ("error", "512 tokens at most")


@pytest.mark.parametrize("error", [TransientModelError("503"), TypeError("ours")])
def test_what_no_other_query_can_mend_is_raised(error):
    agent = agent_of(Failing(error=error), "Who?")
    with pytest.raises(type(error)):
        agent.invoke(asking("Who?"))
