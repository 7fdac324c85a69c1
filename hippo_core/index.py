"""HippoIndex: one namespace's state in memory, derived from the store and kept up with it.

Readers take a `Snapshot`: an immutable view of one whole state. The index follows the store's
change log, so a commit of this handle, another handle or another process is applied by the same
code, passage by passage.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hippo_core.columns import Columns
from hippo_core.config import HippoConfig
from hippo_core.contributions import (
    Contribution,
    KeyedTriple,
    contribution,
    phrases_of,
    render_triple,
)
from hippo_core.corpus import Corpus
from hippo_core.curation import Curation
from hippo_core.errors import StoreCorruptError
from hippo_core.keys import Keys
from hippo_core.records import Reader, text_key
from hippo_core.snapshot import Snapshot
from hippo_core.store import Store
from hippo_core.synonyms import SynonymPlan, Synonyms
from hippo_core.types import Kind
from hippo_core.vectors import VectorTable

KINDS: tuple[Kind, ...] = ("passage", "phrase", "triple")


class HippoIndex:
    """The state of one namespace. Any thread may ask for its snapshot."""

    def __init__(self, store: Store, namespace: str, config: HippoConfig) -> None:
        self.store = store
        self.namespace = namespace
        self.config = config
        self.committing = threading.Lock()
        """Held by who adds or deletes through this index, so that planned synonyms stay right."""
        self._lock = threading.RLock()
        self._start_over()

    def _start_over(self) -> None:
        """Hold nothing: the next `catch_up` takes everything from the store."""
        self._version = 0
        self._curation = Curation()
        self._columns = Columns(self.render)
        self._vectors: dict[Kind, VectorTable] = {kind: VectorTable() for kind in KINDS}
        self._synonyms = Synonyms(
            self.config.synonymy_threshold if self.config.synonymy else None,
            self.config.synonymy_limit,
        )
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Give the store's present state; derive it first if something was committed."""
        self.refresh()
        with self._lock:
            if self._snapshot is None:
                self._snapshot = Snapshot(self._corpus(), self._curation, self._version)
            return self._snapshot

    def refresh(self) -> None:
        """Apply what was committed; nothing is derived yet."""
        # The store's lock before the index's, as a commit takes them: otherwise both could wait.
        with self.store.read() as reader:
            self.catch_up(reader)

    def catch_up(self, reader: Reader, plan: SynonymPlan | None = None) -> None:
        """Apply what was committed since the last time."""
        with self._lock:
            version = reader.version(self.namespace)
            if version == self._version:
                return
            changed, deleted = reader.changed_since(self.namespace, self._version)
            ids = self._columns.ids
            gone = [i for i in ids if text_key(i) in deleted] if deleted else []
            stored = reader.passages(self.namespace, changed if ids else None)
            try:
                for id_ in (*changed, *gone):
                    self._columns.drop(id_)
                new = [contribution(s.passage, s.extraction) for s in stored]
                self._add(reader, new, plan)
            except BaseException:  # an interrupt too: half of a change is no state
                self._start_over()
                raise
            self._version = version
            self._snapshot = None

    def contributions(self, ids: Iterable[str]) -> dict[str, Contribution]:
        """Give what the live ones of some passages contribute, as of the last `catch_up`."""
        with self._lock:
            found = {id_: self._columns.contribution(id_) for id_ in ids}
        return {id_: c for id_, c in found.items() if c is not None}

    def texts_in_use(self) -> dict[Kind, set[str]]:
        """Give the texts whose vectors the live passages need, by kind."""
        with self._lock:
            return {kind: set(self._keys(kind)) for kind in KINDS}

    def plan_synonyms(self, phrases: Mapping[str, NDArray[np.float32]]) -> SynonymPlan:
        """Find the synonyms of phrases that are about to be added.

        Raises:
            SynonymyError: More pairs would be accepted than `synonymy_limit` allows.
        """
        with self._lock:
            known = self._columns.phrases
            new = {p: v for p, v in phrases.items() if p not in known}
            return self._synonyms.plan(new, known, self._vectors["phrase"].view())

    def orphans(
        self, removed: Collection[str], added: Iterable[Contribution]
    ) -> dict[Kind, list[str]]:
        """Give the texts of phrases and triples that nothing uses once passages are replaced."""
        with self._lock:
            return self._columns.orphans(self.contributions(removed).values(), added)

    def render(self, triple: KeyedTriple) -> str:
        """Give a triple's text for embedding."""
        return render_triple(triple, self.config.triple_rendering)

    def _keys(self, kind: Kind) -> Keys[str]:
        columns = self._columns
        return {
            "passage": columns.texts,
            "phrase": columns.phrases,
            "triple": columns.rendered,
        }[kind]

    def _corpus(self) -> Corpus:
        views = {kind: self._vectors[kind].view() for kind in KINDS}
        return self._columns.corpus(views, self._synonyms.pairs)

    def _add(self, reader: Reader, new: Sequence[Contribution], plan: SynonymPlan | None) -> None:
        vectors = self._missing_vectors(reader, new)
        if plan is None or not self._synonyms.fits(plan, vectors["phrase"]):
            view = self._vectors["phrase"].view()
            plan = self._synonyms.plan(
                vectors["phrase"], self._columns.phrases, view, limited=False
            )
        for c in new:
            self._columns.put(c)
        for kind, rows in self._columns.sweep().items():
            if kind == "phrase" and rows:
                self._synonyms.remove(rows, self._columns.phrases.capacity)
            self._vectors[kind].clear(np.array(rows, dtype=np.int64))
        self._synonyms.add(plan, self._columns.phrases)
        for kind, by_text in vectors.items():
            keys = self._keys(kind)
            there = {slot: v for t, v in by_text.items() if (slot := keys.get(t)) is not None}
            if there:
                rows_ = np.array(list(there), dtype=np.int64)
                self._vectors[kind].put(rows_, np.stack(list(there.values())))

    def _missing_vectors(
        self, reader: Reader, new: Sequence[Contribution]
    ) -> dict[Kind, dict[str, NDArray[np.float32]]]:
        """Give the vectors of the texts that came with passages, by kind and text."""
        return {
            "passage": self._missing(reader, "passage", (c.passage.full_text for c in new)),
            "phrase": self._missing(
                reader, "phrase", phrases_of(t for c in new for t in c.triples)
            ),
            "triple": self._missing(
                reader, "triple", (self.render(t) for c in new for t in c.triples)
            ),
        }

    def _missing(
        self, reader: Reader, kind: Kind, texts: Iterable[str]
    ) -> dict[str, NDArray[np.float32]]:
        known = self._keys(kind)
        wanted = sorted({text for text in texts if text not in known})
        found = reader.vectors(self.namespace, kind, wanted)
        lost = [text for text in wanted if text not in found]
        if lost:
            raise StoreCorruptError(
                f"{len(lost)} {kind} vectors are missing from the store (first: {lost[0]!r}): "
                "it was written with another triple_rendering: open it with that; "
                "or it is damaged: index the passages again in another folder"
            )
        return found
