"""What parsing promises of any reply: values or a ParseError, and both for good reasons.

Every test here is also one of `make fuzz`, which tries many more cases.
"""

import json
from functools import partial
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hippo_core._reply_lists import LIMIT, Parsed
from hippo_core.errors import ParseError
from hippo_core.parsing import parse_answer, parse_choice, parse_entities, parse_triples
from hippo_core.types import Triple

pytestmark = pytest.mark.fuzz

CANDIDATES = 5
PARSERS = {
    "entities": parse_entities,
    "triples": parse_triples,
    "choice": partial(parse_choice, candidates=CANDIDATES),
}
choice_of_none = partial(parse_choice, candidates=0)
every_parser = pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
cases = settings()  # as many as the profile says: make fuzz tries 10,000

# -- replies ---------------------------------------------------------------------------------------

WORDS = st.text(st.sampled_from("ab c\"\\{[]},:'`<é漢🦛"), min_size=1, max_size=6).map(
    lambda text: f"x{text}x"
)
CLEAN = WORDS.filter(lambda text: text == " ".join(text.split()))
CLEAN_TRIPLES = st.lists(st.builds(Triple, CLEAN, CLEAN, CLEAN), max_size=6, unique=True)

PIECES = st.sampled_from(
    [
        *"[]{}()\"'`\\:,.-/#*“”\n 17é",
        "```json", "~~~", "<think>", "</think>", "null", "true", "None", "NaN", "1e999", "\\u00",
        '"triples":', '"named_entities":', '{"keep":', '["A","r","B"]', '"A"', "'A'", "//", "...",
        "Answer:", "\x00cut", "\ud800", '{"subject":"A","relation":"r","object":"B"}', "[{", "}]",
    ]
)  # fmt: skip
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
SOUP = st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join)
KEYS = st.sampled_from(
    ["triples", "named_entities", "keep", "name", "subject", "relation", "object", "head", "tail"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner),
    max_leaves=20,
)
RECORDS = CLEAN_TRIPLES.map(lambda triples: [t._asdict() for t in triples])
VALID = st.one_of(
    CLEAN_TRIPLES.map(lambda triples: {"triples": triples}),
    RECORDS.map(lambda records: {"triples": records}),
    CLEAN_TRIPLES,
    RECORDS,
    st.lists(CLEAN, max_size=6).map(lambda names: {"named_entities": names}),
    st.lists(st.integers(-1, 9), max_size=6).map(lambda numbers: {"keep": numbers}),
)
REPLIES = st.builds(
    json.dumps, VALID, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 2])
)
FRAMES = st.sampled_from(
    [
        "{}",
        "```json\n{}\n```",
        "Sure!\n{}",
        "~~~\n{}",
        "<think>hm</think>{}",
        '{"output": {}}',
        "[{}]",
    ]
)
PLACE = st.integers(0, 400)


@st.composite
def spoilt(draw):
    """A valid reply with spans deleted, doubled and inserted, cut off, and wrapped."""
    reply = draw(REPLIES)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(PLACE) % (len(reply) + 1)
        end = min(len(reply), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["delete", "insert", "double", "cut", "wrap"])):
            case "delete":
                reply = reply[:start] + reply[end:]
            case "insert":
                reply = reply[:start] + draw(PIECES) + reply[start:]
            case "double":
                reply = reply[:end] + reply[start:]
            case "cut":
                reply = reply[:start]
            case "wrap":
                reply = draw(FRAMES).replace("{}", reply)
    return reply


# -- values or ParseError --------------------------------------------------------------------------


def read_or_refuse(reply: str) -> None:
    for parse, truncated in product((*PARSERS.values(), choice_of_none), (False, True)):
        try:
            parsed = parse(reply, truncated=truncated)
        except ParseError:
            continue
        check(parsed, 0 if parse is choice_of_none else CANDIDATES)
    for label in ("Answer", "答案"):
        try:
            assert parse_answer(reply, label=label)
        except ParseError:
            pass


def check(parsed: Parsed, candidates: int) -> None:
    assert len(set(parsed.value)) == len(parsed.value) <= LIMIT
    assert all(times > 0 for times in parsed.dropped.values())
    assert isinstance(parsed.repaired, bool)
    for item in parsed.value:
        if isinstance(item, int):
            assert 0 <= item < candidates
        for text in [item] if isinstance(item, str) else item if isinstance(item, Triple) else []:
            assert type(text) is str
            assert text == " ".join(text.split()) != ""
            assert text.encode()
            assert "\x00" not in text


@cases
@given(ANY_TEXT)
@example("{{1}")
@example("```json(\"0,\n'" * 20)
def test_any_text_is_read_or_refused(reply):
    read_or_refuse(reply)


@cases
@given(SOUP)
def test_any_soup_of_what_replies_are_made_of_is_read_or_refused(reply):
    read_or_refuse(reply)


@cases
@given(ANY_JSON)
@example({"triples": [["A", "r", "\x00cut"]]})
def test_any_json_is_read_or_refused(value):
    read_or_refuse(json.dumps(value))


@cases
@given(spoilt())
def test_any_spoilt_reply_is_read_or_refused(reply):
    read_or_refuse(reply)


# -- what is kept is what was said -----------------------------------------------------------------


@cases
@given(CLEAN_TRIPLES, st.booleans(), st.sampled_from([None, 2]))
def test_what_json_writes_is_read_back(triples, ascii_only, indent):
    for written in (triples, [t._asdict() for t in triples]):
        reply = json.dumps({"triples": written}, ensure_ascii=ascii_only, indent=indent)
        assert parse_triples(reply) == Parsed(tuple(triples), {}, repaired=False)
    entities = list(dict.fromkeys(field for triple in triples for field in triple))
    reply = json.dumps({"named_entities": entities}, ensure_ascii=ascii_only, indent=indent)
    assert parse_entities(reply) == Parsed(tuple(entities), {}, repaired=False)


@cases
@given(st.lists(st.lists(st.none() | CLEAN, max_size=5), max_size=8))
def test_every_item_is_kept_or_counted(items):
    whole = Triple("A", "r", "B")
    parsed = parse_triples(json.dumps({"triples": [*items, whole]}))
    assert len(parsed.value) + sum(parsed.dropped.values()) == len(items) + 1


@cases
@given(st.lists(st.lists(st.none() | CLEAN | st.lists(CLEAN, max_size=2), max_size=5), max_size=8))
def test_a_field_is_never_shifted(items):
    try:
        kept = parse_triples(json.dumps({"triples": items})).value
    except ParseError:
        return
    threes = [item for item in items if len(item) == 3]
    for triple in kept:
        assert any(
            all(
                f == g or (isinstance(g, list) and f in g)
                for f, g in zip(triple, item, strict=True)
            )
            for item in [*threes, *(inner for item in items for inner in item if inner)]
            if len(item) == 3 and not isinstance(item, str)
        )


@cases
@given(CLEAN_TRIPLES, st.booleans(), st.data())
def test_wherever_a_reply_is_cut_what_is_left_was_there(triples, ascii_only, data):
    reply = json.dumps({"triples": triples}, ensure_ascii=ascii_only)
    end = data.draw(st.integers(0, len(reply)))
    try:
        kept = parse_triples(reply[:end], truncated=True).value
    except ParseError:
        kept = ()
    assert kept == tuple(triples[: len(kept)])
    whole = sum(len(json.dumps(triples[:n])) <= end - 12 for n in range(1, len(triples) + 1))
    assert not ascii_only or len(kept) >= whole - 1


PROSE = st.text(st.characters(exclude_characters="[]{}<"), max_size=40)


@every_parser
@cases
@given(VALID.map(json.dumps), PROSE, PROSE, st.sampled_from(["", "```", "```json", "~~~", "`"]))
def test_what_stands_around_json_does_not_matter(parse, reply, before, after, fence):
    framed = f"{before}\n{fence}\n{reply}\n{fence}\n{after}"
    assert outcome(parse, framed) == outcome(parse, reply)


def outcome(parse, reply):
    try:
        return parse(reply)
    except ParseError as error:
        return error.complaint


WRITTEN = {
    "entities": lambda value: {"named_entities": value},
    "triples": lambda value: {"triples": value},
    "choice": lambda value: {"keep": [position + 1 for position in value]},
}


@pytest.mark.parametrize("kind", PARSERS)
@cases
@given(SOUP | ANY_JSON.map(json.dumps) | spoilt() | REPLIES)
def test_what_was_read_is_read_the_same_when_it_is_written_again(kind, reply):
    try:
        value = PARSERS[kind](reply).value
    except ParseError:
        return
    again = json.dumps(WRITTEN[kind](value), ensure_ascii=False)
    assert PARSERS[kind](again) == Parsed(value, {}, repaired=False)
