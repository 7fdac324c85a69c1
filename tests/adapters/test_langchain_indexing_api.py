"""LangChain's indexing API: a record manager that must agree with the memory."""

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from hippo_core import Completion, IndexingError, InputError
from hippo_core.testing import HashEmbedder, ScriptedChatModel
from langchain_hipporag import HippoRAGDocumentIndex


class Run:
    """Call `index()` or `aindex()` with one record manager and one memory."""

    def __init__(self, memory, is_async):
        self.memory = memory
        self.is_async = is_async
        self.records = InMemoryRecordManager(namespace="test")
        self.records.create_schema()

    async def __call__(self, documents, **options):
        options = {"key_encoder": "sha256", "source_id_key": "source", **options}
        if self.is_async:
            done = await aindex(documents, self.records, self.memory, **options)
        else:
            done = index(documents, self.records, self.memory, **options)
        return tuple(done[f"num_{what}"] for what in ("added", "updated", "skipped", "deleted"))

    def texts(self):
        return sorted(passage.text for passage in self.memory.hippo)


@pytest.fixture(params=[False, True], ids=["index", "aindex"])
def run(request, chat, embeddings, closing):
    memory = closing(HippoRAGDocumentIndex.from_models(llm=chat, embeddings=embeddings))
    return Run(memory, request.param)


def of(source, *texts):
    return [Document(text, metadata={"source": source}) for text in texts]


async def test_without_cleanup_the_old_stays(run):
    assert await run(of("a", "one", "two")) == (2, 0, 0, 0)
    assert await run(of("a", "two", "three")) == (1, 0, 1, 0)
    assert run.texts() == ["one", "three", "two"]


async def test_incremental_cleanup_replaces_what_changed_in_a_source(run):
    assert await run([*of("a", "one", "two"), *of("b", "other")], cleanup="incremental") == (
        3,
        0,
        0,
        0,
    )
    assert await run(of("a", "two", "three"), cleanup="incremental") == (1, 0, 1, 1)
    assert run.texts() == ["other", "three", "two"]


async def test_scoped_full_cleanup_leaves_other_sources(run):
    await run([*of("a", "one", "two"), *of("b", "other")], cleanup="scoped_full")
    assert await run(of("a", "three"), cleanup="scoped_full") == (1, 0, 0, 2)
    assert run.texts() == ["other", "three"]


async def test_full_cleanup_leaves_what_was_given(run):
    await run([*of("a", "one", "two"), *of("b", "other")], cleanup="full")
    assert await run(of("a", "two"), cleanup="full") == (0, 0, 1, 2)
    assert run.texts() == ["two"]
    assert await run([], cleanup="full") == (0, 0, 0, 1)
    assert run.texts() == []


@pytest.mark.parametrize(
    "options",
    [
        {"cleanup": None, "batch_size": 2},
        {"cleanup": "incremental", "batch_size": 4},  # smaller: LangChain itself deletes and adds
        {"cleanup": "scoped_full", "batch_size": 2},
        {"cleanup": "full", "batch_size": 2},
    ],
    ids=str,
)
async def test_a_second_run_asks_no_model(run, core_chat, embeddings, options):
    texts = of("a", "one", "two", "three", "four")
    assert await run(texts, **options) == (4, 0, 0, 0)
    core_chat.calls.clear()
    embeddings.core.calls.clear()
    assert await run(texts, **options) == (0, 0, 4, 0)
    assert core_chat.calls == []
    assert embeddings.core.calls == []


async def test_forcing_an_update_asks_no_model_for_the_same_text(run, core_chat):
    await run(of("a", "one"))
    core_chat.calls.clear()
    assert await run(of("a", "one"), force_update=True) == (0, 1, 0, 0)
    assert core_chat.calls == []


async def test_the_users_ids_may_stay(run):
    own = [Document("one", id="mine", metadata={"source": "a"})]
    await run(own, key_encoder=lambda document: document.id)
    assert run.memory.get(["mine"]) == own


async def test_a_failed_upsert_is_not_recorded_and_is_tried_again(
    chat_of, core_chat, embeddings, closing
):
    for is_async in (False, True):
        broken = [True]

        def reply(messages, broken=broken):
            if broken[0] and any("zwei" in message.content for message in messages):
                return "no JSON at all"
            return core_chat.complete(messages)

        chat = chat_of(ScriptedChatModel(reply))
        memory = closing(HippoRAGDocumentIndex.from_models(llm=chat, embeddings=embeddings))
        run = Run(memory, is_async)
        texts = of("a", "eins", "zwei", "drei")
        with pytest.raises(IndexingError):
            await run(texts, cleanup="incremental")
        assert run.texts() == []
        assert run.records.list_keys() == []
        broken[0] = False
        assert await run(texts, cleanup="incremental") == (3, 0, 0, 0)
        assert run.texts() == ["drei", "eins", "zwei"]


async def test_an_upsert_cannot_be_told_to_skip_failures(run):
    with pytest.raises(TypeError, match="on_error"):
        await run(of("a", "one"), upsert_kwargs={"on_error": "skip"})
    assert run.texts() == []


async def test_an_upsert_takes_callbacks(run, tracer):
    await run(of("a", "one"), upsert_kwargs={"callbacks": [tracer]})
    assert [root.run_type for root in tracer.roots] == ["llm", "llm"]


async def test_a_blank_document_does_not_stop_a_run(run):
    assert await run(of("a", "one", " "), cleanup="full") == (2, 0, 0, 0)
    assert run.texts() == ["one"]
    assert await run(of("a", "one"), cleanup="full") == (0, 0, 1, 1)


async def test_delete_needs_ids(index):
    with pytest.raises(InputError):
        index.delete()
    with pytest.raises(InputError):
        await index.adelete()
    assert index.delete([])["num_deleted"] == 0


async def test_get_gives_documents_as_they_were_upserted(index):
    nested = Document("one", id="a", metadata={"tags": ["x", {"y": None}], "n": 1.5})
    assert index.upsert([nested]) == {"succeeded": ["a"], "failed": []}
    assert index.get(["ghost", "a"]) == [nested]
    assert await index.aget(["a", "ghost"]) == [nested]


def test_a_document_that_was_read_in_part_is_not_taken_for_done():
    cut = Completion('{"triples": [["Ada", "wrote", "notes"], ["Ada', finish_reason="length")
    entities, whole = '{"named_entities": ["Ada"]}', '{"triples": [["Ada", "wrote", "notes"]]}'
    memory = HippoRAGDocumentIndex.from_models(
        embeddings=HashEmbedder(), llm=ScriptedChatModel([entities, cut, whole])
    )
    records = InMemoryRecordManager(namespace="n")
    records.create_schema()
    documents = [Document("Ada wrote notes.", metadata={"source": "s"})]
    with pytest.raises(IndexingError, match="in full"):
        index(documents, records, memory, key_encoder="sha256")
    assert index(documents, records, memory, key_encoder="sha256")["num_added"] == 1
    assert memory.hippo.stats().by_status == {"ok": 1}
