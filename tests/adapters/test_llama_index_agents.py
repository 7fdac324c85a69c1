"""What LlamaIndex's agents do with a retriever: ask it, in their own words, through a tool."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import QueryBundle

from llama_index_hipporag import hipporag_tool

# When one of LlamaIndex's agents is made and run, it uses what its own parts have deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning"),
]

CHAIN = ["bridge", "town", "roebling"]
ANSWER = "The Unstrut."


@pytest.fixture
def asked():
    """Queries as they reach the retriever."""
    return []


@pytest.fixture
def retriever(llama, asked):
    found = llama.as_retriever(similarity_top_k=3)
    inner = found._aretrieve

    async def listening(query_bundle: QueryBundle) -> Any:
        asked.append(query_bundle.query_str)
        return await inner(query_bundle=query_bundle)

    found._aretrieve = listening
    return found


async def results_of(agent, question):
    handler = agent.run(question)
    results = [
        event async for event in handler.stream_events() if isinstance(event, ToolCallResult)
    ]
    return str(await handler), results


async def assert_looked_up(agent, question, asked):
    answer, (result,) = await results_of(agent, question)
    assert answer == ANSWER
    assert asked == [question]
    output = result.tool_output
    assert [node.node_id for node in output.raw_output] == CHAIN
    assert output.content.startswith("[bridge]\n")
    assert "The Brooklyn Bridge was designed by John Roebling." in output.content
    assert "hipporag_" not in output.content
    assert output.raw_input["kwargs"] == {"query": question}


def function_agent(retriever, *queries):
    """Calls the tool with one query after the other, then answers."""
    calls = iter(
        ToolCallBlock(
            tool_call_id=str(n), tool_name="search_documents", tool_kwargs={"query": query}
        )
        for n, query in enumerate(queries)
    )

    def reply(messages: Any, **kwargs: Any) -> ChatMessage:
        for call in calls:
            return ChatMessage(role="assistant", blocks=[call])
        return ChatMessage(role="assistant", content=ANSWER)

    llm = MockFunctionCallingLLM(response_generator=reply)
    return FunctionAgent(tools=[hipporag_tool(retriever)], llm=llm)


async def test_a_function_agent_looks_things_up(retriever, question, asked):
    await assert_looked_up(function_agent(retriever, question), question, asked)


@pytest.mark.parametrize("query", [" ", None, 7, ["Who?"], {"text": "Who?"}])
async def test_a_query_that_cannot_be_used_is_told_to_the_agent_which_goes_on(
    llama, question, query
):
    agent = function_agent(llama.as_retriever(similarity_top_k=3), query, question)
    answer, (refused, found) = await results_of(agent, question)
    assert answer == ANSWER
    assert (refused.tool_output.is_error, found.tool_output.is_error) == (True, False)
    told = f"the query must be text that is not blank, got {query!r}"
    assert refused.tool_output.content == told
    assert [node.node_id for node in found.tool_output.raw_output] == CHAIN


async def test_a_react_agent_looks_things_up(retriever, question, asked):
    class Scripted(MockLLM):
        turn: int = 0

        def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
            self.turn += 1
            script = [
                "Thought: I need a tool.\nAction: search_documents\n"
                f'Action Input: {{"query": "{question}"}}',
                f"Thought: I can answer.\nAnswer: {ANSWER}",
            ]
            message = ChatMessage(role="assistant", content=script[self.turn - 1])
            yield ChatResponse(message=message, delta=message.content)

        async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
            async def stream() -> Any:
                for response in self.stream_chat(messages):
                    yield response

            return stream()

    agent = ReActAgent(tools=[hipporag_tool(retriever)], llm=Scripted())
    await assert_looked_up(agent, question, asked)


async def test_the_tool_may_be_called_either_way(llama, question):
    tool = hipporag_tool(llama.as_retriever(), name="lookup", description="Look it up.")
    assert (tool.metadata.name, tool.metadata.description) == ("lookup", "Look it up.")
    assert list(tool.metadata.get_parameters_dict()["properties"]) == ["query"]
    output = tool.call(query=question)
    awaited = await tool.acall(query=question)
    assert output.content == awaited.content
    assert output.raw_output == awaited.raw_output


def test_the_tool_says_that_nothing_was_found(llama_empty, question):
    assert hipporag_tool(llama_empty.as_retriever()).call(question).content == "Nothing was found."
