"""The path-finding questions: many paths lead from each of their names, and one joins them."""

import json
import os
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
FEWEST_PASSAGES = 150
FEWEST_QUESTIONS = 12
FEWEST_DISTRACTORS = 3  # on each side of a question


def problems(passages, questions):
    """Say what is wrong with a corpus and its questions."""
    texts = {p["id"]: f"{p['title']}\n{p['text']}".casefold() for p in passages}
    found = [f"two of {id_}" for id_ in repeated(passages) + repeated(questions)]
    if len(texts) < FEWEST_PASSAGES:
        found.append(f"only {len(texts)} passages")
    if len(questions) < FEWEST_QUESTIONS:
        found.append(f"only {len(questions)} questions")
    names = {name.casefold() for q in questions for name in named(q)}
    naming = {id_: text for id_, text in texts.items() if any(name in text for name in names)}
    for question in questions:
        found += [f"{question['id']}: {p}" for p in problems_of(question, texts, naming)]
    return found


def named(question):
    yield question["answer"]
    for side in question["sides"]:
        yield from side["distractors"]


def repeated(rows):
    return [id_ for id_, times in Counter(row["id"] for row in rows).items() if times > 1]


def problems_of(question, texts, naming):
    answer, needs, sides = question["answer"], question["needs"], question["sides"]
    if len(sides) < 2 or len(set(needs)) != len(sides):
        yield "not one needed passage on each of several sides"
    if answer.casefold() in question["question"].casefold():
        yield "the question names the answer"
    for need, side in zip(needs, sides, strict=False):
        yield from problems_of_side(need, side, answer, texts, naming)
    anchors = [side["anchor"].casefold() for side in sides]
    for id_, text in texts.items():
        if all(anchor in text for anchor in anchors):
            yield f"{id_} holds all of the anchors"
    joined = [{answer, *side["distractors"]} for side in sides]
    if (both := set.intersection(*joined)) != {answer}:
        yield f"joined on all sides: {sorted(both)}"


def problems_of_side(need, side, answer, texts, naming):
    anchor, distractors = side["anchor"].casefold(), side["distractors"]
    if len(distractors) < FEWEST_DISTRACTORS:
        yield f"only {len(distractors)} distractors beside {side['anchor']}"
    for name, id_ in {answer: need, **distractors}.items():
        if id_ not in texts:
            yield f"no passage {id_}"
        elif name.casefold() not in texts[id_] or anchor not in texts[id_]:
            yield f"{id_} does not join {name} to {side['anchor']}"
    joined = {id_ for id_, text in naming.items() if anchor in text}
    if unlisted := joined - {need, *distractors.values()}:
        yield f"also name {side['anchor']}: {sorted(unlisted)}"


def rows(name):
    path = FOLDER / f"path_finding_{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def passages():
    return rows("corpus")


@pytest.fixture
def questions():
    return rows("questions")


def test_one_path_among_many_joins_the_names_of_each_question(passages, questions):
    assert problems(passages, questions) == []


def test_the_questions_are_of_several_domains_and_some_join_three_names(questions):
    anchors = {side["anchor"] for question in questions for side in question["sides"]}
    assert len(anchors) >= 5 * 4
    assert any(len(question["sides"]) == 3 for question in questions)


def needs_what_is_not_there(passages, questions):
    questions[0]["needs"][0] = "nowhere"


def needs_another_entitys_passage(passages, questions):
    questions[0]["needs"][0] = questions[1]["needs"][0]


def needs_one_passage_only(passages, questions):
    del questions[0]["needs"][1]


def has_few_distractors(passages, questions):
    side = questions[0]["sides"][1]["distractors"]
    while len(side) >= FEWEST_DISTRACTORS:
        side.popitem()


def has_a_second_answer(passages, questions):
    left, right = (side["distractors"] for side in questions[0]["sides"])
    name = next(iter(left))
    right[name] = next(iter(right.values()))
    for passage in passages:
        if passage["id"] == right[name]:
            passage["text"] += f" So did {name}."


def is_answered_by_one_passage(passages, questions):
    anchors = [side["anchor"] for side in questions[0]["sides"]]
    passages[100]["text"] += " ".join(anchors)


def has_a_distractor_that_nobody_listed(passages, questions):
    passages[100]["text"] += questions[0]["sides"][0]["anchor"]


def names_its_answer(passages, questions):
    questions[0]["question"] += questions[0]["answer"]


def repeats_a_passage(passages, questions):
    passages.append(passages[0])


def repeats_a_question(passages, questions):
    questions.append(questions[0])


def is_small(passages, questions):
    del passages[FEWEST_PASSAGES - 1 :]


def asks_little(passages, questions):
    del questions[FEWEST_QUESTIONS - 1 :]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (needs_what_is_not_there, "p01: no passage nowhere"),
        (needs_another_entitys_passage, "does not join"),
        (needs_one_passage_only, "not one needed passage on each"),
        (has_few_distractors, "only 2 distractors"),
        (has_a_second_answer, "joined on all sides"),
        (is_answered_by_one_passage, "holds all of the anchors"),
        (has_a_distractor_that_nobody_listed, "also name"),
        (names_its_answer, "names the answer"),
        (repeats_a_passage, "two of"),
        (repeats_a_question, "two of p01"),
        (is_small, "only 149 passages"),
        (asks_little, "only 11 questions"),
    ],
)
def test_a_set_with_a_fault_is_refused(passages, questions, spoil, says):
    spoiled = deepcopy(passages), deepcopy(questions)
    spoil(*spoiled)
    assert any(says in problem for problem in problems(*spoiled))


@pytest.mark.slow
def test_the_benchmark_explains_every_question_and_scores_every_system(tmp_path):
    pytest.importorskip("spacy", reason="needs hippo-core[local]")
    pytest.importorskip("onnxruntime", reason="needs hippo-core[local]")
    out = tmp_path / "path_finding.json"
    command = [sys.executable, str(FOLDER / "path_finding.py"), "--out", str(out)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, env=env, timeout=300, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    asked, needed = rows("questions"), sum(len(row["needs"]) for row in rows("questions"))
    assert done.stdout.count("default went by") == len(asked)
    assert done.stdout.count(", brought up by ") + done.stdout.count(": not among") == needed
    scored = {row["system"]: row for row in json.loads(out.read_text(encoding="utf-8"))}
    assert {"dense", "hipporag1", "hipporag2_unfiltered", "default"} < set(scored)
    assert all(0 < row["recall@5"] <= row["recall@10"] <= 100 for row in scored.values())
