"""HippoRAG as a LangChain DocumentIndex, for `langchain_core.indexing.index` and its cleanup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, DocumentIndex, UpsertResponse

from hippo_core import Budget, DeleteReport, IndexingError, IndexReport, InputError
from langchain_hipporag._events import OnProgress
from langchain_hipporag.retriever import HippoRAGRetriever


class HippoRAGDocumentIndex(HippoRAGRetriever, DocumentIndex):
    """The retriever with the methods that `index()` and `aindex()` ask for.

    Setup:
        As HippoRAGRetriever.

    Key init args:
        As HippoRAGRetriever.

    Instantiate:
        >>> from hippo_core import Extraction, Triple
        >>> from hippo_core.testing import HashEmbedder, TableOpenIE
        >>> ada = "Ada married William."
        >>> table = {ada: Extraction(triples=(Triple("Ada", "married", "William"),))}
        >>> memory = HippoRAGDocumentIndex.from_models(
        ...     embeddings=HashEmbedder(), openie=TableOpenIE(table)
        ... )

    Usage:
        To clean up by source, take `scoped_full`. With `incremental`, and a source whose documents
        do not fit into one batch, LangChain deletes and adds unchanged documents at every run, and
        the chat model reads them anew.

        >>> from langchain_core.documents import Document
        >>> from langchain_core.indexing import InMemoryRecordManager, index
        >>> records = InMemoryRecordManager(namespace="letters")
        >>> records.create_schema()
        >>> letters = [Document(ada, metadata={"source": "letters"})]
        >>> for documents in (letters, letters, []):
        ...     index(documents, records, memory, cleanup="full", key_encoder="sha256")
        {'num_added': 1, 'num_updated': 0, 'num_skipped': 0, 'num_deleted': 0}
        {'num_added': 0, 'num_updated': 0, 'num_skipped': 1, 'num_deleted': 0}
        {'num_added': 0, 'num_updated': 0, 'num_skipped': 0, 'num_deleted': 1}
        >>> memory.close()

    Use within a chain:
        As HippoRAGRetriever.
    """

    def upsert(
        self,
        items: Sequence[Document],
        /,
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> UpsertResponse:
        """Index documents, all or none.

        `index()` takes what it has handed over for done, whatever the response says. So a failure
        is raised, and the next `index()` tries again. `upsert_kwargs` of `index()` bring what this
        takes: `callbacks`, `progress` and `budget`, as `add_documents`.

        Raises:
            IndexingError: Documents could not be read, or not in full; what was read is kept.
        """
        _refuse(kwargs)
        return _upserted(self._add(items, None, callbacks, progress, budget=budget))

    async def aupsert(
        self,
        items: Sequence[Document],
        /,
        callbacks: Callbacks = None,
        progress: OnProgress | None = None,
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> UpsertResponse:
        """Do what `upsert` does, without blocking the event loop."""
        _refuse(kwargs)
        return _upserted(await self._aadd(items, None, callbacks, progress, budget=budget))

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents; one that is not there is no failure.

        Raises:
            InputError: There are no ids.
        """
        _refuse(kwargs)
        return _deleted(self.delete_documents(_given(ids)))

    async def adelete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Do what `delete` does, without blocking the event loop."""
        _refuse(kwargs)
        return _deleted(await self.adelete_documents(_given(ids)))

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Give the documents of ids as they were added; unknown ids are left out."""
        _refuse(kwargs)
        return self.get_documents(ids)


def _given(ids: Sequence[str] | None) -> Sequence[str]:
    if ids is None:
        raise InputError("delete needs ids; it does not empty the index")
    return ids


def _refuse(kwargs: Mapping[str, Any]) -> None:
    if kwargs:
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(kwargs))}")


def _upserted(report: IndexReport) -> UpsertResponse:
    if report.partial:
        raise IndexingError(report.partial, indexed=True)
    return UpsertResponse(succeeded=list(report.ids), failed=[])


def _deleted(report: DeleteReport) -> DeleteResponse:
    deleted = list(report.deleted)
    return DeleteResponse(num_deleted=len(deleted), succeeded=deleted, failed=[], num_failed=0)
