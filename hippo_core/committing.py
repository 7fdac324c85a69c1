"""Committing: passages become visible with all that they contribute, or go with it, at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hippo_core.contributions import Contribution, Target, contribution
from hippo_core.errors import EmbedderMismatchError, StoreError
from hippo_core.extracting import failures
from hippo_core.index import HippoIndex, Vectors
from hippo_core.inputs import Chosen
from hippo_core.records import StoredPassage, text_key
from hippo_core.types import DeleteReport, Extraction, Kind, Status
from hippo_core.writer import Writer


class Committed(NamedTuple):
    """What a commit did beyond what it was given."""

    touched: list[str]
    """Ids of other passages, whose text now says something else."""
    gone: frozenset[str]
    """Ids of passages that were read again, and meanwhile deleted or given another text."""


class Committing:
    """Commits to one namespace what was read and embedded, and deletions."""

    def __init__(self, index: HippoIndex) -> None:
        self._index = index

    def commit(
        self,
        edges: Mapping[str, Mapping[Target, float]],
        stored: Sequence[StoredPassage],
        extractions: Mapping[str, Extraction],
        vectors: Vectors,
        generation: int | None,
        extractor: str,
        *,
        reread: bool = False,
    ) -> Committed:
        """Make passages visible; if they were read again, only those that are there still."""
        index, namespace = self._index, self._index.namespace
        with index.committing:
            index.refresh()
            synonyms = index.plan_synonyms(vectors["phrase"])
            with index.store.write() as writer:
                if writer.generation(namespace) != generation:
                    raise EmbedderMismatchError(
                        f"namespace {namespace!r} was given another embedder while this call ran; "
                        "what was read is kept: open it with that embedder and add again"
                    )
                index.catch_up(writer)
                gone: list[StoredPassage] = []
                if reread:
                    stored, gone = self._still_there(stored)
                self._check_rendering(stored, vectors)
                new = self._contributions(writer, stored, extractions, edges)
                replaced = index.contributions(new)
                self._replace(writer, new.keys(), new.values())
                good = {k: e for k, e in extractions.items() if e.status is not Status.FAILED}
                writer.commit_extractions(namespace, extractor, good)
                # What another handle purged since it was read here is written again.
                for kind, by_text in vectors.items():
                    writer.save_vectors(namespace, kind, by_text, replace=False)
                writer.put_passages(namespace, stored)
                writer.put_edges(namespace, _relinked(replaced, new))
                self._purge_texts(writer, replaced.values())
                self._forget(writer, gone, new.values())
            with index.store.read() as reader:
                index.catch_up(reader, synonyms)
        if gone or any(_loses_something(before, new[i]) for i, before in replaced.items()):
            index.erase()
        index.save_if_much_changed()
        others = new.keys() - {s.passage.id for s in stored}
        touched = sorted(i for i in others if not _differs_in_edges_alone(replaced[i], new[i]))
        return Committed(touched, frozenset(s.passage.id for s in gone))

    def delete(self, chosen: Chosen) -> DeleteReport:
        """Delete passages, and all that no other passage uses."""
        if chosen.where is not None and chosen.where.key is None:
            # The user's function runs before anything is locked: it may use this memory.
            self._index.refresh()
            chosen = Chosen(self._index.chosen(chosen), None, None)
        with self._index.committing, self._index.store.write() as writer:
            self._index.catch_up(writer)
            wanted, missing = self._wanted(chosen)
            gone = self._index.contributions(wanted)
            self._replace(writer, gone, [])
            writer.delete_passages(self._index.namespace, list(gone))
            self._purge_texts(writer, gone.values())
        if gone:
            self._index.refresh()
            self._index.erase()
        return DeleteReport(tuple(gone), (*(i for i in wanted if i not in gone), *missing))

    def forget_pending(self) -> int:
        """Drop what was read and embedded for passages that were never committed."""
        with self._index.committing, self._index.store.write() as writer:
            self._index.catch_up(writer)
            forgotten = writer.purge_pending(self._index.namespace, self._index.texts_in_use())
        self._index.store.truncate_log()
        return forgotten

    # -- parts --------------------------------------------------------------------------------

    def _wanted(self, chosen: Chosen) -> tuple[list[str], list[str]]:
        """Give the ids that are meant, and the source if it has no passage."""
        if chosen.ids is not None:
            return list(dict.fromkeys(chosen.ids)), []
        found = self._index.chosen(chosen)
        is_missing = chosen.source_id is not None and not found
        return found, [chosen.source_id] if is_missing and chosen.source_id is not None else []

    def _still_there(
        self, stored: Sequence[StoredPassage]
    ) -> tuple[list[StoredPassage], list[StoredPassage]]:
        """Give those that are live with the same text, as they are now, and the others."""
        live = self._index.contributions([s.passage.id for s in stored])
        there, gone = [], []
        for one in stored:
            now = live.get(one.passage.id)
            if now is not None and now.passage.full_text == one.passage.full_text:
                there.append(replace(one, passage=now.passage))
            else:
                gone.append(one)
        return there, gone

    def _forget(
        self, writer: Writer, gone: Sequence[StoredPassage], new: Iterable[Contribution]
    ) -> None:
        """Purge what was read and embedded of passages that are not there any more."""
        if not gone:
            return
        lost = [contribution(s.passage, s.extraction) for s in gone]
        self._purge_texts(writer, lost)
        kept = [*self._texts(new), *self._index.texts_in_use().items()]
        for kind, texts in self._texts(lost):
            used = set().union(*(others for of, others in kept if of == kind))
            writer.purge_vectors(self._index.namespace, kind, texts - used)

    def _texts(self, contributions: Iterable[Contribution]) -> Iterator[tuple[Kind, set[str]]]:
        for one in contributions:
            yield "phrase", one.phrases
            yield "triple", {self._index.render(triple) for triple in one.triples}

    def _check_rendering(self, stored: Sequence[StoredPassage], vectors: Vectors) -> None:
        """Refuse vectors of texts that are not the index's.

        Another handle, of other settings, may have read the memory's first triple meanwhile.
        """
        triples = (t for s in stored for t in contribution(s.passage, s.extraction).triples)
        if any(self._index.render(triple) not in vectors["triple"] for triple in triples):
            raise StoreError(
                f"another handle began the namespace {self._index.namespace!r} with another "
                "triple_rendering while this call ran; what was read is kept: add again"
            )

    def _contributions(
        self,
        writer: Writer,
        stored: Sequence[StoredPassage],
        extractions: Mapping[str, Extraction],
        edges: Mapping[str, Mapping[Target, float]],
    ) -> dict[str, Contribution]:
        """Give what will be contributed otherwise than now, by id.

        By the passages, by others that have the same texts, and by those that have other edges.
        """
        namespace = self._index.namespace
        # Another handle may have read what could not be read here.
        there = writer.extractions(namespace, failures(extractions), pending=False)
        of_text = {**extractions, **there}
        alike = writer.ids_of_texts(namespace, of_text.keys())
        live = self._index.contributions({*alike, *edges, *(s.passage.id for s in stored)})
        passages = {i: live[i].passage for i in alike}
        passages |= {s.passage.id: s.passage for s in stored}
        new = {i: contribution(p, of_text[text_key(p.full_text)]) for i, p in passages.items()}
        # Who was deleted meanwhile went with its edges.
        new = {**{i: live[i] for i in edges if i in live}, **new}
        kept = {i: c.edges for i, c in live.items()} | dict(edges)
        new = {i: replace(c, edges=kept.get(i, {})) for i, c in new.items()}
        return {i: c for i, c in new.items() if live.get(i) != c}

    def _replace(self, writer: Writer, ids: Collection[str], new: Iterable[Contribution]) -> None:
        for kind, texts in self._index.orphans(ids, new).items():
            writer.purge_vectors(self._index.namespace, kind, texts)

    def _purge_texts(self, writer: Writer, gone: Iterable[Contribution]) -> None:
        keys = {text_key(c.passage.full_text) for c in gone}
        writer.purge_texts(self._index.namespace, keys)


def _relinked(
    before: Mapping[str, Contribution], after: Mapping[str, Contribution]
) -> dict[str, Mapping[Target, float]]:
    """Give the edges of the passages that have others than before."""
    had = {i: c.edges for i, c in before.items()}
    return {i: c.edges for i, c in after.items() if c.edges != had.get(i, {})}


def _differs_in_edges_alone(before: Contribution, after: Contribution) -> bool:
    return replace(before, edges=after.edges) == after


def _loses_something(before: Contribution, after: Contribution) -> bool:
    """Whether something that was stated is stated no more, and has to leave the disk."""
    return not (
        _differs_in_edges_alone(before, after) and before.edges.items() <= after.edges.items()
    )
