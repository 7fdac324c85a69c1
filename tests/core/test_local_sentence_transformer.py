"""SentenceTransformerEmbedder: the model's own query and document encodings."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from hippo_core.errors import InputError, MissingDependencyError
from hippo_core.local import SentenceTransformerEmbedder
from hippo_core.ports import Embedder


class PlainModel:
    """Encodes a text as its length and its prompt's length."""

    model_name_or_path = "acme/plain"

    def __init__(self, prompts: dict[str, str] | None = None) -> None:
        self.prompts = prompts or {}
        self.batch_sizes: list[int] = []

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt_name: str | None = None,
        batch_size: int = 1,
        convert_to_numpy: bool = False,
        show_progress_bar: bool | None = None,
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        assert isinstance(texts, list)
        assert convert_to_numpy
        self.batch_sizes.append(batch_size)
        prompt = self.prompts[prompt_name] if prompt_name else ""
        return np.array([[len(text), len(prompt)] for text in texts], dtype=np.float64)

    def get_sentence_embedding_dimension(self) -> int:
        return 2


class TwoSidedModel(PlainModel):
    """Has the two encoding methods of asymmetric models."""

    def encode_query(self, texts: Sequence[str], **options: Any) -> Any:
        return self.encode(texts, **options) + 100

    def encode_document(self, texts: Sequence[str], **options: Any) -> Any:
        return self.encode(texts, **options) + 200


def embedder(model: object, **options: int) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(cast(Any, model), batch_size=options.get("batch_size", 32))


def test_it_is_an_embedder_that_bears_its_models_name() -> None:
    made = embedder(PlainModel())
    assert isinstance(made, Embedder)
    assert made.name == "acme/plain"
    assert made.one_query_encoding


def test_rows_are_float32_in_the_order_of_the_texts() -> None:
    vectors = embedder(PlainModel()).embed(("a", "bbb", "cc"), "passage")
    assert vectors.dtype == np.float32
    assert vectors[:, 0].tolist() == [1, 3, 2]


def test_no_text_gives_no_row() -> None:
    assert embedder(PlainModel()).embed([], "phrase").shape == (0, 2)


@pytest.mark.parametrize("kind", ["query_to_passage", "query_to_triple", "query_to_phrase"])
def test_queries_go_through_the_query_encoding(kind: Any) -> None:
    assert embedder(TwoSidedModel()).embed(["a"], kind).tolist() == [[101, 100]]
    assert embedder(PlainModel({"query": "find: "})).embed(["a"], kind).tolist() == [[1, 6]]
    assert embedder(PlainModel()).embed(["a"], kind).tolist() == [[1, 0]]


@pytest.mark.parametrize("kind", ["passage", "phrase", "triple"])
def test_what_is_indexed_goes_through_the_document_encoding(kind: Any) -> None:
    assert embedder(TwoSidedModel()).embed(["a"], kind).tolist() == [[201, 200]]
    assert embedder(PlainModel({"passage": "text: "})).embed(["a"], kind).tolist() == [[1, 6]]
    assert embedder(PlainModel({"query": "find: "})).embed(["a"], kind).tolist() == [[1, 0]]


def test_the_batch_size_reaches_the_model() -> None:
    model = PlainModel()
    embedder(model, batch_size=7).embed(["a"], "passage")
    assert model.batch_sizes == [7]


def test_async_gives_what_sync_gives() -> None:
    made = embedder(TwoSidedModel())
    vectors = asyncio.run(made.aembed(["a"], "query_to_passage"))
    np.testing.assert_array_equal(vectors, made.embed(["a"], "query_to_passage"))


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        embedder(PlainModel(), batch_size=0)


def test_the_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"hippo-core\[sentence-transformers\]"):
        SentenceTransformerEmbedder("all-MiniLM-L6-v2")
