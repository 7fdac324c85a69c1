"""Our OpenIE as a transformation: for LlamaIndex's property graphs and ingestion pipelines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent

from hippo_core import (
    Budget,
    ChatModel,
    Extraction,
    HippoConfig,
    HippoRAG,
    InputError,
    ModelRequiredError,
    OpenIE,
    Passage,
    Prompts,
    Status,
    StoreError,
)
from llama_index_hipporag._events import OnProgress, telling_progress
from llama_index_hipporag._models import as_chat_model
from llama_index_hipporag._node_graph import text_of, with_graph
from llama_index_hipporag._settings import SettingsChatModel

_logger = logging.getLogger(__name__)


class HippoRAGExtractor(TransformComponent):
    """Read nodes into entities and relations, as one of a PropertyGraphIndex's `kg_extractors`.

    Each node comes back as a copy, with what was read beside what other extractors found. An
    entity's name is the memory's key of the phrase, capitalized as LlamaIndex's own extractors do
    it, so that "The Nile" and "the  Nile" are one entity, and a relation's label likewise; both
    have the node's metadata as properties.

    A node that cannot be read is an error, so that no cache has it as a node without triples. All
    that was read before is kept: running the same nodes again asks only for the rest. Nodes that
    were read are not paid for again either, so this also makes entities of what a pipeline's
    cache gives back as JSON.

    Args:
        llm: Reads the nodes; a LlamaIndex LLM, or a ChatModel of the core. None for `Settings.llm`
            when it is needed. Set its own `max_retries` to 0: calls are retried here.
        openie: Reads in its place, such as `SpacyOpenIE`.
        prompts: What the LLM is asked; None for our own words.
        extract_metadata_mode: Which metadata stand in the text that is read; none by default.
        persist_directory: Where what was read is kept, the folder or PostgreSQL URL of a memory;
            None: with this object, and no other process can use it.
        hippo: A memory that is there, in place of all that would open one, such as `index.hippo`:
            inserting the nodes there then pays for no reading. It is `extractor.hippo` in any case.
        num_workers: Nodes that are read at once, 8 by default.
        config: Settings of the memory, for its calls: `tries`, `call_timeout`, `context_limit`.
        show_progress: Whether to draw a bar; LlamaIndex does not hand its own wish on.

    >>> from hippo_core import Triple
    >>> from hippo_core.testing import TableOpenIE
    >>> from llama_index.core.schema import TextNode
    >>> text = "The Nile flows through Egypt."
    >>> flows = Extraction(triples=[Triple("The Nile", "flows through", "Egypt")])
    >>> extractor = HippoRAGExtractor(openie=TableOpenIE({text: flows}))
    >>> (node,) = extractor([TextNode(text=text)])
    >>> [(r.source_id, r.label, r.target_id) for r in node.metadata["relations"]]
    [('The nile', 'Flows through', 'Egypt')]
    >>> extractor.close()
    """

    extract_metadata_mode: MetadataMode = MetadataMode.NONE
    show_progress: bool = False
    _hippo: HippoRAG = PrivateAttr()
    _is_own: bool = PrivateAttr()

    def __init__(
        self,
        llm: LLM | ChatModel | None = None,
        *,
        openie: OpenIE | None = None,
        prompts: Prompts | None = None,
        extract_metadata_mode: MetadataMode = MetadataMode.NONE,
        persist_directory: str | Path | None = None,
        hippo: HippoRAG | None = None,
        num_workers: int | None = None,
        config: HippoConfig | None = None,
        show_progress: bool = False,
    ) -> None:
        super().__init__()
        self.extract_metadata_mode = MetadataMode(extract_metadata_mode)
        self.show_progress = show_progress
        self._is_own = hippo is None
        if hippo is not None:
            opening = (llm, openie, prompts, persist_directory, num_workers, config)
            if opening != (None,) * len(opening):
                raise InputError(
                    "hippo= has its own llm, openie, prompts, folder, num_workers and config: "
                    "leave these out"
                )
            self._hippo = hippo
            return
        settings = HippoConfig() if config is None else config
        self._hippo = HippoRAG(
            SettingsChatModel() if llm is None and openie is None else as_chat_model(llm),
            None,
            store=persist_directory,
            config=settings if num_workers is None else settings.but(concurrency=num_workers),
            openie=openie,
            prompts=prompts,
        )

    @classmethod
    def class_name(cls) -> str:
        """Name the component."""
        return "HippoRAGExtractor"

    @property
    def hippo(self) -> HippoRAG:
        """The memory that keeps what was read, for its `forget_pending()` and `estimate(...)`."""
        return self._hippo

    def __call__(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,
        *,
        progress: OnProgress | None = None,
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> list[BaseNode]:
        """Read nodes.

        Args:
            nodes: They stay as they are.
            show_progress: Whether to draw a bar.
            progress: Called after each node that was read.
            budget: What this call may cost; a pipeline hands it on: `pipeline.run(budget=...)`.
            **kwargs: What a pipeline hands on to other transformations.

        Raises:
            IndexingError: Nodes could not be read; what was read is kept.
            BudgetExceededError: The next call would go over the budget; what was read is kept.
            InputError: Two nodes have one id, or one has other metadata where the graph goes.
            ModelRequiredError: There is neither LLM nor `openie`.
        """
        passages = self._passages(nodes)
        show = show_progress or self.show_progress
        with telling_progress(progress, show=show) as tell:
            read = self._hippo.extract(passages, progress=tell, budget=budget)
        return _with_graphs(nodes, read)

    async def acall(
        self,
        nodes: Sequence[BaseNode],
        show_progress: bool = False,
        *,
        progress: OnProgress | None = None,
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> list[BaseNode]:
        """Do what a call does, without blocking the event loop."""
        passages = await asyncio.to_thread(self._passages, nodes)
        show = show_progress or self.show_progress
        with telling_progress(progress, show=show) as tell:
            read = await self._hippo.aextract(passages, progress=tell, budget=budget)
        return await asyncio.to_thread(_with_graphs, nodes, read)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Say all that the result depends on, for a pipeline's cache: who reads, and what."""
        try:
            extractor = self._hippo.extractor
        except ModelRequiredError:  # which reading will say
            extractor = None
        return {
            "class_name": self.class_name(),
            "extractor": extractor,
            "extract_metadata_mode": self.extract_metadata_mode.value,
        }

    def close(self) -> None:
        """Let go of the extractor's own memory; without a folder what was read is gone."""
        if self._is_own:
            self._hippo.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Open the same folder again where it is unpickled, as in a pipeline's worker process.

        Raises:
            StoreError: There is no folder.
        """
        try:
            self._hippo.__reduce__()
        except StoreError as error:
            raise StoreError(
                "this HippoRAGExtractor keeps what it reads in its own process and cannot go to "
                "another one: give it persist_directory=..., which all of a pipeline's workers "
                "share, or run the pipeline without num_workers: the extractor's own num_workers "
                "says how many nodes it reads at once"
            ) from error
        settings = {
            "extract_metadata_mode": self.extract_metadata_mode,
            "show_progress": self.show_progress,
        }
        return _reopened, (type(self), self._hippo, self._is_own, settings)

    def _passages(self, nodes: Sequence[BaseNode]) -> list[Passage]:
        mode = self.extract_metadata_mode
        return [Passage(text_of(node, mode), id=node.node_id) for node in nodes]


def _with_graphs(nodes: Sequence[BaseNode], read: Mapping[str, Extraction]) -> list[BaseNode]:
    partial = {i: e.reason for i, e in read.items() if e.status is Status.PARTIAL}
    if partial:
        _logger.warning(
            "%d nodes could be read only in part; run them again to retry: %s",
            len(partial),
            partial,
        )
    nothing = Extraction()  # of a node without text
    return [with_graph(node, read.get(node.node_id, nothing).triples) for node in nodes]


def _reopened(
    kind: type[HippoRAGExtractor], hippo: HippoRAG, is_own: bool, settings: dict[str, Any]
) -> HippoRAGExtractor:
    extractor = kind(hippo=hippo, **settings)
    extractor._is_own = is_own
    return extractor
