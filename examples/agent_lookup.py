"""Give an agent of LangChain, and one of LlamaIndex, the memory as a tool. Offline, no key.

Run: python examples/agent_lookup.py

Each framework that is installed: pip install "hippo-core[langchain]" langchain, or
pip install "hippo-core[llama-index]". With a server that speaks OpenAI's API: HIPPO_BASE_URL,
HIPPO_MODEL, HIPPO_API_KEY, and the extra `local` with langchain-openai, or with
llama-index-llms-openai-like.
"""

import asyncio
import os
from typing import Any

from hippo_core import Extraction, Triple
from hippo_core.testing import HashEmbedder, TableOpenIE

QUESTION = "Which river flows through the birthplace of the man who designed the Brooklyn Bridge?"

CORPUS = {
    "bridge": "The Brooklyn Bridge was designed by John Roebling.",
    "roebling": "John Roebling, an engineer, was born in Mühlhausen.",
    "town": "Through Mühlhausen, an old imperial city, flows the Unstrut, a river.",
    "forth": "The birthplace of the designer of the Forth Bridge is Frome.",
    "hippos": "Hippos swim in the Nile, a river.",
}
READ = {
    "bridge": Triple("Brooklyn Bridge", "was designed by", "John Roebling"),
    "roebling": Triple("John Roebling", "was born in", "Mühlhausen"),
    "town": Triple("Unstrut", "flows through", "Mühlhausen"),
    "forth": Triple("Benjamin Baker", "comes from", "Frome"),
    "hippos": Triple("Hippos", "swim in", "Nile"),
}


async def langchain() -> tuple[str, list[str]]:
    """Give the answer of LangChain's agent, and the ids of what it was told."""
    from langchain.agents import create_agent
    from langchain_core.messages import ToolMessage

    from langchain_hipporag import HippoRAGRetriever, hipporag_tool

    llm, models = langchain_models()
    texts, ids = list(CORPUS.values()), list(CORPUS)
    retriever = HippoRAGRetriever.from_texts(texts, ids=ids, k=3, **models)

    tool = hipporag_tool(retriever)
    agent = create_agent(llm, tools=[tool])

    state = await agent.ainvoke({"messages": [("user", QUESTION)]})
    retriever.close()
    told = [m.artifact or [] for m in state["messages"] if isinstance(m, ToolMessage)]
    seen = [str(document.id) for documents in told for document in documents]
    return state["messages"][-1].text, seen


async def llama_index() -> tuple[str, list[str]]:
    """Give the answer of LlamaIndex's agent, and the ids of what it was told."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.schema import TextNode

    from llama_index_hipporag import HippoRAGIndex, hipporag_tool

    llm, models = llama_index_models()
    index = HippoRAGIndex([TextNode(id_=id_, text=text) for id_, text in CORPUS.items()], **models)

    tool = hipporag_tool(index.as_retriever(similarity_top_k=3))
    agent = FunctionAgent(tools=[tool], llm=llm)

    output = await agent.run(QUESTION)
    index.close()
    told = [call.tool_output.raw_output for call in output.tool_calls]
    seen = [found.node_id for nodes in told if isinstance(nodes, list) for found in nodes]
    return str(output), seen


# -- models: those behind the endpoint, or stand-ins -----------------------------------------------

ENDPOINT = os.environ.get("HIPPO_BASE_URL")
MODEL = os.environ.get("HIPPO_MODEL", "")
KEY: Any = os.environ.get("HIPPO_API_KEY") or "none"
STAND_INS = {
    "openie": TableOpenIE({CORPUS[id_]: Extraction(triples=(READ[id_],)) for id_ in CORPUS})
}
CALL = {"name": "search_documents", "args": {"query": QUESTION}, "id": "1"}
ANSWER = "The Unstrut."


def langchain_models() -> tuple[Any, dict[str, Any]]:
    if ENDPOINT:
        from langchain_openai import ChatOpenAI

        from hippo_core.local import MiniLM

        llm = ChatOpenAI(base_url=ENDPOINT, model=MODEL, api_key=KEY, temperature=0, max_retries=0)
        return llm, {"llm": llm, "embeddings": MiniLM()}

    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":
            return self

    script = [AIMessage("", tool_calls=[CALL]), AIMessage(ANSWER)]
    return Scripted(messages=iter(script)), {"embeddings": HashEmbedder(), **STAND_INS}


def llama_index_models() -> tuple[Any, dict[str, Any]]:
    if ENDPOINT:
        from llama_index.llms.openai_like import OpenAILike

        from hippo_core.local import MiniLM

        llm = OpenAILike(
            api_base=ENDPOINT,
            model=MODEL,
            api_key=KEY,
            is_chat_model=True,
            is_function_calling_model=True,
            temperature=0,
            max_retries=0,
        )
        return llm, {"llm": llm, "embed_model": MiniLM()}

    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    call = ToolCallBlock(tool_name=CALL["name"], tool_kwargs=CALL["args"], tool_call_id=CALL["id"])
    script = iter(
        [
            ChatMessage(role="assistant", blocks=[call]),
            ChatMessage(role="assistant", content=ANSWER),
        ]
    )
    llm = MockFunctionCallingLLM(response_generator=lambda messages, **_: next(script))
    return llm, {"embed_model": HashEmbedder(), **STAND_INS}


print(QUESTION)
for name, ask in {"LangChain": langchain, "LlamaIndex": llama_index}.items():
    try:
        answer, seen = asyncio.run(ask())
    except ImportError as error:
        print(f"\n{name}: not run, {error}")
        continue
    print(f"\n{name}: {answer}")
    for rank, id_ in enumerate(seen, start=1):
        print(f"{rank}. [{id_}] {CORPUS[id_]}")
