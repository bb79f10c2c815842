"""What is said about Ray before it is started, without it."""

import json
import re
import socket
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny_checkpoints import save_checkpoint, small_nli

from pytest_genderbias import load_model
from pytest_genderbias.engines import ray_cluster, ray_executor, served, vllm_engine
from pytest_genderbias.engines.ray_cluster import check_address, joined_cluster
from pytest_genderbias.engines.ray_executor import Failure, Loaded, RayExecutor, RayWorker, WantedModel
from pytest_genderbias.errors import ExecutorError, ModelError, ScoreError, SettingError, installing
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.models.objects import wrap
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.scoring.executor import Task, Window
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import CoreferenceScores, PseudoLogLikelihood

QUESTION = ray_executor.pickle.dumps((*small_nli(), None))


@pytest.mark.parametrize("address", ["local", "127.0.0.1:6379", "head.example.org:1", "[::1]:65535"])
def test_addresses_that_name_a_cluster(address):
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    ["auto", "", "127.0.0.1", ":6379", "host:0", "host:65536", "host:99999999", "ray://host:10001", "http://host:1"],
)
def test_an_address_that_names_no_cluster_is_refused(address):
    with pytest.raises(SettingError, match=r"expected 'local', or HOST:PORT"):
        RayExecutor(address)


@pytest.mark.parametrize(
    "settings", [{"workers": 0}, {"workers": 1.5}, {"threads": 0}, {"share": 0}, {"workers": True}], ids=str
)
def test_numbers_that_make_no_sense_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        RayExecutor(**settings)


def test_an_old_address_is_named_at_once(tiny_model):
    """Nothing is joined that was not named, and nothing is waited for: no module of Ray is needed to see that nobody
    listens.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ExecutorError, match=rf"^no Ray cluster answers at 127\.0\.0\.1:{port} .*ray start --head"):
        Runner(score=RunSettings(cache=None), executor=RayExecutor(f"127.0.0.1:{port}")).measure(
            "nli-occupation", "demo-nli"
        )


def test_ray_that_is_missing_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(ray_cluster.sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "unchanged")
    with pytest.raises(ExecutorError, match=re.escape(installing("ray"))), joined_cluster("local"):
        pass
    assert ray_cluster.os.environ["RAY_ADDRESS"] == "unchanged"
    assert "RAY_AUTH_TOKEN" not in ray_cluster.os.environ


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.50.0"),
            "has other versions than this process: .*2.50.0",
        ),
        (RuntimeError("Authentication token is wrong"), "asks for a token.*RAY_AUTH_TOKEN_PATH"),
        (
            ConnectionError("Failed to connect to Ray cluster"),
            r"cannot be joined \(ConnectionError: .*ray start --address=host:1",
        ),
    ],
)
def test_why_a_cluster_cannot_be_joined(monkeypatch, error, message):
    monkeypatch.setitem(ray_cluster.sys.modules, "ray", SimpleNamespace(__version__="2.60.0"))
    text = ray_cluster._not_joined("host:1", error)
    assert ray_cluster.re.search(message, text)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("resources", "on_gpu", "settings", "number"),
    [
        ({"CPU": 8.0}, False, {}, 8),
        ({"CPU": 8.0}, False, {"threads": 3}, 2),
        ({"CPU": 8.0}, False, {"share": 2}, 4),
        ({"CPU": 8.0, "GPU": 2.0}, True, {}, 2),
        ({"CPU": 8.0}, False, {"workers": 8}, 8),
        ({"CPU": 8.0}, False, {"workers": 9}, None),
        ({"CPU": 8.0}, False, {"workers": 5, "threads": 2}, None),
        ({"CPU": 8.0, "GPU": 1.0}, True, {"workers": 2}, None),
        ({"CPU": 8.0}, True, {}, None),
    ],
)
def test_the_number_of_workers(resources, on_gpu, settings, number):
    executor = RayExecutor("host:1", **settings)
    executor._ray = SimpleNamespace(cluster_resources=lambda: resources)
    if number is not None:
        assert executor._number(on_gpu) == number
        return
    with pytest.raises(
        ExecutorError,
        match=r"do not fit into the Ray cluster host:1, which has 8 CPUs and \d GPUs.*(bias_workers|--bias-device)",
    ):
        executor._number(on_gpu)


@pytest.mark.parametrize(
    ("resources", "on_gpu", "threads", "advice"),
    [
        ({"CPU": 8.0, "GPU": 1.0}, True, 1, r"a GPU each do not fit .* ask for at most 1 \(bias_workers\)"),
        ({"CPU": 8.0}, True, 1, r"and 0 GPUs in all; score on the CPU \(--bias-device=cpu\), or add machines"),
        ({"CPU": 2.0}, False, 4, r"4 threads do not fit .* ask for workers of fewer threads \(-o bias_workers=1x2\)"),
        ({}, False, 1, "wait until its machines have joined"),
    ],
    ids=["fewer GPUs", "no GPU", "too many threads", "no machine"],
)
def test_what_to_do_where_workers_do_not_fit(resources, on_gpu, threads, advice):
    executor = RayExecutor("host:1", workers=2, threads=threads)
    executor._ray = SimpleNamespace(cluster_resources=lambda: resources)
    with pytest.raises(ExecutorError, match=advice) as error:
        executor._number(on_gpu)
    assert "at most 0" not in str(error.value)


class FakeRay:
    """What the executor asks of Ray, with workers in this process: it remembers what each asks for, and answers at
    once.
    """

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, **resources):
        self.resources, self.asked, self.started, self.workers, self.killed = resources, [], [], [], []

    def cluster_resources(self):
        return self.resources

    def remote(self, actor):
        fake = self

        class Factory:
            def options(self, **options):
                fake.asked.append(options)
                return self

            def remote(self, threads):
                worker, calls = actor(threads), SimpleNamespace()
                fake.workers.append(worker)
                for name in ("begin", "score"):
                    method = getattr(worker, name)
                    setattr(calls, name, SimpleNamespace(remote=lambda *given, of=method: _Answer(of(*given))))
                fake.started.append(calls)
                return calls

        return Factory()

    def wait(self, refs, num_returns, timeout):
        return refs[:1], refs[1:]

    def get(self, ref, timeout=None):
        return ref.content

    def kill(self, actor):
        self.killed.append(actor)


class _Answer:
    def __init__(self, content):
        self.content = content


@pytest.mark.parametrize(("gpus", "workers"), [(2, None), (1, 1)])
def test_a_model_on_a_gpu_has_a_worker_for_each_gpu(tiny_model, monkeypatch, gpus, workers):
    """The way of a run on two GPUs, with workers that score on the CPU: only the model says that it is on a GPU."""
    space, query = small_nli()
    model = tiny_model("bert-nli")
    on_gpu = replace(model, details={**model.details, "device": "cuda:0"})
    fake = FakeRay(CPU=8.0, GPU=float(gpus))
    monkeypatch.setattr(ray_executor, "joined_cluster", lambda *where: nullcontext(fake))
    wanted = WantedModel.of(model)
    monkeypatch.setattr(WantedModel, "of", lambda of: wanted)
    executor = RayExecutor("host:1", workers)
    with executor.open(Task(space, query, on_gpu)) as pool:
        assert fake.asked == [{"num_cpus": 1, "num_gpus": 1, "max_restarts": 0, "max_task_retries": 0}]
        assert pool.state == f"{gpus} worker{'s'[: gpus - 1]}"
        pool.submit(Window(0, 64), np.arange(64))
        pool.submit(Window(64, 128), np.arange(64, 128))
        scored = pool.collect()
        assert len(fake.started) == gpus
    alone = make_scorer(space, query, model, None).score(space.cases_of(np.arange(64)))
    assert scored.values.tobytes() == alone.tobytes()
    with executor.open(Task(space, query, model)):  # the next model is on the CPU
        assert fake.asked[1]["num_gpus"] == 0


@pytest.fixture
def fake_cluster(tiny_model, monkeypatch):
    """A cluster of fakes, an executor in it, and the same model on the CPU and, as it says, on a GPU."""
    fake, model = FakeRay(CPU=2.0, GPU=1.0), tiny_model("bert-nli")
    wanted = WantedModel.of(model)
    monkeypatch.setattr(ray_executor, "joined_cluster", lambda *where: nullcontext(fake))
    monkeypatch.setattr(WantedModel, "of", lambda of: wanted)
    return fake, RayExecutor("host:1", 1), model, replace(model, details={**model.details, "device": "cuda:0"})


def test_workers_are_kept_for_the_next_model_on_the_same_kind_of_device(fake_cluster):
    """Those for the other kind end, since they have the CPUs."""
    fake, executor, model, on_gpu = fake_cluster
    task = Task(*small_nli(), model)
    values = []
    for one in (on_gpu, model, model):
        with executor.open(replace(task, model=one)) as pool:
            pool.submit(Window(0, 8), np.arange(8))
            values.append(pool.collect().values.tobytes())
            assert len(executor.ready) == 1
    assert len(set(values)) == 1
    assert (len(fake.started), fake.killed) == (2, fake.started[:1])
    executor.close()
    assert executor.ready == [] and fake.killed == fake.started


def test_the_first_worker_is_waited_for_and_no_longer_than_that(fake_cluster, monkeypatch):
    fake, executor, model, _ = fake_cluster
    hours = [0]

    def wait(refs, **rest):
        hours[0] += 1
        return [], refs

    monkeypatch.setattr(ray_executor, "time", SimpleNamespace(monotonic=lambda: 3600.0 * hours[0]))
    monkeypatch.setattr(fake, "available_resources", dict, raising=False)
    monkeypatch.setattr(fake, "wait", wait)
    task = Task(*small_nli(), model)
    with pytest.raises(ExecutorError, match="no worker could begin within 300 seconds"), executor.open(task):
        pass
    assert fake.killed == fake.started and hours == [1]


def test_a_closed_executor_starts_nothing(fake_cluster, monkeypatch):
    fake, executor, model, _ = fake_cluster
    task = Task(*small_nli(), model)
    with executor.open(task):
        pass
    executor.close()
    monkeypatch.setattr(ray_executor, "joined_cluster", lambda *where: pytest.fail("a cluster is started again"))
    with (
        pytest.raises(ExecutorError, match=r"^the executor was closed, .*make another RayExecutor$"),
        executor.open(task),
    ):
        pass
    assert len(fake.started) == 1


def test_workers_that_were_lost_between_two_tasks_are_replaced(tiny_model, monkeypatch):
    """They were ready once, so that neither the package nor the memory is to blame, as with new workers that end before
    they can score.
    """
    fake = FakeRay(CPU=5.0)
    crew = ray_executor.Crew(fake, 5, 1, False, 300.0)
    wanted = WantedModel.of(tiny_model("bert-nli"))
    lost = SimpleNamespace(remote=lambda *given: _Answer("lost"))

    def get(ref, timeout=None):
        if ref.content == "lost":
            raise RuntimeError("the node died")
        return ref.content

    monkeypatch.setattr(fake, "get", get)
    crew.begin(wanted, QUESTION)
    crew.give_up()
    for worker in fake.started:
        worker.begin = lost
    before = len(fake.started)
    crew.begin(wanted, QUESTION)
    assert len(fake.started) > before
    crew.give_up()
    monkeypatch.setattr(fake, "get", lambda ref, timeout=None: get(_Answer("lost")))
    with pytest.raises(
        ExecutorError, match=r"3 workers ended one after another before they could score.*the node died"
    ):
        crew.begin(wanted, QUESTION)


def test_an_object_in_memory_is_refused_with_what_to_do(tiny_model):
    space, query = small_nli()
    model = tiny_model("bert-nli")
    for lost in (replace(model, origin=None), replace(model, fingerprint=None)):
        with (
            pytest.raises(SettingError, match=r"is an object in memory.*save_pretrained.*without an executor"),
            RayExecutor().open(Task(space, query, lost)),
        ):
            pass


def test_heads_are_trained_in_this_process(tiny_model):
    """Workers would train a head each, and no worker writes the cache, where heads are kept."""
    model = tiny_model("bert")
    assert ray_executor._stays_here(CoreferenceScores(2, "edge-probe", training=("data",)), model)
    assert not ray_executor._stays_here(CoreferenceScores(2, "substitution"), model)
    for role in (served.ROLE, vllm_engine.ROLE):
        elsewhere = replace(model, role=role)
        assert ray_executor._stays_here(CoreferenceScores(2, "substitution"), elsewhere)


# What a worker does, in this process


def test_a_worker_scores_as_this_process_does(tiny_model, checkpoint):
    space, query = small_nli()
    model = tiny_model("bert-nli")
    assert model.origin.spec.target == str(checkpoint("bert-nli"))
    worker = RayWorker(1)
    assert isinstance(worker.begin(WantedModel.of(model), QUESTION), Loaded)
    units = np.arange(100, 200)
    values, notes = worker.score(units)
    assert values.tobytes() == make_scorer(space, query, model, None).score(space.cases_of(units)).tobytes()
    assert notes == []
    kept = worker._model
    assert isinstance(worker.begin(WantedModel.of(model), QUESTION), Loaded)
    assert worker._model is kept
    assert worker.score(units)[0].tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"fingerprint": "0" * 64},
            r"bert-nli is another model on the node .*: the fingerprint of .* is [0-9a-f]{12} there and 000000000000",
        ),
        (
            {"details": {"device": "cuda:0", "dtype": "float32"}},
            (
                r"is on cpu in float32 on the node .*, and on cuda:0 in float32 where the run was"
                r" started.*--bias-device=cpu"
            ),
        ),
        ({"details": {"device": "cpu", "dtype": "bfloat16"}}, "in float32 on the node .* in bfloat16 where"),
        ({"versions": {"torch": "1.0"}}, "has torch .* and not 1.0; install the same versions on every node"),
    ],
    ids=["fingerprint", "device", "dtype", "versions"],
)
def test_a_worker_that_differs_is_named(tiny_model, change, message):
    wanted = WantedModel.of(replace(tiny_model("bert-nli"), name="bert-nli"))
    versions = change.get("versions", wanted.versions)
    of_model = {name: value for name, value in change.items() if name != "versions"}
    failure = RayWorker(1).begin(replace(wanted, model=replace(wanted.model, **of_model), versions=versions), QUESTION)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, ExecutorError)
    assert ray_cluster.re.search(message, str(failure.error))


@pytest.mark.parametrize(
    "change",
    [{"model_max_length": 9}, {"truncation_side": "left"}, {"chat_template": "{{ messages }}"}],
    ids=["length", "side", "chat template"],
)
def test_a_node_whose_files_read_texts_in_another_way_is_refused(tmp_path, change):
    """The fingerprint is the same; the scores would be others, and stored under the key of the run's own files."""
    folder = save_checkpoint("gpt2", tmp_path / "model")
    model = load_model(str(folder), device="cpu", name="m")
    wanted, settings = WantedModel.of(model), folder / "tokenizer_config.json"
    question = ray_executor.pickle.dumps((TextCases([("He is a nurse.",)]), PseudoLogLikelihood(), None))
    assert isinstance(RayWorker(1).begin(wanted, question), Loaded)
    settings.write_text(json.dumps(json.loads(settings.read_text()) | change))
    assert load_model(str(folder), device="cpu").fingerprint == model.fingerprint
    failure = RayWorker(1).begin(wanted, question)
    assert isinstance(failure, Failure)
    assert str(failure.error).startswith("m reads texts in another way on the node ")


def test_a_model_that_a_node_lacks_is_named(tiny_model):
    wanted = WantedModel.of(tiny_model("bert-nli"))
    origin = wanted.model.origin
    elsewhere = replace(origin, spec=replace(origin.spec, target="/no/such/folder"))
    failure = RayWorker(1).begin(replace(wanted, model=replace(wanted.model, origin=elsewhere)), QUESTION)
    assert ray_cluster.re.search("there is no /no/such/folder on the node .*same path", str(failure.error))


def test_errors_of_a_worker_travel():
    """Our own errors are raised as they are; what cannot be pickled keeps its text, and each error its traceback."""

    class LocalError(Exception):
        pass

    for error, kind in (
        (ScoreError("NaN"), ScoreError),
        (ModelError("bad"), ModelError),
        (OSError(28, "full"), OSError),
        (LocalError("x"), RuntimeError),
    ):
        try:
            raise error
        except Exception as caught:
            failure = ray_executor._failure(caught)
        again = ray_executor.raised(failure)
        assert type(again) is kind
        assert str(error) in str(again)
        assert isinstance(again, (ScoreError, ModelError)) or "test_errors_of_a_worker_travel" in str(again.__cause__)


def test_a_model_knows_where_it_came_from(checkpoint):
    model = load_model(str(checkpoint("bert-nli")), device="cpu", name="m")
    assert model.origin.spec.name == "m"
    assert model.origin.settings.device == "cpu"
    assert wrap(model.backend.network, model.backend.tokenizer, "o").origin is None


def test_workers_score_for_a_model_that_this_process_has_not_loaded(checkpoint, tmp_path):
    """A model that an earlier run recorded is known by its files; its network is loaded by the workers alone."""
    first = Runner(score=RunSettings(limit=64, cache=tmp_path))
    first.measure("nli-occupation", str(checkpoint("bert-nli")))
    known = Runner(score=RunSettings(limit=64, cache=tmp_path)).models.model(parse_spec(str(checkpoint("bert-nli"))))
    assert "network" not in vars(known.backend)
    assert isinstance(RayWorker(1).begin(WantedModel.of(ray_executor._of_files(known)), QUESTION), Loaded)
    assert not ray_executor._stays_here(small_nli()[1], known)
    assert "network" not in vars(known.backend)
