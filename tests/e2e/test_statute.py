"""What the statute example claims, with real local parts, on data fixed before the first run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hippo_core import Edge

STATUTE = Path(__file__).parents[2] / "examples" / "statute.py"

pytest.importorskip("spacy", reason="needs hippo-core[local]")
pytest.importorskip("onnxruntime", reason="needs hippo-core[local]")


@pytest.fixture(scope="module")
def statute() -> ModuleType:
    spec = importlib.util.spec_from_file_location("statute", STATUTE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["statute"] = module
    spec.loader.exec_module(module)
    return module


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.casefold()) if len(word) > 4}


def test_the_article_with_the_answer_shares_no_longer_word_with_its_question(
    statute: ModuleType,
) -> None:
    for question in statute.QUESTIONS:
        cited, citing = statute.ARTICLES[question.answer_in], statute.ARTICLES[question.asks_of]
        assert not words(" ".join(cited)) & words(question.text)
        assert len(words(" ".join(citing)) & words(question.text)) >= 2
        number = question.answer_in.removeprefix("art-")
        assert f"Article {number}" in citing[1]
        assert number not in " ".join(cited)


def test_the_edges_find_cited_articles_that_openie_alone_does_not(statute: ModuleType) -> None:
    n = len(statute.QUESTIONS)
    found: dict[bool, int] = {}
    with statute.build() as memory:
        assert memory.stats().user_edges == n
        assert memory.stats().pending_edges == 0
        for edges in (False, True):
            found[edges] = 0
            for question in statute.QUESTIONS:
                hits = statute.search(memory, question, edges=edges).passages
                assert len(hits) == statute.K
                citation = Edge(question.asks_of, to_passage=question.answer_in, weight=5.0)
                for hit in hits:
                    if hit.passage.id == question.answer_in:
                        found[edges] += 1
                        assert hit.edges == ((citation,) if edges else ())
    assert found[False] < n / 2, found
    assert found[True] >= n - 1, found


def test_the_example_prints_what_was_found_and_by_which_edge() -> None:
    done = subprocess.run(
        [sys.executable, str(STATUTE)], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    for how in ("without", "with"):
        assert done.stdout.count(f"  {how} citations: art-") == 7
    assert re.search(r"found by art-13 -> art-28: The treasurer", done.stdout)
    without, with_ = re.findall(r"in the first 3: (\d) of 7", done.stdout)
    assert int(without) < int(with_)
