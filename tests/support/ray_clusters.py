"""A Ray cluster of three nodes on this machine: ``python tests/support/ray_clusters.py`` prints what became of runs in
it as JSON.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # listen on the loopback interface only
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray spells it so
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import numpy as np
import ray
from interrupted_crews import once_scored
from ray.cluster_utils import Cluster

from pytest_genderbias.engines.ray_executor import RayExecutor
from pytest_genderbias.errors import ExecutorError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.scoring import engine

CASES = 6_000


def measure(executor: RayExecutor | None, limit: int) -> Measurement:
    return Runner(score=RunSettings(limit=limit, cache=None), executor=executor, threads=1).measure(
        "nli-occupation", "demo-nli"
    )


def refusal(executor: RayExecutor) -> str:
    try:
        measure(executor, 64)
    except ExecutorError as error:
        return str(error)
    finally:
        executor.close()
    return ""


def main() -> None:
    engine.WINDOW = 64
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    found: dict[str, object] = {}
    try:
        version, ray.__version__ = ray.__version__, "2.1.0"
        found["version"] = refusal(RayExecutor(cluster.address))
        ray.__version__ = version
        found["too many"] = refusal(RayExecutor(cluster.address, workers=3))
        here = measure(None, CASES)
        with RayExecutor(cluster.address) as executor:
            measure(executor, 64)
            workers = {pid for _, pid in executor.ready}

            def remove() -> None:
                cluster.remove_node(nodes[0], allow_graceful=False)
                deadline = time.monotonic() + 60
                while all(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
                    time.sleep(0.1)

            with once_scored(5, remove):
                there = measure(executor, CASES)
            found["left"] = len(executor.ready)
        found["same bits"] = here.values == there.values and all(
            np.asarray(v).tobytes() == np.asarray(there.items[k]).tobytes() for k, v in here.items.items()
        )
        found["lost"] = [note for note in there.notes if "lost" in note]
    finally:
        cluster.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
