"""Questions about words and their places in a dependency tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Token

SUBJECTS = ("nsubj", "nsubjpass")
CLAUSES = ("relcl", "acl")
NO_CLAUSES = ("aux", "auxpass", "xcomp", "pcomp", "amod", "compound")  # parts of another clause
COPULAS = frozenset("be become remain".split())
RELATIVES = frozenset("who whom which that".split())
# "one of the rivers", "a form of therapy": what is meant comes after "of".
TRANSPARENT = frozenset(
    "one some many most several all both each part type form kind sort variety number series"
    " member group piece pair set".split()
)
# "the town of Lennep": the name says it all.
CLASSES = frozenset(
    "city town village county state province district region island river country kingdom"
    " municipality hamlet suburb borough commune month year republic parish township territory"
    " community port island name title".split()
)
CONTRASTS = ("first", "second", "third", "last", "next", "other", "new", "former", "latter")
VAGUE = frozenset(
    "thing something anything nothing everything someone anyone everyone people way time lot"
    " other others such rest same example case fact addition order result use there here"
    " one ones another kind sort type place part home name end beginning member members".split()
)
NOT_IN_ROLE = ("det", "case", "predet", "poss", "cc", "preconj", "punct", "neg")
OFFICES = frozenset(
    "chief ceo head chair chairman chairwoman chairperson president director editor founder"
    " cofounder co owner leader manager captain coach capital seat mayor governor author creator"
    " designer architect principal dean rector chancellor wife husband son daughter father mother"
    " brother sister".split()
)

# Never passive, so that a past tense after "was founded and" is one.
_INTRANSITIVE = frozenset(
    "attend become begin belong come consist continue die emigrate enter exist fall flow flourish"
    " go graduate grow join lie live marry migrate occur practise practice remain reside retire"
    " return rise serve settle spend stand stay study teach travel work".split()
)
# What is done to those who have been born.
_OF_INFANTS = frozenset(
    "adopt baptise baptize bring bury christen educate home-school name raise rear".split()
)
PARTITIVES = frozenset("most much part parts some half many all several majority rest".split())
PARTICIPIAL = frozenset(
    "sparkling running living flowing floating burning standing drinking cooking rolling"
    " growing".split()
)
"""Participles that are rather adjectives: "sparkling wine"."""
PLACING = frozenset("in on to at into near from".split())
"""Prepositions of places."""
MOTION = frozenset(
    "arrive come die emigrate escape flee go live marry migrate move relocate retire return settle"
    " study teach train travel work".split()
)
"""Verbs that lead to places."""
NAMING = frozenset(
    "appoint call choose crown declare designate elect name nickname proclaim rename".split()
)
"""Verbs that say what their object is to be."""
DIRECTING = frozenset(
    "advise allow ask authorise authorize cause command compel direct enable encourage entitle"
    " force help instruct invite oblige order permit persuade prompt require teach tell urge"
    " want".split()
)
"""Verbs whose object is to do what follows: "requires the owner to pay"."""
NOTABLE = frozenset("notable famous prominent main major principal well-known".split())
"""What a text calls things of its topic that it does not say to be so: "notable alumni"."""
HERE = ("there", "here")


def prepositions(token: Token) -> list[Token]:
    """Give the prepositions that hang on a word after it."""
    return [child for child in token.rights if child.dep_ == "prep"]


def objects(preposition: Token) -> list[Token]:
    """Give what a preposition leads to."""
    return [child for child in preposition.children if child.dep_ == "pobj"]


def find(token: Token, labels: Sequence[str]) -> Token | None:
    """Give the first dependent with one of these labels."""
    return next((child for child in token.children if child.dep_ in labels), None)


def is_impersonal(verb: Token) -> bool:
    """Say whether "it" stands for a clause: "it is known that ..."."""
    subject = find(verb, SUBJECTS)
    return (
        subject is not None
        and subject.lower_ == "it"
        and any(
            child.dep_ in ("ccomp", "csubj", "advcl")
            and any(mark.dep_ == "mark" and mark.lower_ == "that" for mark in child.lefts)
            for child in verb.rights
        )
    )


def directed(verb: Token) -> Token | None:
    """Give the noun that is to do what an infinitive says: "the owner" of "to pay"."""
    governor = verb.head
    if verb.dep_ not in ("xcomp", "ccomp") or governor.lemma_ not in DIRECTING:
        return None
    is_infinitive = any(child.tag_ == "TO" for child in verb.lefts)
    return find(governor, ("dobj",)) if is_infinitive else None


def has_mark(verb: Token) -> bool:
    """Say whether a conjunction such as "while" opens the clause."""
    return any(child.dep_ == "mark" for child in verb.children)


def is_definite(noun: Token) -> bool:
    """Say whether a noun has "the" or "this"."""
    return any(
        child.dep_ == "det" and child.lower_ in ("the", "this", "these", "those")
        for child in noun.lefts
    )


def follows_of(noun: Token) -> bool:
    """Say whether a noun is what "of" leads to."""
    return bool(noun.dep_ == "pobj" and noun.head.lower_ == "of")


def is_counted(noun: Token) -> bool:
    """Say whether a number goes with a noun."""
    return any(child.dep_ == "nummod" for child in noun.lefts)


def is_office(noun: Token) -> bool:
    """Say whether a noun names what someone is to something: "editor", "founder", "wife"."""
    is_national = any(child.ent_type_ == "NORP" for child in noun.lefts)
    return noun.lemma_.casefold().split("-")[0] in OFFICES and not is_national


def ends_in_preposition(relation: str) -> bool:
    """Say whether a relation leads on to its object by a preposition."""
    return relation.rsplit(" ", 1)[-1] in (
        "in on at by of to from for with as into under near through after before during".split()
    )


def verb_words(verb: Token) -> str:
    """Give a verb as a relation says it: "was not elected", "broke up", "founded"."""
    words: list[Token] = [verb]
    has_auxiliary = False
    for child in verb.children:
        if child.dep_ in ("neg", "prt") or (child.dep_ in ("aux", "auxpass") and child.i < verb.i):
            has_auxiliary = has_auxiliary or child.dep_ == "auxpass"
            words.append(child)
    text = " ".join(word.lower_ if word.pos_ == "AUX" else word.text for word in ordered(words))
    passive = None if has_auxiliary else _shared_passive(verb)
    return f"{passive.lower_} {text}" if passive is not None else text


def _shared_passive(verb: Token) -> Token | None:
    """Find the auxiliary of "was designed and built", which "was born and studied" lacks."""
    head = verb
    while head.dep_ == "conj" and head.head.pos_ in ("VERB", "AUX"):
        head = head.head
        passive = find(head, ("auxpass",))
        if passive is not None or find(head, ("aux",)) is not None:
            break
    else:
        return None
    has_agent = find(verb, ("agent",)) is not None or any(
        child.lower_ == "by" and find(verb, ("dobj",)) is None for child in prepositions(verb)
    )
    if has_agent and verb.tag_ in ("VBN", "VBD") and verb.lemma_ not in _INTRANSITIVE:
        return passive
    is_active = (
        verb.tag_ != "VBN"
        or (head.lemma_ == "bear" and verb.lemma_ not in _OF_INFANTS)
        or verb.lemma_ in _INTRANSITIVE
        or find(verb, ("dobj", "aux", *SUBJECTS)) is not None
    )
    return None if is_active else passive


def ordered(tokens: Sequence[Token]) -> list[Token]:
    """Sort words as they stand in the text."""
    return sorted(tokens, key=lambda token: token.i)


def joined(words: Sequence[Token]) -> str:
    """Join words as the text does."""
    text = "".join(word.text_with_ws for word in words)
    return " ".join(text.replace('"', " ").split()).strip(" ,;:-–")


def is_object(child: Token) -> bool:
    """Say whether a verb's dependent is its object or complement, and no relative pronoun."""
    is_noun = child.pos_ not in ("ADP", "VERB", "AUX") and child.lower_ not in RELATIVES
    return is_noun and child.dep_ in ("dobj", "oprd", "attr")


def leads_to_place(token: Token) -> bool:
    """Say whether a noun is a place by its verb, as in "moved to Weimar"."""
    preposition = token.head
    return (
        token.dep_ == "pobj"
        and preposition.lower_ in PLACING
        and (preposition.lower_ == "at" or preposition.head.lemma_ in MOTION)
    )
