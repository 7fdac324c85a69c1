import hashlib
import json
from enum import IntEnum
from types import MappingProxyType
from unicodedata import category, normalize

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hippo_core.errors import InputError
from hippo_core.text import (
    MAX_DEPTH,
    _fold,
    _words,
    canonical_json,
    content_id,
    letters_and_digits,
    normalise_phrase,
    sha256_hex,
)

# Whole Unicode, lone surrogates too, and often the characters that the rules name.
ANY_CHARACTER = st.characters(exclude_categories=())
TRICKY = st.sampled_from("aB1 .+#'’!$=-_\u0301\u0345\u0390\u20e3\u200d\ufe0f\u0130ßςﬁ½²Ａक्ع🦛")
TEXTS = st.text(ANY_CHARACTER | TRICKY, max_size=12)
INVISIBLE = st.sampled_from("\u200b\u200c\u200d\u00ad\ufeff\ufe0e\ufe0f\u2060\u202b\U000e0067")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("U.S.", "u s"),
        ("3.14", "3.14"),
        ("1,000", "1 000"),
        ("1.2.3", "1.2.3"),
        ("end 3.", "end 3"),
        (".5", "5"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("c++11", "c++11"),
        ("C++/C#", "c++ c#"),
        ("+49 #1", "49 1"),
        ("a + b", "a b"),
        ("1+1=2", "1+1=2"),
        ("7#", "7#"),
        ("Na⁺", "na+"),
        ("€.net", "€ net"),
        ("∑\u0302x", "∑\u0302x"),
        (".NET", ".net"),
        ("(.NET)", ".net"),
        ("ASP.NET", "asp net"),
        ("C#.NET", "c# net"),
        ("wait...what", "wait what"),
        ("O'Brien", "o'brien"),
        ("O’Brien", "o'brien"),
        ("'quoted' dogs' '90s", "quoted dogs 90s"),
        ("Süd-Korea", "süd korea"),
        ("Łódź", "łódź"),
        ("STRASSE Straße", "strasse strasse"),
        ("Σίσυφος", "σίσυφοσ"),
        ("ﬁn x²", "fin x2"),
        ("ＡＢＣ公司", "abc公司"),
        ("北京大学", "北京大学"),
        ("हिन्दी", "हिन्दी"),
        ("العَرَبِيَّة", "العَرَبِيَّة"),
        ("٣.١٤", "٣.١٤"),
        ("🦛", "🦛"),
        ("$5 → 5€ ≤ ∞", "$5 → 5€ ≤ ∞"),
        ("snake_case", "snake case"),
        ("  a \t\n b\u00a0c ", "a b c"),
        ("!!!", ""),
        ("", ""),
        ("\x00\x07\ud800\ue000", ""),
    ],
)
def test_a_phrase_has_this_key(text, key):
    assert normalise_phrase(text) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("❤\ufe0f", "❤"),  # with and without a variation selector: the same heart
        ("👩\u200d🚀", "👩🚀"),
        ("1\ufe0f\u20e3", "1\u20e3"),
        ("co\u00adoperate", "cooperate"),
        ("\u200fשלום\u200f", "שלום"),
        ("می\u200cخواهم", "میخواهم"),
        ("e\u200b\u0301", "é"),
        ("\u3164\u115f", ""),  # letters by category, and nothing to see
    ],
)
def test_what_nobody_sees_does_not_count(text, key):
    assert normalise_phrase(text) == key


@pytest.mark.parametrize("text", ["\u0301", " \u0301", "!\u0301\u0302", "\u00b4", "+\u0301"])
def test_a_mark_without_a_base_is_dropped(text):
    assert normalise_phrase(text) == ""


@given(TEXTS)
@example("U..S .N")
@example("\u0390\u0345")
@example("!\u0301'a")
def test_normalising_twice_is_normalising_once(text):
    key = normalise_phrase(text)
    assert normalise_phrase(key) == key


def test_every_character_has_a_stable_key():
    for code in range(0, 0x110000, 7):  # a prime step that still meets every block
        for text in (chr(code), f"a{chr(code)}\u0301b"):
            key = normalise_phrase(text)
            assert normalise_phrase(key) == key, ascii(text)
            assert _fold(_fold(text)) == _fold(text), ascii(text)


@given(TEXTS)
def test_composed_and_decomposed_text_have_one_key(text):
    key = normalise_phrase(text)
    assert normalise_phrase(normalize("NFC", text)) == key
    assert normalise_phrase(normalize("NFD", text)) == key


@given(TEXTS)
def test_compatible_and_folded_text_have_one_key(text):
    composed = normalize("NFKC", text.replace("’", "'"))
    assert normalise_phrase(composed) == normalise_phrase(text)
    assert normalise_phrase(composed.casefold()) == normalise_phrase(composed)


@given(st.text(st.characters(codec="latin-1") | st.sampled_from("ΆΣσЖж"), max_size=12))
def test_case_does_not_matter(text):
    assert normalise_phrase(text.upper()) == normalise_phrase(text.replace("µ", "μ").lower())


@given(TEXTS)
def test_a_key_holds_nothing_but_what_the_rules_keep(text):
    key = normalise_phrase(text)
    for character in key:
        kept = category(character)[0] in "LMN" or category(character) in ("Sm", "Sc", "So")
        assert kept or character in " +#.'", ascii(character)
    assert key == key.strip()
    assert "  " not in key


@given(TEXTS, TEXTS)
def test_words_are_normalised_one_by_one(left, right):
    keys = [normalise_phrase(left), normalise_phrase(right)]
    assert normalise_phrase(f"{left} {right}") == " ".join(filter(None, keys))


@given(TEXTS, INVISIBLE, st.integers(0, 12))
@example("α\u0345\u0301", "\u200b", 2)
def test_an_invisible_character_changes_nothing(text, invisible, place):
    assert normalise_phrase(text[:place] + invisible + text[place:]) == normalise_phrase(text)


@given(st.text(st.characters(max_codepoint=127), max_size=12) | st.from_regex(r"\A[a-zA-Z0-9 ]*\Z"))
@example("Two  words")
@example(" a ")
def test_the_short_ways_for_ascii_equal_the_long_way(text):
    assert normalise_phrase(text) == _words(_fold(text))


def test_letters_and_numbers_of_any_script_are_counted():
    assert [
        letters_and_digits(key) for key in ("ab", "a1 b", "c++", "हिन्दी", "٣.١٤", "🦛", "½", "")
    ] == [2, 3, 1, 3, 3, 0, 1, 0]


@given(TEXTS)
def test_the_count_is_of_categories_l_and_n(text):
    assert letters_and_digits(text) == sum(category(character)[0] in "LN" for character in text)


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=4))
@example(["ab", "c"], ["a", "bc"])
@example(["a", ""], ["a"])
@example(["\ud83d\ude00"], ["😀"])
@example(["\ud800"], ["?"])
@example(["1:a"], ["", "a"])
def test_different_lists_of_texts_hash_differently(one, other):
    assert (sha256_hex(*one) == sha256_hex(*other)) == (one == other)


def test_a_hash_is_the_same_in_every_version():
    assert sha256_hex("ab", "é") == hashlib.sha256("2:ab2:é".encode()).hexdigest()
    assert content_id("text", "title", "source", {"year": 2024}) == sha256_hex(
        "text", "title", '{"year":2024}', "source"
    )
    assert content_id("text", "title", "source", {}, "embedded") == sha256_hex(
        "text", "title", "{}", "source", "", "embedded"
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_canonical_json_reads_back_equal(value):
    written = canonical_json(value)
    assert repr(json.loads(written)) == repr(_sorted_keys(value))
    written.encode()


def _sorted_keys(value):
    if isinstance(value, dict):
        return {key: _sorted_keys(value[key]) for key in sorted(value)}
    return [_sorted_keys(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(), JSON_VALUES))
def test_the_order_of_keys_does_not_matter(value):
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_canonical_json_is_compact_and_unescaped():
    assert canonical_json({"b": [1, -0.0, True], "a": "é\n"}) == '{"a":"é\\n","b":[1,-0.0,true]}'


class Colour(IntEnum):
    RED = 1


class Words(str):
    pass


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ((1, 2), r"value must be JSON .* got a tuple"),
        ({"a": [0, (1,)]}, r"value\['a'\]\[1\] .* got a tuple"),
        ({"a": {"b": {1, 2}}}, r"value\['a'\]\['b'\] .* got a set"),
        (b"x", "got a bytes"),
        ([np.float64(1.0)], r"value\[0\] .* got a numpy.float64"),
        ([np.int64(1)], r"value\[0\] .* got a numpy.int64"),
        ([np.bool_(True)], r"value\[0\] .* got a numpy.bool"),
        ([Colour.RED], "got a .*Colour"),
        ([Words("a")], "got a .*Words"),
        (MappingProxyType({}), "got a mappingproxy"),
        ({"a": float("nan")}, r"value\['a'\] must be a finite number, got nan"),
        ([float("-inf")], r"value\[0\] must be a finite number, got -inf"),
        ({"a": {1: 2}}, r"value\['a'\] must have str keys, got 1, a int"),
        ({10**5000: 2}, "value must have str keys, got a huge number, a int"),
        ({None: 2}, "value must have str keys, got None, a NoneType"),
        ({"a": "b\ud800"}, r"value\['a'\] must be Unicode .*'\\ud800' at position 1"),
        ({"a\udfff": 1}, r"value: key 'a\\udfff' must be Unicode"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_path_and_type(value, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        canonical_json(value)
    str(caught.value).encode()  # the message itself can be shown


def test_nesting_is_limited():
    def nested(depth):
        return [nested(depth - 1)] if depth else 1

    canonical_json(nested(MAX_DEPTH))
    with pytest.raises(InputError, match="more than 100 deep"):
        canonical_json(nested(MAX_DEPTH + 1))
    endless = {}
    endless["again"] = endless
    with pytest.raises(InputError, match="more than 100 deep"):
        canonical_json(endless)


def test_an_int_that_python_would_not_read_back_is_refused():
    largest = 2**13_000 - 1
    assert json.loads(canonical_json([largest, -largest])) == [largest, -largest]
    for number in (largest + 1, -largest - 1):
        with pytest.raises(InputError, match=r"value\[0\] must be an int of at most 13000 bits"):
            canonical_json([number])


FIELDS = st.tuples(
    st.text(max_size=3),
    st.text(max_size=3),
    st.none() | st.text(max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 2) | st.text(max_size=2), max_size=2),
    st.text(max_size=3),
)


@given(FIELDS, FIELDS)
@example(("a", "", None, {}, ""), ("a", "", "", {}, ""))
@example(("a", "b", None, {}, ""), ("ab", "", None, {}, ""))
@example(("a", "b", None, {}, ""), ("b", "a", None, {}, ""))
@example(("a", "", None, {"x": 1}, ""), ("a", "", None, {"x": True}, ""))
@example(("a", "", None, {}, "b"), ("a", "", "b", {}, ""))
@example(("a", "", "", {}, "b"), ("a", "", "b", {}, ""))
@example(("a", "", "", {}, "b"), ("a", "", None, {}, "b"))
def test_passages_share_an_id_only_if_all_they_hold_is_equal(one, other):
    same_metadata = canonical_json(one[3]) == canonical_json(other[3])
    assert (content_id(*one) == content_id(*other)) == (
        same_metadata and (one[:3], one[4]) == (other[:3], other[4])
    )


def test_the_order_of_metadata_does_not_matter():
    assert content_id("a", "", None, {"x": 1, "y": 2}) == content_id(
        "a", "", None, {"y": 2, "x": 1}
    )


def test_metadata_may_be_any_mapping_and_its_error_names_it():
    assert content_id("a", "", None, MappingProxyType({"x": 1})) == content_id(
        "a", "", None, {"x": 1}
    )
    with pytest.raises(InputError, match=r"metadata\['when'\] .* got a tuple"):
        content_id("a", "", None, {"when": (1, 2)})


def test_any_text_has_an_id():
    assert len(content_id("\ud800", "\udfff", "\ud800", {})) == 64
