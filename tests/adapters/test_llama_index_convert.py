"""A node becomes one passage, and the passage becomes the same node."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    TextNode,
)

from hippo_core import InputError, Passage
from llama_index_hipporag._convert import NODE, Reading, document_hash, to_node

DOCUMENT = Document(
    id_="letters",
    text="Ada wrote notes. " * 60,
    metadata={"author": "Ada", "year": 1843, "tags": ["a", {"b": None}]},
    excluded_embed_metadata_keys=["year"],
    excluded_llm_metadata_keys=["author"],
)


def passage_of(node, **reading):
    (passage,) = Reading(**reading).passages([node])
    return passage


def test_what_a_parser_makes_comes_back_whole():
    nodes = SentenceSplitter(chunk_size=80, chunk_overlap=5)([DOCUMENT])
    assert len(nodes) > 2
    assert nodes[1].prev_node.node_id == nodes[0].node_id
    for node in nodes:
        back = to_node(passage_of(node))
        assert back == node
        assert back.hash == node.hash
        assert back.get_content(MetadataMode.LLM) == node.get_content(MetadataMode.LLM)


@pytest.mark.parametrize(
    "node",
    [
        DOCUMENT,
        TextNode(text="x", text_template="<{content}>", metadata_separator="; ", start_char_idx=3),
        ImageNode(text="a picture", image_url="http://x/y.png"),
        IndexNode(text="see there", index_id="there"),
        IndexNode(text="a small part", index_id="whole", obj=TextNode(text="the whole")),
    ],
    ids=lambda node: type(node).__name__,
)
@pytest.mark.parametrize("mode", [MetadataMode.NONE, MetadataMode.ALL])
def test_every_kind_of_node_comes_back(node, mode):
    back = to_node(passage_of(node, extract=mode))
    assert type(back) is type(node)
    assert back == node


def test_a_node_is_read_without_its_metadata_and_embedded_with_those_it_lets_be():
    passage = passage_of(DOCUMENT)
    assert passage.text == DOCUMENT.text
    assert passage.embed_text == DOCUMENT.get_content(MetadataMode.EMBED)
    assert passage.embed_text.startswith("author: Ada\ntags: ")
    assert "year" not in passage.embed_text


def test_both_texts_may_be_chosen():
    passage = passage_of(DOCUMENT, extract=MetadataMode.LLM, embed=MetadataMode.NONE)
    assert passage.text == DOCUMENT.get_content(MetadataMode.LLM)
    assert passage.embed_text == DOCUMENT.text


def test_one_text_for_both_is_kept_once():
    assert passage_of(TextNode(text="x")).embed_text == ""


def test_a_passage_has_the_nodes_id_source_and_metadata():
    (node, *_) = SentenceSplitter()([DOCUMENT])
    passage = passage_of(node)
    assert (passage.id, passage.source_id) == (node.node_id, "letters")
    assert {key: passage.metadata[key] for key in node.metadata} == node.metadata
    assert passage_of(DOCUMENT).source_id == "letters"
    assert passage_of(TextNode(text="x")).source_id is None


def test_a_documents_hash_is_kept_with_its_nodes():
    (node,) = SentenceSplitter()([Document(id_="d", text="x")])
    (passage,) = Reading().passages([node], {"d": "its hash"})
    assert document_hash(passage) == "its hash"
    assert document_hash(passage_of(node)) is None


def test_a_node_is_not_changed():
    node = TextNode(text="x", metadata={"tags": ["a"]}, embedding=[1.0])
    before = node.model_copy(deep=True)
    back = to_node(passage_of(node))
    back.metadata["tags"].append("b")
    assert node == before
    assert back.embedding is None


def test_what_is_not_json_is_an_error_or_encoded():
    node = TextNode(text="x", metadata={"on": date(1843, 7, 10), "of": ["a"]})
    assert to_node(passage_of(node, encoder=str)).metadata == {"on": "1843-07-10", "of": ["a"]}


METADATA = st.dictionaries(
    st.text("abc", max_size=2),
    st.recursive(
        st.integers(0, 9) | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", max_size=2), inner),
        max_leaves=8,
    ),
)


@given(METADATA)
def test_metadata_come_back_in_their_order_from_a_store_that_sorts_them(metadata):
    node = TextNode(text="x", metadata=metadata)
    passage = passage_of(node)
    stored = json.loads(json.dumps(dict(passage.metadata), sort_keys=True))
    back = to_node(Passage(passage.text, id=passage.id, metadata=stored))
    assert str(back.metadata) == str(metadata)
    assert back.hash == node.hash


def test_the_order_of_sorted_keys_is_not_kept_and_new_keys_come_last():
    assert (
        "order" not in passage_of(TextNode(text="x", metadata={"a": 1, "b": [{}]})).metadata[NODE]
    )
    kept = dict(passage_of(TextNode(text="x", metadata={"c": 1, "b": [{"z": 0, "y": 0}]})).metadata)
    changed = {**kept, "b": [{"y": 0}, 2], "a": 3, "d": {}}
    del changed["c"]
    back = to_node(Passage("x", id="x", metadata=changed))
    assert list(back.metadata.items()) == [("b", [{"y": 0}, 2]), ("a", 3), ("d", {})]


@pytest.mark.parametrize("metadata", [{"b": 1, 2: 3}, {"b": {"y": {3: 1, "a": 2}}}, "itself"])
def test_metadata_that_are_no_json_are_named_by_the_memory(llama_empty, metadata):
    if metadata == "itself":
        metadata = {"b": 1}
        metadata["a"] = metadata
    node = TextNode(text="x").model_copy(update={"metadata": metadata})
    with pytest.raises(InputError, match="str keys|nested"):
        llama_empty.insert_nodes([node])


def test_metadata_of_related_nodes_need_not_be_json():
    (node,) = SentenceSplitter()([Document(text="x", metadata={"on": date(1843, 7, 10)})])
    source = to_node(passage_of(node, encoder=str)).relationships[NodeRelationship.SOURCE]
    assert source.metadata == {"on": "1843-07-10"}


def test_the_key_of_the_node_itself_is_taken():
    with pytest.raises(InputError, match="'_node'.*rename it"):
        passage_of(TextNode(text="x", metadata={"_node": 1}))


def test_only_nodes_are_taken():
    with pytest.raises(TypeError, match="list of BaseNode, got str"):
        passage_of("x")


def test_a_passage_of_another_kind_becomes_a_text_node():
    node = to_node(Passage("Ada.", id="a", source_id="s.txt", metadata={"year": 1}))
    assert (node.node_id, node.text, node.ref_doc_id) == ("a", "Ada.", "s.txt")
    assert node.metadata == {"year": 1}
