"""What may import what, and what the package promises about itself."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

import hippo_core

ROOT = Path(__file__).parents[2]
CORE = "hippo_core"
FRAMEWORKS = {"langchain_hipporag": "langchain_core", "llama_index_hipporag": "llama_index"}
ADAPTERS = list(FRAMEWORKS)
IMPORTABLE = [CORE, *(name for name in ADAPTERS if find_spec(FRAMEWORKS[name]) is not None)]

# A module imports only what stands before it. `local` and `evaluation` are folders; each counts as
# one.
LAYERS = {
    "L0": ["errors", "text"],
    "L1 values and ports": [
        "costs",
        "explanations",
        "types",
        "iterations",
        "answers",
        "config",
        "ports",
    ],
    "L2 pure functions, and the drivers of flows": [
        "pagerank",
        "similarity",
        "where",
        "edge_finders",
        "splitting",
        "control_tokens",
        "prompt_texts",
        "prompts",
        "_json_scan",
        "_reply_lists",
        "parsing",
        "tokens",
        "accounts",
        "streaming",
        "flows",
        "calls",
        "sdk_errors",
        "retries",
        "limiter",
        "timeouts",
        "paid",
        "drivers",
    ],
    "L3 parts": [
        "openie",
        "pieces",
        "showing",
        "recognition",
        "contributions",
        "keys",
        "segments",
        "vectors",
        "synonyms",
        "user_edges",
        "corpus",
        "corpus_checks",
        "corpus_files",
        "derived",
        "columns",
        "curation",
        "graph",
        "anchors",
        "linking",
        "seeding",
        "snapshot",
        "tables",
        "rows",
        "records",
        "writer",
        "faults",
        "forks",
        "engines",
        "migrations",
        "locations",
        "copying",
        "store",
        "embedding",
    ],
    "L4 the two paths over one state": [
        "inputs",
        "edge_inputs",
        "index",
        "planning",
        "extracting",
        "committing",
        "estimation",
        "reporting",
        "indexing",
        "reembedding",
        "verification",
        "explaining",
        "retrieval",
        "reading",
        "ircot",
        "streams",
    ],
    "L5": [
        "handle",
        "preparing",
        "filling",
        "asking",
        "hipporag",
        "evaluation",
        "local",
        "testing",
        "cli",
    ],
}
ORDER = [module for layer in LAYERS.values() for module in layer]

# The package root imports what is public; these are imported by name, by whoever wants them.
NOT_IN_THE_ROOT = {"testing", "local", "cli", "evaluation"}

OPTIONAL = {
    "bm25s",
    "igraph",
    "json_repair",
    "langchain_core",
    "llama_index",
    "matplotlib",
    "networkx",
    "onnxruntime",
    "psycopg",
    "pydantic",
    "ranx",
    "rich",
    "sentence_transformers",
    "spacy",
    "tenacity",
    "tiktoken",
    "tokenizers",
    "torch",
}


def files_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place(module: str) -> str:
    """Give the entry of the table that `hippo_core.X.Y` belongs to: X, or "" for the root."""
    return module.removeprefix(CORE).lstrip(".").partition(".")[0]


def imports(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give each imported module with the names taken from it, wherever the import stands."""
    package = dotted(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = tuple(alias.name for alias in node.names)
            yield ".".join([*base, *([node.module] if node.module else [])]), names


def core_imports(path: Path) -> Iterator[str]:
    """Give the modules of the core that a file imports, `from hippo_core import x` included."""
    for module, names in imports(path):
        if module == CORE:
            for name in names or ("",):
                is_module = any((ROOT / CORE / f"{name}{end}").exists() for end in (".py", ""))
                yield f"{CORE}.{name}" if name and is_module else CORE
        elif module.startswith(f"{CORE}."):
            yield module


CORE_FILES = files_of(CORE)
ADAPTER_FILES = [path for package in ADAPTERS for path in files_of(package)]


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


# -- layers ----------------------------------------------------------------------------------------


def test_every_module_has_a_place_in_the_table() -> None:
    unknown = {place(dotted(path)) for path in CORE_FILES} - {"", *ORDER}
    assert not unknown, f"place it in the table of {Path(__file__).name}: {sorted(unknown)}"


def test_the_table_names_each_module_once() -> None:
    assert len(ORDER) == len(set(ORDER))


@pytest.mark.parametrize("path", CORE_FILES, ids=ids(CORE_FILES))
def test_a_module_imports_only_what_stands_above_it(path: Path) -> None:
    own = place(dotted(path))
    if own == "":
        allowed = set(ORDER) - NOT_IN_THE_ROOT
    else:
        assert own in ORDER, f"place it in the table: {own}"
        allowed = set(ORDER[: ORDER.index(own)]) | ({own} if path.parent.name != CORE else set())
    for module in core_imports(path):
        assert module != CORE, "import from the module itself, not from the package root"
        assert place(module) in allowed, f"{own or CORE} may not import {place(module)}"


def test_no_module_imports_itself_in_a_circle() -> None:
    known = {dotted(path) for path in CORE_FILES}
    edges = {dotted(path): set(core_imports(path)) & known for path in CORE_FILES}
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError with the circle


# -- imports ---------------------------------------------------------------------------------------


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["hippo_core", "hippo_core.evaluation"])
def test_importing_the_core_loads_nothing_optional(module: str) -> None:
    loaded = in_a_fresh_process(f"import sys, {module}; print(*sys.modules)").split()
    assert not {module.partition(".")[0] for module in loaded} & OPTIONAL


def test_the_core_imports_where_nothing_optional_is_installed() -> None:
    # None in sys.modules makes an import fail, as if the package were not there.
    in_a_fresh_process(
        f"import sys; sys.modules.update(dict.fromkeys({sorted(OPTIONAL)!r})); import hippo_core"
    )


@pytest.mark.parametrize("package", IMPORTABLE[1:])
def test_an_adapter_loads_no_model_library_and_no_other_framework(package: str) -> None:
    foreign = {*FRAMEWORKS.values(), "torch", "spacy", "onnxruntime"} - {FRAMEWORKS[package]}
    loaded = in_a_fresh_process(f"import sys, {package}; print(*sys.modules)").split()
    assert not {module.partition(".")[0] for module in loaded} & foreign


@pytest.mark.parametrize("package", IMPORTABLE)
def test_importing_asks_the_network_for_nothing_and_warns_of_nothing(package: str) -> None:
    in_a_fresh_process(f"""
import sys, warnings

def refuse(event, _arguments):
    assert event not in ("socket.connect", "socket.getaddrinfo"), event

sys.addaudithook(refuse)
warnings.simplefilter("error")
import {package}
""")


# -- adapters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ADAPTER_FILES, ids=ids(ADAPTER_FILES))
def test_an_adapter_imports_only_public_names_of_the_core(path: Path) -> None:
    for module, names in imports(path):
        top = module.partition(".")[0]
        assert top not in set(ADAPTERS) - {dotted(path).partition(".")[0]}, "not each other"
        if top == CORE:
            assert module == CORE, f"from hippo_core import ..., not from {module}"
            assert names, "from hippo_core import NAME, so that this test can see it"
            assert set(names) <= set(hippo_core.__all__)


# -- public names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("package", IMPORTABLE)
def test_all_is_sorted_and_names_what_is_public(package: str) -> None:
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)
    from_future = importlib.import_module("__future__").annotations
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
        if value is not from_future
    }
    assert public <= set(module.__all__)


@pytest.mark.parametrize("package", IMPORTABLE)
def test_a_package_ships_its_types(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


# -- metadata --------------------------------------------------------------------------------------

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = {"": PROJECT["dependencies"], **EXTRAS}
MAY_PIN = {"test-langchain", "bench", "e2e"}


@pytest.mark.parametrize("extra", DECLARED)
def test_a_dependency_is_a_range(extra: str) -> None:
    for line in DECLARED[extra]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:
            assert requirement.extras <= set(EXTRAS)
            continue
        operators = {specifier.operator for specifier in requirement.specifier}
        if extra in MAY_PIN and operators == {"=="}:
            continue
        assert ">=" in operators, f"{line}: say from which version on"
        assert not operators & {"==", "===", "~="}, f"{line}: a range, no pin"


def test_the_package_knows_its_version() -> None:
    assert hippo_core.__version__ == PROJECT["version"]


def test_no_python_is_too_new() -> None:
    assert re.fullmatch(r">=3\.\d+", PROJECT["requires-python"])


def test_each_python_that_is_declared_is_tested() -> None:
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    if not workflow.exists():
        pytest.skip("not a checkout")
    begins = "Programming Language :: Python :: 3."
    declared = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(begins)}
    (tested,) = re.findall(r"python: \[(.*)\]", workflow.read_text("utf-8"))
    assert set(re.findall(r"[\d.]+", tested)) == declared
    assert PROJECT["requires-python"].removeprefix(">=") == min(declared)


def test_an_extra_that_an_error_names_exists() -> None:
    told = {
        node.args[1].value
        for path in CORE_FILES + ADAPTER_FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingDependencyError"
        if len(node.args) == 2 and isinstance(node.args[1], ast.Constant)
    }
    assert told <= set(EXTRAS)
