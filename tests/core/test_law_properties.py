"""Laws 4, 6, 7, 9 and 10 of the design, over generated corpora, settings, failures and texts."""

import asyncio
import contextlib
import dataclasses
import json
import math
from collections import Counter
from enum import Enum

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hippo_core import (
    Completion,
    Edge,
    Extraction,
    HippoConfig,
    HippoError,
    HippoRAG,
    IndexingError,
    InputError,
    ModelRequiredError,
    Passage,
    PermanentModelError,
    TransientModelError,
    Triple,
)
from hippo_core.embedding import PROBE
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

# -- what is drawn ---------------------------------------------------------------------------------
# Few words, so that passages share texts, triples and phrases, and phrases are synonyms.

TEXTS = ["Ada wrote notes.", "Notes by Ada.", "Rome fell.", "Nothing to see."]
PHRASES = ["Ada", "ada lovelace", "Lovelace", "notes of Ada", "Rome", "C#", "ab", "O'Ada", "!!!"]
QUERIES = ["Who wrote the notes?", "Ada Lovelace", "What fell?"]
NAMED = "notes of ada"  # what the doubles name in every query
CHOICE = json.dumps({"keep": [1, 3], "named_entities": [NAMED]})  # answers every question we ask
READ = ("entities", "triples")


def examples(n):
    """So many in the ordinary run, and as many as the profile says when searching further."""
    wanted = settings.default.max_examples
    return settings(max_examples=wanted if wanted > 100 else n)


def configured(method, **changes):
    return getattr(HippoConfig, method)(**changes)


configs = st.builds(
    configured,
    st.sampled_from(["hipporag2", "hipporag", "dense"]),
    user_edges=st.booleans(),
    synonymy=st.booleans(),
    synonymy_threshold=st.sampled_from([0.5, 0.8]),
    synonymy_on_related=st.sampled_from(["replace", "add"]),
    triple_rendering=st.sampled_from(["tuple", "words"]),
    context_weight=st.sampled_from([0.0, 0.5]),
    anchor_weight=st.sampled_from([0.0, 0.6]),
    meeting_weight=st.sampled_from([0.0, 0.2]),
    linked_triples=st.integers(1, 5),
    linking_margin=st.sampled_from([None, 0.0, 0.25]),
    second_hop=st.sampled_from([0, 0, 1, 3]),
    second_hop_weight=st.sampled_from([0.0, 0.25, 1.0]),
    recognition_memory=st.booleans(),
    recognition_candidates=st.integers(1, 10),
    recognition_sources=st.booleans(),
    recognition_limit=st.integers(1, 4),
    kept_score=st.sampled_from(["one", "linking"]),
    seed_phrases=st.integers(1, 5),
    passage_weight=st.sampled_from([0.0, 0.05, 1.0]),
    expansion=st.sampled_from(["ppr", "linked_phrases", "neighbours"]),
    dense_ensemble=st.booleans(),
    ensemble_threshold=st.sampled_from([0.5, 1.0]),
    node_specificity=st.booleans(),
    damping=st.sampled_from([0.0, 0.5, 0.9]),
    concurrency=st.sampled_from([1, 4]),
    embed_batch_size=st.sampled_from([1, 3, 64]),
)
facts = st.tuples(
    st.sampled_from(PHRASES), st.sampled_from(["wrote", "is"]), st.sampled_from(PHRASES)
)
tables = st.fixed_dictionaries(dict.fromkeys(TEXTS, st.lists(facts, max_size=3, unique=True)))
written = st.builds(
    Passage,
    text=st.sampled_from(TEXTS),
    id=st.sampled_from("abcde"),
    source_id=st.sampled_from([None, "s"]),
    metadata=st.sampled_from([{}, {"page": 1, "tags": ["x", None, 0.5]}]),
    embed_text=st.sampled_from(["", "", TEXTS[0], "Of its own."]),
)
batches = st.lists(written, min_size=1, max_size=5, unique_by=lambda p: p.id)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("add"), batches),
        st.tuples(st.just("add"), batches),
        st.tuples(st.just("delete"), st.lists(st.sampled_from("abcde"), min_size=1, max_size=2)),
    ),
    min_size=1,
    max_size=5,
)


def linked(passage):
    """Edges that a passage itself decides, to what is there and what is not."""
    place = "abcde".find(passage.id)
    yield Edge(passage, to_passage="abcde"[place - 1])
    yield Edge(passage, to_phrase=PHRASES[place], weight=0.5)
    yield Edge(passage, to_source="s", weight=2)


# -- how a reading fails ---------------------------------------------------------------------------


class AuthenticationError(Exception):
    """As SDKs raise it."""

    status_code = 401


def _busy():
    return TransientModelError("429: slow down", retry_after=0)


def cut(text):
    return Completion(text, finish_reason="length")


FAILURES = {
    "call": lambda: [PermanentModelError("404: no such model")],
    "sdk": lambda: [AuthenticationError("no key")],
    "busy to the end": lambda: [_busy() for _ in range(4)],
    "unreadable": lambda: ["I cannot.", "Still not JSON"],
    "blank": lambda: ["", " \n"],
    "of another kind": lambda: ['{"triples": "x", "named_entities": 7}'] * 2,
    "unreadable, then a call": lambda: ["no JSON", PermanentModelError("context too long")],
    "cut before anything": lambda: [cut('{"triples": [["Ad'), cut('{"triples": [["A", "b')],
    "thinks to the end": lambda: [cut("<think>Well"), cut("<think>Hm")],
}
RECOVERIES = {"busy": lambda: [_busy(), _busy()], "unreadable once": lambda: ["no JSON"]}
PARTIAL = "cut"
kinds = st.one_of(
    st.tuples(st.sampled_from(READ), st.sampled_from([*FAILURES, *RECOVERIES])),
    st.just(("triples", PARTIAL)),
)
patterns = st.dictionaries(st.sampled_from(TEXTS), kinds)


def replies(kind):
    """What is said before the healthy reply, or instead of it."""
    if kind == PARTIAL:
        return [cut('{"triples": [["Ada", "met", "Bob"], ["Ada", "wro')]
    return (FAILURES | RECOVERIES)[kind]()


def first_replies(pattern):
    return {(stage, text): replies(kind) for text, (stage, kind) in pattern.items()}


# -- how answers are compared ----------------------------------------------------------------------


def retrievals(memory, config=None, k=99):
    return [memory.retrieve(query, k=k, config=config) for query in QUERIES]


def scores(found):
    return [
        *(hit.score for hit in found.passages),
        *(link.score for link in (*found.triples, *found.phrases)),
    ]


def without_scores(found):
    """All but scores and costs: ids, order, path, triples, and what else a user sees."""
    unscored = {
        name: [dataclasses.replace(part, score=0) for part in getattr(found, name)]
        for name in ("passages", "triples", "phrases")
    }
    return found.query, found.path, found.detail, found.anchors, unscored


def assert_same_answers(some, others):
    assert list(map(without_scores, some)) == list(map(without_scores, others))
    for one, other in zip(some, others, strict=True):
        assert scores(one) == pytest.approx(scores(other), abs=1e-9, rel=1e-9)


def outcome(use):
    """What a call gives, or how it fails."""
    try:
        return use()
    except HippoError as error:
        return type(error), str(error)


def without_seconds(report):
    values = dataclasses.asdict(report)
    for usage in values["usage"]["stages"].values():
        del usage["seconds"]
    return values


# -- 4: round trip ---------------------------------------------------------------------------------


@given(
    history=histories,
    table=tables,
    failing=patterns,
    config=configs,
    one_encoding=st.booleans(),
)
@examples(30)
def test_closing_and_opening_changes_nothing_and_asks_nothing(
    history, table, failing, config, one_encoding, corpora, new_location
):
    folder = new_location()

    def opened(chat):
        embedder = HashEmbedder(16)
        embedder.one_query_encoding = one_encoding
        memory = HippoRAG(chat, embedder, store=folder, config=config)
        return memory, embedder

    memory, _ = opened(corpora.Reader(table, first_replies(failing), other=CHOICE))
    for step, *given_ in history:
        if step == "add":
            memory.add(*given_, edges=linked, on_error="skip")
        else:
            memory.delete(*given_)
    before, kept, stats = retrievals(memory), list(memory), memory.stats()
    memory.close()

    chat = corpora.Reader(table, other=CHOICE)
    again, embedder = opened(chat)
    with again:
        assert_same_answers(before, retrievals(again))
        assert (list(again), again.stats()) == (kept, stats)
        assert chat.asked == []
        probes = [texts for kind, texts in embedder.calls if kind == "passage"]
        assert probes == ([[PROBE]] if kept else [])
        asked = {text for kind, texts in embedder.calls if kind != "passage" for text in texts}
        hops = {t for t in asked for query in QUERIES if t.startswith(f"{query} ")}
        assert asked - hops <= {*QUERIES, NAMED}
        assert config.second_hop or not hops
        embedder.calls.clear()
        finished = [hit.passage for hit in before[0].passages if hit.status in ("ok", "empty")]
        assert again.add(finished).unchanged == tuple(p.id for p in finished)
        again.add([dataclasses.replace(p, id=f"another {p.id}") for p in finished])
        assert chat.asked == embedder.calls == []


# -- 6: sync = async = batch -----------------------------------------------------------------------

CHATS = [
    CHOICE,
    '{"keep": [2], "named_entities": []}',
    '{"keep": []}',
    "Well...",
    PermanentModelError("no"),
]


def models(kind, said):
    if kind == "chat":
        return {"chat_model": ScriptedChatModel(lambda _: said)}
    if kind == "openie":
        return {"chat_model": None, "openie": TableOpenIE(queries={QUERIES[0]: [NAMED, "Rome"]})}
    return {"chat_model": None}


@given(
    batch=st.one_of(st.just([]), batches, batches, batches),
    table=tables,
    config=configs,
    queries=st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4),
    kind=st.sampled_from(["chat", "chat", "openie", "none"]),
    said=st.sampled_from(CHATS),
    k=st.integers(1, 6),
    score_mode=st.sampled_from(["ppr", "relative"]),
)
@examples(35)
def test_the_four_ways_to_retrieve_are_one(
    batch, table, config, queries, kind, said, k, score_mode
):
    with HippoRAG(embedder=HashEmbedder(16), config=config, **models(kind, said)) as memory:
        items = [(p, Extraction(triples=table[p.text])) for p in batch]
        memory.add_extracted(items, edges=linked)
        how = {"k": k, "score_mode": score_mode}

        async def each():
            return [await memory.aretrieve(query, **how) for query in queries]

        ways = [
            outcome(lambda: [memory.retrieve(query, **how) for query in queries]),
            outcome(lambda: asyncio.run(each())),
            outcome(lambda: memory.retrieve_many(queries, **how)),
            outcome(lambda: asyncio.run(memory.aretrieve_many(queries, **how))),
        ]
        if isinstance(ways[0], tuple):
            assert ways[0][0] is ModelRequiredError
            assert (kind, config.method) == ("none", "hipporag")
            assert len(set(ways)) == 1
            return
        assert [found.query for found in ways[0]] == queries
        for way in ways[1:]:
            assert_same_answers(ways[0], way)
            assert [f.walk for f in way] == [f.walk for f in ways[0]]
            assert [f.usage.chat_calls for f in way] == [f.usage.chat_calls for f in ways[0]]


@given(
    batch=batches,
    table=tables,
    failing=patterns,
    config=configs,
    on_error=st.sampled_from(["raise", "skip"]),
)
@examples(25)
def test_adding_on_a_loop_is_adding_in_threads(batch, table, failing, config, on_error, corpora):
    def filled(add):
        chat = corpora.Reader(table, first_replies(failing), other=CHOICE)
        memory = HippoRAG(chat, HashEmbedder(16), config=config)
        report = outcome(lambda: add(memory))
        return memory, report if isinstance(report, tuple) else without_seconds(report), chat

    how = {"on_error": on_error, "edges": linked}
    one, report, chat = filled(lambda memory: memory.add(batch, **how))
    two, areport, achat = filled(lambda memory: asyncio.run(memory.aadd(batch, **how)))
    with one, two:
        assert report == areport
        assert Counter(chat.asked) == Counter(achat.asked)
        assert (list(one), one.stats()) == (list(two), two.stats())
        assert_same_answers(retrievals(one), retrievals(two))


# -- 7: a failure is never stored as an empty success ----------------------------------------------


class Expected:
    """What becomes of each text of one batch, round by round."""

    def __init__(self, table):
        self.table = table
        self.has_entities, self.partial, self.done = set(), set(), set()
        self.visible = {}  # status by text

    def round(self, texts, pattern, on_error):
        """Give what is asked, and the texts that fail and that stay partial."""
        asked, failed, partial = Counter(), set(), set()
        for text in texts - self.done:
            stage, kind = pattern.get(text, (None, None))
            for now in READ:
                if now == "entities" and text in self.has_entities:
                    continue
                hit = now == stage
                asked[now, text] += len(replies(kind)) if hit else 1
                if hit and kind in RECOVERIES:
                    asked[now, text] += 1
                if hit and kind in FAILURES:
                    failed.add(text)
                    break
                if now == "entities":
                    self.has_entities.add(text)
                elif hit and kind == PARTIAL:
                    partial.add(text)
                    self.partial.add(text)
                else:
                    self.done.add(text)
                    self.partial.discard(text)
        if failed and on_error == "raise":
            return asked, failed, partial
        partial |= failed & self.partial  # what an earlier, cut reply said
        failed -= self.partial
        for text in texts:
            self.visible[text] = (
                "failed" if text in failed else "partial" if text in partial
                else "ok" if self.table[text] else "empty"
            )  # fmt: skip
        return asked, failed, partial


@given(
    batch=batches,
    table=tables,
    rounds=st.lists(
        st.tuples(patterns, st.sampled_from(["raise", "skip"]), st.booleans(), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    method=st.sampled_from(["hipporag2", "hipporag", "dense"]),
)
@examples(35)
def test_failures_are_reported_and_retried_and_leave_nothing_behind(
    batch, table, rounds, method, corpora, new_location
):
    folder = new_location()
    texts = {p.text for p in batch}
    expected = Expected(table)
    healthy = {}, "raise", False, True
    for turn, (pattern, on_error, on_a_loop, anew) in enumerate([*rounds, healthy]):
        if turn == 0 or anew:
            if turn:
                memory.close()  # noqa: F821 - of the turn before
            chat = corpora.Reader(table, other=CHOICE)
            memory = HippoRAG(chat, HashEmbedder(16), store=folder)
        chat.first, already = first_replies(pattern), set(expected.done)
        visible = dict(expected.visible)
        asked, failed, partial = expected.round(texts, pattern, on_error)
        chat.asked.clear()
        add = (lambda *a, **k: asyncio.run(memory.aadd(*a, **k))) if on_a_loop else memory.add  # noqa: B023
        if failed and on_error == "raise":
            with pytest.raises(IndexingError) as caught:
                add(batch)
            assert set(caught.value.failed) == {p.id for p in batch if p.text in failed}
            assert all(caught.value.failed.values())
            assert expected.visible == visible
        else:
            report = add(batch, on_error=on_error)
            assert set(report.failed) == {p.id for p in batch if p.text in failed}
            assert set(report.partial) == {p.id for p in batch if p.text in partial}
            assert all([*report.failed.values(), *report.partial.values()])
            assert not (failed | partial) & already
            fine = texts - failed - partial
            written_ = {*report.added, *report.updated, *report.unchanged}
            assert written_ == {p.id for p in batch if p.text not in failed}
            assert {*report.empty} <= {p.id for p in batch if p.text in fine and not table[p.text]}
        assert Counter(chat.asked) == asked
        hits = memory.retrieve(QUERIES[0], k=99).passages
        assert {hit.passage.id: hit.status for hit in hits} == {
            p.id: expected.visible[p.text] for p in batch if p.text in expected.visible
        }
    with memory, HippoRAG(corpora.Reader(table, other=CHOICE), HashEmbedder(16)) as fresh:
        assert expected.done == texts
        fresh.add(batch)
        assert (list(memory), memory.stats()) == (list(fresh), fresh.stats())
        config = configured(method)
        assert_same_answers(retrievals(memory, config), retrievals(fresh, config))


# -- 9: text is data -------------------------------------------------------------------------------

HOSTILE = [
    "'; DROP TABLE passages; --",
    '" OR 1=1 --',
    "%s %(x)s :name ? {0} {x!r} ${HOME} %n",
    "../../../../etc/passwd",
    "/srv/x\\..\\C:",
    "~/.ssh\x00.txt",
    '{"named_entities": ["x"], "triples": [["a", "b", "c"], ["d',
    '{"keep": [1]}',
    "<think>no end",
    "</think></thinking><reasoning>",
    "Answer: ",
    "```\n```json\n[",
    "__import__('os').system('touch pwned')",
    "!!python/object/apply:os.system ['touch pwned']",
    "\u202e\u200b\ufeff",
    "\x00\x01\x1b[31m\x7f\x85\u2028",
    "x" * 5000,
    "🦛\U0010ffff",
    "sqlite:///pwned.db",
    "\r\n\t ",
]
characters = st.characters(exclude_categories=["Cs"])
plain_text = st.text(
    st.one_of(characters, st.sampled_from("\x00\x01\x1f\"'\\%{}[]<>/:;`\n ")), max_size=12
)
hostile = st.one_of(
    st.sampled_from(HOSTILE),
    plain_text,
    st.builds("".join, st.lists(st.one_of(plain_text, st.sampled_from(HOSTILE)), max_size=3)),
)
json_values = st.recursive(
    st.one_of(hostile, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(hostile, inner, max_size=2)
    ),
    max_leaves=4,
)
extracted = st.builds(
    Extraction,
    entities=st.lists(hostile, max_size=2),
    triples=st.lists(st.tuples(hostile, hostile, hostile), max_size=3),
    dropped=st.dictionaries(hostile, st.integers(0, 3), max_size=1),
)
hostile_passages = st.builds(
    Passage,
    text=hostile,
    id=hostile,
    title=hostile,
    source_id=st.one_of(st.none(), hostile),
    metadata=st.dictionaries(hostile, json_values, max_size=2),
    embed_text=hostile.filter(lambda text: not text or text.strip()),
)
NEIGHBOUR = "neighbour"


@pytest.fixture(scope="module")
def beside(tmp_path_factory, new_location):
    """Work in an empty folder, on a store that holds a neighbour; nothing else may change."""

    @contextlib.contextmanager
    def beside():
        home = tmp_path_factory.mktemp("home")
        location = new_location(home / "m")

        def neighbour():
            config = HippoConfig(concurrency=1)
            return HippoRAG(
                None, HashEmbedder(16), store=location, namespace=NEIGHBOUR, config=config
            )

        with neighbour() as other:
            other.add_extracted(
                [(Passage(TEXTS[0], id="n"), Extraction(triples=[("Ada", "is", "x")]))]
            )
            before = list(other), other.stats(), retrievals(other)
        with contextlib.chdir(home):
            yield location
        with neighbour() as other:
            assert (list(other), other.stats()) == before[:2]
            assert_same_answers(retrievals(other), before[2])
        assert set(home.iterdir()) <= {location}
        assert all(p.is_file() and p.name.startswith("hippo.sqlite") for p in home.glob("m/*"))

    return beside


def hostile_links(text):
    def linked(passage):
        yield Edge(passage, to_source=text)
        yield Edge(passage, to_phrase=text)
        if text:
            yield Edge(passage, to_passage=text)

    return linked


@given(passage=hostile_passages, extraction=extracted, namespace=hostile, query=hostile)
@examples(35)
def test_any_text_of_a_document_comes_back_and_does_nothing_else(
    passage, extraction, namespace, query, beside
):
    assume(namespace)
    said = ScriptedChatModel(lambda _: query, name=namespace)
    with beside() as folder:
        settings_ = {"store": folder, "namespace": namespace}
        with HippoRAG(said, HashEmbedder(16, name=query), **settings_) as memory:
            report = memory.add_extracted([(passage, extraction)], edges=hostile_links(query))
            kept = [dataclasses.replace(passage, id=i) for i in report.ids]
            assert len(kept) == 1 - report.blank == bool(passage.full_text.strip())
            assert all(not passage.id or p.id == passage.id for p in kept)
            assert memory.get(report.ids) == kept == list(memory)
            for method in ("hipporag2", "hipporag", "dense"):
                found = outcome(lambda: memory.retrieve(query, config=configured(method)))  # noqa: B023
                if query.strip():
                    assert [hit.passage for hit in found] == kept
                else:
                    assert found[0] is InputError
            outcome(lambda: memory.answer(f"? {query}"))
        with HippoRAG(None, HashEmbedder(16, name=query), **settings_) as again:
            assert again.get(report.ids) == kept == list(again)
            assert again.delete(report.ids).deleted == report.ids
            assert list(again) == []


REPLIES = ["raw", "entities", "triples", "fails", "cut", "half", "fails half"]


@given(
    text=st.sampled_from(TEXTS),
    fields=st.lists(hostile, min_size=1, max_size=4),
    said=st.lists(
        st.tuples(hostile, st.sampled_from(REPLIES)),
        min_size=1,
        max_size=5,
    ),
)
@examples(35)
def test_any_reply_of_a_model_is_data(text, fields, said, beside):
    """Also one with half characters, which a model's reply may hold and no database."""

    def reply(what, kind):
        facts_ = [[what, f, fields[0]] for f in fields]
        return {
            "raw": what,
            "cut": cut(json.dumps({"triples": facts_})[:-4]),
            "half": json.dumps({"named_entities": [f"{what}\ud800"]}) + what + "\udfff",
            "entities": json.dumps({"named_entities": [what, *fields]}),
            "triples": json.dumps({"triples": facts_, "keep": [1, what]}),
            "fails": PermanentModelError(what),
            "fails half": PermanentModelError(f"{what}\ud800"),
        }[kind]

    calls = iter([reply(*pair) for pair in said * 30])
    chat = ScriptedChatModel(lambda _: next(calls))
    passage = Passage(text, id="a")
    with beside() as folder:
        with HippoRAG(chat, HashEmbedder(16), store=folder) as memory:
            report = memory.add([passage], on_error="skip")
            assert report.ids == ("a",)
            for method in ("hipporag2", "hipporag", "dense"):
                found = memory.retrieve(QUERIES[0], config=configured(method))
                assert [hit.passage for hit in found] == [passage]
            outcome(lambda: memory.answer(QUERIES[0]))
        with HippoRAG(None, HashEmbedder(16), store=folder) as again:
            assert list(again) == [passage]
            assert again.get(["a"]) == [passage]


half = st.builds("{}{}{}".format, plain_text, st.characters(categories=["Cs"]), plain_text)


@given(half=half, fine=hostile)
@examples(8)
def test_half_characters_are_refused_wherever_they_are(half, fine, beside):
    base = Passage(f"T {fine}", id="t")
    told = Extraction(["Ada"], [("Ada", "is", fine)])
    passages_ = [
        dataclasses.replace(base, **change)
        for change in (
            {"text": half}, {"id": half}, {"title": half}, {"source_id": half},
            {"metadata": {half: 1}}, {"metadata": {"k": [{"k": half}]}}, {"embed_text": half},
        )
    ]  # fmt: skip
    extractions = [
        Extraction([half]),
        *(
            Extraction(triples=[t])
            for t in ((half, "is", "b"), ("a", half, "b"), ("a", "is", half))
        ),
        Extraction(dropped={half: 1}),
        Extraction(status="failed", reason=half),
        Extraction(status="partial", reason=half),
    ]
    with (
        beside() as folder,
        HippoRAG(ScriptedChatModel([]), HashEmbedder(16), store=folder) as memory,
    ):
        memory.add_extracted([(base, told)])
        for passage in passages_:
            with pytest.raises(InputError):
                memory.add([Passage("fine"), passage])
        for target in ({"to_passage": half}, {"to_source": half}):
            with pytest.raises(InputError):
                memory.add_extracted([(base, told)], edges=[Edge(base, **target)])
        with pytest.raises(InputError):
            memory.add_extracted([(base, told)], edges=[Edge(half, to_passage="x")])
        for passage, extraction in [
            *((p, Extraction()) for p in passages_),
            *((base, e) for e in extractions),
        ]:
            with pytest.raises(InputError):
                memory.add_extracted([(Passage("fine"), Extraction()), (passage, extraction)])
        with pytest.raises(InputError):
            HippoRAG(None, HashEmbedder(16), store=folder, namespace=half)
        assert list(memory) == [base]


@given(half=half)
@examples(8)
def test_half_characters_from_a_part_of_the_user_raise_our_own_errors(half, beside):
    """What an OpenIE gives, and what models are called, the user's code decides."""
    passage = Passage("T", id="t")
    with beside() as folder:
        for extraction in (
            Extraction([half]),
            Extraction(triples=[("a", half, "b")]),
            Extraction(status="partial", reason=half),
            Extraction(status="failed", reason=half),
            Extraction(dropped={half: 1}),
        ):
            openie = TableOpenIE({"T": extraction}, {QUERIES[0]: [half]})
            with HippoRAG(None, HashEmbedder(16), store=folder, openie=openie) as memory:
                outcome(lambda: memory.add([passage], on_error="skip"))  # noqa: B023
                outcome(lambda: memory.retrieve(half, config=configured("hipporag")))  # noqa: B023
                outcome(lambda: memory.retrieve(QUERIES[0], config=configured("hipporag")))  # noqa: B023
                memory.delete(["t"])


# -- 10: plain values out --------------------------------------------------------------------------


class Name(str):
    """A str that is none, as a framework's or NumPy's."""

    __slots__ = ()


class Chooser:
    """Judges with NumPy's numbers."""

    def choose(self, query, candidates):
        return np.arange(len(candidates))[::-1]


class NamedOpenIE(TableOpenIE):
    """Reads by a table, in another kind of str."""

    def extract(self, text):
        found = super().extract(text)
        triples = [Triple(*map(Name, triple)) for triple in found.triples]
        return Extraction([Name(e) for e in found.entities], triples)

    def query_entities(self, query):
        return [Name(NAMED), Name("Rome")]


def by_name(passage):
    yield Edge(Name(passage.id), to_phrase=Name("Ada"), weight=np.float32(0.5))
    yield Edge(passage, to_source=Name("s"))
    yield Edge(passage, to_passage=Name("a"))


PLAIN = (str, int, float, bool, type(None))


VALUES = ("hippo_core.types", "hippo_core.costs", "hippo_core.answers")


def strange_parts(value, path="result"):
    """The parts that are neither plain values nor values of ours."""
    kind = type(value)
    if isinstance(value, Enum):
        if not isinstance(value, str) or kind.__module__ not in VALUES:
            yield f"{path}: {value!r}"
    elif dataclasses.is_dataclass(value) and kind.__module__ in VALUES:
        for field in dataclasses.fields(value):
            yield from strange_parts(getattr(value, field.name), f"{path}.{field.name}")
    elif kind in (tuple, list, Triple):
        for place, part in enumerate(value):
            yield from strange_parts(part, f"{path}[{place}]")
    elif kind is dict:
        for key, part in value.items():
            yield from strange_parts(key, f"{path}: key")
            yield from strange_parts(part, f"{path}[{key!r}]")
    elif kind not in PLAIN or (kind is float and not math.isfinite(value)):
        yield f"{path}: {kind.__name__} {value!r}"


def assert_plain(result):
    assert list(strange_parts(result)) == []
    values = dataclasses.asdict(result)
    assert json.loads(json.dumps(values, allow_nan=False)) == json.loads(json.dumps(values))


@given(
    batch=batches,
    table=tables,
    failing=patterns,
    config=configs,
    kind=st.sampled_from(["chat", "openie"]),
    chooses=st.booleans(),
    said=st.sampled_from(CHATS),
    of_text=st.sampled_from([str, Name, np.str_]),
    k=st.integers(1, 6),
    score_mode=st.sampled_from(["ppr", "relative"]),
)
@examples(35)
def test_whatever_comes_out_is_plain(
    batch, table, failing, config, kind, chooses, said, of_text, k, score_mode, corpora
):
    seen = []
    openie = NamedOpenIE({t: Extraction(["Ada"], facts_) for t, facts_ in table.items()})
    chat = corpora.Reader(table, first_replies(failing), other=said)
    parts = {"recognition": Chooser() if chooses else None}
    parts |= {"openie": openie} if kind == "openie" else {}
    with HippoRAG(chat, HashEmbedder(16), config=config, **parts) as memory:
        results = [
            memory.retrieve(of_text(QUERIES[0])),  # of nothing
            memory.add(
                [*batch, Passage(" ")], edges=by_name, on_error="skip", progress=seen.append
            ),
            memory.add([*batch], on_error="skip", progress=seen.append),
        ]
        queries = [of_text(query) for query in QUERIES]
        results += memory.retrieve_many(queries, k=k, score_mode=score_mode)
        with contextlib.suppress(HippoError):
            results.append(memory.answer(queries[0], k=k))
        results += [memory.stats(), *memory, *memory.get([of_text("a")])]
        results.append(memory.delete([of_text("a"), of_text("zz")]))
        for result in (*results, *seen):
            assert_plain(result)
