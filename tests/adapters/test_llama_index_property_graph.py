"""A property graph store is imported: whole, said where not, and without a model that reads."""

import logging
import re
from itertools import pairwise
from pathlib import Path

import pytest
from llama_index.core import PropertyGraphIndex, Settings, StorageContext, load_index_from_storage
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, PropertyGraphStore, Relation
from llama_index.core.indices.property_graph import ImplicitPathExtractor, SimpleLLMPathExtractor
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import NodeRelationship, TextNode

from hippo_core import Extraction, HippoConfig, InputError, Triple
from hippo_core.testing import TableOpenIE
from llama_index_hipporag import HippoRAGExtractor, HippoRAGIndex, PropertyGraphReport

PAGE = Path(__file__).parents[2] / "docs" / "llama-index-graphs.md"
ANSWER = {"bridge", "roebling", "town"}


class PathLLM(CustomLLM):
    """Answers LlamaIndex's own extractor as it asks: a triple in brackets on each line."""

    table: dict

    @property
    def metadata(self):
        return LLMMetadata(model_name="paths")

    def complete(self, prompt, formatted=False, **kwargs):
        said = [t for text, e in self.table.items() if text in prompt for t in e.triples]
        return CompletionResponse(text="\n".join(f"({', '.join(triple)})" for triple in said))

    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError


class Cautious(SimplePropertyGraphStore):
    """Keeps no properties of relations and gives a triple twice, as stores on databases do."""

    get_all = False

    def __init__(self, inner, *, get_all):
        super().__init__(inner.graph)
        self.get_all = get_all

    def get_triplets(self, entity_names=None, relation_names=None, properties=None, ids=None):
        if ids is None and not self.get_all:
            return []
        triplets = [] if ids is None else super().get_triplets(ids=ids)
        if ids is None:
            triplets = self.graph.get_triplets()
        bare = [[s, r.model_copy(update={"properties": {}}), o] for s, r, o in triplets]
        return bare + bare


class Foreign(PropertyGraphStore):
    """Is no store of LlamaIndex's own in memory."""

    def __init__(self, inner):
        self.inner = inner

    def get(self, properties=None, ids=None):
        return self.inner.get(properties, ids)

    def get_triplets(self, entity_names=None, relation_names=None, properties=None, ids=None):
        return self.inner.get_triplets(entity_names, relation_names, properties, ids)

    def get_rel_map(self, graph_nodes, depth=2, limit=30, ignore_rels=None):
        raise NotImplementedError

    upsert_nodes = upsert_relations = delete = get_rel_map
    structured_query = vector_query = get_rel_map


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    monkeypatch.setattr(Settings, "_llm", None)


@pytest.fixture
def extractor_of(closing):
    return lambda **options: closing(HippoRAGExtractor(**options))


@pytest.fixture
def graph_of(words):
    """Fill a property graph store from nodes by LlamaIndex's own index."""

    def graph_of(nodes, *extractors):
        index = PropertyGraphIndex(
            [node.model_copy(deep=True) for node in nodes],
            kg_extractors=list(extractors),
            embed_model=words,
        )
        return index.property_graph_store

    return graph_of


@pytest.fixture
def openie(table):
    return TableOpenIE(table)


@pytest.fixture
def ours(graph_of, extractor_of, openie, nodes):
    """The corpus, read by our extractor."""
    return graph_of(nodes, extractor_of(openie=openie), ImplicitPathExtractor())


@pytest.fixture
def theirs(graph_of, table, nodes):
    """The corpus, read by LlamaIndex's own extractor."""
    return graph_of(nodes, SimpleLLMPathExtractor(llm=PathLLM(table=table)))


@pytest.fixture
def imported(words, closing):
    def imported(store, **options):
        made = HippoRAGIndex.from_property_graph_store(store, embed_model=words, **options)
        return closing(made)

    return imported


@pytest.fixture
def read(words, openie, closing):
    """Open an index that reads nodes itself."""
    return lambda nodes, **options: closing(
        HippoRAGIndex(nodes, openie=openie, embed_model=words, **options)
    )


def ranking(index, question):
    found = index.as_retriever(similarity_top_k=10).retrieve(question)
    return [(hit.node.node_id, pytest.approx(hit.score, abs=1e-9)) for hit in found]


# -- the whole is there ----------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["ours", "theirs"])
def test_a_question_that_joins_passages_is_answered_and_no_chat_model_is_asked(
    request, imported, core_chat, question, which
):
    index = imported(request.getfixturevalue(which))
    found = index.as_retriever(similarity_top_k=3, include_triples=True).retrieve(question)
    assert {hit.node.node_id for hit in found} == ANSWER
    assert index.hippo.stats().triples == 6
    assert not core_chat.calls


def test_it_ranks_as_an_index_that_read_the_nodes_itself(ours, imported, read, nodes, question):
    own = read(nodes)
    assert ranking(imported(ours), question) == ranking(own, question)
    assert imported(ours).hippo.stats() == own.hippo.stats()


def test_the_nodes_come_back_whole(ours, imported, nodes):
    for node, now in zip(nodes, imported(ours).get_nodes([n.node_id for n in nodes]), strict=True):
        assert (now.text, now.metadata) == (node.text, node.metadata)
        assert now.relationships == node.relationships
        assert type(now) is type(node)
        # Our extractor keeps the graph out of every text that a model reads.
        assert now.excluded_llm_metadata_keys == ["nodes", "relations"]


def test_relations_between_nodes_and_documents_are_no_triples(graph_of, nodes, llama_empty):
    first, second = nodes[:2]
    first.relationships[NodeRelationship.NEXT] = second.as_related_node_info()
    second.relationships[NodeRelationship.PREVIOUS] = first.as_related_node_info()
    store = graph_of(nodes, ImplicitPathExtractor())
    assert {r.label for r in store.graph.relations.values()} == {"SOURCE", "PREVIOUS", "NEXT"}
    report = llama_empty.insert_property_graph(store)
    assert report == PropertyGraphReport(6, 0, 6 + 2, (), {})
    assert llama_empty.hippo.stats().phrases == 0


def test_nor_are_those_of_a_node_that_is_not_in_the_store(graph_of, nodes, llama_empty):
    store = graph_of(nodes, ImplicitPathExtractor())
    del store.graph.nodes["bridge"]
    assert llama_empty.insert_property_graph(store) == PropertyGraphReport(5, 0, 6, (), {})


def test_nodes_without_a_triple_are_there_for_dense_retrieval(graph_of, extractor_of, imported):
    nodes = [TextNode(id_=text, text=text) for text in ("Ada wrote notes.", "It rained.")]
    store = graph_of(nodes, extractor_of(openie=TableOpenIE()))
    assert [hit.node_id for hit in imported(store).as_retriever().retrieve("rained")] == [
        "It rained.",
        "Ada wrote notes.",
    ]


async def test_the_async_ways_do_the_same(ours, theirs, words, closing, imported, question):
    for store in (ours, theirs):
        index = closing(await HippoRAGIndex.afrom_property_graph_store(store, embed_model=words))
        assert ranking(index, question) == ranking(imported(store), question)
        again = await index.ainsert_property_graph(store)
        assert again == index.insert_property_graph(store)
        assert (again.nodes, again.triples) == (6, 6)


def test_importing_again_changes_nothing_and_follows_the_store(ours, imported, words):
    index = imported(ours)
    before = index.hippo.extractions()
    index.insert_property_graph(ours)
    assert index.hippo.extractions() == before
    added = Relation(label="Is in", source_id="Mühlhausen", target_id="Thuringia")
    added.properties["triplet_source_id"] = "town"
    ours.upsert_relations([added])
    index.insert_property_graph(ours)
    assert Triple("Mühlhausen", "Is in", "Thuringia") in index.hippo.extractions()["town"].triples
    assert len(index.hippo) == 6


def test_a_store_that_was_persisted_is_imported_the_same(ours, imported, question, tmp_path):
    ours.persist(str(tmp_path / "graph.json"))
    again = SimplePropertyGraphStore.from_persist_path(str(tmp_path / "graph.json"))
    assert ranking(imported(again), question) == ranking(imported(ours), question)
    assert imported(again).hippo.extractions() == imported(ours).hippo.extractions()


PHRASES = ["The Nile", "the  nile", "Nile", "C++", "U.S.", "Süd-Korea", "ısı", 'a "b"', "ﬁn"]


def test_hard_spellings_go_through_a_graph_unharmed(graph_of, extractor_of, words, closing):
    said = [(one, "is", other) for one, other in pairwise(PHRASES)]
    table = {f"Text {n} of the Nile.": Extraction(triples=[t]) for n, t in enumerate(said)}
    nodes = [TextNode(id_=text, text=text) for text in table]
    store = graph_of(nodes, extractor_of(openie=TableOpenIE(table)))
    own = closing(HippoRAGIndex(nodes, openie=TableOpenIE(table), embed_model=words))
    other = closing(HippoRAGIndex.from_property_graph_store(store, embed_model=words))
    assert other.hippo.stats() == own.hippo.stats()
    assert ranking(other, "Is it the Nile?") == ranking(own, "Is it the Nile?")


# -- the index is one like any other ---------------------------------------------------------------


def test_documents_that_are_there_are_left_alone_until_they_change(
    words, extractor_of, openie, llama_documents, models, closing, core_chat
):
    graph = PropertyGraphIndex.from_documents(
        llama_documents, kg_extractors=[extractor_of(openie=openie)], embed_model=words
    )
    store = graph.property_graph_store
    index = closing(HippoRAGIndex.from_property_graph_store(store, **models))
    assert set(index.ref_doc_info) == {document.id_ for document in llama_documents}
    assert len(index.docstore.docs) == 6
    assert index.refresh_ref_docs(llama_documents) == [False] * 6
    assert not core_chat.calls
    changed = llama_documents[5].model_copy(deep=True)
    changed.set_content("Hippos sleep.")
    assert index.refresh_ref_docs([*llama_documents[:5], changed]) == [False] * 5 + [True]
    assert len(core_chat.calls) == 2
    index.delete_ref_doc("bridge.txt", delete_from_docstore=True)
    assert len(index.hippo) == len(index.docstore.docs) == 5


def test_it_is_persisted_and_loaded(ours, imported, words, closing, question, tmp_path):
    index = imported(ours)
    index.persist(tmp_path)
    again = closing(HippoRAGIndex.from_persist_dir(tmp_path, embed_model=words))
    assert ranking(again, question) == ranking(index, question)
    context = StorageContext.from_defaults(persist_dir=str(tmp_path))
    loaded = closing(
        load_index_from_storage(context, embed_model=words, persist_directory=tmp_path / "hipporag")
    )
    assert set(loaded.docstore.docs) == {node_id for node_id, _ in ranking(index, question)}


# -- what is not there is said ---------------------------------------------------------------------


def test_triples_without_a_node_are_counted_and_given_back(ours, llama_empty, caplog):
    unsaid = Relation(label="Wrote", source_id="Ada", target_id="Notes")
    gone = Relation(label="Knew", source_id="Ada", target_id="Mary")
    gone.properties["triplet_source_id"] = "elsewhere"
    ours.upsert_relations([unsaid, gone])
    with caplog.at_level(logging.WARNING):
        report = llama_empty.insert_property_graph(ours)
    assert report.without_source == (Triple("Ada", "Wrote", "Notes"),)
    assert report.without_node == {"elsewhere": (Triple("Ada", "Knew", "Mary"),)}
    assert (report.nodes, report.triples, report.structural) == (6, 6, 6)
    assert re.search(r"1 triples .* do not say .* and 1 name one .*left out", caplog.text)


def test_a_store_of_triples_alone_is_an_error_that_says_what_lacks(llama_empty, words):
    store = SimplePropertyGraphStore()
    store.upsert_relations([Relation(label="Wrote", source_id="Ada", target_id="Notes")])
    with pytest.raises(InputError, match="1 triples .* nothing to import: keep the nodes"):
        llama_empty.insert_property_graph(store)
    with pytest.raises(InputError, match="nothing to import"):
        HippoRAGIndex.from_property_graph_store(store, embed_model=words)
    assert llama_empty.insert_property_graph(SimplePropertyGraphStore()).nodes == 0


def test_the_triples_of_a_node_without_text_are_said(llama_empty, ours):
    ours.graph.nodes["hippos"].text = " "
    report = llama_empty.insert_property_graph(ours)
    assert report.without_node == {"hippos": (Triple("Hippos", "Swim in", "Nile"),)}
    assert report.nodes == 5


def test_what_is_no_store_is_an_error_that_names_it(llama_empty, words):
    index = PropertyGraphIndex([], kg_extractors=[ImplicitPathExtractor()], embed_model=words)
    with pytest.raises(TypeError, match="got PropertyGraphIndex.*index.property_graph_store"):
        llama_empty.insert_property_graph(index)


def test_a_failed_import_leaves_no_index_behind(words):
    context = StorageContext.from_defaults()
    with pytest.raises(TypeError):
        HippoRAGIndex.from_property_graph_store("no store", context, embed_model=words)
    assert not context.index_store.index_structs()


# -- where a store keeps less ----------------------------------------------------------------------


def test_a_store_keeps_a_triple_for_one_node_alone(graph_of, extractor_of, imported, caplog):
    """So the second node that states it has lost it: the one way in which the rank may differ."""
    said = Extraction(triples=[("Ada", "wrote", "notes")])
    table = {"Ada wrote notes.": said, "Notes were written by Ada.": said}
    nodes = [TextNode(id_=text, text=text) for text in table]
    store = graph_of(nodes, extractor_of(openie=TableOpenIE(table)))
    index = imported(store)
    counts = [len(e.triples) for e in index.hippo.extractions([n.node_id for n in nodes]).values()]
    assert counts == [1, 0]


def test_nodes_of_one_text_share_their_triples(graph_of, extractor_of, imported):
    text = "Ada wrote notes."
    table = {text: Extraction(triples=[("Ada", "wrote", "notes")])}
    nodes = [TextNode(id_=page, text=text, metadata={"page": page}) for page in ("1", "2")]
    index = imported(graph_of(nodes, extractor_of(openie=TableOpenIE(table))))
    assert all(len(e.triples) == 1 for e in index.hippo.extractions().values())
    assert len(index.hippo) == 2


def test_the_names_that_are_shown_are_the_stores(ours, imported, question):
    (best, *_) = imported(ours).as_retriever(include_triples=True).retrieve(question)
    assert ["John roebling", "Was born in", "Mühlhausen"] in best.metadata["hipporag_triples"]


@pytest.mark.parametrize("get_all", [True, False])
def test_a_store_without_properties_of_relations_has_the_ends_to_go_by(
    ours, imported, question, get_all
):
    foreign = Foreign(Cautious(ours, get_all=get_all))
    assert imported(foreign).hippo.extractions() == imported(ours).hippo.extractions()
    assert ranking(imported(foreign), question) == ranking(imported(ours), question)


def test_a_chunk_that_was_never_a_node_becomes_one(llama_empty):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([ChunkNode(id_="c", text="Ada wrote notes.", properties={"page": 3})])
    ada = EntityNode(name="Ada", properties={"triplet_source_id": "c"})
    store.upsert_nodes([ada, EntityNode(name="Notes")])
    store.upsert_relations([Relation(label="Wrote", source_id="Ada", target_id="Notes")])
    report = llama_empty.insert_property_graph(store)
    assert (report.nodes, report.triples) == (1, 1)
    (node,) = llama_empty.get_nodes(["c"])
    assert (node.text, node.metadata) == ("Ada wrote notes.", {"page": 3})


def test_a_store_in_which_something_was_deleted_is_imported(ours, imported):
    """LlamaIndex's own store deletes ends that other triples have, and can then not list them."""
    ours.delete_llama_nodes(node_ids=["roebling"])
    with pytest.raises(KeyError):
        ours.get_triplets(ids=["Unstrut"])
    triples = {id_: e.triples for id_, e in imported(ours).hippo.extractions().items()}
    assert triples["town"] == (Triple("Unstrut", "Flows through", "Mühlhausen"),)
    assert triples["bridge"] == ()  # the store lost it
    assert "roebling" not in triples


@pytest.mark.parametrize("config", [HippoConfig(), HippoConfig.hipporag2()])
def test_it_ranks_the_same_by_every_linking(ours, imported, read, nodes, question, config):
    one, other = imported(ours, config=config), read(nodes, config=config)
    assert ranking(one, question) == ranking(other, question)


# -- the page --------------------------------------------------------------------------------------


@pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no docs")
def test_the_pages_examples_work(
    llama_chat, core_chat, words, llama_documents, question, tmp_path, monkeypatch
):
    reading, importing = re.findall("```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"llm": llama_chat, "embed_model": words, "documents": llama_documents}
    names["question"] = question
    exec(reading, names)  # noqa: S102 - our own page
    assert len(core_chat.calls) == 12
    exec(importing, names)  # noqa: S102
    assert {node.metadata["file"] for node in names["nodes"]} == ANSWER
    assert len(core_chat.calls) == 12
    names["index"].close()
    names["extractor"].close()
    assert (tmp_path / "memory").is_dir()
