"""The error tree: everything we raise is a HippoError, and says what to do."""

import inspect
import pickle
import re
from collections.abc import Iterator

import pytest

from hippo_core import errors
from hippo_core.errors import (
    ConfigError,
    HippoError,
    IndexingError,
    InputError,
    MissingDependencyError,
    ParseError,
    PermanentModelError,
    TransientModelError,
)

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and value.__module__ == errors.__name__
}
EXAMPLES = [
    MissingDependencyError("spacy", "local"),
    TransientModelError("busy", retry_after=2.5),
    PermanentModelError("no such model"),
    ParseError("no JSON object", "I am sorry"),
    IndexingError({"p1": "time-out", "p2": "no JSON object"}),
    InputError("k must be at least 1, got 0"),
]


def drawn() -> Iterator[tuple[str, str | None, str | None]]:
    """Read the tree of the docstring: class, parent by indentation, and what else it is."""
    open_at: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if not (found := re.match(r"([ │├└─]*)([A-Z]\w+Error)\b(?: \((\w+)\))?", line)):
            continue
        depth = len(found[1]) // 4
        open_at[depth] = found[2]
        yield found[2], open_at.get(depth - 1), found[3]


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert {name: [parent, other] for name, parent, other in drawn()} == {
        name: [
            next((base.__name__ for base in kind.__bases__ if base in CLASSES.values()), None),
            next((b.__name__ for b in kind.__bases__ if b not in CLASSES.values()), None)
            if kind is not HippoError
            else None,
        ]
        for name, kind in CLASSES.items()
    }


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_every_error_is_ours_and_documented(kind: type) -> None:
    assert issubclass(kind, HippoError)
    assert kind.__name__.endswith("Error")
    assert kind.__doc__


@pytest.mark.parametrize("kind", [ConfigError, InputError])
def test_a_users_mistake_is_a_value_error(kind: type) -> None:
    assert issubclass(kind, ValueError)


def test_a_missing_package_is_an_import_error_with_the_command_that_installs_it() -> None:
    error = MissingDependencyError("spacy", "local")
    assert isinstance(error, ImportError)
    assert error.name == "spacy"
    assert error.extra == "local"
    assert str(error) == "spacy is not installed; run: pip install 'hippo-core[local]'"


@pytest.mark.parametrize("retry_after", [None, 0.0, 2.5])
def test_a_transient_error_says_how_long_to_wait(retry_after: float | None) -> None:
    assert TransientModelError("busy", retry_after).retry_after == retry_after


def test_an_unreadable_reply_is_shown_up_to_200_characters() -> None:
    error = ParseError("no JSON object", "a" * 200 + "b" * 100)
    assert error.complaint == "no JSON object"
    assert error.excerpt == "a" * 200
    assert "no JSON object" in str(error)
    assert "a" * 200 in str(error)
    assert "b" * 10 not in str(error)


def test_an_unreadable_reply_cannot_break_the_line_of_a_log() -> None:
    assert "\n" not in str(ParseError("no JSON object", "one\ntwo"))


def test_an_indexing_error_names_the_failures_and_the_ways_on() -> None:
    failed = {"p1": "time-out", "p2": "no JSON object"}
    error = IndexingError(failed)
    assert error.failed == failed
    assert error.failed is not failed
    for part in ("2 passages", "'p1'", "time-out", "again", "on_error='skip'"):
        assert part in str(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_comes_whole_out_of_another_process(error: HippoError) -> None:
    # A worker process hands its errors over pickled; one that cannot be read breaks the pool.
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
    assert vars(received) == vars(error)
