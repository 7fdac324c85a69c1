"""The examples run, offline and in another folder, and find the chain of passages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("example", ["hipporag_core.py", "langchain_rag.py", "llama_index_rag.py"])
def test_an_example_runs(example, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HIPPO_")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "The Unstrut." in done.stdout
    ranked = [line for line in done.stdout.splitlines() if line[:2] in ("1.", "2.", "3.")]
    assert len(ranked) == 3
    assert any("Roebling, an engineer" in line for line in ranked)
    assert list(tmp_path.iterdir()) == []
