"""The tables of docs/quality.md are those of the published results."""

import subprocess
import sys
from pathlib import Path

TABLES = Path(__file__).parents[2] / "benchmarks" / "ablations_tables.py"


def test_the_quality_page_shows_the_published_results():
    assert subprocess.run([sys.executable, str(TABLES), "--check"], check=False).returncode == 0
