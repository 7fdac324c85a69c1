"""What the ablations run on: one index of a corpus as arrays, with its questions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import musique_train
import numpy as np
from encoders import CachedEmbedder
from local_reading import Items, read_locally
from musique_train import _json, _jsonl, _keys, _passages, as_published
from numpy.typing import NDArray

from hippo_core import HippoConfig, HippoRAG, Passage
from hippo_core.corpus import Corpus
from hippo_core.graph import KnowledgeGraph
from hippo_core.pagerank import Transition
from hippo_core.similarity import min_max, unit_rows
from hippo_core.text import normalise_phrase

FOLDER = musique_train.DATA / "musique_train"
PUBLISHED = HippoConfig.hipporag2(triple_rendering="tuple", recognition_memory=False)

LONGEST_ANCHOR = 8  # words
SHORTEST_ANCHOR = 3  # characters of a single word
STOP_WORDS = frozenset(
    "a an the of in on at to for from by with and or but not is are was were be been being do does"
    " did has have had what which who whom whose when where why how that this these those it its as"
    " into than then there".split()
)

Scores = NDArray[np.float64]
Positions = NDArray[np.int64]


class Judged(NamedTuple):
    """What a judge kept, by question: positions of triples; none where it kept none."""

    kept: tuple[Positions, ...]
    not_found: int
    """Kept triples that the index does not have."""


@dataclass
class Setup:
    """One index of a corpus, and what each question is to it. Rows are questions."""

    name: str
    questions: Mapping[str, str]
    gold: Mapping[str, set[str]]
    memory: HippoRAG
    corpus: Corpus
    graph: KnowledgeGraph
    embedder: CachedEmbedder
    dense: Scores
    """Min-max scaled cosines of passages, (n_questions, n_passages)."""
    triples: Mapping[str, Scores]
    """Min-max scaled cosines of triples by rendering, (n_questions, n_triples)."""
    judged: Mapping[str, Judged] = field(default_factory=dict)
    transitions: dict[str, Transition] = field(default_factory=dict)

    @cached_property
    def ids(self) -> list[str]:
        return [live.passage.id for live in self.corpus.passages]

    @cached_property
    def words(self) -> list[list[str]]:
        """Give the normalised words of each passage."""
        return [normalise_phrase(p.passage.full_text).split() for p in self.corpus.passages]

    @cached_property
    def triple_texts(self) -> list[str]:
        return [" ".join(part for part in triple if part) for triple in self.corpus.triples]

    @cached_property
    def triple_vectors(self) -> NDArray[np.float32]:
        return np.asarray(self.corpus.triple_vectors)

    @cached_property
    def anchors(self) -> list[Positions]:
        """Give the phrases that stand verbatim in each question."""
        known = {phrase: position for position, phrase in enumerate(self.corpus.phrases)}
        return [anchors_of(question, known) for question in self.questions.values()]

    @cached_property
    def joined(self) -> Any:
        """Give which phrases a triple joins, symmetric, boolean CSR (n_phrases, n_phrases)."""
        ends = self.graph.phrase_triples
        return (ends @ ends.T).tocsr() > 0


def anchors_of(question: str, known: Mapping[str, int]) -> Positions:
    """Find the phrases in a question: longest first, left to right, not overlapping.

    >>> anchors_of("Who is the mother of Lothair II?", {"lothair": 0, "lothair ii": 1, "the": 2})
    array([1])
    """
    words = normalise_phrase(question).replace("'s", " 's").split()
    used = [False] * len(words)
    found = []
    for n in range(LONGEST_ANCHOR, 0, -1):
        for start in range(len(words) - n + 1):
            span = words[start : start + n]
            key = " ".join(span).replace(" 's", "'s")
            if any(used[start : start + n]) or key not in known or STOP_WORDS.issuperset(span):
                continue
            if n == 1 and len(key) < SHORTEST_ANCHOR:
                continue
            used[start : start + n] = [True] * n
            found.append(known[key])
    return np.array(list(dict.fromkeys(found)), dtype=np.int64)


def make_setup(
    name: str,
    items: Items,
    questions: Mapping[str, str],
    gold: Mapping[str, set[str]],
    embedder: CachedEmbedder,
) -> Setup:
    """Index passages with both renderings of triples, and compare the questions with them."""
    queries = unit_rows(embedder.embed(list(questions.values()), "query_to_passage"))
    published = HippoRAG(None, embedder, config=PUBLISHED)
    published.add_extracted(items)
    memory = HippoRAG(None, embedder, config=PUBLISHED.but(triple_rendering="words"))
    memory.add_extracted(items)
    snapshot, as_tuples = (m._index.snapshot() for m in (memory, published))
    if list(snapshot.corpus.triples) != list(as_tuples.corpus.triples):
        raise RuntimeError("both renderings must have the same triples in the same order")
    corpus = snapshot.corpus
    print(f"{name}: {memory.stats()}", flush=True)
    return Setup(
        name=name,
        questions=questions,
        gold=gold,
        memory=published,
        corpus=corpus,
        graph=snapshot.graph,
        embedder=embedder,
        dense=np.stack([min_max(corpus.passage_vectors.cosines(q)) for q in queries]),
        triples={
            rendering: np.stack([min_max(vectors.cosines(q)) for q in queries])
            for rendering, vectors in (
                ("words", corpus.triple_vectors),
                ("tuple", as_tuples.corpus.triple_vectors),
            )
        },
    )


def musique(openie: str, embedder: CachedEmbedder, *, drop: float = 0, seed: int = 0) -> Setup:
    """Index `musique_train`, with a share of the triples dropped at random."""
    asked = musique_train.Questions(FOLDER, as_published)
    items = _passages(FOLDER, as_published)
    if openie == "spaCy":
        items = read_locally([passage for passage, _ in items]).items
    if drop:
        draw = random.Random(seed)
        items = [
            (p, replace(e, triples=tuple(t for t in e.triples if draw.random() >= drop)))
            for p, e in items
        ]
    name = f"{openie} OpenIE, {'WordLlama' if embedder.name == 'wordllama' else 'MiniLM'}"
    name += f", {drop:.0%} of the triples dropped, seed {seed}" if drop else ""
    setup = make_setup(name, items, asked.text, asked.gold, embedder)
    if openie == "GPT" and not drop:
        setup.judged = {
            by: _judged(setup, _json(FOLDER / f"kept_of_{by}_candidates.json"))
            for by in ("reference", "anchored")
        }
    return setup


def _judged(setup: Setup, replies: Mapping[str, Any]) -> Judged:
    """Read what a judge kept, as lists of numbers or of the kept triples themselves."""
    known = {tuple(triple): position for position, triple in enumerate(setup.corpus.triples)}
    kept, not_found = [], 0
    for id_ in setup.questions:
        reply = replies[id_]
        items = [reply["candidates"][i] for i in reply["kept"]] if "kept" in reply else reply
        found = [known.get(_keys(str(part) for part in item["triple"])) for item in items]
        not_found += found.count(None)
        there = dict.fromkeys(position for position in found if position is not None)
        kept.append(np.array(list(there), dtype=np.int64))
    return Judged(tuple(kept), not_found)


def small(name: str, corpus: Path, questions: Path, embedder: CachedEmbedder) -> Setup:
    """Index one of the small sets of this repository, read by spaCy."""
    from hippo_core.local import SpacyOpenIE

    reader = SpacyOpenIE()
    passages = [
        Passage(text=row["text"], title=row["title"], id=row["id"]) for row in _jsonl(corpus)
    ]
    rows = _jsonl(questions)
    return make_setup(
        name,
        [(passage, reader.extract(passage.full_text)) for passage in passages],
        {row["id"]: row["question"] for row in rows},
        {row["id"]: set(row["needs"]) for row in rows},
        embedder,
    )
