"""What users hand in, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

from hippo_core.config import HippoConfig
from hippo_core.costs import Budget, Prices
from hippo_core.errors import ConfigError, InputError
from hippo_core.ports import ChatModel, OpenIE, RecognitionMemory
from hippo_core.text import canonical_json, content_id
from hippo_core.types import Extraction, Passage
from hippo_core.where import Filter, Where, checked_where

OnError = Literal["raise", "skip"]
ScoreMode = Literal["ppr", "relative"]

_SHAPED_BY = ("synonymy_threshold",)  # what the index was built with


def check_ports(
    chat_model: ChatModel | None,
    openie: OpenIE | None = None,
    recognition: RecognitionMemory | None = None,
) -> None:
    """Refuse models that lack a port's methods.

    Raises:
        TypeError: One does.
    """
    for part, name, methods in (
        (chat_model, "chat_model", ("complete", "acomplete")),
        (openie, "openie", ("extract", "query_entities")),
        (recognition, "recognition", ("choose",)),
    ):
        if part is not None:
            check_methods(part, name, methods)
    if openie is not None and not isinstance(getattr(openie, "fingerprint", None), str):
        raise TypeError(f"openie must have a str fingerprint, {type(openie).__name__} has none")


def check_methods(part: object, name: str, methods: Sequence[str]) -> None:
    """Refuse an object without these methods.

    Raises:
        TypeError: One is missing.
    """
    if isinstance(part, type):
        raise TypeError(f"{name} must be an object, got the class {part.__name__}: call it")
    for method in methods:
        if not callable(getattr(part, method, None)):
            raise TypeError(
                f"{name} must have a method {method}(), {type(part).__name__} has none; wrap your "
                "framework's model with LangChainChatModel, LangChainEmbedder or a class of your "
                "own"
            )


def check_call(budget: object, progress: object = None) -> None:
    """Refuse what is no budget and no callback, before anything is paid for.

    Raises:
        TypeError: One of them is of another kind.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget, such as Budget(calls=100), got {type(budget).__name__}"
        )
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress must be a function that is given a Progress, got {type(progress).__name__}"
        )


def check_prices(prices: object) -> None:
    """Refuse what are no prices.

    Raises:
        TypeError: They are of another kind.
    """
    if prices is not None and not isinstance(prices, Prices):
        raise TypeError(
            f"prices must be a Prices, such as Prices(input=0.5), got {type(prices).__name__}"
        )


def checked_passages(passages: Iterable[Passage | str]) -> list[Passage]:
    """Check passages and give each its id.

    Raises:
        InputError: One of them is not what a passage is made of.
    """
    if isinstance(passages, str | Passage | Mapping) or not isinstance(passages, Iterable):
        raise InputError(
            f"add takes a list of passages, got {type(passages).__name__}; put a single one in one"
        )
    return [checked_passage(passage) for passage in passages]


def checked_extractions(
    items: Iterable[tuple[Passage | str, Extraction]],
) -> tuple[list[Passage], dict[str, Extraction]]:
    """Check passages and their extractions; give the passages, and the extractions by id.

    Raises:
        InputError: One of them cannot be used, or one text comes with two extractions.
    """
    checked = [_checked_pair(item) for item in _listed(items)]
    by_text: dict[str, Extraction] = {}
    for passage, extraction in checked:
        if by_text.setdefault(passage.full_text, extraction) != extraction:
            raise InputError(
                f"the text of {passage.id!r} comes with two different extractions; "
                "passages of one text share theirs"
            )
    return [p for p, _ in checked], {p.id: e for p, e in checked}


def _listed(items: object) -> list[Any]:
    if isinstance(items, str | Passage | Mapping) or not isinstance(items, Iterable):
        raise InputError(
            f"add_extracted takes a list of (passage, extraction) pairs, got {type(items).__name__}"
        )
    return list(items)


def _checked_pair(item: Any) -> tuple[Passage, Extraction]:
    match item:
        case (passage, extraction) if not isinstance(item, str):
            return checked_passage(passage), checked_extraction(extraction)
    raise InputError(f"each item must be a (passage, extraction) pair, got {item!r:.80}")


def checked_passage(passage: Passage | str) -> Passage:
    """Check a passage and give it its id.

    Raises:
        InputError: Something of it is not what a passage is made of.
    """
    if isinstance(passage, str):
        passage = Passage(passage)
    if not isinstance(passage, Passage):
        raise InputError(f"a passage must be a Passage or a str, got {type(passage).__name__}")
    for name in ("text", "title", "id", "embed_text"):
        value = getattr(passage, name)
        if not isinstance(value, str):
            raise InputError(f"a passage's {name} must be a str, got {type(value).__name__}")
    if passage.source_id is not None and not isinstance(passage.source_id, str):
        raise InputError(
            f"a passage's source_id must be a str or None, got {type(passage.source_id).__name__}"
        )
    if not isinstance(passage.metadata, Mapping):
        raise InputError(f"metadata must be a dict, got {type(passage.metadata).__name__}")
    metadata = dict(passage.metadata)
    embed_text = passage.embed_text if passage.embed_text.strip() else ""
    texts = [passage.text, passage.title, passage.id, passage.source_id, embed_text]
    canonical_json(texts, name="passage")
    canonical_json(metadata, name="metadata")
    id_ = passage.id or content_id(
        passage.text, passage.title, passage.source_id, metadata, embed_text
    )
    return replace(passage, id=id_, metadata=metadata, embed_text=embed_text)


def checked_extraction(extraction: Extraction) -> Extraction:
    """Check a ready-made extraction.

    Raises:
        InputError: It is none, or holds what the database cannot.
    """
    if not isinstance(extraction, Extraction):
        raise InputError(f"an extraction must be an Extraction, got {type(extraction).__name__}")
    texts = [*extraction.entities, *(field for t in extraction.triples for field in t)]
    texts.append(extraction.reason)
    canonical_json(texts, name="extraction")
    canonical_json(dict(extraction.dropped), name="dropped")
    return extraction


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_ids(ids: Collection[str]) -> list[str]:
    """Check that ids are a collection of str.

    Raises:
        InputError: They are not.
    """
    if isinstance(ids, str):
        raise InputError(f"ids must be a list of str, got the str {ids!r}; put it in a list")
    if not isinstance(ids, Iterable):
        raise InputError(f"ids must be a list of str, got {type(ids).__name__}")
    wanted = list(ids)
    for id_ in wanted:
        if not isinstance(id_, str):
            raise InputError(f"an id must be a str, got {type(id_).__name__}")
    return [str(id_) for id_ in wanted]  # of a subclass, such as NumPy's, a plain str


class Search(NamedTuple):
    """How one query is answered, checked."""

    k: int
    where: Filter | None
    config: HippoConfig
    score_mode: ScoreMode
    dense_queries: tuple[str, ...]
    explain: bool


def checked_search(
    k: int,
    where: Where | None,
    config: HippoConfig | None,
    score_mode: ScoreMode,
    own: HippoConfig,
    dense_queries: Sequence[str] | None = None,
    explain: bool = False,
) -> Search:
    """Check how a query is to be answered; `own` are the memory's settings.

    Raises:
        InputError: k is below 1, the score mode unknown, the filter not one, or a dense query
            blank.
        ConfigError: The settings do not fit the memory's.
    """
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, got {k!r}")
    check_option("score_mode", score_mode, get_args(ScoreMode))
    if isinstance(dense_queries, str):
        raise InputError("dense_queries is a list of texts; put a single one in a list")
    instead = tuple(map(checked_query, dense_queries or ()))
    return Search(
        int(k), checked_where(where), checked_settings(config, own), score_mode, instead, explain
    )


def checked_query(query: str) -> str:
    """Check a query.

    Raises:
        InputError: It is blank, or no text.
    """
    if not isinstance(query, str) or not query.strip():
        raise InputError(f"the query must be text that is not blank, got {query!r}")
    canonical_json(str(query), name="the query")
    return str(query)


def checked_queries(queries: Sequence[str]) -> list[str]:
    """Check a list of queries.

    Raises:
        InputError: It is no list, or one of them is blank.
    """
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        raise InputError(
            f"retrieve_many takes a list of queries, got {type(queries).__name__}; "
            "put a single one in a list"
        )
    return [checked_query(query) for query in queries]


class Chosen(NamedTuple):
    """Which passages are meant: by one of three, the others None."""

    ids: list[str] | None
    where: Filter | None
    source_id: str | None


def checked_choice(
    ids: Collection[str] | None, where: Where | None, source_id: str | None
) -> Chosen:
    """Check which passages are meant.

    Raises:
        InputError: Not exactly one of the three is given, or it is none of its kind.
    """
    if sum(given is not None for given in (ids, where, source_id)) != 1:
        raise InputError("say which passages by one of ids=, where= and source_id=")
    if source_id is not None and not isinstance(source_id, str):
        raise InputError(f"source_id must be a str, got {type(source_id).__name__}")
    return Chosen(None if ids is None else checked_ids(ids), checked_where(where), source_id)


def check_option(name: str, value: object, options: Sequence[str]) -> None:
    """Refuse a value that is none of the options.

    Raises:
        InputError: It is none.
    """
    if value not in options:
        raise InputError(f"{name} must be one of {', '.join(options)}, got {value!r}")


def check_config(config: object) -> None:
    """Refuse what are no settings.

    Raises:
        ConfigError: They are of another type.
    """
    if not isinstance(config, HippoConfig):
        raise ConfigError(
            f"config must be a HippoConfig, got {type(config).__name__}; "
            "write HippoConfig(damping=0.5) or HippoConfig.hipporag()"
        )


def checked_settings(config: HippoConfig | None, own: HippoConfig) -> HippoConfig:
    """Give the settings of one query: the memory's own, or others that fit its index.

    Raises:
        ConfigError: They do not fit.
    """
    if config is None:
        return own
    check_config(config)
    for name in _SHAPED_BY:
        if getattr(config, name) != getattr(own, name):
            raise ConfigError(
                f"{name}={getattr(config, name)!r} differs from the memory's "
                f"{getattr(own, name)!r}; it shapes the index: open the store with it instead"
            )
    if config.synonymy and not own.synonymy:
        raise ConfigError(
            "synonymy=True, and the memory was opened with synonymy=False: "
            "open the store with it instead"
        )
    return config
