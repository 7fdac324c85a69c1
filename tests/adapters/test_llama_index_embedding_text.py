"""Nodes are embedded with the metadata that they let be, and read without."""

import pytest
from llama_index.core.schema import MetadataMode

from llama_index_hipporag import HippoRAGIndex


@pytest.mark.parametrize("mode", [MetadataMode.EMBED, MetadataMode.NONE])
def test_a_node_is_embedded_as_its_metadata_mode_says(
    models, nodes, words, closing, mode, monkeypatch
):
    seen = []
    inner = type(words)._get_text_embedding
    monkeypatch.setattr(
        type(words),
        "_get_text_embedding",
        lambda self, text: seen.append(text) or inner(self, text),
    )
    nodes[0].excluded_embed_metadata_keys = ["year"]
    index = closing(HippoRAGIndex(nodes, embed_metadata_mode=mode, **models))
    assert {node.get_content(mode) for node in nodes} <= set(seen)
    assert index.get_nodes([node.node_id for node in nodes]) == nodes
