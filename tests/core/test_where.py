import json
import time
from collections import OrderedDict, UserDict
from dataclasses import FrozenInstanceError
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hippo_core.errors import InputError
from hippo_core.where import MAX_NESTING, checked_where


def allows(where, metadata):
    return checked_where(where).allows(metadata)


def verdict(where, metadata):
    """Tell unknown from false: unknown is excluded under `$not` too."""
    if allows(where, metadata):
        assert not allows({"$not": where}, metadata)
        return True
    return False if allows({"$not": where}, metadata) else None


# -- each rule -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "metadata", "expected"),
    [
        # equality is by JSON type and value
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": 0}, {"a": -0.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": False}, {"a": 0}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 2**53 + 1}, {"a": float(2**53)}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
        ({"a": {"$eq": 1}}, {"a": 1}, True),
        ({"a": {"$ne": 1}}, {"a": 1.0}, False),
        ({"a": {"$ne": 1}}, {"a": True}, True),
        ({"a": {"$ne": 1}}, {"a": "1"}, True),
        # null is a value
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"a": 0}, False),
        ({"a": {"$eq": None}}, {"a": None}, True),
        ({"a": {"$ne": None}}, {"a": None}, False),
        ({"a": {"$ne": None}}, {"a": 0}, True),
        ({"a": {"$ne": 0}}, {"a": None}, True),
        ({"a": {"$in": [None]}}, {"a": None}, True),
        # deep equality
        ({"a": [1, [True]]}, {"a": [1.0, [True]]}, True),
        ({"a": [1, [True]]}, {"a": [1, [1]]}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": [1]}, {"a": 1}, False),
        ({"a": 1}, {"a": [1]}, False),
        ({"a": []}, {"a": {}}, False),
        ({"a": {}}, {"a": {}}, True),
        ({"a": {}}, {"a": {"b": 1}}, False),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1.0}}}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": {"$eq": {"$gt": 1}}}, {"a": {"$gt": 1}}, True),
        ({"a": {"$in": [{"$gt": 1}, 2]}}, {"a": {"$gt": 1}}, True),
        ({"a": {"$contains": {"$gt": 1}}}, {"a": [{"$gt": 1}]}, True),
        # order
        ({"a": {"$gt": 1}}, {"a": 1.5}, True),
        ({"a": {"$gt": 1}}, {"a": 1}, False),
        ({"a": {"$gte": 1}}, {"a": 1.0}, True),
        ({"a": {"$lt": 2**53 + 1}}, {"a": float(2**53)}, True),
        ({"a": {"$lt": 10**400}}, {"a": 1.5}, True),
        ({"a": {"$lte": "b"}}, {"a": "b"}, True),
        ({"a": {"$gte": "2024-02-01"}}, {"a": "2024-10-01"}, True),
        ({"a": {"$lt": "a"}}, {"a": "Z"}, True),
        ({"a": {"$gte": 2020, "$lt": 2030}}, {"a": 2020}, True),
        ({"a": {"$gte": 2020, "$lt": 2030}}, {"a": 2030}, False),
        ({"a": {"$gt": 3}}, {"a": "4"}, None),
        ({"a": {"$gt": "3"}}, {"a": 4}, None),
        ({"a": {"$gte": 0}}, {"a": True}, None),
        ({"a": {"$gte": 0}}, {"a": None}, None),
        ({"a": {"$gte": 0}}, {"a": [1]}, None),
        ({"a": {"$gte": ""}}, {"a": {}}, None),
        ({"a": {"$gte": 2020, "$ne": "x"}}, {"a": "y"}, None),
        ({"a": {"$gte": 2020, "$ne": "x"}}, {"a": "x"}, False),
        # lists of values
        ({"a": {"$in": [1, "x"]}}, {"a": 1.0}, True),
        ({"a": {"$in": [1, "x"]}}, {"a": True}, False),
        ({"a": {"$in": [[1]]}}, {"a": [1]}, True),
        ({"a": {"$in": [1]}}, {"a": [1]}, False),
        ({"a": {"$in": []}}, {"a": 1}, False),
        ({"a": {"$nin": []}}, {"a": 1}, True),
        ({"a": {"$nin": [1]}}, {"a": True}, True),
        ({"a": {"$nin": [1]}}, {"a": 1.0}, False),
        ({"a": {"$nin": [1]}}, {"a": None}, True),
        # contains
        ({"a": {"$contains": 1}}, {"a": [0, 1.0]}, True),
        ({"a": {"$contains": 1}}, {"a": [True, "1", [1]]}, False),
        ({"a": {"$contains": [1]}}, {"a": [[1]]}, True),
        ({"a": {"$contains": None}}, {"a": [None]}, True),
        ({"a": {"$contains": "b"}}, {"a": ["abc"]}, False),
        ({"a": {"$contains": "b"}}, {"a": "abc"}, True),
        ({"a": {"$contains": "B"}}, {"a": "abc"}, False),
        ({"a": {"$contains": ""}}, {"a": ""}, True),
        ({"a": {"$contains": 1}}, {"a": "1"}, None),
        ({"a": {"$contains": 1}}, {"a": 1}, None),
        ({"a": {"$contains": "b"}}, {"a": {"b": 1}}, None),
        ({"a": {"$contains": "b"}}, {"a": None}, None),
        # a missing key is unknown to all but $exists
        ({"a": 1}, {}, None),
        ({"a": None}, {}, None),
        ({"a": {"$ne": 1}}, {}, None),
        ({"a": {"$ne": None}}, {}, None),
        ({"a": {"$gt": 1}}, {"b": 2}, None),
        ({"a": {"$in": []}}, {}, None),
        ({"a": {"$nin": [1]}}, {}, None),
        ({"a": {"$contains": ""}}, {}, None),
        ({"a": {"$exists": True}}, {}, False),
        ({"a": {"$exists": False}}, {}, True),
        ({"a": {"$exists": True}}, {"a": None}, True),
        ({"a": {"$exists": False}}, {"a": None}, False),
        ({"a": {"$exists": False, "$ne": 1}}, {}, None),
        ({"a": {"$exists": True, "$ne": 1}}, {}, False),
        # joined
        ({}, {}, True),
        ({}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 1, "b": 2}, {"a": 1}, None),
        ({"a": 1, "b": 2}, {"a": 0}, False),
        ({"$and": [{"a": 1}, {"b": 2}]}, {"b": 0}, False),
        ({"$and": [{"a": 1}, {"b": 2}]}, {"b": 2}, None),
        ({"$and": [{"a": 1}, {"a": 2}]}, {"a": 1}, False),
        ({"$or": [{"a": 1}, {"b": 2}]}, {"b": 2}, True),
        ({"$or": [{"a": 1}, {"b": 2}]}, {"b": 0}, None),
        ({"$or": [{"a": 1}, {"b": 2}]}, {"a": 0, "b": 0}, False),
        ({"$or": [{"a": 1}]}, {"a": 1}, True),
        ({"$or": [{}, {"a": 1}]}, {}, True),
        ({"$not": {"a": 1}}, {"a": 2}, True),
        ({"$not": {"a": 1}}, {}, None),
        ({"$not": {"$not": {"a": 1}}}, {"a": 1}, True),
        ({"$not": {"a": {"$gt": 1}}}, {"a": "x"}, None),
        ({"$not": {"$and": [{"a": 1}, {"b": 2}]}}, {"b": 0}, True),
        ({"a": 1, "$or": [{"b": 1}, {"b": 2}]}, {"a": 1, "b": 2}, True),
        ({"a": 1, "$or": [{"b": 1}, {"b": 2}]}, {"a": 0, "b": 2}, False),
        # a key is a key, no path
        ({"a.b": 1}, {"a": {"b": 1}}, None),
        ({"a.b": 1}, {"a.b": 1}, True),
        ({"": 1}, {"": 1}, True),
        ({"a$": 1}, {"a$": 1}, True),
    ],
)
def test_a_filter_is_true_false_or_unknown_of_metadata(where, metadata, expected):
    assert verdict(where, metadata) is expected


def test_nothing_is_outside_the_empty_filter_and_all_is_outside_its_negation():
    assert not allows({"$not": {}}, {})
    assert not allows({"$not": {}}, {"a": 1})


def test_no_filter_stays_none():
    assert checked_where(None) is None


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, MappingProxyType])
def test_a_filter_may_be_any_mapping(kind):
    assert allows(kind({"a": 1}), {"a": 1})
    assert checked_where(kind({"a": 1})).key == checked_where({"a": 1}).key


def test_metadata_may_be_any_mapping():
    assert allows({"a": {"$exists": True}, "b": 1}, MappingProxyType({"a": 1, "b": 1}))
    assert allows(lambda metadata: type(metadata) is dict, MappingProxyType({}))


def test_a_filter_does_not_change_with_the_dict_it_was_made_of():
    where = {"a": {"$in": [[1]]}}
    found = checked_where(where)
    where["a"]["$in"][0].append(2)
    where["b"] = 1
    assert found.allows({"a": [1]})
    assert found.key == '{"a":{"$in":[[1]]}}'
    with pytest.raises(FrozenInstanceError):
        found.key = ""


# -- what is no filter -----------------------------------------------------------------------------

FORMS = r"a dict such as .* or a callable that takes a passage's metadata and returns a bool, got "


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("year = 2024", FORMS + "str"),
        ([{"year": 2024}], FORMS + "list"),
        ({"year"}, FORMS + "set"),
        (0, FORMS + "int"),
        (False, FORMS + "bool"),
        # values
        ({"a": float("nan")}, r"where\['a'\] must be a finite number, got nan"),
        ({"a": {"$gt": float("inf")}}, r"where\['a'\]\['\$gt'\] must be a finite number"),
        ({"a": {"$in": (1, 2)}}, r"where\['a'\]\['\$in'\] must be JSON .* got a tuple"),
        ({"a": {"$in": {1, 2}}}, r"where\['a'\]\['\$in'\] must be JSON .* got a set"),
        ({"a": np.int64(1)}, r"where\['a'\] must be JSON .* got a numpy.int64"),
        ({1: 2}, "where must have str keys, got 1, a int"),
        ({"a\ud800": 1}, "lone surrogate"),
        ({"a": 2**13_000}, r"where\['a'\] must be an int of at most"),
        ({"$not": lambda metadata: True}, r"where\['\$not'\] must be JSON .* got a function"),
        # unknown operators
        ({"a": {"$gtr": 1}}, r"where\['a'\] has the unknown operator '\$gtr', perhaps for '\$gt'"),
        ({"a": {"$GTE": 1}}, r"perhaps for '\$gte'"),
        ({"a": {"$contain": 1}}, r"perhaps for '\$contains'; .*\$eq, \$ne, .*, \$exists"),
        ({"a": {"$zzz": 1}}, r"'\$zzz'; a key takes \$eq, \$ne, \$gt, .* \$contains, \$exists"),
        ({"a": {"$": 1}}, r"unknown operator '\$'; a key takes"),
        ({"a": {"$not": {"$gt": 1}}}, r"'\$not'; .* go around it, as in {'\$not': {'a': ...}}"),
        ({"a": {"$or": [1, 2]}}, r"where\['a'\] has the unknown operator '\$or'; .* go around it"),
        ({"$nor": [{"a": 1}]}, r"where has the unknown operator '\$nor', perhaps for '\$or'"),
        ({"$gte": 3}, r"'\$gte'; .*\$and, \$or, \$not; what compares goes inside a key"),
        ({"$type": "pdf"}, r"key that begins with '\$' cannot be named: pass a callable"),
        ({"$or": [{"a": 1}, {"b": {"$x": 1}}]}, r"where\['\$or'\]\[1\]\['b'\] has the unknown"),
        # mixed
        ({"a": {"$gt": 1, "b": 2}}, r"where\['a'\] mixes operators with the plain key 'b'; .*\$eq"),
        ({"a": {"b": 2, "$gtt": 1}}, r"where\['a'\] has the unknown operator '\$gtt'"),
        ({"a": {"b": {"$gt": 1}}}, r"where\['a'\]\['b'\] has the operator '\$gt' inside a value"),
        ({"a": [{"$gt": 1}]}, r"where\['a'\]\[0\] has the .* compare where\['a'\] .*{'\$eq': ...}"),
        # operands
        ({"a": {"$in": "xyz"}}, r"where\['a'\]\['\$in'\] must be a list, got str; put it in one"),
        ({"a": {"$nin": {"b": 1}}}, r"where\['a'\]\['\$nin'\] must be a list, got dict"),
        ({"a": {"$exists": 1}}, r"where\['a'\]\['\$exists'\] must be True or False, got 1"),
        ({"a": {"$exists": "yes"}}, "must be True or False, got 'yes'"),
        ({"a": {"$gte": None}}, r"\['\$gte'\] must be a number or a str, got NoneType; for no lim"),
        ({"a": {"$lt": True}}, r"where\['a'\]\['\$lt'\] must be a number or a str, got bool"),
        ({"a": {"$gt": [1]}}, r"where\['a'\]\['\$gt'\] must be a number or a str, got list"),
        ({"a": {"$lte": {}}}, r"where\['a'\]\['\$lte'\] must be a number or a str, got dict"),
        ({"$and": []}, r"where\['\$and'\] must be a list of at least one filter, got an empty one"),
        ({"$or": []}, r"where\['\$or'\] must be a list of at least one filter, got an empty one"),
        ({"$or": {"a": 1}}, r"where\['\$or'\] must be a list of at least one filter, got dict"),
        ({"$and": None}, r"where\['\$and'\] must be a list of at least one filter, got NoneType"),
        ({"$and": [{"a": 1}, 7]}, r"where\['\$and'\]\[1\] must be a filter, a dict .* got int"),
        ({"$not": [{"a": 1}]}, r"where\['\$not'\] must be a filter, a dict .* got list"),
        ({"$not": None}, r"where\['\$not'\] must be a filter, a dict .* got NoneType"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place_and_the_way_out(where, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        checked_where(where)
    str(caught.value).encode()


def test_a_part_that_would_never_be_reached_is_refused_too():
    with pytest.raises(InputError, match="unknown operator"):
        checked_where({"$or": [{}, {"a": {"$like": "x"}}]})


@pytest.mark.parametrize(
    "around", [lambda inner: {"$not": inner}, lambda i: {"$and": [i]}, lambda i: {"$or": [{}, i]}]
)
def test_nesting_is_limited(around):
    where = {"a": 1}
    for _ in range(MAX_NESTING - 1):
        where = around(where)
    checked_where(where).allows({"a": 1})
    for _ in range(2):
        where = around(where)
        with pytest.raises(InputError, match=r"where\[.*\.\.\. nests filters more than 32 deep"):
            checked_where(where)
    for _ in range(5000):
        where = around(where)
    with pytest.raises(InputError, match="more than 100 deep"):
        checked_where(where)


def test_an_endless_filter_is_refused():
    endless = {}
    endless["$not"] = endless
    with pytest.raises(InputError, match="deep"):
        checked_where(endless)


# -- callables -------------------------------------------------------------------------------------


def test_a_callable_decides_and_has_no_key():
    found = checked_where(lambda metadata: metadata.get("year", 0) > 2020)
    assert [found.allows(m) for m in ({"year": 2024}, {"year": 1999}, {})] == [True, False, False]
    assert found.key is None
    assert found != checked_where(lambda metadata: True)


def test_a_callable_cannot_change_what_is_stored():
    metadata = {"tags": ["a", {"b": [1]}]}

    def vandal(seen):
        seen["tags"][1]["b"].append(2)
        seen["tags"].append("c")
        seen["new"] = 1
        return True

    assert allows(vandal, metadata)
    assert metadata == {"tags": ["a", {"b": [1]}]}


@pytest.mark.parametrize(
    ("answer", "kind"), [(1, "int"), (None, "NoneType"), ("yes", "str"), (np.True_, "bool")]
)
def test_a_callable_must_return_a_bool(answer, kind):
    with pytest.raises(InputError, match=rf"where must return a bool, got .*{kind}.*bool\(...\)"):
        allows(lambda metadata: answer, {})


def test_what_a_callable_raises_passes_through():
    error = KeyError("year")

    def strict(metadata):
        raise error

    with pytest.raises(KeyError) as caught:
        allows(strict, {})
    assert caught.value is error


# -- laws ------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "a.b"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 2, 2.5, "", "a", "b", "ab", "1"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=3,
)
METADATA = st.dictionaries(KEYS, VALUES, max_size=3)
BOUNDS = st.sampled_from([0, 1, 1.0, 2.5, "", "a", "b"])

OPERANDS = {
    **dict.fromkeys(("$eq", "$ne", "$contains"), VALUES),
    **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), BOUNDS),
    **dict.fromkeys(("$in", "$nin"), st.lists(VALUES, max_size=3)),
    "$exists": st.booleans(),
}


@st.composite
def conditions(draw, *, exists):
    if draw(st.booleans()):
        return draw(VALUES)
    names = st.sampled_from([name for name in OPERANDS if exists or name != "$exists"])
    return {name: draw(OPERANDS[name]) for name in draw(st.sets(names, min_size=1, max_size=2))}


@st.composite
def filters(draw, *, exists, depth=3):
    """Filters of which every part names a key."""
    found = draw(st.dictionaries(KEYS, conditions(exists=exists), max_size=2))
    joins = ["$and", "$or", "$not"] if depth else []
    for name in draw(st.sets(st.sampled_from(joins), max_size=2)) if joins else ():
        part = filters(exists=exists, depth=depth - 1)
        found[name] = draw(part if name == "$not" else st.lists(part, min_size=1, max_size=2))
    return found or {draw(KEYS): draw(conditions(exists=exists))}


FILTERS = st.just({}) | filters(exists=True)
FILTERS_WITHOUT_EXISTS = filters(exists=False)


def truth(where, metadata):
    """The grammar once more: 0, 1/2 or 1, joined by min, max and 1 - x."""
    worth = [1.0]
    for name, operand in where.items():
        if name == "$and":
            worth += [truth(part, metadata) for part in operand]
        elif name == "$or":
            worth.append(max(truth(part, metadata) for part in operand))
        elif name == "$not":
            worth.append(1 - truth(operand, metadata))
        elif isinstance(operand, dict) and any(key[:1] == "$" for key in operand):
            worth += [compared(op, wanted, metadata, name) for op, wanted in operand.items()]
        else:
            worth.append(compared("$eq", operand, metadata, name))
    return min(worth)


def compared(op, wanted, metadata, name):
    if op == "$exists":
        return float((name in metadata) == wanted)
    if name not in metadata:
        return 0.5
    stored = metadata[name]
    if op in ("$ne", "$nin"):
        return 1 - compared({"$ne": "$eq", "$nin": "$in"}[op], wanted, metadata, name)
    if op == "$eq":
        return float(plain(stored) == plain(wanted))
    if op == "$in":
        return float(plain(stored) in [plain(one) for one in wanted])
    if op == "$contains":
        if isinstance(stored, list):
            return float(plain(wanted) in [plain(one) for one in stored])
        both = isinstance(stored, str) and isinstance(wanted, str)
        return float(stored.find(wanted) >= 0) if both else 0.5
    (kind, left), (other, right) = plain(stored), plain(wanted)
    if kind != other or kind not in ("number", "str"):
        return 0.5
    sign = (left > right) - (left < right)
    return float(sign in {"$gt": (1,), "$gte": (0, 1), "$lt": (-1,), "$lte": (-1, 0)}[op])


def plain(value):
    if isinstance(value, list):
        return "list", [plain(item) for item in value]
    if isinstance(value, dict):
        return "dict", [(key, plain(value[key])) for key in sorted(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", Fraction(value)
    return type(value).__name__, value


@given(FILTERS, METADATA)
def test_two_evaluators_agree(where, metadata):
    expected = {0.0: False, 0.5: None, 1.0: True}[truth(where, metadata)]
    assert verdict(where, metadata) is expected


@given(FILTERS, FILTERS, METADATA)
def test_de_morgan(p, q, metadata):
    neither = {"$and": [{"$not": p}, {"$not": q}]}
    not_both = {"$or": [{"$not": p}, {"$not": q}]}
    assert verdict({"$not": {"$or": [p, q]}}, metadata) is verdict(neither, metadata)
    assert verdict({"$not": {"$and": [p, q]}}, metadata) is verdict(not_both, metadata)
    assert verdict({"$not": {"$not": p}}, metadata) is verdict(p, metadata)


@given(FILTERS, FILTERS, METADATA)
def test_two_filters_in_one_dict_are_their_conjunction(p, q, metadata):
    if not p.keys() & q.keys():
        assert verdict(p | q, metadata) is verdict({"$and": [p, q]}, metadata)


@given(FILTERS_WITHOUT_EXISTS)
def test_no_filter_without_exists_allows_a_passage_without_metadata(where):
    assert verdict(where, {}) is None


@given(st.dictionaries(KEYS, conditions(exists=False), min_size=1), METADATA, st.data())
def test_a_conjunction_excludes_a_passage_that_lacks_a_key_it_names(leaves, metadata, data):
    missing = data.draw(st.sampled_from(sorted(leaves)))
    parts = [
        data.draw(st.sampled_from([{key: condition}, {"$not": {key: condition}}]))
        for key, condition in leaves.items()
    ]
    metadata.pop(missing, None)
    assert not allows({"$and": parts}, metadata)


@given(FILTERS_WITHOUT_EXISTS, METADATA, KEYS)
@example({"$not": {"$and": [{"a": 1}, {"b": 2}]}}, {"a": 1, "b": 0}, "a")
def test_to_forget_a_key_never_changes_an_answer_but_to_unknown(where, metadata, key):
    knows_less = {name: value for name, value in metadata.items() if name != key}
    assert verdict(where, knows_less) in (None, verdict(where, metadata))


def shuffled(value):
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(FILTERS)
def test_the_order_of_keys_does_not_change_the_key(where):
    assert checked_where(shuffled(where)).key == checked_where(where).key


def test_values_of_other_types_give_other_keys():
    wanted = [1, 1.0, True, "1", "true", None, "null", [1], {"$in": [1]}, {"b": 1}]
    assert len({checked_where({"a": value}).key for value in wanted}) == len(wanted)


@given(FILTERS, METADATA)
def test_the_key_holds_the_whole_meaning(where, metadata):
    """So that filters with one key have one meaning, and what one found can be cached."""
    again = checked_where(json.loads(checked_where(where).key))
    assert again.key == checked_where(where).key
    assert again.allows(metadata) is allows(where, metadata)


OPERATORS = "$eq $ne $gt $gte $lt $lte $in $nin $contains $exists $and $or $not $ $x".split()
HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=3)
    | st.binary(max_size=2)
    | st.sampled_from([(), {1}, object(), np.float64(1), 2**13_001, max]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(OPERATORS) | KEYS, inner, max_size=3)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=2)
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(OPERATORS) | KEYS, HOSTILE, min_size=1, max_size=3)
    | HOSTILE.filter(lambda value: not callable(value)),
    METADATA,
)
@example({"a": {"$" * 10**6: 1}}, {})
def test_anything_is_a_filter_or_an_input_error(where, metadata):
    try:
        found = checked_where(where)
    except InputError:
        return
    if found is not None:
        assert found.allows(metadata) in (True, False)


# -- speed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [{"year": {"$gte": 2020}}, {"year": 2024}, {"id": {"$in": [f"id{i}" for i in range(10_000)]}}],
    ids=["order", "equality", "ten thousand ids"],
)
def test_ten_thousand_passages_are_filtered_at_once(where):
    corpus = [{"year": 1990 + i % 40, "id": f"id{i}"} for i in range(10_000)]
    found = checked_where(where)
    started = time.process_time()
    assert any([found.allows(metadata) for metadata in corpus])
    assert time.process_time() - started < 0.5  # a few ms; a scan of the ids would take seconds


def test_operators_without_their_sign_are_no_value():
    with pytest.raises(InputError, match=r"'\$gte'"):
        checked_where({"year": {"gte": 2020}})
    assert checked_where({"year": {"$eq": {"gte": 2020}}}).allows({"year": {"gte": 2020}})
    assert checked_where({"span": {"gte": 1, "by": "day"}}).allows(
        {"span": {"gte": 1, "by": "day"}}
    )
