"""The errors that hippo-core raises.

HippoError
├── ConfigError (ValueError)              a setting out of range, or that contradicts another
├── InputError (ValueError)               a passage, query, k or id that cannot be used
├── MissingDependencyError (ImportError)  an optional package is not installed
├── ModelRequiredError                    a chat model or an extractor is needed and not given
├── ModelError                            a call to the user's model failed
│   ├── TransientModelError               worth another try: time-out, broken connection, 5xx
│   │   └── RateLimitedError              calls come too fast: 429
│   └── PermanentModelError               another try cannot help: 401, 404, quota used up
│       └── ContextTooLongError           the prompt is longer than the model reads
├── BudgetExceededError                   the next call would go over the budget
├── ParseError                            a reply of the model that cannot be read
├── IndexingError                         passages that could not be read; what was finished is kept
├── SynonymyError                         nearly every phrase is a synonym of every other
└── StoreError                            the state on disk
    ├── NotAStoreError                    a folder or file that is not ours, or is not there
    ├── SchemaVersionError                written by another version of the format
    ├── StoreLockedError                  another process holds the write lock for too long
    ├── StoreUnavailableError             the database server does not answer, or hung up
    ├── StoreCorruptError                 the database cannot be read
    ├── EmbedderMismatchError             the index was built with another embedder
    └── ClosedError                       the handle was closed
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

EXCERPT = 200  # characters of a foreign text that an error message may show


class HippoError(Exception):
    """Any error that hippo-core raises on purpose."""


class ConfigError(HippoError, ValueError):
    """A setting is out of range, or two settings contradict each other."""


class InputError(HippoError, ValueError):
    """A passage, query, k or id that cannot be used."""


class MissingDependencyError(HippoError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed; run: pip install 'hippo-core[{extra}]'", name=package
        )
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra)


class ModelRequiredError(HippoError):
    """An operation needs a chat model or an extractor, and none was given."""


class ModelError(HippoError):
    """A call to the user's model failed."""


class TransientModelError(ModelError):
    """A call failed in a way that another try may mend.

    Attributes:
        retry_after: Seconds that the server asked to wait; None if it did not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.retry_after)


class RateLimitedError(TransientModelError):
    """The server refused a call because calls come too fast; all calls of a handle wait for it."""


class PermanentModelError(ModelError):
    """A call failed in a way that another try cannot mend."""


class ContextTooLongError(PermanentModelError):
    """A prompt, or a text to embed, is longer than the model reads."""


class BudgetExceededError(HippoError):
    """The next call of a model would go over the budget, and was not made.

    Attributes:
        budget: The `Budget`.
        usage: The `Usage` that counted against it so far; calls that still run are not in it.
    """

    def __init__(self, complaint: str, budget: Any, usage: Any) -> None:
        super().__init__(complaint)
        self.budget = budget
        self.usage = usage

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.budget, self.usage)


class ParseError(HippoError):
    """A reply of the model cannot be read.

    Attributes:
        excerpt: The first 200 characters of the reply.
    """

    def __init__(self, complaint: str, reply: str) -> None:
        self.complaint = complaint
        self.excerpt = reply[:EXCERPT]
        super().__init__(f"{complaint}; the reply began with {self.excerpt!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.complaint, self.excerpt)


class IndexingError(HippoError):
    """Some passages could not be read, or not in full.

    Every extraction that succeeded is kept: adding the same passages again asks only for the rest.

    Attributes:
        failed: Reason by passage id.
        indexed: Whether the call's passages are visible all the same, as far as they were read.
        retry: What to do to read the rest.
        skippable: Whether `on_error="skip"` would have indexed the others.
        usage: The `Usage` of the call; None where it is not known.
    """

    def __init__(
        self,
        failed: Mapping[str, str],
        *,
        indexed: bool = False,
        retry: str = "add the same passages again",
        skippable: bool = True,
        usage: Any = None,
    ) -> None:
        self.failed = dict(failed)
        self.indexed = indexed
        self.retry = retry
        self.skippable = skippable
        self.usage = usage
        first_id, first_reason = next(iter(self.failed.items()), ("", "unknown"))
        begun = f"{len(self.failed)} passages could not be read"
        first = f"(first: {first_id!r}: {first_reason})"
        if indexed:
            told = f"{begun} in full {first}; what was whole is indexed. Add them again to retry."
        elif skippable:
            told = (
                f"{begun}, none of this call was indexed {first}. What was read is kept: {retry} "
                "to retry the rest, or pass on_error='skip' to index the others."
            )
        else:
            told = f"{begun} {first}. What was read is kept: {retry} to retry the rest."
        super().__init__(told)

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {
            name: getattr(self, name) for name in ("indexed", "retry", "skippable", "usage")
        }
        return partial(type(self), **settings), (self.failed,)


class SynonymyError(HippoError):
    """The embedder makes nearly every phrase a synonym of every other."""


class StoreError(HippoError):
    """The state on disk cannot be used as asked."""


class NotAStoreError(StoreError):
    """A folder or file that is not a hippo-core store, or that is not there."""


class SchemaVersionError(StoreError):
    """The store was written by another version of the format."""


class StoreLockedError(StoreError):
    """Another process holds the write lock for too long; try again."""


class StoreUnavailableError(StoreError):
    """The database server cannot be reached, or closed the connection; try again."""


class StoreCorruptError(StoreError):
    """The database file cannot be read."""


class EmbedderMismatchError(StoreError):
    """The index was built with another embedder than the one given."""


class ClosedError(StoreError):
    """The handle was closed."""
