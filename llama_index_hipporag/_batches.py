"""Documents as they come, and their nodes on the way in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llama_index.core.schema import BaseNode, Document


def listed(documents: Iterable[Document]) -> list[Document]:
    """List documents, which a loader may give one by one.

    Raises:
        TypeError: Something is no document.
    """
    found = list(documents)
    for document in found:
        if not isinstance(document, BaseNode):
            raise TypeError(
                f"documents must be a list of Document, got {type(document).__name__} in it"
            )
    return found


def ids_of(documents: Iterable[Document]) -> set[str]:
    """Give the documents' ids."""
    return {document.id_ for document in documents}


@dataclass(frozen=True)
class Batch:
    """Nodes of one insert, and the hashes of the documents that they were made of."""

    nodes: Sequence[BaseNode]
    hashes: Mapping[str, str] = field(default_factory=dict)
