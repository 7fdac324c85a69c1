"""Answer a question that no single document answers, in a LangChain chain. Offline, no key.

Run: python examples/langchain_rag.py

With a server that speaks OpenAI's API: HIPPO_BASE_URL, HIPPO_MODEL, HIPPO_API_KEY, and
pip install "hippo-core[demo]".
"""

import os

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableParallel, RunnablePassthrough

from hippo_core import Extraction, Triple
from hippo_core.testing import HashEmbedder, TableOpenIE
from langchain_hipporag import HippoRAGRetriever

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

if "HIPPO_BASE_URL" in os.environ:
    from langchain_openai import ChatOpenAI

    from hippo_core.local import MiniLM

    llm = ChatOpenAI(
        base_url=os.environ["HIPPO_BASE_URL"],
        model=os.environ["HIPPO_MODEL"],
        api_key=os.environ.get("HIPPO_API_KEY", "none"),
        temperature=0,
        max_retries=0,
    )
    models = {"llm": llm, "embeddings": MiniLM()}
else:  # stand-ins: a script for the chat model, a table of what it would read, words for meaning
    llm = FakeListChatModel(responses=['{"keep": [1, 2]}', "The Unstrut."])
    openie = TableOpenIE({text: Extraction(triples=tuple(read)) for text, read in READ.items()})
    models = {"llm": llm, "embeddings": HashEmbedder(), "openie": openie}


def as_text(found: dict[str, list[Document]]) -> str:
    return "\n".join(document.page_content for document in found["context"])


retriever = HippoRAGRetriever.from_texts(READ, **models, k=3, include_triples=True)
prompt = ChatPromptTemplate.from_template(
    "Answer in a few words, out of these texts only.\n\n{context}\n\nQuestion: {question}"
)
answering = RunnablePassthrough.assign(context=as_text) | prompt | llm | StrOutputParser()
chain = RunnableParallel(context=retriever, question=RunnablePassthrough()).assign(answer=answering)

result = chain.invoke(QUESTION)
print(f"{QUESTION}\n{result['answer']}\n")
for document in result["context"]:
    why = "; ".join(" ".join(triple) for triple in document.metadata["hipporag_triples"])
    rank, score = document.metadata["hipporag_rank"], document.metadata["hipporag_score"]
    print(f"{rank}. {score:.3f}  {document.page_content}  <- {why}")
retriever.close()
