"""Scoring in a Ray cluster of this machine, for real: ``python -m pytest -m slow tests/engines/test_ray.py``, with the
extra [ray].
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.interrupted_crews import once_scored
from support.listening import descendants, listening, marked, running

from pytest_genderbias import load_model
from pytest_genderbias.engines.ray_executor import RayExecutor
from pytest_genderbias.errors import ExecutorError, ScoreError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.models.spec import DEMO_FOLDER, parse_spec
from pytest_genderbias.scoring import engine
from pytest_genderbias.scoring import executor as windows_in_order

pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes and sockets in /proc"),
]
NLI = "nli-occupation"
RAY_PROCESSES = ("gcs_server", "raylet")
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def sockets() -> dict[str, set[tuple[str, int]]]:
    """Where this process and those below it listen: before, during and after the cluster of this module."""
    return {"before": listening({os.getpid(), *descendants(os.getpid())})}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which this process and all workers find modules."""
    folder = tmp_path_factory.mktemp("modules")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield folder


@pytest.fixture(scope="module")
def executor(sockets: dict[str, set[tuple[str, int]]], modules: Path) -> Iterator[RayExecutor]:
    """One cluster for all tests that leave it whole."""
    with RayExecutor(workers=2) as executor:
        yield executor


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WINDOW", 64)


def measure(model: object, executor: RayExecutor | None = None, limit: int = 1024, **settings: object) -> Measurement:
    """Measure without a cache, with a runner of its own."""
    return Runner(score=RunSettings(limit=limit, cache=None), executor=executor).measure(NLI, model, **settings)


def same_bits(one: Measurement, other: Measurement) -> bool:
    return one.values == other.values and all(
        np.asarray(v).tobytes() == np.asarray(other.items[k]).tobytes() for k, v in one.items.items()
    )


class _Run(NamedTuple):
    """A run in a process of its own, and how it ends; ``mark`` is in the environment of its processes."""

    how: signal.Signals
    cache: Path
    mark: str
    process: subprocess.Popen[str]

    @classmethod
    def started(cls, how: signal.Signals, cache: Path) -> _Run:
        code = (
            "from pytest_genderbias.measurement.runner import Runner, RunSettings\n"
            "from pytest_genderbias.scoring import engine\n"
            "from pytest_genderbias.engines.ray_executor import RayExecutor\n"
            "from pathlib import Path\n"
            "import sys, torch; torch.set_num_threads(1); engine.WINDOW, engine._KEEP_EVERY = 64, 0.0\n"
            "with RayExecutor(workers=1) as executor:\n"
            "    runner = Runner(score=RunSettings(limit=200_000, cache=Path(sys.argv[1])), executor=executor)\n"
            "    runner.measure('nli-occupation', 'demo-nli')\n"
        )
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(cache)],
            env={**os.environ, "MARK_OF_THE_TEST": mark},
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
        )
        return cls(how, cache, f"MARK_OF_THE_TEST={mark}", process)

    @property
    def stored(self) -> int:
        return len(list(self.cache.rglob("*.npy")))


@pytest.fixture(scope="module")
def orphans() -> set[tuple[int, int]]:
    """Two processes of a cluster whose run was killed."""
    return set()


def test_a_run_that_ends_early_leaves_no_process_and_goes_on(tmp_path: Path, orphans: set[tuple[int, int]]) -> None:
    """Ctrl-C reaches the whole group of the terminal; a kill only the driver. The next run takes the windows that are
    in the cache.

    After a kill two agents of Ray try for a minute to tell the cluster that it is gone.
    """
    runs = [_Run.started(how, tmp_path / how.name) for how in (signal.SIGINT, signal.SIGKILL)]
    whole = measure("demo-nli")
    for run in runs:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and run.stored < 3:
            time.sleep(0.1)
        below = running(descendants(run.process.pid))
        assert len(below) > 4
        (os.killpg if run.how == signal.SIGINT else os.kill)(run.process.pid, run.how)
        _, errors = run.process.communicate(timeout=60)
        assert run.process.returncode != 0
        assert run.how == signal.SIGKILL or "KeyboardInterrupt" in errors
        few = 2 if run.how == signal.SIGKILL else 0
        deadline = time.monotonic() + 30
        while len(left := _left(run.mark, below)) > few and time.monotonic() < deadline:
            time.sleep(0.2)
        assert {_name(pid) for pid, _ in left} <= (
            {"ray::DashboardAgent", "ray::RuntimeEnvAgent", ""} if few else set()
        )
        orphans |= left
        assert run.stored >= 3
        begun: list[int] = []
        settings = RunSettings(limit=1024, cache=run.cache, progress=_begun(begun))
        assert same_bits(Runner(score=settings).measure(NLI, "demo-nli"), whole)
        assert not begun or begun[0] >= 2 * 64  # the third file has the check of the labels


def _name(pid: int) -> str:
    """Return the name of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip(" \0")
    return ""


def _left(mark: str, below: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the processes of a run that are left: those it had, and those that began since. Some overwrite the mark
    when they change their name.
    """
    return running(marked(mark)) | (below & running(pid for pid, _ in below))


def _begun(begun: list[int]) -> object:
    def progress(label: str, total: int, done: int) -> object:
        begun.append(done)
        return nullcontext(lambda count: None)

    return progress


def test_a_cluster_that_is_full_is_waited_for_and_named(executor: RayExecutor) -> None:
    """The first of the tests with this cluster, before it has any workers."""
    crew = executor._crew_for(load_model("demo-nli", device="cpu"))
    import ray

    class Holder:
        def hold(self) -> bool:
            return True

    holder = ray.remote(Holder).options(num_cpus=2).remote()
    assert ray.get(holder.hold.remote())
    crew.wait = 2.0
    try:
        with pytest.raises(
            ExecutorError, match=r"no worker could begin within 2 seconds: .* 0 CPUs .*another run may hold the rest"
        ):
            measure("demo-nli", executor, limit=64)
    finally:
        ray.kill(holder)
        crew.wait = 300.0
    assert measure("demo-nli", executor, limit=64).n == 64


def test_the_bits_and_the_stop_are_those_of_one_process(executor: RayExecutor) -> None:
    here, there = measure("demo-nli"), measure("demo-nli", executor)
    assert same_bits(here, there)
    assert there.notes == (*here.notes, "scored by Ray: 2 workers of 1 thread")
    until = {"net_neutral": lambda low, high: low > 0.5}
    here, there = (measure("demo-nli", one, until=until) for one in (None, executor))
    assert here.stopped
    assert here.n == there.n < 1024
    assert same_bits(here, there)


def test_all_sockets_are_on_the_loopback_interface(
    executor: RayExecutor, sockets: dict[str, set[tuple[str, int]]]
) -> None:
    measure("demo-nli", executor, limit=64)
    below = descendants(os.getpid())
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in below}
    assert set(RAY_PROCESSES) <= names
    during = listening({os.getpid(), *below}) - sockets["before"]
    assert len(during) >= 5  # gcs, raylet, agents and workers
    assert {host for host, _ in during} <= {"127.0.0.1", "::1"}
    assert listening({os.getpid(), *below}) > sockets["before"]


def folder_of_cluster() -> Path:
    """The folder with all files of the local cluster that this process is in."""
    from ray._private import worker

    return Path(worker._global_node.get_temp_dir_path()).parent


def test_the_token_is_in_no_file_and_the_folder_is_private(executor: RayExecutor) -> None:
    measure("demo-nli", executor, limit=64)
    token = os.environ["RAY_AUTH_TOKEN"]
    assert len(token) == 64
    folder = folder_of_cluster()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if token.encode() in path.read_bytes()] == []
    default = Path.home() / ".ray" / "auth_token"
    assert not default.exists() or token not in default.read_text()


def test_a_process_without_the_token_is_turned_away(executor: RayExecutor) -> None:
    measure("demo-nli", executor, limit=64)
    import ray

    address = ray.get_runtime_context().gcs_address
    code = f"import ray; ray.init(address={address!r}, log_to_driver=False); print('joined')"
    token, others = os.environ["RAY_AUTH_TOKEN"], {}
    for name, mode in ((token, "token"), ("0" * 64, "token"), ("", "disabled")):
        environment = {k: v for k, v in os.environ.items() if k != "RAY_AUTH_TOKEN"} | {"RAY_AUTH_MODE": mode}
        others[name] = subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment | ({"RAY_AUTH_TOKEN": name} if name else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    begun = time.monotonic()
    assert others[token].communicate(timeout=60)[0] == "joined\n"
    assert others.pop(token).returncode == 0
    deadline = begun + 2 * (time.monotonic() - begun)  # as long again as the one with the token took
    for other in others.values():
        with suppress(subprocess.TimeoutExpired):  # Ray may try again and again
            other.wait(timeout=max(0.1, deadline - time.monotonic()))
        other.kill()
        assert "joined" not in other.communicate()[0]
        assert other.returncode != 0


def test_a_killed_worker_costs_one_window_and_no_bit(executor: RayExecutor) -> None:
    here = measure("demo-nli", limit=3000)
    measure("demo-nli", executor, limit=64)
    victim = executor.ready[0][1]
    with once_scored(5, lambda: os.kill(victim, signal.SIGKILL)):
        there = measure("demo-nli", executor, limit=3000)
    assert same_bits(here, there)
    assert (
        "1 worker lost, 1 window scored again" in there.notes or "1 worker lost, 0 windows scored again" in there.notes
    )
    assert victim not in {pid for _, pid in executor.ready}


def test_a_model_that_is_known_by_its_files_is_loaded_by_the_workers_alone(
    executor: RayExecutor, tmp_path: Path
) -> None:
    """A run with stored scores builds no network; the next one needs more cases, and still builds none."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(DEMO_FOLDER / "nli", folder)

    def measured(limit: int, one: RayExecutor | None) -> tuple[Measurement, Runner]:
        runner = Runner(score=RunSettings(limit=limit, cache=tmp_path / "cache"), executor=one, threads=1)
        return runner.measure(NLI, str(folder)), runner

    measured(64, None)
    assert "network" not in vars(measured(64, executor)[1].models.model(parse_spec(str(folder))).backend)
    more, runner = measured(512, executor)
    assert "scored by Ray: 2 workers of 1 thread" in more.notes
    assert "network" not in vars(runner.models.model(parse_spec(str(folder))).backend)
    assert same_bits(more, measure(str(folder), limit=512))


def test_windows_that_wait_are_not_scored_once_a_gate_is_decided(executor: RayExecutor, modules: Path) -> None:
    """Each worker has a window that it scores and one that waits; the second is not handed out."""
    modules.joinpath("slow_model.py").write_text(
        "import time\nimport numpy as np\n"
        "class Slow:\n"
        "    fingerprint, labels = 'slow', ('entailment', 'neutral', 'contradiction')\n"
        "    def pair_probabilities(self, premises, hypotheses):\n"
        "        if len(premises) > 6:\n"  # the check of the labels has six
        f"            open({str(modules / 'begun')!r}, 'a').write('window\\n')\n"
        "            time.sleep(2)\n"
        "        return np.full((len(premises), 3), 1 / 3)\n"
        "def model():\n    return Slow()\n"
    )
    found = measure("m=slow_model:model", executor, until={"net_neutral": lambda low, high: True})
    assert found.n == 64
    time.sleep(5)
    begun = len(modules.joinpath("begun").read_text().splitlines())
    assert 1 <= begun <= 3, "the one that was needed, and one that each worker scored when the gate was decided"


def test_a_window_that_ends_every_worker_is_named(
    executor: RayExecutor, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows_in_order, "MOST_LOSSES", 3)  # each costs the start of a worker
    modules.joinpath("deadly_model.py").write_text(
        "import os\nfrom pathlib import Path\nimport numpy as np\n"
        "class Deadly:\n"
        "    fingerprint, labels = 'deadly', ('entailment', 'neutral', 'contradiction')\n"
        "    def pair_probabilities(self, premises, hypotheses):\n"
        f"        if os.getpid() != {os.getpid()} and any(p.startswith('The nurse') for p in premises):\n"
        "            os._exit(13)\n"
        "        return np.full((len(premises), 3), 1 / 3)\n"
        "def model():\n    return Deadly()\n"
    )
    with pytest.raises(
        ScoreError, match=rf"^{NLI} on m, cases [\d,]+ to [\d,]+ of its random order: 3 workers ended one after another"
    ):
        measure("m=deadly_model:model", executor)


def test_an_error_of_a_worker_is_raised_as_it_is(executor: RayExecutor, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(DEMO_FOLDER / "nli", tmp_path / "huge")
    weights = load_file(tmp_path / "huge" / "model.safetensors")
    last = next(name for name in weights if name.startswith("classifier") and name.endswith("weight"))
    weights[last] = weights[last].sign() * 3e38
    save_file(weights, tmp_path / "huge" / "model.safetensors", metadata={"format": "pt"})
    messages = []
    for one in (None, executor):
        with pytest.raises(ScoreError, match="gives NaN or infinite scores") as raised:
            measure(f"huge={tmp_path / 'huge'}", one, limit=64)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_a_model_that_changed_or_went_away_is_refused(executor: RayExecutor, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(DEMO_FOLDER / "nli", folder)
    model = load_model(folder, device="cpu")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.1}))
    with pytest.raises(ExecutorError, match="is another model on the node"):
        measure(model, executor, limit=64)
    shutil.rmtree(folder)
    with pytest.raises(ExecutorError, match="same path"):
        measure(model, executor, limit=64)


def test_nothing_is_left(executor: RayExecutor, sockets: dict[str, set[tuple[str, int]]]) -> None:
    """The last of the tests with this cluster: processes, sockets, files and variables are gone."""
    measure("demo-nli", executor, limit=64)
    folder = folder_of_cluster()
    assert folder.exists()
    executor.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(_is_of_ray(pid) for pid in descendants(os.getpid())):
        time.sleep(0.2)
    assert [pid for pid in descendants(os.getpid()) if _is_of_ray(pid)] == []
    left = listening({os.getpid(), *descendants(os.getpid())}) - sockets["before"]
    assert {host for host, _ in left} <= {"127.0.0.1"}
    assert len(left) <= 1  # a port that Ray's driver reserves
    assert not folder.exists()
    assert "RAY_AUTH_TOKEN" not in os.environ


def _is_of_ray(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" and (
            b"ray::" in command or any(name.encode() in command for name in RAY_PROCESSES)
        )
    except OSError:
        return False


def test_a_cluster_that_runs() -> None:
    """A cluster of three machines in one: joined by its address, refused with another version, and left by a machine
    during a measurement.
    """
    ended = subprocess.run(
        [sys.executable, str(SUPPORT / "ray_clusters.py")], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert "has other versions than this process" in found["version"]
    assert "do not fit into the Ray cluster" in found["too many"]
    assert "which has 2 CPUs" in found["too many"]
    assert found["same bits"]
    assert found["lost"]
    assert found["left"] == 1


def test_the_agents_of_a_killed_run_end(orphans: set[tuple[int, int]]) -> None:
    """The last of the tests, so that nobody waits for the minute."""
    deadline = time.monotonic() + 90
    while (left := orphans & running(pid for pid, _ in orphans)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left == set()
