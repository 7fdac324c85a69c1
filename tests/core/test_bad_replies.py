"""What a memory makes of a model's bad replies: never an empty success, never another's loss."""

import json

import pytest

from hippo_core import (
    Extraction,
    IndexingError,
    Passage,
    PermanentModelError,
    RetrievalPath,
)
from hippo_core.testing import ScriptedChatModel

TEXTS = [f"Ada wrote note {i}." for i in range(5)]
NAMES = '{"named_entities": ["Ada"]}'


def answering(by_text, otherwise='{"triples": []}'):
    """A model that replies to a passage's triples by a part of its text, and names Ada."""

    def reply(messages):
        asked = messages[3].content
        if "Entities:" not in asked:
            return NAMES
        return next((r for part, r in by_text.items() if part in asked), otherwise)

    return ScriptedChatModel(reply)


def whole(i):
    return json.dumps({"triples": [["Ada", "wrote", f"note {i}"]]})


BAD = {
    "another format": "1) Ada -> wrote -> note",
    "nothing": "",
    "only thinking": "<think>Ada wrote...",
    "not serialisable": '{"triples": {"a": 1}}',
    "an ellipsis": "...",
    "a refusal": "I am sorry, I cannot do that.",
    "code": '__import__("os").system("true")',
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_replies_that_cannot_be_read_are_all_reported_and_the_others_are_indexed(bad, open_memory):
    replies = {f"note {i}": whole(i) for i in range(3)}
    memory = open_memory(answering(replies, otherwise=bad))
    report = memory.add([Passage(text, id=text) for text in TEXTS], on_error="skip")
    assert set(report.failed) == set(TEXTS[3:])
    assert memory.stats().triples == 3
    assert memory.stats().by_status == {"ok": 3, "failed": 2}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_model_whose_every_reply_is_in_another_format_makes_no_silent_empty_graph(
    bad, open_memory
):
    memory = open_memory(answering({}, otherwise=bad))
    with pytest.raises(IndexingError) as error:
        memory.add(TEXTS)
    assert len(error.value.failed) == len(TEXTS)
    assert len(memory) == 0


def test_a_bad_reply_is_not_kept_and_a_good_one_of_the_next_add_is(open_memory):
    memory = open_memory(answering({}, otherwise="Well."))
    memory.add([Passage(TEXTS[0], id="a")], on_error="skip")
    good = answering({"note 0": whole(0)})
    assert not memory.add([Passage(TEXTS[0], id="a")], chat_model=good).failed
    assert memory.stats().triples == 1
    again = answering({})
    memory.add([Passage(TEXTS[0], id="a")], chat_model=again)
    assert again.calls == []


def test_a_corpus_that_states_nothing_is_indexed_reported_and_ranked_by_cosine(open_memory):
    memory = open_memory(answering({}))
    report = memory.add(TEXTS)
    assert len(report.empty) == len(TEXTS)
    found = memory.retrieve("Who wrote note 3?", chat_model=ScriptedChatModel([]))
    assert found.path == RetrievalPath.DENSE_NOTHING_LINKED
    assert found.passages[0].passage.text == TEXTS[3]


@pytest.mark.parametrize("keep", ['{"keep": [1]}', '{"keep": []}', "Well."])
def test_a_passage_that_states_nothing_is_among_those_found(keep, open_memory):
    memory = open_memory(ScriptedChatModel(lambda _: keep))
    memory.add_extracted(
        [
            (
                Passage("Ada wrote notes.", id="ada"),
                Extraction(triples=[("Ada", "wrote", "notes")]),
            ),
            (Passage("Hippos sleep in cool water.", id="hippo"), Extraction()),
            (Passage("Bob met Eve.", id="bob"), Extraction(triples=[("Bob", "met", "Eve")])),
        ]
    )
    found = memory.retrieve("Where do hippos sleep?", k=3)
    assert {hit.passage.id for hit in found} == {"ada", "hippo", "bob"}
    assert all(hit.score >= 0 for hit in found if found.path.used_graph)
    if keep == '{"keep": []}':
        assert found.passages[0].passage.id == "hippo"


def test_a_triple_that_joins_a_phrase_to_itself_lifts_nothing(open_memory):
    # Equal as keys, or by an alias; the same pair again, and the other way round, is one edge.
    items = [
        (Passage("A.", id="a"), Extraction(triples=[("Ada", "is", "ADA"), ("Ada", "r", "Bob")])),
        (Passage("B.", id="b"), Extraction(triples=[("Bob", "r2", "Ada"), ("Ada", "r", "Bob")])),
        (Passage("C.", id="c"), Extraction(triples=[("Ada", "alias of", "Countess")])),
    ]
    memory = open_memory()
    memory.add_extracted(items)
    assert memory.stats().relation_edges == 2
    memory.aliases = [["Ada", "Countess"]]
    assert memory.stats().relation_edges == 1
    assert set(memory._index.snapshot().graph.phrases) == {"ada", "bob"}


def test_a_judge_that_fails_is_said_and_not_taken_for_nothing_found(open_memory):
    def down(_messages):
        raise PermanentModelError("500: down")

    memory = open_memory(ScriptedChatModel(down))
    memory.add_extracted([(Passage("A.", id="a"), Extraction(triples=[("Ada", "met", "Bob")]))])
    found = memory.retrieve("Whom did Ada meet?")
    assert found.path == RetrievalPath.UNFILTERED_FAILED
    assert "500: down" in found.detail
    assert any(linked.kept for linked in found.triples)
