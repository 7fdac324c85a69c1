"""What the class methods that open and fill a memory take, by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from langchain_core.callbacks import Callbacks
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable

from hippo_core import (
    Budget,
    ChatModel,
    Edge,
    EdgeFinder,
    Embedder,
    HippoConfig,
    OpenIE,
    Prompts,
    RecognitionMemory,
    Where,
)
from langchain_hipporag._events import OnProgress

OnError = Literal["raise", "skip"]
Edges = Iterable[Edge | EdgeFinder] | EdgeFinder


class Fields(TypedDict, total=False):
    """The retriever's fields; `HippoRAGRetriever` documents them."""

    k: int
    where: Where | None
    include_scores: bool
    include_triples: bool
    include_explanations: bool
    score_mode: Literal["ppr", "relative"]
    title_key: str | None
    metadata_encoder: Callable[[Any], Any] | None
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class Options(Fields, total=False):
    """What every class method that opens a memory takes; `from_models` documents them."""

    embeddings: Required[Embeddings | Embedder]
    llm: Runnable[Any, Any] | ChatModel | None
    namespace: str
    config: HippoConfig | None
    openie: OpenIE | None
    recognition: RecognitionMemory | None
    prompts: Prompts | None
    snapshot_dir: str | Path | None


class AddOptions(TypedDict, total=False):
    """What adding documents hands on to the memory as it is; `add_documents` documents it."""

    edges: Edges | None
    on_error: OnError
    openie: OpenIE | None
    budget: Budget | None


class FillingOptions(Options, total=False):
    """What every class method that fills a memory takes; `from_documents` documents them."""

    ids: Iterable[str] | None
    edges: Edges | None
    persist_directory: str | Path | None
    on_error: OnError
    callbacks: Callbacks
    progress: OnProgress | None
    budget: Budget | None
