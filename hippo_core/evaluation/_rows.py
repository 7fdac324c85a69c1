"""Rows of a data set's file, whose errors name the file, the place in it and the field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hippo_core.errors import InputError


class Row:
    """One object of a file, or one inside it, and where it stands."""

    def __init__(self, value: object, place: str) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{place}: must be an object, got {_shown(value)}")
        self._fields: Mapping[str, Any] = value
        self.place = place

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def only(self, *names: str) -> None:
        """Refuse other fields: a misspelt one would be missed."""
        for name in self._fields.keys() - set(names):
            raise self.error(name, f"is no field here; there are {', '.join(names)}")

    def string(self, *names: str, blank: bool = False) -> str:
        """Give the first of these fields that is there, a text."""
        name = next((name for name in names if name in self), names[0])
        value = self._value(name)
        if not isinstance(value, str):
            raise self.error(name, f"must be a text, got {_shown(value)}")
        if not blank and not value.strip():
            raise self.error(name, "must not be blank")
        return value

    def strings(self, name: str, *, optional: bool = False) -> tuple[str, ...]:
        """Give a list of texts; one that stands alone counts as one."""
        if optional and name not in self:
            return ()
        value = self._value(name)
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise self.error(name, f"must be a list of texts, got {_shown(value)}")
        return tuple(listed)

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """Give true or false."""
        value = self._value(name) if default is None or name in self else default
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, got {_shown(value)}")
        return value

    def count(self, name: str) -> int:
        """Give a whole number from 0 on; 0 where it is not there."""
        value = self._fields.get(name) or 0
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(name, f"must be a whole number from 0 on, got {_shown(value)}")
        return value

    def object(self, name: str) -> dict[str, Any]:
        """Give an object, empty where it is not there."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, f"must be an object, got {_shown(value)}")
        return value or {}

    def items(self, name: str) -> list[Any]:
        """Give a list."""
        value = self._value(name)
        if not isinstance(value, list):
            raise self.error(name, f"must be a list, got {_shown(value)}")
        return value

    def rows(self, name: str) -> Iterator[Row]:
        """Give the objects of a list."""
        for number, item in enumerate(self.items(name)):
            yield Row(item, f"{self.place}, {name}[{number}]")

    def pairs(self, name: str) -> Iterator[tuple[str, Any]]:
        """Give the pairs of a list, each of a text and something."""
        for number, item in enumerate(self.items(name)):
            if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
                fault = f"must be a title with what belongs to it, got {_shown(item)}"
                raise self.error(f"{name}[{number}]", fault)
            yield item[0], item[1]

    def error(self, name: str, fault: str) -> InputError:
        """Give an error about one field."""
        return InputError(f"{self.place}: {name!r} {fault}")

    def _value(self, name: str) -> Any:
        if name not in self:
            raise self.error(name, "is missing")
        return self._fields[name]


def json_rows(path: str | Path) -> Iterator[Row]:
    """Read a file that is one JSON list of objects.

    Raises:
        InputError: It is not; the message names the place.
    """
    for number, value in enumerate(_json_list(path)):
        yield Row(value, f"{path}, item {number}")


def jsonl_rows(path: str | Path) -> Iterator[Row]:
    """Read a file with one object on each line; blank lines are passed over.

    Raises:
        InputError: A line is no object; the message names it.
    """
    for number, line in enumerate(_text(path).split("\n"), 1):  # a text may hold other breaks
        if line.strip():
            place = f"{path}, line {number}"
            yield Row(_parsed(line, place), place)


def json_value(path: str | Path) -> Any:
    """Read a file that is one JSON value.

    Raises:
        InputError: It is not.
    """
    return _parsed(_text(path), str(path))


def _json_list(path: str | Path) -> list[Any]:
    value = json_value(path)
    if not isinstance(value, list):
        raise InputError(f"{path}: must be a list of objects, got {_shown(value)}")
    return value


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 at byte {error.start}") from None


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: is not JSON: {error}") from None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
