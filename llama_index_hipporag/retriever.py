"""HippoRAG as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from numbers import Integral
from typing import Any, Literal, Self, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation import get_dispatcher

from hippo_core import InputError, Retrieval, ScoredPassage
from llama_index_hipporag._convert import to_scored_node
from llama_index_hipporag._events import tell_retrieval
from llama_index_hipporag._filters import to_where
from llama_index_hipporag.filling import FillingIndex

ScoreMode = Literal["ppr", "relative"]

_dispatcher = get_dispatcher(__name__)


class HippoRAGRetriever(BaseRetriever):
    """Retrieve by a knowledge graph of your nodes and Personalized PageRank over it.

    `HippoRAGIndex.as_retriever` makes one, and documents the arguments. A query is linked to the
    graph by its `query_str`; its custom embedding strings, such as HyDE's, are compared with whole
    nodes. A ready embedding is not used: another retriever may have put it there.

    Each retrieval sends a HippoRAGRetrievalEvent to LlamaIndex's event handlers, inside of its
    span: the path that it took, what went wrong on it, the linked triples, and what it cost.
    """

    def __init__(
        self,
        index: FillingIndex,
        similarity_top_k: int = 5,
        filters: MetadataFilters | None = None,
        include_triples: bool = False,
        score_mode: ScoreMode = "relative",
        include_scores: bool = False,
        include_explanations: bool = False,
        *,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        k: Any = similarity_top_k
        if isinstance(k, bool) or not isinstance(k, Integral):
            raise InputError(f"similarity_top_k must be a whole number, got {similarity_top_k!r}")
        if score_mode not in get_args(ScoreMode):
            raise InputError(f"score_mode must be 'ppr' or 'relative', got {score_mode!r}")
        if similarity_top_k < 1:
            raise InputError(f"similarity_top_k must be at least 1, got {similarity_top_k}")
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self.object_map = index.object_map  # the index's own, which grows with it
        self.similarity_top_k = int(similarity_top_k)
        self._index = index
        self._where = to_where(filters)
        self._include_scores = include_scores
        self._include_triples = include_triples
        self._include_explanations = include_explanations
        self._score_mode = score_mode

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._index.hippo.retrieve(
            query_bundle.query_str,
            k=self.similarity_top_k,
            where=self._where,
            score_mode=self._score_mode,
            dense_queries=dense_queries(query_bundle),
            explain=self._include_explanations,
            config=self._index.query_config,
        )
        return self._nodes(found)

    @_dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = await self._index.hippo.aretrieve(
            query_bundle.query_str,
            k=self.similarity_top_k,
            where=self._where,
            score_mode=self._score_mode,
            dense_queries=dense_queries(query_bundle),
            explain=self._include_explanations,
            config=self._index.query_config,
        )
        return self._nodes(found)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy(self)  # of the same index

    def _nodes(self, found: Retrieval) -> list[NodeWithScore]:
        tell_retrieval(found)
        return self._scored(found)

    def _scored(self, hits: Iterable[ScoredPassage]) -> list[NodeWithScore]:
        return [
            to_scored_node(
                hit, include_scores=self._include_scores, include_triples=self._include_triples
            )
            for hit in hits
        ]


def dense_queries(query_bundle: QueryBundle) -> list[str] | None:
    """Give the custom embedding strings, of which a model may have left some blank."""
    given = query_bundle.custom_embedding_strs or ()
    return [text for text in given if text.strip()] or None
