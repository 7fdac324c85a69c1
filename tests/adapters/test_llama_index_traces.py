"""What LlamaIndex's handlers are told when many retrievals run at once, and when one fails."""

import asyncio
from collections import Counter

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

from hippo_core import InputError
from llama_index_hipporag import HippoRAGIndex


class Spans(SimpleSpanHandler):
    """Knows the parent of each span, and how often each came to an end."""

    parents: dict = {}
    ends: Counter = Counter()

    def new_span(self, id_, bound_args, instance=None, parent_span_id=None, tags=None, **kwargs):
        self.parents[id_] = parent_span_id
        return super().new_span(id_, bound_args, instance, parent_span_id, tags, **kwargs)

    def prepare_to_exit_span(self, id_, *args, **kwargs):
        self.ends["exit", id_] += 1
        return super().prepare_to_exit_span(id_, *args, **kwargs)

    def prepare_to_drop_span(self, id_, *args, **kwargs):
        self.ends["drop", id_] += 1
        return super().prepare_to_drop_span(id_, *args, **kwargs)


class Events(BaseEventHandler):
    """Keeps what happened."""

    events: list = []

    def handle(self, event, **kwargs):
        self.events.append(event)

    def names(self):
        return Counter(event.class_name() for event in self.events)


@pytest.fixture
def seen():
    root, events, spans = get_dispatcher(), Events(), Spans()
    events.events, spans.parents, spans.ends = [], {}, Counter()
    root.add_event_handler(events)
    root.add_span_handler(spans)
    yield events, spans
    root.event_handlers.remove(events)
    root.span_handlers.remove(spans)


def retrieval_above(span, parents):
    while span is not None and ".aretrieve-" not in span and "._retrieve-" not in span:
        span = parents[span]
    return span


async def test_retrievals_at_once_have_each_its_own_events_and_calls(llama, question, seen):
    events, spans = seen
    retriever = llama.as_retriever()
    await asyncio.gather(*(retriever.aretrieve(f"{question} {n}") for n in range(20)))
    told = [e for e in events.events if e.class_name() == "HippoRAGRetrievalEvent"]
    assert sorted(e.query for e in told) == sorted(f"{question} {n}" for n in range(20))
    assert len({retrieval_above(e.span_id, spans.parents) for e in told}) == 20
    by_retrieval = {retrieval_above(e.span_id, spans.parents): e.query for e in told}
    chats = [e for e in events.events if e.class_name() == "LLMChatStartEvent"]
    assert len({chat.span_id for chat in chats}) == 20
    for chat in chats:
        query = by_retrieval[retrieval_above(chat.span_id, spans.parents)]
        assert any(query in message.content for message in chat.messages)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_retrieval_begins_and_ends_once(llama, question, seen, asynchronous):
    """The sync one inside a running loop, too."""
    events, spans = seen
    retriever = llama.as_retriever()
    if asynchronous:
        await retriever.aretrieve(question)
    else:
        retriever.retrieve(question)
    names = events.names()
    for name in ("RetrievalStartEvent", "RetrievalEndEvent", "HippoRAGRetrievalEvent"):
        assert names[name] == 1
    assert len({e.span_id for e in events.events if e.class_name() == "LLMChatEndEvent"}) == 1
    assert spans.open_spans == {}
    assert set(spans.ends.values()) == {1}
    assert {how for how, _ in spans.ends} == {"exit"}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_error_drops_each_span_once_and_tells_of_no_end(llama, seen, asynchronous):
    events, spans = seen
    retriever = llama.as_retriever()
    if asynchronous:
        with pytest.raises(InputError):
            await retriever.aretrieve(" ")
    else:
        with pytest.raises(InputError):
            retriever.retrieve(" ")
    names = events.names()
    assert names["RetrievalStartEvent"] == 1
    assert names["RetrievalEndEvent"] == names["HippoRAGRetrievalEvent"] == 0
    assert spans.open_spans == {}
    assert set(spans.ends.values()) == {1}
    assert {how for how, _ in spans.ends} == {"drop"}


async def test_callback_handlers_are_told_once_of_each_way_and_of_an_error(
    models, nodes, question, closing
):
    handler = LlamaDebugHandler(print_trace_on_end=False)
    index = closing(HippoRAGIndex(nodes, callback_manager=CallbackManager([handler]), **models))
    retriever = index.as_retriever()
    retriever.retrieve(question)
    await retriever.aretrieve(question)
    with pytest.raises(InputError):
        retriever.retrieve(" ")
    told = handler.get_event_pairs(CBEventType.RETRIEVE)
    assert [len(pair) for pair in told] == [2, 2, 2]
    payloads = [end.payload or {} for _, end in told]
    assert [EventPayload.EXCEPTION in payload for payload in payloads] == [False, False, True]
