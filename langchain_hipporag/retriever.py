"""HippoRAG as a LangChain retriever that owns its memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from numbers import Integral
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from pydantic import Field, SkipValidation, field_validator

from hippo_core import (
    Edge,
    EdgeFinder,
    Retrieval,
    ScoredPassage,
    Where,
    checked_where,
)
from langchain_hipporag._convert import to_scored_document
from langchain_hipporag._events import (
    RETRIEVAL,
    about_retrieval,
)
from langchain_hipporag._models import (
    LangChainEmbedder,
    model_name,
)
from langchain_hipporag.filling import FillingRetriever

OnError = Literal["raise", "skip"]
Edges = Iterable[Edge | EdgeFinder] | EdgeFinder

_logger = logging.getLogger(__name__)


class HippoRAGRetriever(FillingRetriever):
    """Retrieve by a knowledge graph of your documents and Personalized PageRank over it.

    It finds what no single passage says: a question is linked to triples that the chat model read
    out of the documents, and the walk from there reaches the passages that complete the answer.

    Setup:
        `pip install "hippo-core[langchain]"`, and the package of your models.

    Key init args:
        hippo: The memory, shared by all copies of the retriever; the class methods make one. Its
            upkeep is done on it: `retriever.hippo.verify()`, `purge()`, `backup(folder)`,
            `copy_to(store)`, `retry_failed()`, `reextract()`, `aliases`, or
            `reembed(LangChainEmbedder(embeddings))`.
        k: How many documents a query gives, unless it says otherwise.
        where: Which documents are the corpus, unless a query says otherwise: a filter of their
            metadata such as `{"year": {"$gte": 2020}}`, or a function of it; None for all.
        include_scores: Whether a document brings `hipporag_score` and `hipporag_rank`. Leave them
            out for what takes documents for the same by all of their metadata, such as
            MultiQueryRetriever: another query's score makes another document.
        include_triples: Whether a document brings the triples that explain why it is here.
        include_explanations: Whether it brings its score split by seed and by edge, and the
            strongest paths to it, as `hipporag_explanation`: an `Explanation` as a dict.
        score_mode: `relative`: the best document has 1.0, so that a cutoff keeps it; `ppr`: the
            mass of the walk, which is small. Neither is a confidence.
        title_key: The metadata key whose text is read and embedded before a document's content.
        metadata_encoder: Gives something made of JSON for a metadata value that is not, such as
            `str` for a date. Without it such a value is an error.

    Instantiate:
        One model object reads the documents and judges what a query is linked to; any chat model
        will do, and anything bound, retried or fallen back around one. Calls are retried here:
        set the model's own retries to 0.

        ```python
        retriever = HippoRAGRetriever.from_documents(
            documents, llm=llm, embeddings=embeddings, persist_directory="memory"
        )
        retriever = HippoRAGRetriever.load("memory", llm=llm, embeddings=embeddings)
        ```

        With stand-ins for the models, and a table in place of the chat model's reading:

        >>> from hippo_core import Extraction, Triple
        >>> from hippo_core.testing import HashEmbedder, TableOpenIE
        >>> married = Triple("Ada", "married", "William")
        >>> born = Triple("William", "was born in", "Ockham")
        >>> table = {
        ...     "Ada married William.": Extraction(triples=(married,)),
        ...     "William was born in Ockham.": Extraction(triples=(born,)),
        ...     "Hippos swim.": Extraction(),
        ... }
        >>> retriever = HippoRAGRetriever.from_texts(
        ...     table, embeddings=HashEmbedder(), openie=TableOpenIE(table), k=2
        ... )

    Usage:
        A document's id is its own, or a hash of its content; `source` in its metadata is kept as
        the passage's source. Metadata comes back as it went in, with `hipporag_score` and
        `hipporag_rank`. A blank query, or k below 1, is an InputError.

        >>> for document in retriever.invoke("Where was the man whom Ada married born?"):
        ...     document.metadata["hipporag_rank"], document.page_content
        (1, 'Ada married William.')
        (2, 'William was born in Ockham.')
        >>> len(retriever.invoke("Do hippos swim?", k=1))
        1

        A filter ranks as a memory of only the documents that it allows would. It sees metadata as
        it is stored: what `metadata_encoder` made of it, without `hipporag_score` and the like.
        A query's filter takes the place of the retriever's, and `{}` allows all.

        >>> retriever.invoke("Do hippos swim?", where={"source": "no such"})
        []

        A retriever whose memory is in a folder or on a server can be pickled: it opens the memory
        again where it is unpickled.

        Each retrieval sends the custom event `hipporag_retrieval`: the path that it took, what
        went wrong on it, the linked triples, and what it cost. Documents that are added inside of
        a run, such as in a chain or a tool, send `hipporag_progress` after each that was read:
        `done`, `failed`, `total` and `usage`.

    Use within a chain:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_core.output_parsers import StrOutputParser
        >>> from langchain_core.prompts import ChatPromptTemplate
        >>> from langchain_core.runnables import RunnablePassthrough
        >>> def as_text(documents):
        ...     return " ".join(document.page_content for document in documents)
        >>> prompt = ChatPromptTemplate.from_template("{context} Question: {question}")
        >>> llm = FakeListChatModel(responses=["In Ockham."])
        >>> given = {"context": retriever | as_text, "question": RunnablePassthrough()}
        >>> chain = given | prompt | llm | StrOutputParser()
        >>> chain.invoke("Where was the man whom Ada married born?")
        'In Ockham.'
        >>> retriever.close()
    """

    k: int = Field(default=5, ge=1)
    where: SkipValidation[Where | None] = Field(default=None, exclude=True)
    include_scores: bool = True
    include_triples: bool = False
    include_explanations: bool = False
    score_mode: Literal["ppr", "relative"] = "relative"

    @field_validator("k", mode="before")
    @classmethod
    def _is_whole_number(cls, k: Any) -> int:
        """Refuse what a call refuses, and pydantic would make a number of: True, "3"."""
        if isinstance(k, bool) or not isinstance(k, Integral):
            raise ValueError(f"k must be a whole number of at least 1, got {k!r}")
        return int(k)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        checked_where(self.where)  # what is no filter is refused now, not at the first query
        if isinstance(self.where, Mapping):  # a later change of the caller's dict is not ours
            self.where = deepcopy(dict(self.where))

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        yield from (("memory", self.hippo), ("k", self.k), ("where", self.where))

    # -- read ---------------------------------------------------------------------------------

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
    ) -> list[Document]:
        found = self.hippo.retrieve(
            query,
            k=self.k if k is None else k,
            where=self.where if where is None else where,
            score_mode=self.score_mode,
            explain=self.include_explanations,
            chat_model=self._chat_model(run_manager.get_child()),
        )
        dispatch_custom_event(
            RETRIEVAL, about_retrieval(found), config={"callbacks": run_manager.get_child()}
        )
        return self._documents(found)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
    ) -> list[Document]:
        found = await self.hippo.aretrieve(
            query,
            k=self.k if k is None else k,
            where=self.where if where is None else where,
            score_mode=self.score_mode,
            explain=self.include_explanations,
            chat_model=self._chat_model(run_manager.get_child()),
        )
        await adispatch_custom_event(
            RETRIEVAL, about_retrieval(found), config={"callbacks": run_manager.get_child()}
        )
        return self._documents(found)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        embedder = self.hippo.embedder
        embeddings = embedder.innermost if isinstance(embedder, LangChainEmbedder) else embedder
        params["ls_embedding_provider"] = type(embeddings).__name__
        if name := model_name(embeddings):
            params["ls_embedding_model"] = name
        return params

    # -- parts --------------------------------------------------------------------------------

    def _documents(self, found: Retrieval) -> list[Document]:
        if found.detail:
            _logger.warning("retrieved on the path %r: %s", found.path.value, found.detail)
        return self._scored(found)

    def _scored(self, hits: Iterable[ScoredPassage]) -> list[Document]:
        return [
            to_scored_document(
                hit, include_scores=self.include_scores, include_triples=self.include_triples
            )
            for hit in hits
        ]
