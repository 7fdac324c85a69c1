"""One small corpus, and what the core's doubles read in it: no framework is needed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hippo_core import Extraction, Triple
from hippo_core.testing import ScriptedChatModel, TableChatModel

CORPUS = {
    "bridge": (
        "The Brooklyn Bridge was designed by John Roebling.",
        Triple("Brooklyn Bridge", "was designed by", "John Roebling"),
    ),
    "roebling": (
        "John Roebling, an engineer, was born in Mühlhausen.",
        Triple("John Roebling", "was born in", "Mühlhausen"),
    ),
    "town": (
        "Through Mühlhausen, an old imperial city, flows the Unstrut, a river.",
        Triple("Unstrut", "flows through", "Mühlhausen"),
    ),
    "forth": (
        "The birthplace of the designer of the Forth Bridge is Frome.",
        Triple("Benjamin Baker", "comes from", "Frome"),
    ),
    "tower": (
        "Which designer of a bridge was asked for a tower? Gustave Eiffel.",
        Triple("Gustave Eiffel", "built", "a tower"),
    ),
    "hippos": ("Hippos swim in the Nile, a river.", Triple("Hippos", "swim in", "Nile")),
}
QUESTION = "Which river flows through the birthplace of the man who designed the Brooklyn Bridge?"


@pytest.fixture
def question() -> str:
    return QUESTION


@pytest.fixture
def table() -> dict[str, Extraction]:
    return {
        text: Extraction((triple.subject, triple.object), (triple,))
        for text, triple in CORPUS.values()
    }


@pytest.fixture
def core_chat(table: dict[str, Extraction]) -> ScriptedChatModel:
    """Read the corpus as the table says, nothing in other texts, and keep two linked triples."""
    otherwise = '{"named_entities": [], "triples": [], "keep": [1, 2]}'
    return TableChatModel(table, keep=otherwise)


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """Close what is handed through when the test ends."""
    opened: list[Any] = []

    def remember(thing: Any) -> Any:
        opened.append(thing)
        return thing

    yield remember
    for thing in opened:
        thing.close()
