"""LangChain's own suites, unmodified."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.integration_tests.indexer import (
    AsyncDocumentIndexTestSuite,
    DocumentIndexerTestSuite,
)

from hippo_core import Extraction
from hippo_core.testing import HashEmbedder, TableOpenIE
from langchain_hipporag import HippoRAGDocumentIndex, HippoRAGRetriever


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _memory(self, retriever_of_the_corpus: HippoRAGRetriever) -> None:
        self._hippo = retriever_of_the_corpus.hippo

    @pytest.fixture
    def retriever_of_the_corpus(
        self, documents: Any, table: dict[str, Extraction], closing: Any
    ) -> HippoRAGRetriever:
        return closing(
            HippoRAGRetriever.from_documents(
                documents, embeddings=HashEmbedder(), openie=TableOpenIE(table)
            )
        )

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HippoRAGRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"hippo": self._hippo}

    @property
    def retriever_query_example(self) -> str:
        return "Which river flows through the birthplace of John Roebling?"


class TestDocumentIndexAsRetriever(TestRetriever):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return HippoRAGDocumentIndex


class TestDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self) -> Iterator[HippoRAGDocumentIndex]:
        index = HippoRAGDocumentIndex.from_models(embeddings=HashEmbedder(), openie=TableOpenIE())
        yield index
        index.close()


class TestAsyncDocumentIndex(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    def index(self) -> Iterator[HippoRAGDocumentIndex]:
        index = HippoRAGDocumentIndex.from_models(embeddings=HashEmbedder(), openie=TableOpenIE())
        yield index
        index.close()
