"""The scales of an item: a test in seconds, the same comparison on two cores, or the paper's own.

``smoke`` trains every row for a few steps on digits: it shows that everything works, but its numbers mean nothing.
``mini`` reduces the comparison to what a laptop can do; everything except the compared setting is equal. ``paper`` is
the paper's protocol, with the recipes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cacr.errors import UserError
from cacr.ledger.cell import Cell
from cacr.ledger.item import Column, Item, Place, Row

Scale = Literal["smoke", "mini", "paper"]
Match = Literal["views", "steps", "epochs"]

VIEWS, STEPS, EPOCHS = 200_000, 312, 2
"""Length of a cell of ``mini``: total views, steps or epochs, depending on what is equal. With four positives, 128
images per step and the default, the lengths are the same."""

MINI: dict[str, Any] = {
    "data": "cifar10",
    "encoder": "small_alexnet",
    "width": 0.25,
    "image_size": 32,
    "preset": "cifar",
    "first_layer": "whitened",
    "weights": "kaiming",
    "head": "normed",
    "dim": 128,
    "optimizer": "sgd",
    "base_lr": 0.36,
    "weight_decay": 1e-4,
    "schedule": "cosine",
    "views": 5,
    "batch_size": 128,
    "measure_every_steps": 50,
    "keep_best": False,
}
"""Our initial weights, which short runs need, and all other settings that every row has in common. The precision
depends on the machine; a record stores it."""

OURS = ("base_lr", "head", "first_layer", "weights", "schedule")
"""Settings of ``mini`` that are not the paper's; the captions of its tables name them."""

SMOKE: dict[str, Any] = MINI | {
    "data": "digits",
    "width": 0.05,
    "preset": "digits",
    "views": 3,
    "batch_size": 16,
    "max_steps": 3,
    "epochs": 1,
    "measure_every_steps": None,
    "held_out": 64,
}

_OF_START = (
    *("data", "imbalance", "encoder", "width", "image_size", "preset"),
    *("first_layer", "weights", "recipe", "held_out"),
)
"""Settings that decide the initial weights; the first layer depends on the images that are not held out."""

_OF_METHOD = ("head", "dim", "optimizer", "base_lr", "weight_decay", "views")
"""Settings that belong to a method, if a row names one."""

TRIAL_SEED = 1000
"""Seed of all trials; seeds of reported cells are small."""


Trials = list[tuple[dict[str, Any], Cell]]
"""Settings to try for a place, each with its cell."""


@dataclass(frozen=True)
class Sheet:
    """The cells of an item at a scale.

    Attributes:
        cells: (row, column), seed -> the training.
        references: column, seed -> the initial weights, and pixels.
        trials: (row, column) -> settings to try, each with its cell; empty without ``--tune``.
    """

    cells: dict[tuple[Place, int], Cell] = field(default_factory=dict)
    references: dict[tuple[str, int], Cell] = field(default_factory=dict)
    trials: dict[Place, Trials] = field(default_factory=dict)

    def every(self, rows: Collection[str] = (), columns: Collection[str] = ()) -> list[Cell]:
        """All cells that can be run now, without repetitions.

        Trials come first, unless they have decided already. The others are sorted by seed: whoever stops early has
        fewer seeds of every row, not fewer rows.

        Args:
            rows: names of the rows; empty for all.
            columns: names of the columns; empty for all.
        """
        tried = [cell for place in self.undecided(rows, columns) for _, cell in self.trials[place]]
        own = [(seed, cell) for (place, seed), cell in self.cells.items() if _wanted(place, rows, columns)]
        own += [
            (seed, cell)
            for (column, seed), cell in self.references.items()
            if not columns or column in columns
        ]
        whole = [*tried, *(cell for _, cell in sorted(own, key=lambda each: each[0]))]
        return list({cell.digest: cell for cell in whole}.values())

    def undecided(self, rows: Collection[str] = (), columns: Collection[str] = ()) -> list[Place]:
        """Places whose trials have not decided; their cells are not known yet."""
        decided = {place for place, _ in self.cells}
        return [place for place in self.trials if place not in decided and _wanted(place, rows, columns)]


def _wanted(place: Place, rows: Collection[str], columns: Collection[str]) -> bool:
    return (not rows or place[0] in rows) and (not columns or place[1] in columns)


def rows_at(item: Item, scale: Scale) -> tuple[Row, ...]:
    """Rows that can be trained; the others are numbers that the paper quotes."""
    return tuple(row for row in item.rows if (row.recipe if scale == "paper" else row.settings))


def columns_at(item: Item, scale: Scale) -> tuple[Column, ...]:
    """Columns of a scale."""
    if scale == "smoke":
        return item.columns[:1]
    return tuple(column for column in item.columns if scale == "paper" or column.mini)


def require_scale(item: Item, scale: Scale, *, match: Match, tune: bool) -> None:
    """Refuse a scale that an item does not have.

    Raises:
        UserError: it has no ``mini``, or trials are not possible at the paper's scale, or ``match`` would do nothing.
    """
    if scale == "mini" and item.no_mini:
        raise UserError(f"{item.name} has no scale mini: {item.no_mini}; use --scale smoke or paper")
    if scale == "paper" and not rows_at(item, scale):
        raise UserError(f"{item.name} is not in the paper; use --scale smoke or mini")
    if scale == "paper" and tune:
        raise UserError(
            "--tune works only with --scale smoke and mini: the paper's scale uses the paper's values"
        )
    if match != "views" and (scale != "mini" or item.timed_steps):
        raise UserError("--match works only with --scale mini, and not with items that measure time")
    if item.timed_steps and tune:
        raise UserError(f"{item.name} measures only time: there is nothing to tune, leave out --tune")


def sheet_of(
    item: Item,
    scale: Scale,
    seeds: Iterable[int],
    *,
    match: Match = "views",
    tune: bool = False,
    chosen: Mapping[Place, Mapping[str, Any]] | None = None,
) -> Sheet:
    """The cells of an item.

    Args:
        item: the table or figure.
        scale: the scale.
        seeds: seeds of the reported cells.
        match: what is equal in all rows of ``mini``.
        tune: whether settings are chosen by trials; places that are not ``chosen`` have trials and no cells yet.
        chosen: settings that trials have already chosen, by place.
    """
    require_scale(item, scale, match=match, tune=tune)
    sheet, known = Sheet(), chosen or {}
    wanted = list(seeds)
    columns = {column.name: column for column in columns_at(item, scale)}
    for column in columns.values():
        rows, tuned_on = rows_at(item, scale), columns.get(column.tuned_on, column)
        for row in rows:
            place = (row.name, column.name)
            base = _settings(row, column, scale, match)
            if item.timed_steps and scale != "smoke":
                base["max_steps"] = item.timed_steps
            if tune:
                sheet.trials[place] = [
                    (tried, _trial(row, tuned_on, scale, match, tried)) for tried in trials_of(row)
                ]
            if not tune or place in known:
                more = known.get(place, {}) if tune else {}
                for seed in wanted:
                    evaluation = {} if item.timed_steps else _evaluation(column, scale, seed)
                    sheet.cells[place, seed] = Cell("encoder", base | dict(more) | {"seed": seed}, evaluation)
        judged = not item.timed_steps and (column.evaluation or scale != "paper")
        for seed in wanted if judged else ():
            sheet.references[column.name, seed] = _reference(rows[0], column, scale, seed)
    return sheet


def _reference(row: Row, column: Column, scale: Scale, seed: int) -> Cell:
    """The state before training: one step, because a run folder has the weights before the first step."""
    whole = _settings(row, column, scale, "views")
    kept = {name: whole[name] for name in whole if name in _OF_START or column.whole_start}
    kept |= {"max_steps": 1, "batch_size": 16, "measure_every_epochs": 0, "seed": seed}
    if not column.whole_start:
        kept["views"] = 2
    others = [name for name in column.references if name != "untrained"]
    return Cell("start", kept, {**_evaluation(column, scale, seed), "baselines": others})


def trials_of(row: Row) -> list[dict[str, Any]]:
    """Settings that ``--tune`` tries: each learning rate with each value of the row's own setting.

    All rows of an item have as many values, so that the comparison is fair.
    """
    own = [{name: value} for name, values in row.tuned.items() for value in values]
    images = row.settings.get("batch_size", MINI["batch_size"])
    rates = [round(rate * 256 / images, 6) for rate in row.rates]  # ``base_lr`` is for 256 images
    return [{"base_lr": rate, **each} for rate in rates for each in own or [{}]]


def _trial(row: Row, column: Column, scale: Scale, match: Match, tried: Mapping[str, Any]) -> Cell:
    """A training that is evaluated on held-out training images."""
    settings = _settings(row, column, scale, match) | dict(tried) | {"seed": TRIAL_SEED}
    settings |= {"measure_every_epochs": 0, "measure_every_steps": None}
    evaluation = _evaluation(column, scale, TRIAL_SEED)
    evaluation["protocol"] = evaluation["protocol"][:1]  # the one that decides
    return Cell("encoder", settings, evaluation | {"held_out": True})


def _settings(row: Row, column: Column, scale: Scale, match: Match) -> dict[str, Any]:
    """Settings of a training, without its seed."""
    if scale == "paper":
        recipe = str(row.recipe).format(data=column.data, part=column.part)
        return {"recipe": recipe, "data": column.data, **row.paper, **column.settings}
    if scale == "smoke":
        common = SMOKE if "method" not in row.settings else _without(SMOKE, *_OF_METHOD)
        settings = common | dict(row.settings) | {"max_steps": SMOKE["max_steps"], "data": column.smoke_data}
        return settings | {name: SMOKE[name] for name in ("preset", "batch_size", "encoder", "width")}
    settings = MINI | {"data": column.data} | dict(column.settings) | dict(row.settings)
    if match == "epochs":
        return settings | {"epochs": round(row.longer * EPOCHS)}
    views = settings["views"] * settings["batch_size"]
    steps = STEPS if match == "steps" else VIEWS / views
    return settings | {"max_steps": round(row.longer * steps), "epochs": 1000}


def _without(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _evaluation(column: Column, scale: Scale, seed: int) -> dict[str, Any]:
    """Settings of the evaluation of a cell; ``mini`` trains a linear classifier on features that are computed once."""
    if scale == "paper":
        return {**column.evaluation, "seed": seed} if column.evaluation else {}
    if scale == "smoke":
        return {**column.smoke, "seed": seed}
    return {"data": column.data, "protocol": ["linear", "knn"], "seed": seed}
