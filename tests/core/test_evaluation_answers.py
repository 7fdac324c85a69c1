"""Exact match and F1, on answers worked out by hand."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import InputError
from hippo_core.evaluation import exact_match, f1, normalise_answer

words = st.sampled_from(["the", "a", "Ghent", "ghent", "city", "of", "yes", "no", "noanswer", "!"])
texts = st.lists(words, max_size=5).map(" ".join) | st.text(max_size=12)
accepted = st.lists(texts, min_size=1, max_size=4)
rules = st.sampled_from(["musique", "hotpotqa"])


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Ister", "ister"),
        ("a  cat, an owl;  the theory", "cat owl theory"),
        ("U.S.A.", "usa"),
        ("A-Team", "ateam"),  # punctuation goes first: what it joins is one word, and no article
        ("Gent–Brugge", "gent–brugge"),  # not an ASCII dash
        ("The", ""),
        ("", ""),
    ],
)
def test_answers_are_normalised_as_squad_does(text, normal):
    assert normalise_answer(text) == normal


@given(text=st.text(max_size=30))
def test_normalising_leaves_no_ascii_punctuation_and_single_spaces(text):
    normal = normalise_answer(text)
    assert not set(normal) & set(string.punctuation)
    assert normal == " ".join(normal.split())


@pytest.mark.parametrize(
    ("answer", "right", "em", "score"),
    [
        ("Danube", ["Ister", "the Danube"], 1, 1),
        ("the river Danube", ["Danube"], 0, 2 / 3),
        ("red red wine", ["red wine wine"], 0, 2 / 3),  # each word as often as both have it
        ("Oslo", ["Bergen"], 0, 0),
        ("", ["Bergen"], 0, 0),
        ("the", ["a"], 1, 1),  # nothing is left of either
    ],
)
def test_em_and_f1_by_hand(answer, right, em, score):
    assert exact_match(answer, right) == em
    assert f1(answer, right) == pytest.approx(score)


def test_only_hotpotqa_holds_yes_and_no_apart_from_longer_answers():
    assert f1("no, in Rome", ["no"]) == 0.5
    assert f1("no, in Rome", ["no"], rule="hotpotqa") == 0
    assert f1("in Rome no", ["Rome"], rule="hotpotqa") == pytest.approx(0.5)
    assert f1("No.", ["no"], rule="hotpotqa") == 1


@given(answer=texts, right=accepted, rule=rules)
def test_measures_are_bounded_and_em_is_at_most_f1(answer, right, rule):
    assert 0 <= exact_match(answer, right) <= f1(answer, right, rule=rule) <= 1


@given(answer=texts, right=accepted, rule=rules, data=st.data())
def test_the_order_of_aliases_does_not_matter(answer, right, rule, data):
    shuffled = data.draw(st.permutations(right))
    assert exact_match(answer, right) == exact_match(answer, shuffled)
    assert f1(answer, right, rule=rule) == f1(answer, shuffled, rule=rule)


@given(one=texts, other=texts, rule=rules)
def test_measures_are_symmetric(one, other, rule):
    assert exact_match(one, [other]) == exact_match(other, [one])
    assert f1(one, [other], rule=rule) == f1(other, [one], rule=rule)


@given(answer=texts, right=accepted, alias=texts, rule=rules)
def test_one_more_alias_takes_nothing_away(answer, right, alias, rule):
    assert exact_match(answer, [*right, alias]) >= exact_match(answer, right)
    assert f1(answer, [*right, alias], rule=rule) >= f1(answer, right, rule=rule)


@given(answer=texts, rule=rules)
def test_an_answer_matches_itself(answer, rule):
    assert exact_match(answer, [answer]) == f1(answer, [answer], rule=rule) == 1


def test_a_single_accepted_answer_is_not_read_letter_by_letter():
    assert exact_match("Ghent", "Ghent") == 1


@pytest.mark.parametrize("measure", [exact_match, f1])
def test_without_an_accepted_answer_there_is_nothing_to_measure(measure):
    with pytest.raises(InputError, match="no accepted answer"):
        measure("Ghent", [])
