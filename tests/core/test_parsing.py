import json
import sys
import time
from pathlib import Path

import pytest

from hippo_core._json_scan import json_values
from hippo_core._reply_lists import LIMIT, Parsed
from hippo_core.errors import ParseError
from hippo_core.parsing import (
    parse_answer,
    parse_choice,
    parse_entities,
    parse_triples,
)
from hippo_core.types import Triple

A, C = Triple("A", "r", "B"), Triple("C", "r", "D")
PARSERS = {
    "entities": parse_entities,
    "triples": parse_triples,
    "choice": lambda reply: parse_choice(reply, candidates=5),
}
every_parser = pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)


def triples_of(reply: str, **options: bool) -> tuple[Triple, ...]:
    return parse_triples(reply, **options).value


def chosen(reply: str, candidates: int = 3) -> tuple[int, ...]:
    return parse_choice(reply, candidates).value


# What stands around the JSON does not matter.


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "Sure!\n```json\n{}\n```",
        "```JSON\n{}\n```\nLet me know if that helps.",
        "~~~\n{}\n~~~",
        "```json\n{}",
        "````\n```json\n{}\n```\n````",
        "The passage [see note 1] says (roughly):\n\n{}\n\nI hope [that] it's {{fine}}.",
        "\ufeff\n\t {} \r\n",
    ],
)
def test_fences_and_chatter_do_not_matter(frame):
    def framed(value: object) -> str:
        return frame.replace("{}", json.dumps(value))

    assert parse_entities(framed({"named_entities": ["Ada"]})).value == ("Ada",)
    assert triples_of(framed({"triples": [list(A)]})) == (A,)
    assert chosen(framed({"keep": [2]})) == (1,)


def test_the_first_value_with_the_wanted_key_counts():
    reply = (
        'Given [["x", "y", "z"]] and {"note": 1}: {"triples": [["A", "r", "B"]]} {"triples": []}'
    )
    assert triples_of(reply) == (A,)


def test_a_value_that_is_json_goes_before_one_that_needs_repair():
    assert triples_of('{"triples": [["x" "y" "z"]]} {"triples": [["A", "r", "B"]]}') == (A,)


def test_thinking_aloud_is_no_answer():
    reply = '<think>maybe {"x":1}?</think>{"triples":[["A","r","B"]]}'
    assert triples_of(reply) == (A,)
    for tag in ("think", "THINKING", "Reasoning"):
        assert triples_of(f'<{tag}>{{"triples": []}}</{tag}>\n[["A","r","B"]]') == (A,)
    assert triples_of('I see {"triples": []}</think>[["A","r","B"]]') == (A,)
    assert triples_of('<think>is <think> a tag?</think>[["A","r","B"]]') == (A,)


@every_parser
@pytest.mark.parametrize("reply", ["<think>", '<think>{"triples": [["A","r","B"]], "keep": [1]}'])
def test_a_reply_that_ends_inside_its_thinking_cannot_be_read(parse, reply):
    with pytest.raises(ParseError, match="thinking"):
        parse(reply)


def test_a_tag_in_a_value_is_data():
    assert triples_of('[["<think>", "is", "a tag"]]') == (Triple("<think>", "is", "a tag"),)


# What is nearly JSON is repaired.


@pytest.mark.parametrize(
    "reply",
    [
        '{"triples":[["A","r","B"] ["C","r","D"]]}',
        "{triples:[['A','r','B'],['C','r','D']]}",
        '{"triples":[["A","r","B"],["C","r","D"],]}',
        '{"triples":[["A","r","B"],["C","r","D"]]]}',
        '{"triples":[["A","r","B"],["C","r","D"]}',
        '{"triples":[["A","r","B"],["C","r","D"]} Hope, this helps',
        "{'triples': [('A', 'r', 'B'), ('C', 'r', 'D')]}",
        "{“triples”: [[“A”, “r”, “B”], [“C”, “r”, “D”]]}",
    ],
)
def test_slips_of_syntax_are_repaired_and_said(reply):
    assert parse_triples(reply) == Parsed((A, C), {}, repaired=True)


def test_a_line_break_inside_a_string_is_no_slip():
    assert parse_triples('[["A\nB", "r", "C"]]') == Parsed((Triple("A B", "r", "C"),), {}, False)


@every_parser
@pytest.mark.parametrize("reply", ["", "\n", " \t", "...", "I can't [sorry] do {that}."])
def test_an_empty_or_chatty_reply_cannot_be_read(parse, reply):
    with pytest.raises(ParseError):
        parse(reply)


@every_parser
@pytest.mark.parametrize("reply", ['{"foo": 1}', '{"foo": []}', '"hello"', "5", "true", "{}"])
def test_json_of_another_shape_cannot_be_read(parse, reply):
    with pytest.raises(ParseError) as error:
        parse(reply)
    assert error.value.excerpt == reply


# A cut reply gives what is whole.


@pytest.mark.parametrize(
    ("reply", "cut"),
    [
        ('{"triples":[["A","r","B"],["C","r', 1),
        ('{"triples":[["A","r","B"],["C","r","D"', 1),
        ('{"triples":[["A","r","B"],["C", "r", ["D", "E', 1),
        ('[{"subject":"A","relation":"r","object":"B"},{"subject":"C","rel', 1),
        (
            '[{"subject":"A","relation":"r","object":"B"},{"subject":"C","relation":"r","object":"D',
            1,
        ),
        (
            '[{"subject":"A","relation":"r","object":"B"},{"subject":"C","relation":"r","object":["D",',
            1,
        ),
        ('{"triples":[["A","r","B"],["C","r",["D"]', 1),
        ('{"triples":[["A","r","B"]', 1),
        ('{"triples":[["A","r","B"],', 1),
        ('{"output":{"triples":[["A","r","B"]]', 0),
        ('{"triples":[["A","r","B"]],"note":"tha', 0),
        ('{"triples":[["A","r","B"]]} I hope th', 0),
        ("{'triples':[['A','r','B'],['C','r','D", 1),
    ],
)
def test_a_cut_reply_keeps_whole_items_and_no_half_string(reply, cut):
    parsed = parse_triples(reply, truncated=True)
    assert parsed.value == (A,)
    assert parsed.dropped == ({"cut off": 1} if cut else {})


def test_a_half_string_is_never_kept_even_where_nobody_said_that_the_reply_was_cut():
    assert parse_triples('[["A","r","B"],["C","r","D') == Parsed((A,), {"cut off": 1}, False)
    assert parse_entities('{"named_entities": ["Ada", "Lon').value == ("Ada",)


def test_closing_brackets_that_the_model_forgot_cost_nothing():
    assert parse_triples('{"triples":[["A","r","B"],["C","r","D"') == Parsed((A, C), {}, False)


def test_a_number_may_be_half_a_number_where_the_reply_was_cut():
    assert parse_choice('{"keep": [1, 2', 30, truncated=True).value == (0,)
    assert parse_choice('{"keep": [1, 2', 30).value == (0, 1)


@every_parser
def test_a_reply_cut_before_its_first_item_was_whole_is_no_empty_success(parse):
    for key in ("named_entities", "triples", "keep"):
        for reply in (f'{{"{key}": [', f'{{"{key}": ["A', f'{{"{key}": [["A', f'{{"{key}'):
            with pytest.raises(ParseError):
                parse(reply)


# Every shape that models use.


@pytest.mark.parametrize(
    "reply",
    [
        '[["A","r","B"],["C","r","D"]]',
        '{"Triples":[["A","r","B"],["C","r","D"]]}',
        '{"triple":[["A","r","B"],["C","r","D"]]}',
        '{"facts":[["A","r","B"],["C","r","D"]]}',
        '{"Output":{"triples":[["A","r","B"],["C","r","D"]]}}',
        '{"output":[["A","r","B"],["C","r","D"]]}',
        '[{"triples":[["A","r","B"],["C","r","D"]]}]',
        '[{"triples":[["A","r","B"]]},{"triples":[["C","r","D"]]}]',
        '{"triples":[["A","r","B"]],"triples":[["C","r","D"]]}',
        '{"triples":[[["A","r","B"],["C","r","D"]]]}',
        '{"triples":{"A":[["A","r","B"]],"C":[["C","r","D"]]}}',
        '["A","r","B"]\n["C","r","D"]\n',
        '{"subject":"A","relation":"r","object":"B"}\n{"subject":"C","relation":"r","object":"D"}',
        '[{"triple":["A","r","B"]},{"triple":{"head":"C","relation":"r","tail":"D"}}]',
        '[{"subject":{"name":"A"},"predicate":{"name":"r"},"object":{"name":"B"}},["C","r","D"]]',
        '[{"Subject":{"name":"A"},"Relation":"r","Object":{"name":"B"}},["C","r",{"text":"D"}]]',
    ],
)
def test_a_list_of_triples_is_found_in_any_wrapping(reply):
    assert parse_triples(reply) == Parsed((A, C), {}, repaired=False)


@pytest.mark.parametrize(
    ("subject", "relation", "object_"),
    [
        ("subject", "predicate", "object"),
        ("subject", "relation", "object"),
        ("head", "relation", "tail"),
        ("source", "relationship", "target"),
        ("start", "type", "end"),
        ("from", "label", "to"),
        ("subj", "pred", "obj"),
        ("head_entity", "rel", "tail_entity"),
        ("source_entity", "relation_type", "target_entity"),
        ("s", "p", "o"),
        ("h", "r", "t"),
        ("Subject", "Relation_", "OBJECT"),
    ],
)
def test_an_object_is_a_triple_under_any_usual_names(subject, relation, object_):
    record = {subject: "Ada", relation: "wrote", object_: "Notes", "head_type": "person"}
    for reply in (record, [record], {"triples": record}, {"triples": [record]}):
        assert triples_of(json.dumps(reply)) == (Triple("Ada", "wrote", "Notes"),)


def test_an_object_without_one_of_its_fields_is_dropped_alone():
    reply = [
        {"subject": "A", "relation": "r", "object": "B"},
        {"subject": "A", "relation": "r"},
        {"source": "C", "type": "r", "target": "D"},
    ]
    assert parse_triples(json.dumps(reply)) == Parsed((A, C), {"missing field": 1}, False)


def test_a_list_as_subject_or_object_is_one_triple_each():
    reply = '[["Ada","visited",["Paris","Rome"]],[["A","B"],"r",["C",null,"C"]]]'
    parsed = parse_triples(reply)
    assert [t.object for t in parsed.value[:2]] == ["Paris", "Rome"]
    assert parsed.value[2:] == (Triple("A", "r", "C"), Triple("B", "r", "C"))
    assert parsed.dropped == {"blank": 1, "repeated": 1}


def test_null_and_blank_fields_never_become_a_phrase():
    reply = '[["Ada","met",null],["Ada","met",""],[" ","met","Ada"],["Ada",null,"B"],["A","r","B"]]'
    parsed = parse_triples(reply)
    assert parsed == Parsed((A,), {"blank": 3, "no relation": 1}, False)


def test_a_string_or_a_number_among_triples_is_dropped_and_counted():
    reply = '{"triples":["A; r; B",["A","r","B"],5]}'
    assert parse_triples(reply) == Parsed((A,), {"not a triple": 2}, False)


def test_three_strings_are_not_taken_for_one_triple():
    for reply in ('{"triples":["A; r; B","C; r; D","E; r; F"]}', '["Ada", "London", "1843"]'):
        with pytest.raises(ParseError):
            parse_triples(reply)


def test_fields_are_never_shifted():
    reply = '[["A","r","B","2020"],["C","r"],["E","r","F"],[],["x"],["a","b","c","d","e","f"]]'
    parsed = parse_triples(reply)
    assert parsed.value == (Triple("E", "r", "F"),)
    assert parsed.dropped == {
        "4 fields": 1, "2 fields": 1, "0 fields": 1, "1 field": 1, "6 fields": 1,
    }  # fmt: skip


def test_numbers_are_text_in_their_own_spelling_and_truth_values_are_not():
    reply = f'[["A",7,"B"],[7,"r",3.140],["A","r",true],["A","r",NaN],["A","r",{"9" * 5000}]]'
    parsed = parse_triples(reply)
    assert parsed.value == (Triple("7", "r", "3.140"), Triple("A", "r", "9" * 5000))
    assert parsed.dropped == {"no relation": 1, "not text": 1, "blank": 1}


def test_values_are_plain_strings():
    # One reply that is JSON, one that is repaired.
    for reply in ('[["A", "r", 7]]', "[['A', 'r', 7]]"):
        assert {type(field) for triple in triples_of(reply) for field in triple} == {str}
    assert {type(name) for name in parse_entities('["Ada", 7]').value} == {str}


# What says nothing is dropped, and is no failure.


def test_placeholders_never_become_a_phrase():
    reply = '[["Ada","has no relation to","Bob"],["none","none","none"],["N/A","","N/A"]]'
    assert parse_triples(reply) == Parsed((), {"placeholder": 3}, False)
    reply = '[["Ada","wrote"," Unknown "],["null","is","not specified"]]'
    assert parse_triples(reply) == Parsed((), {"placeholder": 2}, False)
    assert parse_entities('["None", "Ada", "N/A"]') == Parsed(("Ada",), {"placeholder": 2}, False)


def test_a_name_that_only_contains_a_placeholder_stays():
    triple = Triple("Unknown Mortal Orchestra", "has none of", "Null Island")
    assert triples_of(json.dumps([triple])) == (triple,)


@pytest.mark.parametrize("nothing", [[], None, "none", "None", "N/A", "", [None], ["none"], [""]])
def test_nothing_under_the_key_is_an_answer(nothing):
    assert triples_of(json.dumps({"triples": nothing})) == ()
    assert parse_entities(json.dumps({"named_entities": nothing})).value == ()
    assert chosen(json.dumps({"keep": nothing})) == ()
    assert triples_of("[]") == parse_entities("[]").value == chosen("[]") == ()


@pytest.mark.parametrize(
    "reply",
    [
        '{"triples": ["A; r; B"]}',
        '{"triples": [["A", "r"], ["A", "r", "B", "C"]]}',
        '{"triples": [["none", "none", "none"], ["A", "r"]]}',
        '{"triples": "A; r; B"}',
        '{"triples": {}}',
        "- A; r; B\n- C; r; D",
        "(A, r, B)\n(C, r, D)",
    ],
)
def test_a_reply_in_another_format_is_no_empty_success(reply):
    with pytest.raises(ParseError):
        parse_triples(reply)


def test_a_complaint_says_what_was_wrong_with_the_items():
    with pytest.raises(ParseError, match="none of its triples can be used") as error:
        parse_triples('[["A", "r"], ["C"]]')
    assert error.value.complaint.endswith("(2 fields: 1, 1 field: 1)")


# Repetition and limits.


def test_a_triple_said_five_hundred_times_is_one():
    assert parse_triples(json.dumps([A] * 500)) == Parsed((A,), {"repeated": 499}, False)


def test_a_reply_gives_no_more_than_the_limit_and_the_rest_is_counted():
    many = [[f"A{i}", "r", "B"] for i in range(LIMIT + 30)]
    parsed = parse_triples(json.dumps({"triples": many}))
    assert [list(triple) for triple in parsed.value] == many[:LIMIT]
    assert parsed.dropped == {"over the limit": 30}
    parsed = parse_entities(json.dumps([f"Ada {i}" for i in range(LIMIT + 30)]))
    assert (len(parsed.value), parsed.dropped) == (LIMIT, {"over the limit": 30})


def test_lists_on_both_sides_are_not_multiplied_out_beyond_the_limit():
    names = [f"Ada {i}" for i in range(30_000)]
    parsed = parse_triples(json.dumps([[names, "knows", names]]))
    assert len(parsed.value) == LIMIT
    assert parsed.dropped == {"over the limit": 30_000**2 - LIMIT}


# Entities.


def test_entities_come_in_many_shapes():
    reply = '{"named_entities":[null,"",{"name":"Ada"},7,"Ada",{"entity":"B"},{"text":"C"},["D"]]}'
    parsed = parse_entities(reply)
    assert parsed.value == ("Ada", "7", "B", "C", "D")
    assert parsed.dropped == {"blank": 2, "repeated": 1}
    for reply in (
        '["Ada", "Notes"]',
        '{"Named Entities": ["Ada", "Notes"]}',
        '{"entities": [{"entity": "Ada", "type": "person"}, {"entity": "Notes"}]}',
        '{"entities": [{"entity_name": "Ada"}, {"Entity-Name": "Notes"}]}',
        '{"named_entities": {"people": ["Ada"], "works": ["Notes"]}}',
        '{"name": "Ada"}\n{"name": "Notes"}',
        '{"named_entities": [["Ada", "Notes"]]}',
    ):
        assert parse_entities(reply) == Parsed(("Ada", "Notes"), {}, False)


@pytest.mark.parametrize(
    "reply",
    [
        '{"named_entities": {"a": 1}}',
        '{"named_entities": "Ada"}',
        '{"named_entities": [true, {"x": 1}]}',
        "Ada [1] wrote notes [2].",
        '{"keep": [1, 2]}',
    ],
)
def test_what_names_no_entity_cannot_be_read(reply):
    with pytest.raises(ParseError):
        parse_entities(reply)


# Text.


def test_text_of_any_script_survives():
    triples = [
        Triple("東京", "は", "首都"),
        Triple("Москва", "столица", "Россия"),
        Triple("🦛", "is", "hippo"),
        Triple("हिन्दी", "है", "👩\u200d🔬"),
    ]
    for ascii_only in (True, False):
        assert triples_of(json.dumps(triples, ensure_ascii=ascii_only)) == tuple(triples)


def test_text_is_cleaned_of_what_cannot_be_stored():
    reply = '[["\\u0000A\\ud800", " r\\t\\n s ", "B\\u0085\\u001b C"]]'
    assert triples_of(reply) == (Triple("A", "r s", "B C"),)
    assert triples_of('[["\\ud83e\\udd9b", "r", "\ud800B"]]') == (Triple("🦛", "r", "B"),)
    # json-repair leaves a pair of escapes as two halves.
    assert triples_of('[["\\ud83e\\udd9b", "r", "\\ud800B"],]') == (Triple("🦛", "r", "B"),)


# Recognition's choice.


def test_a_choice_keeps_the_order_of_the_reply():
    assert chosen('{"keep": [3, 1]}') == (2, 0)
    assert chosen("[2]") == chosen("Keep [2], please.") == (1,)


@pytest.mark.parametrize("reply", ["none", "None.", '"none"', "null", "<think>so?</think>\nnone"])
def test_none_is_a_choice(reply):
    assert chosen(reply) == ()


def test_none_and_garbage_are_told_apart():
    assert chosen('{"fact":[]}') == ()
    for reply in ("garbage", '{"keep": "all of them"}', '{"keep": 2}', '{"keep": {}}', "2"):
        with pytest.raises(ParseError):
            chosen(reply)


def test_a_number_that_was_not_offered_is_dropped_and_the_others_stay():
    parsed = parse_choice('{"keep": [9, 2, 0, -1, 2]}', candidates=3)
    assert parsed == Parsed((1,), {"unknown number": 3, "repeated": 1}, False)


@pytest.mark.parametrize("reply", ['{"keep": [9]}', '{"keep": [0]}', "[4, 5]"])
def test_a_choice_of_only_what_was_not_offered_cannot_be_read(reply):
    with pytest.raises(ParseError, match="unknown number"):
        chosen(reply)


def test_a_number_may_be_written_in_many_ways():
    for written in (
        "2",
        2,
        2.0,
        "#2",
        "(2)",
        "[2]",
        "2.",
        "2. Ada wrote Notes",
        {"number": 2},
        [2],
    ):
        assert chosen(json.dumps({"keep": [written]})) == (1,), written
    parsed = parse_choice('{"keep": [1, true, "2 ships", "Ada", ["A", "r", "B"]]}', candidates=3)
    assert parsed == Parsed((0,), {"not a number": 6}, False)


def test_a_fact_that_was_never_offered_is_not_mapped_to_one_that_was():
    with pytest.raises(ParseError):
        chosen('{"keep": [["Ada", "wrote", "Notes"]]}')


# Answers.


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Thought: it sank.\nAnswer: 1628", "1628"),
        ("**Answer:** 1628", "1628"),
        ("**Answer: 1628**", "1628"),
        ("answer : 1628\n", "1628"),
        ("Answer: no.\nWait.\nAnswer: 1628", "1628"),
        ("  1628 ", "1628"),
        ("<think>Answer: 1627</think>1628", "1628"),
        ("Answer: A*", "A*"),
    ],
)
def test_the_answer_follows_the_last_label(reply, answer):
    assert parse_answer(reply) == answer


@pytest.mark.parametrize("reply", ["", " \n", "Answer:", "Answer: ** **", "<think>Answer: 1"])
def test_no_answer_is_an_error(reply):
    with pytest.raises(ParseError):
        parse_answer(reply)


# Model text is data.

CODE = '__import__("pathlib").Path("pwned").touch()'


@pytest.mark.parametrize(
    "frame",
    ["{}", "[{}]", '{{"keep": [{}]}}', '{{"triples": [({}, 1, 2)]}}', '{{"named_entities": {}}}'],
)
def test_nothing_is_evaluated(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reply = frame.replace("{}", CODE).replace("{{", "{").replace("}}", "}")
    for parse in (*PARSERS.values(), parse_answer):
        try:
            parse(reply)
        except ParseError:
            continue
    assert list(Path(tmp_path).iterdir()) == []


# Time is linear in the length of the reply, whatever it holds.

MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "unit",
    [
        "[", "{", '"', "\\", "<think>", "</think>", "```json\n", "~~~\n```\n{", "[]", "{}", "[a]",
        '["', '{"a', '{"a":', '["a" "b"]\n', "Answer ", " ", "<", "[,", "\x00", "[{", "[[,", "[[],",
        "9", "-", "1e9", "],[", "}{", "'", '\\"', '",', "[1,", "\\u00", "<think>[", "Answer:", "“",
    ],
)  # fmt: skip
def test_a_megabyte_of_anything_takes_no_more_than_seconds(unit):
    reply = unit * (MEGABYTE // len(unit))
    for parse, text in (
        *((parse, reply) for parse in (*PARSERS.values(), parse_answer)),
        (parse_triples, '["' + reply),
        (parse_triples, '{"triples": ' + reply),
    ):
        start = time.perf_counter()
        try:
            parse(text)
        except ParseError:
            pass
        assert time.perf_counter() - start < 5


# Two lengths of it, and no unit may cost more than its share: calls are counted, not seconds.
@pytest.mark.parametrize(
    "unit",
    [
        "[", "{", '"', "\\", "<think>", "[]", '["', '{"a":', "[{", "[[],", "9", "],[", '\\"', "[1,",
        '["a","b","c"],', "Answer:", "<", "```json\n", "'a' ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("begin", ["", "[", '{"triples": ['])
def test_the_work_grows_with_the_reply_and_no_faster(begin, unit):
    short, long = (calls_of(begin + unit * (n // len(unit))) for n in (5_000, 20_000))
    assert long < 4.5 * short + 2_000


def calls_of(reply: str) -> int:
    """Count the function calls, Python's and C's, that reading a reply takes."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for parse in (*PARSERS.values(), parse_answer):
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            parse(reply)
        except ParseError:
            pass
        finally:
            sys.setprofile(before)
    return calls


# Texts on which the repair is quadratic or worse: unbounded, each takes minutes.
@pytest.mark.parametrize(
    "text",
    [
        '["' + 'a"' * 24_000,
        "[" + '"a" b ' * 8_000,
        "{" + '"a": "b"c, ' * 4_000,
        '{"a' + '\\ “]{"a"' * 6_000,
        '["' + "\n\n{]" * 12_000,
        '{"a":[' + "][nulle" * 7_000,
        "[" + "(" * 49_000,
    ],
)
def test_a_repair_that_gets_nowhere_is_given_up(text):
    start = time.perf_counter()
    try:
        parse_triples(text)
    except ParseError:
        pass
    assert time.perf_counter() - start < 10


def test_brackets_nested_too_deep_are_refused():
    with pytest.raises(ParseError, match="over 50 deep"):
        parse_triples("[" * 51 + "]" * 51)
    assert list(json_values("[" * 50 + "]" * 50))


def test_a_reply_of_too_many_values_is_refused():
    with pytest.raises(ParseError, match="over 1,000 JSON values"):
        parse_triples("{}" * 1_001)


def test_a_long_reply_that_is_json_is_read_however_long():
    many = [[f"A{i}", "r", "B"] for i in range(20_000)]
    assert len(triples_of(json.dumps(many))) == LIMIT
