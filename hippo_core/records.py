"""What is read from the database inside one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from hippo_core.contributions import Target
from hippo_core.errors import StoreCorruptError
from hippo_core.openie import CUT_ENTITIES
from hippo_core.rows import (
    batches,
    edges_of,
    entities_of,
    extraction_of,
    naming,
    passage_of,
    vector_of,
)
from hippo_core.tables import (
    ENTITIES_READ,
    UNRECORDED,
    changes,
    commits,
    edges,
    embedders,
    extractions,
    metadata,
    namespaces,
    passages,
    vectors,
)
from hippo_core.text import sha256_hex
from hippo_core.types import Extraction, Kind, Passage, Status

PART = "/"  # in the key of a part of a text, behind the key of that text
VALUES_AT_ONCE = 500  # bound parameters in one statement
_ITS_EXTRACTION = sa.and_(
    extractions.c.namespace == passages.c.namespace,
    extractions.c.text_key == passages.c.text_key,
    extractions.c.pending.is_(False),
)
_ITS_EDGES = sa.and_(edges.c.namespace == passages.c.namespace, edges.c.passage_id == passages.c.id)


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A live passage with what was read out of it, and the user's edges."""

    passage: Passage
    extraction: Extraction
    edges: Mapping[Target, float] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """What became of its extraction."""
        return self.extraction.status


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """An embedder of a namespace: the one it was built with, or one that takes its place."""

    name: str
    dimension: int
    probe: NDArray[np.float32]
    generation: int
    """Which of the namespace's embedders it is; its vectors are kept under it."""


def text_key(text: str) -> str:
    """Give the key under which an extraction or a vector of a text is kept."""
    return sha256_hex(text)


def part_key(key: str, text: str) -> str:
    """Give the key of a part of the text that has a key: it goes when that text goes.

    >>> part_key("key", "Ada wrote.").startswith("key/")
    True
    """
    return f"{key}{PART}{text_key(text)}"


class Reader:
    """Reads inside one transaction: everything it gives belongs to one state."""

    def __init__(self, connection: Connection, where: str = "the store") -> None:
        self._connection = connection
        self._where = where  # the store's name in an error message
        self._rows: dict[str, sa.Row[Any] | None] = {}
        self._makers: dict[tuple[str, int | None], tuple[int, int | None]] = {}

    # -- the history --------------------------------------------------------------------------

    def version(self, namespace: str) -> int:
        """Give the version of the last commit; 0 before the first."""
        return int(self._of_namespace(namespaces.c.version, namespace) or 0)

    def commit(self, namespace: str) -> tuple[int, str]:
        """Give version and id of the last commit; (0, "") before the first."""
        version = self.version(namespace)
        return version, self._commit_id(namespace, version) or ""

    def has_commit(self, namespace: str, version: int, commit_id: str) -> bool:
        """Whether a state that was derived at this commit is a past or the present one here."""
        return (self._commit_id(namespace, version) or "") == commit_id and (
            (version == 0) == (commit_id == "")
        )

    def changed_since(self, namespace: str, version: int) -> tuple[list[str], set[str]]:
        """Give what was committed after a version.

        Returns:
            The ids of passages that were added or changed, and the `text_key` of deleted ones' ids.
        """
        query = sa.select(changes.c.id_key, changes.c.passage_id).where(
            changes.c.namespace == namespace, changes.c.version > version
        )
        rows = list(self._connection.execute(query))
        there = [row.passage_id for row in rows if row.passage_id is not None]
        return there, {row.id_key for row in rows if row.passage_id is None}

    # -- the namespaces -----------------------------------------------------------------------

    def namespaces(self) -> list[str]:
        """Give the namespaces that hold something, in order."""
        name = namespaces.c.namespace
        holds_rows = [
            sa.exists().where(table.c.namespace == name)
            for table in (passages, extractions, vectors, embedders)
        ]
        found = self._connection.scalars(
            sa.select(name).where(sa.or_(namespaces.c.curation.is_not(None), *holds_rows))
        )
        return sorted(found)

    def curation(self, namespace: str) -> str | None:
        """Give the user's curation as it was saved, which is JSON; None if there is none."""
        found = self._of_namespace(namespaces.c.curation, namespace)
        return None if found is None else str(found)

    def generation(self, namespace: str) -> int | None:
        """Give the generation of the current embedder; None before one is recorded."""
        found = self._of_namespace(namespaces.c.generation, namespace)
        return None if found is None else int(found)

    def embedder(self, namespace: str) -> EmbedderRecord | None:
        """Give the embedder that the namespace was built with; None before one is recorded."""
        generation = self.generation(namespace)
        found = [e for e in self._embedders(namespace) if e.generation == generation]
        return found[0] if found else None

    def pending_embedders(self, namespace: str) -> list[EmbedderRecord]:
        """Give the embedders that are not current: the vectors by them are still being made."""
        generation = self.generation(namespace)
        return [e for e in self._embedders(namespace) if e.generation != generation]

    # -- passages and what was read out of them -----------------------------------------------

    def passages(self, namespace: str, ids: Collection[str] | None = None) -> list[StoredPassage]:
        """Give the live passages, all or those of `ids`, with their extractions."""
        query = (
            sa.select(
                passages,
                extractions.c.status,
                extractions.c.reason.label("extraction_reason"),
                extractions.c.entities,
                extractions.c.triples,
                extractions.c.dropped,
                extractions.c.extractor,
                edges.c.edges,
            )
            .select_from(
                passages.outerjoin(extractions, _ITS_EXTRACTION).outerjoin(edges, _ITS_EDGES)
            )
            .where(passages.c.namespace == namespace)
        )
        rows = self._where_in(query, passages.c.id, ids)
        return [self._stored_passage(row) for row in rows]

    def has_passages(self, namespace: str) -> bool:
        """Whether there is a live passage."""
        query = sa.select(passages.c.id).where(passages.c.namespace == namespace).limit(1)
        return self._connection.scalar(query) is not None

    def ids_of_texts(self, namespace: str, keys: Collection[str]) -> list[str]:
        """Give the ids of the live passages that have one of these texts."""
        query = sa.select(passages.c.id).where(passages.c.namespace == namespace)
        return [row.id for row in self._where_in(query, passages.c.text_key, keys)]

    def ids_of_source(self, namespace: str, source_id: str) -> list[str]:
        """Give the ids of the live passages that came from a source, in order."""
        found = self._connection.scalars(
            sa.select(passages.c.id).where(
                passages.c.namespace == namespace, passages.c.source_id == source_id
            )
        )
        return sorted(found)

    def extractions(
        self,
        namespace: str,
        keys: Collection[str],
        *,
        pending: bool = True,
        extractor: str | None = None,
    ) -> dict[str, Extraction]:
        """Give what was read out of texts last, finished or partial, by text key.

        Without `pending` only what is committed with its vectors; of one extractor, or of any.
        """
        query = (
            sa.select(extractions)
            .where(extractions.c.namespace == namespace, extractions.c.status != ENTITIES_READ)
            .order_by(extractions.c.pending)
        )
        if not pending:
            query = query.where(extractions.c.pending.is_(False))
        if extractor is not None:
            query = query.where(extractions.c.extractor == extractor)
        rows = self._where_in(query, extractions.c.text_key, keys)
        return {row.text_key: self._extraction(row) for row in rows}

    def extractors(self, namespace: str, keys: Collection[str]) -> dict[str, str]:
        """Give the extractor of each text's committed extraction, by text key."""
        query = sa.select(extractions.c.text_key, extractions.c.extractor).where(
            extractions.c.namespace == namespace, extractions.c.pending.is_(False)
        )
        return {key: by for key, by in self._where_in(query, extractions.c.text_key, keys)}

    def passages_by_extractor(self, namespace: str) -> dict[str, int]:
        """Count the live passages that each extractor read, by its name, in order."""
        counted = sa.func.count().label("passages")
        query = (
            sa.select(extractions.c.extractor, counted)
            .join_from(passages, extractions, _ITS_EXTRACTION)
            .where(passages.c.namespace == namespace)
            .group_by(extractions.c.extractor)
        )
        return {row.extractor: int(row.passages) for row in sorted(self._connection.execute(query))}

    def extraction_keys(self, namespace: str) -> set[str]:
        """Give the keys of the texts that have a committed extraction."""
        return self._extraction_keys(namespace, pending=False)

    def pending_keys(self, namespace: str) -> set[str]:
        """Give the keys of the texts that were read, all or in part, and not committed."""
        return self._extraction_keys(namespace, pending=True)

    def entities(self, namespace: str, key: str, extractor: str) -> tuple[str, ...] | None:
        """Give the entities of a text that lacks triples, all or some, if this extractor has."""
        found = self._connection.scalar(
            sa.select(extractions.c.entities)
            .where(
                extractions.c.namespace == namespace,
                extractions.c.text_key == key,
                extractions.c.extractor == extractor,
                extractions.c.status.in_((ENTITIES_READ, Status.PARTIAL.value)),
                ~extractions.c.reason.contains(CUT_ENTITIES),
            )
            .order_by(extractions.c.pending.desc())
        )
        if found is None:
            return None
        with naming(self._where, f"the entities of text {key}"):
            return entities_of(found)

    # -- vectors ------------------------------------------------------------------------------

    def vectors(
        self, namespace: str, kind: Kind, texts: Iterable[str], generation: int | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """Give the stored unit vectors among texts, by text; the current embedder's by default."""
        text_of = {text_key(text): text for text in texts}
        if not text_of:
            return {}
        made_by, dimension = self._made_by(namespace, generation)
        query = sa.select(vectors.c.text_key, vectors.c.vector).where(
            vectors.c.namespace == namespace,
            vectors.c.generation == made_by,
            vectors.c.kind == kind,
        )
        found = {}
        for key, blob in self._where_in(query, vectors.c.text_key, text_of.keys()):
            if key not in text_of:
                raise StoreCorruptError(
                    f"{self._where}: a row and its index differ ({kind} vector {key!r:.80}); "
                    "restore it from a copy"
                )
            with naming(self._where, f"the {kind} vector of {text_of[key][:80]!r}"):
                dimension = dimension or len(blob) // 4
                found[text_of[key]] = vector_of(blob, dimension)
        return found

    def vector_keys(
        self, namespace: str, kind: Kind, generation: int | None = None
    ) -> dict[str, int]:
        """Give the length in bytes of each stored vector, by the key of its text."""
        made_by, _ = self._made_by(namespace, generation)
        query = sa.select(vectors.c.text_key, sa.func.length(vectors.c.vector)).where(
            vectors.c.namespace == namespace,
            vectors.c.generation == made_by,
            vectors.c.kind == kind,
        )
        return {key: int(size) for key, size in self._connection.execute(query)}

    # -- rows as they are ---------------------------------------------------------------------

    def parts(self, query: sa.Select[Any], size: int) -> Iterator[Sequence[sa.Row[Any]]]:
        """Give the rows of a query in parts, so that memory holds one part."""
        with self._connection.execute(query, execution_options={"yield_per": size}) as rows:
            yield from rows.partitions()

    # -- the database -------------------------------------------------------------------------

    def contradictions(self, namespace: str) -> Iterator[str]:
        """Give what the rows of a namespace say against each other."""
        query = sa.select(passages.c.id, passages.c.text_key, passages.c.text, passages.c.title)
        for row in self._connection.execute(query.where(passages.c.namespace == namespace)):
            if row.text_key != text_key(Passage(row.text, title=row.title).full_text):
                yield f"passage {row.id!r:.80} is kept under the key of another text"
        version, commit = self.commit(namespace)
        if version and not commit:
            yield f"version {version} has no commit"
        logged = sa.select(changes).where(changes.c.namespace == namespace)
        for row in self._connection.execute(logged):
            with naming(self._where, "a row of the change log"):
                is_later = row.version > version
                is_mislaid = row.passage_id is not None and row.id_key != text_key(
                    f"{row.passage_id}"
                )
            if is_later:
                yield f"a change is of version {row.version}, and the last one is {version}"
            if is_mislaid:
                yield f"passage {row.passage_id!r:.80} is logged under the key of another id"
        yield from self._embedders_missing(namespace)
        owners = sa.select(edges.c.passage_id).select_from(edges.outerjoin(passages, _ITS_EDGES))
        strays = owners.where(edges.c.namespace == namespace, passages.c.id.is_(None))
        for id_ in self._connection.scalars(strays):
            yield f"there are edges of passage {id_!r:.80}, which is not there"

    def _embedders_missing(self, namespace: str) -> Iterator[str]:
        known = {e.generation for e in self._embedders(namespace)}
        given = int(self._of_namespace(namespaces.c.generations, namespace) or 0)
        current = self.generation(namespace)
        if known and max(known) > given:
            yield f"embedder {max(known)} is there, and only {given} were ever recorded"
        if current is not None and current not in known:
            yield f"the record of its embedder ({current}) is missing"
        made_by = sa.select(vectors.c.generation).where(vectors.c.namespace == namespace)
        for generation in set(self._connection.scalars(made_by.distinct())) - known - {UNRECORDED}:
            yield f"there are vectors of an unknown embedder ({generation})"

    def damage(self) -> list[str]:
        """Give what the database finds wrong with its own pages; a server sees to that itself."""
        if self._connection.dialect.name != "sqlite":
            return []
        there = sa.inspect(self._connection)
        missing = [
            f"{self._where}: the index {index.name} is missing"
            for table in metadata.sorted_tables
            for index in table.indexes
            if index.name not in {i["name"] for i in there.get_indexes(table.name)}
        ]
        found = self._connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars()
        return missing + [f"{self._where}: {line:.200}" for line in found if line != "ok"]

    # -- parts --------------------------------------------------------------------------------

    def _of_namespace(self, column: sa.Column[Any], namespace: str) -> Any:
        """Give what stands in the row of a namespace or its embedder, read once a transaction."""
        if namespace not in self._rows:
            current = sa.and_(
                embedders.c.namespace == namespaces.c.namespace,
                embedders.c.generation == namespaces.c.generation,
            )
            query = (
                sa.select(namespaces, embedders.c.dimension)
                .select_from(namespaces.outerjoin(embedders, current))
                .where(namespaces.c.namespace == namespace)
            )
            self._rows[namespace] = self._connection.execute(query).one_or_none()
        row = self._rows[namespace]
        return None if row is None else row._mapping[column]

    def _commit_id(self, namespace: str, version: int) -> str | None:
        return self._connection.scalar(
            sa.select(commits.c.commit_id).where(
                commits.c.namespace == namespace, commits.c.version == version
            )
        )

    def _embedders(self, namespace: str) -> list[EmbedderRecord]:
        found = []
        query = sa.select(embedders).where(embedders.c.namespace == namespace)
        for row in self._connection.execute(query.order_by(embedders.c.generation)).all():
            with naming(self._where, f"the probe vector of embedder {row.name!r}"):
                probe = vector_of(row.probe, row.dimension)
            found.append(EmbedderRecord(row.name, row.dimension, probe, row.generation))
        return found

    def _made_by(self, namespace: str, generation: int | None) -> tuple[int, int | None]:
        """Give the generation to use, and its dimension where that is known."""
        found = self._makers.get((namespace, generation))
        if found is None:
            found = self._makers[namespace, generation] = self._maker(namespace, generation)
        return found

    def _maker(self, namespace: str, generation: int | None) -> tuple[int, int | None]:
        current = self.generation(namespace)
        if generation is None:
            generation = current
        if generation is None:
            return UNRECORDED, None
        if generation == current:
            return generation, self._of_namespace(embedders.c.dimension, namespace)
        dimension = self._connection.scalar(
            sa.select(embedders.c.dimension).where(
                embedders.c.namespace == namespace, embedders.c.generation == generation
            )
        )
        return generation, dimension

    def _extraction_keys(self, namespace: str, *, pending: bool) -> set[str]:
        query = sa.select(extractions.c.text_key).where(
            extractions.c.namespace == namespace, extractions.c.pending.is_(pending)
        )
        return set(self._connection.scalars(query))

    def _stored_passage(self, row: Any) -> StoredPassage:
        with naming(self._where, f"passage {row.id!r:.200}"):
            passage, own = passage_of(row), edges_of(row.edges)
            if row.status is None:
                failed = Extraction(status=Status.FAILED, reason=row.reason)
                return StoredPassage(passage, failed, own)
            return StoredPassage(passage, extraction_of(row, row.extraction_reason), own)

    def _extraction(self, row: Any) -> Extraction:
        with naming(self._where, f"what was read out of text {row.text_key!r:.200}"):
            return extraction_of(row, row.reason)

    def _where_in(
        self, query: sa.Select[Any], column: sa.Column[Any], values: Collection[str] | None
    ) -> Iterator[Any]:
        # All at once: a statement that an error leaves half read would hold up the log.
        if values is None:
            yield from self._connection.execute(query).all()
            return
        for some in batches(list(values), VALUES_AT_ONCE):
            yield from self._connection.execute(query.where(column.in_(some))).all()
