"""What a retrieval gives: passages as they were put in, with plain scores in one order."""

import asyncio
import copy
import json

import pytest


def ids(found):
    return [one.id for one in found]


def seen(found):
    """What a user sees of a result, apart from the object itself."""
    return [(one.id, one.text, one.score, one.metadata) for one in found]


@pytest.fixture
def ties(item):
    """Passages that nothing tells apart but their ids."""
    return [item(f"{n:02}", "Hippos swim.") for n in (3, 1, 4, 0, 2)]


# -- passages --------------------------------------------------------------------------------------


async def test_a_passage_comes_back_with_its_text_metadata_and_source(memory, question, items, ask):
    by_id = {item.id: item for item in items}
    found = await ask(memory, question, k=6)
    assert len(found) == 6
    for one in found:
        given = by_id[one.id]
        assert one.text == given.text
        metadata = dict(one.given)
        source = metadata.pop("source", None) or one.raw.node.ref_doc_id
        assert (metadata, source) == (given.metadata, given.source)


async def test_small_passages_of_one_source_are_never_merged(adapter, opened, models, item, ask):
    memory = opened(models)
    small = [item(f"p{n}", f"Page {n}.", {"page": n}, "book.pdf") for n in range(3)]
    adapter.add(memory, small)
    found = await ask(memory, "Page 1?")
    assert sorted((one.id, one.text, one.given["page"]) for one in found) == [
        ("p0", "Page 0.", 0),
        ("p1", "Page 1.", 1),
        ("p2", "Page 2.", 2),
    ]


async def test_one_text_of_two_sources_is_two_passages(adapter, opened, models, item, ask):
    memory = opened(models)
    adapter.add(memory, [item("a", "Hippos swim.", {}, "a"), item("b", "Hippos swim.", {}, "b")])
    assert ids(await ask(memory, "Do hippos swim?")) == ["a", "b"]


async def test_the_users_keys_stay_the_users(adapter, opened, models, item, ask):
    mine = {
        "id": "mine",
        "score": "mine",
        "text": ["mine"],
        "rank": {"of": {"mine": [1, None, True, 0.5]}},
        "metadata": {},
        "_id": 1,
        "node_id": "mine",
        "page_content": "",
    }
    memory = opened(models)
    adapter.add(memory, [item("own", "Hippos swim.", mine)])
    (found,) = await ask(memory, "hippos")
    assert found.given == mine
    assert (found.id, found.text, found.score) == ("own", "Hippos swim.", 1.0)


async def test_what_is_said_of_one_retrieval_is_not_kept(adapter, opened, models, item, ask):
    """A found passage may be added again, with what the last retrieval said of it."""
    memory = opened(models)
    said = {"hipporag_score": 0.25, "hipporag_rank": 9}
    adapter.add(memory, [item("old", "Hippos swim.", said), item("new", "Hippos swim too.", {})])
    found = {one.id: one.metadata for one in await ask(memory, "Do hippos swim?")}
    assert {metadata["hipporag_rank"] for metadata in found.values()} == {1, 2}
    assert not {"hipporag_score", "hipporag_rank"} & set(memory.hippo.get(["old"])[0].metadata)


def test_what_was_given_is_not_changed(adapter, opened, models, item, question):
    metadata = {"deep": [{"er": [1, {"x": None}]}]}
    given = item("own", "Hippos swim.", metadata, "a.txt")
    before = copy.deepcopy(given)
    memory = opened(models)
    adapter.add(memory, [given])
    adapter.ask(adapter.retriever(memory, include_triples=True), question)
    assert given == before


async def test_changing_what_was_given_or_found_changes_no_memory(
    adapter, opened, models, item, ask
):
    metadata = {"deep": [{"er": [1]}]}
    memory = opened(models)
    adapter.add(memory, [item("own", "Hippos swim.", metadata)])
    metadata["deep"][0]["er"].append("changed")
    for _ in range(2):
        (found,) = await ask(memory, "hippos", include_triples=True)
        assert found.given == {"deep": [{"er": [1]}]}
        found.metadata["deep"][0]["er"].append("changed")
        found.metadata["hipporag_triples"].append("changed")
        found.metadata["more"] = "changed"
    assert memory.hippo.get(["own"])[0].metadata["deep"] == [{"er": [1]}]


# -- scores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("score_mode", ["relative", "ppr"])
async def test_scores_are_floats_that_fall_and_are_no_less_than_zero(
    memory, question, ask, score_mode
):
    scores = [one.score for one in await ask(memory, question, k=6, score_mode=score_mode)]
    assert all(type(score) is float for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


async def test_all_of_a_result_is_json(adapter, memory, question, ask):
    for one in await ask(memory, question, k=6, include_triples=True):
        assert json.loads(json.dumps(one.score)) == one.score
        assert json.loads(json.dumps(one.metadata)) == one.metadata
        json.dumps(adapter.dump(one.raw))


async def test_ties_are_in_the_order_of_ids_whatever_came_first(adapter, opened, models, ties, ask):
    memory, other = opened(models), opened(models)
    adapter.add(memory, ties)
    for one in reversed(ties):
        adapter.add(other, [one])
    found = await ask(memory, "Do hippos swim?")
    assert ids(found) == ["00", "01", "02", "03", "04"]
    assert len({round(one.score, 10) for one in found}) == 1
    for _ in range(3):
        assert seen(await ask(memory, "Do hippos swim?")) == seen(found)
    assert seen(await ask(other, "Do hippos swim?")) == seen(found)
    assert ids(await ask(memory, "Do hippos swim?", k=2)) == ["00", "01"]


# -- one answer, whichever way it is asked for -----------------------------------------------------


async def test_ids_order_and_scores_are_one_on_every_way(adapter, memory, question):
    retriever = adapter.retriever(memory, k=6)
    found = seen(adapter.ask(retriever, question))
    assert seen(await adapter.aask(retriever, question)) == found
    if adapter.name == "langchain":
        assert [d.id for d in retriever.batch([question])[0]] == [id_ for id_, *_ in found]
        assert [d.id for d in (await retriever.abatch([question]))[0]] == [i for i, *_ in found]


async def test_ids_order_and_scores_are_one_after_a_reload(
    adapter, opened, models, items, ties, question, ask, tmp_path
):
    memory = opened(models, persist_directory=tmp_path / "m")
    adapter.add(memory, [*items, *ties])
    queries = [question, "Do hippos swim?", "Where was John Roebling born?"]
    before = [seen(await ask(memory, query, k=20)) for query in queries]
    memory.close()
    models.log.clear()
    again = adapter.load(tmp_path / "m", models)
    assert models.log == []
    assert [seen(await ask(again, query, k=20)) for query in queries] == before
    again.close()


# -- filters and other memories --------------------------------------------------------------------


async def test_a_filter_lets_nothing_through_and_k_is_filled_with_what_it_allows(
    adapter, opened, models, items, question, ask
):
    """Tenants share entities; the last two passages say nothing of a tenant."""
    tenants = ["a", "b", "a", "b", None, None]
    of = [{} if tenant is None else {"tenant": tenant} for tenant in tenants]
    owned = [item._replace(metadata=m) for item, m in zip(items, of, strict=True)]
    memory, alone = opened(models), opened(models)
    adapter.add(memory, owned)
    adapter.add(alone, [item for item in owned if item.metadata.get("tenant") == "a"])
    found = await ask(memory, question, k=5, where=("tenant", "a"))
    assert seen(found) == seen(await ask(alone, question, k=5))
    assert sorted(ids(found)) == ["bridge", "town"]
    assert await ask(memory, question, where=("tenant", "nobody")) == []
    assert await ask(memory, question, where=("no such key", "a")) == []


async def test_two_memories_that_are_asked_at_once_do_not_mix(
    adapter, opened, models, items, question
):
    one, two = opened(models), opened(models)
    await asyncio.gather(adapter.aadd(one, items[:3]), adapter.aadd(two, items[3:]))
    retrievers = [adapter.retriever(memory, k=6) for memory in (one, two)] * 20
    found = await asyncio.gather(*(adapter.aask(one, question) for one in retrievers))
    for position, results in enumerate(found):
        expected = items[3:] if position % 2 else items[:3]
        assert sorted(ids(results)) == sorted(item.id for item in expected)
