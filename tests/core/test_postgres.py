"""What is of PostgreSQL alone: URLs and secrets, locks, lost connections, foreign text."""

import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from contextlib import closing

import pytest

from hippo_core import (
    Edge,
    Extraction,
    HippoRAG,
    InputError,
    MissingDependencyError,
    NotAStoreError,
    Passage,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
    migrations,
)
from hippo_core.locations import checked_location, shown
from hippo_core.store import Store
from hippo_core.testing import HashEmbedder

server = pytest.mark.skipif(
    not os.environ.get("HIPPO_TEST_POSTGRES"), reason="needs a server (make test-postgres)"
)


@pytest.fixture
def url(store_location):
    return store_location


@pytest.fixture
def driver(url):
    """A connection of the driver's own, in the store's schema."""
    psycopg = pytest.importorskip("psycopg")
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        yield connection


# -- URLs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_url_takes_the_one_driver(scheme):
    url = checked_location(f"{scheme}://u:secret@h:5433/db?sslmode=require")
    assert url.drivername == "postgresql+psycopg"
    assert (url.username, url.host, url.port, url.database) == ("u", "h", 5433, "db")
    assert shown(url) == "postgresql://u:***@h:5433/db?sslmode=require"


def test_the_folder_of_a_socket_may_stand_where_a_host_does():
    url = checked_location("postgresql://u@%2Frun%2Fpg/db")
    assert not url.host
    assert url.query["host"] == "/run/pg"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=geheim",
        "postgresql://u:geheim@127.0.0.1:1/db?connect_timeout=nonsense",
        "postgresql://u:geheim@127.0.0.1:port/db",
        "postgresql://u:geheim@127.0.0.1:1/db?geheimnis=1&sslpassword=geheim",
        "mysql://u:geheim@h/db",
        "postgresql+psycopg2://u:geheim@h/db",
    ],
)
def test_no_error_shows_a_password(url, caplog):
    pytest.importorskip("psycopg")
    caplog.set_level(logging.DEBUG)
    with pytest.raises((StoreError, InputError)) as caught:
        Store(url)
    said = "".join(traceback.format_exception(caught.value))
    said = "\n".join(line for line in said.splitlines() if "Store(url)" not in line)
    assert "geheim" not in said.replace("geheimnis", "")
    assert "geheim" not in caplog.text


def test_a_server_that_is_not_there_is_an_error_that_says_try_again():
    pytest.importorskip("psycopg")
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1.*try again"):
        Store("postgresql://u@127.0.0.1:1/db")


def test_without_the_driver_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"hippo-core\[postgres\]"):
        Store("postgresql://u@127.0.0.1:1/db")


# -- opening ---------------------------------------------------------------------------------------


@server
def test_a_store_on_a_server_tells_where_it_is(url, tmp_path):
    with closing(Store(url)) as store, closing(Store(url, snapshot_dir=tmp_path)) as other:
        assert store.folder is None
        assert store.snapshots is None
        assert other.snapshots == tmp_path
        assert store.id == other.id
        assert store.url.drivername == "postgresql+psycopg"
        assert repr(store).startswith("Store('postgresql://")


@server
def test_without_create_a_database_of_something_else_is_left_alone(url, driver):
    driver.execute("CREATE TABLE settings (x int)")
    with pytest.raises(NotAStoreError, match="create=True"):
        Store(url, create=False)
    found = driver.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    assert found.fetchall() == [("settings",)]
    Store(url).close()
    Store(url, create=False).close()


@server
def test_our_tables_have_our_prefix(url, driver):
    Store(url).close()
    found = driver.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    assert all(name.startswith("hippo_") for (name,) in found)
    found = driver.execute("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")
    assert all(name.startswith("hippo_") for (name,) in found)


@server
@pytest.mark.parametrize("schema", [2, 3])
def test_a_store_of_an_older_schema_is_brought_to_the_present_one(schema, url, driver, at_once):
    items = [(Passage(text, id=text), Extraction()) for text in "ab"]
    with HippoRAG(None, HashEmbedder(), store=url) as memory:
        memory.add_extracted(items)
        before = columns(driver)
    driver.execute("ALTER TABLE hippo_passages DROP COLUMN embed_text")
    if schema == 2:
        driver.execute("DROP TABLE hippo_edges")
    driver.execute("UPDATE hippo_settings SET value = %s WHERE name = 'schema'", [str(schema)])
    at_once(*[lambda: Store(url).close()] * 3)
    assert columns(driver) == before
    with HippoRAG(None, HashEmbedder(), store=url) as memory:
        assert [p.embed_text for p in memory] == ["", ""]
        report = memory.add_extracted(items, edges=[Edge("a", to_passage="b")])
        assert report.unchanged == ("a", "b")
        memory.add_extracted([(Passage("a", id="c", embed_text="of\x00c"), Extraction())])
        assert memory.get(["c"])[0].embed_text == "of\x00c"
        assert memory.stats().user_edges == 1
        assert memory.verify().ok


@server
def test_a_migration_that_fails_leaves_the_older_version(url, driver, monkeypatch):
    Store(url).close()
    present = columns(driver)
    driver.execute("ALTER TABLE hippo_passages DROP COLUMN embed_text")
    driver.execute("UPDATE hippo_settings SET value = '3' WHERE name = 'schema'")
    before, step = columns(driver), migrations._STEPS[3]

    def fail(connection):
        step(connection)
        raise ZeroDivisionError

    monkeypatch.setitem(migrations._STEPS, 3, fail)
    with pytest.raises(ZeroDivisionError):
        Store(url)
    assert columns(driver) == before != present
    monkeypatch.undo()
    Store(url).close()
    assert columns(driver) == present


def columns(driver):
    """The columns of our passages, as the server describes them."""
    found = driver.execute(
        "SELECT column_name, data_type, is_nullable, column_default "
        "FROM information_schema.columns WHERE table_schema = current_schema() "
        "AND table_name = 'hippo_passages' ORDER BY ordinal_position"
    )
    return found.fetchall()


@server
def test_lost_tables_are_an_error(url, driver):
    with closing(Store(url)) as store:
        driver.execute("DROP TABLE hippo_settings")
        with pytest.raises(StoreCorruptError):
            Store(url)
        with pytest.raises(StoreCorruptError), store.write():
            pass


@server
@pytest.mark.parametrize("role", ["reader", "nobody"])
def test_a_role_that_may_not_write_or_read_is_told(role, url, driver):
    Store(url).close()
    name = f"{role}_{os.urandom(4).hex()}"
    (schema,) = driver.execute("SELECT current_schema()").fetchone()
    driver.execute(f"CREATE ROLE {name} LOGIN")
    if role == "reader":
        driver.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
        driver.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}")
    as_role = url.replace("//hippo@", f"//{name}@")
    try:
        if role == "nobody":
            with pytest.raises(StoreError):
                Store(as_role)
            return
        with closing(Store(as_role)) as store:
            with store.read() as reader:
                assert reader.namespaces() == []
            with pytest.raises(StoreError, match="permission denied"), store.write() as writer:
                writer.save_curation("n", "{}")
    finally:
        driver.execute(f"DROP OWNED BY {name}")
        driver.execute(f"DROP ROLE {name}")


# -- transactions ----------------------------------------------------------------------------------


@server
def test_a_reader_sees_one_state_while_others_write(url):
    with closing(Store(url)) as store, closing(Store(url)) as other:
        with store.read() as reader:
            assert reader.version("n") == 0
            with other.write() as writer:
                writer.save_curation("n", "{}")
            assert reader.version("n") == 0
            assert reader.curation("n") is None
        with store.read() as reader:
            assert reader.version("n") == 1


@server
def test_a_reader_cannot_write(url):
    with (
        closing(Store(url)) as store,
        pytest.raises(StoreError, match="read-only"),
        store.read() as reader,
    ):
        reader._connection.exec_driver_sql("DELETE FROM hippo_settings")


@server
def test_writers_of_several_handles_lose_no_version(url, at_once):
    def write():
        with closing(Store(url)) as store:
            for _ in range(10):
                with store.write() as writer:
                    writer.save_curation("n", "{}")

    at_once(*[write] * 4)
    with closing(Store(url)) as store, store.read() as reader:
        assert reader.version("n") == 40


@server
def test_a_writer_that_waits_sees_what_it_waited_for(url):
    with closing(Store(url)) as store, closing(Store(url)) as other:
        seen = []

        def wait():
            with other.write() as writer:
                seen.append(writer.version("n"))

        with store.write() as writer:
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.3)
            writer.save_curation("n", "{}")
            assert not seen
        thread.join(30)
        assert seen == [1]


@server
def test_a_lock_that_is_held_for_too_long_is_an_error_that_says_try_again(url, monkeypatch):
    monkeypatch.setattr("hippo_core.engines.LOCK_TIMEOUT", 50)
    with closing(Store(url)) as store, closing(Store(url)) as other:
        with store.write():
            with pytest.raises(StoreLockedError, match="try again"), other.write():
                pass
            with other.read() as reader:  # reading goes on
                assert reader.version("n") == 0
        with other.write() as writer:
            writer.save_curation("n", "{}")


@server
def test_stores_in_two_schemas_of_a_database_do_not_wait_for_each_other(new_location, monkeypatch):
    monkeypatch.setattr("hippo_core.engines.LOCK_TIMEOUT", 50)
    with (
        closing(Store(new_location())) as one,
        closing(Store(new_location())) as two,
        one.write() as first,
        two.write() as second,
    ):
        first.save_curation("n", "{}")
        second.save_curation("n", "{}")


@server
def test_a_lost_connection_is_an_error_that_says_try_again_and_then_is_mended(url, driver):
    kill = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    with closing(Store(url)) as store:
        with pytest.raises(StoreUnavailableError, match="try again"), store.write() as writer:  # noqa: PT012
            writer.save_curation("n", "{}")
            driver.execute(kill)
            time.sleep(0.2)
            writer.version("n")
        with store.read() as reader:
            assert reader.version("n") == 0
        driver.execute(kill)  # while it lies idle: nobody notices
        time.sleep(0.2)
        with store.write() as writer:
            writer.save_curation("n", "{}")


@server
def test_more_threads_than_connections_wait_for_each_other(url, at_once):
    with closing(Store(url)) as store:

        def read():
            for _ in range(3):
                with store.read() as reader:
                    assert reader.version("n") == 0

        at_once(*[read] * 60)


# -- text ------------------------------------------------------------------------------------------

TEXTS = ["\x00", "a\x00b", "\x1a", "\x1a0", "\x1a1", "\x00\x1a\x001", "\x1a\x1a0\x00", "0", "1"]


@server
def test_text_that_postgres_does_not_know_comes_back(url):
    passages = [
        Passage(f"T {t}", id=t, title=t, source_id=t, metadata={t: [t, {"k": t}]}) for t in TEXTS
    ]
    for text in TEXTS[:3]:
        with HippoRAG(None, HashEmbedder(name=text), store=url, namespace=text) as memory:
            memory.add_extracted([(p, Extraction(triples=[(text, "is", "x")])) for p in passages])
        with HippoRAG(None, HashEmbedder(name=text), store=url, namespace=text) as memory:
            assert list(memory) == sorted(passages, key=lambda p: p.id)
            assert memory.get(TEXTS) == passages
            assert memory.delete([TEXTS[0]]).deleted == (TEXTS[0],)
            with memory._store.read() as reader:
                assert reader.ids_of_source(text, "\x1a0") == ["\x1a0"]
                assert text in reader.namespaces()


@server
def test_an_id_that_is_too_long_for_an_index_is_an_error_that_says_so(url):
    long = os.urandom(4000).hex()
    with (
        HippoRAG(None, HashEmbedder(), store=url) as memory,
        pytest.raises(InputError, match="too long for PostgreSQL"),
    ):
        memory.add_extracted([(Passage("T", id=long), Extraction())])
    with HippoRAG(None, HashEmbedder(), store=url) as memory:
        assert len(memory) == 0


# -- processes -------------------------------------------------------------------------------------


FILL = """
import sys
from hippo_core.store import Store

store = Store(sys.argv[1])
for _ in range(5):
    with store.write() as writer:
        writer.save_curation("n", "{}")
store.close()
"""


@server
def test_processes_begin_and_fill_one_store_at_once(url):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    children = [
        subprocess.Popen([sys.executable, "-c", FILL, url], env=env, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for child in children:
        _, said = child.communicate(timeout=60)
        assert child.returncode == 0, said
    with closing(Store(url, create=False)) as store, store.read() as reader:
        assert reader.version("n") == 15


@server
def test_purging_frees_space(url):
    with closing(Store(url)) as store:
        with store.write() as writer:
            writer.save_curation("n", "{}")
            writer.delete_namespace("n")
        store.purge()
        with store.read() as reader:
            assert reader.version("n") == 2


# -- copies ----------------------------------------------------------------------------------------


@server
def test_a_memory_on_a_server_is_saved_over_its_earlier_copy(url, open_memory, tmp_path):
    def one(id_):
        return Passage(f"Text {id_}.", id=id_), Extraction(triples=[(id_, "is", "here")])

    memory = open_memory(store=url)
    memory.add_extracted([one("first")])
    memory.save(tmp_path / "copy")
    copy = open_memory(store=tmp_path / "copy")
    assert [p.id for p in copy] == ["first"]
    memory.delete(["first"])
    memory.add_extracted([one("second")])
    memory.save(tmp_path / "copy")
    assert [p.id for p in copy] == ["second"]
    assert copy.verify().ok
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy"]
