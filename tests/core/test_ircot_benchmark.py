"""The benchmark of IRCoT: its script reads what it is shown and no more; its ratios are true."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hippo_core import Passage, Prompts

pytest.importorskip("spacy", reason="needs hippo-core[local]")
pytest.importorskip("onnxruntime", reason="needs hippo-core[local]")

FOLDER = Path(__file__).parents[2] / "benchmarks"

PASSAGES = [
    Passage("Ada met William. She liked tea.", id="ada", title="Ada"),
    Passage("William is old. He lives in Ockham.", id="william", title="William"),
    Passage("Hippos swim. They met nobody.", id="hippos", title="Hippos"),
]


@pytest.fixture
def benchmark_module(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import ircot

    yield ircot
    del sys.modules["ircot"]


def test_the_script_quotes_only_what_it_is_shown(benchmark_module):
    question = benchmark_module.Question("Where is it?", "Ockham", ("ada", "william"))
    script = benchmark_module.Script(PASSAGES, [question])
    by_id = {passage.id: (passage.title, passage.text) for passage in PASSAGES}

    def thought(ids, thoughts=()):
        shown = [by_id[id_] for id_ in ids]
        return script.complete(Prompts().thought(question.text, shown, list(thoughts))).text

    first = thought(["hippos", "ada"])
    assert first == "Ada: Ada met William."
    then = thought(["hippos", "ada"], [first])
    assert then.startswith("Hippos: ")
    assert thought(["hippos", "ada"], [first, then]) == "Answer: Ockham"
    assert thought(["william", "ada"]) == "Answer: Ockham"


@pytest.mark.slow
def test_the_benchmark_runs_and_its_ratios_are_those_of_its_rows(tmp_path):
    out = tmp_path / "ircot.json"
    command = [sys.executable, "-W", "error", str(FOLDER / "ircot.py"), "--out", str(out)]
    command += ["--questions", "2", "--latency", "0"]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        command, env=env, timeout=300, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text("utf-8"))
    single = {(r["set"], r["system"]): r for r in rows if r["max_steps"] == 1}
    steps = [r for r in rows if r["max_steps"] > 1]
    assert len(steps) == len(single) == 8
    for row in steps:
        own = single[row["set"], row["system"]]
        assert row["retrievals"] >= own["retrievals"] == 1
        assert row["chat_calls"] >= own["chat_calls"]
        ratio = row["to_one_step"]["chat_calls"]
        assert (ratio is None) == (row["system"] == "dense")
        if ratio is not None:
            assert ratio == pytest.approx(row["chat_calls"] / own["chat_calls"], abs=0.2)
    assert json.loads(out.with_suffix(".meta.json").read_text("utf-8"))["max_steps"] == 4
