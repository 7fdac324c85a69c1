"""Handle: a memory as a thing that is opened, kept, checked, copied and closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hippo_core.config import HippoConfig
from hippo_core.copying import copy_store
from hippo_core.curation import Curation, check_curation, checked_aliases, checked_pairs
from hippo_core.drivers import Driver
from hippo_core.embedding import Embedding
from hippo_core.errors import HippoError, InputError, StoreCorruptError, StoreError
from hippo_core.flows import Meter, Models
from hippo_core.index import HippoIndex
from hippo_core.inputs import check_config, check_methods, check_ports, checked_ids, is_unicode
from hippo_core.limiter import Limiter
from hippo_core.ports import ChatModel, Embedder, OpenIE, RecognitionMemory
from hippo_core.prompts import Prompts, check_prompts
from hippo_core.records import text_key
from hippo_core.retries import Patience
from hippo_core.store import Store
from hippo_core.text import canonical_json
from hippo_core.types import Extraction, Passage, Stats, SynonymEdge, VerifyReport
from hippo_core.verification import verify

log = logging.getLogger(__name__)


class Handle:
    """What every memory is, whatever is asked of it: `HippoRAG` adds the asking."""

    def __init__(
        self,
        chat_model: ChatModel | None,
        embedder: Embedder | None,
        *,
        store: str | Path | None = None,
        namespace: str = "default",
        config: HippoConfig | None = None,
        openie: OpenIE | None = None,
        recognition: RecognitionMemory | None = None,
        prompts: Prompts | None = None,
        create: bool = True,
        snapshot_dir: str | Path | None = None,
    ) -> None:
        check_namespace(namespace)
        if embedder is not None:
            check_methods(embedder, "embedder", ("embed", "aembed"))
        check_ports(chat_model, openie, recognition)
        if prompts is not None:
            check_prompts(prompts)
        if config is not None:
            check_config(config)
        self.config = config or HippoConfig()
        self.namespace = namespace
        self._models = Models(
            embedder, chat_model, openie, recognition, prompts if prompts is not None else Prompts()
        )
        self._location = store
        self._snapshot_dir = snapshot_dir
        # Without any model nothing can be added: a folder that is not there is a typing error.
        create = create and (embedder, chat_model, openie) != (None, None, None)
        self._store = Store(store, create=create, snapshot_dir=snapshot_dir)
        try:
            self._embedding = self._embedding_of(embedder)
        except BaseException:
            self._store.close()
            raise
        self._warned = False  # that it is empty
        self._begin()

    def _begin(self) -> None:
        """Make what a process has for itself: locks, and what is derived."""
        self._process = self._store.forked
        self._own_index = HippoIndex(self._store, self.namespace, self.config)
        self._own_limiter = Limiter(
            self.config.concurrency,
            Patience(tries=self.config.tries, call_timeout=self.config.call_timeout),
        )

    @property
    def _index(self) -> HippoIndex:
        if self._process != self._store.forked:  # a lock may be held by a thread left behind
            self._begin()
        return self._own_index

    def _driver(self, models: Models, meter: Meter) -> Driver:
        if self._process != self._store.forked:
            self._begin()
        return Driver(models, self._own_limiter, meter)

    def _embedding_of(self, embedder: Embedder | None) -> Embedding:
        batch = self.config.embed_batch_size
        return Embedding(self._store, self.namespace, embedder, batch=batch)

    # -- what is there ------------------------------------------------------------------------

    def get(self, ids: Collection[str]) -> list[Passage]:
        """Give the passages of ids, in their order; unknown ids are left out."""
        wanted = checked_ids(ids)
        with self._store.read() as reader:
            storable = [i for i in wanted if is_unicode(i)]
            found = {s.passage.id: s.passage for s in reader.passages(self.namespace, storable)}
        return [found[i] for i in wanted if i in found]

    def deleted(self, ids: Collection[str]) -> list[str]:
        """Give those of ids that were passages here and were deleted, in their order."""
        wanted = checked_ids(ids)
        with self._store.read() as reader:
            _, keys = reader.changed_since(self.namespace, 0)
        return [i for i in wanted if is_unicode(i) and text_key(i) in keys]

    def stats(self) -> Stats:
        """Count passages, phrases, triples and edges."""
        sizes = self._index.snapshot().stats()
        with self._store.read() as reader:
            return replace(sizes, by_extractor=reader.passages_by_extractor(self.namespace))

    def extractions(self, ids: Collection[str] | None = None) -> dict[str, Extraction]:
        """Give what was read out of passages, with its extractor, by id: those of ids, or all.

        Unknown ids are left out. A passage that could not be read has the status `failed`.
        """
        wanted = None if ids is None else [i for i in checked_ids(ids) if is_unicode(i)]
        with self._store.read() as reader:
            found = {s.passage.id: s for s in reader.passages(self.namespace, wanted)}
        return {i: found[i].extraction for i in (wanted or sorted(found)) if i in found}

    def __len__(self) -> int:
        return len(self._index.snapshot().corpus)

    def __bool__(self) -> bool:
        return True  # an empty memory is one

    def __iter__(self) -> Iterator[Passage]:
        """Give the passages of one state, by id."""
        return (live.passage.copy() for live in self._index.snapshot().corpus.passages)

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, str) and bool(self.get([id_]))

    @property
    def chat_model(self) -> ChatModel | None:
        """The chat model of calls that bring none of their own."""
        return self._models.chat

    @property
    def embedder(self) -> Embedder | None:
        """The embedder."""
        return self._models.embedder

    # -- the user's hand on the graph ---------------------------------------------------------

    @property
    def aliases(self) -> tuple[tuple[str, ...], ...]:
        """Groups of phrases, as keys, that count as one."""
        return self._curation().aliases

    @aliases.setter
    def aliases(self, groups: Iterable[Sequence[str]]) -> None:
        """Treat phrases as one: `memory.aliases = [["USA", "United States"]]`.

        A group's first phrase that the memory holds stands for the others. These groups take the
        place of all earlier ones; what was read and embedded stays as it is, so that setting
        others, or none, takes this back.

        Raises:
            InputError: A group is no list of two phrases or more, or a phrase is in two of them.
        """
        self._curate(aliases=checked_aliases(groups))

    @property
    def never_link(self) -> tuple[tuple[str, str], ...]:
        """Pairs of phrases, as keys, that are never synonyms."""
        return self._curation().never_link

    @never_link.setter
    def never_link(self, pairs: Iterable[Sequence[str]]) -> None:
        """Keep phrases apart: `memory.never_link = [("Ada Lovelace", "Ada Byron")]`.

        Raises:
            InputError: A pair is not two phrases, or its phrases are aliases.
        """
        self._curate(never_link=checked_pairs(pairs))

    def strongest_synonyms(self, n: int = 50) -> list[SynonymEdge]:
        """Give the n synonymy edges of the highest cosine, for review."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"n must be a whole number of at least 1, got {n!r}")
        return self._index.snapshot().strongest_synonyms(n)

    def _curation(self) -> Curation:
        with self._store.read() as reader:
            return Curation.from_json(reader.curation(self.namespace))

    def _curate(self, **changes: Any) -> None:
        with self._store.write() as writer:
            try:
                before = Curation.from_json(writer.curation(self.namespace))
            except StoreCorruptError as error:  # this is how it is mended
                log.warning("%s", error)
                before = Curation()
            curation = replace(before, **changes)
            check_curation(curation)
            writer.save_curation(self.namespace, curation.to_json())

    # -- upkeep -------------------------------------------------------------------------------

    def verify(self) -> VerifyReport:
        """Check store, vectors, derived state and files against each other; no model is called.

        All of the database is read and every file hashed, so it takes as long as `rebuild`.
        """
        return verify(self._index)

    def rebuild(self) -> None:
        """Derive graph and matrices from the store again; no model is called."""
        self._index.rebuild()

    def purge(self) -> None:
        """Let everything that was deleted leave the disk now.

        Deleting does this too, as far as no other reader still holds an old state. A handle in
        another process that mapped derived files keeps them until it closes.

        Raises:
            StoreLockedError: A reader still holds an old state; try again when it has finished.
        """
        self._index.erase()
        self._store.purge()

    def backup(self, folder: str | Path) -> None:
        """Copy the whole store, all namespaces, into a new folder; writers go on meanwhile.

        A memory without a folder gets one so: open the copy with `store=folder`.

        Raises:
            InputError: The folder is not empty.
            StoreError: The copy cannot be made; nothing of it is left.
        """
        self._store.backup(folder)

    def save(self, folder: str | Path) -> None:
        """Do what `backup` does; an earlier copy of this memory in the folder is replaced.

        What was added to that copy meanwhile is lost.

        Raises:
            InputError: The folder holds something else.
            NotAStoreError: It holds another store.
            StoreError: The copy cannot be made; the earlier one is as it was.
        """
        self._store.save(folder)

    def copy_to(self, store: str | Path, *, namespaces: Collection[str] | None = None) -> list[str]:
        """Copy namespaces, all of them by default, to another store; give their names.

        No model is called. The other store may be a folder or a PostgreSQL URL, new or with other
        namespaces in it.

        Raises:
            InputError: There is no such namespace here, or it holds passages there.
        """
        if store is None:
            raise InputError("copy_to takes a folder or a URL: a memory without one would be lost")
        if isinstance(namespaces, str):
            raise InputError("namespaces must be a list of names; put the one in a list")
        for name in set(namespaces or ()) - set(self.namespaces()):
            raise InputError(f"there is no namespace {name!r} to copy")
        target = Store(store)
        try:
            if target.folder is not None and target.folder == self._store.folder:
                raise InputError("copy_to takes another store than the memory's own")
            return copy_store(self._store, target, namespaces)
        finally:
            target.close()

    def namespaces(self) -> list[str]:
        """Give the names of the store's namespaces that hold something, in order."""
        with self._store.read() as reader:
            return reader.namespaces()

    def delete_namespace(self) -> int:
        """Delete everything of this namespace, its embedder's record too; give how many passages.

        The handle stays open on the empty namespace, which another embedder may fill.
        """
        index = self._index
        with index.committing, self._store.write() as writer:
            deleted = writer.delete_namespace(self.namespace)
        index.refresh()
        index.erase()
        self._embedding = self._embedding_of(self._models.embedder)
        return deleted

    def close(self) -> None:
        """Let go of the store, and keep what was derived; without a folder the memory is gone."""
        try:
            if not self._store.closed:
                self._index.save()
        except HippoError as error:  # it can be derived again
            log.warning("closed without keeping what is derived: %s", error)
        self._store.close()

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- copies of the handle -----------------------------------------------------------------

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Open the same store again where it is unpickled; the models go along as they are.

        Raises:
            StoreError: The memory is in this process only.
        """
        if self._location is None:
            raise StoreError(
                "a memory without a folder is in this process only and cannot be pickled; "
                "backup() it into a folder and open that with store="
            )
        location = str(self._location)
        if self._store.folder is not None:
            location = str(self._store.folder.absolute())
        settings = {
            "store": location,
            "namespace": self.namespace,
            "config": self.config,
            "openie": self._models.openie,
            "recognition": self._models.recognition,
            "prompts": self._models.prompts,
            "create": False,
            "snapshot_dir": self._snapshot_dir and str(Path(self._snapshot_dir).absolute()),
        }
        return _reopened, (type(self), self._models.chat, self._models.embedder, settings)

    def __repr__(self) -> str:
        closed = ", closed" if self._store.closed else ""
        name = type(self).__name__
        return f"{name}(store={self._store.name!r}, namespace={self.namespace!r}{closed})"

    def _warn_of_emptiness(self) -> None:
        """Say once that nothing can be found, and where something is."""
        if not self._warned:
            self._warned = True
            others = [name for name in self.namespaces() if name != self.namespace]
            hint = f"; the store has {', '.join(map(repr, others[:5]))}" if others else ""
            log.warning("namespace %r of %s is empty%s", self.namespace, self._store.name, hint)


def check_namespace(namespace: object) -> None:
    """Refuse what is no name.

    Raises:
        InputError: It is empty, or no Unicode text.
    """
    if not isinstance(namespace, str) or not namespace:
        raise InputError(f"namespace must be text that is not empty, got {namespace!r}")
    canonical_json(namespace, name="namespace")


def _reopened(
    kind: type[Handle],
    chat_model: ChatModel | None,
    embedder: Embedder | None,
    settings: dict[str, Any],
) -> Handle:
    return kind(chat_model, embedder, **settings)
