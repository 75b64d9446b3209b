"""What Slurm reports about a job: its state, and its nodes with their addresses and generic resources.

A job's environment variables are set once and never updated, so Slurm itself is asked. It prints resources such as
`gpu:a100:2(IDX:0-1),nic:1(CNT:1)`.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railbed.errors import DeviceError, TimedOut, ToolMissing, Unreachable, UsageError

ITEM = re.compile(
    r"(?<![\w.+-])(?P<name>[A-Za-z_][\w.-]*+)(?::(?P<kind>[A-Za-z_][\w.+-]*+))?"
    r":(?P<count>\d{1,9}+[KMGTP]?+)(?:\((?P<detail>[^()]*+)\))?",
    re.ASCII,
)
RANGE = re.compile(r"(?P<first>\d{1,4}+)(?:-(?P<last>\d{1,4}+))?", re.ASCII)
INDICES = "IDX:"
NO_GRES = "--gres=none"
"""Of a step where Slurm manages GPUs and the job has none."""
GPU = "gpu"
PARTS_OF_A_GPU = ("mps", "shard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """Resources of one name and type."""

    name: str
    kind: str
    count: str
    """As Slurm prints it: with a suffix such as K, if it is large."""
    indices: tuple[int, ...] = ()
    """Which of the node's resources of this name they are, if Slurm counts them."""

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


def parse_gres(text: str) -> list[Gres]:
    """Read a list of resources; what is not one, such as `(null)`, is left out."""
    return [
        Gres(name=item["name"], kind=item["kind"] or "", count=item["count"], indices=_indices(item["detail"] or ""))
        for item in ITEM.finditer(text)
        if item["count"].strip("0")
    ]


def step_options(resources: Sequence[Gres]) -> tuple[str, ...]:
    """Return the options with which a step on one node gets all GPUs of these resources, and the rest of them.

    Only `--gpus` without a type works for every way to request GPUs, and if nodes have different numbers of them: Slurm
    22.05 refuses `--gres=gpu:2` in a job with `--gpus=3`, and a type that the job did not name.
    """
    if not resources:
        return (NO_GRES,)
    gpus = sum(int(gres.count) for gres in resources if gres.name == GPU and gres.count.isdigit())
    others = ",".join(str(gres) for gres in resources if gres.name != GPU)
    return (f"--gpus={gpus}", *((f"--gres={others}",) if others else ())) if gpus else ()


def gpus_of(resources: Iterable[Gres]) -> tuple[int, ...]:
    """Return the numbers of the GPUs among resources; a job with parts of GPUs has one, whose number Slurm hides."""
    resources = list(resources)
    indices = sorted({index for gres in resources if gres.name == GPU for index in gres.indices})
    if not indices and any(gres.name in PARTS_OF_A_GPU for gres in resources):
        return (0,)
    return tuple(indices)


def _indices(detail: str) -> tuple[int, ...]:
    if not detail.startswith(INDICES):
        return ()
    return tuple(index for part in detail.removeprefix(INDICES).split(",") for index in _range(part))


def _range(text: str) -> Iterator[int]:
    if match := RANGE.fullmatch(text):
        yield from range(int(match["first"]), int(match["last"] or match["first"]) + 1)


ANSWER_SECONDS = 30.0
RUNNING = "RUNNING"
NO_SETTINGS = "Could not establish a configuration source"
NO_CONTROLLER = (
    "Unable to contact slurm controller",
    "Slurm backup controller in standby mode",
    "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received",
    "Communication connection failure",
    "Message send failure",
    "Message receive failure",
)
"""What commands of Slurm print if the controller is down, frozen or cut off."""
NO_SUCH_JOB = "Invalid job id specified"
JOBS_HINT = "`squeue` lists your jobs"
OWN_SETTINGS = ("SLURM_", "SQUEUE_", "SINFO_", "SCONTROL_", "SRUN_", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV")
NODE = re.compile(
    r"^NodeName=(?P<name>\S++) (?>(?:.*?\bGres=(?P<gres>\S++))?).*?\bNodeAddr=(?P<address>\S++)", re.MULTILINE
)
SHARE = re.compile(r"^ ++Nodes=(?P<names>\S++) CPU_IDs=\S*+ Mem=\S*+ GRES=(?P<gres>\S*+)$", re.MULTILINE)
"""What a job has of some nodes that are alike, in the details of the job."""
STATE = re.compile(
    r"^NodeName=(?P<name>\S++) .*?\bState=(?P<state>\S++)(?:.*?\bReason=(?P<reason>[^\[\n]++))?", re.MULTILINE
)
COMPLAINT = re.compile(r"^(?:[a-z_]++: )?(?:fatal|error|slurm_\w++ error): ", re.MULTILINE)


class SlurmSilent(Unreachable):
    """Slurm did not answer, or there is none here: that says nothing about what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A running job."""

    id: int
    nodes: dict[str, str]
    """The address of each node that the job has now, by Slurm's name of it."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The options of `srun` with which a step gets the GPUs that the job has on a node."""
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The numbers of the GPUs that it has on a node; nodes whose GPUs Slurm does not manage are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A node, as `scontrol` shows it."""

    name: str
    address: str
    gres: list[Gres]

    @property
    def has_gpus(self) -> bool:
        """Whether Slurm manages its GPUs."""
        return any(gres.name == GPU for gres in self.gres)


def slurm_environment() -> dict[str, str]:
    """Return our environment without what the job sets for its own steps, and what changes the output of commands.

    Nor does it change what a submitted job gets: variables of sbatch override the options of its script.
    """
    return {
        name: value for name, value in os.environ.items() if name == "SLURM_CONF" or not name.startswith(OWN_SETTINGS)
    }


async def read_job(job: int) -> SlurmJob:
    """Return a running job; raise UsageError if it does not run."""
    # Tasks of an array have numbers of their own, and asking for the array's number lists all of them.
    listed = await ask_slurm("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%A|%T|%N|%r")
    rows = [line.split("|") for line in listed.splitlines()]
    row = next((row for row in rows if len(row) == 4 and row[0].strip() == str(job)), None)
    if row is None:
        raise UsageError(f"Slurm: {NO_SUCH_JOB}: {job}", hint=JOBS_HINT)
    _, state, names, reason = row
    if state != RUNNING or not names:
        why = f" ({reason})" if reason not in ("", "None") else ""
        raise UsageError(f"job {job} does not run: Slurm reports it as {state}{why}", hint=JOBS_HINT)
    shown = shown_nodes(await ask_slurm("scontrol", "--oneliner", "show", "node", names))
    shares = await _shares(job) if any(node.gres for node in shown) else {}
    return SlurmJob(
        id=job,
        nodes={node.name: _resolve(node.address) for node in shown},
        options={node.name: step_options(shares.get(node.name, ())) for node in shown if node.has_gpus},
        gpus={node.name: gpus_of(shares.get(node.name, ())) for node in shown if node.has_gpus},
    )


async def _shares(job: int) -> dict[str, list[Gres]]:
    """Return the generic resources that a job has on each node."""
    shown = shown_shares(await ask_slurm("scontrol", "--details", "show", "job", str(job)))
    return {
        name: resources
        for names, resources in shown.items()
        for name in (await ask_slurm("scontrol", "show", "hostnames", names)).split()
    }


def shown_nodes(text: str) -> list[ShownNode]:
    """Read `scontrol --oneliner show node`."""
    return [
        ShownNode(name=match["name"], address=match["address"], gres=parse_gres(match["gres"] or ""))
        for match in NODE.finditer(text)
    ]


def shown_reports(text: str) -> dict[str, str]:
    """Read the state of each node, with the reason for it, from `scontrol --oneliner show node`."""
    return {
        match["name"]: " ".join(filter(None, (match["state"], (match["reason"] or "").strip())))
        for match in STATE.finditer(text)
    }


def shown_shares(text: str) -> dict[str, list[Gres]]:
    """Read what a job has of its nodes from `scontrol --details show job`; nodes that are alike share a line."""
    return {match["names"]: parse_gres(match["gres"]) for match in SHARE.finditer(text)}


async def lost_nodes(nodes_at_start: str, job: SlurmJob) -> dict[str, str]:
    """Return the nodes that a job had when it started and does not have now, with what Slurm reports about them."""
    reports = shown_reports(await ask_slurm("scontrol", "--oneliner", "show", "node", nodes_at_start))
    return {name: report for name, report in reports.items() if name not in job.nodes}


def complaint(stderr: str) -> str:
    """Return the reason that a command of Slurm gives for its failure, without the command's own name."""
    for line in stderr.splitlines():
        if match := COMPLAINT.match(line):
            return line[match.end() :].strip()
    return stderr.strip().partition("\n")[0]


async def ask_slurm(*command: str, folder: Path | None = None) -> str:
    """Return what a command of Slurm prints; raise with Slurm's own reason if it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=slurm_environment(), cwd=folder
        )
    except FileNotFoundError:
        raise ToolMissing(
            f"{command[0]} is not installed here", hint="`apt-get install slurm-client` installs it on Debian"
        ) from None
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        raise TimedOut(f"Slurm did not answer `{command[0]}` within {ANSWER_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        stderr = err.decode(errors="replace")
        raise _refusal(stderr, complaint(stderr) or f"{command[0]} ended with {process.returncode}")
    return out.decode(errors="replace")


def _refusal(stderr: str, reason: str) -> DeviceError | UsageError:
    if NO_SETTINGS in stderr:
        hint = "work on a machine of the Slurm cluster, or set SLURM_CONF to its slurm.conf"
        return SlurmSilent(
            "Slurm has no settings on this machine: it found neither slurm.conf nor a controller", hint=hint
        )
    if any(sentence in reason for sentence in NO_CONTROLLER):
        return SlurmSilent(f"Slurm: {reason}", hint="`scontrol ping` shows whether its controller is up")
    if reason.startswith(NO_SUCH_JOB):
        return UsageError(f"Slurm: {reason}", hint=JOBS_HINT)
    return Unreachable(f"Slurm: {reason}")


def _resolve(address: str) -> str:
    """Return the IPv4 address of a name, so that its network is recognised as the one that Slurm itself uses."""
    try:
        return socket.gethostbyname(address)
    except OSError:
        return address
