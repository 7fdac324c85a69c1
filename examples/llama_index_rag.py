"""Answer a question that no single document answers, in a LlamaIndex query engine. Offline, no key.

Run: python examples/llama_index_rag.py

With a server that speaks OpenAI's API: HIPPO_BASE_URL, HIPPO_MODEL, HIPPO_API_KEY, and
pip install "hippo-core[llama-index,local]" llama-index-llms-openai-like.
"""

import os
from typing import Any

from llama_index.core import Document
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

from hippo_core import Extraction, Triple
from hippo_core.testing import HashEmbedder, TableOpenIE
from llama_index_hipporag import HippoRAGIndex

QUESTION = "Which river flows through the birthplace of the man who designed the Brooklyn Bridge?"

READ = {
    "The Brooklyn Bridge was designed by John Roebling.": [
        Triple("Brooklyn Bridge", "was designed by", "John Roebling")
    ],
    "John Roebling, an engineer, was born in Mühlhausen.": [
        Triple("John Roebling", "was born in", "Mühlhausen")
    ],
    "Through Mühlhausen, an old imperial city, flows the Unstrut, a river.": [
        Triple("Unstrut", "flows through", "Mühlhausen")
    ],
    "The birthplace of the designer of the Forth Bridge is Frome.": [
        Triple("Benjamin Baker", "comes from", "Frome")
    ],
    "Hippos swim in the Nile, a river.": [Triple("Hippos", "swim in", "Nile")],
}


class Scripted(CustomLLM):
    """Says one line after the other."""

    lines: list[str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.lines.pop(0))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)


if "HIPPO_BASE_URL" in os.environ:
    from llama_index.llms.openai_like import OpenAILike

    from hippo_core.local import MiniLM

    llm = OpenAILike(
        api_base=os.environ["HIPPO_BASE_URL"],
        model=os.environ["HIPPO_MODEL"],
        api_key=os.environ.get("HIPPO_API_KEY", "none"),
        is_chat_model=True,
        temperature=0,
        max_retries=0,
    )
    models = {"llm": llm, "embed_model": MiniLM()}
else:  # stand-ins: a script for the LLM, a table of what it would read, words for meaning
    llm = Scripted(lines=['{"keep": [1, 2]}', "The Unstrut."])
    openie = TableOpenIE({text: Extraction(triples=tuple(read)) for text, read in READ.items()})
    models = {"llm": llm, "embed_model": HashEmbedder(), "openie": openie}

documents = [Document(text=text) for text in READ]
index = HippoRAGIndex.from_documents(documents, **models)
engine = index.as_query_engine(similarity_top_k=3, include_triples=True)

response = engine.query(QUESTION)
print(f"{QUESTION}\n{response}\n")
for rank, found in enumerate(response.source_nodes, 1):
    why = "; ".join(" ".join(triple) for triple in found.metadata["hipporag_triples"])
    print(f"{rank}. {found.score:.3f}  {found.text}  <- {why}")
index.close()
