"""The tables of the pages on quality are those of the published results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").is_dir(), reason="a source distribution has no docs"
)


@pytest.mark.parametrize("tables", ["ablations_tables.py", "local_tables.py"])
def test_the_page_shows_the_published_results(tables):
    command = [sys.executable, str(ROOT / "benchmarks" / tables), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


def test_the_page_on_local_extraction_has_no_figure_beside_its_tables():
    page = (ROOT / "docs" / "local-extraction.md").read_text(encoding="utf-8")
    prose = re.sub(r"<!-- table .*?<!-- end of .*? -->", "", page, flags=re.DOTALL)
    prose = re.sub(r"`[^`]*`|R@\d+|AR@\d+|F1|GPT-3\.5|HippoRAG 2|int8|fp32|MiniLM-L6-v2", "", prose)
    assert not re.findall(r"\d+\.\d+|\d+ ?%|(?<!\d)\d{3}(?!\d)|\d{5,}", prose)  # years may stand
