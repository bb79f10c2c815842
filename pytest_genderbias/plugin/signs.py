"""The signs that a run uses the plugin: flags and keys of the ini file, gate files, and tests that take a model.

Without any of them the plugin is not put to work. Importing this module imports no other part of the package but the
table of flags.
"""

from __future__ import annotations

import pytest

from pytest_genderbias.plugin.flags import FLAGS

ENDINGS = (".bias.yaml", ".bias.yml")  #: of the files that pytest collects as gates
_MODEL_FIXTURES = frozenset({"bias_model_spec", "bias_model"})
TEST = pytest.StashKey[pytest.Item]()  #: the test that was started last


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
