"""The page on evaluation: its code runs on the files that it shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "evaluation.md"
PAGE = FILE.read_text("utf-8") if FILE.exists() else ""

pytestmark = pytest.mark.skipif(not PAGE, reason="a source distribution has no docs")


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"^`(\S+\.jsonl)`\n```json\n(.*?)^```$", PAGE, re.M | re.S):
        (tmp_path / name).write_text(text, encoding="utf-8")
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(compile(code, str(FILE), "exec"), names)  # noqa: S102 - our own page
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
