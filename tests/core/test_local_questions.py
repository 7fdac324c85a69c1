"""SpacyOpenIE names what a question is about, and so asks HippoRAG without a chat model."""

from __future__ import annotations

import pytest

from hippo_core import HippoConfig, HippoRAG, Passage, RetrievalPath
from hippo_core.testing import HashEmbedder

spacy = pytest.importorskip("spacy", reason="spaCy is missing: pip install 'hippo-core[local]'")

from hippo_core.local import SpacyOpenIE  # noqa: E402
from hippo_core.local.spacy_openie import MODELS  # noqa: E402

if not any(spacy.util.is_package(name) for name in MODELS):
    pytest.skip(
        "spaCy's English model is missing: pip install 'hippo-core[local]'", allow_module_level=True
    )

READER = SpacyOpenIE()  # loading takes a second; nothing changes it


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Where was Marie Curie born?", {"Marie Curie"}),
        ("Which river flows through Prague and Dresden?", {"Prague", "Dresden"}),
        ('Who wrote the song "Where Are We Now"?', {"Where Are We Now"}),
        ("When was the University of Göttingen founded?", {"University of Göttingen"}),
        ("what is person-centered therapy?", {"person-centered therapy"}),
    ],
)
def test_query_entities_are_its_names_else_its_phrases(query: str, expected: set[str]) -> None:
    assert expected <= set(READER.query_entities(query))


def test_an_empty_query_has_no_entities() -> None:
    assert READER.query_entities("") == ()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("where was marie curie born?", "marie curie"),
        ("who founded the university of göttingen?", "university of göttingen"),
        ("when did horace silver move to new york city?", "horace silver"),
    ],
)
def test_names_in_lower_case_are_found_as_phrases(query: str, expected: str) -> None:
    found = [name.casefold() for name in READER.query_entities(query)]
    assert any(expected in name or name in expected for name in found), found


def test_what_is_asked_for_is_no_entity_beside_something_more_telling() -> None:
    assert READER.query_entities("Which city has monster trucks?") == ("monster trucks",)
    assert READER.query_entities("Where are Gila monsters found?") == ("Gila monsters",)


def test_hipporag_finds_the_bridge_without_any_chat_model() -> None:
    passages = [
        Passage("Zora Quint\nZora Quint invented the tidal clock. She lived in Velmora.", id="a"),
        Passage("Velmora\nVelmora is a town in Osk. It was founded in 1402.", id="b"),
        Passage("Tarn\nTarn is a river in Brell. It was dammed in 1960.", id="c"),
    ]
    config = HippoConfig.hipporag()
    with HippoRAG(None, HashEmbedder(), config=config, openie=READER) as memory:
        memory.add(passages)
        for question in ("Where did Zora Quint live?", "where did zora quint live?"):
            found = memory.retrieve(question, k=2)
            assert found.path is RetrievalPath.GRAPH
            assert [hit.passage.id for hit in found] == ["a", "b"]
