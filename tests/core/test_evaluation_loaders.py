"""Data sets are read from files of their own formats; the samples are made up here."""

import json

import pytest

from hippo_core import InputError, Passage
from hippo_core.evaluation import (
    Dataset,
    Question,
    load_2wiki,
    load_hipporag,
    load_hotpotqa,
    load_jsonl,
    load_musique,
)

CLOCK = ("Tidal clock", "Zora Quint invented the tidal clock.")
QUINT = ("Zora Quint", "Quint grew up at Velmora. She was born there.")
ISTER = ("Ister", "The Ister flows through Velmora.")


def paragraph(passage, supporting, field="paragraph_text"):
    title, text = passage
    return {"idx": 0, "title": title, field: text, "is_supporting": supporting}


def musique_row(**changes):
    row = {
        "id": "3hop1__7_8_9",
        "question": "Which river flows where the inventor of the tidal clock grew up?",
        "paragraphs": [paragraph(CLOCK, True), paragraph(QUINT, True), paragraph(ISTER, True)],
        "question_decomposition": [{"id": 7}, {"id": 8}, {"id": 9}],
        "answer": "Ister",
        "answer_aliases": ["the Ister", "Danube", "Ister"],
        "answerable": True,
    }
    return {**row, **changes}


def context_row(**changes):
    row = {
        "_id": "5a8b",
        "question": "Where did the inventor of the tidal clock grow up?",
        "answer": "Velmora",
        "type": "bridge",
        "supporting_facts": [["Tidal clock", 0], ["Zora Quint", 0], ["Zora Quint", 1]],
        "context": [
            ["Tidal clock", [CLOCK[1]]],
            ["Zora Quint", ["Quint grew up at Velmora.", " She was born there."]],
            ["Ister", [ISTER[1]]],
        ],
    }
    return {**row, **changes}


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def as_json(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def titles(dataset, ids):
    by_id = {passage.id: passage for passage in dataset.passages}
    return [by_id[id_].title for id_ in ids]


# -- what is read ----------------------------------------------------------------------------------


def test_musique_gives_gold_aliases_and_hops(tmp_path):
    rows = [
        musique_row(),
        musique_row(
            id="other",
            paragraphs=[paragraph(ISTER, True), paragraph(CLOCK, False)],
            question_decomposition=[{}, {}],
        ),
    ]
    dataset = load_musique(jsonl(tmp_path / "m.jsonl", rows))
    first, second = dataset.questions
    assert [p.title for p in dataset.passages] == ["Tidal clock", "Zora Quint", "Ister"]
    assert titles(dataset, first.gold) == ["Tidal clock", "Zora Quint", "Ister"]
    assert titles(dataset, second.gold) == ["Ister"]
    assert first.answers == ("Ister", "the Ister", "Danube")
    assert (first.hops, second.hops) == (3, 2)  # by the id, else by the decomposition
    assert first.answer_rule == "musique"


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (load_hotpotqa, "Quint grew up at Velmora. She was born there."),
        (load_2wiki, "Quint grew up at Velmora.  She was born there."),
    ],
)
def test_a_context_gives_gold_by_title_and_text_as_its_data_set_joins_it(tmp_path, load, text):
    dataset = load(as_json(tmp_path / "c.json", [context_row()]))
    (question,) = dataset.questions
    assert titles(dataset, question.gold) == ["Tidal clock", "Zora Quint"]
    assert (question.hops, question.type, question.answer_rule) == (2, "bridge", "hotpotqa")
    assert dataset.passages[1].text == text


def test_a_passage_has_one_id_in_every_file_and_it_is_the_memorys_own(tmp_path):
    from hippo_core import HippoRAG
    from hippo_core.testing import HashEmbedder, TableOpenIE

    of_musique = load_musique(jsonl(tmp_path / "m.jsonl", [musique_row()]))
    of_hotpotqa = load_hotpotqa(as_json(tmp_path / "h.json", [context_row()]))
    assert {p.id for p in of_musique.passages} == {p.id for p in of_hotpotqa.passages}
    memory = HippoRAG(None, HashEmbedder(), openie=TableOpenIE())
    bare = [Passage(p.text, title=p.title) for p in of_musique.passages]
    assert memory.add(bare).ids == tuple(p.id for p in of_musique.passages)


@pytest.mark.parametrize(
    "asked",
    [
        {"paragraphs": [paragraph(CLOCK, True), paragraph(QUINT, True), paragraph(ISTER, False)]},
        {"paragraphs": [{"title": title, "text": text} for title, text in (CLOCK, QUINT)]},
        {"contexts": [paragraph(CLOCK, True, "text"), paragraph(QUINT, True, "text")]},
        {k: v for k, v in context_row().items() if k in ("context", "supporting_facts")},
    ],
    ids=["MuSiQue", "all support", "contexts", "HotpotQA"],
)
def test_hipporags_files_find_gold_in_their_corpus(tmp_path, asked):
    corpus = [{"title": title, "text": text, "idx": 0} for title, text in (ISTER, QUINT, CLOCK)]
    row = {"question": "Where did she grow up?", "answer": ["Velmora"], "id": "2hop__1", **asked}
    dataset = load_hipporag(
        as_json(tmp_path / "q.json", [row]), as_json(tmp_path / "corpus.json", corpus)
    )
    (question,) = dataset.questions
    assert sorted(titles(dataset, question.gold)) == ["Tidal clock", "Zora Quint"]
    assert (question.id, question.hops, question.answer_rule) == ("2hop__1", 2, "musique")


def test_hipporags_corpus_may_be_sentences_by_title(tmp_path):
    corpus = dict(context_row()["context"])
    dataset = load_hipporag(
        as_json(tmp_path / "q.json", [context_row()]), as_json(tmp_path / "corpus.json", corpus)
    )
    assert titles(dataset, dataset.questions[0].gold) == ["Tidal clock", "Zora Quint"]


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"answer": "x", "answer_aliases": ["y", "x"]}, ("x", "y")),
        ({"gold_ans": "x"}, ("x",)),
        ({"reference": ["x", "y"]}, ("x", "y")),
        (
            {"obj": "x", "o_wiki_title": "w", "possible_answers": ["x", "z"], "o_aliases": "v"},
            ("x", "w", "z", "v"),
        ),
    ],
)
def test_hipporags_answers_are_found_under_each_of_their_names(tmp_path, fields, answers):
    files = as_json(tmp_path / "q.json", [{"question": "?", **fields}])
    dataset = load_hipporag(files, as_json(tmp_path / "c.json", [{"title": "t", "text": "x"}]))
    assert dataset.questions == (Question("0", "?", answers=answers),)


def test_files_of_ones_own_need_little(tmp_path):
    passages = [{"id": "p1", "text": "Ghent lies on the Lys."}, {"text": "x", "title": "t"}]
    questions = [
        {"id": "q1", "question": "Where?", "gold": ["p1"], "answers": "Ghent", "hops": 1},
        {"id": "q2", "question": "Why?"},
    ]
    dataset = load_jsonl(
        jsonl(tmp_path / "q.jsonl", questions), jsonl(tmp_path / "p.jsonl", passages)
    )
    assert dataset.questions == (
        Question("q1", "Where?", ("p1",), ("Ghent",), 1),
        Question("q2", "Why?"),
    )
    assert dataset.passages[0] == Passage("Ghent lies on the Lys.", id="p1")
    assert len(dataset.passages[1].id) == 64


def test_a_line_ends_where_json_lines_end_and_nowhere_else(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('\ufeff{"text": "one\u2028two", "id": "p"}\r\n\n', encoding="utf-8")
    dataset = load_jsonl(jsonl(tmp_path / "q.jsonl", []), path)
    assert [p.text for p in dataset.passages] == ["one\u2028two"]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": None}, "line 2: 'id' is missing"),
        ({"question": 7}, "line 2: 'question' must be a text, got 7"),
        ({"question": "  "}, "line 2: 'question' must not be blank"),
        ({"answer": ["x"]}, "line 2: 'answer' must be a text"),
        ({"answer_aliases": {"a": 1}}, "line 2: 'answer_aliases' must be a list of texts"),
        ({"paragraphs": "p"}, "line 2: 'paragraphs' must be a list"),
        ({"paragraphs": ["p"]}, r"line 2, paragraphs\[0\]: must be an object"),
        ({"paragraphs": [{"title": "t"}]}, r"line 2, paragraphs\[0\]: 'paragraph_text' is missing"),
        ({"paragraphs": [paragraph(CLOCK, "yes")]}, r"'is_supporting' must be true or false"),
        ({"paragraphs": [paragraph(CLOCK, False)]}, "names no passage that supports"),
        ({"answerable": False}, "use the file of answerable questions"),
    ],
)
def test_a_malformed_line_of_musique_is_named(tmp_path, change, says):
    path = jsonl(tmp_path / "m.jsonl", [musique_row(), musique_row(**{"id": "2hop__2", **change})])
    with pytest.raises(InputError, match=f"{path}, {says}" if says.startswith("line") else says):
        load_musique(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"_id": None}, "item 0: '_id' is missing"),
        ({"context": [["t"]]}, r"item 0: 'context\[0\]' must be a title with"),
        (
            {"context": [["t", 3]], "supporting_facts": [["t", 0]]},
            r"context\[0\]: 'sentences' must",
        ),
        ({"supporting_facts": [["Nile", 0]]}, "'supporting_facts' names 'Nile', which is not in"),
        ({"supporting_facts": []}, "names no passage"),
    ],
)
@pytest.mark.parametrize("load", [load_hotpotqa, load_2wiki])
def test_a_malformed_item_of_a_context_is_named(tmp_path, load, change, says):
    with pytest.raises(InputError, match=says):
        load(as_json(tmp_path / "c.json", [context_row(**change)]))


def test_a_gold_passage_that_is_not_in_the_corpus_is_named(tmp_path):
    corpus = as_json(tmp_path / "c.json", [{"title": "Ister", "text": "A river."}])
    with pytest.raises(InputError, match="item 0: its passage 'Tidal clock' is not in"):
        load_hipporag(as_json(tmp_path / "q.json", [musique_row()]), corpus)
    own = jsonl(tmp_path / "p.jsonl", [{"text": "A river.", "id": "p"}])
    asked = jsonl(tmp_path / "q.jsonl", [{"id": "q", "question": "?", "gold": ["z"]}])
    with pytest.raises(InputError, match="line 1: 'gold' names 'z', which is no passage of"):
        load_jsonl(asked, own)


def test_a_misspelt_field_of_a_question_is_named(tmp_path):
    own = jsonl(tmp_path / "p.jsonl", [{"text": "A river.", "id": "p"}])
    asked = jsonl(tmp_path / "q.jsonl", [{"id": "q", "question": "?", "golds": ["p"]}])
    with pytest.raises(InputError, match="line 1: 'golds' is no field here; there are id, .*gold"):
        load_jsonl(asked, own)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1: is not JSON"),
        ("[1]", "line 1: must be an object"),
        ("[" * 100_000, "line 1: is not JSON"),
        ('{"text": "x", "metadata": [1]}', "'metadata' must be an object"),
        ('{"text": "x", "id": "p"}\n{"text": "y", "id": "p"}', "passage 'p' is there 2 times"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, text, says):
    path = tmp_path / "p.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        load_jsonl(jsonl(tmp_path / "q.jsonl", []), path)


def test_what_is_not_utf8_and_what_is_no_list_is_refused(tmp_path):
    path = tmp_path / "h.json"
    path.write_bytes(b'[{"_id": "\xff"}]')
    with pytest.raises(InputError, match=r"h\.json: is not UTF-8 at byte 10"):
        load_hotpotqa(path)
    with pytest.raises(InputError, match="must be a list of objects"):
        load_hotpotqa(as_json(path, {"a": 1}))


@pytest.mark.parametrize("hops", [-1, 1.5, True, "2"])
def test_hops_are_a_number(tmp_path, hops):
    asked = jsonl(tmp_path / "q.jsonl", [{"id": "q", "question": "?", "hops": hops}])
    with pytest.raises(InputError, match="line 1: 'hops' must be a whole number"):
        load_jsonl(asked, jsonl(tmp_path / "p.jsonl", [{"text": "x"}]))


def test_questions_of_one_id_are_refused():
    with pytest.raises(InputError, match="question 'q' is there 2 times"):
        Dataset((), (Question("q", "?"), Question("q", "!")))
