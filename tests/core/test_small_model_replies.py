"""What a chat model of 135 million parameters said to our prompts, word for word where not cut."""

import pytest

from hippo_core import ParseError, Triple
from hippo_core.parsing import parse_entities, parse_triples

FENCE = "\n```"  # the end of a code fence that never began


@pytest.mark.parametrize(
    ("reply", "entities"),
    [
        (
            '{"named_entities": ["Bartered Bride", "Bedrich Smetana", "1866", "Prague", '
            '"Bedrich Smetana", "1866", "Bedrich Smetana", "Bedrich Sme',
            ("Bartered Bride", "Bedrich Smetana", "1866", "Prague"),
        ),
        (
            '{"name": "Radio City", "description": "The first private FM station of India.", '
            '"updated_at": "2022-01-03 14:22:58"}',
            ("Radio City",),
        ),
        (
            '{"name": "Vltava", "description": "The Vltava is the longest river of the Czech Rep',
            ("Vltava",),
        ),
    ],
)
def test_entities_that_were_repeated_until_the_limit_or_described_are_found(reply, entities):
    assert parse_entities(reply, truncated=not reply.endswith("}")).value == entities


def test_triples_before_the_end_of_a_fence_are_found_each_once():
    reply = (
        '{"triples": [["Radio City", "is a", "Indian FM station"], ["Radio City", "started on", '
        '"3 July 2001"], ["Radio City", "is a", "Indian FM station"]]}' + FENCE
    )
    parsed = parse_triples(reply)
    assert parsed.value == (
        Triple("Radio City", "is a", "Indian FM station"),
        Triple("Radio City", "started on", "3 July 2001"),
    )
    assert parsed.dropped == {"repeated": 1}


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (
            '{"triples": [["Bartered Bride", "Bedrich Smetana", "1866", "Prague"]}]' + FENCE,
            "4 fields: 1",
        ),
        (
            '{"triples": [["Marie Curie", "1867", "Warsaw", "Pierre Curie", "1956", "2019", '
            '"Stockholm", "1998", "1999", "1999"]}' + FENCE,
            "many fields: 1",
        ),
        (
            '{"triples": [["Bedrich Smetana", "Smetana", "Smetana", "Smetana", "Smet',
            "cut off: 1",
        ),
    ],
)
def test_a_row_of_names_is_no_triple_and_no_empty_success(reply, complaint):
    with pytest.raises(ParseError, match=complaint):
        parse_triples(reply, truncated=reply.endswith("Smet"))


@pytest.mark.parametrize(
    "reply",
    [
        '{"triples": [["subject", "relation", "object"]]}',
        '{"triples": [["Subject", "Predicate", "Object"], ["none", "none", "none"]]}',
        '{"triples": [["...", "...", "..."]]}',
        '[["…", "…", "…"]]',
    ],
)
def test_the_shape_that_was_asked_for_is_no_answer(reply):
    with pytest.raises(ParseError, match="echo of the shape: 1"):
        parse_triples(reply)


def test_the_shape_of_the_entities_is_no_answer_either():
    with pytest.raises(ParseError, match="echo of the shape: 2"):
        parse_entities('{"named_entities": ["...", "..."]}')


def test_an_echo_beside_an_answer_is_dropped():
    reply = '{"triples": [["subject", "relation", "object"], ["Ada", "wrote", "Notes"]]}'
    assert parse_triples(reply).value == (Triple("Ada", "wrote", "Notes"),)
