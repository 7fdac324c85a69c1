"""The tables of docs/quality.md are those of the published results."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="a source distribution has no docs")
def test_the_quality_page_shows_the_published_results():
    command = [sys.executable, str(ROOT / "benchmarks" / "ablations_tables.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0
