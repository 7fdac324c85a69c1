"""Answer a question that no single passage answers, without a framework. Offline, no key.

Run: python examples/hipporag_core.py
"""

from hippo_core import Extraction, HippoRAG, Passage, Triple
from hippo_core.testing import HashEmbedder, ScriptedChatModel, TableOpenIE

QUESTION = "Which river flows through the birthplace of the man who designed the Brooklyn Bridge?"

# Stand-ins: a table of what a chat model would read, and a script of what it would say. With one
# of your own, a class of two methods (hippo_core.ChatModel), `openie` goes.
READ = {
    "The Brooklyn Bridge was designed by John Roebling.": [
        Triple("Brooklyn Bridge", "was designed by", "John Roebling")
    ],
    "John Roebling, an engineer, was born in Mühlhausen.": [
        Triple("John Roebling", "was born in", "Mühlhausen")
    ],
    "Through Mühlhausen, an old imperial city, flows the Unstrut, a river.": [
        Triple("Unstrut", "flows through", "Mühlhausen")
    ],
    "The birthplace of the designer of the Forth Bridge is Frome.": [
        Triple("Benjamin Baker", "comes from", "Frome")
    ],
    "Hippos swim in the Nile, a river.": [Triple("Hippos", "swim in", "Nile")],
}
openie = TableOpenIE({text: Extraction(triples=tuple(read)) for text, read in READ.items()})
chat_model = ScriptedChatModel(['{"keep": [1, 2]}', "Answer: The Unstrut."])

with HippoRAG(chat_model, HashEmbedder(), openie=openie) as memory:  # store="memory/" keeps it
    report = memory.add([Passage(text, metadata={"line": n}) for n, text in enumerate(READ, 1)])
    print(f"{len(report.added)} passages, {memory.stats().phrases} phrases")

    answer = memory.answer(QUESTION, k=3)
    print(f"\n{QUESTION}\n{answer.text}\n")
    for hit in answer.retrieval:
        why = "; ".join(" ".join(triple) for triple in hit.triples)
        print(f"{hit.rank}. {hit.score:.3f}  {hit.passage.text}  <- {why}")
