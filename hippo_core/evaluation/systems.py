"""Systems to compare: BM25, and a memory with the settings of both papers and their ablations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from hippo_core.answers import Answer
from hippo_core.config import HippoConfig
from hippo_core.costs import Usage
from hippo_core.errors import InputError, MissingDependencyError
from hippo_core.hipporag import HippoRAG
from hippo_core.ircot import MAX_STEPS
from hippo_core.iterations import IterativeRetrieval
from hippo_core.types import Passage, Retrieval, ScoredPassage

DEPTH = 20  # passages that a ready-made system ranks: the largest k of the papers' recall


class Ranking(NamedTuple):
    """What a system of one's own may give, to say its cost too."""

    passages: Sequence[str]
    """Ids, best first."""
    usage: Usage


class _Found(Protocol):
    """Ranked passages and their cost: a `Retrieval`, a `Ranking`, what iterated retrieval gives."""

    @property
    def passages(self) -> Sequence[str] | Sequence[ScoredPassage]: ...

    @property
    def usage(self) -> Usage: ...


@dataclass(frozen=True, slots=True)
class System:
    """A name, and what ranks passages for a query: any function will do.

    >>> System("oracle", lambda query: ["p1", "p2"]).name
    'oracle'
    """

    name: str
    retrieve: Callable[[str], Sequence[str] | _Found]
    """Gives ids, best first, or ranked passages with their usage, as `HippoRAG.retrieve` does."""
    answer: Callable[[str], str | Answer] | None = None
    """Answers the question, as `HippoRAG.answer` does; None where nothing reads."""


def memory_system(
    memory: HippoRAG,
    name: str,
    config: HippoConfig | None = None,
    *,
    k: int = DEPTH,
    read: int = 5,
) -> System:
    """Make a system of a memory with these settings.

    Args:
        memory: It serves any number of systems. Edges of the graph follow each system's settings,
            but for the synonymy threshold, and for the text under which triples were embedded: a
            memory that was filled with `HippoConfig.hipporag2()` has the published one.
        name: What the table calls it.
        config: None for the memory's own.
        k: How many passages it ranks.
        read: How many the memory's chat model reads to answer.
    """
    shared = memory.config.synonymy_threshold
    settings = (config or memory.config).but(synonymy_threshold=shared)
    return System(
        name,
        partial(memory.retrieve, k=k, config=settings),
        partial(memory.answer, k=read, config=settings) if memory.chat_model else None,
    )


def dense(memory: HippoRAG, **options: Any) -> System:
    """Make the baseline: passages by cosine."""
    return memory_system(memory, "dense", HippoConfig.dense(), **options)


def hipporag(memory: HippoRAG, **options: Any) -> System:
    """Make HippoRAG as published."""
    return memory_system(memory, "HippoRAG", HippoConfig.hipporag(), **options)


def hipporag2(memory: HippoRAG, **options: Any) -> System:
    """Make HippoRAG 2 as published."""
    return memory_system(memory, "HippoRAG 2", HippoConfig.hipporag2(), **options)


def default(memory: HippoRAG, **options: Any) -> System:
    """Make what `HippoConfig()` is."""
    return memory_system(memory, "default", HippoConfig(), **options)


def ircot(
    memory: HippoRAG,
    name: str = "IRCoT",
    config: HippoConfig | None = None,
    *,
    k: int = DEPTH,
    read: int = 5,
    max_steps: int = MAX_STEPS,
) -> System:
    """Make IRCoT over a method of a memory with a chat model; the arguments are `memory_system`'s.

    Each step finds k passages, and the chat model is shown as many of them as fit. To answer it
    reads the best that steps of `read` passages found.
    """
    shared = memory.config.synonymy_threshold
    settings = (config or memory.config).but(synonymy_threshold=shared)

    def answer(question: str) -> Answer:
        found = memory.ircot(question, k=read, config=settings, max_steps=max_steps)
        said = memory.answer(question, retrieval=found)
        return replace(said, usage=found.usage + said.usage)

    return System(name, partial(memory.ircot, k=k, config=settings, max_steps=max_steps), answer)


def line_up(memory: HippoRAG, **options: Any) -> list[System]:
    """Make BM25, dense, HippoRAG, HippoRAG 2 and the default; `ircot` needs a chat model."""
    made = [make(memory, **options) for make in (dense, hipporag, hipporag2, default)]
    return [bm25(memory, k=options.get("k", DEPTH)), *made]


ABLATIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "HippoRAG": {
        "without node specificity": {"node_specificity": False},
        "without synonymy": {"synonymy": False},
        "linked phrases only": {"expansion": "linked_phrases"},
        "linked phrases and neighbours": {"expansion": "neighbours"},
        "dense ensemble": {"dense_ensemble": True},
    },
    "HippoRAG 2": {
        "without recognition memory": {"recognition_memory": False},
        "without passage seeds": {"passage_weight": 0.0},
        "without node specificity": {"node_specificity": False},
        "without synonymy": {"synonymy": False},
    },
    "default": {
        "without context": {"context_weight": 0.0},
        "without anchors": {"anchor_weight": 0.0},
        "without meeting points": {"meeting_weight": 0.0},
        "without the margin": {"linking_margin": None},
        "5 seed phrases": {"seed_phrases": 5},
        "without recognition memory": {"recognition_memory": False},
        "without passage seeds": {"passage_weight": 0.0},
        "without node specificity": {"node_specificity": False},
        "without synonymy": {"synonymy": False},
        "without own edges": {"user_edges": False},
        "second hop": {"second_hop": 3},
    },
}
"""What each ablation changes, by the method that it is one of."""

_METHODS: Mapping[str, Callable[..., HippoConfig]] = {
    "HippoRAG": HippoConfig.hipporag,
    "HippoRAG 2": HippoConfig.hipporag2,
    "default": HippoConfig,
}


def ablations(memory: HippoRAG, method: str = "default", **options: Any) -> list[System]:
    """Make a method, and it again without each of its parts.

    Args:
        memory: As in `memory_system`.
        method: `default`, `HippoRAG 2` or `HippoRAG`.
        options: `k` and `read` of `memory_system`.

    Raises:
        InputError: There is no such method.
    """
    if method not in ABLATIONS:
        raise InputError(f"method must be one of {', '.join(ABLATIONS)}, got {method!r}")
    make = _METHODS[method]
    parts = [
        memory_system(memory, f"{method}, {name}", make(**changes), **options)
        for name, changes in ABLATIONS[method].items()
    ]
    return [memory_system(memory, method, make(), **options), *parts]


def bm25(passages: Iterable[Passage], *, k: int = DEPTH, language: str = "english") -> System:
    """Make BM25 over title and text, in bm25s's default variant (Lucene's, k1 1.5, b 0.75).

    Args:
        passages: A memory, or any passages.
        k: How many it ranks; those without a word of the query are not ranked.
        language: Whose stop words are left out; they are there for a dozen of Europe's, `""` for
            none. Words are runs of two letters or digits and more, in lower case and not stemmed.

    Raises:
        InputError: There are no passages, or no words in any.
        MissingDependencyError: bm25s is not installed.
    """
    try:
        import bm25s
    except ImportError:
        raise MissingDependencyError("bm25s", "eval") from None
    corpus = list(passages)
    ids = [passage.id for passage in corpus]
    words = partial(
        bm25s.tokenize, stopwords=language or None, return_ids=False, show_progress=False
    )
    texts = words([passage.full_text for passage in corpus]) if corpus else []
    if not any(texts):
        raise InputError("BM25 needs passages with words; there are none")
    index = bm25s.BM25()
    index.index(texts, show_progress=False)

    def rank(query: str) -> Ranking:
        (asked,) = words([query])
        asked = [word for word in asked if word in index.vocab_dict]
        if not asked:
            return Ranking((), Usage())
        scores = index.get_scores(asked)
        best = (-scores).argsort(kind="stable")[:k]
        return Ranking([ids[i] for i in best if scores[i] > 0], Usage())

    return System("BM25", rank)


def ranked_ids(found: Sequence[str] | _Found) -> tuple[str, ...]:
    """Give the ids that a system ranked, each once, best first.

    A passage that a walk gave nothing is not found, whatever place it fills.

    Raises:
        TypeError: What it gave are no ids and no ranked passages.
    """
    passages: Any = getattr(found, "passages", found)
    steps = found.steps if isinstance(found, IterativeRetrieval) else ()
    one = [found] if isinstance(found, Retrieval) else [step.retrieval for step in steps]
    filled_up = any(each is not None and each.path.used_graph for each in one)
    ids = []
    for item in passages if not isinstance(passages, str) else [None]:
        if isinstance(item, str):
            ids.append(item)
        elif not isinstance(item, ScoredPassage):
            raise TypeError(
                "a system must give passage ids or ranked passages, "
                f"got {type(found).__name__} of {type(item).__name__}"
            )
        elif item.score > 0 or not filled_up:
            ids.append(item.passage.id)
    return tuple(dict.fromkeys(ids))
