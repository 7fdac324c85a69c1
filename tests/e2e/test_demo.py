"""The demo's claim, with real local parts, on questions that were fixed before the first run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"

pytest.importorskip("spacy", reason="needs hippo-core[local]")
pytest.importorskip("onnxruntime", reason="needs hippo-core[local]")


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    return module


def test_the_graph_finds_all_needed_passages_for_30_percent_more_questions_than_dense(
    demo: ModuleType,
) -> None:
    retriever = demo.build()
    by_graph = by_dense = 0
    missed = []
    for question in demo.questions():
        by_dense += question.answered_by([h.passage.id for h in demo.dense(retriever, question)])
        ids = [str(document.id) for document in retriever.invoke(question.text)]
        by_graph += question.answered_by(ids)
        if not question.answered_by(ids):
            missed.append(question.text)
    assert len(demo.questions()) >= 20
    assert by_graph >= 1.3 * by_dense, f"dense {by_dense}, graph {by_graph}, missed: {missed}"


def test_no_question_is_answered_by_one_passage(demo: ModuleType) -> None:
    texts = {str(d.id): f"{d.metadata['title']} {d.page_content}" for d in demo.documents()}
    titles = {str(d.id): d.metadata["title"] for d in demo.documents()}
    for question in demo.questions():
        assert len(set(question.needs)) >= 2
        assert set(question.needs) <= set(texts)
        assert question.answer in texts[question.needs[-1]]
        for earlier, later in zip(question.needs, question.needs[1:], strict=False):
            title = titles[later]
            assert title in texts[earlier], "a passage names the next one"
            assert title not in question.text, "the question does not"


def test_the_demo_prints_both_rankings_the_triples_and_its_misses() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    asked = re.findall(r"^\d+\. .+\?$", done.stdout, flags=re.M)
    assert len(asked) == 26
    assert done.stdout.count("dense    ") >= 26
    assert re.search(r"Missed by hippo-core: \d+", done.stdout)
    assert (
        len(re.findall(r"brought up by\n      [\w-]+: .+ - .+ - .+$", done.stdout, flags=re.M))
        == 26
    )
