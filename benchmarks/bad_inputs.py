"""Bad inputs over the whole public API: each is a typed error that names the thing.

What the memory held before, it holds afterwards.
"""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hippo_core import (
    Completion,
    Edge,
    Extraction,
    HippoConfig,
    HippoError,
    HippoRAG,
    Kind,
    Message,
    Passage,
)
from hippo_core.testing import HashEmbedder, ScriptedChatModel

TYPED = (HippoError, TypeError, ValueError)
LONE = "half \ud800"
QUERY = "What did Ada write?"


class Bad(NamedTuple):
    """A bad input: what it is, what the error must name, and the call."""

    what: str
    names: str
    use: Callable[[], object]


class Spoilt(HashEmbedder):
    """An embedder that gives something else once it is spoilt."""

    def __init__(self) -> None:
        super().__init__()
        self.spoil: Callable[[Any], Any] | None = None

    def embed(self, texts: Sequence[str], kind: Kind) -> Any:
        rows = super().embed(texts, kind)
        return rows if self.spoil is None else self.spoil(rows)


def failures(scratch: Path) -> tuple[int, list[str]]:
    """Try all; give how many were refused as they should, and what is wrong with the others."""
    embedder = Spoilt()
    with HippoRAG(None, embedder, store=scratch / "store") as memory:
        ada = Extraction(["Ada"], [("Ada", "wrote", "notes"), ("notes", "are in", "Rome")])
        memory.add_extracted([(Passage("Ada wrote notes.", id="ada", metadata={"year": 1}), ada)])
        memory.add_extracted([(Passage("Rome fell.", id="rome"), Extraction())])
        before = _state(memory)
        tried, wrong = set(), []
        for bad in _all(memory, embedder, scratch):
            assert bad.what not in tried, f"{bad.what} is in the table twice"
            tried.add(bad.what)
            problem = _problem(bad)
            embedder.spoil = None
            if problem is None and _state(memory) != before:
                problem = "the memory is another one afterwards"
            if problem is not None:
                wrong.append(f"{bad.what}: {problem}")
    return len(tried) - len(wrong), wrong


def _state(memory: HippoRAG) -> object:
    hits = memory.retrieve(QUERY, k=100)
    return list(memory), memory.stats(), [(hit.passage.id, hit.score) for hit in hits]


def _problem(bad: Bad) -> str | None:
    try:
        given = bad.use()
    except TYPED as error:
        if re.search(bad.names, str(error)):
            return None
        return f"{type(error).__name__} does not name {bad.names!r}: {error}"
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return f"no typed error: {error!r}"
    return f"no error, but {str(given)[:100]}"


def _all(memory: HippoRAG, embedder: Spoilt, scratch: Path) -> Iterator[Bad]:
    yield from _passages(memory)
    yield from _extractions(memory)
    yield from _ids(memory)
    yield from _queries(memory)
    yield from _filters(memory)
    yield from _upkeep(memory, scratch)
    yield from _settings()
    yield from _places(scratch)
    yield from _models(scratch)
    yield from _vectors(memory, embedder)
    yield from _replies(memory)


def _passages(memory: HippoRAG) -> Iterator[Bad]:
    def add(what: str, names: str, *passages: Any) -> Bad:
        return Bad(f"add {what}", names, lambda: memory.add_extracted(_read(passages)))

    for what, given in (("a str", "x"), ("a Passage", Passage("x")), ("a dict", {"text": "x"})):
        yield Bad(f"add {what} alone", type(given).__name__, lambda given=given: memory.add(given))
    yield Bad("add None", "NoneType", lambda: memory.add(None))  # type: ignore[arg-type]
    yield Bad("add a number", "int", lambda: memory.add(5))  # type: ignore[arg-type]
    yield Bad("aadd a str", "str", lambda: asyncio.run(memory.aadd("x")))
    for member in (5, None, b"x", {"text": "x"}, ("x", {})):
        yield add(f"a list with a {type(member).__name__}", type(member).__name__, member)
    for name, value in (
        ("text", 5),
        ("text", None),
        ("title", 5),
        ("title", None),
        ("id", 5),
        ("id", None),
        ("source_id", 5),
        ("metadata", None),
        ("metadata", [1]),
        ("metadata", "year"),
    ):
        fields: dict[str, Any] = {"text": "x", name: value}
        yield add(f"a passage whose {name} is {value!r}", name, Passage(**fields))
    for text in ("text", "id", "title", "source_id"):
        yield add(f"half a character in {text}", "surrogate", Passage(**{"text": "x", text: LONE}))
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    metadata: tuple[tuple[str, Any, str], ...] = (
        ("a key that is a number", {1: 2}, "keys"),
        ("a deep key that is None", {"a": {"b": {None: 1}}}, r"\['a'\]\['b'\]"),
        ("a half key", {LONE: 1}, "surrogate"),
        ("half a value", {"a": LONE}, "surrogate"),
        ("a set", {"a": {1}}, r"\['a'\].*set"),
        ("a tuple", {"a": (1, 2)}, r"\['a'\].*tuple"),
        ("bytes", {"a": b"x"}, r"\['a'\].*bytes"),
        ("a date", {"a": datetime.date(2024, 1, 1)}, r"\['a'\].*date"),
        ("a NumPy number", {"a": np.float64(1)}, r"\['a'\].*float64"),
        ("an array", {"a": np.ones(2)}, r"\['a'\].*ndarray"),
        ("NaN", {"a": float("nan")}, r"\['a'\].*nan"),
        ("infinity", {"a": [float("inf")]}, r"\['a'\]\[0\].*inf"),
        ("a huge number", {"a": 10**5000}, r"\['a'\].*bits"),
        ("a bottomless list", {"a": deep}, "deep"),
        ("an object", {"a": object()}, r"\['a'\].*object"),
    )
    for what, value, names in metadata:
        yield add(f"metadata with {what}", names, Passage("x", metadata=value))
    yield add("two passages of one id", "'same'", Passage("x", id="same"), Passage("y", id="same"))
    for value in ("ignore", None, True):
        yield Bad(
            f"add with on_error={value!r}",
            "on_error",
            lambda value=value: memory.add(["x"], on_error=value),
        )
    for what, edges, names in (
        ("to nothing", [Edge("ada")], "one target"),
        ("to itself", [Edge("ada", to_passage="ada")], "itself"),
        ("of nobody", [Edge("ghost", to_passage="ada")], "'ghost'"),
        ("of no weight", [Edge("ada", to_passage="rome", weight=0)], "weight"),
        ("of text", ["ada"], "must be an Edge"),
        ("alone", Edge("ada", to_passage="rome"), "list of Edge"),
    ):
        yield Bad(
            f"add with an edge {what}",
            names,
            lambda edges=edges: memory.add([], edges=edges),  # type: ignore[arg-type]
        )
    yield Bad("add without a model", "chat model|OpenIE", lambda: memory.add(["Not read yet."]))


def _read(passages: Sequence[Any]) -> list[Any]:
    return [(passage, Extraction()) for passage in passages]


def _extractions(memory: HippoRAG) -> Iterator[Bad]:
    def add(what: str, names: str, given: Callable[[], Any]) -> Bad:
        return Bad(f"add_extracted {what}", names, lambda: memory.add_extracted(given()))

    yield add("None", "NoneType|add_extracted", lambda: None)
    yield add("passages alone", "Passage|pair|Extraction", lambda: [Passage("x")])
    yield add("a str alone", "pair|str|Extraction", lambda: "xy")
    yield add("triples of one", "pair|three|Extraction", lambda: [("x", Extraction(), 5)])
    yield add("None as an extraction", "Extraction.*NoneType", lambda: [("x", None)])
    yield add("a dict as an extraction", "Extraction.*dict", lambda: [("x", {"triples": []})])
    yield add(
        "one text with two extractions",
        "two different",
        lambda: [
            (Passage("x", id="1"), Extraction()),
            (Passage("x", id="2"), Extraction(["Ada"])),
        ],
    )
    for what, fields, names in (
        ("a triple of two", {"triples": [("a", "b")]}, "triple"),
        ("a triple with a number", {"triples": [("a", "b", 3)]}, "triple"),
        ("a str as a triple", {"triples": ["abc"]}, "triple"),
        ("a str as entities", {"entities": "Ada"}, "entities"),
        ("a number as an entity", {"entities": [5]}, "entity"),
        ("an unknown status", {"status": "done"}, "done"),
        ("half a character in a triple", {"triples": [("a", LONE, "b")]}, "surrogate"),
        ("half a character in an entity", {"entities": [LONE]}, "surrogate"),
        ("a number as triples", {"triples": 5}, "int|triples"),
    ):
        yield add(what, names, lambda fields=fields: [("x", Extraction(**fields))])


def _ids(memory: HippoRAG) -> Iterator[Bad]:
    for call in (memory.delete, memory.get):
        for ids in ("ada", None, 5, [5], [None], [b"ada"], [["ada"]]):
            what = f"{call.__name__} {ids!r}"
            yield Bad(what, "id", lambda call=call, ids=ids: call(ids))
    yield Bad("adelete a str", "ids", lambda: asyncio.run(memory.adelete("ada")))


def _queries(memory: HippoRAG) -> Iterator[Bad]:
    def ask(what: str, names: str, query: Any = QUERY, **more: Any) -> Bad:
        return Bad(f"retrieve {what}", names, lambda: memory.retrieve(query, **more))

    for query in ("", " \n", None, 5, b"Ada", ["Ada"]):
        yield ask(repr(query), "query", query)
    for k in (0, -1, 1.5, "5", None, True, float("nan")):
        yield ask(f"k={k!r}", "k must", k=k)
    for mode in ("cosine", None, 1):
        yield ask(f"score_mode={mode!r}", "score_mode", score_mode=mode)
    yield ask("another threshold", "synonymy_threshold", config=HippoConfig(synonymy_threshold=0.7))
    yield ask("no synonymy before", "synonymy_threshold", config=HippoConfig(synonymy_threshold=1))
    yield ask("a dict as config", "config", config={"k": 5})
    yield ask("a str as config", "config", config="hipporag")
    yield ask("HippoRAG without a model", "chat model|OpenIE", config=HippoConfig.hipporag())
    yield ask("with an object as chat_model", "chat_model", chat_model=object())
    yield Bad("aretrieve blank", "query", lambda: asyncio.run(memory.aretrieve(" ")))
    many: tuple[Any, ...] = ("Ada", None, 5, ["Ada", ""], ["Ada", None])
    for queries in many:
        yield Bad(
            f"retrieve_many {queries!r}",
            "quer",
            lambda queries=queries: memory.retrieve_many(queries),
        )
    chat = ScriptedChatModel(lambda _: "Answer: notes")
    yield Bad("answer without a model", "chat model", lambda: memory.answer(QUERY))
    yield Bad("answer a blank", "query|question", lambda: memory.answer("", chat_model=chat))
    yield Bad("answer with k=0", "k must", lambda: memory.answer(QUERY, k=0, chat_model=chat))


def _filters(memory: HippoRAG) -> Iterator[Bad]:
    filters: tuple[tuple[Any, str], ...] = (
        (5, "where|filter"),
        ("year = 1", "where|filter"),
        ([("year", 1)], "where|filter"),
        ({"year": {"$near": 1}}, r"\$near"),
        ({"$xor": []}, r"\$xor"),
        ({"$and": {}}, r"\$and"),
        ({"$or": 5}, r"\$or"),
        ({"$not": 5}, r"\$not"),
        ({"year": {"$in": 5}}, r"\$in"),
        ({5: 1}, "5|key|str"),
        ({"year": {1, 2}}, "year"),
    )
    for where, names in filters:
        yield Bad(
            f"where={where!r}",
            names,
            lambda where=where: memory.retrieve(QUERY, where=where),
        )


def _upkeep(memory: HippoRAG, scratch: Path) -> Iterator[Bad]:
    """What is asked of a memory as a thing that lasts."""
    place = scratch / "copy"
    uses: tuple[tuple[str, str, Any], ...] = (
        ("delete nothing named", "ids=", lambda: memory.delete()),
        ("delete by two", "one of", lambda: memory.delete(["a"], source_id="s")),
        ("delete a source of bytes", "source_id", lambda: memory.delete(source_id=b"s")),  # type: ignore[arg-type]
        ("delete by a str as filter", "where", lambda: memory.delete(where="all")),  # type: ignore[arg-type]
        ("reextract by a str", "ids", lambda: memory.reextract("a")),
        ("reembed with None", "embedder", lambda: memory.reembed(None)),  # type: ignore[arg-type]
        ("aliases of a str", "alias", lambda: setattr(memory, "aliases", "USA")),
        ("an alias that is no text", "alias", lambda: setattr(memory, "aliases", [["a", 5]])),
        ("an alias of signs", "alias", lambda: setattr(memory, "aliases", [["a", "!!!"]])),
        (
            "aliases twice",
            "two groups",
            lambda: setattr(memory, "aliases", [["a", "b"], ["b", "c"]]),
        ),
        ("never_link three", "two", lambda: setattr(memory, "never_link", [("a", "b", "c")])),
        ("never_link itself", "two", lambda: setattr(memory, "never_link", [("a", "A")])),
        ("no strongest synonyms", "n must", lambda: memory.strongest_synonyms(0)),
        ("backup to a URL", "folder", lambda: memory.backup("postgresql://host/db")),
        (
            "copy to a file system's root of another kind",
            "store",
            lambda: memory.copy_to("ftp://x"),
        ),
        (
            "copy a namespace that is not",
            "ghost",
            lambda: memory.copy_to(place, namespaces=["ghost"]),
        ),
        (
            "copy a str of namespaces",
            "namespaces",
            lambda: memory.copy_to(place, namespaces="default"),
        ),
    )
    for what, names, use in uses:
        yield Bad(what, names, use)
    blind, item = HippoRAG(None, None), (Passage("Ada wrote."), Extraction())
    yield Bad("add without an embedder", "embedder", lambda: blind.add_extracted([item]))


def _settings() -> Iterator[Bad]:
    for name, values in {
        "damping": (1, -0.1, float("nan"), "0.5", None),
        "method": ("hipporag3", None),
        "linked_triples": (0, 2.5, "5", True),
        "seed_phrases": (0,),
        "recognition_limit": (0,),
        "concurrency": (0, -1),
        "embed_batch_size": (0,),
        "synonymy": ("yes", 1),
        "synonymy_threshold": (0, 1.5, float("inf")),
        "synonymy_limit": (0,),
        "synonymy_min_length": (-1,),
        "passage_weight": (-1,),
        "ensemble_threshold": (2,),
        "ensemble_weight": (1.5,),
        "neighbour_share": (-0.5,),
        "ppr_tolerance": (0, 1),
        "expansion": ("walk",),
        "triple_rendering": ("json",),
        "no_such_setting": (1,),
    }.items():
        for value in values:
            given: dict[str, Any] = {name: value}
            yield Bad(f"{name}={value!r}", name, lambda given=given: HippoConfig(**given))


def _places(scratch: Path) -> Iterator[Bad]:
    def open_(what: str, names: str, **settings: Any) -> Bad:
        def use() -> None:
            with HippoRAG(None, HashEmbedder(), **settings) as memory:
                len(memory)

        return Bad(f"open {what}", names, use)

    (scratch / "file").write_text("mine")
    (scratch / "thesis").mkdir()
    (scratch / "thesis" / "thesis.tex").write_text("mine")
    (scratch / "broken").mkdir()
    (scratch / "broken" / "hippo.sqlite").write_bytes(b"not a database" * 1000)
    for store in ("", "  ", 5, b"folder", "https://example.org/store", "nosuchdb://host/db"):
        yield open_(f"store={store!r}", "store", store=store)
    yield open_("a file", "file", store=scratch / "file")
    yield open_("below a file", "file", store=scratch / "file" / "below")
    yield open_("a folder of something else", "thesis", store=scratch / "thesis")
    yield open_("what is not there", "missing", store=scratch / "missing", create=False)
    yield open_("a broken database", "broken", store=scratch / "broken")
    for namespace in ("", None, 5, LONE):
        yield open_(f"namespace={namespace!r}", "namespace", namespace=namespace)
    yield open_("a dict as config", "config", config={"damping": 0.5})


def _models(scratch: Path) -> Iterator[Bad]:
    class OnlySync:
        def embed(self, texts: Sequence[str], kind: Kind) -> Any:
            return HashEmbedder().embed(texts, kind)

        def complete(self, messages: Sequence[Message]) -> Any:
            return Completion("")

    class Nameless:
        def extract(self, text: str) -> Extraction:
            return Extraction()

        def query_entities(self, query: str) -> Sequence[str]:
            return []

    def open_(what: str, names: str, chat: Any, embedder: Any, **settings: Any) -> Bad:
        return Bad(f"open with {what}", names, lambda: HippoRAG(chat, embedder, **settings))

    yield open_("an embedder without aembed", "aembed", None, OnlySync())
    yield open_("an embedding function", "embedder", None, lambda texts: texts)
    yield open_("an object as chat model", "complete", object(), HashEmbedder())
    yield open_("a chat model without acomplete", "acomplete", OnlySync(), HashEmbedder())
    yield open_("an object as OpenIE", "openie", None, HashEmbedder(), openie=object())
    yield open_("a nameless OpenIE", "fingerprint", None, HashEmbedder(), openie=Nameless())
    yield open_("an object as judge", "recognition", None, HashEmbedder(), recognition=object())
    other = HashEmbedder(name="other")
    yield open_("another embedder", "other", None, other, store=scratch / "store")

    def narrow() -> None:
        with HippoRAG(None, HashEmbedder(32), store=scratch / "store") as memory:
            memory.retrieve(QUERY)

    yield Bad("ask with an embedder of 32 dimensions", "64 dim.*32 dim", narrow)


def _vectors(memory: HippoRAG, embedder: Spoilt) -> Iterator[Bad]:
    def filled(rows: Any, value: float) -> Any:
        return np.full_like(rows, value)

    spoils: dict[str, Callable[[Any], Any]] = {
        "one row too few": lambda rows: rows[:-1],
        "one row too many": lambda rows: np.vstack([rows, rows[:1]]),
        "a flat list": lambda rows: rows[0],
        "three axes": lambda rows: rows[np.newaxis],
        "no columns": lambda rows: rows[:, :0],
        "NaN": lambda rows: filled(rows, np.nan),
        "infinity": lambda rows: filled(rows, np.inf),
        "None": lambda rows: None,
        "a number": lambda rows: 5,
        "words": lambda rows: [["a"]] * len(rows),
        "ragged rows": lambda rows: [[1.0], [1.0, 2.0]] * len(rows),
        "another dimension": lambda rows: rows[:, :10],
    }
    for what, spoil in spoils.items():
        for how in ("add", "retrieve"):

            def use(how: str = how, spoil: Callable[[Any], Any] = spoil) -> object:
                embedder.spoil = spoil
                if how == "retrieve":
                    return memory.retrieve(QUERY)
                return memory.add_extracted([(Passage("Wholly new."), Extraction())])

            yield Bad(f"{how} where the embedder gives {what}", "(?i)embedder|vector", use)


def _replies(memory: HippoRAG) -> Iterator[Bad]:
    class Odd(ScriptedChatModel):
        def __init__(self, reply: Any) -> None:
            super().__init__([])
            self.reply = reply

        def complete(self, messages: Sequence[Message]) -> Any:
            return self.reply

    odd: tuple[tuple[str, Any, str], ...] = (
        ("None", None, "Completion.*NoneType"),
        ("a str", '{"named_entities": []}', "Completion.*str"),
        ("a dict", {"text": ""}, "Completion.*dict"),
        ("a Completion of None", Completion(None), "text.*NoneType"),  # type: ignore[arg-type]
        ("a Completion of bytes", Completion(b"x"), "text.*bytes"),  # type: ignore[arg-type]
        ("a usage of 5", Completion("{}", 5), "usage"),  # type: ignore[arg-type]
        ("no JSON", Completion("I would rather not."), "I would rather not"),
        ("nothing", Completion(""), "could not be read"),
        ("JSON of another shape", Completion('{"names": 5}'), "names"),
    )
    for what, reply, names in odd:
        yield Bad(
            f"add where the chat model gives {what}",
            names,
            lambda reply=reply: memory.add(["Read me."], chat_model=Odd(reply)),
        )
    for what, reply, names in odd[:6]:
        yield Bad(
            f"answer where the chat model gives {what}",
            names,
            lambda reply=reply: memory.answer(QUERY, chat_model=Odd(reply)),
        )
