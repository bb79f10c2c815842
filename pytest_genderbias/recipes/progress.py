"""The steps of a training on a bar, whoever shows it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pytest_genderbias.scoring.engine import Progress


def show_steps(progress: Progress, label: str, until: ExitStack) -> Any:
    """Return a callback of transformers' Trainer that shows the steps of a training.

    Args:
        progress: shows a bar, given a label, how many steps there are, and how many are done.
        label: of the bar.
        until: takes the bar away when it closes, whether or not the training came to its end.
    """
    from transformers import TrainerCallback

    class Bar(TrainerCallback):
        """Moves the bar by each step."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Show it, from the step that a stopped training had come to."""
            self._move = until.enter_context(progress(label, state.max_steps, state.global_step))

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Move it."""
            self._move(1)

    return Bar()
