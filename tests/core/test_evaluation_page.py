"""The pages on evaluation: their code runs, on the files that they show or on made-up ones."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import hippo_core.local
from hippo_core.testing import HashEmbedder, ScriptedChatModel

pytest.importorskip("spacy", reason="spaCy is missing: pip install 'hippo-core[local]'")

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "evaluation.md"
PAGE = FILE.read_text("utf-8") if FILE.exists() else ""
PAPERS = ROOT / "docs" / "reproduce.md"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)

pytestmark = pytest.mark.skipif(not PAGE, reason="a source distribution has no docs")


def run(file):
    """Run a page's code, and give the names that it leaves."""
    names = {}
    for code in PYTHON.findall(file.read_text("utf-8")):
        exec(compile(code, str(file), "exec"), names)  # noqa: S102 - our own page
    return names


def reply(messages):
    """Answer every prompt in the shape that it asks for."""
    task = messages[0].content
    if '"named_entities"' in task:
        return '{"named_entities": ["Ghent"]}'
    if '"triples"' in task:
        return '{"triples": [["Ghent", "lies on", "the Lys"]]}'
    return '{"keep": [1]}' if '"keep"' in task else "Answer: the Lys"


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"^`(\S+\.jsonl)`\n```json\n(.*?)^```$", PAGE, re.M | re.S):
        (tmp_path / name).write_text(text, encoding="utf-8")
    names = run(FILE)
    comparison, more = names["comparison"], names["more"]
    assert not comparison.failures()
    assert not more.failures()
    assert comparison.mean("default", "recall@2") == 100
    assert comparison.mean("BM25", "recall@1") == 75
    assert (
        "| dense |" not in capsys.readouterr().out.partition("R@2 - dense")[2].partition("hop")[0]
    )
    written = ["by_hops.png", "comparison.json", "cost.png", "qrels.txt", "recall_by_k.svg"]
    assert {*written, "run.txt", "table.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_the_code_for_the_papers_tables_runs_with_stand_ins_for_the_models(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    corpus = [
        {"title": "Ghent", "text": "Ghent lies on the Lys."},
        {"title": "Osk", "text": "Osk."},
    ]
    gold = {"title": "Ghent", "paragraph_text": "Ghent lies on the Lys.", "is_supporting": True}
    row = {"id": "2hop__1", "question": "On what does Ghent lie?", "answer": ["the Lys"]}
    Path("musique_corpus.json").write_text(json.dumps(corpus))
    Path("musique.json").write_text(json.dumps([{**row, "paragraphs": [gold]}]))
    for name, double in (
        ("langchain_openai", SimpleNamespace(ChatOpenAI=lambda **_options: None)),
        (
            "langchain_hipporag",
            SimpleNamespace(LangChainChatModel=lambda _model: ScriptedChatModel(reply)),
        ),
    ):
        monkeypatch.setitem(sys.modules, name, double)
    monkeypatch.setitem(
        vars(hippo_core.local),
        "SentenceTransformerEmbedder",
        lambda _name, device: HashEmbedder(name=device),
    )
    comparison = run(PAPERS)["comparison"]
    assert not comparison.failures()
    assert comparison.mean("HippoRAG 2", "F1") == 100
    assert re.search(r"cost +│|cost per", capsys.readouterr().out)


def test_the_page_on_the_papers_is_short_enough_to_be_read():
    assert len(PAPERS.read_text("utf-8").splitlines()) < 130
