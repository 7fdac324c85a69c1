"""From a query to ranked passages: the paths, the choice, the ablations and the borders."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hippo_core import (
    ConfigError,
    Extraction,
    HippoConfig,
    HippoRAG,
    InputError,
    ModelRequiredError,
    ParseError,
    Passage,
    PermanentModelError,
    RetrievalPath,
    Triple,
)
from hippo_core.embedding import PROBE
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

V1 = HippoConfig.hipporag()
FAILURES = {
    RetrievalPath.UNFILTERED_UNREADABLE,
    RetrievalPath.UNFILTERED_FAILED,
    RetrievalPath.DENSE_FAILED,
}


def ids(retrieval):
    return [hit.passage.id for hit in retrieval]


def scores(retrieval):
    return {hit.passage.id: hit.score for hit in retrieval}


def kept(retrieval):
    return [linked.triple for linked in retrieval.triples if linked.kept]


def told(*triples, text=None, id_=None, **passage):
    """A passage that states triples; its text are their words."""
    text = text or ". ".join(" ".join(t) for t in triples)
    return Passage(text, id=id_ or text, **passage), Extraction(triples=triples)


class Choosing:
    """A recognition memory that keeps the triples that hold one of its words."""

    def __init__(self, *words):
        self.words, self.asked = words, []

    def choose(self, query, candidates):
        self.asked.append((query, tuple(candidates)))
        return [
            i
            for i, triple in enumerate(candidates)
            if any(w in " ".join(triple) for w in self.words)
        ]


# -- the point of it all ---------------------------------------------------------------------------


def test_the_bridge_passage_that_dense_misses_is_found(open_memory, corpora):
    memory = open_memory(recognition=Choosing("Zora", "Ister"))
    memory.add_extracted(corpora.bridge_items())
    question = corpora.bridge_question
    dense = memory.retrieve(question, k=len(memory), config=HippoConfig.dense())
    assert ids(dense)[-1] == "bridge"  # last of all
    found = memory.retrieve(question, k=3)
    assert found.path == RetrievalPath.GRAPH
    assert set(ids(found)) == {"invented", "bridge", "river"}


def test_the_bridge_is_found_from_the_querys_entities_too(open_memory, corpora):
    memory = open_memory(config=V1, openie=TableOpenIE(queries={"?": ["the tidal clock"]}))
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve("?", k=3)
    assert ids(found) == ["invented", "bridge", "river"]
    assert [(p.entity, p.phrase) for p in found.phrases] == [("the tidal clock", "tidal clock")]
    assert 0 < found.phrases[0].score < 1


# -- paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RetrievalPath)
def test_every_path_is_reached_and_recorded(path, memory_on, corpora):
    memory = memory_on(path)
    found = memory.retrieve(corpora.one_query, k=3)
    assert found.path == path
    assert len(found) == min(3, len(memory))
    assert (found.walk is not None) == path.used_graph
    went_wrong = {"unfiltered: reply unreadable", "unfiltered: call failed",
                  "dense: query entities not read"}  # fmt: skip
    assert bool(found.detail) == (path in went_wrong)
    assert [hit.rank for hit in found] == list(range(1, len(found) + 1))
    listed = [hit.score for hit in found]
    assert all(map(math.isfinite, listed))
    assert listed == pytest.approx(sorted(listed, reverse=True), rel=1e-9)


@pytest.mark.parametrize("path", [p for p in RetrievalPath if p.value.startswith("dense")])
def test_a_dense_path_is_dense_retrieval(path, memory_on, corpora):
    memory = memory_on(path)
    dense = memory.retrieve(corpora.one_query, k=9, config=HippoConfig.dense())
    assert memory.retrieve(corpora.one_query, k=9).passages == dense.passages
    vectors = np.asarray(memory._index.snapshot().corpus.passage_vectors, float)
    (query,) = HashEmbedder().embed([corpora.one_query], "query_to_passage")
    assert [hit.score for hit in dense] == pytest.approx(sorted(vectors @ query, reverse=True))


@pytest.mark.parametrize(
    "path",
    [
        RetrievalPath.UNFILTERED_OFF,
        RetrievalPath.UNFILTERED_UNREADABLE,
        RetrievalPath.UNFILTERED_FAILED,
    ],
)
def test_an_unfiltered_path_keeps_what_is_linked_without_a_judge(path, memory_on, corpora):
    memory = memory_on(path)
    found = memory.retrieve(corpora.one_query)
    alone = memory.retrieve(corpora.one_query, config=HippoConfig(recognition_memory=False))
    assert kept(found) == kept(alone) != []
    published = memory.retrieve(corpora.one_query, config=HippoConfig.hipporag2())
    assert len(kept(published)) == len(published.triples) == 5
    assert [t.score for t in found.triples] == sorted(
        (t.score for t in found.triples), reverse=True
    )


def test_the_detail_says_what_went_wrong(memory_on, corpora):
    def detail(path):
        return memory_on(path).retrieve(corpora.one_query).detail

    assert "401: no key" in detail(RetrievalPath.UNFILTERED_FAILED)
    assert "Well..." in detail(RetrievalPath.UNFILTERED_UNREADABLE)
    assert "the parser is broken" in detail(RetrievalPath.DENSE_FAILED)


def test_none_kept_is_no_unreadable_reply(memory_on, corpora):
    found = memory_on(RetrievalPath.DENSE_NONE_KEPT).retrieve(corpora.one_query)
    assert len(found.triples) == 7  # all that there are were shown, none kept
    assert not kept(found)
    assert not found.detail


def test_a_recognition_memory_that_fails_is_a_failed_call(open_memory, corpora):
    class Broken:
        def choose(self, query, candidates):
            raise OSError("the judge is out")

    memory = open_memory(recognition=Broken())
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query)
    assert found.path == RetrievalPath.UNFILTERED_FAILED
    assert "the judge is out" in found.detail


STRICT = {"on_failure": "raise"}


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (RetrievalPath.UNFILTERED_UNREADABLE, ParseError),
        (RetrievalPath.UNFILTERED_FAILED, PermanentModelError),
        (RetrievalPath.DENSE_FAILED, PermanentModelError),
    ],
)
def test_a_strict_query_raises_what_another_one_goes_on_without(path, error, memory_on, corpora):
    memory = memory_on(path)
    strict = memory.config.but(**STRICT)
    with pytest.raises(error):
        memory.retrieve(corpora.one_query, config=strict)
    assert memory.retrieve(corpora.one_query).path == path


def test_a_strict_query_raises_where_the_second_hop_fails(open_memory, corpora):
    class Tiring(HashEmbedder):
        def embed(self, texts, kind):
            if kind == "query_to_triple" and texts != [corpora.one_query]:
                raise PermanentModelError("401: no key")
            return super().embed(texts, kind)

    memory = open_memory(embedder=Tiring(), config=HippoConfig(second_hop=3))
    memory.add_extracted(corpora.bridge_items())
    assert "no second hop" in memory.retrieve(corpora.one_query).detail
    with pytest.raises(PermanentModelError, match="no key"):
        memory.retrieve(corpora.one_query, config=HippoConfig(second_hop=3, **STRICT))


@pytest.mark.parametrize("path", [p for p in RetrievalPath if p not in FAILURES])
def test_a_strict_query_that_goes_as_it_should_is_the_same(path, memory_on, corpora):
    memory = memory_on(path)
    strict = memory.config.but(**STRICT)
    found = memory.retrieve(corpora.one_query, config=strict)
    assert found.path == path
    assert found.passages == memory.retrieve(corpora.one_query).passages


@pytest.mark.parametrize("entities", [[], ["!!!", "  ", "—"]])
def test_a_query_without_entities_is_dense_and_not_the_corpus_tail(entities, open_memory, corpora):
    memory = open_memory(config=V1, openie=TableOpenIE(queries={corpora.one_query: entities}))
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query, k=3)
    assert found.path == RetrievalPath.DENSE_NO_ENTITY
    assert ids(found)[0] == "invented"


def test_entities_in_a_graph_without_phrases_are_linked_to_nothing(open_memory):
    memory = open_memory(config=V1, openie=TableOpenIE(queries={"Ada?": ["Ada"]}))
    memory.add_extracted([(Passage("Only words."), Extraction())])
    assert memory.retrieve("Ada?").path == RetrievalPath.DENSE_NOTHING_LINKED


@pytest.mark.parametrize("reply", ["no JSON at all", PermanentModelError("401")])
def test_a_chat_model_that_cannot_name_entities_leads_to_dense(reply, open_memory, corpora):
    memory = open_memory(ScriptedChatModel(lambda _: reply), config=V1)
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query)
    assert found.path == RetrievalPath.DENSE_FAILED
    assert found.detail
    assert found.usage.chat_calls <= 1


def test_the_chat_model_names_the_entities_where_there_is_no_openie(open_memory, corpora):
    chat = ScriptedChatModel(lambda _: '{"named_entities": ["Zora Quint"]}')
    memory = open_memory(chat, config=V1)
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query)
    assert found.path == RetrievalPath.GRAPH
    assert [p.phrase for p in found.phrases] == ["Zora Quint"]
    assert len(chat.calls) == 1


def test_hipporag_without_anything_that_names_entities_says_so(open_memory, corpora):
    memory = open_memory(config=V1)
    memory.add_extracted(corpora.bridge_items())
    with pytest.raises(ModelRequiredError, match="hipporag2"):
        memory.retrieve(corpora.one_query)


def test_a_query_that_no_vector_is_near_is_still_answered(open_memory):
    class Orthogonal(HashEmbedder):
        def embed(self, texts, kind):
            rows = np.zeros((len(texts), 4), dtype=np.float32)
            rows[:, 1 if kind.startswith("query") else 0] = 1
            return rows

    memory = open_memory(embedder=Orthogonal())
    memory.add_extracted([told(("a", "is", f"b{i}")) for i in range(4)])
    for config in (HippoConfig(), HippoConfig.dense()):
        found = memory.retrieve("zzz", config=config)
        assert len(found) == 4
        assert all(math.isfinite(hit.score) for hit in found)


def test_an_embedder_of_zeros_gives_no_nan(open_memory):
    class Zeros(HashEmbedder):
        def embed(self, texts, kind):
            rows = super().embed(texts, kind)
            return rows if PROBE in texts else rows * 0

    memory = open_memory(embedder=Zeros(), openie=TableOpenIE(queries={"q": ["x"]}))
    memory.add_extracted([told(("a", "is", "b"))])
    memory.add_extracted([told(("c", "is", "d"))])
    for config in (HippoConfig(), V1, HippoConfig.dense()):
        assert all(math.isfinite(hit.score) for hit in memory.retrieve("q", config=config))


# -- ensemble --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entity", "path"),
    [("tidal clock", RetrievalPath.GRAPH), ("clock of tides", RetrievalPath.ENSEMBLE)],
)
def test_only_uncertain_links_are_averaged_with_dense(entity, path, open_memory, corpora):
    memory = open_memory(config=V1, openie=TableOpenIE(queries={"Zora?": [entity]}))
    memory.add_extracted(corpora.bridge_items())
    alone = scores(memory.retrieve("Zora?", k=9))
    dense = scores(memory.retrieve("Zora?", k=9, config=HippoConfig.dense()))
    found = memory.retrieve("Zora?", k=9, config=V1.but(dense_ensemble=True))
    assert found.path == path
    if path == RetrievalPath.GRAPH:
        assert scores(found) == alone
    else:
        low, high = min(dense.values()), max(dense.values())
        mean = {i: (alone[i] + (dense[i] - low) / (high - low)) / 2 for i in alone}
        assert scores(found) == pytest.approx(mean)


def test_the_weakest_link_decides_whether_they_are_certain(open_memory, corpora):
    queries = {"q": ["tidal clock", "clock of tides"]}
    memory = open_memory(config=V1.but(dense_ensemble=True), openie=TableOpenIE(queries=queries))
    memory.add_extracted(corpora.bridge_items())
    assert memory.retrieve("q").path == RetrievalPath.ENSEMBLE


def test_a_link_at_the_threshold_is_uncertain(open_memory):
    config = V1.but(dense_ensemble=True, ensemble_threshold=1.0)
    memory = open_memory(config=config, openie=TableOpenIE(queries={"q": ["x"]}), embedder=OneHot())
    memory.add_extracted([told(("x", "is", "y"))])
    found = memory.retrieve("q")
    assert found.phrases[0].score == 1.0
    assert found.path == RetrievalPath.ENSEMBLE


class OneHot(HashEmbedder):
    """Gives each text an axis of its own, so that cosines are exactly 0 or 1."""

    def __init__(self):
        super().__init__(name="one-hot")
        self.axes = {}

    def embed(self, texts, kind):
        self.calls.append((kind, list(texts)))
        rows = np.zeros((len(texts), 256), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[self.axes.setdefault(text, len(self.axes))] = 1
        return rows


# -- ablations -------------------------------------------------------------------------------------


def test_node_specificity_favours_the_rarer_phrase(open_memory):
    """Two seeds alike but for how many passages hold them."""
    memory = open_memory(openie=TableOpenIE(queries={"q": ["hub", "rare"]}), embedder=OneHot())
    memory.add_extracted(
        [told(("rare", "is", "end"), id_="rare"), (Passage("Bare.", id="bare"), Extraction())]
        + [told(("hub", "is", f"leaf {i}"), id_=f"hub {i}") for i in range(6)]
    )
    on = scores(memory.retrieve("q", k=9, config=V1))
    off = scores(memory.retrieve("q", k=9, config=V1.but(node_specificity=False)))
    assert on["rare"] == off["rare"] == 1
    assert on["hub 0"] < off["hub 0"]


def test_node_specificity_divides_the_seeds_of_triples(open_memory):
    memory = open_memory()
    memory.add_extracted(
        [told(("hub", "is", "rare"), id_="both")]
        + [told(("hub", "is", f"leaf {i}"), id_=f"leaf {i}") for i in range(6)]
    )
    config = HippoConfig(linked_triples=1, seed_phrases=1)
    on = memory.retrieve("hub is rare", k=9, config=config)
    off = memory.retrieve("hub is rare", k=9, config=config.but(node_specificity=False))
    assert kept(on) == kept(off) == [("hub", "is", "rare")]
    # With it the one seed is `rare`, without it `hub`, the first of two alike.
    assert scores(on)["leaf 0"] < scores(off)["leaf 0"]


def test_without_synonymy_a_synonym_leads_nowhere(open_memory):
    memory = open_memory(
        config=V1.but(synonymy_threshold=0.7),
        openie=TableOpenIE(queries={"q": ["the old tidal clock"]}),
    )
    memory.add_extracted(
        [
            told(("the old tidal clock", "is", "lost"), id_="here"),
            told(("old tidal clock", "chimed in", "Osk"), id_="there"),
            told(("nothing", "is", "here"), id_="zero"),
        ]
    )
    assert memory.stats().synonymy_edges == 1
    shape = {"synonymy_threshold": 0.7}
    on = scores(memory.retrieve("q", config=HippoConfig.hipporag(**shape)))
    off = scores(memory.retrieve("q", config=HippoConfig.hipporag(synonymy=False, **shape)))
    assert on["there"] > 0
    assert off["there"] == off["zero"] == 0


@pytest.mark.parametrize(
    ("expansion", "expected"),
    [
        # one triple: both its phrases; the seed is `a`
        ("linked_phrases", {"near": 1, "next": 0, "far": 0}),
        # near: 1 + 0.5, next: 0.5
        ("neighbours", {"near": 1, "next": 1 / 3, "far": 0}),
    ],
)
def test_an_expansion_spreads_as_far_as_it_says(expansion, expected, open_memory):
    memory = open_memory(openie=TableOpenIE(queries={"q": ["a"]}), embedder=OneHot())
    memory.add_extracted(
        [
            told(("a", "is", "b"), id_="near"),
            told(("b", "is", "c"), id_="next"),
            told(("c", "is", "d"), id_="far"),
        ]
    )
    found = memory.retrieve("q", config=V1.but(expansion=expansion))
    assert scores(found) == pytest.approx(expected)
    assert found.walk is None
    ppr = scores(memory.retrieve("q", config=V1))
    assert ppr["near"] > ppr["next"] > ppr["far"] == 0


def test_damping_0_stays_on_the_seeds(open_memory):
    memory = open_memory(openie=TableOpenIE(queries={"q": ["a"]}), embedder=OneHot())
    memory.add_extracted([told(("a", "is", "b"), id_="1"), told(("b", "is", "c"), id_="2")])
    assert scores(memory.retrieve("q", config=V1.but(damping=0.0))) == {"1": 1, "2": 0}


def test_the_number_of_linked_triples_and_seed_phrases_is_as_configured(open_memory, corpora):
    memory = open_memory()
    memory.add_extracted(corpora.bridge_items())
    for n in (1, 2, 7, 50):
        found = memory.retrieve(corpora.one_query, config=HippoConfig(linked_triples=n))
        assert len(found.triples) == min(n, 7)
    one = memory.retrieve(corpora.one_query, config=HippoConfig(seed_phrases=1, passage_weight=0.0))
    assert sum(hit.score > 0 for hit in one) < 7


# -- ties and borders of scaling -------------------------------------------------------------------


def test_one_passage_with_one_triple_is_found(open_memory):
    memory = open_memory(openie=TableOpenIE(queries={"Ada?": ["Ada"]}))
    memory.add_extracted([told(("Ada", "wrote", "notes"), id_="only")])
    for config in (HippoConfig(), V1, HippoConfig.dense()):
        found = memory.retrieve("Ada?", config=config)
        assert ids(found) == ["only"]
        assert math.isfinite(found.passages[0].score)
    assert memory.retrieve("Ada?").triples[0].score == 1.0


@pytest.mark.parametrize("config", [HippoConfig(), V1, HippoConfig.dense()])
def test_identical_passages_tie_and_go_by_id(config, open_memory):
    memory = open_memory(openie=TableOpenIE(queries={"Ada?": ["Ada"]}))
    reading = Extraction(triples=[("Ada", "wrote", "notes")])
    for id_ in ("c", "a", "b"):
        memory.add_extracted([(Passage("Ada wrote notes.", id=id_), reading)])
    for _ in range(2):
        found = memory.retrieve("Ada?", config=config)
        assert ids(found) == ["a", "b", "c"]
        assert len({round(hit.score, 12) for hit in found}) == 1
    assert ids(memory.retrieve("Ada?", config=config, k=2)) == ["a", "b"]


def test_kept_triples_that_scale_to_0_still_lead(open_memory):
    memory = open_memory(recognition=Choosing("worst"))
    memory.add_extracted(
        [told(("Ada", "wrote", "notes"), id_="best"), told(("zzz", "is", "worst"))]
    )
    found = memory.retrieve("Ada wrote notes", k=1)
    assert [t.score for t in found.triples] == [1.0, 0.0]
    assert kept(found) == [("zzz", "is", "worst")]
    assert ids(found) == ["zzz is worst"]


def test_passages_no_triple_touches_are_found_by_their_text(open_memory):
    memory = open_memory()
    memory.add_extracted(
        [
            told(("Ada", "wrote", "notes"), id_="graph"),
            (Passage("A bare passage about zebras.", id="bare"), Extraction()),
        ]
    )
    assert ids(memory.retrieve("zebras passage", k=2, config=HippoConfig(passage_weight=50.0))) == [
        "bare", "graph"
    ]  # fmt: skip
    assert set(ids(memory.retrieve("zebras passage"))) == {"bare", "graph"}


# -- the choice ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ('{"keep": [2]}', [1]),
        ('{"keep": [3, 1]}', [0, 2]),
        ('{"keep": [2, 9, 0, -1, 2, 77]}', [1]),
        ('```json\n{"keep": ["2"]}\n```', [1]),
        ('{"keep": [1, 2, 3, 4, 5]}', [0, 1, 2, 3]),  # at most four
    ],
)
def test_the_reply_chooses_by_number_and_unknown_numbers_are_ignored(
    reply, chosen, open_memory, corpora
):
    memory = open_memory(ScriptedChatModel(lambda _: reply))
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query)
    assert [place for place, linked in enumerate(found.triples) if linked.kept] == chosen
    assert found.path == RetrievalPath.GRAPH


@pytest.mark.parametrize("positions", [[9], [-1], [99, -5], [10**30], []])
def test_positions_out_of_range_are_no_answer(positions, open_memory, corpora):
    class Fixed:
        def choose(self, query, candidates):
            return positions

    memory = open_memory(recognition=Fixed())
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query)
    if not positions:
        assert found.path == RetrievalPath.DENSE_NONE_KEPT
        return
    assert found.path == RetrievalPath.UNFILTERED_UNREADABLE
    assert str(positions[0]) in found.detail
    alone = memory.retrieve(corpora.one_query, config=HippoConfig(recognition_memory=False))
    assert found.passages == alone.passages


def test_a_choice_of_code_is_not_run(open_memory, corpora, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reply = "{\"keep\": [\"__import__('pathlib').Path('pwned').touch()\"]}"
    memory = open_memory(ScriptedChatModel(lambda _: reply))
    memory.add_extracted(corpora.bridge_items())
    assert memory.retrieve(corpora.one_query).path == RetrievalPath.UNFILTERED_UNREADABLE
    assert not list(tmp_path.iterdir())


def test_more_may_be_kept_where_the_config_says(open_memory, corpora):
    memory = open_memory(recognition=Choosing(""))
    memory.add_extracted(corpora.bridge_items())
    for limit in (1, 4, 9):
        config = HippoConfig(recognition_limit=limit)
        assert len(kept(memory.retrieve(corpora.one_query, config=config))) == min(limit, 7)


def test_the_judge_sees_display_forms_best_first(open_memory):
    judge = Choosing("")
    memory = open_memory(recognition=judge)
    memory.add_extracted(
        [
            told(("ADA", "wrote", "Notes"), text="1"),
            told(("Ada", "Wrote", "notes"), text="2"),
            told(("Ada", "met", "Notes"), text="3"),
            told(("Zed", "is", "far"), text="4"),
        ]
    )
    found = memory.retrieve("Ada wrote notes?")
    ((query, shown),) = judge.asked
    assert query == "Ada wrote notes?"
    assert shown[0] == Triple("Ada", "Wrote", "Notes")  # the commonest spelling of each phrase
    assert shown == tuple(linked.triple for linked in found.triples)
    assert found.triples[0].passage_ids == ("1", "2")


# -- what is asked of models -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", ['{"keep": [1]}', '{"keep": []}', "garbage", PermanentModelError("x")]
)
def test_recognition_is_asked_exactly_once_a_query(reply, open_memory, corpora):
    chat = ScriptedChatModel(lambda _: reply)
    memory = open_memory(chat)
    memory.add_extracted(corpora.bridge_items())
    for n in (1, 2, 3):
        memory.retrieve(corpora.one_query)
        assert len(chat.calls) == n


def test_recognition_switched_off_calls_nobody(open_memory, corpora):
    chat, judge = ScriptedChatModel([]), Choosing("Zora")
    memory = open_memory(chat, recognition=judge)
    memory.add_extracted(corpora.bridge_items())
    found = memory.retrieve(corpora.one_query, config=HippoConfig(recognition_memory=False))
    assert found.path == RetrievalPath.UNFILTERED_OFF
    assert found.usage.chat_calls == 0
    memory.retrieve(corpora.one_query, config=HippoConfig.dense())
    assert not chat.calls
    assert not judge.asked


def test_the_given_judge_goes_before_the_chat_model(open_memory, corpora):
    chat = ScriptedChatModel([])
    memory = open_memory(chat, recognition=Choosing("Zora"))
    memory.add_extracted(corpora.bridge_items())
    assert memory.retrieve(corpora.one_query).path == RetrievalPath.GRAPH
    assert not chat.calls


def test_this_calls_chat_model_is_used_in_place_of_the_memorys(open_memory, corpora):
    own, other = ScriptedChatModel([]), ScriptedChatModel(lambda _: '{"keep": [1]}')
    memory = open_memory(own)
    memory.add_extracted(corpora.bridge_items())
    assert memory.retrieve(corpora.one_query, chat_model=other).path == RetrievalPath.GRAPH
    assert (len(own.calls), len(other.calls)) == (0, 1)
    with pytest.raises(TypeError, match="complete"):
        memory.retrieve(corpora.one_query, chat_model="gpt-4")


class Asymmetric(HashEmbedder):
    one_query_encoding = False

    def embed(self, texts, kind):
        rows = super().embed(texts, kind)
        # A turn of the vector that depends on the kind.
        turn = {"query_to_passage": 0.1, "query_to_triple": 0.2, "query_to_phrase": 0.3}
        return rows + np.float32(turn.get(kind, 0))


@pytest.mark.parametrize(
    ("config", "symmetric", "kinds"),
    [
        (HippoConfig(), True, ["query_to_passage"]),
        (HippoConfig(), False, ["query_to_passage", "query_to_triple"]),
        (HippoConfig.dense(), True, ["query_to_passage"]),
        (HippoConfig.dense(), False, ["query_to_passage"]),
        (V1, True, ["query_to_phrase"]),
        (V1, False, ["query_to_phrase"]),
        (V1.but(dense_ensemble=True), False, ["query_to_phrase", "query_to_passage"]),
    ],
)
def test_a_query_is_embedded_as_often_as_the_embedder_tells_it_apart(
    config, symmetric, kinds, open_memory, corpora
):
    embedder = HashEmbedder() if symmetric else Asymmetric()
    openie = TableOpenIE(queries={corpora.one_query: ["clocks of tides", "Zora"]})
    memory = open_memory(embedder=embedder, openie=openie)
    memory.add_extracted(corpora.bridge_items())
    embedder.calls.clear()
    found = memory.retrieve(corpora.one_query, config=config)
    assert [kind for kind, _ in embedder.calls] == kinds
    assert found.usage.stages["embedding"].calls == len(kinds)


def test_the_first_query_of_a_handle_embeds_the_probe_too(open_memory, store_location, corpora):
    with_ = {"store": store_location}
    open_memory(**with_).add_extracted(corpora.bridge_items())
    embedder = HashEmbedder()
    memory = open_memory(embedder=embedder, **with_)
    for _ in range(2):
        memory.retrieve(corpora.one_query)
    asked = [texts for _, texts in embedder.calls]
    assert asked == [[PROBE], [corpora.one_query], [corpora.one_query]]


def test_an_empty_memory_asks_nobody(open_memory):
    embedder, chat = HashEmbedder(), ScriptedChatModel([])
    memory = open_memory(chat, embedder)
    for config in (HippoConfig(), V1, HippoConfig.dense()):
        found = memory.retrieve("anything", config=config)
        assert found.path == RetrievalPath.EMPTY
        assert not found
        assert list(found) == []
    assert not embedder.calls
    assert not chat.calls


# -- k, query, score mode, config ------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, None, 2.0, "3", True])
def test_k_below_1_or_no_whole_number_is_refused(k, open_memory):
    with pytest.raises(InputError, match="k must be"):
        open_memory().retrieve("q", k=k)


@pytest.mark.parametrize("k", [1, 2, 7, 8, 10_000])
def test_k_is_how_many_come_back_if_there_are_so_many(k, open_memory, corpora):
    memory = open_memory()
    memory.add_extracted(corpora.bridge_items())
    everything = ids(memory.retrieve(corpora.one_query, k=100))
    assert ids(memory.retrieve(corpora.one_query, k=k)) == everything[:k]


@pytest.mark.parametrize("query", ["", "  \n\t", None, 5, ["q"]])
def test_a_blank_query_is_refused_before_anything_is_asked(query, open_memory):
    embedder = HashEmbedder()
    memory = open_memory(embedder=embedder)
    with pytest.raises(InputError, match="query"):
        memory.retrieve(query)
    with pytest.raises(InputError, match="query"):
        memory.retrieve_many(["fine", query])
    assert not embedder.calls


def test_one_query_where_a_list_is_meant_is_refused(open_memory):
    with pytest.raises(InputError, match="list"):
        open_memory().retrieve_many("query")
    assert open_memory().retrieve_many([]) == []


@pytest.mark.parametrize("path", [p for p in RetrievalPath if p != RetrievalPath.EMPTY])
def test_relative_scores_rank_alike_and_the_best_is_1(path, memory_on, corpora):
    memory = memory_on(path)
    plain = memory.retrieve(corpora.one_query, k=9)
    relative = memory.retrieve(corpora.one_query, k=9, score_mode="relative")
    assert ids(relative) == ids(plain)
    assert relative.passages[0].score == 1.0
    best = plain.passages[0].score
    assert [h.score for h in relative] == pytest.approx([h.score / best for h in plain])


def test_relative_scores_of_a_query_far_from_everything_descend_from_1(open_memory):
    class Opposite(HashEmbedder):
        def embed(self, texts, kind):
            return super().embed(texts, kind) * (-1 if kind.startswith("query") else 1)

    memory = open_memory(embedder=Opposite(), config=HippoConfig.dense())
    memory.add_extracted([told(("a", "b", "c")), told(("a", "b", "d"))])
    found = memory.retrieve("a b c d", score_mode="relative")
    assert found.passages[0].score == 1.0
    assert found.passages[1].score < 1.0


def test_an_unknown_score_mode_is_refused(open_memory):
    with pytest.raises(InputError, match="relative"):
        open_memory().retrieve("q", score_mode="percent")


def test_a_calls_config_counts_for_that_call_alone(open_memory, corpora):
    memory = open_memory(openie=TableOpenIE(queries=corpora.queries))
    memory.add_extracted(corpora.bridge_items())
    before = memory.retrieve(corpora.one_query)
    paths = [
        memory.retrieve(corpora.one_query, config=config).path
        for config in (HippoConfig.dense(), V1, HippoConfig(damping=0.1))
    ]
    assert paths == [RetrievalPath.DENSE, RetrievalPath.GRAPH, RetrievalPath.UNFILTERED_OFF]
    assert memory.retrieve(corpora.one_query).passages == before.passages


@pytest.mark.parametrize(
    ("opened_with", "asked_for", "name"),
    [
        (HippoConfig(), HippoConfig(synonymy_threshold=0.7), "synonymy_threshold"),
        (HippoConfig(synonymy=False), HippoConfig(), "synonymy=True"),
    ],
)
def test_a_config_that_shapes_the_index_otherwise_is_refused(
    opened_with, asked_for, name, open_memory
):
    memory = open_memory(config=opened_with)
    with pytest.raises(ConfigError, match=name):
        memory.retrieve("q", config=asked_for)
    with pytest.raises(ConfigError, match=name):
        memory.retrieve_many(["q"], config=asked_for)


# -- explanations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rendering", ["words", "tuple"])
def test_a_query_has_the_rendering_of_its_memory_whatever_it_says(rendering, open_memory, corpora):
    memory = open_memory(config=HippoConfig(triple_rendering=rendering))
    memory.add_extracted(corpora.bridge_items())
    for other in (HippoConfig(), HippoConfig.hipporag2()):
        given = memory.retrieve(corpora.one_query, config=other)
        own = memory.retrieve(corpora.one_query, config=other.but(triple_rendering=rendering))
        assert given == replace(own, usage=given.usage)


def test_a_passage_is_explained_by_triples_that_touch_its_phrases(open_memory, corpora):
    memory = open_memory(recognition=Choosing("Zora"), config=HippoConfig.hipporag2())
    items = corpora.bridge_items()
    many = [("Zora Quint", "met", f"person {i}") for i in range(9)]
    items.append((Passage("Zora met many.", id="many"), Extraction(triples=many)))
    memory.add_extracted(items)
    phrases = {
        passage.id: {end for t in reading.triples for end in (t[0], t[2])}
        for passage, reading in items
    }
    found = memory.retrieve(corpora.bridge_question, k=9)
    for hit in found:
        assert all({t.subject, t.object} & phrases[hit.passage.id] for t in hit.triples)
        assert len(hit.triples) <= 3
    (bridge,) = (hit for hit in found if hit.passage.id == "bridge")
    assert ("Zora Quint", "grew up at", "Velmora") in bridge.triples


def test_a_passage_is_explained_by_the_triple_that_led_to_it_from_another(open_memory):
    memory = open_memory(recognition=Choosing("bridge"))
    designed = ("bridge", "was designed by", "Roebling")
    memory.add_extracted(
        [
            told(designed, text="bridge", id_="bridge"),
            told(("Roebling", "came from", "Saxonburg"), text="engineer", id_="engineer"),
            told(("Ada", "is", "here"), text="other", id_="other"),
        ]
    )
    found = {hit.passage.id: hit for hit in memory.retrieve("Who designed the bridge?")}
    assert found["engineer"].triples[0] == designed


def test_a_passage_the_walk_did_not_reach_is_not_explained(open_memory):
    memory = open_memory(openie=TableOpenIE(queries={"q": ["Ada"]}))
    memory.add_extracted([told(("Ada", "is", "x"), id_="1"), told(("Bob", "is", "y"), id_="2")])
    assert [hit.triples for hit in memory.retrieve("q", config=V1)] == [(("Ada", "is", "x"),), ()]
    dense = memory.retrieve("q", config=HippoConfig.dense())
    assert [hit.triples for hit in dense] == [(), ()]


def test_linked_triples_name_the_passages_that_state_them(open_memory):
    memory = open_memory()
    memory.add_extracted(
        [
            told(("Ada", "wrote", "notes"), text="1", id_="z"),
            told(("ada", "WROTE", "notes!"), text="2", id_="y"),
            told(("Bob", "is", "here"), text="3", id_="x"),
        ]
    )
    found = memory.retrieve("Ada wrote notes")
    assert {t.triple.subject: t.passage_ids for t in found.triples} == {
        "Ada": ("y", "z"), "Bob": ("x",)
    }  # fmt: skip
    memory.delete(["z"])
    found = memory.retrieve("Ada wrote notes")
    assert found.triples[0].triple == ("ada", "WROTE", "notes!")
    assert found.triples[0].passage_ids == ("y",)


@pytest.mark.parametrize("score_mode", ["ppr", "relative"])
@pytest.mark.parametrize("dimension", [64, 65, 300, 384])
def test_scores_never_rise_with_the_rank_though_ties_are_told_apart_by_ids(dimension, score_mode):
    """The products of one vector at many places differ in their last bits."""
    for n in (5, 7, 50):
        with HippoRAG(None, HashEmbedder(dimension, "words"), openie=TableOpenIE()) as memory:
            memory.add([Passage("Hippos swim.", id=f"{i:02}") for i in range(n)])
            found = memory.retrieve("Do hippos swim?", k=n, score_mode=score_mode)
        assert ids(found) == [f"{i:02}" for i in range(n)]
        told = [hit.score for hit in found]
        assert told == sorted(told, reverse=True)
        assert score_mode == "ppr" or told[0] == 1.0
