"""The README of the packaged suites names every family with its keys, and every suite with its family."""

import re

from pytest_genderbias import load_suite
from pytest_genderbias.suites.registry import FAMILIES
from pytest_genderbias.suites.suite import suite_names
from pytest_genderbias.text import packaged


def rows():
    text = (packaged.folder("fixtures") / "README.md").read_text(encoding="utf-8")
    return [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| `")]


def test_every_family_is_listed_with_its_keys():
    keys = {re.findall("`(.*?)`", family)[0]: set(re.findall("`(.*?)`", cell)) for family, cell, _ in rows()}
    assert keys.keys() == FAMILIES.keys()
    for name, family in FAMILIES.items():
        assert set(family.keys) <= keys[name]


def test_every_packaged_suite_is_listed_beside_its_family():
    listed = {
        suite: re.findall("`(.*?)`", family)[0] for family, _, cell in rows() for suite in re.findall("`(.*?)`", cell)
    }
    assert listed == {name: load_suite(name).family.name for name in suite_names()}
