"""Names never become paths, and no text, from a user, a model or a foreign file, runs anything."""

import json
import pickle
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from hippo_core import Extraction, HippoError, HippoRAG, NotAStoreError, Passage
from hippo_core import index as index_module
from hippo_core.corpus_files import file_hash
from hippo_core.locations import DATABASE
from hippo_core.testing import HashEmbedder, ScriptedChatModel

pytestmark = pytest.mark.sqlite

NAMES = [
    "../../x",
    "..",
    "/etc/x",
    "a/b\\c",
    "C:\\x",
    "CON",
    "nul.txt",
    "x\x00y",
    "x\ny",
    "~",
    "$(touch x)",
    "%2e%2e%2fx",
    "file:///x",
    "'; DROP TABLE hippo_passages; --",
    "🦛" * 3,
    "e\u0301",
    "\u202etxt.exe",
    " ",
    "n" * 5000,
]
OUR_FILES = re.compile(rf"{re.escape(DATABASE)}|snapshots(/[0-9a-f]{{32}}(/[\w-]+(/[\w.]+)?)?)?")


def below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def cwd(tmp_path, monkeypatch):
    """An empty working directory, deep enough that `../..` is inside of the test's folder."""
    folder = tmp_path / "cwd" / "in" / "it"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def keeps_files(monkeypatch):
    """Derived files are kept of the smallest memory, too."""
    monkeypatch.setattr(index_module, "WORTH_KEEPING", 1)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("keeps_files")
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:20]))
def test_a_name_never_becomes_a_path_and_comes_back(name, open_memory, tmp_path, cwd):
    places = {place: tmp_path / "deep" / "er" / place for place in ("m", "backup", "copy")}
    before = below(tmp_path)
    embed_text = name if name.strip() else ""
    passage = Passage("Ada wrote.", name, name, name, {name: name}, embed_text)
    wrote = Extraction(triples=[("Ada", name, "notes")], reason=name)
    memory = open_memory(store=places["m"], namespace=name)
    memory.add_extracted([(passage, wrote)])
    memory.aliases = [["Ada", name + " Byron"]]
    memory.backup(places["backup"])
    assert memory.copy_to(places["copy"]) == [name]
    memory.close()
    for place in places.values():
        copy = open_memory(store=place, namespace=name, create=False)
        assert copy.namespaces() == [name]
        assert list(copy) == copy.get([name]) == [passage]
        hits = copy.retrieve("Ada wrote", where=lambda metadata: metadata == {name: name})
        assert [hit.passage for hit in hits] == [passage]
        assert copy.verify().ok
        copy.close()
        assert all(OUR_FILES.fullmatch(path) for path in below(place)), below(place)
    assert any(path.startswith("snapshots/") for path in below(places["m"]))
    memory = open_memory(store=places["m"], namespace=name)
    assert memory.delete(source_id=name).deleted == (name,)
    assert memory.delete_namespace() == 0
    memory.close()
    outside = {p for p in below(tmp_path) - before if not p.startswith(("deep/er/", "deep"))}
    assert outside == set()
    assert list(cwd.iterdir()) == []


# -- hostile text ----------------------------------------------------------------------------------


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def hostile(marker):
    """Give texts that make a file called as the marker where something runs or formats them."""
    run = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    return [
        pickle.dumps(Bomb(marker), 0).decode("ascii"),
        pickle.dumps(Bomb(marker)).decode("latin-1"),
        run,
        f"$(touch {marker})",
        f"`touch {marker}`",
        f"'; ATTACH DATABASE '{marker}' AS x; CREATE TABLE x.y (z); --",
        "'); DROP TABLE hippo_passages; --",
        "{0.__class__.__mro__} {} {x} %s %(x)s %n $x",
        f"${{{run}}} {{{{ {run} }}}} <%= {run} %>",
        json.dumps({"__reduce__": ["os.system", [f"touch {marker}"]], "py/object": "os.system"}),
        f"!!python/object/apply:os.system ['touch {marker}']",
        "\x00\ufffe\u202e{",
    ]


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "ran"


@pytest.fixture
def texts(marker):
    return hostile(marker)


def test_the_bombs_would_go_off(marker, texts):
    for live in (texts[0].encode(), texts[1].encode("latin-1")):
        pickle.loads(live).close()
        marker.unlink()
    eval(texts[2])  # noqa: S307
    marker.unlink()


def is_(passage):
    return lambda metadata: metadata == passage.metadata


def use(memory):
    """Do everything that reads what is stored."""
    found = memory.retrieve("touch", k=100)
    memory.answer("touch?", k=100)
    memory.rebuild()
    assert memory.verify().ok
    memory.strongest_synonyms()
    memory.stats()
    memory.purge()
    return found


@pytest.mark.usefixtures("keeps_files")
def test_text_of_users_and_models_runs_nothing_and_comes_back(
    texts, marker, open_memory, tmp_path, cwd
):
    chat = ScriptedChatModel(lambda _: '{"keep": [1]}')
    passages = [
        Passage(t, id=t, title=t, source_id=t, metadata={t: [t, {t: t}]}, embed_text=f"{t} {t}")
        for t in texts
    ]
    extractions = [Extraction([t], [(t, t, texts[i - 1])]) for i, t in enumerate(texts)]
    memory = open_memory(chat, store=tmp_path / "m", namespace=texts[0])
    memory.add_extracted(zip(passages, extractions, strict=True))
    memory.close()
    for _ in range(2):  # from the store, then from the files that the first time left
        memory = open_memory(chat, store=tmp_path / "m", namespace=texts[0])
        assert memory.get(texts) == passages
        assert {hit.passage.id for hit in use(memory)} == set(texts)
        for passage in passages:
            same = {"$and": [{key: {"$eq": value}} for key, value in passage.metadata.items()]}
            hits = memory.retrieve("touch", where=same if passage.id[0] != "$" else is_(passage))
            assert [hit.passage for hit in hits] == [passage]
        memory.close()
    assert not marker.exists()
    assert list(cwd.iterdir()) == []


def test_replies_of_models_run_nothing(texts, marker, open_memory, cwd):
    for text in texts:
        quoted = json.dumps({"named_entities": [text], "triples": [[text, text, text]]})
        for reply in (text, quoted):
            memory = open_memory(ScriptedChatModel(lambda _, reply=reply: reply))
            memory.add(["Ada."], on_error="skip")
            memory.retrieve("Ada")
            memory.answer("Ada?")
    assert not marker.exists()
    assert list(cwd.iterdir()) == []


# -- foreign stores --------------------------------------------------------------------------------


@pytest.fixture
def store(open_memory, tmp_path):
    """A store of one passage, closed."""
    memory = open_memory(store=tmp_path / "m")
    wrote = Extraction(["Ada", "notes"], [("Ada", "wrote", "notes")])
    memory.add_extracted([(Passage("Ada wrote.", id="ada"), wrote)])
    memory.close()
    return tmp_path / "m"


def alter(store, statement, *values):
    with closing(sqlite3.connect(store / DATABASE)) as database:
        database.execute(statement, values)
        database.commit()


TEXT_COLUMNS = [
    ("hippo_passages", "text"),
    ("hippo_passages", "title"),
    ("hippo_passages", "source_id"),
    ("hippo_passages", "metadata"),
    ("hippo_passages", "reason"),
    ("hippo_passages", "text_key"),
    ("hippo_passages", "embed_text"),
    ("hippo_extractions", "extractor"),
    ("hippo_extractions", "reason"),
    ("hippo_extractions", "status"),
    ("hippo_extractions", "entities"),
    ("hippo_extractions", "triples"),
    ("hippo_extractions", "dropped"),
    ("hippo_extractions", "text_key"),
    ("hippo_embedders", "name"),
    ("hippo_embedders", "probe"),
    ("hippo_vectors", "vector"),
    ("hippo_vectors", "kind"),
    ("hippo_vectors", "text_key"),
    ("hippo_namespaces", "curation"),
    ("hippo_changes", "passage_id"),
    ("hippo_commits", "commit_id"),
    ("hippo_settings", "value"),
]


@pytest.mark.parametrize(("table", "column"), TEXT_COLUMNS)
def test_a_foreign_row_runs_nothing(table, column, texts, marker, store, cwd):
    chat = ScriptedChatModel(lambda _: '{"keep": [1]}')
    values = [texts[0], texts[2], json.dumps(texts), json.dumps({text: text for text in texts})]
    values += [texts[0].encode(), pickle.dumps(Bomb(marker))]
    whole = (store / DATABASE).read_bytes()
    for value in values:
        for name in store.glob(f"{DATABASE}*"):
            name.unlink()
        (store / DATABASE).write_bytes(whole)
        alter(store, f"UPDATE {table} SET {column} = ? WHERE rowid = 1", value)
        try:
            with HippoRAG(chat, HashEmbedder(), store=store) as memory:
                use(memory)
                list(memory)
                memory.delete(where={})
        except (HippoError, AssertionError):  # typed, or what verify found
            pass
    assert not marker.exists()
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TRIGGER t AFTER INSERT ON hippo_changes BEGIN DELETE FROM hippo_passages; END",
        "CREATE VIEW v AS SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "CREATE TABLE more (x)",
    ],
)
def test_a_foreign_schema_is_refused(schema, store):
    alter(store, schema)
    with pytest.raises(NotAStoreError, match="no store of ours"):
        HippoRAG(None, HashEmbedder(), store=store)


@pytest.mark.usefixtures("keeps_files")
@pytest.mark.parametrize("name", ["lengths.npy", "passage_vectors.npy", "passages.npy"])
def test_foreign_derived_files_are_not_unpickled_and_not_used(
    name, open_memory, store, marker, caplog, cwd
):
    memory = open_memory(store=store)
    before = memory.retrieve("Ada").passages
    memory.close()
    (path,) = store.rglob(name) if list(store.rglob(name)) else store.rglob("passages*.npy")
    bombs = np.empty(1, dtype=object)
    bombs[0] = Bomb(marker)
    for content in (
        lambda file: np.save(file, bombs),
        lambda file: pickle.dump(Bomb(marker), file),
    ):
        with path.open("wb") as file:
            content(file)
        memory = open_memory(store=store)
        assert memory.retrieve("Ada").passages == before
        assert not memory.verify().ok
        assert "are not used" in caplog.text
    assert not marker.exists()
    assert list(cwd.iterdir()) == []


@pytest.mark.usefixtures("keeps_files")
def test_a_manifest_names_no_file_outside_of_its_folder(open_memory, store, tmp_path):
    memory = open_memory(store=store)
    memory.retrieve("Ada")
    memory.close()
    (manifest,) = store.rglob("manifest.json")
    told = json.loads(manifest.read_text())
    secret = tmp_path / "secret"
    secret.write_text("mine")
    names = [f"{'../' * (len(manifest.relative_to(tmp_path).parts) - 1)}secret", str(secret)]
    assert all((manifest.parent / name).samefile(secret) for name in names)
    files = dict.fromkeys(names, file_hash(secret))
    manifest.write_text(json.dumps({**told, "files": files}))
    memory = open_memory(store=store)
    assert len(memory.verify().problems) == 2  # each is looked for in the folder, and not there
    memory.purge()
    assert secret.read_text() == "mine"
