"""Progress bars for the steps of a training."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_genderbias.scoring.scorer import Progress

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


def show_steps(progress: Progress, label: str, until: ExitStack) -> TrainerCallback:
    """Return a callback of transformers' Trainer that shows the steps of a training on a bar.

    Args:
        progress: shows a bar, given a label, the total number of steps, and the number of completed steps.
        label: label of the bar.
        until: removes the bar when it closes, whether or not the training was completed.
    """
    from transformers import TrainerCallback

    class Bar(TrainerCallback):
        """Advances the bar with each step."""

        def on_train_begin(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
        ) -> None:
            """Show the bar, with the steps that a resumed training has completed."""
            self._advance = until.enter_context(progress(label, state.max_steps, state.global_step))

        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
        ) -> None:
            """Advance the bar by one step."""
            self._advance(1)

    return Bar()
