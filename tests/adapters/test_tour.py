"""The notebook is kept without outputs; its code runs as one program, inside of an event loop."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "examples" / "tour.ipynb").read_text("utf-8"))
CELLS = NOTEBOOK["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]

# As Jupyter does: cells may await, and the others run where a loop already does.
RUN = """
import ast, asyncio, pathlib, sys
source = pathlib.Path(sys.argv[1]).read_text("utf-8")
code = compile(source, sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
asyncio.run(eval(code))
"""


def test_the_notebook_is_kept_without_outputs():
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CODE)
    assert all(cell["metadata"] == {} for cell in CELLS)
    assert NOTEBOOK["metadata"]["kernelspec"]["name"] == "python3"
    assert set(NOTEBOOK["metadata"]["language_info"]) == {"name"}  # no one's version of Python


def test_the_code_of_the_notebook_runs_and_finds_the_chain(tmp_path):
    program, folder = tmp_path / "tour.py", tmp_path / "elsewhere"
    program.write_text("\n".join("".join(cell["source"]) for cell in CODE), "utf-8")
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(program)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "graph:      ['brooklyn', 'roebling', 'mühlhausen']" in done.stdout
    assert done.stdout.endswith("The Unstrut. ['brooklyn', 'roebling', 'mühlhausen']\n")
    assert list(folder.iterdir()) == []
