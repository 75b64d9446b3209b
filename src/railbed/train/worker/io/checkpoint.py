"""The state of training: to the disk while training goes on, back from it, and from one rank to all.

Everything an exact continuation needs is in it: parameters, AdamW's moments, the step, and the speeds that the batch
is shared by. The order of the data, the learning rate and the random numbers are functions of seed and step.
"""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from railbed.collective.base import Collective
from railbed.errors import CheckpointDamaged, os_reason
from railbed.launch.messages import Messages
from railbed.train.spec import RankSpec
from railbed.train.state.checkpoints import Written, folder_of, publish, survey, verified, write_synced
from railbed.train.worker.io.tensorfile import read_tensors, write_tensors
from railbed.train.worker.models.gpt import Gpt
from railbed.train.worker.optimiser import set_step, state_tensors

MODEL, OPTIMISER, STATE = "model.safetensors", "optimiser.safetensors", "state.json"


class State:
    """A model and its optimiser, as named tensors; where they are, they are changed in place."""

    def __init__(self, model: Gpt, optimiser: torch.optim.Optimizer, names: Sequence[str] = ()) -> None:
        self._optimiser = optimiser
        self.names = names
        device = next(model.parameters()).device
        self.paces = torch.zeros(len(names), dtype=torch.float64, device=device)
        """The speeds of the ranks that the global batch is shared by (`Split.paces`); 0 where none was measured yet."""
        rows = model.shape.vocabulary
        self.model = {name: _without_padding(name, p.detach(), rows) for name, p in model.named_parameters()}
        self.moments = {
            name: _without_padding(name, tensor, rows) for name, tensor in state_tensors(model, optimiser).items()
        }
        set_step(optimiser, 0)

    def load(self, path: Path, step: int) -> None:
        """Take the state of a folder; raise CheckpointDamaged where it is not whole or not of this model."""
        verified(path)
        for name, ours in ((MODEL, self.model), (OPTIMISER, self.moments)):
            theirs, _ = read_tensors(path / name)
            if {key: tensor.shape for key, tensor in theirs.items()} != {key: t.shape for key, t in ours.items()}:
                raise CheckpointDamaged(f"checkpoint {path} is of another model than this recipe's")
            for key, tensor in ours.items():
                tensor.copy_(theirs[key])
        self.paces.copy_(torch.tensor(_paces(path, self.names), dtype=torch.float64))
        set_step(self._optimiser, step)

    def share(self, collective: Collective, source: int, step: int) -> None:
        """Give the source's state to all ranks; at step 0 there are no moments and speeds yet."""
        for tensor in self.model.values():
            collective.broadcast(tensor, source)
        if step > 0:
            for tensor in (*self.moments.values(), self.paces):
                collective.broadcast(tensor, source)
        set_step(self._optimiser, step)


def _paces(path: Path, names: Sequence[str]) -> list[float]:
    """Return the speeds of the ranks as they were saved; raise CheckpointDamaged where they are not numbers."""
    try:
        paces = json.loads((path / STATE).read_bytes()).get("paces", {})
        return [float(paces.get(name, 0.0)) for name in names]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise CheckpointDamaged(f"checkpoint {path}: {STATE} is damaged") from None


def _without_padding(name: str, tensor: torch.Tensor, rows: int) -> torch.Tensor:
    return tensor[:rows] if name.endswith("wte.weight") else tensor


class Saver:
    """Saves states of one rank from a copy in main memory, in a thread."""

    def __init__(self, job: RankSpec, state: State, messages: Messages) -> None:
        self._job, self._state, self._messages = job, state, messages
        self._folder = Path(job.checkpoints)
        self._copies: dict[str, dict[str, torch.Tensor]] = {}
        self._paces: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self.last_step = -1
        """The last step whose state was handed over."""

    @property
    def busy(self) -> bool:
        """Say whether the state before is still being written."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait until nothing is being written."""
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
        for part, tensors in ((MODEL, self._state.model), (OPTIMISER, self._state.moments)):
            kept = self._copies.setdefault(part, {})
            for name, tensor in tensors.items():
                if name not in kept:
                    pinned = tensor.device.type == "cuda"
                    kept[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
                kept[name].copy_(tensor, non_blocking=True)
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        told = zip(self._state.names, self._state.paces.tolist(), strict=True)
        self._paces = {name: pace for name, pace in told if pace > 0}

    def _write(self, step: int, stall: float) -> None:
        start = time.perf_counter()
        try:
            saved = publish(self._folder, step, lambda beside: self._fill(beside, step))
        except OSError as error:
            self._messages.send("checkpoint_failed", step=step, sentence=self._why_not(step, error))
        except CheckpointDamaged as error:
            self._messages.send("checkpoint_failed", step=step, sentence=f"{error.message}; training goes on")
        else:
            seconds = time.perf_counter() - start
            fields = {"step": step, "hash": saved.hash, "bytes": saved.size, "folder": str(saved.path)}
            self._messages.send("checkpoint", **fields, seconds=seconds, stall_seconds=stall)

    def _fill(self, beside: Path, step: int) -> dict[str, Written]:
        files = {name: write_tensors(beside / name, tensors, {}) for name, tensors in self._copies.items()}
        recipe = self._job.recipe
        samples = step * recipe["batch"]["sequences"]
        state = {"step": step, "run": self._job.run, "samples": samples, "recipe": recipe, "paces": self._paces}
        files[STATE] = write_synced(beside / STATE, json.dumps(state, sort_keys=True, indent=1).encode())
        return files

    def _why_not(self, step: int, error: OSError) -> str:
        reason = os_reason(error)
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            tensors = [tensor for part in self._copies.values() for tensor in part.values()]
            needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            free = shutil.disk_usage(self._folder).free if self._folder.exists() else 0
            reason += f" ({needed / 1e9:.2f} GB are needed, {free / 1e9:.2f} GB are free)"
        good = survey(self._folder).good
        rest = f"the last good one is step {good[0].step}" if good else "there is none yet"
        return f"the checkpoint of step {step} was not kept in {self._folder}: {reason}; training goes on, {rest}"


def resume(job: RankSpec, state: State, collective: Collective, told: Callable[[int], None]) -> int:
    """Bring all ranks to the same state, that of the checkpoint or the beginning; return its step."""
    source, step = (job.resume.rank, job.resume.step) if job.resume else (0, 0)
    if job.resume and job.rank == source:
        state.load(folder_of(Path(job.checkpoints), step), step)
    state.share(collective, source, step)
    if job.resume:
        told(step)
    return step
