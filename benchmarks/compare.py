"""The papers' table by `compare()`: BM25, dense, HippoRAG, HippoRAG 2, the default, each ablation.

On `musique_train` in HIPPO_BENCH_DATA (default ../shared/bench): 100 questions over 1,890 passages
with published triples; no model runs but the encoder, int8 MiniLM. The judged rows take the
recorded choices of a strong model, the others have no judge. Prints the tables, and writes
benchmarks/results/compare.json with a .meta.json beside it; `--draw FOLDER` draws pictures.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from encoders import ENCODERS, load_encoder
from musique_train import (
    DATA,
    HERE,
    HIPPORAG2,
    JUDGED,
    OURS,
    Questions,
    _jsonl,
    _passages,
    _write,
    as_published,
)

from hippo_core import HippoConfig, HippoRAG
from hippo_core.evaluation import (
    Question,
    Step,
    System,
    ablations,
    bm25,
    compare,
    default,
    dense,
    draw_by_hops,
    draw_cost,
    draw_recall_by_k,
    hipporag,
    hipporag2,
    memory_system,
)

FOLDER = DATA / "musique_train"
ENCODER = "int8"
NO_CALL = ("without recognition memory", "without own edges")  # there is no judge, and no such edge
MEASURES = ("recall@2", "recall@5", "recall@20", "all-recall@2", "all-recall@5")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="draw pictures into it")
    folder = parser.parse_args().draw
    if not FOLDER.is_dir():
        print(f"no data in {FOLDER}: set HIPPO_BENCH_DATA; nothing was run")
        return 0
    comparison = compare(_systems(), _questions(), progress=_show)
    tables = {
        "figures": comparison.table(MEASURES),
        "against dense": comparison.differences("dense", ("recall@2", "recall@5")),
        "against the default": comparison.differences("default", ("recall@2", "recall@5")),
        "recall@5 by hops": comparison.by_hops(),
    }
    print()
    for name, table in tables.items():
        print(f"{name}\n\n{table}\n")
    assert not comparison.failures()
    about = {"encoder": ENCODERS[ENCODER], "seconds": "beside whatever else ran meanwhile"}
    _write("compare", [{"table": name, **t.to_json()} for name, t in tables.items()], about)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        draw_recall_by_k(comparison, folder / "recall_by_k.svg")
        draw_by_hops(comparison, folder / "recall_by_hops.svg")
        draw_cost(comparison, folder / "cost.svg")
    return 0


def _systems() -> list[System]:
    published, ours = _memory(HIPPORAG2), _memory(OURS)
    systems = [
        bm25(published),
        dense(published),
        hipporag(published),
        hipporag2(published),
        default(ours),
        memory_system(
            _memory(HIPPORAG2, "reference"),
            "HippoRAG 2, judged",
            HIPPORAG2.but(recognition_memory=True),
        ),
        memory_system(_memory(OURS, "anchored"), "default, judged", JUDGED),
    ]
    for memory, method in ((published, "HippoRAG"), (published, "HippoRAG 2"), (ours, "default")):
        parts = ablations(memory, method)[1:]
        systems += [system for system in parts if not system.name.endswith(NO_CALL)]
    return systems


def _memory(config: HippoConfig, judge: str = "") -> HippoRAG:
    """Open the index of these settings, filled once; judged by what one file says was kept."""
    prepared = Questions(FOLDER, as_published)
    if judge:
        prepared.judge_by(f"kept_of_{judge}_candidates.json")
    memory = HippoRAG(
        None,
        load_encoder(ENCODER),
        store=HERE / ".cache" / f"musique_train_{ENCODER}",
        namespace="ours" + ("" if config.triple_rendering == "tuple" else "_words"),
        config=config,
        openie=prepared,
        recognition=prepared if judge else None,
    )
    memory.add_extracted(_passages(FOLDER, as_published))
    return memory


def _questions() -> list[Question]:
    return [
        Question(
            row["id"],
            row["question"],
            tuple(row["supporting"]),
            tuple(row["answers"]),
            int(str(row["hops"])[0]),
        )
        for row in _jsonl(FOLDER / "questions.jsonl")
    ]


def _show(step: Step) -> None:
    if step.done == step.total:
        print(f"asked {step.name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
