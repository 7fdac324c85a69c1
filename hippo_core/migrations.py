"""The schema's versions: what a database is, and how an older one becomes the present one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hippo_core.errors import NotAStoreError, SchemaVersionError, StoreCorruptError
from hippo_core.tables import FORMAT, SCHEMA_VERSION, edges, metadata, settings

_V1_SETTINGS = "settings"
_V1_RENAMED = ("settings", "passages", "extractions", "changes")
_V1_INDEXES = ("passages_by_text", "changes_by_version")


def create_schema(connection: Connection) -> None:
    """Make the tables of a new store."""
    metadata.create_all(connection)
    rows = {"format": FORMAT, "schema": str(SCHEMA_VERSION), "store_id": uuid.uuid4().hex}
    connection.execute(
        settings.insert(), [{"name": name, "value": value} for name, value in rows.items()]
    )


def holds_nothing_of_ours(connection: Connection) -> bool:
    """Whether a database has none of our tables."""
    there = sa.inspect(connection)
    return not any(there.has_table(name) for name in metadata.tables)


def identify(connection: Connection, where: str) -> tuple[int, str]:
    """Give a store's schema version and id.

    Raises:
        NotAStoreError: The database is not ours.
        SchemaVersionError: Another hippo-core wrote it.
        StoreCorruptError: It was emptied, or its settings cannot be read.
    """
    if connection.dialect.name == "sqlite":
        _refuse_code(connection, where)
    table = _settings_table(connection)
    if table is None:
        raise StoreCorruptError(
            f"{where} holds none of our tables: it was emptied or is not ours. "
            "Restore it from a copy, or name another folder."
        )
    found = dict(connection.execute(sa.select(table.c.name, table.c.value)).all())
    if found.get("format") != FORMAT:
        raise NotAStoreError(f"{where} is not a hippo-core store")
    schema = str(found.get("schema", ""))
    if not schema.isdecimal():
        raise StoreCorruptError(f"{where} says schema {schema!r}, which is no version")
    version = int(schema)
    if version != SCHEMA_VERSION and version not in _STEPS:
        newer = version > SCHEMA_VERSION
        raise SchemaVersionError(
            f"{where} has schema version {version}, this hippo-core reads version "
            f"{SCHEMA_VERSION}; "
            + ("upgrade hippo-core" if newer else "open it with the hippo-core that wrote it")
        )
    if connection.dialect.name == "sqlite" and version == SCHEMA_VERSION:
        _refuse_foreign_tables(connection, where)
    return version, str(found.get("store_id", ""))


def migrate(connection: Connection, where: str) -> None:
    """Bring an older store to the present version, inside one transaction."""
    version, _ = identify(connection, where)  # again: another process may have been faster
    while version != SCHEMA_VERSION:
        _STEPS[version](connection)
        version += 1
        connection.execute(
            settings.update().where(settings.c.name == "schema").values(value=str(version))
        )


def _refuse_code(connection: Connection, where: str) -> None:
    """Refuse a file in which reading or writing a table would run something."""
    schema = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master").all()
    for kind, name, sql in schema:
        virtual = " ".join(str(sql).upper().split()).startswith("CREATE VIRTUAL")
        if kind not in ("table", "index") or virtual:
            kind = "virtual table" if virtual else kind
            raise NotAStoreError(f"{where} holds a {kind}, {name!r}, which no store of ours does")


def _refuse_foreign_tables(connection: Connection, where: str) -> None:
    ours = {*metadata.tables, *(i.name for t in metadata.tables.values() for i in t.indexes)}
    names = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars()
    foreign = {name for name in names if not name.startswith("sqlite_")} - ours
    if foreign:
        raise NotAStoreError(f"{where} holds {sorted(foreign)!r}, which no store of ours does")


def _settings_table(connection: Connection) -> sa.Table | None:
    there = sa.inspect(connection)
    if there.has_table(settings.name):
        return settings
    if connection.dialect.name == "sqlite" and there.has_table(_V1_SETTINGS):
        return settings.to_metadata(sa.MetaData(), name=_V1_SETTINGS)
    return None


def _from_1(connection: Connection) -> None:
    """Prefix the tables; give vectors a generation, embedders and commits a table."""
    run = connection.exec_driver_sql
    for name in _V1_RENAMED:
        run(f"ALTER TABLE {name} RENAME TO hippo_{name}")
    for name in _V1_INDEXES:
        run(f"DROP INDEX {name}")
    metadata.create_all(connection)
    for table in metadata.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    run(
        "INSERT INTO hippo_namespaces (namespace, version, generation, generations) "
        "SELECT namespace, version, CASE WHEN embedder IS NULL THEN NULL ELSE 1 END, "
        "embedder IS NOT NULL FROM namespaces"
    )
    for name in ("hippo_passages", "hippo_extractions", "vectors"):
        run(
            "INSERT OR IGNORE INTO hippo_namespaces (namespace, version, generations) "  # noqa: S608
            f"SELECT DISTINCT namespace, 0, 0 FROM {name}"
        )
    run(
        "INSERT INTO hippo_embedders (namespace, generation, name, probe, dimension) "
        "SELECT namespace, 1, embedder, probe, length(probe) / 4 FROM namespaces "
        "WHERE embedder IS NOT NULL"
    )
    run(
        "INSERT INTO hippo_vectors (namespace, generation, kind, text_key, vector) "
        "SELECT v.namespace, coalesce(n.generation, 0), v.kind, v.text_key, v.vector "
        "FROM vectors v JOIN hippo_namespaces n ON n.namespace = v.namespace"
    )
    run(
        "INSERT INTO hippo_commits (namespace, version, commit_id) "
        "SELECT namespace, version, lower(hex(randomblob(16))) FROM namespaces WHERE version > 0"
    )
    run("DROP TABLE namespaces")
    run("DROP TABLE vectors")


def _from_2(connection: Connection) -> None:
    """Give the user's edges a table."""
    edges.create(connection, checkfirst=True)


def _from_3(connection: Connection) -> None:
    """Give passages a text to embed in place of their own: none."""
    connection.exec_driver_sql(
        "ALTER TABLE hippo_passages ADD COLUMN embed_text VARCHAR DEFAULT '' NOT NULL"
    )


_STEPS: Mapping[int, Callable[[Connection], None]] = {1: _from_1, 2: _from_2, 3: _from_3}
