"""The family ``results``: figures against independent computations, what is refused, and gates on them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.impact_ratio import impact_ratios
from pytest_genderbias.statistics.inference.paired import compare_items

Rows = list[dict[str, Any]]


def suite(folder: Path, **keys: Any) -> Path:
    path = folder / "mine.yaml"
    head = {"suite": "mine", "family": "results", "title": "t", "source": "s", "licence": "l", "language": "en"}
    content = {**head, "id": "id", "group": "group", "value": "value", "groups": ["female", "male"], **keys}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def table(folder: Path, rows: Rows, name: str = "run.csv") -> str:
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return f"results:{path}"


def rows_of(n: int = 240, rates: tuple[float, ...] = (0.5, 0.8), seed: int = 1, whole: bool = True) -> Rows:
    rng = np.random.default_rng(seed)
    names = ("female", "male", "other")
    rows = []
    for i in range(n):
        group = i % len(rates)
        value = int(rng.random() < rates[group]) if whole else round(float(rng.normal(rates[group], 2)), 3)
        kind = f"t{i // len(rates) % 12}"
        rows.append({"id": f"q{i}", "group": names[group], "value": value, "kind": kind})
    return rows


def measured(folder: Path, rows: Rows, name: str = "run.csv", **keys: Any) -> Measurement:
    return measure(suite(folder, **keys), load_model(table(folder, rows, name), name="run"))


def values_of(rows: Rows, group: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray([row["value"] for row in rows if row["group"] == group], dtype=np.float64)


def test_differences_are_those_of_the_means_with_bounds_about_as_welchs(tmp_path: Path) -> None:
    from scipy import stats

    for statistic, whole in (("mean_difference", False), ("rate_difference", True)):
        rows = rows_of(whole=whole)
        found = measured(tmp_path, rows, statistic=statistic)
        first, second = values_of(rows, "female"), values_of(rows, "male")
        welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
        interval = found.intervals[statistic]
        assert found.value == pytest.approx(first.mean() - second.mean())
        assert interval is not None
        assert interval.over == "items"
        assert interval.low == pytest.approx(welch.low, abs=0.3 * (welch.high - welch.low))
        assert interval.high == pytest.approx(welch.high, abs=0.3 * (welch.high - welch.low))
        assert interval.low <= welch.low + 0.05 * (welch.high - welch.low)


def test_clusters_of_like_items_widen_the_bounds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rows_of(480, whole=False)
    for row, shift in zip(rows, np.repeat(rng.normal(0, 4, 24), 20), strict=True):
        row["value"] += shift * (1 if row["group"] == "female" else -1)
        row["kind"] = f"c{rows.index(row) // 20}"
    alone = measured(tmp_path, rows, statistic="mean_difference").intervals["mean_difference"]
    together = measured(tmp_path, rows, statistic="mean_difference", cluster="kind").intervals["mean_difference"]
    assert alone is not None
    assert together is not None
    assert (together.over, together.items) == ("clusters of items", 24)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_impact_ratio_is_that_of_the_selection_tables(tmp_path: Path) -> None:
    rows = rows_of(300, (0.4, 0.8, 0.6))
    found = measured(tmp_path, rows, statistic="impact_ratio", groups=["female", "male", "other"])
    known = impact_ratios([row["value"] for row in rows], [row["group"] for row in rows])
    lowest = int(np.argmin(known.ratios))
    interval = found.intervals["impact_ratio"]
    assert found.value == pytest.approx(known.ratios.min())
    assert interval is not None
    assert interval.low == pytest.approx(known.low[lowest])
    assert known.high[lowest] <= interval.high <= 1.0


def test_worst_group_is_the_lowest_mean(tmp_path: Path) -> None:
    rows = rows_of(300, (0.4, 0.8, 0.6))
    groups = ["female", "male", "other"]
    worst = measured(tmp_path, rows, statistic="worst_group", groups=groups)
    assert worst.value == pytest.approx(values_of(rows, "female").mean())
    interval = worst.intervals["worst_group"]
    assert interval is not None
    assert interval.low < worst.value < interval.high


def test_class_rms_is_that_of_the_gaps_without_their_variances(tmp_path: Path) -> None:
    rows = rows_of(960, (0.3, 0.7))
    found = measured(tmp_path, rows, statistic="class_rms", **{"class": "kind"})
    squares = []
    for kind in {row["kind"] for row in rows}:
        sides = [values_of([row for row in rows if row["kind"] == kind], group) for group in ("female", "male")]
        error = sum(side.mean() * (1 - side.mean()) / (len(side) - 1) for side in sides)
        squares.append((sides[0].mean() - sides[1].mean()) ** 2 - error)
    assert found.value == pytest.approx(np.sqrt(np.mean(squares)))
    interval = found.intervals["class_rms"]
    assert interval is not None
    assert interval.low < 0.4 < interval.high


@pytest.mark.parametrize(
    "statistic", ["mean_difference", "rate_difference", "impact_ratio", "class_rms", "worst_group"]
)
def test_a_worse_run_is_worse_than_its_baseline_and_an_equal_one_is_not(tmp_path: Path, statistic: str) -> None:
    keys = {"statistic": statistic, **({"class": "kind"} if statistic == "class_rms" else {})}
    then = rows_of(400, (0.75, 0.8))
    now = [dict(row) for row in then]
    for place, row in enumerate(now):
        row["value"] = 0 if row["group"] == "female" and place % 3 == 0 else row["value"]
    before, after = measured(tmp_path, then, **keys), measured(tmp_path, now, "other.csv", **keys)
    distance = before.statistics[statistic].distance
    worse = compare_items(before.item_sums(statistic), after.item_sums(statistic), distance)
    same = compare_items(before.item_sums(statistic), before.item_sums(statistic), distance)
    assert worse.p < 0.01
    assert worse.value == pytest.approx(distance(after.value) - distance(before.value))
    assert (same.value, same.moved) == (0.0, 0)


def test_the_mean_over_restarts_is_the_value_of_an_item(tmp_path: Path) -> None:
    rows = [{**row, "value": (int(row["value"]) + k) % 2, "run": k} for k in range(3) for row in rows_of(40)]
    found = measured(tmp_path, rows, statistic="rate_difference", restart="run")
    means = [np.mean([row["value"] for row in rows if row["group"] == group]) for group in ("female", "male")]
    assert found.value == pytest.approx(means[0] - means[1])
    assert "the value of each item is its mean over 3 restarts" in found.notes
    assert found.n == 40
    ratio = measured(tmp_path, rows, statistic="impact_ratio", restart="run")
    assert ratio.value is None and "not their means over 3 restarts" in ratio.reasons["impact_ratio"]
    with pytest.raises(DataFileError, match=r"an id that is there twice: 40, first 'q0'; if a tool asked each item"):
        measured(tmp_path, rows, statistic="rate_difference")
    with pytest.raises(DataFileError, match=r"fewer restarts than 3: 1, first 'q0'"):
        measured(tmp_path, rows[1:], statistic="rate_difference", restart="run")


def test_items_of_an_unknown_group_are_left_out_of_an_impact_ratio_and_of_nothing_else(tmp_path: Path) -> None:
    rows = rows_of()
    more = [{**rows[0], "id": f"u{i}", "group": name, "value": 1} for i, name in enumerate(("", "Unknown", " "))]
    known, all_rows = (measured(tmp_path, some, statistic="impact_ratio") for some in (rows, rows + more))
    assert (all_rows.value, all_rows.n, all_rows.intervals) == (known.value, known.n, known.intervals)
    assert "3 items of an unknown group in 'group' are not counted" in all_rows.notes
    assert not any("unknown" in note for note in known.notes)
    with pytest.raises(DataFileError, match=r"another group than 'female', 'male' in 'group': 1, first row 242"):
        measured(tmp_path, [*rows, *more[:2]], statistic="rate_difference")
    named = measured(
        tmp_path,
        [*rows, more[1], {**more[1], "id": "v"}],
        statistic="impact_ratio",
        groups=["female", "male", "Unknown"],
    )
    assert not any("not counted" in note for note in named.notes), "a group of the suite"
    with pytest.raises(DataFileError, match="a group of fewer than 2 items"):
        measured(tmp_path, more, statistic="impact_ratio")


#: By name: changes of rows, keys of the suite, and what the message says.
WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "group": (lambda rows: rows[3].update(group="x"), {}, r"another group than 'female', 'male' in 'group': 1, first"),
    "number": (lambda rows: rows[4].update(value="high"), {}, r"no number in 'value': 1, first row 5: 'high'"),
    "nan": (lambda rows: rows[4].update(value="nan"), {}, r"no number in 'value': 1"),
    "range": (lambda rows: rows[4].update(value="2"), {}, r"not from 0 to 1 in 'value': 1"),
    "whole": (lambda rows: rows[4].update(value=".5"), {"statistic": "impact_ratio"}, r"neither 0 nor 1 in 'value': 1"),
    "id": (lambda rows: rows[4].update(id=""), {}, r"neither a text nor a whole number in 'id': 1"),
    "column": (lambda rows: None, {"value": "score"}, r"no 'score': 8, first row 1; the first row has 'id', 'group'"),
    "few": (lambda rows: [row.update(group="male") for row in rows[2:]], {}, r"a group of fewer than 2 items: 1"),
    "twice": (lambda rows: rows[4].update(id="q0"), {}, r"an id that is there twice: 1, first 'q0'"),
    "several": (
        lambda rows: (rows[3].update(group="x"), rows[5].update(group="y"), rows[4].update(value="")),
        {},
        r"another group .*: 2, first row 4.*; no number in 'value': 1, first row 5",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rows_are_one_error_with_counts(tmp_path: Path, name: str) -> None:
    change, keys, message = WRONG[name]
    rows = rows_of(8)
    change(rows)
    with pytest.raises(DataFileError, match=message):
        measured(tmp_path, rows, **{"statistic": "rate_difference", **keys})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"statistic": "median"}, "statistic"),
        ({"statistic": "rate_difference", "groups": ["a", "b", "c"]}, "compares two groups, got 3"),
        ({"statistic": "class_rms"}, "needs the column of the classes"),
        ({"statistic": "rate_difference", "class": "kind"}, "no other statistic has it"),
        ({"statistic": "impact_ratio", "cluster": "kind"}, "hold for independent items; leave 'cluster' out"),
        ({"statistic": "worst_group", "cluster": "kind", "template": "id"}, "one of 'cluster' and 'template'"),
    ],
)
def test_suites_that_contradict_themselves_are_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        load_suite(suite(tmp_path, **keys))


def test_values_that_leave_a_figure_undefined_say_why(tmp_path: Path) -> None:
    rows = [{**row, "value": 0} for row in rows_of(40)]
    assert measured(tmp_path, rows, statistic="impact_ratio").reasons == {
        "impact_ratio": "no item of any group has the value 1"
    }
    apart = [{**row, "kind": row["group"]} for row in rows_of(40)]
    assert measured(tmp_path, apart, statistic="class_rms", **{"class": "kind"}).reasons == {
        "class_rms": "no class has 2 items of each group"
    }
