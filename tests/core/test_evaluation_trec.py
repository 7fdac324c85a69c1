"""Gold passages and rankings go to TREC files and back, and to ranx."""

import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import InputError, MissingDependencyError
from hippo_core.evaluation import read_qrels, read_run, to_ranx, write_qrels, write_run

ids = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=6).filter(
    lambda text: text.split() == [text]
)
rankings = st.dictionaries(ids, st.lists(ids, unique=True, min_size=1, max_size=30), max_size=5)


@given(run=rankings)
def test_a_run_is_read_back_in_its_order(tmp_path_factory, run):
    path = tmp_path_factory.mktemp("trec") / "run.txt"
    write_run(run, path)
    assert read_run(path) == {question: tuple(ranked) for question, ranked in run.items()}


@given(gold=rankings)
def test_gold_passages_are_read_back(tmp_path_factory, gold):
    path = tmp_path_factory.mktemp("trec") / "qrels.txt"
    write_qrels(gold, path)
    assert read_qrels(path) == {question: tuple(sorted(p)) for question, p in gold.items()}


def test_the_files_have_trecs_columns_and_scores_that_fall(tmp_path):
    write_run({"q1": ["b", "a"]}, tmp_path / "run", name="ours")
    write_qrels({"q1": {"a"}}, tmp_path / "qrels")
    assert (tmp_path / "run").read_text() == (
        "q1 Q0 b 1 1.000000000 ours\nq1 Q0 a 2 0.500000000 ours\n"
    )
    assert (tmp_path / "qrels").read_text() == "q1 0 a 1\n"


def test_a_run_is_read_by_score_then_rank_and_gold_by_relevance(tmp_path):
    (tmp_path / "run").write_text("q Q0 c 9 0.1 x\nq Q0 b 2 0.5 x\n\nq\tQ0\ta 1 0.5 x\n")
    (tmp_path / "qrels").write_text("q 0 a 2\nq 0 b 0\nr 0 c -1\n")
    assert read_run(tmp_path / "run") == {"q": ("a", "b", "c")}
    assert read_qrels(tmp_path / "qrels") == {"q": ("a",), "r": ()}


@pytest.mark.parametrize("id_", ["two words", "a\tb", "", " a", "a\u2028b"])
def test_an_id_that_a_file_cannot_hold_is_refused(tmp_path, id_):
    for write, value in (
        (write_qrels, {id_: ["p"]}),
        (write_qrels, {"q": [id_]}),
        (write_run, {id_: ["p"]}),
        (write_run, {"q": [id_]}),
    ):
        with pytest.raises(InputError, match="give it another id"):
            write(value, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_passage_that_is_ranked_twice_is_refused(tmp_path):
    with pytest.raises(InputError, match="twice"):
        write_run({"q": ["a", "a"]}, tmp_path / "file")


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (read_run, "q Q0 a 1 0.5 x\nq Q0 a 1\n", "line 2: must have 6 columns, got 4"),
        (read_run, "q Q0 a first 0.5 x\n", "line 1: rank must be a number, got 'first'"),
        (read_run, "q Q0 a 1 nan x\n", "line 1: score must be a number, got 'nan'"),
        (read_qrels, "q 0 a yes\n", "line 1: relevance must be a number, got 'yes'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, read, text, says):
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=says):
        read(tmp_path / "file")


def test_ranx_gets_gold_and_each_run_over_the_same_questions(monkeypatch):
    double = SimpleNamespace(Qrels=lambda qrels: qrels, Run=lambda run, name: (name, run))
    monkeypatch.setitem(sys.modules, "ranx", double)
    qrels, runs = to_ranx({"q 1": ("a",), "q2": ("b",)}, {"ours": {"q 1": ["b", "a"], "x": ["c"]}})
    assert qrels == {"q 1": {"a": 1}, "q2": {"b": 1}}
    assert runs == [("ours", {"q 1": {"b": 1, "a": 0.5}, "q2": {}})]


def test_without_ranx_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ranx", None)
    with pytest.raises(MissingDependencyError, match=r"hippo-core\[ranx\]"):
        to_ranx({}, {})
