"""Refuses options of sbatch with which a job would not be that of one run: in the command, and in the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railbed.errors import UsageError
from railbed.model.slurm_options import HETEROGENEOUS, ONE_RUN, SBATCH, reserved, reserved_variables


def refuse_reserved(further: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise UsageError for the first option that `submit` cannot use, with its name and the reason."""
    for word in further:
        if word in HETEROGENEOUS:
            raise UsageError(
                f"--sbatch {word!r} would make a heterogeneous job, which submit cannot use: {ONE_RUN}",
                hint="`--nodes` and `--constraint` choose nodes of one kind",
            )
        if word.startswith("-") and (option := reserved(word, SBATCH)):
            typed = "" if word.startswith(f"--{option.name}") else f" ({word})"
            raise UsageError(f"--sbatch=--{option.name}{typed} cannot be used: {option.why}", hint=option.hint)
    for option in reserved_variables(environment):
        raise UsageError(
            f"{option.variable} is set, and sbatch's --{option.name} cannot be used: {option.why}",
            hint=f"`unset {option.variable}`",
        )
