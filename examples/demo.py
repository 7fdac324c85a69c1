"""Multi-hop questions over 42 short passages, through LangChain: dense retrieval beside the graph.

Runs on this machine alone: spaCy reads the passages, MiniLM embeds them. With HIPPO_BASE_URL and
HIPPO_MODEL set (and HIPPO_API_KEY, where the endpoint wants one) a chat model behind any
OpenAI-compatible endpoint reads the passages, judges the linked triples and answers.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from tqdm import tqdm

from hippo_core import HippoConfig, HippoError, Progress, Retrieval, Triple
from hippo_core.local import MiniLM, SpacyOpenIE
from langchain_hipporag import HippoRAGRetriever

HERE = Path(__file__).parent
K = 5
COLUMN = 36  # characters
GRAPH = "hippo-core"
READING = ChatPromptTemplate.from_template(
    "Answer in a few words, out of these texts only.\n\n{context}\n\nQuestion: {question}"
)


@dataclass(frozen=True)
class Question:
    """A question and the passages that it takes to answer it."""

    text: str
    answer: str
    needs: tuple[str, ...]

    def answered_by(self, ids: list[str]) -> bool:
        """Whether all needed passages were found."""
        return set(self.needs) <= set(ids)


def documents() -> list[Document]:
    """Give the corpus as LangChain documents."""
    return [
        Document(row["text"], id=row["id"], metadata={"title": row["title"]})
        for row in _jsonl(HERE / "demo_corpus.jsonl")
    ]


def questions() -> list[Question]:
    """Give the questions."""
    return [
        Question(row["question"], row["answer"], tuple(row["needs"]))
        for row in _jsonl(HERE / "demo_questions.jsonl")
    ]


def build(llm: Any = None) -> HippoRAGRetriever:
    """Index the corpus, read by the chat model or, without one, by spaCy."""
    # On a terminal only; nothing is drawn into a file.
    with tqdm(desc="Reading", unit=" passages", leave=False, disable=None) as bar:
        return HippoRAGRetriever.from_documents(
            documents(),
            llm=llm,
            embeddings=MiniLM(),
            openie=None if llm else SpacyOpenIE(),
            config=HippoConfig(second_hop=3),  # the questions take up to three steps
            k=K,
            include_triples=True,
            progress=partial(show, bar),
        )


def show(bar: tqdm[Any], progress: Progress) -> None:
    """Draw how far the reading is, and what it has cost."""
    bar.total = progress.total
    bar.set_postfix(failed=progress.failed, tokens=progress.usage.tokens, refresh=False)
    bar.update(progress.done - bar.n)


def dense(retriever: HippoRAGRetriever, question: Question) -> Retrieval:
    """Rank by embeddings alone, over the same index."""
    return retriever.hippo.retrieve(question.text, k=K, config=HippoConfig.dense())


def main() -> int:
    """Print every question, both rankings and the count."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack letters of the texts
        sys.stdout.reconfigure(errors="backslashreplace")
    started = time.perf_counter()
    llm = _chat_model()
    try:
        retriever = build(llm)
    except HippoError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error
    stats = retriever.hippo.stats()
    print(
        f"Indexed {stats.passages} passages in {time.perf_counter() - started:.1f} s: "
        f"{stats.phrases} phrases, {stats.triples} triples, {stats.synonymy_edges} synonymy edges."
    )
    print(f"Read by {os.environ['HIPPO_MODEL'] if llm else 'spaCy'}, embedded by MiniLM.")
    found = {"dense": 0, GRAPH: 0}
    missed = []
    asked = questions()
    for number, question in enumerate(asked, start=1):
        by_dense = [hit.passage.id for hit in dense(retriever, question)]
        documents_ = retriever.invoke(question.text)
        by_graph = [str(document.id) for document in documents_]
        found["dense"] += question.answered_by(by_dense)
        found[GRAPH] += question.answered_by(by_graph)
        if not question.answered_by(by_graph):
            missed.append((number, question, set(question.needs) - set(by_graph)))
        _print_question(number, question, by_dense, documents_)
        if llm:
            print(f"   answer of the model: {_answer(llm, question, documents_)}")
    _print_summary(found, missed, len(asked))
    print(f"\n{time.perf_counter() - started:.1f} s in all.")
    return 0


def _answer(llm: Any, question: Question, context: list[Document]) -> str:
    texts = "\n\n".join(f"{d.metadata['title']}\n{d.page_content}" for d in context)
    chain = READING | llm | StrOutputParser()
    return str(chain.invoke({"context": texts, "question": question.text})).strip()


def _print_question(
    number: int, question: Question, by_dense: list[str], by_graph: list[Document]
) -> None:
    print(f"\n{number}. {question.text}\n   expected answer: {question.answer}")
    print(f"   {'dense':<{COLUMN}}{GRAPH}")
    for left, document in zip(by_dense, by_graph, strict=True):
        right = str(document.id)
        print(f"   {_marked(left, question):<{COLUMN}}{_marked(right, question)}")
    print("   brought up by")
    for document in by_graph:
        if document.id in question.needs:
            triples = (" - ".join(Triple(*t)) for t in document.metadata["hipporag_triples"])
            print(f"      {document.id}: {'; '.join(triples)}")


def _marked(id_: str, question: Question) -> str:
    return f"{'+' if id_ in question.needs else ' '} {id_}"


def _print_summary(
    found: dict[str, int], missed: list[tuple[int, Question, set[str]]], asked: int
) -> None:
    print(f"\nAll needed passages among the first {K} (marked +):")
    for system, count in found.items():
        print(f"   {system:<12}{count:>3} of {asked} questions")
    print(f"\nMissed by {GRAPH}: {len(missed)}")
    for number, question, lacking in missed:
        print(f"   {number}. {question.text}  lacks {', '.join(sorted(lacking))}")


def _chat_model() -> Any:
    """Give the chat model behind the configured endpoint, or None."""
    base_url, model = os.environ.get("HIPPO_BASE_URL"), os.environ.get("HIPPO_MODEL")
    if not base_url and not model:
        return None
    if not base_url or not model:
        raise SystemExit("set both HIPPO_BASE_URL and HIPPO_MODEL, or neither")
    from langchain_openai import ChatOpenAI

    key: Any = os.environ.get("HIPPO_API_KEY") or "none"
    # No retries of its own: hippo_core tries a call four times.
    return ChatOpenAI(base_url=base_url, model=model, api_key=key, temperature=0, max_retries=0)


def _jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
