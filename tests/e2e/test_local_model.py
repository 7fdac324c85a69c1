"""A real, small and poor chat model on loopback: what it says is accounted for, whatever it is.

Facts are not asked of it; `make test-e2e` runs this. Both frameworks' models go the whole way, each
with and without a JSON schema for the replies: LangChain's through the sync methods, LlamaIndex's
through the async ones.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hippo_core import (
    Answer,
    Embedder,
    HippoConfig,
    HippoError,
    HippoRAG,
    IndexingError,
    IndexReport,
    ParseError,
    Passage,
    Stats,
    Status,
    Usage,
)
from hippo_core.parsing import parse_entities, parse_triples

if TYPE_CHECKING:
    from conftest import Exchange, ModelServer, Proxy
    from langchain_core.runnables import Runnable

    from llama_index_hipporag import LlamaIndexChatModel

PAGE = Path(__file__).parents[2] / "docs" / "local-models.md"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no docs"),
]

pytest.importorskip("langchain_openai", reason="needs hippo-core[e2e]")
pytest.importorskip("llama_index.llms.openai_like", reason="needs hippo-core[e2e]")
pytest.importorskip("onnxruntime", reason="needs hippo-core[e2e]")

MAX_TOKENS = 160
CONFIG = HippoConfig(concurrency=1)  # the server has one slot

PASSAGES = [
    Passage(text, id=title.casefold(), title=title)
    for title, text in [
        (
            "Marie Curie",
            "Marie Curie was born in Warsaw in 1867. She moved to Paris, where she met Pierre.",
        ),
        (
            "Radio City",
            "Radio City was the first private FM station of India. It was started on 3 July 2001 "
            "and broadcasts from Mumbai.",
        ),
        (
            "Vltava",
            "The Vltava is the longest river of the Czech Republic. It flows through Prague and "
            "joins the Elbe at Melnik.",
        ),
        (
            "The Bartered Bride",
            "The Bartered Bride is a comic opera by Bedrich Smetana, first performed in Prague in "
            "1866.",
        ),
        (
            "Bedrich Smetana",
            "Bedrich Smetana was a composer. He was born in Litomysl and died in Prague in 1884.",
        ),
    ]
]
QUESTION = "Where was the composer of The Bartered Bride born?"


def documented_schema() -> dict[str, Any]:
    """Give the schema that the page on local models tells users to bind."""
    (source,) = re.findall(r"^SCHEMA = (.*?^})$", PAGE.read_text("utf-8"), re.M | re.S)
    schema: dict[str, Any] = ast.literal_eval(source)
    return _with_short_lists(schema)


def _with_short_lists(schema: Any) -> Any:
    # A model as small as this one fills each list up to its limit.
    if isinstance(schema, list):
        return [_with_short_lists(part) for part in schema]
    if isinstance(schema, dict):
        short = {key: _with_short_lists(part) for key, part in schema.items()}
        return {**short, "maxItems": min(6, schema["maxItems"])} if "maxItems" in schema else short
    return schema


def format_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


def langchain_llm(
    base_url: str, schema: dict[str, Any] | None, max_tokens: int = MAX_TOKENS
) -> Runnable[Any, Any]:
    from langchain_openai import ChatOpenAI

    llm = ChatOpenAI(
        base_url=base_url,
        api_key="none",
        model="local",
        temperature=0,
        max_retries=0,
        timeout=300,
        extra_body={"max_tokens": max_tokens},
    )
    return llm.bind(response_format=format_of(schema)) if schema else llm


def llama_index_llm(
    base_url: str, schema: dict[str, Any] | None, max_tokens: int = MAX_TOKENS
) -> LlamaIndexChatModel:
    from llama_index.llms.openai_like import OpenAILike

    from llama_index_hipporag import LlamaIndexChatModel

    return LlamaIndexChatModel(
        OpenAILike(
            api_base=base_url,
            api_key="none",
            model="local",
            temperature=0,
            max_tokens=max_tokens,
            max_retries=0,
            timeout=300,
            context_window=4096,
            is_chat_model=True,
            additional_kwargs={"response_format": format_of(schema)} if schema else {},
        )
    )


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    from hippo_core.local import MiniLM

    return MiniLM(threads=1)


# -- five passages, a question and an answer -------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one of the four runs did, and what went over the wire meanwhile."""

    with_schema: bool
    report: IndexReport
    stats: Stats
    statuses: dict[str, Status]
    path: str
    found: list[dict[str, Any]]
    answer: Answer | HippoError
    indexing: list[Exchange]
    retrieving: list[Exchange]
    answering: list[Exchange]


def run_langchain(proxy: Proxy, embedder: Embedder, schema: dict[str, Any] | None) -> Run:
    from langchain_hipporag import HippoRAGRetriever, LangChainChatModel

    llm = langchain_llm(proxy.base_url, schema)
    reader = LangChainChatModel(langchain_llm(proxy.base_url, None))
    with closing(
        HippoRAGRetriever.from_models(
            llm=llm, embeddings=embedder, config=CONFIG, include_triples=True
        )
    ) as retriever:
        memory = retriever.hippo
        report = memory.add(PASSAGES, on_error="skip")
        indexed = len(proxy.exchanges)
        documents = retriever.invoke(QUESTION)
        retrieved = len(proxy.exchanges)
        try:
            answer: Answer | HippoError = memory.answer(QUESTION, k=2, chat_model=reader)
        except HippoError as error:
            answer = error
        return Run(
            schema is not None,
            report,
            memory.stats(),
            _statuses(memory),
            "",
            [json.loads(document.model_dump_json()) for document in documents],
            answer,
            proxy.exchanges[:indexed],
            proxy.exchanges[indexed:retrieved],
            proxy.exchanges[retrieved:],
        )


def run_llama_index(proxy: Proxy, embedder: Embedder, schema: dict[str, Any] | None) -> Run:
    return asyncio.run(_run_llama_index(proxy, embedder, schema))


async def _run_llama_index(proxy: Proxy, embedder: Embedder, schema: dict[str, Any] | None) -> Run:
    chat_model = llama_index_llm(proxy.base_url, schema)
    reader = llama_index_llm(proxy.base_url, None)
    with HippoRAG(chat_model, embedder, config=CONFIG) as memory:
        report = await memory.aadd(PASSAGES, on_error="skip")
        indexed = len(proxy.exchanges)
        retrieval = await memory.aretrieve(QUESTION)
        retrieved = len(proxy.exchanges)
        try:
            answer: Answer | HippoError = await memory.aanswer(QUESTION, k=2, chat_model=reader)
        except HippoError as error:
            answer = error
        return Run(
            schema is not None,
            report,
            memory.stats(),
            _statuses(memory),
            retrieval.path.value,
            json.loads(json.dumps([asdict(hit) for hit in retrieval])),
            answer,
            proxy.exchanges[:indexed],
            proxy.exchanges[indexed:retrieved],
            proxy.exchanges[retrieved:],
        )


def _statuses(memory: HippoRAG) -> dict[str, Status]:
    # Dense retrieval asks the chat model for nothing.
    hits = memory.retrieve(QUESTION, k=len(PASSAGES), config=HippoConfig.dense())
    return {hit.passage.id: hit.status for hit in hits}


@pytest.fixture(
    scope="module",
    params=[
        ("langchain", run_langchain, "schema"),
        ("langchain", run_langchain, ""),
        ("llama-index", run_llama_index, "schema"),
        ("llama-index", run_llama_index, ""),
    ],
    ids=lambda param: f"{param[0]} {param[2] or 'no schema'}",
)
def run(
    request: pytest.FixtureRequest,
    start_proxy: Callable[[], Proxy],
    embedder: Embedder,
    say: Callable[[str], None],
) -> Run:
    name, do, schema = request.param
    began = time.monotonic()
    done: Run = do(start_proxy(), embedder, documented_schema() if schema else None)
    calls = ", ".join(f"{n} {s}" for s, n in Counter(e.stage for e in done.indexing).items())
    say(
        f"{name}, {schema or 'no schema'}: {time.monotonic() - began:.0f} s; indexing took "
        f"{calls}; {dict(done.stats.by_status)}; {done.path}; answer: {done.answer!r:.80}"
    )
    return done


def told(exchanges: list[Exchange]) -> dict[str, tuple[int, int, int]]:
    """Give calls and tokens by stage, as the server counts them."""
    counts: dict[str, tuple[int, int, int]] = {}
    for exchange in exchanges:
        calls, read, written = counts.get(exchange.stage, (0, 0, 0))
        tokens = exchange.tokens
        counts[exchange.stage] = (calls + 1, read + tokens[0], written + tokens[1])
    return counts


def counted(usage: Usage) -> dict[str, tuple[int, int, int]]:
    """Give calls and tokens by stage, as we count them."""
    chat = {stage: u for stage, u in usage.stages.items() if stage != "embedding"}
    assert not any(u.estimated or u.cached for u in chat.values())
    return {stage: (u.calls, u.input_tokens, u.output_tokens) for stage, u in chat.items()}


def test_calls_and_tokens_of_indexing_are_the_servers(run: Run) -> None:
    assert counted(run.report.usage) == told(run.indexing)
    assert {"entities", "triples"} == set(told(run.indexing))
    assert all(read > 0 and written > 0 for _, read, written in told(run.indexing).values())


def test_a_passage_is_read_in_two_calls_and_each_is_made_once_more_at_the_most(run: Run) -> None:
    asked = Counter((e.stage, e.is_about) for e in run.indexing)
    assert set(asked.values()) <= {1, 2}
    by_stage = Counter(stage for stage, _ in asked)
    assert by_stage["entities"] == len(PASSAGES)
    assert by_stage["triples"] <= len(PASSAGES)


def test_every_passage_ends_in_a_status_and_what_was_not_read_with_a_reason(run: Run) -> None:
    report = run.report
    assert report.ids == tuple(passage.id for passage in PASSAGES)
    assert Counter(run.statuses.values()) == run.stats.by_status
    assert sum(run.stats.by_status.values()) == run.stats.passages == len(PASSAGES)
    for id_, status in run.statuses.items():
        assert (id_ in report.failed) == (status is Status.FAILED)
        assert (id_ in report.partial) == (status is Status.PARTIAL)
        assert (id_ in report.empty) == (status is Status.EMPTY)
    assert all(reason.strip() for reason in {**report.failed, **report.partial}.values())


def test_a_passage_whose_reply_was_cut_is_not_finished(run: Run) -> None:
    for passage in PASSAGES:
        last = {e.stage: e for e in run.indexing if passage.text in e.is_about}
        if any(exchange.was_cut for exchange in last.values()):
            assert not run.statuses[passage.id].finished


def test_a_passage_whose_last_reply_is_unreadable_has_failed(run: Run) -> None:
    for passage in PASSAGES:
        last = {e.stage: e for e in run.indexing if passage.text in e.is_about}
        if not all(is_readable(exchange) for exchange in last.values()):
            assert run.statuses[passage.id] is Status.FAILED


def test_the_schema_is_sent_where_it_is_bound_and_makes_every_whole_reply_json(run: Run) -> None:
    for exchange in [*run.indexing, *run.retrieving]:
        assert ("response_format" in exchange.body) == run.with_schema
        if run.with_schema and not exchange.was_cut:
            assert len(json.loads(exchange.text)) == 1
    assert not any("response_format" in exchange.body for exchange in run.answering)


def test_retrieval_gives_passages_as_plain_values(run: Run) -> None:
    assert len(run.found) == len(PASSAGES)
    assert len(run.retrieving) <= 1  # none where nothing was linked
    scores = [hit.get("score", hit.get("metadata", {}).get("hipporag_score")) for hit in run.found]
    assert all(type(score) is float for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_the_answer_is_text_or_an_error_of_ours_and_is_counted(run: Run) -> None:
    if isinstance(run.answer, HippoError):
        assert isinstance(run.answer, ParseError)
    else:
        assert run.answer.text.strip()
        assert counted(run.answer.usage) == told(run.answering)
        assert told(run.answering)["answer"][0] == 1


# -- the token limit -------------------------------------------------------------------------------

LONG_WINDED = {
    "anyOf": [
        {
            "type": "object",
            "properties": {key: {"type": "array", "minItems": 60, "items": items}},
            "required": [key],
            "additionalProperties": False,
        }
        for key, items in {
            "named_entities": {"type": "string", "minLength": 2, "maxLength": 12},
            "triples": {
                "type": "array",
                "items": {"type": "string", "minLength": 2, "maxLength": 12},
                "minItems": 3,
                "maxItems": 3,
            },
        }.items()
    ]
}


@pytest.mark.parametrize("make_llm", [langchain_llm, llama_index_llm], ids=["langchain", "llama"])
def test_a_reply_that_ends_at_max_tokens_makes_the_passage_partial(
    make_llm: Callable[..., Any], start_proxy: Callable[[], Proxy], embedder: Embedder
) -> None:
    from langchain_hipporag import LangChainChatModel

    proxy = start_proxy()
    llm = make_llm(proxy.base_url, LONG_WINDED, 160)
    chat_model = LangChainChatModel(llm) if make_llm is langchain_llm else llm
    with HippoRAG(chat_model, embedder, config=CONFIG) as memory:
        report = memory.add(PASSAGES[:1], on_error="skip")
    assert all(exchange.was_cut for exchange in proxy.exchanges)
    assert report.partial.keys() | report.failed.keys() == {PASSAGES[0].id}
    assert "cut" in {**report.partial, **report.failed}[PASSAGES[0].id]
    assert counted(report.usage) == told(proxy.exchanges)


# -- a server that dies ----------------------------------------------------------------------------


def is_readable(exchange: Exchange) -> bool:
    read: Callable[..., object] = parse_entities if exchange.stage == "entities" else parse_triples
    try:
        read(exchange.text, truncated=exchange.was_cut)
    except ParseError:
        return False
    return True


def finished(exchanges: list[Exchange]) -> set[tuple[str, str]]:
    return {
        (e.stage, e.is_about) for e in exchanges if e.reply and not e.was_cut and is_readable(e)
    }


def killed_at(number: int, proxy: Proxy) -> None:
    """Kill the server a moment after it got a request of this number."""
    server: ModelServer = proxy.server

    def on_request(count: int) -> None:
        if count == number:
            threading.Timer(0.2, server.kill).start()

    proxy.on_request = on_request


def check_that_only_the_rest_was_asked(before: list[Exchange], after: list[Exchange]) -> None:
    done = finished(before)
    assert done, "the server lived long enough to finish something"
    assert any(exchange.reply is None for exchange in before), "and was missed"
    asked_again = {(e.stage, e.is_about) for e in after}
    assert not asked_again & done
    assert {stage for stage, _ in asked_again} == {"entities", "triples"}
    for passage in PASSAGES:
        stages = {stage for stage, about in done | asked_again if passage.text in about}
        assert "entities" in stages


def test_langchain_a_server_killed_while_indexing_is_an_error_and_the_next_one_does_the_rest(
    start_proxy: Callable[[], Proxy],
    start_server: Callable[[], ModelServer],
    embedder: Embedder,
    tmp_path: Path,
) -> None:
    from langchain_core.documents import Document

    from langchain_hipporag import HippoRAGRetriever

    proxy = start_proxy()
    killed_at(4, proxy)
    documents = [Document(p.text, id=p.id, metadata={"title": p.title}) for p in PASSAGES]
    with closing(
        HippoRAGRetriever.from_models(
            llm=langchain_llm(proxy.base_url, documented_schema()),
            embeddings=embedder,
            persist_directory=tmp_path,
            config=CONFIG,
        )
    ) as retriever:
        with pytest.raises(IndexingError) as raised:
            retriever.add_documents(documents)
        assert not len(retriever.hippo)
        lost = [r for r in raised.value.failed.values() if "onnection" in r]
        assert len(lost) >= 3, raised.value.failed
        before = len(proxy.exchanges)
        proxy.server = start_server()
        ids = retriever.add_documents(documents, on_error="skip")
        assert ids == [passage.id for passage in PASSAGES]
        check_that_only_the_rest_was_asked(proxy.exchanges[:before], proxy.exchanges[before:])
        assert sum(retriever.hippo.stats().by_status.values()) == len(PASSAGES)


def test_llama_index_a_server_killed_while_indexing_leaves_failures_that_the_next_one_mends(
    start_proxy: Callable[[], Proxy],
    start_server: Callable[[], ModelServer],
    embedder: Embedder,
    tmp_path: Path,
) -> None:
    async def index() -> tuple[IndexReport, int, IndexReport]:
        chat_model = llama_index_llm(proxy.base_url, documented_schema())
        with HippoRAG(chat_model, embedder, store=tmp_path, config=CONFIG) as memory:
            first = await memory.aadd(PASSAGES, on_error="skip")
            assert len(memory) == len(PASSAGES)
            before = len(proxy.exchanges)
            proxy.server = start_server()
            return first, before, await memory.aadd(PASSAGES, on_error="skip")

    proxy = start_proxy()
    killed_at(4, proxy)
    first, before, second = asyncio.run(index())
    lost = {id_ for id_, reason in first.failed.items() if "onnection" in reason}
    assert len(lost) >= 3, first.failed
    check_that_only_the_rest_was_asked(proxy.exchanges[:before], proxy.exchanges[before:])
    assert not any("onnection" in reason for reason in second.failed.values())
    assert lost <= {*second.updated, *second.failed, *second.partial, *second.empty}
    assert counted(second.usage) == told(proxy.exchanges[before:])
