"""Path-finding questions: of the many paths that lead from a question's names, one joins them.

The kind of "Which Stanford professor works on the neuroscience of Alzheimer's?" (HippoRAG, section
5.3): 41 questions of our own over 198 passages, about people, places and things that were made up.
Runs offline, without a key: spaCy reads, MiniLM embeds. The questions were fixed before anything
was asked. A second table has for each passage also the one triple by which it joins somebody or
something to a name, as a chat model would read it: spaCy's rules do for few. Results go to
benchmarks/results/path_finding.json, with a .meta.json beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import comb
from pathlib import Path
from typing import Any

import hippo_core
from hippo_core import Extraction, HippoConfig, HippoRAG, Passage, Retrieval, Triple
from hippo_core.evaluation import paired_bootstrap, recall_at_k, recall_table
from hippo_core.local import MiniLM, SpacyOpenIE

HERE = Path(__file__).parent
OUT = HERE / "results" / "path_finding.json"
DEPTH = 10  # passages that are looked at
SHOWN = 5
COLUMN = 32  # characters
LINK = "has to do with"
CUTS = (2, 5, 10)

READINGS = ("spaCy", "spaCy and each link")
DEFAULT = "default"
BLIND = "either_name_by_chance"
SYSTEMS: dict[str, HippoConfig] = {
    "dense": HippoConfig.dense(),
    "hipporag1": HippoConfig.hipporag(),
    "hipporag2_unfiltered": HippoConfig.hipporag2(recognition_memory=False),
    DEFAULT: HippoConfig(),
}


@dataclass(frozen=True)
class Question:
    """A question, its answer, and the passages that join the answer to each of its names."""

    text: str
    answer: str
    needs: tuple[str, ...]
    names: tuple[str, ...]
    """As the corpus spells them."""


class Memories:
    """One memory of the corpus for each text under which triples are embedded."""

    def __init__(
        self, items: Sequence[tuple[Passage, Extraction]], openie: SpacyOpenIE, embedder: MiniLM
    ) -> None:
        self._items, self._openie, self._embedder = items, openie, embedder
        self._open: dict[str, HippoRAG] = {}

    def __iter__(self) -> Iterator[HippoRAG]:
        return iter(self._open.values())

    def ask(self, questions: Mapping[str, Question], config: HippoConfig) -> dict[str, Retrieval]:
        """Retrieve for every question."""
        if config.triple_rendering not in self._open:
            memory = HippoRAG(None, self._embedder, config=config, openie=self._openie)
            memory.add_extracted(self._items)
            self._open[config.triple_rendering] = memory
        return _ask(self._open[config.triple_rendering], questions, config)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="the results file")
    out = parser.parse_args().out
    started = time.perf_counter()
    asked = _jsonl(HERE / "path_finding_questions.jsonl")
    questions = {
        row["id"]: Question(
            row["question"],
            row["answer"],
            tuple(row["needs"]),
            tuple(side["anchor"] for side in row["sides"]),
        )
        for row in asked
    }
    passages = [Passage(**row) for row in _jsonl(HERE / "path_finding_corpus.jsonl")]
    openie, embedder = SpacyOpenIE(), MiniLM()
    read = [(passage, openie.extract(passage.full_text)) for passage in passages]
    rows, stats = [], []
    for reading, items in zip(READINGS, (read, _with_links(read, asked)), strict=True):
        memories = Memories(items, openie, embedder)
        found = {system: memories.ask(questions, config) for system, config in SYSTEMS.items()}
        if reading == READINGS[0]:
            for id_, question in questions.items():
                _print_question(id_, question, {system: found[system][id_] for system in SYSTEMS})
        scored = [*_rows(found, questions), _blind_to_paths(questions, passages)]
        _print_table(reading, scored, len(questions))
        rows += [{"reading": reading, **row} for row in scored]
        stats += [f"{reading}: {memory.stats()}" for memory in memories]
    print(f"\n{time.perf_counter() - started:.0f} s in all.")
    _write(out, rows, stats)
    return 0


def _with_links(
    read: Sequence[tuple[Passage, Extraction]], asked: Sequence[Mapping[str, Any]]
) -> list[tuple[Passage, Extraction]]:
    """Add the triples that join somebody or something to a question's names, where it is said."""
    links: dict[str, set[Triple]] = {passage.id: set() for passage, _ in read}
    texts = {passage.id: passage.full_text.casefold() for passage, _ in read}
    for row in asked:
        for side in row["sides"]:
            name = side["anchor"]
            for other, id_ in side["distractors"].items():
                links[id_].add(Triple(other, LINK, name))
            for id_ in row["needs"]:
                if name.casefold() in texts[id_]:
                    links[id_].add(Triple(row["answer"], LINK, name))
    return [
        (passage, replace(reading, triples=(*reading.triples, *sorted(links[passage.id]))))
        for passage, reading in read
    ]


def _ask(
    memory: HippoRAG, questions: Mapping[str, Question], config: HippoConfig
) -> dict[str, Retrieval]:
    return {
        id_: memory.retrieve(question.text, k=DEPTH, config=config)
        for id_, question in questions.items()
    }


def _rows(
    found: Mapping[str, Mapping[str, Retrieval]], questions: Mapping[str, Question]
) -> list[dict[str, Any]]:
    """Score each system, and the default against each of the others."""
    gold = {id_: question.needs for id_, question in questions.items()}
    runs = {system: {q: _ids(r) for q, r in by_id.items()} for system, by_id in found.items()}
    at_5 = {s: [100 * recall_at_k(run[q], gold[q], 5) for q in gold] for s, run in runs.items()}
    rows = []
    for system, run in runs.items():
        table = recall_table(run, gold, recall=CUTS, all_recall=CUTS)
        row: dict[str, Any] = {"system": system, **{k: round(v, 1) for k, v in table.items()}}
        if system != DEFAULT:
            difference = paired_bootstrap(at_5[DEFAULT], at_5[system])
            row["default_minus_this_recall@5"] = [round(value, 1) for value in difference]
        row["missed_at_5"] = [q for q in gold if not set(gold[q]) <= set(run[q][:5])]
        rows.append(row)
    return rows


def _blind_to_paths(
    questions: Mapping[str, Question], passages: Sequence[Passage]
) -> dict[str, Any]:
    """Score what ranks the passages that hold a name first, by chance, whatever they say of it."""
    row: dict[str, float] = {}
    texts = [passage.full_text.casefold() for passage in passages]
    for question in questions.values():
        n = sum(any(name.casefold() in text for name in question.names) for text in texts)
        m = len(question.needs)
        for k in CUTS:
            first = min(k, n)
            all_found = comb(n - m, first - m) / comb(n, first) if first >= m else 0.0
            for cut, chance in ((f"recall@{k}", first / n), (f"all-recall@{k}", all_found)):
                row[cut] = row.get(cut, 0) + 100 * chance / len(questions)
    return {"system": BLIND, **{cut: round(value, 1) for cut, value in row.items()}}


def _ids(retrieval: Retrieval) -> list[str]:
    """Give the ranking; a passage without a score is not found, whatever place it has."""
    return [hit.passage.id for hit in retrieval if hit.score > 0]


def _print_question(id_: str, question: Question, found: Mapping[str, Retrieval]) -> None:
    print(f"\n{id_}. {question.text}\n   expected answer: {question.answer}")
    print("   " + "".join(f"{system:<{COLUMN}}" for system in found).rstrip())
    shown = [(_ids(retrieval) + ["-"] * SHOWN)[:SHOWN] for retrieval in found.values()]
    for place in zip(*shown, strict=True):
        print("   " + "".join(f"{_marked(i, question):<{COLUMN}}" for i in place).rstrip())
    _explain(question, found[DEFAULT])


def _marked(id_: str, question: Question) -> str:
    width = COLUMN - 4
    short = id_ if len(id_) <= width else id_[: width - 1] + "…"
    return f"{'+' if id_ in question.needs else ' '} {short}"


def _explain(question: Question, retrieval: Retrieval) -> None:
    """Print what the question was linked to, and what brought each needed passage up."""
    print(f"   {DEFAULT} went by {retrieval.path}")
    for anchor in getattr(retrieval, "anchors", ()):
        print(f"      anchor  {anchor}")
    for phrase in retrieval.phrases:
        print(f"      {phrase.score:.2f}  {phrase.entity} -> {phrase.phrase}")
    for linked in retrieval.triples:
        dropped = "" if linked.kept else "  (dropped)"
        print(f"      {linked.score:.2f}  {' - '.join(linked.triple)}{dropped}")
    hits = {hit.passage.id: hit for hit in retrieval}
    for need in question.needs:
        if (hit := hits.get(need)) is None:
            print(f"   {need}: not among the first {DEPTH}")
            continue
        triples = "; ".join(" - ".join(triple) for triple in hit.triples) or "its own words alone"
        print(f"   {need}: rank {hit.rank}, brought up by {triples}")


def _print_table(reading: str, rows: Sequence[Mapping[str, Any]], questions: int) -> None:
    cuts = [f"{name}@{k}" for name in ("recall", "all-recall") for k in CUTS]
    heads = [cut.replace("all-recall", "AR").replace("recall", "R") for cut in cuts]
    print(f"\nRead by {reading}: {questions} questions, in percent;")
    print("default minus each at R@5, with its 95% interval")
    print(f"{'':<22}" + "".join(f"{head:>8}" for head in heads) + "   default - this")
    for row in rows:
        line = f"{row['system']:<22}" + "".join(f"{row[cut]:8.1f}" for cut in cuts)
        if "default_minus_this_recall@5" in row:
            mean, low, high = row["default_minus_this_recall@5"]
            line += f"   {mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        print(line)


def _write(out: Path, rows: Sequence[Mapping[str, Any]], stats: Sequence[str]) -> None:
    import platform
    from importlib.metadata import version

    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    meta = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "versions": {
            "hippo-core": hippo_core.__version__,
            **{p: version(p) for p in ("numpy", "scipy", "SQLAlchemy", "spacy")},
        },
        "encoder": "all-MiniLM-L6-v2, int8 ONNX",
        "openie": SpacyOpenIE().fingerprint,
        "settings": {system: repr(config) for system, config in SYSTEMS.items()},
        "indexes": list(stats),
    }
    text = json.dumps(meta, indent=1) + "\n"
    out.with_suffix(".meta.json").write_text(text, encoding="utf-8")


def _jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
