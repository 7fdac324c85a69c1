"""The score of triples is CaRB's, and the gold passages are whole."""

import importlib
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
FEWEST_PASSAGES = 20
OWN_WORDS = "is are was were has of at in on from members for to"  # of the notation
GOLD = [("Ada", "met", "Bob"), ("Ada", "met Bob in", "Lyon"), ("Lyon", "is in", "France")]

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the benchmarks")


@pytest.fixture(scope="module")
def carb():
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("carb")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("carb", None)


@pytest.fixture(scope="module")
def passages():
    text = (FOLDER / "openie_gold.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_the_gold_itself_scores_a_hundred(carb):
    assert carb.score(GOLD, GOLD).scores() == {"precision": 100, "recall": 100, "f1": 100}


def test_articles_and_case_make_no_difference(carb):
    other = [(f"the {s}".upper(), r, o.lower()) for s, r, o in GOLD]
    assert carb.score(other, GOLD) == carb.score(GOLD, GOLD)


def test_nothing_read_and_nothing_meant_score_nothing(carb):
    assert carb.score([], GOLD).scores() == {"precision": 0, "recall": 0, "f1": 0}
    assert carb.score(GOLD, []).scores() == {"precision": 0, "recall": 0, "f1": 0}


def test_relations_without_a_word_in_common_do_not_match(carb):
    assert carb.score([("Ada", "saw", "Bob")], GOLD[:1]).recalled == 0


def test_words_count_only_in_their_own_part(carb):
    assert carb.score([("Bob", "met", "Ada")], GOLD[:1]).recalled == pytest.approx(1 / 3)


def test_a_repeat_costs_precision_and_no_recall(carb):
    once, twice = carb.score(GOLD[:1], GOLD), carb.score(GOLD[:1] * 2, GOLD)
    assert twice.recalled == once.recalled
    # The second "Ada met Bob" is left with "Ada met Bob in Lyon", of which it has two words.
    assert twice.precise / twice.predicted < once.precise / once.predicted


def test_one_prediction_may_cover_two_gold_triples_but_counts_once(carb):
    tally = carb.score([("Ada", "met", "Bob")], [GOLD[0], GOLD[0]])
    assert (tally.recalled, tally.precise, tally.predicted) == (2, 1, 1)


def test_the_order_of_predictions_makes_no_difference(carb):
    assert carb.score(GOLD[::-1], GOLD) == carb.score(GOLD, GOLD)


def test_sums_of_passages_are_those_of_their_triples(carb):
    both = carb.score(GOLD, GOLD).plus(carb.score([], GOLD))
    assert both.scores() == {"precision": 100, "recall": 50, "f1": 66.7}


def test_the_gold_passages_are_two_halves_of_the_same_kinds(passages):
    assert len(passages) >= FEWEST_PASSAGES
    kinds = {
        half: Counter(p["kind"] for p in passages if p["half"] == half) for half in ("dev", "test")
    }
    assert kinds["dev"] == kinds["test"]
    assert sum(kinds["dev"].values()) * 2 == len(passages)


def test_gold_passages_have_whole_triples_of_their_own_words(passages):
    assert len({p["id"] for p in passages}) == len(passages)
    for passage in passages:
        text = f"{passage['title']} {passage['text']} {OWN_WORDS}".casefold()
        for triple in passage["triples"]:
            assert len(triple) == 3
            assert all(part.strip() == part != "" for part in triple)
            strange = [w for part in triple for w in part.casefold().split() if w not in text]
            assert not strange, (passage["id"], triple, strange)
