"""The life of a rank: choose for the hardware, join the others, take the state, train, save, finish."""

from __future__ import annotations

import gc
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

import torch

from railbed.collective.base import Collective
from railbed.collective.choose import Choice
from railbed.collective.connect import connect
from railbed.collective.rendezvous import Rendezvous, alarm_to
from railbed.collective.timing import sizes_of
from railbed.errors import DataError, RankFailed, os_reason
from railbed.launch.messages import Messages
from railbed.train.capacity.estimate import parameter_count
from railbed.train.settings import Settings
from railbed.train.spec import RankSpec
from railbed.train.state.checkpoints import folder_of
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.evaluate import validation_loss
from railbed.train.worker.hardware import Chosen, choose, device_of
from railbed.train.worker.io.checkpoint import Saver, State, resume
from railbed.train.worker.io.export import export
from railbed.train.worker.io.tokenfile import Tokens
from railbed.train.worker.models.gpt import Gpt, Shape
from railbed.train.worker.models.sample import generate
from railbed.train.worker.observe.counters import Counting
from railbed.train.worker.observe.progress import Account
from railbed.train.worker.parallel.gradients import Hook
from railbed.train.worker.rebalance import Sharing
from railbed.train.worker.schedule import Schedule
from railbed.train.worker.step import BUCKET_MEGABYTES, Stepper, Taken, wrapped
from railbed.train.worker.traffic import run_traffic

SIGNS_OF_A_LOST_PEER = ("gloo", "nccl", "connection closed", "connection reset", "timed out", "socket")
COLLECT_EVERY = 500
"""Steps between two sweeps of the garbage collector, which stands still otherwise: it halts for up to half a second."""


def run(job: RankSpec, messages: Messages) -> None:
    """Do the job; raise RankFailed, with `peer` where another rank is the cause."""
    settings = job.settings
    device = device_of(job)
    messages.phase = "joining"
    sizes = sizes_of(_gradient_bytes(job, settings), BUCKET_MEGABYTES << 20)
    collective, choice = connect(job.transport, _rendezvous(job), device, sizes, alarm_to(messages))
    if job.rank == 0:
        _tell(choice, messages)
    try:
        if settings.traffic:
            run_traffic(settings, collective, device, messages, Counting.of(job, collective, messages))
        else:
            Training(job, settings, messages, collective, device).run()
        collective.close()
    except torch.OutOfMemoryError:
        limit = "batch.micro to a smaller number, or gradient_checkpointing: true"
        raise RankFailed(f"the memory of {device} is full; set {limit}") from None
    except RuntimeError as error:
        text = str(error)
        if collective.world > 1 and any(sign in text.lower() for sign in SIGNS_OF_A_LOST_PEER):
            sentence = f"rank {job.rank} lost another rank after step {messages.step}: {text.strip()[:300]}"
            raise RankFailed(sentence, peer=True) from error
        raise


def _rendezvous(job: RankSpec) -> Rendezvous:
    return Rendezvous(
        address=job.master_address,
        port=job.master_port,
        name=f"{job.run}/{job.generation}",
        rank=job.rank,
        world=job.world,
        interface=job.interface,
        timeout=job.timeout_seconds,
        secret=job.secret,
        node=job.node,
        machine=job.rank - job.local_rank,
        no_rdma=job.no_rdma,
    )


def _gradient_bytes(job: RankSpec, settings: Settings) -> int:
    """Return what a step's gradients take, as far as it is known before there is a model."""
    if settings.traffic:
        return settings.traffic.gradient_bytes
    model, given = settings.model, settings.model.vocabulary
    vocabulary = Tokens.open(Path(job.tokens)).vocabulary if given == "auto" else given
    return 4 * parameter_count(layers=model.layers, width=model.width, context=model.context, vocabulary=vocabulary)


def _tell(choice: Choice, messages: Messages) -> None:
    timings = {engine: [asdict(timing) for timing in tried] for engine, tried in choice.timings.items()}
    told = {"engine": choice.engine, "reason": choice.reason, "falls_back": choice.falls_back, "timings": timings}
    messages.send("transport", **told)


class Training:
    """One rank's part in training one model."""

    def __init__(
        self, job: RankSpec, settings: Settings, messages: Messages, collective: Collective, device: torch.device
    ) -> None:
        self.job, self.settings, self.messages, self.collective = job, settings, messages, collective
        messages.phase = "loading"
        self.tokens = Tokens.open(Path(job.tokens))
        given = settings.model.vocabulary
        vocabulary = self.tokens.vocabulary if given == "auto" else given
        self._check_data(vocabulary)
        self.chosen = choose(job, settings, device, vocabulary)
        self.model = Gpt.empty(_shape(settings, self.chosen, vocabulary), device)
        if job.resume is None and job.rank == 0:
            self.model.initialise(settings.seed)
        self.optimiser = adamw.make(self.model, settings.optimiser)
        self.state = State(self.model, self.optimiser, job.called)
        self.saver = Saver(job, self.state, messages) if job.saves else None
        hook = Hook(collective, settings.wire)
        self.stepper = Stepper(
            settings=settings,
            model=self.model,
            collective=collective,
            tokens=self.tokens,
            optimiser=self.optimiser,
            device=device,
            shares=job.shares,
            micro_limit=self.chosen.micro_limit,
            runner=wrapped(self.model, hook, collective, compiled=self.chosen.compile),
            hook=hook,
        )
        self.account = Account(self.stepper, self.chosen, messages)
        self.counting = Counting.of(job, collective, messages)
        self.sharing = Sharing(job, self.stepper, self.state, messages)

    def _check_data(self, vocabulary: int) -> None:
        context = self.settings.model.context
        if self.tokens.windows(context) < 1:
            raise DataError(f"{self.tokens.train} tokens to train on are fewer than one window of {context}")
        if self.tokens.vocabulary > vocabulary:
            raise DataError(f"the tokenizer has {self.tokens.vocabulary} tokens, the model only {vocabulary}")

    def run(self) -> None:
        """Train from where the state stands to the last step."""
        start = time.monotonic()
        self.account.tell_choices(self.collective.name)
        step = resume(self.job, self.state, self.collective, lambda at: self.messages.send("resumed", step=at))
        self.messages.step = step
        if self.saver and self.job.resume and not folder_of(Path(self.job.checkpoints), step).exists():
            self.saver.save(step)
        self.stepper.warm_up()
        self.sharing.begin(step)
        if self.job.owes_evaluation and Schedule(self.settings).evaluation_due(step):
            self._evaluate(step)
        self.messages.phase = "training"
        self._steps(step)
        self.messages.phase = "finishing"
        self._finish()
        self.account.tell_memory()
        loss = self.account.last_loss
        self.messages.send("done", step=self.settings.steps, loss=loss, seconds=time.monotonic() - start)

    def _steps(self, first: int) -> None:
        schedule = Schedule(self.settings)
        waiting: deque[Taken] = deque()
        lag = 1 if self.stepper.device.type == "cuda" else 0
        before = None
        self.counting.begin(first)
        for step in range(first, self.settings.steps):
            wants = self.job.rank == 0 and schedule.time_is_up()
            settle = schedule.settles(step + 1)
            tells = self.sharing.tells()
            taken = self.stepper.take(step, wants_checkpoint=wants, tells=tells, settle=settle, start=before)
            before = taken.clock
            waiting.append(taken)
            while len(waiting) > lag:
                oldest = waiting.popleft()
                schedule.read(oldest.step, asked=self.account.read(oldest))
                self.sharing.hear(oldest)
            self.sharing.set(taken.step)
            self.counting.go_on(self.messages.step)
            if self.saver and schedule.checkpoint_due(taken.step) and (settle or not self.saver.busy):
                schedule.saved()
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
            self.account.read(waiting.popleft())
        self.counting.end(self.messages.step)

    def _evaluate(self, step: int) -> None:
        start = time.monotonic()
        phase, self.messages.phase = self.messages.phase, "evaluating"
        loss = validation_loss(self.stepper)
        self.messages.phase = phase
        if loss is not None:
            self.messages.send("evaluation", step=step, validation_loss=loss, seconds=time.monotonic() - start)

    def _finish(self) -> None:
        if self.saver:
            if self.saver.last_step < self.settings.steps:
                self.saver.save(self.settings.steps)
            self.messages.phase = "saving"
            self.saver.wait()
        if self.job.rank != 0:
            return
        if self.job.sample_tokens:
            self.messages.phase = "sampling"
            prompt = self.job.prompt or (self.tokens.end_of_text,)
            tokens = generate(self.model, prompt, self.job.sample_tokens, seed=self.settings.seed)
            self.messages.send("sample", step=self.settings.steps, tokens=tokens)
        if self.job.export:
            self.messages.phase = "exporting"
            self._export(Path(self.job.export))

    def _export(self, folder: Path) -> None:
        """Write the weights; where that fails the run is done all the same, and says so."""
        step, end_of_text = self.settings.steps, self.tokens.end_of_text
        try:
            export(self.model, folder, tokens=Path(self.job.tokens), end_of_text=end_of_text, step=step)
        except OSError as error:
            sentence = f"the weights were not written to {folder}: {os_reason(error)}"
            self.messages.send("export_failed", sentence=sentence)
        else:
            self.messages.send("exported", folder=str(folder), step=step)


def _shape(settings: Settings, chosen: Chosen, vocabulary: int) -> Shape:
    model = settings.model
    return Shape(
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        context=model.context,
        vocabulary=vocabulary,
        dropout=model.dropout,
        padded=chosen.padded,
        compute=chosen.dtype,
        gradient_checkpointing=settings.gradient_checkpointing,
    )
