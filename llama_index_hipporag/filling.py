"""Filling: nodes and documents are put into an index and taken back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.schema import BaseNode, Document, IndexNode
from llama_index.core.storage.docstore.types import BaseDocumentStore, RefDocInfo

from hippo_core import (
    Estimate,
    Extraction,
    HippoConfig,
    HippoRAG,
    IndexReport,
    OpenIE,
    Passage,
    Prices,
)
from llama_index_hipporag._batches import Batch, ids_of, listed
from llama_index_hipporag._convert import Reading, to_node
from llama_index_hipporag._docstore import Mirror
from llama_index_hipporag._events import telling_progress
from llama_index_hipporag._graph_store import PropertyGraphReport, StoredGraph, read_store
from llama_index_hipporag._known import Known
from llama_index_hipporag._options import AddOptions, add_options
from llama_index_hipporag._parsing import atransformed
from llama_index_hipporag._settings import SettingsChatModel
from llama_index_hipporag._struct import HippoRAGIndexStruct
from llama_index_hipporag._threads import in_thread
from llama_index_hipporag._turns import Turns

_logger = logging.getLogger(__name__)


class FillingIndex(BaseIndex[HippoRAGIndexStruct]):
    """An index as a thing that is filled: `HippoRAGIndex` adds the opening and the asking.

    What is written goes into the memory first, all or nothing, and then into the docstore, which
    LlamaIndex's own parts read.
    """

    index_struct_cls = HippoRAGIndexStruct
    hippo: HippoRAG
    _reading: Reading
    _turns: Turns
    _mirror: Mirror
    _is_judged: bool  # by a recognition memory of the user's

    # -- what is there ------------------------------------------------------------------------

    @property
    def query_config(self) -> HippoConfig | None:
        """Other settings for a query: where `Settings.llm` would judge, and nobody has set it."""
        chat = self.hippo.chat_model
        if self._is_judged or not isinstance(chat, SettingsChatModel) or chat.is_set:
            return None
        return replace(self.hippo.config, recognition_memory=False)

    @property
    def object_map(self) -> dict[str, Any]:
        """What index nodes refer to that is no node, by `index_id`; it ends with the process."""
        return self._object_map

    @property
    def docstore(self) -> BaseDocumentStore:
        """The storage context's docstore, with the nodes of a memory that was there before."""
        return self._mirror.docstore

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """The documents that the memory holds nodes of, with these and the first one's metadata."""
        found: dict[str, RefDocInfo] = {}
        for passage in self.hippo:
            if passage.source_id is not None:
                info = found.setdefault(passage.source_id, RefDocInfo())
                info.node_ids.append(passage.id)
                info.metadata = info.metadata or to_node(passage).metadata
        return found

    def get_nodes(self, node_ids: Sequence[str]) -> list[BaseNode]:
        """Give the nodes of ids as they were added; unknown ids are left out."""
        return [to_node(passage) for passage in self.hippo.get(node_ids)]

    # -- add ----------------------------------------------------------------------------------

    def insert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Index nodes, in one batch.

        The same node again is unchanged and costs nothing; the same id with other content is an
        update; a text that was read before is not read again, whatever its node is called. A node
        without text is skipped, and deleted where it had one.

        Args:
            nodes: One node is one passage.
            **insert_kwargs: `edges`: your own links, `Edge`s by node id and functions such as
                `MetadataEdges`; what `to_source` names is a document's id. `on_error`: what a node
                that cannot be read does: `raise`, with none of this call visible and all that was
                read kept; or `skip`, with a warning in the log. `progress`: called after each node
                that was read. `openie`: reads these nodes in place of the LLM. `budget`: what this
                call may cost; `estimate` tells before what it will.

        Raises:
            IndexingError: Nodes could not be read, and `on_error` is "raise".
            BudgetExceededError: The next call would go over the budget; what was read is kept, and
                inserting the same again goes on.
            InputError: A node cannot be used, such as for its metadata; nothing was done.
            ModelRequiredError: There is neither LLM nor `openie`.
            ModelError: The embeddings failed; what was read is kept.
        """
        options = add_options(insert_kwargs)
        with self._callback_manager.as_trace("insert_nodes"):
            self._put(Batch(nodes), options)

    async def ainsert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Do what `insert_nodes` does, without blocking the event loop."""
        options = add_options(insert_kwargs)
        with self._callback_manager.as_trace("ainsert_nodes"):
            await self._aput(Batch(nodes), options)

    def insert(self, document: Document, **insert_kwargs: Any) -> None:
        """Index a document's nodes; the keyword arguments are those of `insert_nodes`."""
        self.insert_documents([document], **insert_kwargs)

    async def ainsert(self, document: Document, **insert_kwargs: Any) -> None:
        """Do what `insert` does, without blocking the event loop."""
        await self.ainsert_documents([document], **insert_kwargs)

    def insert_documents(self, documents: Iterable[Document], **insert_kwargs: Any) -> None:
        """Index the nodes of documents, in one batch; otherwise as `insert`."""
        options = add_options(insert_kwargs)
        with self._callback_manager.as_trace("insert"):
            self._put(self._parsed(documents), options)

    async def ainsert_documents(self, documents: Iterable[Document], **insert_kwargs: Any) -> None:
        """Do what `insert_documents` does, without blocking the event loop."""
        options = add_options(insert_kwargs)
        with self._callback_manager.as_trace("ainsert"):
            await self._aput(await self._aparsed(documents), options)

    def insert_property_graph(self, store: PropertyGraphStore) -> PropertyGraphReport:
        """Index what a property graph store holds; no model reads anything.

        Each of the store's nodes is inserted whole, with the triples that were read out of it. A
        store keeps a triple for one node alone, also where several state it. Documents whose nodes
        are there count as indexed: `refresh_ref_docs` leaves them alone until they change.

        Returns:
            How much was taken over, and which triples were not; the log has these too.

        Raises:
            InputError: A node cannot be used, or there are triples and no node that they are of.
            ModelError: The embeddings failed; inserting the same store again goes on.
        """
        with self._callback_manager.as_trace("insert_property_graph"):
            graph = read_store(store)
            items = self._extracted(graph)
            told = graph.report(items)
            self._keep(self.hippo.add_extracted(items), graph.hashes)
        return told

    async def ainsert_property_graph(self, store: PropertyGraphStore) -> PropertyGraphReport:
        """Do what `insert_property_graph` does, without blocking the event loop."""
        with self._callback_manager.as_trace("ainsert_property_graph"):
            # By the store's sync methods: the async ones that it inherits block.
            graph = await asyncio.to_thread(read_store, store)
            items = await asyncio.to_thread(self._extracted, graph)
            told = graph.report(items)
            report = await self.hippo.aadd_extracted(items)
            await asyncio.to_thread(self._keep, report, graph.hashes)
        return told

    def estimate(
        self,
        nodes: Iterable[BaseNode],
        *,
        prices: Prices | None = None,
        openie: OpenIE | None = None,
    ) -> Estimate:
        """Say what inserting would cost, by what is there already; no model is called.

        Args:
            nodes: Documents, which are parsed as for `insert`, or nodes.
            prices: What a million tokens cost; without it the estimate has no `cost`.
            openie: As in `insert_nodes`.
        """
        given = list(nodes)
        parsed = self._parsed([node for node in given if isinstance(node, Document)]).nodes
        ready = [node for node in given if not isinstance(node, Document)]
        passages = self._passages(Batch([*parsed, *ready]))
        return self.hippo.estimate(passages, prices=prices, openie=openie)

    async def aestimate(
        self,
        nodes: Iterable[BaseNode],
        *,
        prices: Prices | None = None,
        openie: OpenIE | None = None,
    ) -> Estimate:
        """Do what `estimate` does, without blocking the event loop."""
        return await asyncio.to_thread(self.estimate, nodes, prices=prices, openie=openie)

    # -- replace ------------------------------------------------------------------------------

    def update_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Put a document's nodes in place of those it had; a failure leaves these."""
        options = add_options(update_kwargs)
        found = listed([document])
        with self._callback_manager.as_trace("update_ref_doc"), self._turns.at(ids_of(found)):
            self._replace(found, options)

    async def aupdate_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Do what `update_ref_doc` does, without blocking the event loop."""
        options = add_options(update_kwargs)
        found = listed([document])
        with self._callback_manager.as_trace("aupdate_ref_doc"):
            async with self._turns.aat(ids_of(found)):
                await self._areplace(found, options)

    def refresh_ref_docs(self, documents: Iterable[Document], **update_kwargs: Any) -> list[bool]:
        """Index the documents that are new or have changed, in one batch.

        A document whose nodes could not be read, or not in full, counts as changed. All of the
        memory's passages are looked at once. Two calls that replace one document do so one after
        the other.

        Returns:
            For each document, whether it was indexed.
        """
        options = add_options(update_kwargs)
        found = listed(documents)
        with self._callback_manager.as_trace("refresh_ref_docs"), self._turns.at(ids_of(found)):
            changed, flags = self._changed(found)
            self._replace(changed, options)
        return flags

    async def arefresh_ref_docs(
        self, documents: Iterable[Document], **update_kwargs: Any
    ) -> list[bool]:
        """Do what `refresh_ref_docs` does, without blocking the event loop."""
        options = add_options(update_kwargs)
        found = await in_thread(listed, documents)
        with self._callback_manager.as_trace("arefresh_ref_docs"):
            async with self._turns.aat(ids_of(found)):
                changed, flags = await asyncio.to_thread(self._changed, found)
                await self._areplace(changed, options)
        return flags

    # -- delete -------------------------------------------------------------------------------

    def delete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Delete nodes and all that no other uses, in one batch; unknown ids are left alone."""
        self.hippo.delete(node_ids)
        if delete_from_docstore:
            self._mirror.forget(list(node_ids))

    async def adelete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Do what `delete_nodes` does, without blocking the event loop."""
        await self.hippo.adelete(node_ids)
        if delete_from_docstore:
            # By the docstore's sync methods: its async one leaves the id among its document's.
            await asyncio.to_thread(self._mirror.forget, list(node_ids))

    def delete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Delete a document's nodes and all that no other uses; an unknown id is logged."""
        report = self.hippo.delete(source_id=ref_doc_id)
        if report.not_found:
            _logger.warning("the memory has no node of the document %r", ref_doc_id)
        if delete_from_docstore:
            self._mirror.forget_document(ref_doc_id)

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Do what `delete_ref_doc` does, without blocking the event loop."""
        report = await self.hippo.adelete(source_id=ref_doc_id)
        if report.not_found:
            _logger.warning("the memory has no node of the document %r", ref_doc_id)
        if delete_from_docstore:
            await asyncio.to_thread(self._mirror.forget_document, ref_doc_id)

    # -- what BaseIndex asks for, whose own methods are all replaced --------------------------

    def _build_index_from_nodes(
        self, nodes: Sequence[BaseNode], **build_kwargs: Any
    ) -> HippoRAGIndexStruct:
        self._insert(nodes, **build_kwargs)
        return self._index_struct

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        self._put(Batch(nodes), add_options(insert_kwargs))

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        self.delete_nodes([node_id])

    # -- parts --------------------------------------------------------------------------------

    def _parsed(self, documents: Iterable[Document]) -> Batch:
        found = listed(documents)
        hashes = {document.id_: document.hash for document in found}  # before they are changed
        nodes = run_transformations(found, self._transformations, show_progress=self._show_progress)
        return Batch(nodes, hashes)

    async def _aparsed(self, documents: Iterable[Document]) -> Batch:
        found = await in_thread(listed, documents)
        hashes = {document.id_: document.hash for document in found}
        nodes = await atransformed(found, self._transformations, show=self._show_progress)
        return Batch(nodes, hashes)

    def _passages(self, batch: Batch) -> list[Passage]:
        return self._reading.passages(map(self._alone, batch.nodes), batch.hashes)

    def _extracted(self, graph: StoredGraph) -> list[tuple[Passage, Extraction]]:
        return graph.extracted(self._passages(Batch(graph.nodes, graph.hashes)))

    def _alone(self, node: BaseNode) -> BaseNode:
        """Give a node without what it refers to, unless that is a node."""
        if not isinstance(node, IndexNode) or node.obj is None or isinstance(node.obj, BaseNode):
            return node
        self._object_map[node.index_id] = node.obj
        return node.model_copy(update={"obj": None})

    def _put(self, batch: Batch, options: AddOptions) -> None:
        passages = self._passages(batch)
        with telling_progress(options.get("progress"), show=self._show_progress) as progress:
            options["progress"] = progress
            with self._mirror.caught_up():
                report = self.hippo.add(passages, **options)
                self._keep(report, batch.hashes)
        if gone := _blank(passages, report):
            self.delete_nodes(gone, delete_from_docstore=True)

    async def _aput(self, batch: Batch, options: AddOptions) -> None:
        passages = await in_thread(self._passages, batch)
        with telling_progress(options.get("progress"), show=self._show_progress) as progress:
            options["progress"] = progress
            with self._mirror.caught_up():
                report = await self.hippo.aadd(passages, **options)
                await asyncio.to_thread(self._keep, report, batch.hashes)
        if gone := _blank(passages, report):
            await self.adelete_nodes(gone, delete_from_docstore=True)

    def _keep(self, report: IndexReport, hashes: Mapping[str, str]) -> None:
        """Tell the docstore what is in the memory now, and the log what is not whole."""
        unread = {**report.failed, **report.partial}
        if unread:
            _logger.warning(
                "%d nodes could not be read and %d only in part; insert or refresh them again to "
                "retry: %s",
                len(report.failed),
                len(report.partial),
                unread,
            )
        self._mirror.keep(report, hashes, unread)

    def _replace(self, documents: Iterable[Document], options: AddOptions) -> None:
        if not documents:
            return
        batch = self._parsed(documents)
        # The new ones first: what both say is read once, and a failure deletes nothing.
        stale = self._stale(batch)
        self._put(batch, options)
        self.delete_nodes(stale, delete_from_docstore=True)

    async def _areplace(self, documents: Iterable[Document], options: AddOptions) -> None:
        if not documents:
            return
        batch = await self._aparsed(documents)
        stale = await asyncio.to_thread(self._stale, batch)
        await self._aput(batch, options)
        await self.adelete_nodes(stale, delete_from_docstore=True)

    def _stale(self, batch: Batch) -> list[str]:
        """Give the ids of nodes that the documents of a batch have now, and not any more in it."""
        new = {node.node_id for node in batch.nodes}
        known = Known(self.hippo, batch.hashes)
        return [passage.id for passage in known.passages if passage.id not in new]

    def _changed(self, documents: Iterable[Document]) -> tuple[list[Document], list[bool]]:
        known = Known(self.hippo, {document.id_ for document in documents}).hashes()
        changed: dict[str, Document] = {}
        flags = []
        for document in documents:
            flags.append(known.get(document.id_) != document.hash)
            if flags[-1]:
                known[document.id_] = document.hash
                changed[document.id_] = document
        return list(changed.values()), flags


def _blank(passages: Iterable[Passage], report: IndexReport) -> list[str]:
    """Give the ids of nodes that have no text, and maybe had one before."""
    there = set(report.ids)
    return [passage.id for passage in passages if passage.id not in there]
