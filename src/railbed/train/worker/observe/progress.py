"""Reports each step of a rank, its choices and its memory."""

from __future__ import annotations

import resource
from dataclasses import asdict

import torch

from railbed.launch.messages import Messages
from railbed.train.worker.hardware import Chosen
from railbed.train.worker.step import Stepper, StepResult

LEAST_GROWTH = 0.01
"""By how much the peak of memory must have grown to be reported again."""
PARTS = ("data", "forward", "backward", "allreduce_exposed", "optimiser", "other")


class ProgressReporter:
    """Turns steps into messages."""

    def __init__(self, stepper: Stepper, chosen: Chosen, messages: Messages) -> None:
        self._stepper, self._chosen, self._messages = stepper, chosen, messages
        recipe = stepper.settings
        self._flops = recipe.family.flops_per_token(recipe.model)
        self.last_loss: float | None = None
        self._peak = 0

    def send_choices(self, transport: str) -> None:
        """Report this rank's device, precision and batch."""
        stepper, settings = self._stepper, self._stepper.settings
        mine = stepper.part(0).mine
        micro_batches = stepper.micro.cut(mine)
        self._messages.send(
            "chosen",
            **asdict(self._chosen),
            transport=transport,
            parameters=settings.family.parameter_count(settings.model),
            trained_parameters=settings.family.trained_count(settings.model),
            flops_per_token=self._flops,
            sequences=len(mine),
            micro_batch=max((len(part) for part in micro_batches), default=0),
            micro_batches=len(micro_batches),
            global_batch=settings.batch.sequences,
            context=settings.model.context,
            windows=stepper.tokens.windows(settings.model.context),
            vocabulary=settings.model.vocabulary_size,
            gradient_checkpointing=settings.gradient_checkpointing,
            wire=settings.wire,
        )

    def read(self, taken: StepResult) -> bool:
        """Report a step; return whether rank 0 requested a checkpoint. On a GPU this waits for the step."""
        settings = self._stepper.settings
        loss, requests, *_ = taken.sums()
        parts, seconds = taken.clock.parts(), taken.clock.total()
        part, sequences = taken.part, settings.batch.sequences
        speed = part.tokens / seconds
        self.last_loss = loss
        self._messages.step = taken.step
        self._messages.send(
            "progress",
            step=taken.step,
            loss=loss,
            learning_rate=taken.rate,
            gradient_norm=taken.norm(),
            loss_scale=taken.scale,
            tokens_per_second=speed,
            global_tokens_per_second=part.global_tokens / seconds,
            mfu=speed * self._flops / self._chosen.peak_flops if self._chosen.peak_flops else None,
            step_seconds=seconds,
            **{f"{part}_seconds": parts.get(part, 0.0) for part in PARTS},
            bytes_sent=taken.sent_bytes,
            bytes_reduced=taken.reduced_bytes,
            **({"tokens": part.global_tokens, "trained_tokens": part.trained} if settings.model.has_rows else {}),
            samples=[(taken.step - 1) * sequences + end for end in (part.mine.start, part.mine.stop)],
            **self._grown_memory(),
        )
        return bool(requests > 0)

    def send_memory(self) -> None:
        """Report the peak of memory if it grew after the last step."""
        if grown := self._grown_memory():
            self._messages.send("memory", step=self._messages.step, **grown)

    def _grown_memory(self) -> dict[str, int]:
        """Return the peak of memory if it clearly exceeds the one last reported."""
        on_gpu = self._stepper.device.type == "cuda"
        peak = (
            torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        )
        if peak <= self._peak * (1 + LEAST_GROWTH):
            return {}
        self._peak = peak
        return {"peak_memory_bytes": peak}
