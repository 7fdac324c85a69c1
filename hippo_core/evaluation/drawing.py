"""Pictures of a comparison, as PNG or SVG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hippo_core.costs import Prices
from hippo_core.errors import InputError, MissingDependencyError
from hippo_core.evaluation.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CUTS = (1, 2, 5, 10, 20)
_COLOURS = (*range(0, 20, 2), *range(1, 20, 2))  # of tab20: the strong ones first


def draw_recall_by_k(
    comparison: Comparison, path: str | Path, *, cuts: Sequence[int] = CUTS
) -> None:
    """Draw each system's recall by the number of passages that are looked at.

    Raises:
        InputError: The file is to be neither .png nor .svg.
        MissingDependencyError: matplotlib is not installed.
    """
    figure, axes = _empty(path)
    places = range(len(cuts))  # evenly apart: half of what there is to see is up to 5
    for name in comparison.systems:
        recalls = [_known(comparison.mean(name, f"recall@{k}")) for k in cuts]
        axes.plot(places, recalls, marker="o", label=name)
    axes.set_xticks(places, [str(k) for k in cuts])
    axes.set_xlabel("k")
    axes.set_ylabel("recall@k, percent")
    _save(figure, path)


def draw_by_hops(comparison: Comparison, path: str | Path, *, measure: str = "recall@5") -> None:
    """Draw a measure of each system by the hops of the questions.

    Raises:
        InputError: The file is to be neither .png nor .svg, or there is no such measure.
        MissingDependencyError: matplotlib is not installed.
    """
    figure, axes = _empty(path)
    table = comparison.by_hops(measure)
    width = 0.8 / len(table.rows)
    places = range(len(table.columns) - 1)
    for number, (name, *means) in enumerate(table.rows):
        left = [place + (number + 0.5) * width - 0.4 for place in places]
        axes.bar(left, [_known(mean) for mean in means], width, label=str(name))
    axes.set_xticks(places, [column.heading for column in table.columns[1:]])
    axes.set_ylabel(f"{measure}, percent")
    _save(figure, path)


def draw_cost(
    comparison: Comparison,
    path: str | Path,
    *,
    measure: str = "recall@5",
    prices: Prices | None = None,
) -> None:
    """Draw a measure of each system against what its queries cost, in tokens or by prices.

    A system that does not say its cost is left out.

    Raises:
        InputError: The file is to be neither .png nor .svg, or there is no such measure.
        MissingDependencyError: matplotlib is not installed.
    """
    figure, axes = _empty(path)
    table = comparison.table([measure], prices=prices)
    heading = next(c.heading for c in table.columns if c.heading.startswith(("tokens", "cost")))
    at = [column.heading for column in table.columns].index(heading)
    for row in table.rows:
        name, mean, cost = str(row[0]), row[1], row[at]
        if isinstance(mean, float) and isinstance(cost, float):
            axes.scatter([cost], [mean], label=name)
    axes.set_xlabel(heading)
    axes.set_ylabel(f"{measure}, percent")
    _save(figure, path)


def _empty(path: str | Path) -> tuple[Figure, Axes]:
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise InputError(f"a picture's file must end with .png or .svg, got {str(path)!r}")
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure  # without pyplot: no window, no state of a process
    except ImportError:
        raise MissingDependencyError("matplotlib", "eval") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.set_prop_cycle(color=[colormaps["tab20"](place) for place in _COLOURS])
    return figure, axes


def _save(figure: Figure, path: str | Path) -> None:
    from matplotlib import rc_context

    if figure.axes[0].get_legend_handles_labels()[1]:  # no system may have such a figure
        figure.legend(loc="outside right upper")
    svg = Path(path).suffix.lower() == ".svg"
    with rc_context({"svg.hashsalt": "hippo-core"}):  # the same picture is the same file
        figure.savefig(path, dpi=150, metadata={"Date": None} if svg else None)


def _known(mean: object) -> float:
    return mean if isinstance(mean, float) else float("nan")
