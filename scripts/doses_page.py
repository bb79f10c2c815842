"""Figures, tables and pictures of ``docs/evidence/doses.md``, from the models that ``scripts/doses.py bench`` measured.

What the page shows is stored beside it (``docs/evidence/doses.json``): the figures of each training, and how many of
the drawn pairs of baseline and candidate each gate stopped.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from retraining_table import abilities_of, figure, flow, row_of
from scipy.special import stdtrit
from tabulate import tabulate

from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.sensitivity import seen_by
from pytest_genderbias.gates.verdicts import LESS_ABLE, Correction, passes
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.statistics.inference.over_restarts import prediction_bounds
from pytest_genderbias.suites.family import WIDE as WIDE_SET

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "evidence"
STORED, PAGE = FOLDER / "doses.json", FOLDER / "doses.md"
DOSES = (50, 70, 100)
MORE_DOSES = {
    "bert-tiny-mlm": (50, 55, 60, 70, 80, 100),
    "stories260k": (50, 55, 60, 70, 80, 100),
    "minilm-mlm": (50, 60, 70, 100),
    "career-head": (50, 55, 60, 70, 80, 100),
    "bert-tiny-again": (50, 55, 60, 70, 80),
    "nli-head": (50, 55, 60, 70, 80, 100),
    "coreference-head": (50, 55, 60, 70, 80, 100),
}  #: of models that have others
VECTOR_GATES = [
    f"{suite} effect_size" for suite in ("weat-occupation", "weat-names", "weat-math-arts", "weat-science-arts")
]
OF_PRONOUNS = ("pronoun-occupation", f"pronoun-occupation {WIDE_SET}")
#: Models on which only some gates are judged, and these.
GATED = {
    "career-head": [
        f"{suite} {name}"
        for suite in ("bios", "bios both")
        for name in (*(f"tpr_gap_{of}" for of in ("sum", "pearson", "slope", "rms")), "fpr_gap_slope", "separation_sum")
    ],
    "bert-tiny-again": ["pronoun-occupation mean_difference", "pronoun-occupation slope"],
    "minilm-mlm": [
        *(f"{suite} {name}" for suite in OF_PRONOUNS for name in ("mean_difference", "pearson_r", "slope")),
        *(f"lm-occupation{items} aggregate_bias" for items in ("", f" {WIDE_SET}")),
        "pairs-pll mean_difference",
        "disco-terms significant_fills",
    ],
    "smollm2-135m": [
        *(f"{suite} {name}" for suite in OF_PRONOUNS for name in ("mean_difference", "pearson_r", "slope")),
        "lm-occupation aggregate_bias",
        "pairs-pll mean_difference",
    ],
    "word-vectors": VECTOR_GATES,
    "word-vectors-elsewhere": VECTOR_GATES,
    "nli-head": [f"nli-{suite} net_neutral" for suite in ("occupation", "demonym")],
    "sentence-encoder": [f"sts-occupation {name}" for name in ("pearson_r", "slope", "mean_absolute_difference")],
    "coreference-head": [
        *(f"coref-winobias {name}" for name in ("f1_gap", "tpr_gap_sum", "tpr_gap_pearson", "separation_sum")),
        *(f"coref-winogender {name}" for name in ("pearson_r", "slope")),
    ],
    **{
        (kind := f"{of}-{language}"): [f"{kind} {name}" for name in ("mean_difference", "slope")]
        for of in ("forms", "subjects")
        for language in ("fr", "de", "es")
    },
}
POOLED = ("coreference-head",)  #: models whose trainings differ by dose: their rows are over all doses
#: Models of which each pair of equal trainings is judged.
EQUAL = ("minilm-mlm", "smollm2-135m", "bert-tiny-again", "nli-head", "sentence-encoder", "coreference-head")
CONTROL = "continued"  #: what a mitigation is held against
UNTRAINED = ("projection",)  #: mitigations that are held against the model itself
LEVEL = 0.025  #: one-sided, of all gates of a file together
POWER = 1.96 + 0.842  #: standard errors, of a shift that a one-sided test of 2.5 % finds in 80 %
TESTS = (1, 2, 3)  #: gates that share the error
#: The figures that are drawn, by suite.
SUITES = {
    "pronoun-occupation": ("mean_difference",),
    "lm-occupation": ("aggregate_bias",),
    "disco-terms": ("significant_fills",),
    "pairs-pll": ("stereotype_share", "mean_difference"),
    "bios": ("tpr_gap_sum", "tpr_gap_slope"),
    "weat-occupation": ("effect_size",),
    "nli-occupation": ("net_neutral",),
    "nli-demonym": ("net_neutral",),
    "sts-occupation": ("slope",),
    "coref-winobias": ("f1_gap", "tpr_gap_sum"),
}
FALLS = ("_neutral", "threshold_0.5", "threshold_0.7")  #: ends of the names of statistics that bias lowers
NO_GATE = ("random_groups_mean", "random_groups_max", "signed_bias", "p_value")
HALVES = {"0 to 9": range(10), "10 to 19": range(10, 20)}
ALL = "all"
#: What is drawn: a model, restarts on each side, pairs, and of which seeds.
DRAWN = (
    ("bert-tiny-mlm", 3, 100, ALL),
    ("bert-tiny-mlm", 3, 50, "0 to 9"),
    ("bert-tiny-mlm", 3, 50, "10 to 19"),
    ("stories260k", 3, 80, ALL),
    ("bert-tiny-mlm", 5, 50, ALL),
    ("minilm-mlm", 1, 50, ALL),
    ("stories260k", 1, 50, ALL),
    ("smollm2-135m", 1, 50, ALL),
    *((model, 3, 50, ALL) for model in GATED if model != "bert-tiny-again"),
    ("nli-head", 1, 50, ALL),
    ("coreference-head", 1, 50, ALL),
    ("sentence-encoder", 5, 50, ALL),
    ("sentence-encoder", 1, 50, ALL),
    ("bert-tiny-again", 3, 100, ALL),
    ("bert-tiny-again", 5, 50, ALL),
    ("bert-tiny-again", 1, 50, ALL),
    ("word-vectors", 5, 50, ALL),
)
PLAIN, WIDE = "pronoun-occupation mean_difference", "pronoun-occupation wide mean_difference"
SLOPE = "pronoun-occupation slope"
OCCUPATIONS = "lm-occupation aggregate_bias"
ENOUGH = 0.8  #: share of the pairs
#: Models of which single checkpoints are held against restarts, and how many are drawn.
BESIDE, PAIRS_BESIDE = ("bert-tiny-mlm", "bert-tiny-again", "minilm-mlm", "stories260k", "smollm2-135m"), 1000
#: The gate by which each kind of model is stopped first.
MAIN = {
    "bert-tiny-mlm": SLOPE,
    "bert-tiny-again": SLOPE,
    "minilm-mlm": SLOPE,
    "stories260k": WIDE,
    "smollm2-135m": WIDE,
    "nli-head": "nli-occupation net_neutral",
    "sentence-encoder": "sts-occupation slope",
    "career-head": "bios both separation_sum",
    "word-vectors": "weat-occupation effect_size",
    "coreference-head": "coref-winobias f1_gap",
}
#: Models whose plan is compared with what happens.
PLANNED = {"bert-tiny-again", "minilm-mlm", "nli-head", "sentence-encoder", "smollm2-135m", "stories260k"}
#: Gate files that are judged as a whole.
FILES = {
    "`pronoun-occupation`": (PLAIN,),
    "`pronoun-occupation`, wide": (WIDE,),
    "both": (PLAIN, WIDE),
    "`pronoun-occupation` and `lm-occupation`": (PLAIN, OCCUPATIONS),
    "all three": (PLAIN, WIDE, OCCUPATIONS),
    "five: `pronoun-occupation`, `lm-occupation`, `disco-terms`, both figures of `pairs-pll`": (
        PLAIN,
        OCCUPATIONS,
        "disco-terms significant_fills",
        "pairs-pll stereotype_share",
        "pairs-pll mean_difference",
    ),
}

Packed = Mapping[str, Mapping[str, Measurement]]
Stored = Mapping[str, Any]


def figures(packed: Packed) -> dict[str, object]:
    """Return the figures of each model, by statistic: of the public one, and of each training with its dose and
    seed.
    """
    found: dict[str, Any] = {}
    for name, measured in packed.items():
        model, _, rest = name.partition("/")
        first, digits = next(iter(measured.values())), 4 if model in GATED else 6
        one: dict[str, Any] = {
            "values": {
                f"{suite} {statistic}": None if value is None else float(f"{value:.{digits}g}")
                for suite, measurement in measured.items()
                for statistic, value in measurement.values.items()
            },
            "abilities": {ability.name: float(f"{ability.value:.4g}") for ability in first.abilities},
            "able": not first.unable,
        }
        of_model = found.setdefault(model, {"trainings": []})
        if rest == "public":
            of_model["public"] = one
        else:
            dose, seed = (int(part.rpartition("-")[2]) for part in rest.split("/"))
            of_model["trainings"].append({"dose": dose, "seed": seed, **one})
    return found


def of_items(packed: Packed) -> dict[str, dict[str, Measurement]]:
    """Return the models whose items are known, with the values that the stored (rounded) scores of items give."""

    def exact(one: Measurement) -> Measurement:
        return replace(one, values={**one.values, **{name: one.item_sums(name).total for name in one.sums}})

    return {
        name: {suite: exact(one) for suite, one in measured.items()}
        for name, measured in packed.items()
        if any(len(one.sums) for one in measured.values())
    }


def drawn(models: Packed, model: str, restarts: int, pairs: int, seeds: Iterable[int]) -> list[dict[str, Any]]:
    """Judge pairs of sets of restarts that are drawn at random, without a margin: p values, and what each gate sees.

    The p value of a gate that fails without one is 0.

    A baseline has dose 50. A candidate of each dose shares no seed with it; where so many are not left, it may share
    some, and there is none of dose 50.
    """
    draws, of_more, rows = random.Random(0), random.Random(1), []  # so that further doses leave the pairs as they are
    known = {
        dose: [
            seed for seed in seeds if f"{model}/dose-{dose}/seed-{seed}" in models and able(models, model, dose, seed)
        ]
        for dose in doses_of(model)
    }
    one = models[f"{model}/dose-50/seed-{known[50][0]}"]
    gates = [
        (suite, name)
        for suite, measured in one.items()
        for name in measured.values
        if name not in NO_GATE and (restarts > 1 or seen_by(measured, name) is not None)  # it has bounds
        if f"{suite} {name}" in GATED.get(model, [f"{suite} {name}"])
    ]

    def together(dose: int, chosen: Sequence[int], suite: str) -> Measurement:
        each = [models[f"{model}/dose-{dose}/seed-{seed}"][suite] for seed in chosen]
        return combine_restarts(each, chosen) if restarts > 1 else each[0]

    for _ in range(pairs):
        baseline = sorted(draws.sample(known[50], restarts))
        candidates = {}
        for dose in doses_of(model):
            others = [seed for seed in known[dose] if seed not in baseline]
            if len(others) < restarts and dose != DOSES[0]:
                others = known[dose]
            if len(others) >= restarts:
                candidates[dose] = sorted((draws if dose in DOSES else of_more).sample(others, restarts))
        row: dict[str, Any] = {"sees": {}, "p": {}}
        for suite, name in gates:
            then = together(50, baseline, suite)
            for tests in TESTS:
                seen = seen_by(then, name, tests)
                assert seen is not None
                row["sees"][f"{suite} {name}", tests] = seen.size, seen.unit
            for dose, chosen in candidates.items():
                found = judge_against(together(dose, chosen, suite), then, statistic=name, correction=Correction(1))
                p = found.p if found.p is not None else float(passes(found.code))  # 0: worse at its task
                row["p"][f"{suite} {name}", dose] = p if (found.difference or 0.0) > 0 or not p else 1.0
        rows.append(row)
    return rows


def doses_of(model: str) -> tuple[int, ...]:
    """Return the doses that a model was trained with."""
    return MORE_DOSES.get(model, DOSES)


def able(models: Packed, model: str, dose: int, seed: int) -> bool:
    """Return whether a training can do its task, so that its figures have values."""
    return not next(iter(models[f"{model}/dose-{dose}/seed-{seed}"].values())).unable


def equal_pairs(models: Packed, model: str) -> dict[str, dict[str, int]]:
    """Judge each single training against each other one of its dose, on the gate on one checkpoint: how many pairs are
    ``worse`` at the task, how many by their bias, and how many of these have the baseline that has most.
    """
    suite, _, name = MAIN[model].rpartition(" ")
    found = {}
    for dose in doses_of(model):
        able = able_ones(models, model, dose, suite)
        less, by_baseline = 0, dict.fromkeys(range(len(able)), 0)
        for then, now in itertools.permutations(by_baseline, 2):
            code = judge_against(able[now], able[then], statistic=name, correction=Correction(1)).code
            less += code == LESS_ABLE
            by_baseline[then] += code != LESS_ABLE and not passes(code)
        pairs, biased = len(able) * (len(able) - 1), sum(by_baseline.values())
        found[str(dose)] = {"pairs": pairs, "less able": less, "biased": biased, "one": max(by_baseline.values())}
    return found


def plan(models: Packed, model: str, restarts: int) -> dict[str, float]:
    """Return what the main gate says that it sees over restarts, divided by the true worsening of one more checkpoint
    that it stops in 80 %: of trainings of dose 50, and of others that lie about their mean as those of dose 70 do.
    """
    suite, _, name = MAIN[model].rpartition(" ")
    able = {dose: able_ones(models, model, dose, suite) for dose in (50, 70)}
    away = able[50][0].statistics[name].distance
    apart = {dose: [float(away(one.values[name])) for one in each] for dose, each in able.items()}
    means = {dose: statistics.mean(values) for dose, values in apart.items()}
    draws = random.Random(2)
    needed: dict[int, list[float]] = {dose: [] for dose in apart}
    for _ in range(100):
        chosen = sorted(draws.sample(range(len(able[50])), restarts))
        seen = seen_by(combine_restarts([able[50][i] for i in chosen], chosen), name)
        red = float(away(statistics.mean(able[50][i].values[name] for i in chosen))) + seen.red
        for dose, values in apart.items():
            others = [value for i, value in enumerate(values) if dose != 50 or i not in chosen]
            needed[dose] += [(red - means[50] + means[dose] - value) / seen.size for value in others]
    return {str(dose): float(f"{1 / statistics.quantiles(each, n=5)[-1]:.3g}") for dose, each in needed.items()}


def store_plans(*packed: Packed, path: Path = STORED) -> None:
    """Store how the plan of the main gate compares with what happens, of the models that are packed."""
    found = {}
    for models in map(of_items, packed):
        for model in {name.partition("/")[0] for name in models} & PLANNED:
            found[model] = {str(restarts): plan(models, model, restarts) for restarts in (3, 5)}
    content = read()
    content["plan"] = {**content.get("plan", {}), **found}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def plans(stored: Stored) -> str:
    """Return what gates say that they see, divided by what one more checkpoint shows."""
    rows = [
        [model, restarts, _written(MAIN[model]), f"{ratios['50']:.2f}", f"{ratios['70']:.2f}"]
        for model, by_restarts in sorted(stored["plan"].items())
        for restarts, ratios in by_restarts.items()
    ]
    return _table(rows, ["model", "restarts", "gate", "equal but for a shift", "with the spread of dose 70"])


def counted(rows: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return how many of the pairs each gate and each file stops, by dose, and what a gate sees in the median."""
    gates = list(dict.fromkeys(gate for gate, _ in rows[0]["p"]))
    doses = list(dict.fromkeys(dose for _, dose in rows[0]["p"]))

    def stopped(of_file: Sequence[str], tests: int) -> dict[str, int]:
        return {str(d): sum(any(row["p"][gate, d] <= LEVEL / tests for gate in of_file) for row in rows) for d in doses}

    return {
        "gates": {
            gate: {
                str(tests): {
                    "stopped": stopped([gate], tests),
                    "sees": float(f"{statistics.median(row['sees'][gate, tests][0] for row in rows):.3g}"),
                    "unit": float(f"{statistics.median(row['sees'][gate, tests][1] for row in rows):.3g}"),
                }
                for tests in TESTS
            }
            for gate in gates
        },
        "files": {
            name: stopped(of_file, len(of_file)) for name, of_file in FILES.items() if set(of_file) <= set(gates)
        },
    }


def spreads(packed: Packed) -> str:
    """Return rows of ``fixtures/retraining`` as YAML, of the trainings without bias, or of all doses for models in
    POOLED: abilities and suites of models in GATED, and the wide sets of the others.
    """
    models, lines = of_items(packed), []
    for model in dict.fromkeys(name.partition("/")[0] for name in models):
        doses = MORE_DOSES[model] if model in POOLED else (50,)
        trainings = [of for name, of in models.items() if name.split("/")[:2] in [[model, f"dose-{d}"] for d in doses]]
        public = packed.get(f"{model}/public", {})
        lines += [f"# {model}, {len(trainings)} trainings", f"abilities: {flow(abilities_of(trainings))}"]
        for suite in (suite for suite in trainings[0] if model in GATED or suite.endswith(f" {WIDE_SET}")):
            each, dosed = (able_ones(models, model, dose, suite) for dose in (50, 70))
            of_doses = [able_ones(models, model, dose, suite) for dose in doses]
            rows = {
                name: pooled([row_of(of_dose, name, public.get(suite)) for of_dose in of_doses])
                for name in each[0].values
            }
            for name, row in rows.items():
                if row and len(dosed) > 1 and (response := apart(each, dosed, name)) > 0:
                    row["response"] = float(f"{response:.3g}")
            lines += [f"  {suite}:  # {len(each)}", *(f"    {name}: {flow(row)}" for name, row in rows.items() if row)]
    return "\n".join(lines)


def pooled(rows: Sequence[dict[str, object] | None]) -> dict[str, object] | None:
    """Return the row of the first dose with root mean squares over doses; ``None`` where a dose has no row, or one in
    other units.
    """
    known = [row for row in rows if row]
    if len(known) < len(rows) or len({"absolute" in row for row in known}) > 1:
        return None
    if len(known) == 1:
        return known[0]
    spread, paired = (statistics.mean(float(row[name] or 0) ** 2 for row in known) for name in ("spread", "paired"))
    squares = {"spread": spread, "paired": paired, "beyond": max(0.0, spread - paired / 2)}
    means = {name: figure(math.sqrt(square)) for name, square in squares.items()}
    return {**{key: value for key, value in known[0].items() if key != "log_odds"}, **means}


def able_ones(models: Packed, model: str, dose: int, suite: str) -> list[Measurement]:
    """Return what was measured by a suite of the trainings of a dose that can do their task."""
    each = (measured[suite] for name, measured in models.items() if name.startswith(f"{model}/dose-{dose}/"))
    return [one for one in each if not one.unable]


def apart(trainings: Sequence[Measurement], dosed: Sequence[Measurement], statistic: str) -> float:
    """Return by how much the dosed trainings lie farther from neutral in the mean."""
    away = trainings[0].statistics[statistic].distance
    then, now = (statistics.mean(float(away(one.values[statistic])) for one in each) for each in (trainings, dosed))
    return now - then


def store(packed: Packed, path: Path = STORED) -> None:
    """Judge what was drawn, and write everything that the page shows; models that are not packed stay as they are."""
    models = of_items(packed)
    of_packed = figures(packed)
    draws = [one for one in read()["draws"] if one["model"] not in of_packed]
    equal = {model: equal_pairs(models, model) for model in EQUAL if model in of_packed}
    for model, restarts, pairs, seeds in (one for one in DRAWN if one[0] in of_packed):
        found = counted(drawn(models, model, restarts, pairs, HALVES.get(seeds, range(20))))
        draws.append({"model": model, "restarts": restarts, "pairs": pairs, "seeds": seeds, **found})
        content = {**read(), "models": {**read()["models"], **of_packed}, "draws": draws}
        content["equal"] = {**content.get("equal", {}), **equal}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(model, restarts, seeds, flush=True)


def store_mitigated(
    model: str, measured: Mapping[str, Mapping[int, Mapping[str, Measurement]]], path: Path = STORED
) -> None:
    """Store the figures of the models of dose 80, by what was done to them and by seed."""
    found = {
        mitigation: {
            str(seed): {
                "values": {
                    f"{suite} {name}": None if value is None else float(f"{value:.6g}")
                    for suite, one in of_seed.items()
                    for name, value in one.values.items()
                    if name not in NO_GATE
                },
                "abilities": {
                    ability.name: float(f"{ability.value:.4g}") for ability in next(iter(of_seed.values())).abilities
                },
            }
            for seed, of_seed in by_seed.items()
        }
        for mitigation, by_seed in measured.items()
    }
    known = read()["mitigated"]
    content = {**read(), "mitigated": {**known, model: {**known.get(model, {}), **found}}}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read() -> Stored:
    """Return what was stored."""
    content: Stored = json.loads(STORED.read_text(encoding="utf-8"))
    return content


def write(path: Path = PAGE) -> None:
    """Write the tables into the page."""
    text = path.read_text(encoding="utf-8")
    for name, made in tables(read()).items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    path.write_text(text, encoding="utf-8")


def tables(stored: Stored) -> dict[str, str]:
    """Return the tables of the page, by name."""
    return {
        "response of masked LMs": response(stored, "bert-tiny-mlm"),
        "response of causal LMs": response(stored, "stories260k"),
        "first": first_to_see(stored, "bert-tiny-mlm"),
        **{f"gates of {model}": verdicts(stored, model) for model in stored["models"] if model not in GATED},
        "files": files(stored),
        "smallest": smallest(stored),
        "one against restarts": against_restarts(stored),
        "plan": plans(stored),
        **{f"mitigated {model}": mitigated(of_model) for model, of_model in stored["mitigated"].items()},
        **{f"equal pairs of {model}": singles(stored["equal"][model]) for model in EQUAL},
        **{
            f"{about} of {model}": table
            for model in GATED
            if model in stored["models"]
            for about, table in (
                ("response", response(stored, model)),
                ("first", first_to_see(stored, model)),
                ("gates", verdicts(stored, model)),
            )
        },
    }


def values_of(stored: Stored, model: str, dose: int, statistic: str, seeds: Iterable[int] = range(1000)) -> list[float]:
    """Return a statistic of the trainings of a dose that can do their task."""
    return [
        one["values"][statistic]
        for one in stored["models"][model]["trainings"]
        if one["dose"] == dose and one["able"] and one["seed"] in seeds and one["values"][statistic] is not None
    ]


def slope_of(stored: Stored, model: str, statistic: str) -> float:
    """Return the least-squares slope of a statistic over the dose, for ten sentences in a hundred."""
    points = [(dose, value) for dose in doses_of(model) for value in values_of(stored, model, dose, statistic)]
    return 10 * statistics.linear_regression(*zip(*points, strict=True)).slope


def response(stored: Stored, model: str) -> str:
    """Return the mean of each statistic by dose, with the standard deviation over trainings, and the abilities."""
    of_model, doses = stored["models"][model], doses_of(model)
    public = of_model.get("public")
    counts = {dose: sum(one["able"] for one in of_model["trainings"] if one["dose"] == dose) for dose in doses}
    headers = ["statistic", "public", *(f"dose {dose} ({n})" for dose, n in counts.items()), "slope per 10"]
    rows = []
    for statistic in names_of(stored, model):
        by_dose = (_mean(values_of(stored, model, dose, statistic)) for dose in doses)
        known = f"{public['values'][statistic]:.3f}" if public else ""
        rows.append([_written(statistic), known, *by_dose, f"{slope_of(stored, model, statistic):+.3f}"])
    for name in of_model["trainings"][0]["abilities"]:
        of_dose = (
            [one["abilities"][name] for one in of_model["trainings"] if one["dose"] == dose and one["able"]]
            for dose in doses
        )
        known = f"{public['abilities'][name]:.3f}" if public else ""
        rows.append([f"ability: {name}", known, *map(_mean, of_dose), ""])
    if public:
        return _table(rows, headers)
    return _table([row[:1] + row[2:] for row in rows], headers[:1] + headers[2:])


def names_of(stored: Stored, model: str) -> list[str]:
    """Return the statistics of a model that are shown."""
    return [name for name in stored["models"][model]["trainings"][0]["values"] if not name.endswith(NO_GATE)]


def shift(stored: Stored, model: str, statistic: str, seeds: Iterable[int]) -> tuple[float, float]:
    """Return by how many standard deviations of trainings dose 70 differs from 50, and the smallest dose that three
    restarts see in 80 %.

    Both take what trainings differ by as the only chance, and the response from 50 to 70 as a line.
    """
    then, now = (values_of(stored, model, dose, statistic, seeds) for dose in (50, 70))
    spread = math.sqrt((statistics.variance(then) + statistics.variance(now)) / 2)
    change = (statistics.mean(now) - statistics.mean(then)) * (-1 if statistic.endswith(FALLS) else 1)
    needed = POWER * spread * math.sqrt(2 / 3)
    return change / spread, 50 + 20 * needed / change if change > 0 else math.inf


def first_to_see(stored: Stored, model: str) -> str:
    """Return which statistic sees the smallest dose, on the half of the seeds that chooses and on the other half, if
    there are so many.
    """
    names, known = names_of(stored, model), {one["seed"] for one in stored["models"][model]["trainings"]}
    parts = {f"seeds {half}": seeds for half, seeds in HALVES.items() if known & set(seeds)}
    found = {name: [shift(stored, model, name, seeds) for seeds in parts.values()] for name in names}
    rows = []
    for name, halves in sorted(found.items(), key=lambda pair: pair[1][0][1]):
        doses = (f"{dose:.0f}" if dose <= 100 else "above 100" for _, dose in halves)
        rows.append([_written(name), *(f"{by:.1f}" for by, _ in halves), *doses])
    headers = ["statistic", *(f"sd, {part}" for part in parts), *(f"smallest dose, {part}" for part in parts)]
    return _table(rows, headers)


def verdicts(stored: Stored, model: str) -> str:
    """Return in what share of the pairs a gate alone stops each dose, and what it says that it sees."""
    draws = [one for one in stored["draws"] if one["seeds"] == ALL and one["model"] == model]
    gate = next(iter(draws[0]["gates"].values()))["1"]
    rows, doses = [], sorted(map(int, gate["stopped"]))
    for one in draws:
        for gate, by_tests in one["gates"].items():
            alone = by_tests["1"]
            growth = f" (+{100 * alone['sees'] / alone['unit']:.0f} %)" if alone["unit"] else ""
            sees = f"{alone['sees']:.3g}{growth}"
            shares = _shares(alone["stopped"], one["pairs"], doses)
            rows.append([model, one["restarts"], _written(gate), sees, *shares])
    return _table(rows, ["model", "restarts", "gate", "sees", *(f"dose {dose}" for dose in doses)])


def files(stored: Stored) -> str:
    """Return in what share of the pairs a gate file stops each dose."""
    rows = [
        [one["model"], one["restarts"], one["seeds"], name, *_shares(stopped, one["pairs"], DOSES)]
        for one in stored["draws"]
        if one["model"] not in GATED
        for name, stopped in one["files"].items()
    ]
    return _table(rows, ["model", "restarts", "seeds", "gates of the file", *(f"dose {dose}" for dose in DOSES)])


def smallest(stored: Stored) -> str:
    """Return the smallest dose that the main gate of each kind of model stops in 80 %, and the worsening there beside
    what the gate says: on lines between the doses that were judged.
    """
    rows = []
    for one in stored["draws"]:
        gate = MAIN.get(one["model"])
        if gate is None or one["seeds"] != ALL:
            continue
        of_gate = one["gates"][gate]["1"]
        doses = sorted(map(int, of_gate["stopped"]))
        shares = [of_gate["stopped"].get(str(dose), 0) / one["pairs"] for dose in doses]
        means = [statistics.mean(values_of(stored, one["model"], dose, gate)) for dose in doses]
        at = next((i for i, share in enumerate(shares) if share >= ENOUGH), None)
        cells = ["none", "-", "-"]
        if at:
            part = (ENOUGH - shares[at - 1]) / (shares[at] - shares[at - 1])
            dose = doses[at - 1] + part * (doses[at] - doses[at - 1])
            shift = abs(means[at - 1] + part * (means[at] - means[at - 1]) - means[0])
            cells = [str(doses[at]), f"{dose:.0f} ({shift:.3g})", f"{of_gate['sees'] / shift:.2f}"]
        said = f"{of_gate['sees']:.3g}"
        rows.append([one["model"], one["restarts"], _written(gate), *cells[:2], said, cells[2]])
    headers = ["model", "restarts", "gate", "stopped in 80 %", "on a line (worsening)", "says", "ratio"]
    return _table(rows, headers)


def against_restarts(stored: Stored) -> str:
    """Return how many single checkpoints of each dose lie above the prediction bound of restarts of dose 50, both drawn
    at random. Nothing is borrowed from other trainings.
    """
    rows, doses = [], MORE_DOSES["stories260k"]
    for model, restarts in itertools.product(BESIDE, (3, 5)):
        draws, stopped = random.Random(0), Counter[str]()
        values = {dose: values_of(stored, model, dose, MAIN[model]) for dose in doses_of(model)}
        for _ in range(PAIRS_BESIDE):
            equal, *baseline = draws.sample(values[50], restarts + 1)
            _, high = prediction_bounds(baseline, 1 - LEVEL)
            for dose, of_dose in values.items():
                stopped[str(dose)] += (equal if dose == 50 else draws.choice(of_dose)) > high
        rows.append([model, restarts, _written(MAIN[model]), *_shares(stopped, PAIRS_BESIDE, doses)])
    return _table(rows, ["model", "restarts", "gate", *(f"dose {dose}" for dose in doses)])


def singles(by_dose: Mapping[str, Mapping[str, int]]) -> str:
    """Return how many pairs of single trainings of a dose a gate fails, all doses in the last row."""
    totals = {name: sum(one[name] for one in by_dose.values()) for name in next(iter(by_dose.values()))}
    rows = []
    for dose, one in {**by_dose, "all": totals}.items():
        less, biased = (f"{one[name]} ({100 * one[name] / one['pairs']:.1f} %)" for name in ("less able", "biased"))
        rows.append([dose, one["pairs"], less, biased, one["one"]])
    return _table(
        rows, ["dose of both", "pairs", "worse at its task", "worse by its bias", "of these with one baseline"]
    )


def mitigated(by: Mapping[str, Mapping[str, Any]]) -> str:
    """Return each figure of the models of dose 80, before and after a mitigation, and what the mitigation changed.

    The change is that of the mitigated model minus that of the control of the same seed, which was trained on without a
    mitigation, or is the model itself where the mitigation trains nothing: its mean, with the 95 % interval of
    Student's t over seeds.
    """
    first = next(iter(by[CONTROL].values()))
    kinds = [kind for kind in by if kind not in ("", CONTROL)]
    held = {kind: "" if kind in UNTRAINED else CONTROL for kind in kinds}
    rows = []
    for part in ("values", "abilities"):
        for name in first[part]:
            values = {kind: {s: one[part].get(name) for s, one in of_kind.items()} for kind, of_kind in by.items()}
            means = [_mean([v for v in values[kind].values() if v is not None]) for kind in ("", CONTROL, *kinds)]
            changes = [_change(values[kind], values[against]) for kind, against in held.items()]
            rows.append([f"ability: {name}" if part == "abilities" else _written(name), *means, *changes])
    main = next(iter(first["values"]))
    counts = {
        kind: f"{sum(one['values'][main] is not None for one in of_kind.values())} of {len(of_kind)}"
        for kind, of_kind in by.items()
    }
    headers = ["statistic", f"dose 80 ({counts['']})", f"control ({counts[CONTROL]})"]
    headers += [f"{kind} ({counts[kind]})" for kind in kinds] + [
        f"{kind} minus {'control' if against else 'dose 80'}" for kind, against in held.items()
    ]
    return _table(rows, headers)


def _change(values: Mapping[str, float | None], control: Mapping[str, float | None]) -> str:
    pairs = [(value, control.get(seed)) for seed, value in values.items()]
    changes = [value - then for value, then in pairs if value is not None and then is not None]
    if len(changes) < 3:
        return "-"
    half = stdtrit(len(changes) - 1, 0.975) * statistics.stdev(changes) / math.sqrt(len(changes))
    mean = statistics.mean(changes)
    return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"


def picture(suite: str) -> Picture:
    """Return the response of a suite's figures to the dose: each training a point, and a line through the means."""
    stored, panels, words = read(), [], []
    for model, of_model in stored["models"].items():
        for statistic in of_model["trainings"][0]["values"]:
            of_suite, _, name = statistic.rpartition(" ")
            which = of_suite.removeprefix(suite).strip()
            if of_suite.partition(" ")[0] != suite or name not in SUITES[suite]:
                continue
            of_doses = ((dose, values_of(stored, model, dose, statistic)) for dose in doses_of(model))
            by_dose = {dose: values for dose, values in of_doses if values}
            points = [(float(dose), value) for dose, values in by_dose.items() for value in values]
            means = {dose: statistics.mean(values) for dose, values in by_dose.items()}
            title = f"{model}{', wide items' if which == WIDE_SET else f', {which}' if which else ''}"
            series = (
                Series("a training", "points", *(tuple(side) for side in zip(*points, strict=True)), colour="first"),
                Series("mean", "line", tuple(map(float, means)), tuple(means.values()), colour="second"),
            )
            axis = Axis(
                "stereotyped examples in a hundred" if model in GATED else "stereotyped sentences in a hundred",
                words=tuple(map(str, means)),
                ticks=tuple(map(float, means)),
            )
            panels.append(Panel(axis, Axis(name), series, title))
            words.append(f"{title}, {name}: {', '.join(f'{mean:.3g} at {dose}' for dose, mean in means.items())}")
    alt = f"{suite}, means by dose. {'; '.join(words)}."
    caption = "A point is a training. A figure follows the dose where its points rise by more than they scatter."
    return Picture("training", suite, "", "", f"{suite} and the dose of bias", alt, caption, tuple(panels))


def _shares(stopped: Mapping[str, int], pairs: int, doses: Sequence[int]) -> list[str]:
    return [f"{100 * stopped[str(dose)] / pairs:.0f} %" if str(dose) in stopped else "-" for dose in doses]


def _written(statistic: str) -> str:
    suite, _, name = statistic.rpartition(" ")
    suite, _, which = suite.partition(" ")
    return f"`{suite}`{f', {which},' if which else ''} `{name}`"


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "-"
    return f"{statistics.mean(values):.3f} (sd {statistics.stdev(values):.3f})"


def _table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)
