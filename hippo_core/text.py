"""Phrase keys, content ids and canonical JSON."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import category, normalize

from hippo_core.errors import InputError

MAX_DEPTH = 100  # nested lists and dicts that canonical JSON may hold
_MAX_BITS = 13_000  # of an int; Python itself refuses to read back more than 4300 digits

# Unicode's Default_Ignorable_Code_Point: joiners, variation selectors, soft hyphens, direction
# marks. NFKC_Casefold removes them too: a phrase must not change with what nobody sees.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)


class _Classes(dict[int, str]):
    """What a character is to the grammar of a word; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = category(character)
        if character in "+#":
            found = "+"
        elif character in ".'":
            found = character
        elif kind in ("Sm", "Sc", "So"):
            found = "$"
        else:
            found = {"L": "a", "N": "0", "M": "m"}.get(kind[0], " ")
        self[code] = found
        return found


_CLASSES = _Classes()
_WORD = re.compile(
    r"""
    (?: (?<![a0$m+.]) \. (?=a) )?           # .NET, but not U.S. nor wait...what
    (?: a m* (?: \++ | ' (?=a) )?           # letters with their marks, C++, C#, O'Brien
      | 0 m* (?: \++ | \. (?=0) )?          # numbers, 3.14
      | \$ m*                               # symbols; a mark without a base is dropped
    )+
    """,
    re.VERBOSE,
)


def normalise_phrase(text: str) -> str:
    """Give the key under which a phrase is a node of the graph; empty if nothing of it counts.

    The text is compatibility-composed and case-folded (NFKC, casefold, İ as i, invisible
    characters out). Letters, marks, numbers and symbols stay, and so do `+` and `#` after a letter
    or digit, `.` between digits or before a letter at a word's start, and `'` between letters. All
    else is one space. Idempotent.

    >>> [normalise_phrase(text) for text in ("U.S.", "3.14", "1,000", "C++", "C#", ".NET")]
    ['u s', '3.14', '1 000', 'c++', 'c#', '.net']
    >>> [normalise_phrase(text) for text in ("O’Brien", "Süd-Korea", "ＡＢＣ公司", "हिन्दी", "🦛")]
    ["o'brien", 'süd korea', 'abc公司', 'हिन्दी', '🦛']
    >>> normalise_phrase("!!!")
    ''
    """
    if not text.isascii():
        return _words(_fold(text))
    if text.replace(" ", "").isalnum():  # most phrases by far
        return " ".join(text.lower().split())
    return _words(text.lower())


def _words(folded: str) -> str:
    classes = folded.translate(_CLASSES)
    return " ".join([folded[word.start() : word.end()] for word in _WORD.finditer(classes)])


def _fold(text: str) -> str:
    visible = _INVISIBLE.sub("", text.replace("’", "'"))
    folded = normalize("NFKC", visible).casefold().replace("i\u0307", "i")  # Turkish
    # Composed again, since folding decomposes some letters (U+0390). A third round changes nothing.
    return normalize("NFKC", folded)


def letters_and_digits(key: str) -> int:
    """Count the letters and numbers of a phrase key (categories L and N).

    >>> letters_and_digits("c++"), letters_and_digits("3.14"), letters_and_digits("हिन्दी")
    (1, 3, 3)
    """
    classes = key.translate(_CLASSES)
    return classes.count("a") + classes.count("0")


def checksum(key: str) -> int:
    """Give a small number by which a phrase key is found quickly: its CRC-32.

    Few keys share one, but some do: whoever finds a key by it compares the keys.
    """
    return zlib.crc32(key.encode())


def sha256_hex(*parts: str) -> str:
    """Hash texts, each with its length, so that no two different lists of texts hash alike.

    >>> sha256_hex("ab", "c") == sha256_hex("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", errors="surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def canonical_json(value: object, *, name: str = "value") -> str:
    """Write JSON in its one canonical form: sorted keys, no spaces, no escapes but the needed.

    Args:
        value: Made of str, int, float, bool, None, list and dict, and of no subclass of these, so
            that what is read back equals what was written.
        name: What an error message calls the value.

    Raises:
        InputError: A part is not JSON; the message names its path and type.

    >>> canonical_json({"b": [1, 2.5, None], "a": "é"})
    '{"a":"é","b":[1,2.5,null]}'
    >>> canonical_json({"a": [{1, 2}]})
    Traceback (most recent call last):
        ...
    hippo_core.errors.InputError: value['a'][0] must be JSON (str, int, float, bool, None, list \
or dict), got a set
    """
    _check_json(value, name, MAX_DEPTH)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _check_json(value: object, path: str, depth: int) -> None:
    # Exact types: a NumPy float is a float, but does not come back as one.
    if type(value) is dict or type(value) is list:
        if depth == 0:
            raise InputError(f"{path[:80]}... is nested more than {MAX_DEPTH} deep")
        for key, item in _items(value, path):
            _check_json(item, f"{path}[{key!r}]", depth - 1)
    elif type(value) is str:
        _check_text(value, path)
    elif type(value) is float:
        if not math.isfinite(value):
            raise InputError(f"{path} must be a finite number, got {value!r}")
    elif type(value) is int:
        if value.bit_length() > _MAX_BITS:
            raise InputError(f"{path} must be an int of at most {_MAX_BITS} bits")
    elif type(value) is not bool and value is not None:
        raise InputError(
            f"{path} must be JSON (str, int, float, bool, None, list or dict), "
            f"got a {_type_name(value)}"
        )


def _items(container: dict[Any, Any] | list[Any], path: str) -> Iterable[tuple[str | int, object]]:
    if isinstance(container, list):
        return enumerate(container)
    for key in container:
        if type(key) is not str:
            raise InputError(f"{path} must have str keys, got {_shown(key)}, a {_type_name(key)}")
        _check_text(key, f"{path}: key {key!r}")
    return container.items()


def _shown(key: object) -> str:
    is_huge = isinstance(key, int) and key.bit_length() > _MAX_BITS  # Python refuses to print it
    return "a huge number" if is_huge else repr(key)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path} must be Unicode text, got the lone surrogate {text[error.start]!r} "
            f"at position {error.start}"
        ) from None


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def content_id(
    text: str,
    title: str,
    source_id: str | None,
    metadata: Mapping[str, Any],
    embed_text: str = "",
) -> str:
    """Give the id of a passage that has none: a hash of all that it holds.

    Raises:
        InputError: The metadata is not JSON.

    >>> content_id("Hippos swim.", "", None, {}) == content_id("Hippos swim.", "", None, {})
    True
    >>> content_id("Hippos swim.", "", None, {}) == content_id("Hippos swim.", "", "", {})
    False
    """
    source = () if source_id is None else (source_id,)
    # Two parts, so that no source is taken for it; none where there is none, as ids of before.
    embedded = ("", embed_text) if embed_text else ()
    parts = text, title, canonical_json(dict(metadata), name="metadata"), *source, *embedded
    return sha256_hex(*parts)
