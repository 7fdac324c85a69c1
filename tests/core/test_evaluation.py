"""The measures of the papers, on rankings worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import InputError
from hippo_core.evaluation import all_recall_at_k, recall_at_k, recall_table

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
