"""Whose models a LlamaIndex index uses: its own, the settings', or none."""

import sys

import pytest
from llama_index.core import Settings
from llama_index.core.schema import TextNode

from hippo_core import HippoConfig, HippoRAG, InputError, ModelRequiredError
from hippo_core.testing import HashEmbedder, TableOpenIE
from llama_index_hipporag import HippoRAGIndex, LlamaIndexEmbedder


def found(index, question):
    retriever = index.as_retriever(similarity_top_k=6)
    return [(node.node_id, node.score) for node in retriever.retrieve(question)]


@pytest.fixture
def unset(monkeypatch):
    """Neither models nor the packages of LlamaIndex's defaults."""
    monkeypatch.setattr(Settings, "_llm", None)
    monkeypatch.setattr(Settings, "_embed_model", None)
    monkeypatch.delenv("IS_TESTING", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("llama_index.llms.openai", "llama_index.embeddings.openai"):
        monkeypatch.setitem(sys.modules, name, None)


def test_models_of_the_settings_are_used(
    unset, llama_chat, words, nodes, llama, question, closing, core_chat
):
    Settings.llm, Settings.embed_model = llama_chat, words
    calls = len(core_chat.calls)
    index = closing(HippoRAGIndex(nodes))
    assert found(index, question) == found(llama, question)
    assert len(core_chat.calls) == calls + 12 + 2


def test_without_an_llm_nothing_is_judged_and_reading_says_what_to_do(
    unset, words, nodes, table, question, closing
):
    index = closing(HippoRAGIndex(embed_model=words))
    with pytest.raises(ModelRequiredError, match=r"llm=.*Settings\.llm.*openie="):
        index.insert_nodes(nodes)
    with pytest.raises(ModelRequiredError, match=r"llm="):
        index.estimate(nodes)
    index.insert_nodes(nodes, openie=TableOpenIE(table))
    rules = closing(HippoRAGIndex(nodes, embed_model=words, openie=TableOpenIE(table)))
    assert found(index, question) == found(rules, question)


async def test_an_llm_that_is_set_later_judges(
    unset, words, nodes, table, question, closing, llama_chat, core_chat
):
    index = closing(HippoRAGIndex(embed_model=words))
    index.insert_nodes(nodes, openie=TableOpenIE(table))
    found(index, question)
    Settings.llm = llama_chat
    assert not core_chat.calls
    await index.as_retriever().aretrieve(question)
    assert len(core_chat.calls) == 1


def test_without_an_embedding_model_the_error_says_what_to_do(unset, llama_chat):
    with pytest.raises(ModelRequiredError, match=r"embed_model=.*Settings\.embed_model"):
        HippoRAGIndex(llm=llama_chat)


@pytest.mark.parametrize("models", [{"llm": "gpt"}, {"embed_model": "local"}])
def test_only_models_are_taken(models, llama_chat, words):
    with pytest.raises(TypeError, match="must be a LlamaIndex"):
        HippoRAGIndex(**{"llm": llama_chat, "embed_model": words, **models})


def test_a_memory_that_is_there_may_be_indexed_and_stays_open(core_chat, words, nodes, question):
    with HippoRAG(core_chat, LlamaIndexEmbedder(words)) as memory:
        memory.add(["Whales sing."])
        index = HippoRAGIndex(nodes, hippo=memory)
        assert len(index.docstore.docs) == 7
        assert len(memory) == 7
        with pytest.raises(InputError):
            HippoRAGIndex([TextNode(text="x", metadata={"a": {1}})], hippo=memory)
        assert len(memory) == 7


def test_settings_of_the_memory_are_handed_on(nodes, table, words, closing, question):
    index = closing(
        HippoRAGIndex(
            nodes,
            embed_model=HashEmbedder(),
            openie=TableOpenIE(table),
            config=HippoConfig.dense(),
            namespace="letters",
        )
    )
    assert index.hippo.namespaces() == ["letters"]
    assert index.hippo.retrieve(question).path == "dense: as configured"
