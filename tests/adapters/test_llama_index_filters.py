"""MetadataFilters mean what the core's `where` means, and make a smaller corpus."""

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from hippo_core import InputError, checked_where
from llama_index_hipporag import HippoRAGIndex
from llama_index_hipporag._filters import to_where

PASSAGES = {
    "new": {"year": 2024, "tags": ["a", "b"], "name": "Ada Lovelace"},
    "old": {"year": 1843, "tags": ["b"], "name": "ada"},
    "bare": {},
    "null": {"year": None, "tags": [], "name": ""},
}


def allowed(filters):
    where = checked_where(to_where(filters))
    return {name for name, metadata in PASSAGES.items() if where.allows(metadata)}


def single(key, operator, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])


TABLE = {
    FilterOperator.EQ: ("year", 2024, {"new"}),
    FilterOperator.NE: ("year", 2024, {"old", "null"}),
    FilterOperator.GT: ("year", 1843, {"new"}),
    FilterOperator.GTE: ("year", 1843, {"new", "old"}),
    FilterOperator.LT: ("year", 2024, {"old"}),
    FilterOperator.LTE: ("year", 2024, {"new", "old"}),
    FilterOperator.IN: ("year", [2024, 1], {"new"}),
    FilterOperator.NIN: ("year", [2024, 1], {"old", "null"}),
    FilterOperator.ANY: ("tags", ["a", "c"], {"new"}),
    FilterOperator.ALL: ("tags", ["a", "b"], {"new"}),
    FilterOperator.CONTAINS: ("tags", "b", {"new", "old"}),
    FilterOperator.TEXT_MATCH: ("name", "Love", {"new"}),
    FilterOperator.IS_EMPTY: ("tags", None, {"bare", "null"}),
}


@pytest.mark.parametrize("operator", TABLE, ids=lambda operator: operator.name)
def test_an_operator_means_what_the_table_says(operator):
    key, value, expected = TABLE[operator]
    assert allowed(single(key, operator, value)) == expected


@pytest.mark.parametrize(
    "operator", set(FilterOperator) - set(TABLE), ids=lambda operator: operator.name
)
def test_an_operator_without_a_counterpart_is_refused_with_the_way_out(operator):
    with pytest.raises(InputError, match=f"'name' has the operator '{operator.value}'.*where="):
        to_where(single("name", operator, "ada"))


def test_every_operator_is_in_the_table_or_refused():
    assert set(FilterOperator) - set(TABLE) == {FilterOperator.TEXT_MATCH_INSENSITIVE}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (FilterCondition.AND, {"new"}),
        (FilterCondition.OR, {"new", "old"}),
        (FilterCondition.NOT, {"null"}),
        (None, {"new"}),
    ],
)
def test_conditions_join_filters(condition, expected):
    parts = [
        MetadataFilter(key="year", operator=FilterOperator.EQ, value=2024),
        MetadataFilter(key="tags", operator=FilterOperator.CONTAINS, value="b"),
    ]
    assert allowed(MetadataFilters(filters=parts, condition=condition)) == expected


def test_filters_nest_and_none_at_all_allow_everything():
    inner = single("year", FilterOperator.EQ, 1843)
    both = MetadataFilters(
        filters=[inner, single("year", FilterOperator.EQ, 2024)], condition=FilterCondition.OR
    )
    assert allowed(both) == {"new", "old"}
    assert allowed(MetadataFilters(filters=[])) == set(PASSAGES)
    assert to_where(None) is None


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        (FilterOperator.ANY, "a"),
        (FilterOperator.ALL, []),
        (FilterOperator.IN, "a"),
        (FilterOperator.GT, None),
        (FilterOperator.TEXT_MATCH, 3),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_before_any_query(llama, operator, value):
    with pytest.raises(InputError):
        llama.as_retriever(filters=single("year", operator, value))


def test_only_metadata_filters_are_taken(llama):
    with pytest.raises(TypeError, match="must be MetadataFilters, got dict.*hippo.retrieve"):
        llama.as_retriever(filters={"year": 2024})


async def test_a_filter_is_a_smaller_corpus(llama, nodes, models, question, closing):
    filters = single("file", FilterOperator.NIN, ["town", "forth"])
    smaller = closing(
        HippoRAGIndex([n for n in nodes if n.node_id not in ("town", "forth")], **models)
    )
    expected = smaller.as_retriever().retrieve(question)
    retriever = llama.as_retriever(filters=filters)
    assert retriever.retrieve(question) == expected
    assert await retriever.aretrieve(question) == expected
    hits = llama.hippo.retrieve(question, where=to_where(filters), score_mode="relative")
    assert [(h.passage.id, h.score) for h in hits] == [(n.node_id, n.score) for n in expected]


def test_a_filter_that_allows_nothing_finds_nothing(llama_empty, question):
    llama_empty.insert_nodes([TextNode(text="Hippos swim.")])
    filters = single("year", FilterOperator.EQ, 1)
    assert llama_empty.as_retriever(filters=filters).retrieve(question) == []
