"""The examples run, offline and in another folder, and find the chain of passages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def said_by(folder, *arguments):
    """Run Python in a folder, where it leaves nothing, and give what it prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HIPPO_")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout


@pytest.mark.parametrize("example", ["hipporag_core.py", "langchain_rag.py", "llama_index_rag.py"])
def test_an_example_runs(example, tmp_path):
    said = said_by(tmp_path, str(ROOT / "examples" / example))
    assert "The Unstrut." in said
    ranked = [line for line in said.splitlines() if line[:2] in ("1.", "2.", "3.")]
    assert len(ranked) == 3
    assert any("Roebling, an engineer" in line for line in ranked)


# -- agents ----------------------------------------------------------------------------------------

LOOKUP = str(ROOT / "examples" / "agent_lookup.py")
QUIET = ("-W", "ignore::DeprecationWarning")  # LlamaIndex's agents use what its parts deprecate
CHAIN = ["bridge", "roebling", "town"]


def told(part, framework):
    """The ids of what the framework's agent was told, where it answered rightly."""
    assert part.startswith(f"{framework}: The Unstrut.\n")
    return re.findall(r"^\d\. \[(\w+)\]", part, flags=re.M)


def test_agents_of_both_frameworks_look_things_up(tmp_path):
    _, langchain, llama_index = said_by(tmp_path, *QUIET, LOOKUP).split("\n\n")
    assert told(langchain, "LangChain") == told(llama_index, "LlamaIndex") == CHAIN


@pytest.mark.parametrize(
    ("absent", "lacking", "present"),
    [("langchain", "LangChain", "LlamaIndex"), ("llama_index", "LlamaIndex", "LangChain")],
)
def test_the_agent_of_the_one_framework_that_is_installed_runs(absent, lacking, present, tmp_path):
    # None in sys.modules makes an import fail, as if the package were not there.
    code = f"import runpy, sys; sys.modules[{absent!r}] = None; runpy.run_path({LOOKUP!r})"
    _, *parts = said_by(tmp_path, *QUIET, "-c", code).split("\n\n")
    (said,) = [part for part in parts if part.startswith(present)]
    (unsaid,) = [part for part in parts if part.startswith(lacking)]
    assert told(said, present) == CHAIN
    assert unsaid.startswith(f"{lacking}: not run, ")
    assert absent in unsaid
