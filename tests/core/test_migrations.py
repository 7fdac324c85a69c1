"""A store of an older schema version opens as it was."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from hippo_core import (
    Edge,
    Extraction,
    HippoRAG,
    Passage,
    SchemaVersionError,
    Status,
    migrations,
)
from hippo_core.locations import DATABASE
from hippo_core.store import Store
from hippo_core.tables import SCHEMA_VERSION, metadata
from hippo_core.testing import HashEmbedder

VERSION_1 = """
CREATE TABLE settings (
    name VARCHAR NOT NULL, value VARCHAR NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE namespaces (
    namespace VARCHAR NOT NULL, version INTEGER NOT NULL, embedder VARCHAR, probe BLOB,
    PRIMARY KEY (namespace)
);
CREATE TABLE passages (
    namespace VARCHAR NOT NULL, id VARCHAR NOT NULL, text VARCHAR NOT NULL, title VARCHAR NOT NULL,
    source_id VARCHAR, metadata VARCHAR NOT NULL, text_key VARCHAR NOT NULL,
    reason VARCHAR NOT NULL, PRIMARY KEY (namespace, id)
);
CREATE INDEX passages_by_text ON passages (namespace, text_key);
CREATE TABLE extractions (
    namespace VARCHAR NOT NULL, text_key VARCHAR NOT NULL, pending BOOLEAN NOT NULL,
    extractor VARCHAR NOT NULL, status VARCHAR NOT NULL, reason VARCHAR NOT NULL,
    entities VARCHAR NOT NULL, triples VARCHAR NOT NULL, dropped VARCHAR NOT NULL,
    PRIMARY KEY (namespace, text_key, pending)
);
CREATE TABLE vectors (
    namespace VARCHAR NOT NULL, kind VARCHAR NOT NULL, text_key VARCHAR NOT NULL,
    vector BLOB NOT NULL, PRIMARY KEY (namespace, kind, text_key)
);
CREATE TABLE changes (
    namespace VARCHAR NOT NULL, id_key VARCHAR NOT NULL, passage_id VARCHAR,
    version INTEGER NOT NULL, PRIMARY KEY (namespace, id_key)
);
CREATE INDEX changes_by_version ON changes (namespace, version);
"""

ITEMS = [
    (
        Passage("Ada wrote notes.", id="ada", title="Ada", source_id="s", metadata={"year": 1843}),
        Extraction(("Ada",), [("Ada", "wrote", "notes")]),
    ),
    (Passage("Nothing.", id="nothing"), Extraction(status=Status.EMPTY)),
]
PENDING = Extraction(("Bob",), [("Bob", "read", "notes")])


def columns(connection, table):
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


@pytest.fixture(params=[1, 2, 3])
def folder(request, tmp_path):
    """A store of an older schema: three versions of one namespace, one of another."""
    with HippoRAG(None, HashEmbedder(), store=tmp_path / "new") as memory:
        memory.add_extracted(ITEMS)
        memory.add_extracted([(Passage("Gone.", id="gone"), Extraction())])
        memory.delete(["gone"])
        with memory._store.write() as writer:
            writer.save_extraction("default", "k" * 64, "reader", PENDING)
            writer.save_entities("unread", "e" * 64, "reader", ["Eve"])
            writer.save_vectors("unrecorded", "phrase", {"ada": np.ones(2, dtype=np.float32)})
    if request.param > 1:
        with closing(sqlite3.connect(tmp_path / "new" / DATABASE)) as old:
            old.execute("ALTER TABLE hippo_passages DROP COLUMN embed_text")
            if request.param == 2:
                old.execute("DROP TABLE hippo_edges")
            old.execute(
                "UPDATE hippo_settings SET value = ? WHERE name = 'schema'", [str(request.param)]
            )
            old.commit()
        return (tmp_path / "new").rename(tmp_path / "m")
    (tmp_path / "m").mkdir()
    with closing(sqlite3.connect(tmp_path / "m" / DATABASE)) as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.executescript(VERSION_1)
        old.execute("ATTACH ? AS new", [str(tmp_path / "new" / DATABASE)])
        for table in ("settings", "passages", "extractions", "vectors", "changes"):
            names = ", ".join(columns(old, table))
            old.execute(f"INSERT INTO {table} SELECT {names} FROM new.hippo_{table}")
        old.execute(
            "INSERT INTO namespaces SELECT n.namespace, n.version, e.name, e.probe "
            "FROM new.hippo_namespaces n JOIN new.hippo_embedders e USING (namespace)"
        )
        old.execute("UPDATE settings SET value = '1' WHERE name = 'schema'")
        old.commit()
    return tmp_path / "m"


def test_an_older_store_opens_with_all_that_it_held(folder):
    with HippoRAG(None, HashEmbedder(), store=folder, create=False) as memory:
        assert list(memory) == sorted((p for p, _ in ITEMS), key=lambda p: p.id)
        assert memory.retrieve("Who wrote notes?").path.used_graph
        with memory._store.read() as reader:
            stored = {s.passage.id: s.extraction for s in reader.passages("default")}
            assert stored == {p.id: e for p, e in ITEMS}
            assert reader.version("default") == 3
            assert reader.has_commit("default", *reader.commit("default"))
            assert len(reader.commit("default")[1]) == 32
            assert reader.changed_since("default", 2)[0] == []
            assert len(reader.changed_since("default", 2)[1]) == 1
            assert reader.pending_keys("default") == {"k" * 64}
            assert reader.extractions("default", ["k" * 64]) == {"k" * 64: PENDING}
            assert reader.entities("unread", "e" * 64, "reader") == ("Eve",)
            assert reader.namespaces() == ["default", "unread", "unrecorded"]
            assert reader.vectors("unrecorded", "phrase", ["ada"])["ada"].tolist() == [1, 1]
            assert reader.embedder("default").name == "hash"
            assert reader.embedder("default").dimension == 64
            assert reader.curation("default") is None


def test_a_migrated_store_has_the_tables_of_a_new_one(folder, tmp_path):
    Store(folder).close()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        found = dict(
            connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        )
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        schema = connection.execute("SELECT value FROM hippo_settings WHERE name = 'schema'")
        assert schema.fetchone() == (str(SCHEMA_VERSION),)
        for table in metadata.tables.values():
            assert columns(connection, table.name) == [c.name for c in table.columns]
    Store(tmp_path / "fresh").close()
    with closing(sqlite3.connect(tmp_path / "fresh" / DATABASE)) as connection:
        (new,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'hippo_passages'")
    (column,) = [line.strip() for line in new[0].splitlines() if "embed_text" in line]
    assert column.rstrip(",") in found["hippo_passages"]
    indexes = {index.name for table in metadata.tables.values() for index in table.indexes}
    assert set(found) == {*metadata.tables, *indexes}


def test_a_migrated_store_goes_on(folder):
    for _ in range(2):
        with HippoRAG(None, HashEmbedder(), store=folder) as memory:
            memory.add_extracted(
                [(Passage("Bob read.", id="bob", embed_text="of Bob"), PENDING)],
                edges=[Edge("bob", to_passage="ada")],
            )
            assert [p.embed_text for p in memory] == ["", "of Bob", ""]
            assert memory.stats().user_edges == 1
            memory.delete(["bob"])
            assert memory.verify().ok
            assert [p.id for p in memory] == ["ada", "nothing"]


def test_a_migration_that_fails_leaves_the_older_version(folder, monkeypatch):
    last = SCHEMA_VERSION - 1
    step = migrations._STEPS[last]

    def fail(connection):
        step(connection)
        raise ZeroDivisionError

    monkeypatch.setitem(migrations._STEPS, last, fail)
    before = dump(folder)
    with pytest.raises(ZeroDivisionError):
        Store(folder)
    assert dump(folder) == before
    monkeypatch.undo()
    Store(folder).close()


def dump(folder):
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        return list(connection.iterdump())


def test_handles_that_migrate_one_store_at_once_share_it(folder, at_once):
    def count():
        with HippoRAG(None, HashEmbedder(), store=folder) as memory:
            return len(memory)

    assert at_once(*[count] * 4) == [2] * 4


def test_what_is_no_known_version_is_refused(folder):
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%settings'")
        ((table,),) = names.fetchall()
        connection.execute(f"UPDATE {table} SET value = '7' WHERE name = 'schema'")
        connection.commit()
    before = dump(folder)
    with pytest.raises(SchemaVersionError, match="version 7.* version 4; upgrade"):
        Store(folder)
    assert dump(folder) == before
