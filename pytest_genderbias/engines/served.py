"""Models behind a server: their tokenizer is here, their log-probabilities come over HTTP, and are proved before the
first figure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_genderbias.engines.served_client import ServedClient
from pytest_genderbias.engines.served_proof import Proof, prove
from pytest_genderbias.engines.served_rows import KeptRows, MeasuredRows
from pytest_genderbias.engines.transport import address_of
from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.checkpoints import load_tokenizer
from pytest_genderbias.models.fingerprint import fingerprint_tokenizer
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.prompt_log_probabilities import KeptBeside, PromptedModel, PromptLogProbabilities
from pytest_genderbias.models.roles import CAUSAL_LM, Role
from pytest_genderbias.models.source import LoadSettings, ModelSource
from pytest_genderbias.models.spec import SERVED, ModelSpec, hub_parts
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLE = Role(CAUSAL_LM, "a causal LM behind a server", only_prompts=True)
_NO_TOKENIZER = (
    "{0} is served, and its own tokenizer is needed here: {1}; give its folder or hub id: -o bias_tokenizer={0}=DIR"
    " (tokenizer=... in Python)"
)
DETAIL = "server"  #: of a model's details, by which the signature says that it is served
VERSION = "endpoint_version"  #: of a model's details: the user's word under which its scores are cached


@dataclass(frozen=True)
class ServedModel(PromptedModel):
    """A causal LM that another process runs, with its tokenizer in this one.

    ``source``: what is asked. ``max_length``: most tokens in a row, or ``None`` without a limit. ``proof``: what was
    tested of the log-probabilities, and prompts that are asked again at the end of each measurement. ``kept``: rows of
    measurements, asked again as well.
    """

    source: PromptLogProbabilities = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    max_length: int | None
    proof: Proof
    kept: KeptRows = field(default_factory=KeptRows, repr=False, compare=False)

    def rows(self, name: str) -> MeasuredRows:
        """Return what asks for the rows of one question of a measurement, and proves them. ``name``: the model's
        name.
        """
        return MeasuredRows(self.source, self.proof, self.tokenizer, self.max_length, name, self.kept)

    def confirm_unchanged(self, name: str) -> None:
        """Ask prompts of the proof and rows of measurements again.

        Raises:
            ScoreError: their values changed.
        """
        self.proof.confirm_unchanged(self.source, name)
        self.rows(name).confirm_kept()

    def confirm_stored(self, kept_beside: KeptBeside, model: Model) -> None:
        """Check that this is the model whose scores are stored under the user's word for it.

        Raises:
            ScoreError: it is another one.
        """
        version = model.details.get(VERSION)
        kept = None if version is None else kept_beside(self.proof.kept)
        if kept is not None:
            self.proof.confirm_same(kept, self.source.where, model.name, str(version))

    @property
    def notes(self) -> list[str]:
        """The remark that the model is served, with what was proved of it."""
        return [
            f"the model is behind {self.source.where}: its log-probabilities passed {len(self.proof.checks)} checks"
            " before the first figure, and did not change until the last; one asked again differed by at most"
            f" {self.proof.noise:.1g} nats"
        ]


def parse(name: str, spec: str) -> ModelSpec:
    """Parse ``http://HOST:PORT/v1#MODEL``."""
    return address_of(name, spec, SERVED)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Return the role of a served model; nothing is asked yet."""
    return ModelSource(spec, ROLE, elsewhere=True)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Connect to a server, load the model's tokenizer, and prove the log-probabilities.

    Raises:
        ModelError: the server cannot be reached or has no such model, the tokenizer is missing, or a check of the proof
            fails.
        ScoreError: the server does not answer.
    """
    spec = source.spec
    url, _, model = spec.target.partition("#")
    client = ServedClient(url, model, spec.name, settings.served.allow_remote, settings.served.time_limit)
    return proved_model(spec, client, _tokenizer(spec, model, settings), settings.served.version)


def proved_model(
    spec: ModelSpec, source: PromptLogProbabilities, tokenizer: PreTrainedTokenizerBase, version: str | None = None
) -> Model:
    """Make a :class:`Model` of a causal LM that another process or engine runs, once its log-probabilities are proved.

    Args:
        spec: the model's name and origin.
        source: what is asked for log-probabilities.
        tokenizer: the model's own tokenizer.
        version: the user's word for what is served; with it scores are cached, as long as the word, the tokenizer and
            the origin stay the same.

    Raises:
        ModelError: a check fails.
    """
    limits = (source.max_length, tokenizer.model_max_length)
    longest = min((n for n in limits if isinstance(n, int) and 0 < n < 10**6), default=None)
    proof = prove(source, tokenizer, longest, spec.name)
    tokenizer_print = fingerprint_tokenizer(tokenizer)
    details = {
        "architecture": "served",
        "tokenizer": tokenizer_print[:16],
        **source.facts,
        **({} if version is None else {VERSION: version}),
        **chat_template_details(tokenizer),
    }
    named = "\n".join(("served", spec.target, version or "", tokenizer_print))
    fingerprint = None if version is None else hashlib.sha256(named.encode()).hexdigest()
    return Model(spec.name, spec.spec, ROLE, fingerprint, details, ServedModel(source, tokenizer, longest, proof))


def _tokenizer(spec: ModelSpec, model: str, settings: LoadSettings) -> PreTrainedTokenizerBase:
    """Return the tokenizer that was named for a served model, or that of the server's name for it, which often is a
    folder or a hub id.

    Raises:
        ModelError: there is none.
    """
    place = dict(settings.served.tokenizers).get(spec.name, model)
    if not isinstance(place, str):
        return place
    path, on_hub = Path(place).expanduser(), hub_parts(place)
    if path.is_dir():
        where = ModelSpec(spec.name, place, "directory", str(path.resolve()))
    elif on_hub is not None:
        where = ModelSpec(spec.name, place, "hub", on_hub[0], revision=on_hub[1])
    else:
        raise ModelError(_NO_TOKENIZER.format(spec.name, f"no directory {brief(place)}"))
    try:
        return load_tokenizer(where, settings)
    except ModelError as error:
        raise ModelError(_NO_TOKENIZER.format(spec.name, error)) from None
