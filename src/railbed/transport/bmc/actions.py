"""What IPMI and Redfish have in common: the login, and power actions, which only a connection for changes accepts."""

from __future__ import annotations

from railbed.errors import DeviceError, LoginRefused
from railbed.model.cluster import Bmc
from railbed.transport.base import Target
from railbed.transport.secret import resolve, secret_place

POWER_CYCLE, POWER_ON = "power cycle", "power on"
POWER_ACTIONS = (POWER_CYCLE, POWER_ON)
"""Scripts of commands that change something; all others only read."""


def login_of(bmc: Bmc) -> tuple[str, str]:
    """Return account and password."""
    if not bmc.user or ":" in bmc.user:
        raise LoginRefused(
            "the cluster file names no `user:` that the BMC accepts", hint="add `user:` to `bmc:` in the cluster file"
        )
    password = resolve(bmc.password)
    if password is None:
        raise LoginRefused(
            "the BMC needs a password, and the cluster file says nowhere to find one",
            hint="name an environment variable: `password: {env: NAME}` under `bmc:`",
        )
    return bmc.user, password


def refused_login(place: str, bmc: Bmc, reason: str) -> LoginRefused:
    """Return the error for an account or password that a BMC does not accept."""
    assert bmc.password is not None
    return LoginRefused(
        f"{place} refused the login of {bmc.user} with the password from {secret_place(bmc.password)} ({reason})",
        hint="is it the password of that account on the BMC, and may the account log in over the network?",
    )


def require_changing(target: Target, script: str) -> None:
    """Refuse a power action over a connection that only reads."""
    if not target.changing:
        raise DeviceError(f"{target.name} is only read here: `{script}` needs `railbed configure --power-cycle`")


def no_programs(device: str, command: str) -> DeviceError:
    """Return the refusal to start a program: ours do not run on a BMC."""
    return DeviceError(f"{device} is a BMC, which cannot run {command.partition(' ')[0]}")
