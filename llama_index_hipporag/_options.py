"""What the methods that open and fill an index take, by keyword."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, cast, get_type_hints

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import LLM
from llama_index.core.schema import MetadataMode

from hippo_core import (
    Budget,
    ChatModel,
    Edge,
    EdgeFinder,
    Embedder,
    HippoConfig,
    HippoRAG,
    OpenIE,
    Prompts,
    RecognitionMemory,
)
from llama_index_hipporag._events import OnProgress

OnError = Literal["raise", "skip"]
Edges = Iterable[Edge | EdgeFinder] | EdgeFinder


class Options(TypedDict, total=False):
    """What every way to open an index takes; `HippoRAGIndex` documents them."""

    hippo: HippoRAG | None
    llm: LLM | ChatModel | None
    embed_model: BaseEmbedding | Embedder | None
    persist_directory: str | Path | None
    namespace: str | None
    config: HippoConfig | None
    openie: OpenIE | None
    recognition: RecognitionMemory | None
    prompts: Prompts | None
    snapshot_dir: str | Path | None
    extract_metadata_mode: MetadataMode | None
    embed_metadata_mode: MetadataMode | None
    metadata_encoder: Callable[[Any], Any] | None


class AddOptions(TypedDict, total=False):
    """What every way to add takes; `insert_nodes` documents them."""

    edges: Edges | None
    on_error: OnError
    progress: OnProgress | None
    openie: OpenIE | None
    budget: Budget | None


class MakingOptions(Options, total=False):
    """What the constructor takes: all that opens an index, and how its nodes are added."""

    edges: Edges | None
    on_error: OnError
    progress: OnProgress | None
    budget: Budget | None


_ADDING = ("edges", "on_error", "progress", "budget")  # `openie` is the memory's own there


def split_options(given: MakingOptions) -> tuple[AddOptions, Options]:
    """Part the options of adding from those of opening.

    Raises:
        TypeError: Something is neither.
    """
    _refuse_unknown(given, MakingOptions)
    adding = {key: value for key, value in given.items() if key in _ADDING}
    opening = {key: value for key, value in given.items() if key not in _ADDING}
    return cast(AddOptions, adding), cast(Options, opening)


def add_options(given: Mapping[str, Any]) -> AddOptions:
    """Read the options of an insert, which LlamaIndex also brings as `insert_kwargs`.

    Raises:
        TypeError: Something is none.
    """
    found = dict(given)
    for name in ("update_kwargs", "insert_kwargs"):  # the one may be inside the other
        found.update(found.pop(name, None) or {})
    found.pop("delete_kwargs", None)  # deleting has no options
    _refuse_unknown(found, AddOptions)
    return cast(AddOptions, found)


def _refuse_unknown(given: Mapping[str, Any], options: type[Any]) -> None:
    known = get_type_hints(options)
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(
            f"unexpected keyword arguments: {', '.join(unknown)}; there are {', '.join(known)}"
        )
