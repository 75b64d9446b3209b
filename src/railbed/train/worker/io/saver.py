"""Saves checkpoints in the background, from a copy in main memory, while training continues.

A rank has a part of the training state, as named tensors. An exact continuation needs the parameters, AdamW's moments,
the step, the speeds that determine the split, and the loss scale of fp16. The order of the data, the learning rate and
random numbers are functions of seed and step.
"""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from railbed.errors import CheckpointDamaged, os_reason
from railbed.launch.messages import Messages
from railbed.model.text import size
from railbed.train.spec import TrainSpec
from railbed.train.state.checkpoints import Checkpoint, Written, copy, publish, read_checkpoint, survey, write_synced
from railbed.train.worker.hardware import type_name
from railbed.train.worker.io.tensorfile import read_tensors, write_tensors
from railbed.train.worker.memory import LossScale
from railbed.train.worker.models.base import copy_matching
from railbed.train.worker.optimiser import set_step

MODEL, OPTIMISER, STATE = "model.safetensors", "optimiser.safetensors", "state.json"


class State:
    """Tensors that are saved and restored in place."""

    def __init__(
        self,
        files: Mapping[str, Mapping[str, torch.Tensor]],
        optimiser: torch.optim.Optimizer,
        names: Sequence[str],
        device: torch.device,
    ) -> None:
        self.files = files
        """The tensors of each file of a checkpoint."""
        self.names = names
        self.paces = torch.zeros(len(names), dtype=torch.float64, device=device)
        """Seconds per sequence of each rank, which determine the split (`Split.paces`); 0: not measured."""
        self.scale = LossScale()
        self.compute = torch.float32
        """The type that rank 0 computes in: adapters of a quantised model fit weights that were rounded from it."""
        self._optimiser = optimiser
        set_step(optimiser, 0)

    def load(self, path: Path) -> None:
        """Load a checkpoint; raise CheckpointDamaged if it is incomplete, damaged or of another model."""
        read_checkpoint(path)
        for file, tensors in self.files.items():
            try:
                copy_matching(tensors, read_tensors(path / file)[0])
            except CheckpointDamaged as error:
                raise CheckpointDamaged(f"checkpoint {path}: {error.message}") from None
        try:
            saved = json.loads((path / STATE).read_bytes())
            paces = [float(saved.get("paces", {}).get(name, 0.0)) for name in self.names]
            self.scale.restore(saved.get("loss_scale", {}))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            raise CheckpointDamaged(f"checkpoint {path}: {STATE} is damaged") from None
        self.paces.copy_(torch.tensor(paces, dtype=torch.float64))

    def share_scale(self, broadcast: Callable[[torch.Tensor], None]) -> None:
        """Continue with the loss scale of the rank that loaded the state."""
        numbers = torch.tensor(self.scale.numbers(), dtype=torch.float64, device=self.paces.device)
        broadcast(numbers)
        self.scale.set_numbers(numbers.tolist())

    def set_step(self, step: int) -> None:
        """Set the number of steps that training has taken; the optimiser has not taken those that were skipped."""
        set_step(self._optimiser, step - self.scale.skipped)


class Saver:
    """Saves the state of one rank, in a thread."""

    def __init__(self, job: TrainSpec, state: State, messages: Messages, vocabulary: int) -> None:
        self._job, self._state, self._messages, self._vocabulary = job, state, messages, vocabulary
        self._folder = Path(job.checkpoints)
        self._copies: dict[str, dict[str, torch.Tensor]] = {}
        self._paces: dict[str, float] = {}
        self._scale: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self.last_step = -1
        """The last step whose state was copied for saving."""

    @property
    def busy(self) -> bool:
        """Return whether the previous state is still being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait until everything is written."""
        if self._thread is not None:
            self._thread.join()

    def save(self, step: int) -> None:
        """Copy the state and write it in the background."""
        self.wait()
        start = time.perf_counter()
        self._copy()
        stall = time.perf_counter() - start
        self.last_step = step
        self._thread = threading.Thread(target=self._write, args=(step, stall), name="saver", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        for file, tensors in self._state.files.items():
            copies = self._copies.setdefault(file, {})
            for name, tensor in tensors.items():
                if name not in copies:
                    pinned = tensor.device.type == "cuda"
                    copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
                copies[name].copy_(tensor, non_blocking=True)
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        paces = zip(self._state.names, self._state.paces.tolist(), strict=True)
        self._paces = {name: pace for name, pace in paces if pace > 0}
        self._scale = self._state.scale.to_plain()

    def _write(self, step: int, stall: float) -> None:
        start = time.perf_counter()
        try:
            saved = publish(self._folder, step, lambda beside: self._fill(beside, step))
        except OSError as error:
            self._messages.send("checkpoint_failed", step=step, sentence=self._why_not(step, error))
        except CheckpointDamaged as error:
            self._messages.send("checkpoint_failed", step=step, sentence=f"{error.message}; training continues")
        else:
            seconds = time.perf_counter() - start
            fields = {"step": step, "hash": saved.hash, "bytes": saved.size, "folder": str(saved.path)}
            self._messages.send("checkpoint", **fields, seconds=seconds, stall_seconds=stall)
            resumed = self._job.resume
            is_copy = resumed is not None and resumed.folder == self._job.shared and resumed.step == step
            if self._job.shared and self._job.rank == 0 and not is_copy:
                self._copy_to(Path(self._job.shared), saved)

    def _copy_to(self, folder: Path, saved: Checkpoint) -> None:
        """Copy a checkpoint to the folder that all nodes share, where it survives the loss of them."""
        start = time.perf_counter()
        try:
            there = copy(saved, folder)
        except (OSError, CheckpointDamaged) as error:
            reason = os_reason(error) if isinstance(error, OSError) else error.message
            sentence = f"the checkpoint of step {saved.step} was not copied to {folder}: {reason}; training continues"
            self._messages.send("checkpoint_failed", step=saved.step, sentence=sentence)
        else:
            fields = {"step": there.step, "bytes": there.size, "folder": str(there.path)}
            self._messages.send("checkpoint_copied", **fields, seconds=time.perf_counter() - start)

    def _fill(self, beside: Path, step: int) -> dict[str, Written]:
        files = {name: write_tensors(beside / name, tensors, {}) for name, tensors in self._copies.items()}
        recipe = self._job.recipe
        state = {
            "step": step,
            "run": self._job.run,
            "samples": step * recipe["batch"]["sequences"],
            "recipe": recipe,
            "vocabulary": self._vocabulary,
            "paces": self._paces,
            "compute_dtype": type_name(self._state.compute),
            **({"loss_scale": self._scale} if self._scale else {}),
        }
        files[STATE] = write_synced(beside / STATE, json.dumps(state, sort_keys=True, indent=1).encode())
        return files

    def _why_not(self, step: int, error: OSError) -> str:
        reason = os_reason(error)
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            tensors = [tensor for part in self._copies.values() for tensor in part.values()]
            needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            free = shutil.disk_usage(self._folder).free if self._folder.exists() else 0
            reason += f" ({size(needed)} are needed, {size(free)} are free)"
        good = survey(self._folder).good
        rest = f"the last intact checkpoint is step {good[0].step}" if good else "there is no checkpoint yet"
        return f"the checkpoint of step {step} was not saved in {self._folder}: {reason}; training continues, {rest}"
