"""Trainings that are interrupted."""

from __future__ import annotations

from typing import Any

import transformers


class StopAt(transformers.TrainerCallback):
    """Interrupts a training after a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt
