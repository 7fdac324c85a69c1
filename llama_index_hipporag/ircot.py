"""IRCoT as a LlamaIndex retriever: a thought and a retrieval in turns, over one index."""

from __future__ import annotations

import logging

from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation import get_dispatcher

from hippo_core import ChatModel, Ending, InputError, IterativeRetrieval, ModelRequiredError
from llama_index_hipporag._events import tell_ircot
from llama_index_hipporag._models import as_chat_model
from llama_index_hipporag.filling import FillingIndex
from llama_index_hipporag.retriever import HippoRAGRetriever, dense_queries

_dispatcher = get_dispatcher(__name__)
_logger = logging.getLogger(__name__)

_GONE_WRONG = (Ending.FAILED, Ending.UNREADABLE)


class IRCoTRetriever(HippoRAGRetriever):
    """Retrieve in steps: the LLM thinks over what was found, and its thought is searched for next.

    For questions that one retrieval does not answer. Each step after the first costs one completion
    of the index's LLM and one retrieval. A query's custom embedding strings, such as HyDE's, stand
    for it in the first step.

    Each retrieval sends a HippoRAGIRCoTEvent to LlamaIndex's event handlers, inside of its span: of
    each step its thought, path, triples, nodes and usage; why the last was the last; and the
    answer, if the LLM wrote one. With `include_scores` metadata have `hipporag_step` beside score
    and rank: the number of the step, from 1, in which the node ranks highest.

    Args:
        index: A HippoRAGIndex.
        similarity_top_k: How many nodes each step finds, the LLM is shown, and a query gives.
        max_steps: Retrievals at the most; 1 asks for no thought.
        filters: Which nodes are the corpus, in every step.
        include_triples: Whether a node brings the triples that explain why it is here.
        include_scores: Whether it has score, rank and step among its metadata; not where several
            queries are fused.
        include_explanations: As in HippoRAGIndex.as_retriever, of the score in the node's own step.
        llm: Thinks, and judges linked triples, in place of the index's own LLM.
        callback_manager: None for the index's own.
        verbose: Whether LlamaIndex prints what it does with index nodes.

    Raises:
        InputError: A number is below 1, or a filter has no counterpart in the core.
        ModelRequiredError: Neither this nor the index has an LLM, and `max_steps` is above 1.
        TypeError: `llm` is neither LlamaIndex's nor the core's.

    >>> from llama_index.core.schema import TextNode
    >>> from hippo_core import Extraction, HippoConfig, Triple
    >>> from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE
    >>> from llama_index_hipporag import HippoRAGIndex
    >>> table = {
    ...     "Ada met William.": Extraction(triples=(Triple("Ada", "met", "William"),)),
    ...     "William lives in Ockham.": Extraction(triples=(Triple("William", "is at", "Ockham"),)),
    ...     "Ockham is in Surrey.": Extraction(triples=(Triple("Ockham", "is in", "Surrey"),)),
    ... }
    >>> thoughts = ["William lives in Ockham; next is where Ockham is.", "Answer: Surrey"]
    >>> index = HippoRAGIndex(
    ...     [TextNode(text=text) for text in table],
    ...     llm=ScriptedChatModel(thoughts),
    ...     embed_model=HashEmbedder(),
    ...     openie=TableOpenIE(table),
    ...     config=HippoConfig(recognition_memory=False),
    ... )
    >>> retriever = IRCoTRetriever(index, similarity_top_k=2, max_steps=3, include_scores=True)
    >>> for found in retriever.retrieve("In which county is the home of whom Ada met?"):
    ...     found.metadata["hipporag_step"], found.text
    (1, 'Ada met William.')
    (2, 'Ockham is in Surrey.')
    >>> index.close()
    """

    def __init__(
        self,
        index: FillingIndex,
        similarity_top_k: int = 5,
        max_steps: int = 4,
        filters: MetadataFilters | None = None,
        include_triples: bool = False,
        include_scores: bool = False,
        include_explanations: bool = False,
        *,
        llm: LLM | ChatModel | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
            raise InputError(f"max_steps must be a whole number of at least 1, got {max_steps!r}")
        super().__init__(
            index,
            similarity_top_k,
            filters,
            include_triples,
            include_scores=include_scores,
            include_explanations=include_explanations,
            callback_manager=callback_manager or index._callback_manager,
            verbose=verbose,
        )
        self.max_steps = max_steps
        self._chat_model = as_chat_model(llm)
        if max_steps > 1 and (self._chat_model or index.hippo.chat_model) is None:
            raise ModelRequiredError(
                "IRCoTRetriever has an LLM think between its retrievals, and the index has none: "
                "pass llm=..., such as Settings.llm, or max_steps=1 for a single retrieval"
            )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._index.hippo.ircot(
            query_bundle.query_str,
            k=self.similarity_top_k,
            max_steps=self.max_steps,
            explain=self._include_explanations,
            where=self._where,
            dense_queries=dense_queries(query_bundle),
            config=self._index.query_config if self._chat_model is None else None,
            chat_model=self._chat_model,
        )
        return self._of_steps(found)

    @_dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._index.hippo.aircot(
            query_bundle.query_str,
            k=self.similarity_top_k,
            max_steps=self.max_steps,
            explain=self._include_explanations,
            where=self._where,
            dense_queries=dense_queries(query_bundle),
            config=self._index.query_config if self._chat_model is None else None,
            chat_model=self._chat_model,
        )
        return self._of_steps(found)

    def _of_steps(self, found: IterativeRetrieval) -> list[NodeWithScore]:
        tell_ircot(found)
        if found.ended in _GONE_WRONG:
            _logger.warning("ended after %d steps: %s", len(found.steps), found.detail)
        nodes = self._scored(found)
        for hit, scored in zip(found, nodes, strict=True):
            node = scored.node
            if "hipporag_rank" not in node.metadata:
                continue
            node.metadata = {**node.metadata, "hipporag_step": found.step_of[hit.passage.id]}
            for keys in (node.excluded_llm_metadata_keys, node.excluded_embed_metadata_keys):
                keys.append("hipporag_step")
        return nodes
