"""Documents bring the user's own edges: by their ids, their `source`, or found by a function."""

from langchain_core.documents import Document

from hippo_core import Edge, MetadataEdges
from langchain_hipporag import HippoRAGRetriever

HIPPOS = [Edge("town", to_source="hippos.txt", weight=20.0)]


def ids(found):
    return [document.id for document in found]


async def test_every_way_to_add_documents_takes_edges(
    documents, chat, embeddings, question, closing
):
    options = {"llm": chat, "embeddings": embeddings, "k": 3}
    texts = {
        "texts": [d.page_content for d in documents],
        "metadatas": [d.metadata for d in documents],
        "ids": ids(documents),
    }
    added = closing(HippoRAGRetriever.from_models(**options))
    assert added.add_documents(documents, edges=HIPPOS) == ids(documents)
    awaited = closing(HippoRAGRetriever.from_models(**options))
    assert await awaited.aadd_documents(documents, edges=HIPPOS) == ids(documents)
    retrievers = [
        added,
        awaited,
        closing(HippoRAGRetriever.from_documents(documents, edges=HIPPOS, **options)),
        closing(await HippoRAGRetriever.afrom_documents(documents, edges=HIPPOS, **options)),
        closing(HippoRAGRetriever.from_texts(**texts, edges=HIPPOS, **options)),
        closing(await HippoRAGRetriever.afrom_texts(**texts, edges=HIPPOS, **options)),
    ]
    plain = closing(HippoRAGRetriever.from_documents(documents, **options))
    assert "hippos" not in ids(plain.invoke(question))
    for retriever in retrievers:
        assert retriever.hippo.stats().user_edges == 1
        assert "hippos" in ids(retriever.invoke(question))
        (hit,) = (h for h in retriever.hippo.retrieve(question) if h.passage.id == "hippos")
        assert hit.edges == tuple(HIPPOS)


def test_a_finder_is_given_the_passage_that_a_document_becomes(empty):
    asked = []

    def finder(passage):
        asked.append((passage.id, passage.source_id, passage.title, dict(passage.metadata)))
        return [*MetadataEdges("see")(passage), *MetadataEdges("from", to="source")(passage)]

    metadata = {"source": "x.txt", "title": "X", "see": ["b"], "from": "y.txt"}
    documents = [
        Document("One.", id="a", metadata=metadata),
        Document("Two.", id="b", metadata={"source": "y.txt"}),
    ]
    empty.add_documents(documents, edges=finder)
    assert asked == [
        ("a", "x.txt", "X", metadata),
        ("b", "y.txt", "", {"source": "y.txt"}),
    ]
    assert empty.hippo.stats().user_edges == 2
    assert empty.get_documents(["a"]) == documents[:1]
    empty.add_documents(documents)
    assert empty.hippo.stats().user_edges == 2
    empty.add_documents(documents, edges=[])
    assert empty.hippo.stats().user_edges == 0
