"""The life of a rank: join the others, adapt to the hardware, restore the state, train, save, finish."""

from __future__ import annotations

import gc
import math
import time
from collections import deque
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import torch

from railbed.collective.choose import EngineChoice
from railbed.collective.connect import connect
from railbed.collective.group import Collective
from railbed.collective.rendezvous import Rendezvous, alarm_to
from railbed.errors import DataError, RankFailed, os_reason
from railbed.launch.messages import Messages
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.state.checkpoints import folder_of
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.hardware import TYPES, choose, device_of, keep_freed_memory
from railbed.train.worker.io.corpus import Corpus, open_tokens
from railbed.train.worker.io.export import export, export_adapter, origin_of
from railbed.train.worker.io.saver import Saver
from railbed.train.worker.memory import MicroBatches, is_out_of_memory, savings
from railbed.train.worker.models.base import BuildOptions, LanguageModel, build_model
from railbed.train.worker.models.sample import generate
from railbed.train.worker.observe.counters import CounterReporter
from railbed.train.worker.observe.progress import ProgressReporter
from railbed.train.worker.parallel.choose import strategy_of
from railbed.train.worker.rebalance import Rebalancer
from railbed.train.worker.schedule import Schedule, validation_loss
from railbed.train.worker.step import Stepper, StepResult
from railbed.train.worker.traffic import run_traffic

SIGNS_OF_A_LOST_PEER = ("gloo", "nccl", "connection closed", "connection reset", "timed out", "socket")
MAX_LOSS = 700.0
"""The largest loss whose perplexity is a number."""
COLLECT_EVERY = 500
"""Steps between two garbage collections, which would otherwise interrupt steps for up to half a second."""


def run(job: TrainSpec, messages: Messages) -> None:
    """Run the job; raise RankFailed, with `peer` if another rank is the cause."""
    tokens = None if job.settings.traffic else open_tokens(Path(job.tokens))
    settings = job.settings.for_vocabulary(tokens.vocabulary) if tokens else job.settings
    device = device_of(job)
    if device.type == "cpu":
        keep_freed_memory()
    messages.phase = "joining"
    sizes = strategy_of(settings).message_sizes(settings)
    collective, choice = connect(job.transport, Rendezvous.of(job), device, sizes, alarm_to(messages))
    if job.rank == 0:
        _send_choice(choice, messages)
    try:
        if tokens is None:
            run_traffic(settings, collective, device, messages, CounterReporter.of(job, collective, messages))
        else:
            TrainingLoop(job, settings, tokens, messages, collective=collective, device=device).run()
        collective.close()
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise _out_of_memory(settings, device, messages.phase) from None
        text = str(error)
        if collective.world > 1 and any(sign in text.lower() for sign in SIGNS_OF_A_LOST_PEER):
            sentence = f"rank {job.rank} lost another rank after step {messages.step}: {text.strip()[:300]}"
            raise RankFailed(sentence, peer=True) from error
        raise


def _out_of_memory(settings: Recipe, device: torch.device, phase: str) -> RankFailed:
    """Return the end of a rank whose memory is too small; in training, another attempt would end in the same way."""
    if phase not in {"training", "evaluating"}:
        return RankFailed(f"{device} is out of memory while {phase}", hint=savings(settings))
    smallest = f"even with one sequence of {settings.model.context} tokens at a time"
    return RankFailed(f"{device} is out of memory, {smallest}", hint=savings(settings), refused=True)


def _send_choice(choice: EngineChoice, messages: Messages) -> None:
    timings = {engine: [asdict(timing) for timing in tried] for engine, tried in choice.timings.items()}
    messages.send(
        "transport", engine=choice.engine, reason=choice.reason, falls_back=choice.falls_back, timings=timings
    )


class TrainingLoop:
    """One rank's part in training a model."""

    def __init__(
        self,
        job: TrainSpec,
        settings: Recipe,
        tokens: Corpus,
        messages: Messages,
        *,
        collective: Collective,
        device: torch.device,
    ) -> None:
        self.job, self.settings, self.tokens, self.messages = job, settings, tokens, messages
        self.collective = collective
        self._step = job.resume.step if job.resume else 0
        """The step that is being taken. On a GPU, messages are one behind."""
        messages.phase = "loading"
        self._check_data()
        chosen = choose(job, settings, device)
        options = BuildOptions(
            device=device,
            compute=chosen.dtype,
            padded=chosen.padded,
            gradient_checkpointing=settings.gradient_checkpointing,
        )
        self.compute = chosen.dtype
        if settings.precision not in {"auto", chosen.precision}:
            sentence = f"{chosen.device_name} has no {settings.precision}: it computes in {chosen.precision}"
            messages.send("notice", sentence=sentence)
        self.model = model = build_model(settings, options)
        if job.resume is None and job.rank == 0:
            model.initialise(settings.seed)
        optimiser = adamw.make(model, settings.optimiser)
        self.strategy = strategy_of(settings)(model, collective, settings, compiled=chosen.compile)
        self.state = self.strategy.state(optimiser, job.called)
        saves = self.strategy.saves(job)
        self.saver = Saver(job, self.state, messages, settings.model.vocabulary_size) if saves else None
        self.stepper = Stepper(
            settings=settings,
            strategy=self.strategy,
            tokens=tokens,
            optimiser=optimiser,
            device=device,
            shares=job.shares,
            micro=MicroBatches(chosen.micro_limit, report=self._send_shortage),
            scale=self.state.scale,
        )
        self.progress = ProgressReporter(self.stepper, chosen, messages)
        self.counting = CounterReporter.of(job, collective, messages)
        self.rebalancer = Rebalancer(job, self.stepper, self.state, messages)

    def _send_shortage(self, tried: int, limit: int) -> None:
        where = f"{self.stepper.device} ran out of memory in step {self._step}"
        sentence = f"{where} with {tried} sequences at a time; continues with {limit}"
        self.messages.send("micro_batch", step=self._step, sequences=limit, before=tried, sentence=sentence)

    def _check_data(self) -> None:
        context, vocabulary = self.settings.model.context, self.settings.model.vocabulary_size
        if self.tokens.windows(context) < 1:
            raise DataError(f"{self.tokens.train} tokens to train on are fewer than one window of {context}")
        if self.tokens.vocabulary > vocabulary:
            raise DataError(f"the tokenizer has {self.tokens.vocabulary} tokens, the model only {vocabulary}")

    def run(self) -> None:
        """Train from the first step, or the one to resume from, to the last."""
        start = time.monotonic()
        self.progress.send_choices(self.collective.name)
        step = self.job.resume.step if self.job.resume else 0
        checkpoint = folder_of(Path(self.job.checkpoints), step)
        elsewhere = self.job.resume.folder if self.job.resume else ""
        self.strategy.restore(self.state, self.job, folder_of(Path(elsewhere), step) if elsewhere else checkpoint)
        self._agree_on_precision()
        if self.job.resume:
            self.messages.send("resumed", step=step)
        self.messages.step = step
        if self.saver and self.job.resume and not checkpoint.exists():
            self.saver.save(step)
        self.strategy.warm_up()
        self.rebalancer.begin(step)
        if self.job.owes_perplexity:
            self._measure_baseline(step)
        if self.job.owes_evaluation and Schedule(self.settings).evaluation_due(step):
            self._evaluate(step)
        self.messages.phase = "training"
        self._steps(step)
        self.messages.phase = "finishing"
        self._finish()
        self.progress.send_memory()
        loss = self.progress.last_loss
        self.messages.send("rank_done", step=self.settings.steps, loss=loss, seconds=time.monotonic() - start)

    def _agree_on_precision(self) -> None:
        """Note rank 0's type in the state of all ranks, and use a loss scale if one of them computes in fp16."""
        types = list(TYPES.values())
        own = types.index(self.compute) if self.job.rank == 0 else 0
        numbers = torch.tensor([self.compute == torch.float16, own], dtype=torch.float64, device=self.stepper.device)
        self.collective.sum(numbers)
        halves, first = numbers.tolist()
        self.state.compute = types[int(first)]
        if not halves:
            return
        if self.settings.wire == "bf16-feedback":
            sentence = "wire: bf16-feedback cannot be used with fp16, whose gradients overflow at times"
            raise RankFailed(sentence, hint="--set wire=bf16 sends as few bytes", refused=True)
        self.state.scale.use()

    def _steps(self, first: int) -> None:
        schedule = Schedule(self.settings, request=self.job.request)
        waiting: deque[StepResult] = deque()
        lag = 1 if self.stepper.device.type == "cuda" else 0
        before = None
        self.counting.begin(first)
        for step in range(first, self.settings.steps):
            self._step = step + 1
            wants = self.job.rank == 0 and schedule.wants_checkpoint()
            settle = schedule.settles(step + 1)
            extra = self.rebalancer.contribution()
            taken = self.stepper.take(step, wants_checkpoint=wants, extra=extra, settle=settle, start=before)
            before = taken.clock
            waiting.append(taken)
            while len(waiting) > lag:
                oldest = waiting.popleft()
                schedule.read(oldest.step, requested=self.progress.read(oldest))
                self.rebalancer.read(oldest)
            self.rebalancer.apply(taken.step)
            self.counting.report_when_due(self.messages.step)
            if self.saver and schedule.checkpoint_due(taken.step) and (settle or not self.saver.busy):
                schedule.note_saving()
                self.saver.save(taken.step)
            if schedule.evaluation_due(taken.step):
                self._evaluate(taken.step)
                before = None
            if step == first:
                gc.freeze()
                gc.disable()
            elif step % COLLECT_EVERY == 0:
                gc.collect()
        while waiting:
            self.progress.read(waiting.popleft())
        self.counting.end(self.messages.step)

    def _evaluate(self, step: int) -> None:
        start = time.monotonic()
        loss = self._held_out_loss()
        if loss is not None:
            self.messages.send("evaluation", step=step, validation_loss=loss, seconds=time.monotonic() - start)
            if self.is_tuning and step == self.settings.steps:
                self._send_perplexity("after", loss)

    def _held_out_loss(self) -> float | None:
        phase, self.messages.phase = self.messages.phase, "evaluating"
        loss = validation_loss(self.stepper)
        self.messages.phase = phase
        return loss

    @property
    def is_tuning(self) -> bool:
        """Whether the model is one that exists already, which is to become better at something."""
        return self.settings.model.base_folder is not None

    def _measure_baseline(self, step: int) -> None:
        """Measure the model to tune as it was before the first step; a resumed one only if it still can be."""
        untrained = self.model.as_loaded() or (nullcontext() if step == 0 else None)
        if untrained is None or not self.is_tuning or not self.settings.evaluation.every:
            return
        with untrained:
            loss = self._held_out_loss()
        if loss is not None:
            self._send_perplexity("before", loss)

    def _send_perplexity(self, when: Literal["before", "after"], loss: float) -> None:
        self.messages.send("perplexity", when=when, perplexity=math.exp(min(loss, MAX_LOSS)))

    def _finish(self) -> None:
        if self.saver:
            if self.saver.last_step < self.settings.steps:
                self.saver.save(self.settings.steps)
            self.messages.phase = "saving"
            self.saver.wait()
        model = self.strategy.gather()
        if model is None:
            return
        if length := self.settings.data.sample:
            self.messages.phase = "sampling"
            prompt = self.job.prompt or (self.tokens.end_of_text,)
            tokens = generate(model, prompt, length, seed=self.settings.seed)
            self.messages.send("sample", step=self.settings.steps, tokens=tokens)
        if self.job.export:
            self.messages.phase = "exporting"
            self._export(model, Path(self.job.export))

    def _export(self, model: LanguageModel, folder: Path) -> None:
        """Write the weights; if that fails, report it and finish the run anyway."""
        step, end_of_text, tokens = self.settings.steps, self.tokens.end_of_text, Path(self.job.tokens)
        try:
            if origin := origin_of(self.job, self.compute, step):
                export_adapter(model.saved_tensors(), folder, tokens=tokens, origin=origin)
            else:
                export(model, folder, tokens=tokens, end_of_text=end_of_text, step=step)
        except OSError as error:
            sentence = f"the weights were not written to {folder}: {os_reason(error)}"
            self.messages.send("export_failed", sentence=sentence)
        else:
            self.messages.send("exported", folder=str(folder), step=step)
