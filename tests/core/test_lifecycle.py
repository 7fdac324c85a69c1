"""The lifecycle benchmark at a small size: it runs, and what must hold at any size holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "lifecycle.py"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
STALL = 100  # milliseconds: five times the goal


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    out = tmp_path_factory.mktemp("lifecycle") / "lifecycle.json"
    only = "inputs,size,insert,filter,growth,heartbeat"
    command = [sys.executable, str(SCRIPT), "--quick", "--only", only, "--out", str(out)]
    done = subprocess.run(
        command, env=ENV, timeout=300, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text()), json.loads(out.with_suffix(".meta.json").read_text())


def test_bad_inputs_are_typed_errors_and_change_nothing(figures):
    assert figures[0]["bad_inputs_tried"] >= 200
    assert figures[1]["inputs_problems"] == []


def test_a_query_never_stalls_the_event_loop(figures):
    assert figures[0]["heartbeat_worst_ms_100k"] < STALL


def test_each_figure_comes_with_the_machine_and_the_versions(figures):
    found, meta = figures
    assert found["bytes_per_passage"] > 0
    assert 0 < found["insert_one_fraction_10k"] < found["insert_and_first_query_fraction_10k"]
    assert found["add_one_by_one_growth"] > 0
    assert found["add_and_read_growth"] > 0
    assert {"filter_first_ms", "filter_repeat_ms"} <= set(found)
    for told in (found, meta):
        assert told["machine"]
        assert told["date"]
    assert {"numpy", "scipy", "SQLAlchemy", "hippo-core"} <= set(meta["versions"])
