"""The measures of the papers, on rankings worked out by hand."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import InputError
from hippo_core.evaluation import (
    all_recall_at_k,
    paired_bootstrap,
    permutation_test,
    recall_at_k,
    recall_table,
)

ids = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@pytest.mark.parametrize(
    ("gold", "k", "recall", "all_recall"),
    [
        ({"a"}, 1, 1, 1),
        ({"b"}, 1, 0, 0),
        ({"a", "c"}, 1, 0.5, 0),
        ({"a", "c"}, 2, 0.5, 0),
        ({"a", "c"}, 3, 1, 1),
        ({"a", "x"}, 3, 0.5, 0),
        ({"x", "y"}, 9, 0, 0),
        (["a", "a", "c"], 3, 1, 1),  # gold is a set, however it is given
        ({"a", "b", "c", "x"}, 100, 0.75, 0),
        ({"a"}, 0, 0, 0),
    ],
)
def test_recall_is_the_share_found_and_all_recall_whether_all_are(gold, k, recall, all_recall):
    ranked = ["a", "b", "c"]
    assert recall_at_k(ranked, gold, k) == recall
    assert all_recall_at_k(ranked, gold, k) == all_recall


@given(ranked=ids, gold=st.sets(st.sampled_from("abcdefgh"), min_size=1), k=st.integers(0, 10))
def test_recall_grows_with_k_and_all_recall_is_recall_1(ranked, gold, k):
    here = recall_at_k(ranked, gold, k)
    assert 0 <= here <= recall_at_k(ranked, gold, k + 1) <= 1
    assert all_recall_at_k(ranked, gold, k) == (here == 1)


def test_a_table_averages_over_all_questions_in_percent():
    runs = {"q1": ["a", "b"], "q2": ["x", "b"]}
    gold = {"q1": {"a"}, "q2": {"b", "c"}, "q3": {"z"}}  # nothing was found for q3
    table = recall_table(runs, gold, recall=(1, 2), all_recall=(2,))
    assert table == pytest.approx({"recall@1": 100 / 3, "recall@2": 50, "all-recall@2": 100 / 3})


def test_the_tables_cuts_are_the_papers():
    assert list(recall_table({}, {"q": {"a"}})) == [
        "recall@1", "recall@2", "recall@5", "recall@10", "recall@20", "all-recall@2", "all-recall@5"
    ]  # fmt: skip


def test_runs_beside_the_questions_do_not_count():
    assert recall_table({"q": ["a"], "other": []}, {"q": ["a"]}, recall=(1,), all_recall=()) == {
        "recall@1": 100
    }


def test_no_question_is_no_average():
    with pytest.raises(InputError, match="no questions"):
        recall_table({}, {})


values = st.floats(0, 1, width=32)
pairs = st.lists(st.tuples(values, values), min_size=1, max_size=20)


@given(pairs=pairs)
def test_the_difference_is_the_mean_inside_its_interval_and_turns_with_the_sides(pairs):
    ours, theirs = zip(*pairs, strict=True)
    there = paired_bootstrap(ours, theirs, resamples=50)
    back = paired_bootstrap(theirs, ours, resamples=50)
    assert there.mean == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert min(a - b for a, b in pairs) - 1e-9 <= there.low <= there.high
    assert there.high <= max(a - b for a, b in pairs) + 1e-9
    assert (back.mean, back.low, back.high) == pytest.approx((-there[0], -there[2], -there[1]))


def test_a_system_differs_from_itself_by_nothing():
    assert paired_bootstrap([0.1, 0.9, 0.4], [0.1, 0.9, 0.4]) == (0, 0, 0)


def test_the_interval_is_that_of_the_mean_of_independent_questions():
    random = np.random.default_rng(7)
    ours, theirs = random.normal(0.3, 1, 400), random.normal(0, 1, 400)
    found = paired_bootstrap(ours, theirs, resamples=4_000)
    error = (ours - theirs).std() / math.sqrt(400)
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=0.1 * error)


def test_the_questions_are_paired():
    easy_and_hard = np.linspace(0, 1, 30)
    found = paired_bootstrap(easy_and_hard + 0.01, easy_and_hard)
    assert found == pytest.approx((0.01, 0.01, 0.01))


def test_a_seed_gives_one_interval_and_another_seed_another():
    ours, theirs = [1, 0, 1, 0.5, 0.2], [0, 0, 1, 1, 0]
    same = [paired_bootstrap(ours, theirs, resamples=20, seed=3) for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != paired_bootstrap(ours, theirs, resamples=20, seed=4)


@pytest.mark.parametrize(
    ("ours", "theirs", "resamples", "says"),
    [
        ([], [], 10, "no questions"),
        ([1.0], [1.0, 0.0], 10, "got 1 and 2"),
        ([1.0], [1.0], 0, "got 0"),
        ([math.nan], [1.0], 10, "finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(ours, theirs, resamples, says):
    with pytest.raises(InputError, match=says):
        paired_bootstrap(ours, theirs, resamples=resamples)


# -- the randomisation test ------------------------------------------------------------------------


@given(pairs=pairs)
def test_p_is_a_probability_and_the_same_from_both_sides(pairs):
    ours, theirs = zip(*pairs, strict=True)
    p = permutation_test(ours, theirs, samples=200)
    assert 0 < p <= 1
    assert p == permutation_test(theirs, ours, samples=200)


@given(values=st.lists(values, min_size=1, max_size=40))
def test_runs_that_are_equal_have_p_1(values):
    assert permutation_test(values, values) == 1


@given(pairs=pairs, more=st.lists(values, max_size=5))
def test_questions_on_which_both_are_equal_change_no_p(pairs, more):
    ours, theirs = zip(*pairs, strict=True)
    p = permutation_test(ours, theirs, samples=200)
    assert permutation_test([*ours, *more], [*theirs, *more], samples=200) == pytest.approx(p)


@pytest.mark.parametrize("n", [1, 5, 10, 16])
def test_p_is_exact_where_few_questions_differ(n):
    assert permutation_test([1.0] * n, [0.0] * n) == 2 / 2**n  # all swapped, or none


def test_p_is_that_of_all_swaps_written_out():
    ours, theirs = [0.9, 0.4, 0.7, 0.1], [0.5, 0.5, 0.2, 0.3]
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=4)
    ]
    reached = sum(s >= abs(sum(differences)) - 1e-12 for s in sums)
    assert permutation_test(ours, theirs) == reached / 16


def test_a_drawn_p_comes_near_the_exact_one_and_its_seed_repeats_it():
    random = np.random.default_rng(5)
    ours, theirs = random.normal(0.25, 1, 60), random.normal(0, 1, 60)
    z = (ours - theirs).mean() / math.sqrt(((ours - theirs) ** 2).mean() / 60)
    by_normal = math.erfc(abs(z) / math.sqrt(2))
    found = permutation_test(ours, theirs, samples=20_000)
    assert found == pytest.approx(by_normal, abs=0.02)
    assert found == permutation_test(ours, theirs, samples=20_000)


def test_a_drawn_p_is_never_0():
    assert permutation_test([1.0] * 50, [0.0] * 50, samples=99) == 1 / 100


@pytest.mark.parametrize(
    ("ours", "theirs", "samples", "says"),
    [
        ([], [], 10, "no questions"),
        ([1.0], [1.0, 0.0], 10, "got 1 and 2"),
        ([1.0], [1.0], 0, "got 0"),
        ([math.inf], [1.0], 10, "finite"),
    ],
)
def test_what_cannot_be_tested_is_refused(ours, theirs, samples, says):
    with pytest.raises(InputError, match=says):
        permutation_test(ours, theirs, samples=samples)
