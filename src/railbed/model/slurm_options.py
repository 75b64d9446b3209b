"""Options of sbatch and srun that railbed sets itself, or cannot work with, in every form that Slurm accepts.

Slurm reads options as getopt_long does: a long name may be abbreviated, letters without a value may be joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

FLAGS = frozenset("hHkOQsuvVW")
"""Letters of sbatch that take no value: others may follow in the same word."""
ONE_RUN = "a run has one job"
OWN_FILES = "railbed writes the output of a job into the folder of its run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedOption:
    """An option that users cannot set."""

    name: str
    letter: str = ""
    variable: str = ""
    """The environment variable with which sbatch takes it, too."""
    why: str
    hint: str = "leave it out"


SBATCH = (
    ReservedOption(
        name="array",
        letter="a",
        variable="SBATCH_ARRAY_INX",
        why=ONE_RUN,
        hint="submit each run with a command of its own",
    ),
    ReservedOption(name="wrap", why="railbed writes the script"),
    ReservedOption(name="output", letter="o", variable="SBATCH_OUTPUT", why=OWN_FILES),
    ReservedOption(name="error", letter="e", variable="SBATCH_ERROR", why=OWN_FILES),
    ReservedOption(name="input", letter="i", variable="SBATCH_INPUT", why="railbed in a job reads no input"),
    ReservedOption(name="open-mode", variable="SBATCH_OPEN_MODE", why=OWN_FILES),
    ReservedOption(
        name="chdir",
        letter="D",
        why="the folder that a job works in shows which run it belongs to",
        hint="run `railbed submit` in the folder where railbed is to work, or set RAILBED_RUNS",
    ),
    ReservedOption(
        name="workdir",
        why="the folder that a job works in shows which run it belongs to",
        hint="run `railbed submit` in the folder where railbed is to work, or set RAILBED_RUNS",
    ),
    ReservedOption(
        name="wait",
        letter="W",
        variable="SBATCH_WAIT",
        why="railbed follows the job itself",
        hint="leave out --no-follow",
    ),
    ReservedOption(
        name="signal", variable="SBATCH_SIGNAL", why="railbed sets the signal", hint="`--notice SECONDS` sets its time"
    ),
    ReservedOption(name="test-only", why="it submits nothing", hint="`railbed submit --dry-run` prints the script"),
    ReservedOption(name="uid", why="a run belongs to the user who submits it"),
    ReservedOption(name="gid", why="a run belongs to the user who submits it"),
)
"""Of sbatch."""
SRUN = (
    *(
        ReservedOption(name=name, why="railbed works with the input and output of its commands on nodes")
        for name in ("input", "output", "error", "label", "pty", "multi-prog")
    ),
    ReservedOption(name="het-group", why="its commands run on single nodes of one job"),
)
"""Of srun."""
HETEROGENEOUS = (":", "hetjob", "packjob")
"""Words that separate the parts of a heterogeneous job."""


def find_reserved(word: str, options: Collection[ReservedOption]) -> ReservedOption | None:
    """Return the reserved option that a word is, or may be; None if it is none of them."""
    if word.startswith("--"):
        name = word[2:].partition("=")[0]
        return next((option for option in options if name and option.name.startswith(name)), None)
    for letter in word[1:]:
        if option := next((option for option in options if option.letter == letter), None):
            return option
        if letter not in FLAGS:
            return None
    return None


def _require_srun_option(word: str) -> str:
    if option := find_reserved(word, SRUN):
        raise ValueError(f"--{option.name} cannot be an option of srun here: {option.why}")
    return word


SrunOption = Annotated[
    str,
    StringConstraints(pattern=r"^--[a-z][a-z0-9-]*(=[^\x00-\x1f\x7f]*)?$"),
    AfterValidator(_require_srun_option),
    Field(json_schema_extra={"x-form": "an option of srun as one word, such as --container-image=FILE"}),
]


def reserved_variables(environment: Mapping[str, str]) -> list[ReservedOption]:
    """Return the reserved options of sbatch that the environment sets."""
    return [option for option in SBATCH if option.variable in environment]
