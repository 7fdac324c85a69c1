"""What several tests of the core use, as fixtures: a test folder bears no importable name."""

import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from hippo_core import Edge, Extraction, HippoConfig, HippoRAG, Message, Passage, RetrievalPath
from hippo_core.errors import PermanentModelError
from hippo_core.prompts import Prompts
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

# -- a corpus whose bridge passage dense retrieval misses ------------------------------------------

BRIDGE = {
    "invented": ("Zora Quint invented the tidal clock.", ("Zora Quint", "invented", "tidal clock")),
    "bridge": ("Zora Quint grew up at Velmora.", ("Zora Quint", "grew up at", "Velmora")),
    "river": ("The Ister flows through Velmora.", ("Ister", "flows through", "Velmora")),
    "mill": ("The river mill stands where the town lies.", ("river mill", "stands in", "Osk")),
    "flood": ("Which river flows where the town was is not known.", ("flood", "hit", "Anvar")),
    "clock": ("The inventor of the water clock was a monk.", ("water clock", "is of", "a monk")),
    "plain": ("Through the town of the inventor flows no river.", ("Tarn", "has", "a dry bed")),
}
BRIDGE_QUESTION = "Which river flows through the town of the inventor of the tidal clock?"


def bridge_items() -> list[tuple[Passage, Extraction]]:
    return [
        (Passage(text, id=id_), Extraction(triples=[triple]))
        for id_, (text, triple) in BRIDGE.items()
    ]


# -- a chat model that reads by a table ------------------------------------------------------------


class Reader(ScriptedChatModel):
    """Reads passages by a table of triples; logs in `asked` what it was asked to read.

    `first` holds replies that are given before the table's, by (stage, text). Whatever else it is
    asked, such as recognition, it answers with `other`.
    """

    def __init__(
        self,
        table: Mapping[str, Sequence[Sequence[str]]],
        first: Mapping[tuple[str, str], Sequence[object]] | None = None,
        other: object = '{"keep": [1, 2, 3, 4]}',
        name: str = "reader",
    ) -> None:
        self.first = {key: list(replies) for key, replies in (first or {}).items()}
        self.other = other
        self.asked: list[tuple[str, str]] = []
        self._table = {}
        for text, triples in table.items():
            entities = list(dict.fromkeys(p for s, _, o in triples for p in (s, o)))
            replies = (
                ("entities", Prompts().entities(text), {"named_entities": entities}),
                ("triples", Prompts().triples(text, entities), {"triples": [*map(list, triples)]}),
            )
            for stage, prompt, reply in replies:
                self._table[tuple(prompt)] = ((stage, text), json.dumps(reply))
        super().__init__(self._answer, name)

    def _answer(self, messages: Sequence[Message]) -> object:
        found = self._table.get(tuple(messages[:4]))  # the prompt; more is a complaint
        if found is None:
            return self.other
        key, reply = found
        self.asked.append(key)
        first = self.first.get(key)
        return first.pop(0) if first else reply


# -- one memory and query for each path ------------------------------------------------------------

ONE_QUERY = "Who invented the tidal clock?"
QUERIES = {ONE_QUERY: ["tidal clock"], BRIDGE_QUESTION: ["tidal clock", "river"]}


def _down(_messages: object) -> object:
    raise PermanentModelError("401: no key")


class _BlindOpenIE(TableOpenIE):
    def query_entities(self, query: str) -> Sequence[str]:
        raise PermanentModelError("the parser is broken")


V1 = HippoConfig.hipporag()
PATHS: dict[RetrievalPath, dict[str, object]] = {
    RetrievalPath.GRAPH: {"chat_model": ScriptedChatModel(lambda _: '{"keep": [2, 1]}')},
    RetrievalPath.UNFILTERED_OFF: {},
    RetrievalPath.UNFILTERED_UNREADABLE: {"chat_model": ScriptedChatModel(lambda _: "Well...")},
    RetrievalPath.UNFILTERED_FAILED: {"chat_model": ScriptedChatModel(_down)},
    RetrievalPath.ENSEMBLE: {
        "config": HippoConfig.hipporag(dense_ensemble=True, ensemble_threshold=1.0),
        "openie": TableOpenIE(queries={ONE_QUERY: ["clock of tides"]}),
    },
    RetrievalPath.DENSE: {"config": HippoConfig.dense()},
    RetrievalPath.DENSE_NONE_KEPT: {"chat_model": ScriptedChatModel(lambda _: '{"keep": []}')},
    RetrievalPath.DENSE_NOTHING_LINKED: {"items": [(Passage("Only words.", id="w"), Extraction())]},
    RetrievalPath.EDGES: {
        "items": [(Passage("Only words.", id=i), Extraction()) for i in ("w", "v")],
        "edges": [Edge("w", to_passage="v")],
    },
    RetrievalPath.DENSE_NO_ENTITY: {"config": V1, "openie": TableOpenIE()},
    RetrievalPath.DENSE_FAILED: {"config": V1, "openie": _BlindOpenIE()},
    RetrievalPath.EMPTY: {"items": []},
}


# -- where stores are ------------------------------------------------------------------------------

POSTGRES = os.environ.get("HIPPO_TEST_POSTGRES")  # as tests/postgres_server.py sets it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is about files where stores are on a server."""
    if POSTGRES:
        for item in items:
            if mark := item.get_closest_marker("sqlite"):
                reason = mark.kwargs.get("reason", "about the files of a store on disk")
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def new_location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path | str]]:
    """Give a place for a new store: the folder that is asked for or another; or a server's URL."""
    if not POSTGRES:
        yield lambda folder=None: folder or tmp_path_factory.mktemp("memory") / "m"
        return

    import psycopg

    schemas: list[str] = []

    def new_schema(_folder: Path | None = None) -> str:
        schemas.append(f"test_{uuid.uuid4().hex}")
        run(f"CREATE SCHEMA {schemas[-1]}")
        return f"{POSTGRES}&options=-csearch_path%3D{schemas[-1]}"

    def run(statement: str) -> None:
        with closing(psycopg.connect(POSTGRES, autocommit=True)) as connection:
            connection.execute(statement)

    yield new_schema
    for schema in schemas:
        run(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def store_location(new_location: Callable[..., Path | str], tmp_path: Path) -> Path | str:
    """Give a place where a store can be created."""
    return new_location(tmp_path / "m")


def note_items(n: int, prefix: str = "p") -> list[tuple[Passage, Extraction]]:
    """Give passages long enough that many of them fill some pages."""
    return [
        (
            Passage(f"Ada wrote note {prefix}{i}. " * 20, id=f"{prefix}{i}"),
            Extraction(triples=[("Ada", "wrote", f"note {prefix}{i}")]),
        )
        for i in range(n)
    ]


@pytest.fixture(scope="session")
def filled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 40 passages on disk, to be copied."""
    folder = tmp_path_factory.mktemp("filled") / "m"
    with HippoRAG(None, HashEmbedder(), store=folder) as memory:
        memory.add_extracted(note_items(40))
    return folder


@pytest.fixture
def filled(store_location: Path | str, filled_folder: Path) -> Path | str:
    """A store of 40 passages, closed."""
    if isinstance(store_location, Path):
        return Path(shutil.copytree(filled_folder, store_location))
    with HippoRAG(None, HashEmbedder(), store=store_location) as memory:
        memory.add_extracted(note_items(40))
    return store_location


# -- fixtures --------------------------------------------------------------------------------------


@pytest.fixture
def open_memory() -> Iterator[Callable[..., HippoRAG]]:
    """Open a memory with a hash embedder; it is closed after the test."""
    opened: list[HippoRAG] = []

    def open_memory(
        chat_model: object = None, embedder: object = None, **settings: object
    ) -> HippoRAG:
        memory = HippoRAG(chat_model, embedder or HashEmbedder(), **settings)
        opened.append(memory)
        return memory

    yield open_memory
    for memory in opened:
        memory.close()


@pytest.fixture
def memory_on(open_memory: Callable[..., HippoRAG]) -> Callable[[RetrievalPath], HippoRAG]:
    """Open the memory in which ONE_QUERY takes a path."""

    def memory_on(path: RetrievalPath) -> HippoRAG:
        settings = dict(PATHS[path])
        items, edges = settings.pop("items", None), settings.pop("edges", None)
        memory = open_memory(**settings)
        memory.add_extracted(bridge_items() if items is None else items, edges=edges)
        return memory

    return memory_on


@pytest.fixture(scope="session")
def at_once() -> Callable[..., list[object]]:
    """Call functions at once, each in a thread of its own; give their results or raise an error."""

    def at_once(*uses: Callable[[], object], timeout: float = 60) -> list[object]:
        outcomes: list[Future[object]] = [Future() for _ in uses]

        def run(use: Callable[[], object], outcome: Future[object]) -> None:
            try:
                outcome.set_result(use())
            except BaseException as error:  # noqa: BLE001 - raised in the test's thread
                outcome.set_exception(error)

        for pair in zip(uses, outcomes, strict=True):
            threading.Thread(target=run, args=pair, daemon=True).start()
        return [outcome.result(timeout) for outcome in outcomes]

    return at_once


@pytest.fixture(scope="session")
def corpora() -> SimpleNamespace:
    """Give the corpora and doubles of this file."""
    return SimpleNamespace(
        Reader=Reader,
        bridge_items=bridge_items,
        bridge_question=BRIDGE_QUESTION,
        one_query=ONE_QUERY,
        queries=QUERIES,
    )
