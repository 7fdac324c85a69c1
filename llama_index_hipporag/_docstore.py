"""LlamaIndex's docstore, kept as the memory is: its own parts read nodes there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from llama_index.core.storage.docstore.types import BaseDocumentStore

from hippo_core import HippoError, HippoRAG, IndexReport
from llama_index_hipporag._convert import document_hash, to_node
from llama_index_hipporag._known import Known
from llama_index_hipporag._turns import Turns


class Mirror:
    """A docstore that follows a memory; the memory is written first."""

    def __init__(
        self,
        docstore: BaseDocumentStore,
        hippo: HippoRAG,
        turns: Turns,
        *,
        is_shared: bool,
        is_behind: bool,
    ) -> None:
        self._docstore = docstore
        self._hippo = hippo
        self._is_shared = is_shared
        self._turns = turns
        self._is_behind = is_behind

    @property
    def docstore(self) -> BaseDocumentStore:
        """The docstore, with what the memory has, and without what was deleted from it.

        Another index of its storage context may still use what was deleted, so there it stays.
        """
        with self._turns.docstore:
            if self._is_behind:
                known = Known(self._hippo)
                self._docstore.add_documents([to_node(passage) for passage in known.passages])
                for id_, hash_ in known.hashes().items():
                    self._docstore.set_document_hash(id_, hash_)
                if not self._is_shared:
                    for id_ in self._hippo.deleted(list(self._docstore.docs)):
                        self._docstore.delete_document(id_, raise_error=False)
                self._is_behind = False
            return self._docstore

    @contextmanager
    def caught_up(self) -> Iterator[None]:
        """Have the docstore filled anew where a call ends between the memory's commit and it."""
        try:
            yield
        except HippoError:  # nothing was committed
            raise
        except BaseException:
            self._is_behind = True
            raise

    def keep(self, report: IndexReport, hashes: Mapping[str, str], unread: Collection[str]) -> None:
        """Put what was added in, and the hashes of documents of which all was read."""
        with self._turns.docstore:
            docstore = self.docstore
            # Not what this call put there: another one may have changed or deleted it since.
            passages = self._hippo.get(report.ids)
            docstore.add_documents([to_node(passage) for passage in passages])
            unfinished = {passage.source_id for passage in passages if passage.id in unread}
            current = {passage.source_id: document_hash(passage) for passage in passages}
            for id_ in hashes.keys() - unfinished:
                docstore.set_document_hash(id_, current.get(id_) or hashes[id_])

    def forget(self, node_ids: Sequence[str]) -> None:
        """Take nodes out, whether the memory had them or not, unless it has them again."""
        with self._turns.docstore:
            back = {passage.id for passage in self._hippo.get(node_ids)}
            for id_ in node_ids:
                if id_ not in back:
                    self.docstore.delete_document(id_, raise_error=False)

    def forget_document(self, ref_doc_id: str) -> None:
        """Take a document's nodes out."""
        with self._turns.docstore:
            self.docstore.delete_ref_doc(ref_doc_id, raise_error=False)
