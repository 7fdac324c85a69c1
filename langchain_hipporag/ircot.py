"""IRCoT as a LangChain retriever: a thought and a retrieval in turns, over one memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from pydantic import Field, SkipValidation

from hippo_core import ChatModel, Ending, IterativeRetrieval, ModelRequiredError, Where
from langchain_hipporag._events import IRCOT, about_ircot
from langchain_hipporag._models import LangChainChatModel, as_chat_model
from langchain_hipporag.retriever import HippoRAGRetriever

_logger = logging.getLogger(__name__)

_GONE_WRONG = (Ending.FAILED, Ending.UNREADABLE)


class IRCoTRetriever(HippoRAGRetriever):
    """Retrieve in steps: the chat model thinks over what was found, and its thought is next.

    For questions that one retrieval does not answer. Each step after the first costs one chat
    completion and one retrieval.

    Key init args:
        hippo: The memory; that of another retriever is shared: `hippo=retriever.hippo`. The class
            methods of HippoRAGRetriever make a new one.
        k: How many documents each step finds, the chat model is shown, and a query gives.
        max_steps: Retrievals at the most, unless a query says otherwise; 1 asks for no thought.
        llm: Thinks, and judges linked triples, in place of the memory's own; it is for a memory
            of another retriever: the class methods take the memory's own by this name.
        where: As in HippoRAGRetriever, for every step; so is `include_triples`.

    Metadata have, beside score and rank of the merged steps, `hipporag_step`: the number of the
    step, from 1, in which the document ranks highest. Each query sends the custom event
    `hipporag_ircot`: of each step its thought, path, triples, documents and usage; why the last
    was the last; and the `answer`, if the chat model wrote one. Its runs are children of the
    retriever's.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> from hippo_core import Extraction, HippoConfig, Triple
    >>> from hippo_core.testing import HashEmbedder, TableOpenIE
    >>> table = {
    ...     "Ada met William.": Extraction(triples=(Triple("Ada", "met", "William"),)),
    ...     "William lives in Ockham.": Extraction(triples=(Triple("William", "is at", "Ockham"),)),
    ...     "Ockham is in Surrey.": Extraction(triples=(Triple("Ockham", "is in", "Surrey"),)),
    ... }
    >>> thoughts = ["William lives in Ockham; next is where Ockham is.", "Answer: Surrey"]
    >>> retriever = IRCoTRetriever.from_texts(
    ...     table,
    ...     llm=FakeListChatModel(responses=thoughts),
    ...     embeddings=HashEmbedder(),
    ...     openie=TableOpenIE(table),
    ...     config=HippoConfig(recognition_memory=False),
    ...     k=2,
    ... )
    >>> for document in retriever.invoke("In which county is the home of whom Ada met?"):
    ...     document.metadata["hipporag_step"], document.page_content
    (1, 'Ada met William.')
    (2, 'Ockham is in Surrey.')
    >>> retriever.close()
    """

    max_steps: int = Field(default=4, ge=1)
    llm: SkipValidation[Runnable[Any, Any] | ChatModel | None] = Field(
        default=None, repr=False, exclude=True
    )
    score_mode: Literal["relative"] = "relative"  # walks and cosines have no other in common

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        as_chat_model(self.llm)  # what is no model is refused now, not at the first query

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        yield from super().__repr_args__()
        yield "max_steps", self.max_steps

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
        max_steps: int | None = None,
    ) -> list[Document]:
        most = self.max_steps if max_steps is None else max_steps
        found = self.hippo.ircot(
            query,
            k=self.k if k is None else k,
            max_steps=most,
            explain=self.include_explanations,
            where=self.where if where is None else where,
            chat_model=self._thinker(run_manager.get_child(), most),
        )
        dispatch_custom_event(
            IRCOT, about_ircot(found), config={"callbacks": run_manager.get_child()}
        )
        return self._of_steps(found)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
        max_steps: int | None = None,
    ) -> list[Document]:
        most = self.max_steps if max_steps is None else max_steps
        found = await self.hippo.aircot(
            query,
            k=self.k if k is None else k,
            max_steps=most,
            explain=self.include_explanations,
            where=self.where if where is None else where,
            chat_model=self._thinker(run_manager.get_child(), most),
        )
        await adispatch_custom_event(
            IRCOT, about_ircot(found), config={"callbacks": run_manager.get_child()}
        )
        return self._of_steps(found)

    def _thinker(self, callbacks: Callbacks, max_steps: int) -> ChatModel | None:
        """Give the chat model of one query; None for the memory's own, as it is."""
        if self.llm is None:
            if self.hippo.chat_model is None and max_steps > 1:
                raise ModelRequiredError(
                    "IRCoTRetriever has a chat model think between its retrievals, and the memory "
                    "has none: pass llm=..., or max_steps=1 for a single retrieval"
                )
            return self._chat_model(callbacks)
        own = as_chat_model(self.llm)
        if isinstance(own, LangChainChatModel):
            return LangChainChatModel(own.runnable, callbacks)
        return own

    def _of_steps(self, found: IterativeRetrieval) -> list[Document]:
        if found.ended in _GONE_WRONG:
            _logger.warning("ended after %d steps: %s", len(found.steps), found.detail)
        documents = self._scored(found)
        for hit, document in zip(found, documents, strict=True):
            if "hipporag_rank" in document.metadata:
                document.metadata["hipporag_step"] = found.step_of[hit.passage.id]
        return documents
