"""How to log in to a device, and where its secrets are found. A secret itself is never in the cluster file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from railbed.model.cluster.part import Part
from railbed.model.cluster.values import TcpPort, Text, Whole
from railbed.model.slurm_options import SrunOption


class Secret(Part):
    """Where to find a password or passphrase. The secret itself is never in the file."""

    env: str | None = None
    """Name of the environment variable with the secret."""
    keyring: Text | None = None
    """Entry in the desktop's keyring, as `service/user`."""
    prompt: Text | None = None
    """Question to ask on the terminal, once for each question, for example `password of admin on the Nexus`."""

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if sum(place is not None for place in (self.env, self.keyring, self.prompt)) != 1:
            raise ValueError("give exactly one of env, keyring and prompt")
        return self

    @field_validator("env")
    @classmethod
    def _looks_like_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("must be the name of an environment variable, not the secret itself")
        return value


class Login(Part):
    """How to log in. Anything not set here comes from the user's OpenSSH configuration and agent."""

    user: Text | None = None
    """Account on the machine."""
    port: TcpPort | None = None
    """Port of its SSH server."""
    jump: Text | None = None
    """Jump host, as `[user@]host[:port]`."""
    key: Text | None = None
    """Private key file, for example `~/.ssh/id_ed25519`."""
    known_hosts: Text | None = None
    """File of known host keys, in place of the user's own."""
    password: Secret | None = None
    """Where to find the password, if keys are not used."""
    passphrase: Secret | None = None
    """Where to find the passphrase of `key`."""
    sudo: Secret | None = None
    """Where to find the password for sudo, if the account is not root and sudo needs one."""
    slurm_job: Annotated[Whole, Field(ge=1)] | None = None
    """Slurm job through which nodes are reached, with `srun` and by Slurm's names, in place of SSH."""
    slurm_options: tuple[SrunOption, ...] | None = None
    """Further options of `srun` for everything on the nodes of a Slurm job, such as `--container-image=FILE`."""

    def over(self, default: Login) -> Login:
        """Return this login, completed from a default."""
        return Login(**{**default.model_dump(exclude_none=True), **self.model_dump(exclude_none=True)})
