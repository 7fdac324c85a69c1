"""What each part of the default linking is worth, and what was tried and does not help.

Four parts, all against the same questions: A builds the method up and takes parts away, B turns
each setting, C repeats the comparison without a language model's OpenIE, with another encoder and
with triples missing, D asks the two small sets of this repository. Every row has recall and the
paired bootstrap of what it differs from. No model but the encoders runs. Data: HIPPO_BENCH_DATA
(default ../shared/bench). Results go to benchmarks/results/ablations.json, with a .meta.json
beside it; `ablations_tables.py` writes them into docs/quality.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from ablations_graphs import GRAPHS
from ablations_method import DEFAULT, HIPPORAG2, Method, SecondHop, check, offered, rankings
from ablations_setups import FOLDER, Setup, musique, small
from encoders import CachedEmbedder
from local_reading import read_locally
from musique_train import HERE, _passages, _rounded, _write, as_published

from hippo_core.evaluation import paired_bootstrap, recall_at_k, recall_table

CUTS = (2, 5, 20)  # k of the recall whose difference is given
RESAMPLES = 10_000
DROPPED = ((0.1, 1), (0.3, 1), (0.3, 2))  # share of triples, seed

JUDGED_HIPPORAG2 = HIPPORAG2.but(judge="reference", kept_scores=True)
JUDGED = DEFAULT.but(judge="anchored")


@dataclass(frozen=True)
class Row:
    """A system, and the names of the systems that it is compared with."""

    name: str
    method: Method | None
    against: tuple[str, ...] = ()


def built_up() -> Iterator[Row]:
    """Part A: from HippoRAG 2 to the default, and the default without each part."""
    yield Row("dense", None)
    yield Row("HippoRAG 2", HIPPORAG2, ("dense",))
    method, last = HIPPORAG2, "HippoRAG 2"
    for name, part in (
        ("+ plain words", "rendering"),
        ("+ context", "context"),
        ("+ anchors", "anchors"),
        ("+ meeting points", "meeting"),
        ("+ margin", "margin"),
    ):
        method = method.but(**{part: getattr(DEFAULT, part)})
        yield Row(name, method, (last,))
        last = name
    yield Row("default", DEFAULT, (last, "HippoRAG 2", "dense"))
    for name, part in (
        ("without plain words", "rendering"),
        ("without context", "context"),
        ("without anchors", "anchors"),
        ("without meeting points", "meeting"),
        ("without the margin", "margin"),
        ("5 seed phrases", "seed_phrases"),
    ):
        yield Row(name, DEFAULT.but(**{part: getattr(HIPPORAG2, part)}), ("default",))
    yield Row("HippoRAG 2, judged", JUDGED_HIPPORAG2, ("HippoRAG 2",))
    yield Row("default, judged", JUDGED, ("HippoRAG 2, judged", "default"))
    shown = JUDGED.but(offered_only=True)
    yield Row("default, judged, only its own ten best", shown, ("default, judged",))
    by_score = JUDGED.but(kept_scores=True)
    yield Row("default, judged, kept by score", by_score, ("default, judged",))
    yield Row("default, judged, 5 seed phrases", JUDGED.but(seed_phrases=5), ("default, judged",))


LINKING: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((f"exactly {k} triples", {"linked": k, "margin": None}) for k in (3, 5, 8)),
    *((f"margin {m}", {"margin": m}) for m in (0.1, 0.15, 0.4)),
    *((f"at most {k} triples", {"linked": k}) for k in (3, 8)),
    *((f"context {w}", {"context": w}) for w in (0.25, 1.0)),
    *((f"anchors {w}", {"anchors": w}) for w in (0.4, 0.8)),
    ("anchors by 1/sqrt C", {"anchor_exponent": 0.5}),
    *((f"meeting points {w}", {"meeting": w}) for w in (0.2, 0.8)),
    *((f"BM25 {w} in context", {"lexical_context": w}) for w in (0.1, 0.3)),
    *(
        (f"BM25 {w} in context and seeds", {"lexical_context": w, "lexical_seeds": w})
        for w in (0.1, 0.3)
    ),
    *((f"BM25 {w} of question and triple", {"lexical_triples": w}) for w in (0.1, 0.3)),
)
"""What a judge has no part in: how triples are chosen."""

SEEDS_AND_GRAPH: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((f"passage weight {w}", {"passage_weight": w}) for w in (0.02, 0.03, 0.08)),
    *((f"specificity exponent {e}", {"specificity": e}) for e in (0.0, 0.5)),
    *((f"damping {d}", {"damping": d}) for d in (0.3, 0.4, 0.6, 0.7)),
    ("sum of a phrase's scores", {"combine": "sum"}),
    ("best of a phrase's scores", {"combine": "max"}),
    *((f"BM25 {w} in seeds", {"lexical_seeds": w}) for w in (0.1, 0.3)),
    *((name, {"graph": name}) for name in GRAPHS if name != DEFAULT.graph),
    *(
        (
            f"second hop, {n} added at {w}",
            {"second_hop": SecondHop(added=n, weight=w), "combine": "max"},
        )
        for n, w in ((3, 0.25), (3, 0.5), (2, 0.5))
    ),
    ("one walk per seed, joined at 0.75", {"concave": 0.75}),
)
"""What is varied without and with a judge."""


def turned() -> Iterator[Row]:
    """Part B: each setting, around the default and the judged default."""
    for name, changes in (*LINKING, *SEEDS_AND_GRAPH):
        yield Row(name, DEFAULT.but(**changes), ("default",))
    for name, changes in SEEDS_AND_GRAPH:
        yield Row(f"{name}, judged", JUDGED.but(**changes), ("default, judged",))


def robust() -> Iterator[Row]:
    """Part C: the comparison that is repeated on each set-up."""
    yield Row("dense", None)
    yield Row("HippoRAG 2", HIPPORAG2, ("dense",))
    yield Row("default", DEFAULT, ("HippoRAG 2", "dense"))


def small_sets() -> Iterator[Row]:
    """Part D: the same, and meeting points apart."""
    yield from robust()
    yield Row("without meeting points", DEFAULT.but(meeting=0), ("default",))


def main() -> int:
    """Run the benchmark."""
    if not FOLDER.is_dir():
        print(f"no data in {FOLDER}: set HIPPO_BENCH_DATA; nothing was run")
        return 0
    started = time.perf_counter()
    minilm, wordllama = CachedEmbedder("fp32"), CachedEmbedder("wordllama")
    setup = musique("GPT", minilm)
    about = _about(setup)
    print(about)
    rows = _measure("A", setup, built_up())
    rows += _measure("B", setup, turned(), known=rows)
    minilm.save()
    rows += _measure("C", setup, robust())
    for other in _others(minilm, wordllama):
        rows += _measure("C", other, robust())
    minilm.save()
    wordllama.save()
    rows += _small(CachedEmbedder("int8"))
    for row in rows:
        row.pop("found")
    _write("ablations", rows, about)
    print(f"{time.perf_counter() - started:.0f} s in all")
    return 0


def _others(minilm: CachedEmbedder, wordllama: CachedEmbedder) -> Iterator[Setup]:
    """Give the other set-ups, each made when the one before is done with."""
    yield musique("GPT", wordllama)
    yield musique("spaCy", minilm)
    yield musique("spaCy", wordllama)
    for share, seed in DROPPED:
        yield musique("GPT", minilm, drop=share, seed=seed)


def _small(embedder: CachedEmbedder) -> list[dict[str, Any]]:
    examples = HERE.parent / "examples"
    rows = []
    for name, corpus, questions in (
        (
            "path-finding",
            HERE / "path_finding_corpus.jsonl",
            HERE / "path_finding_questions.jsonl",
        ),
        ("demo", examples / "demo_corpus.jsonl", examples / "demo_questions.jsonl"),
    ):
        rows += _measure("D", small(name, corpus, questions, embedder), small_sets())
    embedder.save()
    return rows


def _measure(
    part: str, setup: Setup, rows: Iterator[Row], known: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Rank and score; `known` rows may be compared with, and keep what was found per question."""
    print(f"\n{part}. {setup.name}: {len(setup.questions)} questions")
    by_name = {row["system"]: row["found"] for row in known}
    measured = []
    for row in rows:
        runs = rankings(setup, row.method)
        found = by_name[row.name] = {
            f"recall@{k}": [100 * recall_at_k(runs[q], gold, k) for q, gold in setup.gold.items()]
            for k in CUTS
        }
        measured.append(
            {
                "part": part,
                "setup": setup.name,
                "system": row.name,
                **_rounded(recall_table(runs, setup.gold)),
                "minus": {other: _differences(found, by_name[other]) for other in row.against},
                "found": found,
            }
        )
        _print(measured[-1])
    return measured


def _differences(
    ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]
) -> dict[str, list[float]]:
    """Give the mean of each difference and its 95% interval."""
    return {
        cut: [
            round(value, 1) + 0.0  # not -0.0
            for value in paired_bootstrap(ours[cut], theirs[cut], resamples=RESAMPLES)
        ]
        for cut in ours
    }


def _print(row: Mapping[str, Any]) -> None:
    cells = "".join(f"{value:6.1f}" for name, value in row.items() if "recall@" in name)
    print(f"{row['system']:<58}{cells}", flush=True)
    for other, by_cut in row["minus"].items():
        spans = "  ".join(f"{m:+.1f} [{low:+.1f}, {high:+.1f}]" for m, low, high in by_cut.values())
        print(f"    minus {other:<48}{spans}")


def _about(setup: Setup) -> dict[str, Any]:
    read = read_locally([passage for passage, _ in _passages(FOLDER, as_published)])
    judged = {
        by: {
            "kept": sum(len(kept) for kept in judged.kept),
            "questions with none kept": sum(not len(kept) for kept in judged.kept),
            "kept but not in the index": judged.not_found,
        }
        for by, judged in setup.judged.items()
    }
    judged["anchored"]["among the ten best of the default"] = offered(setup, JUDGED)
    return {
        "encoders": {
            "fp32": "all-MiniLM-L6-v2, fp32",
            "wordllama": f"WordLlama {version('wordllama')}, 256 dimensions",
            "int8": "all-MiniLM-L6-v2, int8 ONNX",
        },
        "stats": str(setup.memory.stats()),
        "bootstrap": f"paired, {RESAMPLES} resamples, seed 0; mean and 95% interval",
        "BM25": "own, k1 1.2, b 0.75, normalised words without stop words, no stemming",
        "judge": judged,
        "questions without an anchor": sum(not len(a) for a in setup.anchors),
        "passages that spaCy failed on, taken as empty": read.failed,
        "passages read by spaCy": len(read.items),
        "read by": read.by,
        "not measured": (
            "a local cross-encoder: no package that brings the weights of one was found"
        ),
        "checks": check(setup),
        "default": repr(DEFAULT),
        "hipporag2": repr(HIPPORAG2),
    }


if __name__ == "__main__":
    sys.exit(main())
