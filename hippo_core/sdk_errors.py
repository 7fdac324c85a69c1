"""What an SDK raised, as one of our own errors: by its status, its codes, its type, its words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from hippo_core.errors import (
    ContextTooLongError,
    ModelError,
    PermanentModelError,
    RateLimitedError,
    TransientModelError,
)

_SECRET = re.compile(
    r"""
      (?P<before> \b https?:// [^\s?'"]{0,2000} \?) [^\s'"]+   # a URL's query
    | (?P<user> :// ) [^\s/@'":]* : [^\s/@'"]+ (?= @ )   # user and password
    | (?P<bearer> \b [Bb]earer \s+) [\w.~+/=-]{8,}
    | (?P<key> \b sk-) [\w-]{8,}
    """,
    re.VERBOSE,
)

_TRANSIENT = (408, 409, 425, 429)  # and 500 and above
_MAY_BE_TOO_LONG = (None, 400, 413, 422, 500)  # statuses under which servers say so
_NAMED_TRANSIENT = (
    "timeout",
    "connection",
    "connecterror",
    "networkerror",  # httpx: a read or a write that broke
    "remoteprotocolerror",
    "unavailable",
    "overloaded",
)
_NAMED_RATE_LIMIT = ("ratelimit", "throttl", "toomanyrequests", "resourceexhausted")
_NAMED_TOO_LONG = ("contextwindowexceeded", "contextoverflow", "contextlengthexceeded")
_QUOTA = re.compile(r"insufficient_quota|billing_hard_limit_reached")
_REQUEST_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)  # for the limit of any minute
_TOO_LONG = re.compile(
    r"""
      context_length_exceeded | exceed_context_size | string_above_max_length
    | maximum \s (context | prompt | input) \s length | model_max_prompt_tokens_exceeded
    | exceeds? \s (the \s | this \s | your \s)? (available | model's | maximum | max)?
      \s? (context | input \s token)
    | (prompt | input | request | context) (\s text)? (\s length)? \s (is \s)? too \s (long | large)
    | input \s length \s exceeds | input \s token \s count .{0,40} \s exceeds
    | context \s (window | length | size) \s (exceeded | of .{0,40} \s exceeded)
    | too \s many \s (input \s)? tokens | reduce \s the \s length \s of
    | must \s have \s less \s than \s \d+ \s tokens | max_new_tokens[`'"]? \s must \s be \s <=
    """,
    re.VERBOSE | re.IGNORECASE,
)

_SAID_WAIT = re.compile(
    r"""
      (?: (?: retry | try \s again | retrying) \s (?: in | after) \s
        | retryDelay ['"]? \s* : \s* ['"]? )
      (?: (?P<h> \d{1,4}) h)?
      (?: (?P<m> \d{1,4}) \s? m (?: in (?: ute s?)?)? (?! [a-z]) \s?)?
      (?: (?P<s> \d{1,6} (?: \. \d{1,9})?) \s? (?P<unit> ms | s) )?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_THREE_DIGITS = re.compile("[1-5][0-9]{2}")
_SEARCHED = 10_000  # characters of a message in which something is looked for


def as_model_error(error: Exception) -> ModelError:
    """Convert an SDK's exception by its status code, its codes, its type and its words.

    Its message is kept without what looks like a key: it is logged, and stored with the passage.
    """
    response = getattr(error, "response", None)
    message = without_secrets(f"{type(error).__name__}: {error}")
    status = _status(error, response)
    types = [kind.__name__.lower() for kind in type(error).__mro__]
    codes = " ".join(_codes(error, response))
    said = f"{codes} {str(error)[:_SEARCHED]}"
    rate_limit = status == 429 or _any(_NAMED_RATE_LIMIT, codes.lower().replace("_", ""))
    transient = status is not None and (status in _TRANSIENT or status >= 500)
    if status is None:
        rate_limit = rate_limit or _any(_NAMED_RATE_LIMIT, *types)
        transient = isinstance(error, TimeoutError | ConnectionError)
        transient = transient or _any(_NAMED_TRANSIENT, *types)
    if rate_limit and _QUOTA.search(said):
        return PermanentModelError(message)
    if _is_too_long(status, said, types, rate_limit):
        return ContextTooLongError(message)
    if rate_limit:
        return RateLimitedError(message, _retry_after(error, response, said))
    if transient:
        return TransientModelError(message, _retry_after(error, response, said))
    return PermanentModelError(message)


def is_of_the_endpoint(error: ModelError) -> bool:
    """Whether key, model or server is the trouble, whatever was asked; else it may be the text."""
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return False
    if _status(cause, getattr(cause, "response", None)) in (401, 402, 403, 404):
        return True
    types = [kind.__name__.lower() for kind in type(cause).__mro__]
    return isinstance(cause, ConnectionError) or _any(("connection", "connecterror"), *types)


def without_secrets(message: str) -> str:
    """Give a message without what looks like a key."""
    return _SECRET.sub(_hidden, message)


def _hidden(secret: re.Match[str]) -> str:
    return f"{next(part for part in secret.groups() if part)}..."


def _any(words: Iterable[str], *texts: str) -> bool:
    return any(word in text for word in words for text in texts)


def _is_too_long(status: int | None, said: str, types: list[str], rate_limit: bool) -> bool:
    if rate_limit:  # "too many tokens" may be those of this minute
        return bool(_REQUEST_TOO_LARGE.search(said))
    if _any(_NAMED_TOO_LONG, *types):
        return True
    return status in _MAY_BE_TOO_LONG and bool(_TOO_LONG.search(said))


def _status(error: Exception, response: Any) -> int | None:
    """Find the HTTP status where the usual SDKs keep it."""
    found = [getattr(error, name, None) for name in ("status_code", "status", "code")]
    found.append(getattr(response, "status_code", None))
    metadata = _item(response, "ResponseMetadata")  # botocore
    found.append(_item(metadata, "HTTPStatusCode"))
    written = (int(s) if isinstance(s, str) and _THREE_DIGITS.fullmatch(s) else s for s in found)
    numbers = (s for s in written if isinstance(s, int) and not isinstance(s, bool))
    return next((int(s) for s in numbers if 100 <= s < 600), None)


def _codes(error: Exception, response: Any) -> Iterator[str]:
    """Give the words by which servers name what is wrong."""
    body = getattr(error, "body", None)
    for place in (body, _item(body, "error"), _item(response, "Error")):
        for name in ("code", "type", "Code"):
            if isinstance(code := _item(place, name), str):
                yield code[:_SEARCHED]
    for name in ("code", "type", "status"):
        if isinstance(code := getattr(error, name, None), str):
            yield code[:_SEARCHED]


def _item(place: Any, name: str) -> Any:
    return place.get(name) if isinstance(place, Mapping) else None


def _retry_after(error: Exception, response: Any, said: str) -> float | None:
    """Find for how many seconds the server asks to wait."""
    metadata = _item(response, "ResponseMetadata")
    places = (getattr(response, "headers", None), getattr(error, "headers", None))
    for headers in (*places, _item(metadata, "HTTPHeaders")):
        if (seconds := _of_headers(headers)) is not None:
            return seconds
    attribute = _number(getattr(error, "retry_after", None))
    return _of_words(said) if attribute is None else attribute


def _of_headers(headers: Any) -> float | None:
    try:
        told = {str(name).lower(): value for name, value in headers.items()}
    except (AttributeError, TypeError, ValueError):  # no headers, or nothing of their kind
        return None
    milliseconds = _number(told.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = told.get("retry-after")
    seconds = _number(said)
    return _until(said) if seconds is None and isinstance(said, str) else seconds


def _number(said: Any) -> float | None:
    """Read a number of at least 0, as such or in digits."""
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return None
    try:
        number = float(said)
    except (ValueError, OverflowError):  # other text; an int beyond all floats
        return None
    return number if number >= 0 and math.isfinite(number) else None


def _until(date: str) -> float | None:
    """Give the seconds to an HTTP date; 0 if it is past."""
    try:
        when = parsedate_to_datetime(date)
    except (ValueError, OverflowError):  # no date
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max((when - datetime.now(UTC)).total_seconds(), 0.0)


def _of_words(said: str) -> float | None:
    """Read what a message says: `Please retry in 12.5s.`, `try again in 1m30s`, `retryDelay`."""
    for found in _SAID_WAIT.finditer(said):
        if any(found[part] for part in ("h", "m", "s")):
            last = float(found["s"] or 0)
            last = last / 1000 if (found["unit"] or "").lower() == "ms" else last
            return int(found["h"] or 0) * 3600 + int(found["m"] or 0) * 60 + last
    return None
