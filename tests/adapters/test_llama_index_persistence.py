"""An index lasts: with LlamaIndex's files, in a folder of its own, in another process."""

import json
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import PrevNextNodePostprocessor
from llama_index.core.schema import Document, IndexNode, MetadataMode, TextNode

from hippo_core import EmbedderMismatchError, HippoRAG, NotAStoreError
from hippo_core.testing import HashEmbedder, TableOpenIE
from llama_index_hipporag import HippoRAGIndex

ROOT = Path(__file__).parents[2]


def found(index, question):
    return index.as_retriever(similarity_top_k=6).retrieve(question)


def letters():
    text = "".join(f"Letter {i} of Ada tells of the river and of hippos in it. " for i in range(6))
    return Document(id_="letters", text=text, metadata={"author": "Ada"})


@pytest.fixture
def split(models, closing):
    """An index in this process of a document in several nodes."""
    return closing(
        HippoRAGIndex.from_documents(
            [letters()],
            transformations=[SentenceSplitter(chunk_size=25, chunk_overlap=0)],
            **models,
        )
    )


def assert_same(index, split, question):
    nodes = list(split.docstore.docs.values())
    assert len(nodes) > 2
    assert found(index, question) == found(split, question)
    assert index.get_nodes([node.node_id for node in nodes]) == nodes
    assert index.docstore.docs == split.docstore.docs
    assert index.ref_doc_info == split.ref_doc_info
    assert index.docstore.get_document_hash("letters") == letters().hash
    assert index.refresh_ref_docs([letters()]) == [False]


def test_what_was_persisted_comes_back_whole(split, models, question, tmp_path, closing, core_chat):
    split.persist(tmp_path / "p")
    assert_same(closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)), split, question)
    split.persist(tmp_path / "p")  # again, over it
    assert not any("{" in call[-1].content[:1] for call in core_chat.calls)


def test_a_storage_context_takes_the_memory_along(split, models, question, tmp_path, closing):
    split.storage_context.persist(persist_dir=str(tmp_path / "p"))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "p"))
    memory = tmp_path / "p" / "hipporag"
    index = closing(load_index_from_storage(context, persist_directory=memory, **models))
    assert isinstance(index, HippoRAGIndex)
    assert_same(index, split, question)


def test_a_memory_alone_gives_everything_back(split, models, question, tmp_path, closing):
    split.hippo.backup(tmp_path / "m")
    index = closing(HippoRAGIndex(persist_directory=tmp_path / "m", **models))
    assert_same(index, split, question)
    index.update_ref_doc(Document(id_="letters", text="Burnt."))
    assert [passage.text for passage in index.hippo] == ["Burnt."]
    assert [node.text for node in index.docstore.docs.values()] == ["Burnt."]


async def test_loading_calls_no_model_and_needs_no_llm(
    split, words, tmp_path, closing, monkeypatch
):
    split.persist(tmp_path / "p")

    def refuse(*_args, **_kwargs):
        raise AssertionError("a model was called")

    monkeypatch.setattr(type(words), "_get_text_embedding", refuse)
    index = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", embed_model=words))
    assert len(index.docstore.docs) == len(split.docstore.docs)


def test_a_kept_memory_is_found_by_the_index_store(models, nodes, question, tmp_path, closing):
    kept = HippoRAGIndex(nodes, persist_directory=tmp_path / "m", **models)
    expected = found(kept, question)
    kept.storage_context.persist(persist_dir=str(tmp_path / "p"))
    assert not (tmp_path / "p" / "hipporag").exists()  # it lasts where it is
    kept.close()
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "p"))
    index = closing(load_index_from_storage(context, **models))
    assert found(index, question) == expected
    index.persist(tmp_path / "q")
    copy = closing(HippoRAGIndex.from_persist_dir(tmp_path / "q", **models))
    assert found(copy, question) == expected
    copy.persist(tmp_path / "q")  # which it is in


def test_how_nodes_are_read_is_kept(models, nodes, tmp_path, closing, core_chat):
    index = closing(HippoRAGIndex(extract_metadata_mode=MetadataMode.ALL, **models))
    index.persist(tmp_path / "p")
    loaded = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", **models))
    loaded.insert_nodes(nodes[:1])
    assert "year: 1876" in core_chat.calls[0][-1].content


def test_another_process_finds_the_same(split, question, tmp_path):
    split.persist(tmp_path / "p")
    code = """
import json, sys
from llama_index.core.embeddings import BaseEmbedding
from hippo_core.testing import HashEmbedder
from llama_index_hipporag import HippoRAGIndex

class LlamaWords(BaseEmbedding):
    model_name: str = "words"
    def _get_text_embedding(self, text):
        return HashEmbedder(name="words").embed([text], "passage")[0].tolist()
    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)
    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)

index = HippoRAGIndex.from_persist_dir(sys.argv[1], embed_model=LlamaWords())
found = index.as_retriever(similarity_top_k=6).retrieve(sys.argv[2])
print(json.dumps([(node.node_id, node.score, node.node.next_node is None) for node in found]))
index.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path / "p"), question],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    expected = [[n.node_id, n.score, n.node.next_node is None] for n in found(split, question)]
    assert json.loads(done.stdout) == expected


def test_neighbours_of_a_found_node_are_in_the_docstore(split, models, tmp_path, closing):
    split.hippo.backup(tmp_path / "m")
    index = closing(HippoRAGIndex(persist_directory=tmp_path / "m", **models))
    (first,) = index.as_retriever(similarity_top_k=1).retrieve("Letter 0 of Ada")
    around = PrevNextNodePostprocessor(docstore=index.docstore, num_nodes=1, mode="both")
    assert len(around.postprocess_nodes([first])) > 1


def test_a_passage_of_the_core_is_a_node_too(words, table, tmp_path, closing, models):
    with HippoRAG(None, HashEmbedder(), openie=TableOpenIE(table), store=tmp_path / "m") as memory:
        memory.add(list(table))
    index = closing(
        HippoRAGIndex(persist_directory=tmp_path / "m", llm=None, embed_model=HashEmbedder())
    )
    assert {node.text for node in index.docstore.docs.values()} == set(table)


def test_what_index_nodes_refer_to_comes_back_or_is_handed_in(models, tmp_path, closing, nodes):
    whole = TextNode(id_="whole", text="Whales sing, and so on for many pages.")
    other = closing(HippoRAGIndex([TextNode(id_="in", text="Cats purr loud.")], **models))
    to_node = IndexNode(text="Whales sing.", index_id="w", obj=whole)
    to_retriever = IndexNode(text="Cats purr.", index_id="c", obj=other.as_retriever())
    index = closing(HippoRAGIndex([to_node, to_retriever], **models))
    index.persist(tmp_path / "p")
    again = {"objects": [to_retriever], **models}
    loaded = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", **again))
    for asked in (index, loaded):
        retriever = asked.as_retriever(similarity_top_k=1)
        assert retriever.retrieve("Do whales sing?")[0].node_id == "whole"
        assert retriever.retrieve("Do cats purr?")[0].node_id == "in"


# -- what is not there -----------------------------------------------------------------------------


def test_loading_without_the_memory_is_an_error_that_says_the_way_out(split, models, tmp_path):
    split.persist(tmp_path / "p")
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "p"))
    with pytest.raises(NotAStoreError, match=r"from_persist_dir.*persist_directory="):
        load_index_from_storage(context, **models)
    for file in (tmp_path / "p" / "hipporag").iterdir():
        file.unlink()
    with pytest.raises(NotAStoreError):
        HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)
    (tmp_path / "p" / "hipporag").rmdir()
    with pytest.raises(NotAStoreError, match="from_persist_dir"):
        HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)


def test_a_kept_memory_that_moved_is_an_error(models, nodes, tmp_path, closing):
    kept = HippoRAGIndex(nodes, persist_directory=tmp_path / "m", **models)
    kept.storage_context.persist(persist_dir=str(tmp_path / "p"))
    kept.close()
    (tmp_path / "m").rename(tmp_path / "moved")
    with pytest.raises(NotAStoreError):
        HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)
    moved = {"persist_directory": tmp_path / "moved", **models}
    assert len(closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", **moved)).hippo) == 6


def test_a_folder_without_an_index_of_ours_is_an_error(models, words, nodes, tmp_path):
    with pytest.raises(NotAStoreError, match="no index was persisted"):
        HippoRAGIndex.from_persist_dir(tmp_path / "none", **models)
    VectorStoreIndex(nodes, embed_model=words).storage_context.persist(str(tmp_path / "p"))
    with pytest.raises(NotAStoreError, match="no index of ours"):
        HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)


def test_other_embeddings_are_refused(split, tmp_path, models):
    split.persist(tmp_path / "p")
    with pytest.raises(EmbedderMismatchError):
        HippoRAGIndex.from_persist_dir(tmp_path / "p", embed_model=HashEmbedder())


def test_it_shares_a_storage_context_with_another_index(models, words, nodes, tmp_path, closing):
    context = StorageContext.from_defaults()
    VectorStoreIndex(nodes, storage_context=context, embed_model=words)
    index = closing(HippoRAGIndex(nodes, storage_context=context, **models))
    context.persist(str(tmp_path / "p"))
    loaded = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", index.index_id, **models))
    assert len(loaded.hippo) == 6


@pytest.mark.parametrize("kept", [False, True])
def test_two_indexes_of_one_context_have_a_memory_each(kept, models, nodes, tmp_path, closing):
    context = StorageContext.from_defaults()
    halves = {"a": nodes[:2], "b": nodes[2:]}
    indexes = {}
    for name, half in halves.items():
        own = {"persist_directory": tmp_path / name} if kept else {}
        indexes[name] = closing(HippoRAGIndex(half, storage_context=context, **own, **models))
    for index in indexes.values():
        index.persist(tmp_path / "p")
    for name, half in halves.items():
        id_ = indexes[name].index_id
        loaded = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", id_, **models))
        assert {passage.id for passage in loaded.hippo} == {node.node_id for node in half}
    with pytest.raises(NotAStoreError, match="2 indexes.*index_id="):
        HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)


@pytest.mark.parametrize("kept", [False, True])
def test_a_folder_of_another_index_is_refused_and_left_as_it_was(
    kept, models, nodes, tmp_path, closing
):
    one = closing(HippoRAGIndex(nodes[:2], **models))
    one.persist(tmp_path / "p")
    own = {"persist_directory": tmp_path / "own"} if kept else {}
    other = closing(HippoRAGIndex(nodes[2:], **own, **models))
    with pytest.raises(NotAStoreError):
        other.persist(tmp_path / "p")
    loaded = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", **models))
    assert loaded.index_id == one.index_id
    assert set(loaded.docstore.docs) == {"bridge", "roebling"}


def test_what_was_deleted_does_not_come_back_with_the_docstore(models, nodes, tmp_path, closing):
    index = HippoRAGIndex(nodes, **models)
    index.persist(tmp_path / "p")
    index.close()
    loaded = HippoRAGIndex.from_persist_dir(tmp_path / "p", **models)
    loaded.docstore.add_documents([TextNode(id_="parent", text="Not of the memory.")])
    loaded.persist(tmp_path / "p")
    loaded.delete_ref_doc("hippos.txt", delete_from_docstore=True)
    loaded.close()  # the memory is written at once, the docstore was not
    again = closing(HippoRAGIndex.from_persist_dir(tmp_path / "p", **models))
    assert set(again.docstore.docs) == {"parent", *(n.node_id for n in nodes)} - {"hippos"}
    again.persist(tmp_path / "p")
    assert "Hippos swim" not in (tmp_path / "p" / "docstore.json").read_text("utf-8")


def test_a_docstore_is_cleaned_of_what_the_memory_no_longer_has(llama):
    llama.delete_ref_doc("hippos.txt")
    assert "hippos" in llama.docstore.docs  # as LlamaIndex's own indices do
    llama.delete_ref_doc("hippos.txt", delete_from_docstore=True)
    assert "hippos" not in llama.docstore.docs
    llama.delete_nodes(["tower"])
    llama.delete_nodes(["tower"], delete_from_docstore=True)
    assert "tower" not in llama.docstore.docs


def test_a_context_can_be_a_dict_and_outlives_a_closed_index(models, nodes, tmp_path):
    context = StorageContext.from_defaults()
    index = HippoRAGIndex(nodes, storage_context=context, **models)
    assert "docstore" in context.to_dict() or context.to_dict()
    index.close()
    context.persist(str(tmp_path / "p"))
    assert not (tmp_path / "p" / "hipporag").exists()


def test_a_memory_that_no_remote_file_system_can_hold_is_warned_of(split):
    with pytest.warns(UserWarning, match="without the index's memory"):
        split.storage_context.persist("p", fs=fsspec.filesystem("memory"))


def test_no_url_of_a_database_is_kept(split, models):
    url = "postgresql://ada:hunter2@server/db"
    index = HippoRAGIndex(hippo=split.hippo, persist_directory=url, **models)
    assert index.index_struct.folder == ""
    assert "hunter2" not in str(index.storage_context.index_store.to_dict())
