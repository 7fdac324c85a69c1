"""Dense queries: texts that stand for the query where it is compared with whole passages."""

import numpy as np
import pytest

from hippo_core import Extraction, HippoConfig, HippoRAG, InputError, Passage, Triple
from hippo_core.testing import HashEmbedder

QUERY = "Who wrote the first program?"
TEXTS = {
    "ada": "Ada Lovelace wrote the first program.",
    "babbage": "Charles Babbage built an engine of brass.",
    "hippos": "Hippos swim in the Nile.",
}
TRIPLES = {
    "ada": Triple("Ada Lovelace", "wrote", "the first program"),
    "babbage": Triple("Charles Babbage", "built", "an engine of brass"),
    "hippos": Triple("Hippos", "swim in", "the Nile"),
}
CONFIGS = [HippoConfig(), HippoConfig.hipporag2(), HippoConfig.dense()]


class ByKind(HashEmbedder):
    """Encodes a query by what it is compared with."""

    one_query_encoding = False


@pytest.fixture(params=[HashEmbedder, ByKind])
def memory(request):
    with HippoRAG(None, request.param()) as memory:
        memory.add_extracted(
            [
                (Passage(text, id=id_), Extraction(triples=(TRIPLES[id_],)))
                for id_, text in TEXTS.items()
            ]
        )
        yield memory


def scores(found):
    return {hit.passage.id: hit.score for hit in found}


@pytest.mark.parametrize("config", CONFIGS)
def test_the_query_itself_changes_nothing(memory, config):
    plain = memory.retrieve(QUERY, config=config)
    again = memory.retrieve(QUERY, config=config, dense_queries=[QUERY])
    assert scores(again) == pytest.approx(scores(plain), abs=1e-6)
    assert again.triples == plain.triples


def test_passages_are_compared_with_the_mean_of_the_texts(memory):
    texts = ["Hippos swim.", "brass engine"]
    found = memory.retrieve(QUERY, config=HippoConfig.dense(), dense_queries=texts)
    embedder = HashEmbedder()
    mean = embedder.embed(texts, "query_to_passage").mean(axis=0)
    passages = embedder.embed(list(TEXTS.values()), "passage")
    lengths = np.linalg.norm(mean) * np.linalg.norm(passages, axis=1)
    expected = dict(zip(TEXTS, (passages @ mean / lengths).tolist(), strict=True))
    assert scores(found) == pytest.approx(expected, abs=1e-6)
    assert next(iter(found)).passage.id != "ada"


def test_the_query_alone_is_linked(memory):
    config = HippoConfig.hipporag2()
    plain = memory.retrieve(QUERY, config=config)
    found = memory.retrieve(QUERY, config=config, dense_queries=["Hippos swim in the Nile."])
    assert found.triples == plain.triples
    assert scores(found)["hippos"] > scores(plain)["hippos"]


async def test_async_gives_the_same(memory):
    texts = ["Hippos swim.", "brass engine"]
    found = await memory.aretrieve(QUERY, dense_queries=texts)
    assert scores(found) == scores(memory.retrieve(QUERY, dense_queries=texts))


@pytest.mark.parametrize("texts", ["Hippos", [""], ["Hippos", " "], [3]])
async def test_what_is_no_list_of_texts_is_refused(memory, texts):
    with pytest.raises(InputError):
        memory.retrieve(QUERY, dense_queries=texts)
    with pytest.raises(InputError):
        await memory.aretrieve(QUERY, dense_queries=texts)
