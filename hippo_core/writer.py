"""What is written to the database inside one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects import postgresql, sqlite

from hippo_core.contributions import Target
from hippo_core.errors import EmbedderMismatchError, InputError
from hippo_core.records import PART, VALUES_AT_ONCE, Reader, StoredPassage, text_key
from hippo_core.rows import batches, edges_row, extraction_row, passage_row, vector_bytes
from hippo_core.tables import (
    ENTITIES_READ,
    UNRECORDED,
    changes,
    commits,
    edges,
    embedders,
    extractions,
    namespaces,
    passages,
    settings,
    vectors,
)
from hippo_core.types import Extraction, Kind

_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Writer(Reader):
    """Reads and writes inside one transaction that holds the write lock."""

    # -- extractions --------------------------------------------------------------------------

    def save_entities(
        self, namespace: str, key: str, extractor: str, entities: Sequence[str]
    ) -> None:
        """Keep the first half of an extraction, unless a whole one is pending."""
        self.touch(namespace)
        row = extraction_row(namespace, key, extractor, Extraction(tuple(entities)), pending=True)
        unfinished = extractions.c.status == ENTITIES_READ
        self.put(extractions, [{**row, "status": ENTITIES_READ}], replace=unfinished)

    def save_extraction(
        self, namespace: str, key: str, extractor: str, extraction: Extraction
    ) -> None:
        """Keep what was read out of a text until it is committed."""
        self.touch(namespace)
        row = extraction_row(namespace, key, extractor, extraction, pending=True)
        self.put(extractions, [row])

    def commit_extractions(
        self, namespace: str, extractor: str, by_key: Mapping[str, Extraction]
    ) -> None:
        """Make what was read out of texts what their passages say; nothing stays pending."""
        of_namespace = extractions.c.namespace == namespace
        query = sa.select(extractions).where(of_namespace, extractions.c.status != ENTITIES_READ)
        found = list(self._where_in(query, extractions.c.text_key, by_key.keys()))
        read = {(r.text_key, r.pending): (r.extractor, self._extraction(r)) for r in found}
        rows = []
        for key, extraction in by_key.items():
            by, committed = read.get((key, False), ("", None))
            reader, pending = read.get((key, True), ("", None))
            name = reader if pending == extraction else extractor
            read_again = pending == extraction and reader != by
            if committed != extraction or read_again:
                rows.append(extraction_row(namespace, key, name, extraction, pending=False))
        self.put(extractions, rows)
        self.drop_pending(namespace, list(by_key))

    # -- embedders and vectors ----------------------------------------------------------------

    def save_vectors(
        self,
        namespace: str,
        kind: Kind,
        by_text: Mapping[str, NDArray[np.float32]],
        generation: int | None = None,
        *,
        replace: bool = True,
    ) -> None:
        """Keep unit vectors by text, of the current embedder or of another generation's.

        Those that are there are replaced, or not.

        Raises:
            EmbedderMismatchError: The generation's embedder was forgotten meanwhile, or its
                vectors have another dimension.
        """
        if not by_text:
            return
        self.touch(namespace)
        made_by, dimension = self._made_by(namespace, generation)
        if generation is not None and dimension is None:
            raise EmbedderMismatchError(
                f"namespace {namespace!r} has no embedder of generation {generation} any more: it "
                "was deleted or embedded again meanwhile; begin again"
            )
        for vector in by_text.values():
            if dimension is not None and len(vector) != dimension:
                raise EmbedderMismatchError(
                    f"namespace {namespace!r} has vectors of {dimension} dimensions, "
                    f"got one of {len(vector)}"
                )
        rows = [
            {
                "namespace": namespace,
                "generation": made_by,
                "kind": kind,
                "text_key": text_key(text),
                "vector": vector_bytes(vector),
            }
            for text, vector in by_text.items()
        ]
        self.put(vectors, rows, replace)

    def save_embedder(self, namespace: str, name: str, probe: NDArray[np.float32]) -> int:
        """Record the embedder of a namespace, and give its generation.

        Vectors of an embedder that was not recorded are taken to be its own.
        """
        generation = self.generation(namespace)
        if generation is not None:
            self._put_embedder(namespace, generation, name, probe)
            return generation
        generation = self.new_embedder(namespace, name, probe)
        self.set_namespace(namespace, generation=generation)
        unrecorded = sa.and_(vectors.c.namespace == namespace, vectors.c.generation == UNRECORDED)
        self._connection.execute(vectors.update().where(unrecorded).values(generation=generation))
        return generation

    def new_embedder(self, namespace: str, name: str, probe: NDArray[np.float32]) -> int:
        """Record an embedder that will take the current one's place; give its generation."""
        self.touch(namespace)
        given = int(self._of_namespace(namespaces.c.generations, namespace))
        generation = max([given, *(e.generation for e in self._embedders(namespace))]) + 1
        self.set_namespace(namespace, generations=generation)
        self._put_embedder(namespace, generation, name, probe)
        return generation

    def switch_embedder(self, namespace: str, generation: int) -> None:
        """Make an embedder the current one, and delete the others with their vectors.

        Raises:
            InputError: The namespace has no embedder of this generation.
        """
        if generation not in {e.generation for e in self._embedders(namespace)}:
            raise InputError(f"namespace {namespace!r} has no embedder of generation {generation}")
        for table in (vectors, embedders):
            others = sa.and_(table.c.namespace == namespace, table.c.generation != generation)
            self._connection.execute(table.delete().where(others))
        self.set_namespace(namespace, generation=generation)
        self.raise_version(namespace)

    # -- passages -----------------------------------------------------------------------------

    def put_passages(self, namespace: str, stored: Sequence[StoredPassage]) -> None:
        """Add or replace passages, and log them and those of the same texts as changed."""
        rows = [
            passage_row(namespace, s.passage, text_key(s.passage.full_text), s.extraction.reason)
            for s in stored
        ]
        self.put(passages, rows)
        self._log(namespace, self.ids_of_texts(namespace, {row["text_key"] for row in rows}))

    def delete_passages(self, namespace: str, ids: Sequence[str]) -> None:
        """Delete passages with their edges, and say so in the change log."""
        self._delete(passages, passages.c.id, ids, passages.c.namespace == namespace)
        self._delete(edges, edges.c.passage_id, ids, edges.c.namespace == namespace)
        self._log(namespace, ids, deleted=True)

    def put_edges(self, namespace: str, by_id: Mapping[str, Mapping[Target, float]]) -> None:
        """Replace the edges of live passages, and log these as changed."""
        none = [id_ for id_, own in by_id.items() if not own]
        self._delete(edges, edges.c.passage_id, none, edges.c.namespace == namespace)
        self.put(edges, [edges_row(namespace, id_, own) for id_, own in by_id.items() if own])
        self._log(namespace, list(by_id))

    # -- namespaces ---------------------------------------------------------------------------

    def save_curation(self, namespace: str, json_text: str | None) -> None:
        """Keep the user's curation, or none; a new version in which no passage changed."""
        self.touch(namespace)
        self.set_namespace(namespace, curation=json_text)
        self.raise_version(namespace)

    def delete_namespace(self, namespace: str) -> int:
        """Delete all of a namespace, its embedder too; say how many passages there were.

        What stays is its version, raised, and the hashes of its passages' ids in the change log, so
        that open handles forget every passage. No state of before is one of its history.
        """
        known = self._connection.scalar(
            sa.select(namespaces.c.namespace).where(namespaces.c.namespace == namespace)
        )
        if known is None:
            return 0
        counts = {}
        for table in (passages, edges, extractions, vectors, embedders, commits):
            done = self._connection.execute(table.delete().where(table.c.namespace == namespace))
            counts[table.name] = done.rowcount
        self.set_namespace(namespace, generation=None, curation=None)
        version = self.raise_version(namespace)
        live = sa.and_(changes.c.namespace == namespace, changes.c.passage_id.is_not(None))
        self._connection.execute(
            changes.update().where(live).values(passage_id=None, version=version)
        )
        return counts[passages.name]

    # -- what nothing uses --------------------------------------------------------------------

    def purge_texts(self, namespace: str, keys: Collection[str]) -> None:
        """Delete extractions of texts that no live passage has."""
        if not keys:
            return
        query = sa.select(passages.c.text_key).where(passages.c.namespace == namespace)
        live = {row.text_key for row in self._where_in(query, passages.c.text_key, keys)}
        gone = [key for key in keys if key not in live]
        self._delete(
            extractions, extractions.c.text_key, gone, extractions.c.namespace == namespace
        )
        self._purge_parts(namespace, gone)

    def drop_pending(self, namespace: str, keys: Sequence[str]) -> None:
        """Delete what was read out of texts and is not committed."""
        of_namespace = extractions.c.namespace == namespace
        pending = sa.and_(of_namespace, extractions.c.pending.is_(True))
        self._delete(extractions, extractions.c.text_key, keys, pending)

    def purge_pending(self, namespace: str, in_use: Mapping[Kind, Collection[str]]) -> int:
        """Delete extractions of no live passage, and vectors of no text in use, by kind.

        Give how many extractions there were.
        """
        query = sa.select(extractions.c.text_key).where(extractions.c.namespace == namespace)
        keys = set(self._connection.scalars(query))
        query = sa.select(passages.c.text_key).where(passages.c.namespace == namespace)
        gone = sorted(keys - set(self._connection.scalars(query)))
        of_namespace = extractions.c.namespace == namespace
        self._delete(extractions, extractions.c.text_key, gone, of_namespace)
        for kind, texts in in_use.items():
            query = sa.select(vectors.c.text_key).where(
                vectors.c.namespace == namespace, vectors.c.kind == kind
            )
            used = {text_key(text) for text in texts}
            unused = sorted(set(self._connection.scalars(query)) - used)
            self._purge_vector_keys(namespace, kind, unused)
        return len(gone)

    def purge_vectors(self, namespace: str, kind: Kind, texts: Iterable[str]) -> None:
        """Delete vectors of texts that nothing uses any more, whichever embedder made them."""
        self._purge_vector_keys(namespace, kind, [text_key(text) for text in texts])

    # -- for who writes rows of his own -------------------------------------------------------

    def take_id(self, store_id: str) -> None:
        """Make this store a copy of another one."""
        of_id = settings.c.name == "store_id"
        self._connection.execute(settings.update().where(of_id).values(value=store_id))

    def touch(self, namespace: str) -> None:
        """Make a namespace known."""
        if self._of_namespace(namespaces.c.namespace, namespace) is None:
            row = {"namespace": namespace, "version": 0, "generations": 0}
            self._connection.execute(namespaces.insert(), row)
            self._forget()

    def raise_version(self, namespace: str) -> int:
        """Begin a new version, with a commit of its own; give it."""
        self.touch(namespace)
        version = self.version(namespace) + 1
        self.set_namespace(namespace, version=version)
        row = {"namespace": namespace, "version": version, "commit_id": uuid.uuid4().hex}
        self._connection.execute(commits.insert(), row)
        return version

    def make_room(self, namespace: str) -> int:
        """Delete all of a namespace without passages but what is pending.

        Give how many generations of embedders were given out so far.
        """
        self.touch(namespace)
        self._makers.clear()
        for table in (edges, embedders, vectors):
            self._connection.execute(table.delete().where(table.c.namespace == namespace))
        committed = sa.and_(extractions.c.namespace == namespace, extractions.c.pending.is_(False))
        self._connection.execute(extractions.delete().where(committed))
        return int(self._of_namespace(namespaces.c.generations, namespace))

    def set_namespace(self, namespace: str, **values: Any) -> None:
        """Set columns of a namespace."""
        self._forget()
        self._connection.execute(
            namespaces.update().where(namespaces.c.namespace == namespace).values(**values)
        )

    def put(
        self,
        table: sa.Table,
        rows: Sequence[Mapping[str, Any]],
        replace: sa.ColumnElement[bool] | bool = True,
    ) -> None:
        """Insert rows; one of the same primary key is replaced, or only where `replace` holds."""
        if not rows:
            return
        insert: Any = _INSERT[self._connection.dialect.name](table)
        if replace is False:
            self._connection.execute(insert.on_conflict_do_nothing(), list(rows))
            return
        changed = {c.name: insert.excluded[c.name] for c in table.columns if not c.primary_key}
        statement = insert.on_conflict_do_update(
            index_elements=table.primary_key,
            set_=changed,
            where=None if replace is True else replace,
        )
        self._connection.execute(statement, list(rows))

    # -- parts --------------------------------------------------------------------------------

    def _log(self, namespace: str, ids: Sequence[str], *, deleted: bool = False) -> None:
        if not ids:
            return
        version = self.raise_version(namespace)
        rows = [
            {
                "namespace": namespace,
                "id_key": text_key(i),
                "passage_id": None if deleted else i,
                "version": version,
            }
            for i in ids
        ]
        self.put(changes, rows)

    def _forget(self) -> None:
        """Read the namespaces' rows again, and their embedders'."""
        self._rows.clear()
        self._makers.clear()

    def _put_embedder(
        self, namespace: str, generation: int, name: str, probe: NDArray[np.float32]
    ) -> None:
        self._forget()
        row = {
            "namespace": namespace,
            "generation": generation,
            "name": name,
            "probe": vector_bytes(probe),
            "dimension": len(probe),
        }
        self._makers.clear()
        self.put(embedders, [row])

    def _purge_parts(self, namespace: str, keys: Sequence[str]) -> None:
        """Delete what was read out of parts of texts."""
        column = extractions.c.text_key
        parts = sa.select(column).where(extractions.c.namespace == namespace, column.contains(PART))
        gone = set(keys)
        found = [key for key in self._connection.scalars(parts) if key.partition(PART)[0] in gone]
        self._delete(extractions, column, found, extractions.c.namespace == namespace)

    def _purge_vector_keys(self, namespace: str, kind: Kind, keys: Sequence[str]) -> None:
        if not keys:
            return
        query = sa.select(embedders.c.generation).where(embedders.c.namespace == namespace)
        generations = [UNRECORDED, *self._connection.scalars(query)]  # as the primary key begins
        of_kind = sa.and_(
            vectors.c.namespace == namespace,
            vectors.c.generation.in_(generations),
            vectors.c.kind == kind,
        )
        self._delete(vectors, vectors.c.text_key, keys, of_kind)

    def _delete(
        self,
        table: sa.Table,
        column: sa.Column[Any],
        values: Sequence[str],
        condition: sa.ColumnElement[bool],
    ) -> None:
        for some in batches(values, VALUES_AT_ONCE):
            self._connection.execute(table.delete().where(condition, column.in_(some)))
