"""The user's own edges: a harbour code whose articles refer to each other by number.

The question is worded as one article, the answer stands in another that it cites and that shares
hardly a word with the question. A regular expression finds the citations; each becomes an edge of
the graph. Runs on this machine alone: spaCy reads the articles, MiniLM embeds them.
"""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

from hippo_core import Edge, HippoConfig, HippoRAG, Passage, RegexEdges, Retrieval
from hippo_core.local import MiniLM, SpacyOpenIE

K = 3
# As heavy as five of an article's phrases: about every other step out of a citing article goes to
# what it cites.
CITATIONS = RegexEdges(r"Article (\d+)", target=r"art-\1", weight=5)


class Question(NamedTuple):
    """A question, the article that it is worded as, and the one in which the answer stands."""

    text: str
    asks_of: str
    answer_in: str


ARTICLES = {
    "art-2": (
        "Fishing boats",
        "Fishing boats berth at the eastern quay. A fishing boat that arrives after dusk is "
        "treated as Article 31 lays down.",
    ),
    "art-5": (
        "Fishing nets",
        "Nets may be dried on the eastern quay from May to September. The quay warden keeps a "
        "list of the fishing boats that dry nets.",
    ),
    "art-7": (
        "Live animals",
        "Cattle and horses are unloaded at the northern ramp. Animals that show fever are dealt "
        "with under Article 26.",
    ),
    "art-8": (
        "Feeding of animals",
        "Whoever unloads cattle at the northern ramp provides water and hay. Horses are led, "
        "never driven.",
    ),
    "art-10": (
        "Pilots",
        "Every ship longer than forty metres takes a pilot at the outer buoy. A captain who "
        "refuses the pilot answers under Article 33.",
    ),
    "art-11": (
        "Licences of pilots",
        "A pilot is examined by two older pilots. The licence of the pilot hangs in the "
        "wheelhouse of the pilot boat.",
    ),
    "art-13": (
        "Timber",
        "Timber is stacked on the western yard for at most nine days. Timber that stays longer "
        "falls under Article 28.",
    ),
    "art-14": (
        "Timber rafts",
        "Timber rafts are moored behind the western yard. A raft carries a lantern on every "
        "corner.",
    ),
    "art-16": (
        "Ferries",
        "The ferry to Orrin departs six times a day. When fog closes the channel, the ferry "
        "passengers are helped as Article 35 provides.",
    ),
    "art-17": (
        "Ferry fares",
        "The ferry fare is printed on the pier. Children under seven travel on the ferry without "
        "a fare.",
    ),
    "art-19": (
        "Salt",
        "Salt is weighed in the customs shed. A merchant who disputes the weight of the salt may "
        "turn to the body named in Article 24.",
    ),
    "art-20": (
        "Salt cellars",
        "The salt cellars belong to the guild of merchants. Salt is carried to the cellars in "
        "sealed barrels.",
    ),
    "art-21": (
        "Ballast",
        "Ships discharge ballast at the mole. A ship that throws ballast into the channel bears "
        "the consequences of Article 34.",
    ),
    "art-24": (
        "Arbitration",
        "Three sworn assessors sit on the first Monday of each month. Their finding is final.",
    ),
    "art-26": (
        "Isolation",
        "The veterinary officer orders twenty days in the stone pen on Gull Rock. Straw from "
        "there is burnt.",
    ),
    "art-28": (
        "Forfeiture",
        "The treasurer sells the goods by public auction and gives a tenth of the proceeds to the "
        "orphanage.",
    ),
    "art-31": (
        "Supplement",
        "Twelve crowns are added to the ordinary toll, payable to the lamplighter.",
    ),
    "art-33": (
        "Penalties of the second degree",
        "The court imposes a fine of ninety crowns and suspends the certificate of the master for "
        "one season.",
    ),
    "art-34": (
        "Making good",
        "Divers clear the fairway, and the owner refunds their wages twofold.",
    ),
    "art-35": (
        "Relief",
        "Lodging in the guesthouse of Saint Brannoc and one warm meal are given at the expense of "
        "the town.",
    ),
}
QUESTIONS = (
    Question("What happens to a fishing boat that arrives after dusk?", "art-2", "art-31"),
    Question("Where must cattle with fever stay?", "art-7", "art-26"),
    Question("What is the punishment of a captain who refuses a pilot?", "art-10", "art-33"),
    Question(
        "What becomes of timber that lies on the western yard for too long?", "art-13", "art-28"
    ),  # fmt: skip
    Question("What do ferry passengers get when fog closes the channel?", "art-16", "art-35"),
    Question("Who decides when a merchant disputes the weight of salt?", "art-19", "art-24"),
    Question("What does a ship risk that throws ballast into the channel?", "art-21", "art-34"),
)


def build() -> HippoRAG:
    """Index the articles, read by spaCy, with their citations as edges."""
    memory = HippoRAG(None, MiniLM(), openie=SpacyOpenIE())
    articles = [Passage(text, id=id_, title=title) for id_, (title, text) in ARTICLES.items()]
    memory.add(articles, edges=CITATIONS)
    return memory


def search(memory: HippoRAG, question: Question, *, edges: bool) -> Retrieval:
    """Find K articles, over the citations too or by what OpenIE read alone."""
    return memory.retrieve(question.text, k=K, config=HippoConfig(user_edges=edges))


def main() -> int:
    """Print for each question what is found without and with the citations."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack letters of the texts
        sys.stdout.reconfigure(errors="backslashreplace")
    memory = build()
    stats = memory.stats()
    print(f"{stats.passages} articles, {stats.triples} triples, {stats.user_edges} citations.")
    found = {False: 0, True: 0}
    for question in QUESTIONS:
        print(f"\n{question.text}  The answer stands in {question.answer_in}.")
        for edges in (False, True):
            hits = search(memory, question, edges=edges).passages
            ids = [hit.passage.id for hit in hits]
            found[edges] += question.answer_in in ids
            print(f"  {'with' if edges else 'without'} citations: {', '.join(ids)}")
        for hit in hits:
            if hit.passage.id == question.answer_in:
                print(f"  found by {'; '.join(map(_shown, hit.edges))}: {hit.passage.text}")
    for edges, count in found.items():
        how = "with" if edges else "without"
        print(f"\nAnswered {how} citations in the first {K}: {count} of {len(QUESTIONS)}", end="")
    print()
    return 0


def _shown(edge: Edge) -> str:
    return f"{edge.passage} -> {edge.to_passage}"


if __name__ == "__main__":
    sys.exit(main())
