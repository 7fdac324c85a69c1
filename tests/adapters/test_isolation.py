"""Each adapter stands alone: without its framework it says what to install, and needs no other."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADAPTERS = {
    "langchain_hipporag": ("langchain_core", "langchain-core", "langchain"),
    "llama_index_hipporag": ("llama_index", "llama-index-core", "llama-index"),
}
# What the environment of `make test-isolated` is for: the frameworks that it has, by comma.
ALONE = os.environ.get("HIPPO_TEST_ALONE")


def importing(package, *, absent):
    """Import a package in a new process, where another is not there."""
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import {package}"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )


@pytest.mark.parametrize("package", ADAPTERS)
def test_without_its_framework_an_adapter_says_what_to_install(package):
    framework, distribution, extra = ADAPTERS[package]
    done = importing(package, absent=[framework])
    assert f"MissingDependencyError: {distribution} is not installed" in done.stderr
    assert f"hippo-core[{extra}]" in done.stderr


@pytest.mark.parametrize("package", ADAPTERS)
def test_an_adapter_works_without_the_other_framework(package):
    framework, _, extra = ADAPTERS[package]
    if find_spec(framework) is None:
        pytest.skip(f"this environment is without {framework}")
    others = [other for other, *_ in ADAPTERS.values() if other != framework]
    done = importing(package, absent=others)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(ALONE is None, reason="make test-isolated asks for it")
def test_the_environment_has_no_other_framework():
    there = {framework for framework, *_ in ADAPTERS.values() if find_spec(framework) is not None}
    assert there == set(filter(None, ALONE.split(",")))
