"""Our OpenIE in LlamaIndex's own graphs and pipelines: nothing lost, nothing paid for twice."""

import asyncio
import copy
import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import PropertyGraphIndex, Settings
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from hippo_core import (
    Budget,
    BudgetExceededError,
    Completion,
    Extraction,
    HippoConfig,
    IndexingError,
    InputError,
    ModelRequiredError,
    PermanentModelError,
    Prompts,
    StoreError,
    TokenUsage,
    Triple,
    normalise_phrase,
)
from hippo_core.testing import ScriptedChatModel, TableOpenIE
from llama_index_hipporag import HippoRAGExtractor
from llama_index_hipporag._node_graph import graph_name, with_graph

ROOT = Path(__file__).parents[2]
NO_KEY = PermanentModelError("401: no key")


class Flaky(ScriptedChatModel):
    """Another chat model that fails to read texts while they are among `broken`."""

    def __init__(self, core, broken):
        self.broken = set(broken)
        self.core = core
        super().__init__(self._answer)

    def _answer(self, messages):
        if any(text in messages[-1].content for text in self.broken):
            return NO_KEY
        return self.core.complete(messages)


@pytest.fixture
def extractor_of(closing):
    return lambda *args, **options: closing(HippoRAGExtractor(*args, **options))


@pytest.fixture
def flaky(core_chat, nodes):
    return Flaky(core_chat, [nodes[2].text])


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    monkeypatch.setattr(Settings, "_llm", None)


def triples_of(node):
    return [(r.source_id, r.label, r.target_id) for r in node.metadata["relations"]]


def stored(store):
    """Give what a property graph store holds, without the vectors."""
    relations = {key: r.properties for key, r in store.graph.relations.items()}
    return {n.id: n.properties for n in store.graph.nodes.values()}, relations


# -- what a node becomes ---------------------------------------------------------------------------


def test_a_node_comes_back_with_what_was_read_and_its_metadata_as_properties(
    extractor_of, llama_chat, nodes
):
    read = extractor_of(llama_chat)(nodes)
    bridge = read[0].metadata
    expected = ("Brooklyn bridge", "Was designed by", "John roebling")
    assert triples_of(read[0]) == [expected]
    assert [entity.name for entity in bridge["nodes"]] == [expected[0], expected[2]]
    for part in (*bridge["nodes"], *bridge["relations"]):
        assert part.properties == nodes[0].metadata
    assert [node.node_id for node in read] == [node.node_id for node in nodes]


def test_the_nodes_that_go_in_stay_as_they_are_and_their_text_too(extractor_of, llama_chat, nodes):
    before = copy.deepcopy(nodes)
    read = extractor_of(llama_chat)(nodes)
    assert nodes == before
    for node, now in zip(nodes, read, strict=True):
        for mode in (MetadataMode.NONE, MetadataMode.EMBED, MetadataMode.LLM):
            assert now.get_content(mode) == node.get_content(mode)
        assert now.relationships == node.relationships


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_phrases_have_one_name_where_a_memory_has_one_phrase(left, right):
    for phrase in (left, right):
        assert normalise_phrase(graph_name(phrase)) == normalise_phrase(phrase)
        assert graph_name(graph_name(phrase)) == graph_name(phrase)
    same = normalise_phrase(left) == normalise_phrase(right)
    assert (graph_name(left) == graph_name(right)) is same


FIELDS = st.sampled_from(["The Nile", "the  nile", "C++", "is", "Is", "ısı", "-", "->"]) | st.text()


@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=5))
def test_a_graph_states_just_the_triples_that_a_memory_would_have(triples):
    node = with_graph(TextNode(text="x"), [Triple(*fields) for fields in triples])
    keyed = {tuple(map(normalise_phrase, fields)) for fields in triples}
    found = [tuple(map(normalise_phrase, fields)) for fields in triples_of(node)]
    assert set(found) == {key for key in keyed if key[0] and key[2]}
    names = {entity.id for entity in node.metadata["nodes"]}
    assert names == {end for s, _, o in triples_of(node) for end in (s, o)}


@pytest.mark.parametrize("phrase", ["The Nile", "ısı", "ŉ", "ß", "i̇", 'a "b"', "ǆ", "ΰ", "ﬁn"])
def test_a_name_keeps_the_key_in_hard_cases(phrase):
    assert normalise_phrase(graph_name(phrase)) == normalise_phrase(phrase)
    assert EntityNode(name=graph_name(phrase)).id == graph_name(phrase)


def test_spellings_of_one_phrase_are_one_entity_of_the_property_graph(extractor_of, words):
    read = {
        "The Nile floods.": Extraction(triples=[("The Nile", "floods", "Egypt")]),
        "It is the  Nile.": Extraction(triples=[("the  Nile", "Floods", "Egypt.")]),
    }
    index = PropertyGraphIndex(
        [TextNode(text=text) for text in read],
        kg_extractors=[extractor_of(openie=TableOpenIE(read))],
        embed_model=words,
    )
    entities = [n.id for n in index.property_graph_store.get() if isinstance(n, EntityNode)]
    assert sorted(entities) == ["Egypt", "The nile"]
    assert len(index.property_graph_store.graph.relations) == 1


def test_what_has_no_letter_is_left_out_and_a_relation_without_one_keeps_its_words(extractor_of):
    triples = [("Ada", "->", "notes"), ("...", "wrote", "notes"), ("Ada", "wrote", "?")]
    openie = TableOpenIE({"x": Extraction(triples=triples)})
    (node,) = extractor_of(openie=openie)([TextNode(text="x")])
    labels = [label for _, label, _ in triples_of(node)]
    assert labels == [graph_name("->") or "->"]


def test_what_other_extractors_found_stays_and_nothing_is_there_twice(
    extractor_of, llama_chat, nodes
):
    extractor = extractor_of(llama_chat)
    river = EntityNode(name="Unstrut", label="RIVER", properties={"length": 192})
    nodes[2].metadata = {**nodes[2].metadata, "nodes": [river], "relations": []}
    others = ImplicitPathExtractor()(nodes)
    read = extractor(others)
    assert read[2].metadata["nodes"][0] is river
    assert [entity.name for entity in read[2].metadata["nodes"]] == ["Unstrut", "Mühlhausen"]
    assert [label for _, label, _ in triples_of(read[2])] == ["SOURCE", "Flows through"]
    assert "nodes" not in read[2].metadata["relations"][1].properties
    assert extractor(read) == read


def test_a_key_that_is_taken_is_an_error_that_names_it(extractor_of, llama_chat):
    for taken in (["n1", "n2"], 3, "n1", [{"neither": 1}]):
        node = TextNode(id_="mine", text="Ada.", metadata={"nodes": taken})
        with pytest.raises(InputError, match="'mine' has the metadata key 'nodes'.*rename"):
            extractor_of(llama_chat)([node])


def test_a_node_without_text_has_an_empty_graph(extractor_of, core_chat, llama_chat, words):
    index = PropertyGraphIndex(
        [TextNode(id_="blank", text=" ")],
        kg_extractors=[extractor_of(llama_chat)],
        embed_model=words,
    )
    assert [n.id for n in index.property_graph_store.get()] == ["blank"]
    assert not core_chat.calls


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(MetadataMode))
def test_the_metadata_mode_says_what_is_read_and_a_graph_is_no_part_of_it(extractor_of, mode):
    openie = TableOpenIE()
    node = TextNode(
        text="Ada.",
        metadata={"page": 3, "secret": "x"},
        excluded_llm_metadata_keys=["secret"],
        excluded_embed_metadata_keys=["page"],
    )
    plain = node.get_content(mode)
    node.metadata["relations"] = [Relation(label="a", source_id="b", target_id="c")]
    extractor_of(openie=openie, extract_metadata_mode=mode)([node])
    assert openie.calls == [plain]


def test_the_llm_of_the_settings_is_asked_when_it_is_needed(
    extractor_of, llama_chat, nodes, monkeypatch
):
    extractor = extractor_of()
    with pytest.raises(ModelRequiredError, match="pass llm=.*Settings.llm"):
        extractor(nodes)
    assert extractor.to_dict()["extractor"] is None
    monkeypatch.setattr(Settings, "_llm", llama_chat)
    assert triples_of(extractor(nodes)[0])
    assert extractor.to_dict()["extractor"] == "stand-in, prompts 1"


def test_with_an_openie_no_llm_is_asked(extractor_of, table, nodes):
    read = extractor_of(openie=TableOpenIE(table))(nodes)
    assert all(triples_of(node) for node in read)


def test_a_memory_that_is_given_has_its_own_settings(extractor_of, llama_chat, llama):
    for option in ({"llm": llama_chat}, {"num_workers": 2}, {"config": HippoConfig()}):
        with pytest.raises(InputError, match="hippo= has its own"):
            extractor_of(hippo=llama.hippo, **option)
    extractor_of(hippo=llama.hippo).close()
    assert len(llama.hippo) == 6


def test_an_index_reads_nothing_that_its_extractor_read(
    extractor_of, core_chat, llama_empty, nodes
):
    extractor_of(hippo=llama_empty.hippo)(nodes)
    asked = len(core_chat.calls)
    llama_empty.insert_nodes(nodes)
    assert len(core_chat.calls) == asked == 12


def test_num_workers_says_how_many_nodes_are_read_at_once(extractor_of, llama_chat):
    tries = HippoConfig(tries=2)
    assert extractor_of(llama_chat, num_workers=3, config=tries).hippo.config == tries.but(
        concurrency=3
    )
    assert extractor_of(llama_chat).hippo.config == HippoConfig()


# -- sync and async --------------------------------------------------------------------------------


async def test_sync_and_async_give_the_same_also_in_a_running_loop(extractor_of, llama_chat, nodes):
    expected = extractor_of(llama_chat)(nodes)
    assert await extractor_of(llama_chat).acall(nodes) == expected
    pipeline = IngestionPipeline(transformations=[extractor_of(llama_chat)], disable_cache=True)
    assert await pipeline.arun(nodes=nodes) == expected
    assert pipeline.run(nodes=nodes) == expected


@pytest.mark.parametrize("use_async", [True, False])
def test_a_property_graph_index_holds_what_was_read(
    extractor_of, llama_chat, core_chat, words, nodes, use_async
):
    index = PropertyGraphIndex(
        nodes,
        kg_extractors=[extractor_of(llama_chat)],
        embed_model=words,
        use_async=use_async,
    )
    held, relations = stored(index.property_graph_store)
    assert "John roebling_Was born in_Mühlhausen" in relations
    assert held["Hippos"]["triplet_source_id"] == "hippos"
    assert len(relations) == 6
    assert len(core_chat.calls) == 12


def test_a_bar_is_drawn_where_it_is_wanted(extractor_of, llama_chat, nodes, capsys):
    for by_call, by_extractor in ((True, False), (False, True)):
        extractor_of(llama_chat, show_progress=by_extractor)(nodes, show_progress=by_call)
        assert "Reading nodes: 100%" in capsys.readouterr().err
    seen = []
    extractor_of(llama_chat)(nodes, progress=seen.append)
    assert capsys.readouterr().err == ""
    assert [progress.done for progress in seen] == [1, 2, 3, 4, 5, 6]


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["run", "arun"])
def test_a_failure_is_in_no_cache_and_no_docstore_and_the_retry_pays_for_it_alone(
    extractor_of, llama_chat_of, flaky, nodes, words, way
):
    pipeline = IngestionPipeline(
        transformations=[extractor_of(llama_chat_of(flaky)), words],
        docstore=SimpleDocumentStore(),
        vector_store=SimpleVectorStore(),
    )

    def run():
        if way == "run":
            return pipeline.run(nodes=nodes)
        return asyncio.run(pipeline.arun(nodes=nodes))

    with pytest.raises(IndexingError) as caught:
        run()
    assert set(caught.value.failed) == {"town"}
    assert not pipeline.cache.cache.get_all(collection=pipeline.cache.collection)
    assert not pipeline.docstore.docs
    assert not pipeline.docstore.get_all_document_hashes()
    asked = len(flaky.calls)
    with pytest.raises(IndexingError):
        run()
    assert len(flaky.calls) == asked + 1
    flaky.broken.clear()
    assert all(triples_of(node) for node in run())
    assert len(flaky.calls) == asked + 1 + 2
    assert len(pipeline.docstore.docs) == 6


def test_a_docstore_alone_is_told_before_anything_is_read(
    extractor_of, llama_chat_of, flaky, nodes
):
    """LlamaIndex does this itself; the way out that the page tells works."""
    docstore = SimpleDocumentStore()
    pipeline = IngestionPipeline(
        transformations=[extractor_of(llama_chat_of(flaky))],
        docstore=docstore,
        docstore_strategy="duplicates_only",
    )
    with pytest.raises(IndexingError):
        pipeline.run(nodes=nodes)
    flaky.broken.clear()
    assert pipeline.run(nodes=nodes) == []
    for node in nodes:
        docstore.delete_document(node.node_id, raise_error=False)
    assert len(pipeline.run(nodes=nodes)) == 6


def test_a_budget_goes_through_a_pipeline_and_the_next_run_goes_on(
    extractor_of, llama_chat, core_chat, nodes
):
    pipeline = IngestionPipeline(transformations=[extractor_of(llama_chat)])
    with pytest.raises(BudgetExceededError):
        pipeline.run(nodes=nodes, budget=Budget(calls=5))
    assert len(core_chat.calls) == 5
    pipeline.run(nodes=nodes, budget=Budget(calls=7))
    assert len(core_chat.calls) == 12


def test_a_cut_reply_is_used_and_said_and_asked_for_again(extractor_of, llama_chat_of, caplog):
    cut = Completion('{"triples": [["Ada", "wed", "William"], ["Wil')
    entities = Completion('{"named_entities": ["Ada", "William"]}')
    whole = Completion('{"triples": [["Ada", "wed", "William"], ["Ada", "wrote", "notes"]]}')
    chat = ScriptedChatModel([entities, cut, whole])
    chat_model = llama_chat_of(_Counted(chat))
    extractor = extractor_of(chat_model)
    node = TextNode(id_="ada", text="Ada wed William and wrote notes.")
    with caplog.at_level(logging.WARNING):
        assert len(triples_of(extractor([node])[0])) == 1
    assert "1 nodes could be read only in part" in caplog.text
    assert len(triples_of(extractor([node])[0])) == 2


class _Counted:
    """Says what a reply cost, which the stand-in for LlamaIndex asks for."""

    def __init__(self, inner):
        self.inner = inner

    def complete(self, messages):
        completion = self.inner.complete(messages)
        return Completion(completion.text, TokenUsage(1, 1), completion.finish_reason)


def test_a_folder_keeps_what_was_read_for_another_process(
    extractor_of, llama_chat_of, flaky, nodes, tmp_path
):
    with pytest.raises(IndexingError):
        extractor_of(llama_chat_of(flaky), persist_directory=tmp_path / "m")(nodes)
    flaky.broken.clear()
    asked = len(flaky.calls)
    read = extractor_of(llama_chat_of(flaky), persist_directory=tmp_path / "m")(nodes)
    assert len(flaky.calls) == asked + 2
    assert all(triples_of(node) for node in read)


# -- a pipeline's cache ----------------------------------------------------------------------------


class OwnPrompts(Prompts):
    version = "own 1"


def test_the_cache_knows_who_reads_and_what(extractor_of, llama_chat, llama_chat_of, table):
    class Other(type(llama_chat)):
        @property
        def metadata(self):
            return super().metadata.model_copy(update={"model_name": "other"})

    different = [
        extractor_of(llama_chat),
        extractor_of(Other(core=llama_chat.core)),
        extractor_of(llama_chat, prompts=OwnPrompts()),
        extractor_of(llama_chat, extract_metadata_mode=MetadataMode.ALL),
        extractor_of(openie=TableOpenIE(table)),
    ]
    told = [json.dumps(extractor.to_dict()) for extractor in different]
    assert len(set(told)) == len(told)
    alike = extractor_of(llama_chat_of(llama_chat.core), num_workers=2, show_progress=True)
    assert json.dumps(alike.to_dict()) == told[0]


def test_the_cache_is_told_the_same_in_every_process_and_no_key(extractor_of):
    class Keyed(MockLLM):
        api_key: str = "sk-secret"

    extractor = extractor_of(Keyed())
    for shown in (extractor.to_dict(), repr(extractor), str(extractor), extractor.to_json()):
        assert "sk-secret" not in str(shown)
        assert " at 0x" not in str(shown)
    program = """
import json
from llama_index.core.llms import MockLLM
from llama_index_hipporag import HippoRAGExtractor
print(json.dumps(HippoRAGExtractor(MockLLM()).to_dict()))
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            timeout=170,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {json.dumps(extractor_of(MockLLM()).to_dict())}


@pytest.mark.parametrize("is_persisted", [False, True])
def test_what_a_cache_gives_back_becomes_the_same_graph_at_no_cost(
    extractor_of, llama_chat, core_chat, words, nodes, tmp_path, is_persisted
):
    folder = tmp_path / "m"
    pipeline = IngestionPipeline(
        transformations=[extractor_of(llama_chat, persist_directory=folder)]
    )
    fresh = pipeline.run(nodes=nodes)
    asked = len(core_chat.calls)
    if is_persisted:
        pipeline.persist(str(tmp_path / "pipeline"))
        again = extractor_of(llama_chat, persist_directory=folder)
        pipeline = IngestionPipeline(transformations=[again])
        pipeline.load(str(tmp_path / "pipeline"))
    cached = pipeline.run(nodes=nodes)
    assert isinstance(cached[0].metadata["nodes"][0], dict)  # LlamaIndex keeps JSON
    (extractor,) = pipeline.transformations
    assert extractor(cached) == fresh
    graphs = [
        stored(
            PropertyGraphIndex(
                copy.deepcopy(given), kg_extractors=[extractor], embed_model=words
            ).property_graph_store
        )
        for given in (nodes, fresh, cached)
    ]
    assert graphs[0][1] == graphs[1][1] == graphs[2][1]
    assert graphs[0][0].keys() == graphs[1][0].keys() == graphs[2][0].keys()
    assert len(core_chat.calls) == asked


def test_a_document_that_did_not_change_is_not_run_again(
    extractor_of, llama_chat, core_chat, words, llama_documents
):
    """The docstore hashes what goes in after the run, so that must stay as it is."""
    pipeline = IngestionPipeline(
        transformations=[extractor_of(llama_chat), words],
        docstore=SimpleDocumentStore(),
        vector_store=SimpleVectorStore(),
        disable_cache=True,
    )
    assert len(pipeline.run(documents=llama_documents)) == 6
    assert pipeline.run(documents=llama_documents) == []


# -- other processes -------------------------------------------------------------------------------


def test_a_pipelines_workers_share_a_folder(extractor_of, table, nodes, tmp_path):
    openie = TableOpenIE(table)
    extractor = extractor_of(openie=openie, persist_directory=tmp_path / "m")
    pipeline = IngestionPipeline(transformations=[extractor])
    read = pipeline.run(nodes=nodes, num_workers=2)
    assert [node.node_id for node in read] == [node.node_id for node in nodes]
    assert all(triples_of(node) for node in read)
    assert extractor(nodes) == read
    assert not openie.calls  # it was read by the workers, and is here


def test_without_a_folder_no_worker_is_told_that_it_may_read(extractor_of, llama_chat, nodes):
    extractor = extractor_of(llama_chat)
    with pytest.raises(StoreError, match="persist_directory=.*without num_workers"):
        pickle.dumps(extractor)
    pipeline = IngestionPipeline(transformations=[extractor])
    with pytest.raises(StoreError, match="persist_directory="):
        pipeline.run(nodes=nodes, num_workers=2)


def test_a_pickled_extractor_is_the_same_and_takes_the_settings_llm_along(
    extractor_of, closing, nodes, tmp_path, monkeypatch
):
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    mode = MetadataMode.LLM
    extractor = extractor_of(persist_directory=tmp_path / "m", extract_metadata_mode=mode)
    data = pickle.dumps(extractor)
    told = extractor.to_dict()
    monkeypatch.setattr(Settings, "_llm", None)
    again = closing(pickle.loads(data))
    assert again.to_dict() == told
    assert isinstance(again.hippo.chat_model.llm, MockLLM)


def test_a_copy_is_on_the_same_memory(extractor_of, llama_chat, core_chat, nodes):
    extractor = extractor_of(llama_chat)
    extractor(nodes)
    for copied in (copy.copy(extractor), copy.deepcopy(extractor), extractor.model_copy()):
        copied(nodes)
    assert len(core_chat.calls) == 12


def test_forgetting_pays_again(extractor_of, llama_chat, core_chat, nodes):
    extractor = extractor_of(llama_chat)
    extractor(nodes)
    assert extractor.hippo.forget_pending() == 6
    extractor(nodes)
    assert len(core_chat.calls) == 24
