"""The page of what the adapters compose with: each row names tests that are there."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILE = HERE.parents[1] / "docs" / "compatibility.md"
PAGE = FILE.read_text("utf-8") if FILE.exists() else ""
FRAMEWORKS = {"LlamaIndex": "llama_index", "LangChain": "langchain"}
COMPONENTS = {
    "LlamaIndex": [
        "QueryFusionRetriever", "RouterQueryEngine", "SimilarityPostprocessor", "LLMRerank",
        "SubQuestionQueryEngine", "IngestionPipeline", "workflows",
    ],
    "LangChain": [
        "EnsembleRetriever", "MultiQueryRetriever", "ContextualCompressionRetriever",
        "RunnableParallel", "StateGraph",
    ],
}  # fmt: skip

pytestmark = pytest.mark.skipif(not PAGE, reason="a source distribution has no docs")


def section(name):
    (found,) = re.findall(rf"^## {name}$(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return found


def rows(name):
    """Give the cells of each row of a section's table."""
    table = [line for line in section(name).splitlines() if line.startswith("|")]
    head, rule, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert head == ["component", "what to know", "test"]
    assert {*rule} == {"---"}
    return body


def named(text):
    return re.findall(r"`(\w+)::(\w+)`", text)


def names_in(framework, name):
    path = HERE / f"test_{FRAMEWORKS[framework]}_{name}.py"
    tree = ast.parse(path.read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds)}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_row_names_tests_that_are_there(framework):
    for cells in rows(framework):
        assert len(cells) == 3, cells
        assert named(cells[-1]), f"{cells[0]} has no test"
    for file, test in named(section(framework)):
        assert test.lower().startswith("test")
        assert test in names_in(framework, file), f"{file}::{test} is not there"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_test_of_a_composition_is_in_the_table(framework):
    told = {test for _, test in named(section(framework))}
    files = {
        "LlamaIndex": ["composition", "postprocessors", "ingestion"],
        "LangChain": ["composition"],
    }
    for file in files[framework]:
        for test in names_in(framework, file):
            if test.startswith("test_"):
                assert test in told, f"{file}::{test} is in no row"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_users_reach_for_first_is_in_the_table(framework):
    components = " ".join(cells[0] for cells in rows(framework))
    for component in COMPONENTS[framework]:
        assert component in components
