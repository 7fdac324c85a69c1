"""What LlamaIndex's index store keeps of an index: where its memory is, and how nodes are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.data_structs.struct_type import IndexStructType
from llama_index.core.schema import MetadataMode

TYPE = cast(IndexStructType, "hipporag")  # the enum is closed; the registries are dicts of str


@dataclass
class HippoRAGIndexStruct(IndexStruct):
    """The nodes themselves are in the memory."""

    folder: str = ""
    """The memory's; empty where it ends with the process, or is in a database, whose URL may hold a
    password."""
    memory: str = "hipporag"
    """The folder of its copy, inside of one that a storage context is persisted into."""
    namespace: str = "default"
    extract_metadata_mode: str = MetadataMode.NONE.value
    embed_metadata_mode: str = MetadataMode.EMBED.value

    @classmethod
    def get_type(cls) -> IndexStructType:
        """Name the type under which LlamaIndex finds the classes."""
        return TYPE


def register(index_class: type[Any]) -> None:
    """Tell LlamaIndex how to load an index of ours."""
    from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS

    INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS[TYPE] = HippoRAGIndexStruct
    INDEX_STRUCT_TYPE_TO_INDEX_CLASS[TYPE] = index_class
