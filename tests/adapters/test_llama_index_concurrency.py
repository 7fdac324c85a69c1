"""Many at once on one index: documents are replaced in turn, the docstore follows the memory."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    Document,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)

from hippo_core import HippoRAG, Message
from hippo_core.testing import TableOpenIE
from llama_index_hipporag import HippoRAGIndex, LlamaIndexChatModel, LlamaIndexEmbedder

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def many_switches():
    """Let threads take turns often, so that a race is met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def assert_the_docstore_is_as_the_memory(index):
    """The same nodes, under the same documents."""
    docstore = index.docstore
    assert {id_: docstore.get_document(id_) for id_ in docstore.docs} == {
        passage.id: index.get_nodes([passage.id])[0] for passage in index.hippo
    }
    infos = {id_: sorted(info.node_ids) for id_, info in docstore.get_all_ref_doc_info().items()}
    assert infos == {id_: info.node_ids for id_, info in index.ref_doc_info.items()}


# -- documents are replaced in turn ----------------------------------------------------------------


async def test_refreshes_at_once_of_the_same_documents_are_as_one_after_the_other(
    llama_empty, llama_documents, core_chat
):
    flags = await asyncio.gather(*(llama_empty.arefresh_ref_docs(llama_documents) for _ in "12345"))
    assert sorted(sum(one) for one in flags) == [0, 0, 0, 0, 6]
    assert len(llama_empty.hippo) == 6
    assert len(core_chat.calls) == 12
    assert_the_docstore_is_as_the_memory(llama_empty)


async def test_updates_at_once_of_one_document_leave_the_nodes_of_one(llama_empty):
    llama_empty._transformations = [SentenceSplitter(chunk_size=20, chunk_overlap=0)]
    texts = [f"Version {n} says that hippos swim in the Nile, all day. " * 3 for n in range(6)]
    versions = [Document(id_="d", text=text) for text in texts]
    await asyncio.gather(*(llama_empty.aupdate_ref_doc(version) for version in versions[:3]))
    in_threads(*(partial(llama_empty.update_ref_doc, version) for version in versions[3:]))
    words = {" ".join(passage.text.split()[:2]) for passage in llama_empty.hippo}
    assert len(words) == 1
    assert_the_docstore_is_as_the_memory(llama_empty)
    left = words.pop()
    (version,) = [v for v in versions if v.text.startswith(left)]
    assert llama_empty.docstore.get_document_hash("d") == version.hash
    assert llama_empty.refresh_ref_docs([version]) == [False]


async def test_other_documents_are_replaced_meanwhile(llama_empty, core_chat, llama_chat_of):
    waiting, go = asyncio.Event(), asyncio.Event()

    class Stalling(type(llama_chat_of(core_chat))):
        async def achat(self, messages, **kwargs):
            if any("slow" in message.content for message in messages):
                waiting.set()
                await go.wait()
            return await super().achat(messages, **kwargs)

    llama_empty.hippo._models.chat.llm.__class__ = Stalling
    slow = asyncio.create_task(llama_empty.aupdate_ref_doc(Document(id_="a", text="It is slow.")))
    await waiting.wait()
    behind = asyncio.create_task(llama_empty.aupdate_ref_doc(Document(id_="a", text="Fast.")))
    await llama_empty.aupdate_ref_doc(Document(id_="b", text="Hippos swim."))
    assert [passage.source_id for passage in llama_empty.hippo] == ["b"]
    assert not behind.done()
    go.set()
    await asyncio.gather(slow, behind)
    assert {p.source_id: p.text for p in llama_empty.hippo} == {"a": "Fast.", "b": "Hippos swim."}


async def test_whoever_is_cancelled_gives_up_the_turn(llama_empty, llama_documents):
    holding = llama_empty._turns.aat({"bridge.txt"})
    async with holding:
        task = asyncio.create_task(llama_empty.arefresh_ref_docs(llama_documents))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    task = asyncio.create_task(llama_empty.arefresh_ref_docs(llama_documents))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.wait_for(llama_empty.arefresh_ref_docs(llama_documents), 20)
    assert len(llama_empty.hippo) == 6


# -- the docstore ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_after_inserts_and_deletes_at_once_the_docstore_is_as_the_memory(
    models, nodes, closing, asynchronous
):
    for node in nodes:
        node.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="one document")}
    for _ in range(5):
        index = closing(HippoRAGIndex(**models))
        batches = [[nodes[n % 6], nodes[(n + 2) % 6]] for n in range(6)]
        gone = [nodes[n].node_id for n in (0, 1)]
        if asynchronous:
            await asyncio.gather(
                *(index.ainsert_nodes(batch) for batch in batches),
                *(index.adelete_nodes([id_], delete_from_docstore=True) for id_ in gone),
            )
        else:
            in_threads(
                *(partial(index.insert_nodes, batch) for batch in batches),
                *(partial(index.delete_nodes, [i], delete_from_docstore=True) for i in gone),
            )
        assert_the_docstore_is_as_the_memory(index)


async def test_one_node_inserted_with_many_texts_at_once_is_the_same_one_in_both(llama_empty):
    await asyncio.gather(
        *(llama_empty.ainsert_nodes([TextNode(id_="n", text=f"Version {n}.")]) for n in range(10))
    )
    assert_the_docstore_is_as_the_memory(llama_empty)


async def test_an_insert_that_is_cancelled_after_its_commit_is_in_the_docstore_too(
    llama_empty, llama_documents
):
    class Late(HippoRAG):
        async def aadd(self, *args, **options):
            report = await super().aadd(*args, **options)
            committed.set()
            await asyncio.sleep(60)
            return report

    committed = asyncio.Event()
    llama_empty.hippo.__class__ = Late
    task = asyncio.create_task(llama_empty.arefresh_ref_docs(llama_documents))
    await committed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(llama_empty.hippo) == 6
    assert_the_docstore_is_as_the_memory(llama_empty)
    llama_empty.hippo.__class__ = HippoRAG
    assert await llama_empty.arefresh_ref_docs(llama_documents) == [False] * 6


# -- the event loop --------------------------------------------------------------------------------


class Heart:
    """Beats every 10 ms on the running loop; counts how often it did while something slept."""

    def __init__(self):
        self.beats, self.while_asleep = 0, []

    async def __aenter__(self):
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *error):
        self._task.cancel()

    async def _beat(self):
        while True:
            await asyncio.sleep(0.01)
            self.beats += 1

    def sleep(self, seconds=0.4):
        before = self.beats
        time.sleep(seconds)
        self.while_asleep.append(self.beats - before)

    def assert_never_stopped(self):
        """Every sleep was worth 40 beats: a busy machine gives a fifth of them."""
        assert self.while_asleep
        assert min(self.while_asleep) >= 8


class SlowParser(SentenceSplitter):
    sleep: ClassVar[Any]

    def _parse_nodes(self, nodes, show_progress=False, **kwargs):
        type(self).sleep()
        return super()._parse_nodes(nodes, show_progress, **kwargs)


class SlowStep(TransformComponent):
    sleep: ClassVar[Any]

    def __call__(self, nodes, **kwargs):
        type(self).sleep()
        return nodes


@pytest.mark.parametrize("step", [SlowParser, SlowStep])
async def test_the_loop_beats_while_documents_are_parsed(
    words, step, llama_documents, closing, monkeypatch
):
    heart = Heart()
    monkeypatch.setattr(step, "sleep", heart.sleep, raising=False)
    options = {"openie": TableOpenIE(), "embed_model": words, "transformations": [step()]}
    async with heart:
        index = closing(await HippoRAGIndex.afrom_documents(llama_documents[:3], **options))
        await index.arefresh_ref_docs(llama_documents[:4])
    assert len(index.hippo) == 4
    heart.assert_never_stopped()


IN_A_FRESH_PROCESS = """
import asyncio, sys
from llama_index.core.schema import Document
from hippo_core.testing import HashEmbedder, TableOpenIE
from llama_index_hipporag import HippoRAGIndex

sys.setswitchinterval(1e-6)

async def make(n):
    documents = [Document(text=f"Text {n}. Another sentence of it.")]
    options = {"openie": TableOpenIE(), "embed_model": HashEmbedder()}
    return await HippoRAGIndex.afrom_documents(documents, **options)

async def main():
    indexes = await asyncio.gather(*(make(n) for n in range(8)))
    print([len(index.hippo) for index in indexes])

asyncio.run(main())
"""


def test_the_first_indexes_of_a_process_may_be_made_at_once():
    """LlamaIndex loads its tokenizers at their first use, and not two threads may."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.stdout == f"{[1] * 8}\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of threads, since 3.12
def test_a_forked_process_waits_for_no_turn_of_its_parent(llama, llama_documents):
    with llama._turns.at({"bridge.txt"}), llama._turns.docstore:
        child = os.fork()
        if child == 0:
            free = llama._turns.is_free({"bridge.txt"})
            os._exit(0 if free and llama._turns.docstore.acquire(blocking=False) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


async def test_a_transformation_that_is_async_is_awaited(words, llama_documents, closing):
    class Stamp(TransformComponent):
        def __call__(self, nodes, **kwargs):
            raise AssertionError("sync")

        async def acall(self, nodes, **kwargs):
            await asyncio.sleep(0)
            for node in nodes:
                node.metadata["stamped"] = True
            return nodes

    class Parser(SentenceSplitter):
        def _parse_nodes(self, nodes, show_progress=False, **kwargs):
            raise AssertionError("sync")

        async def _aparse_nodes(self, nodes, show_progress=False, **kwargs):
            await asyncio.sleep(0)
            return super()._parse_nodes(nodes, show_progress, **kwargs)

    index = closing(
        HippoRAGIndex(openie=TableOpenIE(), embed_model=words, transformations=[Stamp(), Parser()])
    )
    await index.ainsert(llama_documents[0].model_copy(deep=True))
    assert [passage.metadata["stamped"] for passage in index.hippo] == [True]


async def test_an_async_method_that_does_more_than_call_the_sync_one_is_awaited(
    words, core_chat, llama_chat_of
):
    asked = []

    class Words(type(words)):
        async def _aget_query_embedding(self, query):
            asked.append(query)
            return self._get_query_embedding(query)

    class Chat(type(llama_chat_of(core_chat))):
        async def achat(self, messages, **kwargs):
            asked.append(messages)
            return self.chat(messages)

    await LlamaIndexEmbedder(Words()).aembed(["a"], "query_to_passage")
    await LlamaIndexChatModel(Chat(core=core_chat)).acomplete([Message("user", "Hi?")])
    assert len(asked) == 2
