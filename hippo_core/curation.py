"""Curation: phrases that the user wants treated as one, and pairs that are never to be linked.

It changes what is derived and nothing that was read: taking it back gives the old graph.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hippo_core.contributions import KeyedTriple
from hippo_core.corpus import TRIPLE, Corpus, Selection
from hippo_core.errors import InputError, StoreCorruptError
from hippo_core.synonyms import SynonymPairs
from hippo_core.text import canonical_json, normalise_phrase

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Curation:
    """Phrase keys: groups that count as one phrase, and pairs that are never synonyms.

    A group's first phrase that is in the corpus stands for it.
    """

    aliases: tuple[tuple[str, ...], ...] = ()
    never_link: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.aliases or self.never_link)

    def to_json(self) -> str | None:
        """Give the form in which it is stored."""
        if not self:
            return None
        return canonical_json(
            {"aliases": [*map(list, self.aliases)], "never_link": [*map(list, self.never_link)]}
        )

    @classmethod
    def from_json(cls, text: str | None) -> Curation:
        """Read the stored form.

        Raises:
            StoreCorruptError: It is another one.
        """
        if text is None:
            return cls()
        try:
            stored = json.loads(text)
            return cls(
                checked_aliases(stored.get("aliases", [])),
                checked_pairs(stored.get("never_link", [])),
            )
        except (ValueError, AttributeError) as error:  # an InputError is a ValueError
            raise StoreCorruptError(
                f"the stored aliases cannot be read ({error}); set aliases and never_link again"
            ) from error


def checked_aliases(groups: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Give groups of phrases as groups of keys.

    Raises:
        InputError: A group is no list of two phrases or more, or a phrase is in two groups.
    """
    checked = []
    seen: dict[str, int] = {}
    for number, group in enumerate(_listed(groups, "aliases")):
        phrases = _listed(group, "a group")
        keys = tuple(dict.fromkeys(_key(phrase, "an alias") for phrase in phrases))
        for key in keys:
            if seen.setdefault(key, number) != number:
                raise InputError(f"the phrase {key!r} is in two groups of aliases; join the groups")
        if len(phrases) < 2:
            raise InputError(f"a group of aliases must be two phrases or more, got {group!r}")
        if len(keys) > 1:  # else they are one already
            checked.append(keys)
    return tuple(checked)


def checked_pairs(pairs: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Give pairs of phrases as sorted pairs of keys.

    Raises:
        InputError: One is no pair of two phrases.
    """
    checked = set()
    for pair in _listed(pairs, "never_link"):
        keys = sorted({_key(phrase, "a phrase") for phrase in _listed(pair, "a pair")})
        if len(keys) != 2:
            raise InputError(f"a pair that is never linked must be two phrases, got {pair!r}")
        checked.add((keys[0], keys[1]))
    return tuple(sorted(checked))


def check_curation(curation: Curation) -> None:
    """Refuse a pair that is never linked and counts as one.

    Raises:
        InputError: There is one.
    """
    group_of = {key: number for number, group in enumerate(curation.aliases) for key in group}
    for one, other in curation.never_link:
        if one in group_of and group_of[one] == group_of.get(other):
            raise InputError(f"{one!r} and {other!r} are aliases and never to be linked; choose")


def curated(corpus: Corpus, curation: Curation) -> Corpus:
    """Give the corpus as the user wants it seen.

    Triples that come to be alike are one. A phrase that stands for others has the synonyms of all
    of them, each with its highest cosine, and a pair is never linked if two that they stand for are
    not to be. An edge of the user's goes to the phrase that stands for its own, which need not be
    there itself.
    """
    if not curation:
        return corpus
    position = {phrase: i for i, phrase in enumerate(corpus.phrases)}
    stands_for = np.arange(len(position))
    standing = dict(position)  # by phrase, also one that is not there and has an alias that is
    for group in curation.aliases:
        there = [position[phrase] for phrase in group if phrase in position]
        if there:
            stands_for[there] = there[0]
            standing |= dict.fromkeys(group, there[0])
    never = {
        frozenset((standing[a], standing[b]))
        for a, b in curation.never_link
        if a in standing and b in standing
    }
    synonyms = _linked(corpus.synonyms, stands_for, never)
    stand_ins = {p: standing[p] for group in curation.aliases for p in group if p in standing}
    if (stands_for == np.arange(len(position))).all():
        edges = corpus.edges.with_phrases(stand_ins, stands_for)
        return replace(corpus, synonyms=synonyms, edges=edges)
    return _merged(corpus, stands_for, synonyms, stand_ins)


def _linked(
    synonyms: SynonymPairs, stands_for: Positions, never: Collection[frozenset[int]]
) -> SynonymPairs:
    """Give the pairs between phrases that stand for others, the highest cosine of each."""
    one, other = stands_for[synonyms.left], stands_for[synonyms.right]
    left, right = np.minimum(one, other), np.maximum(one, other)
    order = np.lexsort((-synonyms.cosine, right, left))
    left, right, cosine = left[order], right[order], synonyms.cosine[order]
    same = (np.diff(left, prepend=-1) == 0) & (np.diff(right, prepend=-1) == 0)
    barred = [frozenset(pair) in never for pair in zip(left.tolist(), right.tolist(), strict=True)]
    kept = ~same & (left != right) & ~np.array(barred, dtype=bool)
    return SynonymPairs(left[kept], right[kept], cosine[kept])


def _merged(
    corpus: Corpus,
    stands_for: Positions,
    synonyms: SynonymPairs,
    stand_ins: Mapping[str, int],
) -> Corpus:
    staying = np.unique(stands_for)
    place = np.searchsorted(staying, stands_for)  # of a phrase's stand-in among those that stay
    ends = stands_for[corpus.triple_phrases]
    unchanged = (ends == corpus.triple_phrases).all(axis=1)
    keys = [
        triple if same else KeyedTriple(corpus.phrases[s], triple.relation, corpus.phrases[o])
        for triple, same, (s, o) in zip(corpus.triples, unchanged, ends.tolist(), strict=True)
    ]
    source: dict[KeyedTriple, int] = {}  # whose vector a triple has: its own, or the least
    for i, key in enumerate(keys):
        if unchanged[i] or key not in source:
            source[key] = i
    triples = sorted(source)
    triple_at = {triple: i for i, triple in enumerate(triples)}
    moved = np.array([triple_at[key] for key in keys], dtype=np.int64)
    sources = np.array([source[triple] for triple in triples], dtype=np.int64)
    occurrences = corpus.occurrences.copy()
    occurrences[:, TRIPLE] = moved[occurrences[:, TRIPLE]]
    return replace(
        corpus,
        phrases=corpus.phrases.at(staying),
        lengths=corpus.lengths[staying],
        checksums=corpus.checksums[staying],
        triples=Selection(triples, np.arange(len(triples))),
        triple_phrases=place[corpus.triple_phrases[sources]],
        occurrences=occurrences,
        synonyms=SynonymPairs(place[synonyms.left], place[synonyms.right], synonyms.cosine),
        edges=corpus.edges.with_phrases(stand_ins, place),
        phrase_vectors=corpus.phrase_vectors.at(staying),
        triple_vectors=corpus.triple_vectors.at(sources),
    )


def _listed(items: object, name: str) -> list[Any]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError(f"{name} must be a list, got {items!r}")
    return list(items)


def _key(phrase: object, name: str) -> str:
    if not isinstance(phrase, str):
        raise InputError(f"{name} must be a str, got {type(phrase).__name__}")
    key = normalise_phrase(phrase)
    if not key:
        raise InputError(f"{name} must hold a letter, digit or symbol, got {phrase!r}")
    canonical_json(key, name=name)
    return key
