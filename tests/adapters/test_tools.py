"""The tools of both adapters say the same to an agent."""

from llama_index.core.schema import TextNode

import langchain_hipporag
import llama_index_hipporag
from langchain_hipporag import HippoRAGRetriever
from llama_index_hipporag import HippoRAGIndex


def test_both_tools_say_the_same_name_description_and_passages(
    documents, chat, embeddings, llama_chat, words, question, closing
):
    for document in documents:
        document.metadata = {"title": document.id.title()}
    documents[-1].metadata = {}
    # Titles that are neither read nor embedded, so that both rank alike.
    options = {"llm": chat, "embeddings": embeddings, "title_key": None, "k": 6}
    retriever = closing(HippoRAGRetriever.from_documents(documents, **options))
    excluded = {"excluded_embed_metadata_keys": ["title"]}
    nodes = [
        TextNode(id_=d.id, text=d.page_content, metadata=dict(d.metadata), **excluded)
        for d in documents
    ]
    index = closing(HippoRAGIndex(nodes, llm=llama_chat, embed_model=words))
    ours = langchain_hipporag.hipporag_tool(retriever)
    theirs = llama_index_hipporag.hipporag_tool(index.as_retriever(similarity_top_k=6))
    assert (ours.name, ours.description) == (theirs.metadata.name, theirs.metadata.description)
    assert ours.tool_call_schema.model_json_schema()["required"] == ["query"]
    assert theirs.metadata.get_parameters_dict()["required"] == ["query"]
    said = ours.invoke({"query": question})
    assert said.startswith("[bridge]\ntitle: Bridge\n\nThe Brooklyn Bridge")
    assert said == theirs.call(query=question).content
