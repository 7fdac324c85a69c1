"""Where an index's memory is: opened, kept beside LlamaIndex's own files, and found again."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.schema import MetadataMode
from llama_index.core.storage.storage_context import StorageContext
from llama_index.core.vector_stores import SimpleVectorStore

from hippo_core import HippoRAG, NotAStoreError
from llama_index_hipporag._convert import Reading
from llama_index_hipporag._models import as_chat_model, as_embedder
from llama_index_hipporag._options import Options
from llama_index_hipporag._settings import SettingsChatModel, settings_embed_model
from llama_index_hipporag._struct import HippoRAGIndexStruct

FOLDER = "hipporag"  # of the memory, inside of the folder of a storage context


@dataclass(frozen=True)
class Opened:
    """A memory, and what the index knows of it."""

    hippo: HippoRAG
    struct: HippoRAGIndexStruct
    reading: Reading
    llm: LLM | None = field(repr=False)  # what LlamaIndex prints of a model may hold its key
    is_own: bool
    """Whether the index opened it."""
    is_kept: bool
    """Whether it is somewhere that outlives the process, as far as the index knows."""


def opened_memory(index_struct: HippoRAGIndexStruct | None, options: Options) -> Opened:
    """Open the memory of a new index, or of one that a storage context knows.

    Raises:
        NotAStoreError: It is known, and does not say where its memory is.
    """
    struct = index_struct or HippoRAGIndexStruct()
    given = options.get("hippo")
    directory = options.get("persist_directory")
    if given is None and directory is None:
        directory = struct.folder or None
        if index_struct is not None and directory is None:
            raise NotAStoreError(_nowhere(struct))
    if directory is not None:
        is_folder = "://" not in str(directory)
        struct.folder = str(Path(directory).absolute()) if is_folder else ""
    if (mode := options.get("extract_metadata_mode")) is not None:
        struct.extract_metadata_mode = MetadataMode(mode).value
    if (mode := options.get("embed_metadata_mode")) is not None:
        struct.embed_metadata_mode = MetadataMode(mode).value
    struct.namespace = options.get("namespace") or struct.namespace
    llm, openie, embed_model = options.get("llm"), options.get("openie"), options.get("embed_model")
    return Opened(
        hippo=given
        or HippoRAG(
            SettingsChatModel() if llm is None and openie is None else as_chat_model(llm),
            as_embedder(settings_embed_model() if embed_model is None else embed_model),
            store=directory,
            namespace=struct.namespace,
            config=options.get("config"),
            openie=openie,
            recognition=options.get("recognition"),
            prompts=options.get("prompts"),
            create=index_struct is None,
            snapshot_dir=options.get("snapshot_dir"),
        ),
        struct=struct,
        reading=Reading(
            MetadataMode(struct.extract_metadata_mode),
            MetadataMode(struct.embed_metadata_mode),
            options.get("metadata_encoder"),
        ),
        llm=llm if isinstance(llm, LLM) else None,
        is_own=given is None,
        is_kept=directory is not None,
    )


class KeptMemory(SimpleVectorStore):
    """A memory among a storage context's vector stores, which are persisted with it.

    It holds no vectors: by its class the context can still be made a dict.
    """

    _opened: Opened = PrivateAttr()
    _is_saved: bool = PrivateAttr(default=False)

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self._opened = opened

    @classmethod
    def class_name(cls) -> str:
        """Name the component."""
        return "HippoRAGKeptMemory"

    def save(self, persist_dir: Path, *, also_kept: bool = False) -> None:
        """Copy a memory that would end with the process, or another one too.

        Raises:
            NotAStoreError: There is another index's memory.
        """
        struct = self._opened.struct
        target = (persist_dir / struct.memory).absolute()
        if str(target) != struct.folder and (also_kept or not self._opened.is_kept):
            self._opened.hippo.save(target)

    def persist(self, persist_path: str = "./storage/vector_store.json", fs: Any = None) -> None:
        """Copy a memory that would end with the process; another one lasts where it is.

        Args:
            persist_path: Of a file for a vector store, beside which the memory's folder is made.
            fs: A file system of fsspec.
        """
        if self._opened.is_kept or self._is_saved:
            return
        if fs is not None and "file" not in fs.protocol:
            warnings.warn(
                "the storage context was persisted without the index's memory, which only a local "
                "folder can hold: call index.persist(folder), or begin with persist_directory=...",
                stacklevel=3,
            )
            return
        self.save(Path(persist_path).parent)


def keep_with(context: StorageContext, opened: Opened, *, is_new: bool) -> None:
    """Have a memory persisted with a storage context, a new one by a name that no other has."""
    names = {
        struct.memory
        for struct in context.index_store.index_structs()
        if isinstance(struct, HippoRAGIndexStruct) and struct.index_id != opened.struct.index_id
    }
    if is_new and FOLDER in names:
        opened.struct.memory = f"{FOLDER}-{opened.struct.index_id}"
        context.index_store.add_index_struct(opened.struct)
    context.vector_stores[_slot(opened.struct)] = KeptMemory(opened)


def let_go(context: StorageContext, opened: Opened) -> None:
    """Have a memory that is closed persisted no more."""
    context.vector_stores.pop(_slot(opened.struct), None)


@contextmanager
def saved(context: StorageContext, opened: Opened, persist_dir: Path) -> Iterator[None]:
    """Have the memories of a storage context saved before anything else of it is written.

    Raises:
        NotAStoreError: The folder holds another index's memory; nothing was written.
    """
    kept = [store for store in context.vector_stores.values() if isinstance(store, KeptMemory)]
    # First that which may be refused: its own.
    for store in sorted(kept, key=lambda store: store._opened is not opened):
        store.save(persist_dir, also_kept=store._opened is opened)
        store._is_saved = True
    try:
        yield
    finally:
        for store in kept:
            store._is_saved = False


def forget_in(context: StorageContext, struct: HippoRAGIndexStruct) -> None:
    """Take an index that came to nothing out of a storage context."""
    context.index_store.delete_index_struct(struct.index_id)
    context.vector_stores.pop(_slot(struct), None)


def struct_of(
    context: StorageContext, index_id: str | None, persist_dir: str | Path
) -> HippoRAGIndexStruct:
    """Give the one index of ours that a storage context knows, or the one of an id.

    Raises:
        NotAStoreError: There is none, or more than one.
    """
    found = [
        struct
        for struct in context.index_store.index_structs()
        if isinstance(struct, HippoRAGIndexStruct) and index_id in (None, struct.index_id)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotAStoreError(
            f"{persist_dir} has {len(found)} indexes of ours, say which one by index_id=: "
            + ", ".join(repr(struct.index_id) for struct in found)
        )
    which = "" if index_id is None else f" {index_id!r}"
    raise NotAStoreError(f"{persist_dir} has no index{which} of ours")


def _slot(struct: HippoRAGIndexStruct) -> str:
    return f"{FOLDER}-{struct.index_id}"


def _nowhere(struct: HippoRAGIndexStruct) -> str:
    return (
        f"index {struct.index_id!r} does not say where its memory is: open it with "
        "HippoRAGIndex.from_persist_dir(folder), or load_index_from_storage(storage_context, "
        f"persist_directory=...) with 'folder/{FOLDER}', or the URL of its database; if it was "
        "in a process alone that has ended, index the documents again"
    )
