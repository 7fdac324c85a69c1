"""A table of figures as Markdown, CSV, JSON, or drawn in a terminal."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass
from typing import IO, Any, Self

from hippo_core.errors import InputError, MissingDependencyError

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how a figure below it is shown."""

    heading: str
    format: str
    """As in `format(figure, ...)`; empty for text."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of figures under headings; `str` of it is Markdown.

    >>> print(Table((Column("system", ""), Column("R@5", ".1f")), (("dense", 62.24), ("x", None))))
    | system | R@5 |
    |---|--:|
    | dense | 62.2 |
    | x | - |
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """Give it as Markdown."""
        rule = "|".join("--:" if column.format else "---" for column in self.columns)
        lines = [_line(column.heading for column in self.columns), f"|{rule}|"]
        lines += [_line(row) for row in self._shown()]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])

    def csv(self) -> str:
        """Give it as CSV with figures in full; what is not known is empty."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.heading for column in self.columns])
        writer.writerows(self.rows)
        return file.getvalue()

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON with figures in full; `from_json` reads it back."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "rows": [list(row) for row in self.rows],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` gave.

        Raises:
            InputError: It is something else.
        """
        try:
            columns = tuple(Column(**column) for column in value["columns"])
            return cls(columns, tuple(map(tuple, value["rows"])), tuple(value["notes"]))
        except (KeyError, TypeError) as error:
            raise InputError(f"this is no table: {type(error).__name__}: {error}") from None

    def print(self, file: IO[str] | None = None) -> None:
        """Draw it in a terminal, or into a text file.

        Raises:
            MissingDependencyError: rich is not installed; `str` of the table needs nothing.
        """
        try:
            from rich.console import Console
            from rich.table import Table as Drawn
            from rich.text import Text
        except ImportError:
            raise MissingDependencyError("rich", "eval") from None
        drawn = Drawn()
        for column in self.columns:
            drawn.add_column(Text(column.heading), justify="right" if column.format else "left")
        for row in self._shown():
            drawn.add_row(*(Text(cell) for cell in row))
        console = Console(file=file)
        console.print(drawn)
        for note in self.notes:
            console.print(Text(note))

    def _shown(self) -> list[list[str]]:
        return [
            [_shown(cell, column.format) for cell, column in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]


def _shown(cell: Cell, format_: str) -> str:
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else format(cell, format_)


def _line(cells: Any) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
