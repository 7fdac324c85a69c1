"""HippoRAG as a LlamaIndex index that owns its memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.llms.utils import LLMType
from llama_index.core.schema import BaseNode, Document, IndexNode, TransformComponent
from llama_index.core.storage.storage_context import StorageContext
from llama_index.core.vector_stores.types import MetadataFilters

from hippo_core import Budget, NotAStoreError
from llama_index_hipporag._docstore import Mirror
from llama_index_hipporag._engines import refuse_unknown
from llama_index_hipporag._events import OnProgress
from llama_index_hipporag._options import (
    Edges,
    MakingOptions,
    OnError,
    Options,
    split_options,
)
from llama_index_hipporag._parsing import default_transformations
from llama_index_hipporag._persisting import (
    forget_in,
    keep_with,
    let_go,
    opened_memory,
    saved,
    struct_of,
)
from llama_index_hipporag._struct import HippoRAGIndexStruct, register
from llama_index_hipporag._turns import Turns
from llama_index_hipporag.filling import FillingIndex
from llama_index_hipporag.retriever import HippoRAGRetriever

_OF_RETRIEVERS = (
    "similarity_top_k",
    "filters",
    "include_triples",
    "score_mode",
    "include_scores",
    "include_explanations",
    "verbose",
)


class HippoRAGIndex(FillingIndex):
    """Index by a knowledge graph of your nodes, and find what no single one says.

    An LLM reads each node once into triples; a question is linked to them, and Personalized
    PageRank from there reaches the nodes that complete the answer.

    Args:
        nodes: One node is one passage; `from_documents` parses documents into nodes.
        hippo: A memory that is there, in place of all that would open one. `index.hippo` is the
            index's own, for its upkeep: `verify()`, `purge()`, `backup(folder)`,
            `retry_failed()`, `reextract()`, `aliases`, or
            `reembed(LlamaIndexEmbedder(embed_model))`.
        llm: Reads the nodes, judges linked triples, and answers in engines; a LlamaIndex LLM, or a
            ChatModel of the core. None for `Settings.llm`, when it is needed: without one that
            was set nothing is judged. Set its own `max_retries` to 0: calls are retried here.
        embed_model: LlamaIndex's, or an Embedder of the core. None for `Settings.embed_model`.
        persist_directory: The memory's folder, or the URL of a PostgreSQL database; written at
            once, at each insert. None: the memory ends with the process, and `persist` copies it.
        namespace: Name of the memory inside the folder or database.
        config: Settings; the default is HippoRAG 2.
        openie: Reads the nodes in place of `llm`.
        recognition: Judges linked triples in place of `llm`.
        prompts: What `llm` is asked; None for our own words.
        snapshot_dir: Where a memory in a database keeps derived files; None for nowhere.
        extract_metadata_mode: Which metadata are read with a node's text; by default none, as
            paths and dates would become hubs of the graph.
        embed_metadata_mode: Which are embedded with it; by default those that a node lets be.
        metadata_encoder: Gives something made of JSON for a metadata value that is not, such as
            `str` for a date. Without it such a value is an error.
        edges: As in `insert_nodes`, for `nodes`; so are `on_error`, `progress` and `budget`.
        on_error: See there.
        progress: See there.
        budget: See there.
        index_struct: What a storage context keeps of an index; `load_index_from_storage` brings it.
        storage_context: Where LlamaIndex keeps nodes and index; a new one where it is None.
        objects: Index nodes with what they refer to: inserted as `nodes` are, or, where an index is
            loaded, what its nodes refer to.
        callback_manager: None for `Settings.callback_manager`.
        transformations: Make nodes of documents. None for `Settings.transformations`.
        show_progress: Whether to draw bars while nodes are parsed and read.

    Raises:
        InputError: `persist_directory` is neither folder nor URL.
        TypeError: `llm` or `embed_model` is neither LlamaIndex's nor the core's.
        ModelRequiredError: There is no embedding model, or nothing to read nodes with.
        NotAStoreError: `index_struct` is of an index whose memory is not there.
        StoreError: The memory cannot be used, or was filled with other embeddings.

    >>> from llama_index.core.schema import TextNode
    >>> from hippo_core import Extraction, Triple
    >>> from hippo_core.testing import HashEmbedder, TableOpenIE
    >>> table = {
    ...     "Ada married William.": Extraction(triples=(Triple("Ada", "married", "William"),)),
    ...     "William was born in Ockham.": Extraction(
    ...         triples=(Triple("William", "was born in", "Ockham"),)
    ...     ),
    ...     "Hippos swim.": Extraction(),
    ... }
    >>> index = HippoRAGIndex(
    ...     [TextNode(text=text) for text in table],
    ...     embed_model=HashEmbedder(), openie=TableOpenIE(table),
    ... )
    >>> retriever = index.as_retriever(similarity_top_k=2)
    >>> for found in retriever.retrieve("Where was the man whom Ada married born?"):
    ...     found.node.text
    'Ada married William.'
    'William was born in Ockham.'
    >>> index.close()
    """

    def __init__(
        self,
        nodes: Sequence[BaseNode] | None = None,
        *,
        index_struct: HippoRAGIndexStruct | None = None,
        storage_context: StorageContext | None = None,
        objects: Sequence[IndexNode] | None = None,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        show_progress: bool = False,
        **options: Unpack[MakingOptions],
    ) -> None:
        self._turns = Turns()
        adding, opening = split_options(options)
        opened = opened_memory(index_struct, opening)
        self.hippo = opened.hippo
        self._opened = opened
        self._reading = opened.reading
        self._is_judged = opening.get("recognition") is not None
        with self._undone_on_error(opened.struct if index_struct is None else None):
            super().__init__(
                index_struct=opened.struct,
                storage_context=storage_context,
                callback_manager=callback_manager,
                transformations=transformations,
                show_progress=show_progress,
            )
            self._object_map = {node.index_id: node.obj for node in objects or ()}
            keep_with(self._storage_context, opened, is_new=index_struct is None)
            others = len(self._storage_context.index_store.index_structs()) > 1
            self._mirror = Mirror(
                self._docstore,
                self.hippo,
                self._turns,
                is_shared=others,
                # Without a look into the docstore, which may be a large one on a server.
                is_behind=index_struct is not None or len(self.hippo) > 0,
            )
            given = [*(nodes or ()), *(objects or ())] if index_struct is None else nodes
            if given:
                self.insert_nodes(given, **adding)

    # -- make ---------------------------------------------------------------------------------

    @classmethod
    def from_documents(  # type: ignore[override]
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        *,
        edges: Edges | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        budget: Budget | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Open an index and insert documents, in one batch.

        An error keeps what was read only where there is a folder; without one, make an empty index
        and call `refresh_ref_docs`, which can be called again.

        Args:
            documents: What `transformations` make nodes of.
            storage_context: What the constructor takes, as do the next three.
            show_progress: See there.
            callback_manager: See there.
            transformations: See there.
            edges: As in `insert_nodes`, as are the next three.
            on_error: See there.
            progress: See there.
            budget: See there.
            **options: What the constructor takes to open a memory.
        """
        index = cls(
            storage_context=storage_context,
            show_progress=show_progress,
            callback_manager=callback_manager,
            transformations=transformations,
            **options,
        )
        with index._undone_on_error(index.index_struct):
            index.insert_documents(
                documents, edges=edges, on_error=on_error, progress=progress, budget=budget
            )
        return index

    @classmethod
    async def afrom_documents(
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        *,
        edges: Edges | None = None,
        on_error: OnError = "raise",
        progress: OnProgress | None = None,
        budget: Budget | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Do what `from_documents` does, without blocking the event loop."""
        making = partial(
            cls,
            storage_context=storage_context,
            show_progress=show_progress,
            callback_manager=callback_manager,
            transformations=transformations or await default_transformations(),
            **options,
        )
        index = await asyncio.to_thread(making)
        with index._undone_on_error(index.index_struct):
            await index.ainsert_documents(
                documents, edges=edges, on_error=on_error, progress=progress, budget=budget
            )
        return index

    @classmethod
    def from_property_graph_store(
        cls,
        store: PropertyGraphStore,
        storage_context: StorageContext | None = None,
        *,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        show_progress: bool = False,
        **options: Unpack[Options],
    ) -> Self:
        """Open an index and insert what a property graph store holds; no model reads anything.

        Args:
            store: Such as `PropertyGraphIndex(...).property_graph_store`.
            storage_context: What the constructor takes, as do the next three.
            callback_manager: See there.
            transformations: See there.
            show_progress: See there.
            **options: What the constructor takes to open a memory.
        """
        index = cls(
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations,
            show_progress=show_progress,
            **options,
        )
        with index._undone_on_error(index.index_struct):
            index.insert_property_graph(store)
        return index

    @classmethod
    async def afrom_property_graph_store(
        cls,
        store: PropertyGraphStore,
        storage_context: StorageContext | None = None,
        *,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        show_progress: bool = False,
        **options: Unpack[Options],
    ) -> Self:
        """Do what `from_property_graph_store` does, without blocking the event loop."""
        making = partial(
            cls,
            storage_context=storage_context,
            callback_manager=callback_manager,
            transformations=transformations,
            show_progress=show_progress,
            **options,
        )
        index = await asyncio.to_thread(making)
        with index._undone_on_error(index.index_struct):
            await index.ainsert_property_graph(store)
        return index

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str | Path,
        index_id: str | None = None,
        *,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        objects: Sequence[IndexNode] | None = None,
        show_progress: bool = False,
        **options: Unpack[Options],
    ) -> Self:
        """Open the index that was persisted into a folder; no model is called.

        Args:
            persist_dir: What `persist` was given.
            index_id: Which one, where there are several.
            callback_manager: What the constructor takes, as do the next three.
            transformations: See there.
            objects: See there.
            show_progress: See there.
            **options: What the constructor takes to open a memory; by default it is that in the
                folder, or else where the index was kept.

        Raises:
            NotAStoreError: There is no such index, or no memory.
        """
        try:
            context = StorageContext.from_defaults(persist_dir=str(persist_dir))
        except FileNotFoundError as error:
            raise NotAStoreError(
                f"no index was persisted into {persist_dir}: {error}; what was begun with "
                "persist_directory= is opened by HippoRAGIndex(persist_directory=...)"
            ) from error
        struct = struct_of(context, index_id, persist_dir)
        folder = Path(persist_dir) / struct.memory
        if options.get("hippo") is None and options.get("persist_directory") is None:
            options["persist_directory"] = folder if folder.exists() else None
        return cls(
            index_struct=struct,
            storage_context=context,
            callback_manager=callback_manager,
            transformations=transformations,
            objects=objects,
            show_progress=show_progress,
            **options,
        )

    # -- keep ---------------------------------------------------------------------------------

    def persist(self, persist_dir: str | Path) -> None:
        """Write what `from_persist_dir` reads: the storage context, and a copy of the memory.

        An earlier copy is replaced, with what another process may have inserted into it meanwhile.

        Raises:
            NotAStoreError: The folder holds another index's memory; nothing was written.
            StoreError: The copy cannot be made.
        """
        _ = self.docstore  # whose nodes are written
        with saved(self.storage_context, self._opened, Path(persist_dir)):
            self.storage_context.persist(persist_dir=str(persist_dir))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # one memory, one docstore

    def close(self) -> None:
        """Let go of the memory; one that was not persisted and has no folder is gone."""
        let_go(self._storage_context, self._opened)
        self.hippo.close()

    # -- ask ----------------------------------------------------------------------------------

    def as_retriever(
        self,
        similarity_top_k: int = 5,
        filters: MetadataFilters | None = None,
        include_triples: bool = False,
        score_mode: Literal["ppr", "relative"] = "relative",
        include_scores: bool = False,
        include_explanations: bool = False,
        verbose: bool = False,
        **kwargs: Any,
    ) -> HippoRAGRetriever:
        """Give a retriever.

        Args:
            similarity_top_k: How many nodes a query gives.
            filters: Which nodes are the corpus: others have no part in the ranking.
            include_triples: Whether a node brings the triples that explain why it is here, as
                `hipporag_triples` among its metadata. LlamaIndex fuses nodes whose metadata are
                equal: leave it out where several queries are fused.
            score_mode: `relative`: the best node has 1.0, so that a cutoff keeps it; `ppr`: the
                mass of the walk, which is small. Neither is a confidence.
            include_scores: Whether a node has `hipporag_score` and `hipporag_rank` among its
                metadata too, which a reranker leaves; not where several queries are fused.
            include_explanations: Whether a node has its score split by seed and by edge, and the
                strongest paths to it, as `hipporag_explanation`: an `Explanation` as a dict.
            verbose: Whether LlamaIndex prints what it does with index nodes.
            **kwargs: What LlamaIndex's engines take and hand on, and no retriever needs.

        Raises:
            InputError: `similarity_top_k` is below 1, or a filter has no counterpart in the core.
            TypeError: An argument is neither a retriever's nor an engine's.
        """
        refuse_unknown(kwargs, _OF_RETRIEVERS)
        return HippoRAGRetriever(
            self,
            similarity_top_k,
            filters,
            include_triples,
            score_mode,
            include_scores,
            include_explanations,
            callback_manager=self._callback_manager,
            verbose=verbose,
        )

    def as_query_engine(self, llm: LLMType | None = None, **kwargs: Any) -> BaseQueryEngine:
        """Give a query engine; `llm` is the index's own unless it is given."""
        return super().as_query_engine(llm=llm or self._opened.llm, **kwargs)

    def as_chat_engine(
        self, chat_mode: ChatMode = ChatMode.BEST, llm: LLMType | None = None, **kwargs: Any
    ) -> BaseChatEngine:
        """Give a chat engine; `llm` is the index's own unless it is given."""
        return super().as_chat_engine(chat_mode, llm=llm or self._opened.llm, **kwargs)

    # -- parts --------------------------------------------------------------------------------

    @contextmanager
    def _undone_on_error(self, struct: HippoRAGIndexStruct | None) -> Iterator[None]:
        """Close the index's own memory, and take a new struct out of its storage context."""
        try:
            yield
        except BaseException:
            if self._opened.is_own:
                self.hippo.close()
            context = getattr(self, "_storage_context", None)  # not before BaseIndex has begun
            if struct is not None and context is not None:
                forget_in(context, struct)
            raise


register(HippoRAGIndex)
