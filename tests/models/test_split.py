"""``--bias-device=split``: a network that does not fit a device gives the figures of one that does."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from pytest_genderbias import Model, load_model, measure
from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models import checkpoints
from pytest_genderbias.models.source import SPLIT
from pytest_genderbias.recipes.heads import on_device

SUITES = {"demo-mlm": ("lm-occupation", "disco-terms", "weat"), "demo-lm": ("pronoun-occupation", "weat")}


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Model]:
    """Load a model on a machine that has so many bytes left."""
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    def load(spec: str, left: int) -> Model:
        memory = psutil.virtual_memory()._replace(available=left)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
        return load_model(spec, device=SPLIT)

    return load


@pytest.mark.parametrize("share", [2.0, 0.95, 0.0], ids=["all in memory", "some in files", "all in files"])
@pytest.mark.parametrize("spec", SUITES)
def test_a_split_network_gives_the_figures_of_a_whole_one(
    spec: str, share: float, split: Callable[[str, int], Model]
) -> None:
    """Same figures, and the same fingerprint, by which baselines and stored scores know a model."""
    whole = load_model(spec, device="cpu")
    size = sum(weight.numel() * weight.element_size() for weight in whole.backend.network.parameters())
    model = split(spec, int(share * size))
    elsewhere = [weight.device.type == "meta" for weight in model.backend.network.parameters()]
    assert (any(elsewhere), all(elsewhere)) == (share < 1, share == 0)
    assert model.fingerprint == whole.fingerprint
    for suite in SUITES[spec]:
        of_whole, of_split = (measure(suite, one, limit=48, cache=None).values for one in (whole, model))
        assert of_split == pytest.approx(of_whole, abs=1e-5, nan_ok=True)


def test_what_a_split_network_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings need one device, and accelerate has to be there."""
    with pytest.raises(SettingError, match="a training needs one device"), on_device(SPLIT):
        pass
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install accelerate"):
        load_model("demo-lm", device=SPLIT)
