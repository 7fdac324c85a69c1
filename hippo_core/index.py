"""HippoIndex: one namespace's state in memory, derived from the store and kept up with it.

Readers take a `Snapshot`: an immutable view of one whole state. The index follows the store's
change log, so a commit of this handle, another handle or another process is applied by the same
code, passage by passage.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hippo_core.columns import Columns
from hippo_core.config import RENDERINGS, HippoConfig, TripleRendering
from hippo_core.contributions import (
    Contribution,
    KeyedTriple,
    contribution,
    phrases_of,
    render_triple,
)
from hippo_core.corpus import Corpus
from hippo_core.curation import Curation
from hippo_core.derived import DerivedFiles, State
from hippo_core.errors import StoreCorruptError
from hippo_core.inputs import Chosen
from hippo_core.keys import Keys
from hippo_core.records import Reader, text_key
from hippo_core.snapshot import Snapshot
from hippo_core.store import Store
from hippo_core.synonyms import NO_PAIRS, SynonymPairs, SynonymPlan, Synonyms
from hippo_core.types import Kind
from hippo_core.vectors import VectorTable

KINDS: tuple[Kind, ...] = ("passage", "phrase", "triple")
NOTHING = State(0, "", None)
Vectors = dict[Kind, dict[str, NDArray[np.float32]]]

WORTH_KEEPING = 200  # passages below which deriving is as quick as mapping files
SAVE_AFTER = 1000  # changed passages after which files are written at the least

log = logging.getLogger(__name__)


class HippoIndex:
    """The state of one namespace. Any thread may ask for its snapshot."""

    def __init__(self, store: Store, namespace: str, config: HippoConfig) -> None:
        self.store = store
        self.namespace = namespace
        self.config = config
        self.files = DerivedFiles(store.snapshots, store.id, namespace, config)
        self.committing = threading.Lock()
        """Held by who adds or deletes through this index, so that planned synonyms stay right."""
        self._lock = threading.RLock()
        self._start_over()

    def _start_over(
        self,
        corpus: Corpus | None = None,
        state: State = NOTHING,
        rendering: TripleRendering | None = None,
    ) -> None:
        """Hold nothing, or a corpus that was kept on disk; `catch_up` brings the rest."""
        self._state = state
        self._unsaved = 0  # passages that changed since the files were written
        self._curation = Curation()
        self._snapshot: Snapshot | None = None
        self._mapped = corpus  # until something changes
        self.rendering = rendering or self.config.triple_rendering
        self._columns = Columns(self.render)
        self._vectors: dict[Kind, VectorTable] = {kind: VectorTable() for kind in KINDS}
        self._synonyms = self._synonyms_of()

    def snapshot(self) -> Snapshot:
        """Give the store's present state; derive it first if something was committed."""
        self.refresh()
        with self._lock:
            if self._snapshot is None:
                self._snapshot = Snapshot(self.corpus(), self._curation, self._state)
            return self._snapshot

    def refresh(self) -> None:
        """Apply what was committed; nothing is derived yet."""
        # The store's lock before the index's, as a commit takes them: otherwise both could wait.
        with self.store.read() as reader:
            self.catch_up(reader)

    def catch_up(self, reader: Reader, plan: SynonymPlan | None = None) -> None:
        """Apply what was committed since the last time."""
        with self._lock:
            version, commit = reader.commit(self.namespace)
            if (version, commit) == (self._state.version, self._state.commit):
                return
            if not self._continues(reader, self._state):
                self._start_over()
            if self._state == NOTHING:
                self._take_files(reader)
            try:
                self._apply(reader, plan)
            except BaseException:  # an interrupt too: half of a change is no state
                self._start_over()
                raise
            self._state = State(version, commit, reader.generation(self.namespace))
            self._snapshot = None

    def save(self) -> None:
        """Keep what is derived on disk, if there is enough of it and it is not there already.

        Deriving it again costs no model call, so a disk that is full or read-only is no error.
        """
        if self.store.snapshots is None or not self._unsaved:
            return
        self.refresh()
        with self._lock:
            corpus, state = self.corpus(), self._state
        if len(corpus) < WORTH_KEEPING:
            return
        try:
            is_present = partial(self._is_present, state)
            place = self.files.write(corpus, state, is_present, self.rendering)
        except OSError as error:
            if self._is_present(state):  # or who deleted from it has deleted the files, too
                log.warning("what is derived of %s could not be kept: %s", self.store.name, error)
            return
        if place is not None:
            log.debug("kept what is derived in %s", place)
            with self._lock:
                if self._state == state:
                    self._unsaved = 0

    def save_if_much_changed(self) -> None:
        """Keep what is derived once a good part of it is new."""
        if self._unsaved >= max(SAVE_AFTER, len(self._columns) // 4):
            self.save()

    def erase(self) -> None:
        """Let deleted text leave the disk, as far as no reader of an old state holds it."""
        self.files.delete()
        with self._lock:
            self._unsaved += 1
        self.store.truncate_log()

    def rebuild(self) -> None:
        """Derive everything from the store again."""
        with self.committing, self._lock:  # a plan of synonyms is for what was there
            self.files.delete()
            self._start_over()
        self.snapshot()

    def _is_present(self, state: State) -> bool:
        with self.store.read() as reader:
            return reader.commit(self.namespace) == (state.version, state.commit)

    def _continues(self, reader: Reader, state: State) -> bool:
        """Whether the store's present state came from this one by the changes in its log."""
        if state.generation not in (None, reader.generation(self.namespace)):
            return False
        return reader.has_commit(self.namespace, state.version, state.commit)

    def _take_files(self, reader: Reader) -> None:
        found = self.files.newest(lambda state: self._continues(reader, state))
        if found is not None:
            self._start_over(*found)

    def _apply(self, reader: Reader, plan: SynonymPlan | None) -> None:
        self._curation = Curation.from_json(reader.curation(self.namespace))
        changed, deleted = reader.changed_since(self.namespace, self._state.version)
        if not changed and not deleted:
            return
        self._unmap()
        ids = self._columns.ids
        gone = [i for i in ids if text_key(i) in deleted] if deleted else []
        stored = reader.passages(self.namespace, changed if ids else None)
        for id_ in (*changed, *gone):
            self._columns.drop(id_)
        new = [contribution(s.passage, s.extraction, s.edges) for s in stored]
        if not self._columns.rendered:
            self.rendering = self._rendering_of(reader, new)
        self._add(new, self._missing_vectors(reader, new), plan)
        self._unsaved += len(changed) + len(gone)

    def _unmap(self) -> None:
        """Give what was mapped the form in which it can change."""
        corpus = self._mapped
        if corpus is None:
            return
        self._columns = Columns.of(corpus, self.render)
        self._vectors = {
            "passage": VectorTable(corpus.passage_vectors.view),
            "phrase": VectorTable(corpus.phrase_vectors.view),
            "triple": VectorTable(corpus.triple_vectors.view),
        }
        self._synonyms = self._synonyms_of(corpus.synonyms)
        self._mapped = None  # at last: texts that were damaged raise an error above

    def _synonyms_of(self, pairs: SynonymPairs = NO_PAIRS) -> Synonyms:
        threshold = self.config.synonymy_threshold if self.config.synonymy else None
        return Synonyms(threshold, self.config.synonymy_limit, pairs)

    def corpus(self) -> Corpus:
        """Give what is there as of the last `catch_up`, before the user's aliases."""
        with self._lock:
            if self._mapped is not None:
                return self._mapped
            views = {kind: self._vectors[kind].view() for kind in KINDS}
            return self._columns.corpus(views, self._synonyms.pairs)

    def contributions(self, ids: Iterable[str]) -> dict[str, Contribution]:
        """Give what the live ones of some passages contribute, as of the last `catch_up`."""
        with self._lock:
            self._unmap()
            found = {id_: self._columns.contribution(id_) for id_ in ids}
        return {id_: c for id_, c in found.items() if c is not None}

    def chosen(self, chosen: Chosen | None) -> list[str]:
        """Give the ids of the live passages of a source or that a filter allows; None for all."""
        passages = [live.passage for live in self.corpus().passages]
        if chosen is None:
            return [p.id for p in passages]
        if chosen.where is not None:
            return [p.id for p in passages if chosen.where.allows(p.metadata)]
        return [p.id for p in passages if p.source_id == chosen.source_id]

    def pending_edges(self, ids: Iterable[str]) -> int:
        """Count the edges of live passages whose target is not there, as of the last `catch_up`."""
        with self._lock:
            self._unmap()
            targets = [target for id_ in ids for target in self._columns.pending(id_)]
            alike = {p: group for group in self._curation.aliases for p in group}
            return sum(
                kind != "phrase"
                or not any(other in self._columns.phrases for other in alike.get(name, ()))
                for kind, name in targets
            )

    def texts_in_use(self) -> dict[Kind, set[str]]:
        """Give the texts whose vectors the live passages need, by kind."""
        with self._lock:
            self._unmap()
            return {kind: set(self._keys(kind)) for kind in KINDS}

    def plan_synonyms(self, phrases: Mapping[str, NDArray[np.float32]]) -> SynonymPlan:
        """Find the synonyms of phrases that are about to be added.

        Raises:
            SynonymyError: More pairs would be accepted than `synonymy_limit` allows.
        """
        with self._lock:
            self._unmap()
            known = self._columns.phrases
            new = {p: v for p, v in phrases.items() if p not in known}
            return self._synonyms.plan(new, known, self._vectors["phrase"].view())

    def orphans(
        self, removed: Collection[str], added: Iterable[Contribution]
    ) -> dict[Kind, list[str]]:
        """Give the texts whose vectors nothing uses once passages are replaced."""
        with self._lock:
            return self._columns.orphans(self.contributions(removed).values(), added)

    def render(self, triple: KeyedTriple) -> str:
        """Give a triple's text for embedding."""
        return render_triple(triple, self.rendering)

    def _rendering_of(self, reader: Reader, new: Sequence[Contribution]) -> TripleRendering:
        """Give the text under which the first triples of a memory were embedded.

        Of all of them: an `add` that was never finished may have left some under another.
        """
        own = self.config.triple_rendering
        triples = {triple for c in new for triple in c.triples}
        if not triples:
            return own
        there = reader.vector_keys(self.namespace, "triple").keys()
        for rendering in (own, *RENDERINGS):
            if all(text_key(render_triple(triple, rendering)) in there for triple in triples):
                return rendering
        return own

    def _keys(self, kind: Kind) -> Keys[str]:
        columns = self._columns
        return {
            "passage": columns.texts,
            "phrase": columns.phrases,
            "triple": columns.rendered,
        }[kind]

    def _add(self, new: Sequence[Contribution], vectors: Vectors, plan: SynonymPlan | None) -> None:
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
            if not self._keys(kind):
                self._vectors[kind] = VectorTable()  # other vectors may be of another length
        self._synonyms.add(plan, self._columns.phrases)
        for kind, by_text in vectors.items():
            keys = self._keys(kind)
            there = {slot: v for t, v in by_text.items() if (slot := keys.get(t)) is not None}
            if there:
                rows_ = np.array(list(there), dtype=np.int64)
                self._vectors[kind].put(rows_, np.stack(list(there.values())))

    def _missing_vectors(self, reader: Reader, new: Sequence[Contribution]) -> Vectors:
        """Give the vectors of the texts that came with passages, by kind and text."""
        triples = {triple for c in new for triple in c.triples}
        texts: dict[Kind, Collection[str]] = {
            "passage": {c.passage.embedded_text for c in new},
            "phrase": phrases_of(triples),
            "triple": {self.render(triple) for triple in triples},
        }
        return {kind: self._missing(reader, kind, texts[kind]) for kind in KINDS}

    def _missing(
        self, reader: Reader, kind: Kind, texts: Collection[str]
    ) -> dict[str, NDArray[np.float32]]:
        known = self._keys(kind)
        wanted = sorted(text for text in texts if text not in known)
        found = reader.vectors(self.namespace, kind, wanted)
        lost = [text for text in wanted if text not in found]
        if lost:
            raise StoreCorruptError(
                f"{len(lost)} {kind} vectors are missing from the store (first: {lost[0]!r}): "
                "it is damaged: index the passages again in another folder"
            )
        return found
