"""Evaluation as the papers do it: data sets, measures, comparisons, tables and pictures."""

from __future__ import annotations

from hippo_core.evaluation.answers import exact_match, f1, normalise_answer
from hippo_core.evaluation.comparing import Step, compare
from hippo_core.evaluation.comparison import Comparison
from hippo_core.evaluation.drawing import draw_by_hops, draw_cost, draw_recall_by_k
from hippo_core.evaluation.loaders import (
    load_2wiki,
    load_hipporag,
    load_hotpotqa,
    load_jsonl,
    load_musique,
)
from hippo_core.evaluation.measures import all_recall_at_k, recall_at_k, recall_table
from hippo_core.evaluation.outcomes import Outcome, Reading
from hippo_core.evaluation.questions import AnswerRule, Dataset, Question
from hippo_core.evaluation.significance import Difference, paired_bootstrap, permutation_test
from hippo_core.evaluation.systems import (
    ABLATIONS,
    Ranking,
    System,
    ablations,
    bm25,
    default,
    dense,
    hipporag,
    hipporag2,
    ircot,
    line_up,
    memory_system,
)
from hippo_core.evaluation.tables import Column, Table
from hippo_core.evaluation.trec import read_qrels, read_run, to_ranx, write_qrels, write_run

__all__ = [
    "ABLATIONS",
    "AnswerRule",
    "Column",
    "Comparison",
    "Dataset",
    "Difference",
    "Outcome",
    "Question",
    "Ranking",
    "Reading",
    "Step",
    "System",
    "Table",
    "ablations",
    "all_recall_at_k",
    "bm25",
    "compare",
    "default",
    "dense",
    "draw_by_hops",
    "draw_cost",
    "draw_recall_by_k",
    "exact_match",
    "f1",
    "hipporag",
    "hipporag2",
    "ircot",
    "line_up",
    "load_2wiki",
    "load_hipporag",
    "load_hotpotqa",
    "load_jsonl",
    "load_musique",
    "memory_system",
    "normalise_answer",
    "paired_bootstrap",
    "permutation_test",
    "read_qrels",
    "read_run",
    "recall_at_k",
    "recall_table",
    "to_ranx",
    "write_qrels",
    "write_run",
]
