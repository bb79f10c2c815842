"""The flags and keys of the ini file, as data, and the other signs that a run uses the plugin: gate files, and tests
that take a model. Without a sign the plugin is not put to work.

pytest registers the flags in every run, also of projects that use none, so that this module imports no other part of
the package.

To add a flag, add a row here, and a field of the same name to :class:`~pytest_genderbias.plugin.options.Settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

PREFIX = "--bias-"  #: of every flag
ENDINGS = (".bias.yaml", ".bias.yml")  #: of the files that pytest collects as gates
_MODEL_FIXTURES = frozenset({"bias_model_spec", "bias_model"})
TEST = pytest.StashKey[pytest.Item]()  #: the test that was started last


class Flag(NamedTuple):
    """One flag, and the key of the ini file that sets it for a project.

    A name without dashes, as ``bias_sees``, is a key of the ini file only; ``-o bias_sees=30%`` sets it for one run.

    Attributes:
        name: with its dashes.
        metavar: its value, as help shows it; empty for a switch.
        text: what it does.
        default: read as a value of the ini file; ``None`` without one.
        repeatable: whether it can be repeated, and its values are read together.
        has_ini: whether the ini file of a project can set it.
    """

    name: str
    metavar: str
    text: str
    default: str | None = None
    repeatable: bool = False
    has_ini: bool = True

    @property
    def help(self) -> str:
        """Its effect, with its default."""
        return self.text if self.default is None else f"{self.text} (default: {self.default})"

    @property
    def ini_key(self) -> str:
        """The key in the ini file, where the flag has one, and the name of the option on the command line."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def is_typed_by_name(self) -> bool:
        """Whether it is a flag, and not a key of the ini file only."""
        return self.name.startswith("--")

    @property
    def is_switch(self) -> bool:
        """Whether it has no value."""
        return not self.metavar

    def register(self, parser: pytest.Parser, group: pytest.OptionGroup) -> None:
        """Add the flag, and its key of the ini file."""
        if self.is_typed_by_name and self.is_switch:
            group.addoption(self.name, action="store_true", default=None, help=self.help)
        elif self.is_typed_by_name:
            action, more = ("append", ". Repeatable") if self.repeatable else ("store", "")
            group.addoption(self.name, action=action, default=None, metavar=self.metavar, help=self.help + more)
        if self.has_ini:
            about = f"default of {self.name}: {self.help}" if self.is_typed_by_name else self.help
            kind: Any = "bool" if self.is_switch else "args" if self.repeatable else "string"
            parser.addini(self.ini_key, about, type=kind, default=None)

    def is_typed(self, config: pytest.Config) -> bool:
        """Return whether the flag is on the command line."""
        return self.is_typed_by_name and config.getoption(self.ini_key) is not None

    def given(self, config: pytest.Config) -> Any:
        """Return what the command line says, or else the ini file; ``None`` if neither says anything."""
        if self.is_typed(config):
            return config.getoption(self.ini_key) or None
        return (config.getini(self.ini_key) or None) if self.has_ini else None


# fmt: off
#: By the name of the setting, in the order of ``pytest --help``.
FLAGS: Mapping[str, Flag] = {
    "models": Flag("--bias-model", "[NAME=]SPEC",
        "model to measure: the directory of a checkpoint, a hub id, an alias (bert-base, bert-large, albert-base, "
        "roberta-base, distilbert, gpt2, ...), demo-mlm, demo-lm, demo-nli, demo (all three), a file, module:callable, "
        "or what else docs/guides/your-model.md has. Tables and baselines call it NAME", repeatable=True),
    "selection": Flag("--bias-suite", "SUITE,...",
        "suites to measure in addition to the collected tests: packaged names, paths of suite files (ending in "
        ".yaml), or 'all'", repeatable=True),
    "limit": Flag("--bias-limit", "N",
        "score at most N cases of a suite, where a gate's settings name no limit: the first N in its random order, and "
        "whole persons for DisCo"),
    "seed": Flag("--bias-seed", "N",
        "seed of the random order and of the null controls, where a gate's settings name none", default="0"),
    "options": Flag("--bias-option", "[SUITE:]NAME=VALUE",
        "option of a suite, as nli-occupation:unit=word_pair", repeatable=True),
    "device": Flag("--bias-device", "DEVICE",
        "torch device, as cpu or cuda:1; auto is a GPU if there is one; split spreads a network over all GPUs, the "
        "memory of this machine and the checkpoint's files (needs accelerate)", default="auto"),
    "dtype": Flag("--bias-dtype", "DTYPE",
        "number format of the weights: float32, float16, bfloat16, float64, auto (that of each checkpoint)",
        default="float32"),
    "batch_tokens": Flag("bias_batch_tokens", "N",
        "tokens in a batch (default: chosen automatically; halved when memory runs out)"),
    "executor": Flag("bias_executor", "process|ray",
        "where cases are scored: in the process of the run, or by workers of a Ray cluster; needs the extra [ray]",
        default="process"),
    "ray": Flag("bias_ray", "HOST:PORT|local",
        "the cluster of bias_executor=ray: one that runs, or one of this machine that only its own processes reach "
        "and that ends with the run", default="local"),
    "workers": Flag("bias_workers", "N[xT]",
        "number of workers of bias_executor=ray, and threads of each, as 4x2 (default: one of one thread for each "
        "CPU, or one for each GPU)"),
    "labels": Flag("--bias-labels", "A,B,C",
        "names of a classifier's outputs, in order, if its config does not name them"),
    "trust_remote_code": Flag("bias_trust_remote_code", "", "run code that comes with a checkpoint"),
    "tokenizers": Flag("bias_tokenizer", "NAME=DIR",
        "folder or hub id of the tokenizer of the served model NAME (default: what the server calls the model, which "
        "often is one of both)", repeatable=True),
    "allow_remote": Flag("bias_allow_remote", "",
        "send the texts of suites to a server on another machine; without it only servers of this machine are asked"),
    "endpoint_version": Flag("bias_endpoint_version", "TAG",
        "your word for what a server serves: its scores are cached under it, and not at all without one, since a "
        "server can change behind its address"),
    "endpoint_timeout": Flag("bias_endpoint_timeout", "SECONDS",
        "seconds after which a request to a server is sent again if its answer is not complete; six times, then it is "
        "an error", default="300"),
    "samples": Flag("bias_samples", "K",
        "replies to each question, of a system that answers in text: an object with reply, a chat endpoint, or a "
        "checkpoint where a suite reads texts (default: 1; an endpoint that lists the likeliest first tokens of a "
        "reply is asked for these instead, where a question has options)"),
    "system_prompt": Flag("bias_system_prompt", "TEXT|@FILE",
        "system prompt before each question to a chat endpoint; measurements name it by a hash"),
    "temperature": Flag("bias_temperature", "T", "temperature of the replies of a chat endpoint", default="1"),
    "max_requests": Flag("bias_max_requests", "N",
        "most requests that a run sends to a chat endpoint; it says how many all suites need, and about how many "
        "tokens, and ends before the first one where that is more", default="1000"),
    "max_tokens": Flag("bias_max_tokens", "N", "most tokens of a reply of a chat endpoint, or of a checkpoint",
        default="1024"),
    "data": Flag("--bias-data", "DIR",
        "folder of your data sets (STS-B, WinoBias, Winogender, GAP, biographies, corpora, ...); "
        "docs/reference/data.md describes its layout"),
    "cache_folder": Flag("--bias-cache", "DIR",
        "folder of the score cache (default: pytest-genderbias in the user's cache folder)"),
    "no_cache": Flag("--bias-no-cache", "", "do not read or write the score cache"),
    "cache_size": Flag("bias_cache_size", "SIZE",
        "largest size of the score cache, as 500MB, 2GB or 1GiB; the least recently used entries are removed at the "
        "end of a run", default="10GB"),
    "shared_cache": Flag("bias_shared_cache", "URL",
        "folder of scores that machines share, as s3://BUCKET/FOLDER, beside the score cache"),
    "baseline": Flag("--bias-baseline", "DIR",
        "folder of the baselines, relative to the root directory, or its URL (s3://BUCKET/FOLDER)",
        default="bias_baselines"),
    "update_all": Flag("--bias-update", "",
        "accept the measured values as the new baseline, and remove unused entries", has_ini=False),
    "reason": Flag("--bias-reason", "TEXT",
        "why a worse value is accepted (with --bias-update); it is stored, and listed until the value recovers",
        has_ini=False),
    "update_new": Flag("--bias-update-new", "",
        "accept the measured values where there is no baseline entry yet", has_ini=False),
    "correct_for": Flag("bias_correct_for", "model|module|none|N",
        "the comparisons that the bounds of a worsening hold for together: with a baseline, all gated statistics of "
        "the model or of the test's module; between models, those of the gate file or of the flags; 'none' or a "
        "number applies to both", default="model"),
    "seeds": Flag("--bias-seeds", "N",
        "number of restarts, where a gate's settings name none: of heads that a suite trains, and of models whose SPEC "
        "contains {seed}, as runs/seed-{seed}"),
    "compare": Flag("--bias-compare", "",
        "compare all models with the first one, item by item, on every suite that was measured on two or more: which "
        "is better, by how much, within which bounds, with corrected p values", has_ini=False),
    "variance": Flag("bias_variance", "",
        "show where the variance of each value comes from, and so what it hangs on: items, templates, seeds (of "
        "several restarts) and the rest"),
    "no_worse_than": Flag("--bias-no-worse-than", "NAME",
        "make every suite of --bias-suite a gate: no model may be worse than the model NAME, item by item, beyond "
        "what chance explains, or by more than --bias-margin"),
    "same_as": Flag("--bias-same-as", "NAME",
        "make every suite of --bias-suite a gate: each model should be the same as the model NAME, item by item, "
        "neither worse nor better by more than --bias-margin (a number or a share), as a compressed copy should be"),
    "margin": Flag("--bias-margin", "X|X%",
        "how much worse a suite of --bias-suite may be than its baseline, or than the model of --bias-no-worse-than, "
        "or how different from that of --bias-same-as: X in units of the statistic, X percent of the distance from "
        "neutral then. Without it, a suite may be as much worse as chance explains"),
    "runs": Flag("bias_runs", "DIR",
        "keep the models that mitigations train in DIR: an interrupted training continues, and an identical one is "
        "not repeated (default: a temporary folder that is removed at the end of the run)"),
    "null_control": Flag("--bias-null", "",
        "show the values of each statistic with random groups, labels or directions, computed from the same scores, "
        "and the share of them that is at least as bad as the measured value"),
    "null_repeats": Flag("bias_null_repeats", "R",
        "shuffles of each null control that --bias-null shows", default="200"),
    "json": Flag("--bias-json", "FILE", "write all measurements and judgements to FILE"),
    "summary": Flag("--bias-summary", "FILE",
        "write a summary in markdown to FILE, for a comment on a pull request: the verdict, what failed, all gates, "
        "the age of the baseline, and what to type"),
    "github": Flag("bias_github", "",
        "in GitHub Actions, annotate the failed gates in the files that declare them, and append the summary to that "
        "of the job; elsewhere it has no effect"),
    "report": Flag("--bias-report", "FILE",
        "write a report to look at, one HTML page that needs no network: verdicts, figures, pictures and what they "
        "mean"),
    "all_records": Flag("bias_all_records", "",
        "keep all records of measurements in the file of --bias-json, for a table of them, and not the ten worst"),
    "sees": Flag("bias_sees", "GROWTH",
        "the growth of bias that a gate without a margin has to see in 80 % of releases to be one, as 50% (the "
        "default)"),
    "ability": Flag("bias_ability", "PATH ...|none: REASON",
        "how models show that they can do the task that their bias is measured in: paths of YAML files with control "
        "items of your own; or 'none: REASON' to ask none, which every run says"),
    "evidence": Flag("bias_evidence", "",
        "with --bias-strict, fail a gate that does not say because, owner and decided: why it is there, who answers "
        "for it, and when it was decided"),
    "strict": Flag("--bias-strict", "",
        "fail a run in which a gate may be overlooked: no model is named, nothing is gated, a gate is for no model of "
        "the run, a file that looks like gates is not read, or a suite that --bias-suite names (not by 'all') does "
        "not apply to a model; set it in CI"),
}
# fmt: on


# Signs.


def is_set_up(config: pytest.Config) -> bool:
    """Return whether the command line or the ini file sets something of the plugin, or what looks like it.

    A controller of xdist counts, too: it collects no tests, and learns from its workers what they found.
    """
    return (
        any(flag.given(config) is not None for flag in FLAGS.values())
        or any(key.startswith(("bias_", "bias-")) for key in keys_of_ini_file(config))
        or config.getoption("dist", "no") != "no"
    )


def keys_of_ini_file(config: pytest.Config) -> list[str]:
    """Return the keys that the ini file sets, also those that are not declared."""
    return list(getattr(config, "_inicfg", {}))  # inicfg is deprecated, and nothing public names unknown keys


def takes_model(item: pytest.Item) -> bool:
    """Return whether a test in Python takes a model by a fixture, directly or through other fixtures."""
    return isinstance(item, pytest.Function) and not _MODEL_FIXTURES.isdisjoint(item.fixturenames)
