"""What the steps of a first contact share: machines side by side, one command on each, one password, errors noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TypeVar

from railbed.discover.account import ContactWishes
from railbed.errors import DeviceError, LoginRefused
from railbed.model.text import plural
from railbed.transport.base import Command, Target, Transport
from railbed.transport.secret import ask_terminal, resolve

AT_ONCE = 32
FULL = ("No space left", "Disk quota exceeded", "I/O error")
R = TypeVar("R")
Problems = dict[str, DeviceError]
"""What is wrong with machines, by their names."""


async def side_by_side(targets: Iterable[Target], work: Callable[[Target], Awaitable[R]]) -> AsyncGenerator[R, None]:
    """Yield the results for machines as they come, a few machines at a time."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def in_turn(target: Target) -> R:
        async with limit:
            return await work(target)

    tasks = [asyncio.create_task(in_turn(target)) for target in targets]
    try:
        for done in asyncio.as_completed(tasks):
            yield await done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def plain(target: Target) -> Target:
    """Return a machine with a login by key alone."""
    return replace(target, login=target.login.model_copy(update={"password": None, "sudo": None}))


async def run_on(target: Target, transport: Transport, command: Command, *, may_fail: bool = False) -> str:
    """Run a command and return what it printed; raise LoginRefused if it failed."""
    async with aclosing(transport.run([command])) as outputs:
        output = await anext(outputs)
    if output.exit == 0 or may_fail:
        return output.text.strip()
    if any(words in output.trouble for words in FULL):
        raise LoginRefused(
            f"the disk of {place_of(target)} is full: {output.trouble}", hint="make room in the home folder"
        )
    raise LoginRefused(f"the account on {place_of(target)} cannot be changed: {output.trouble}")


def place_of(target: Target) -> str:
    return f"{target.host} port {target.login.port}" if target.login.port else target.host


@contextmanager
def noting(problems: Problems, target: Target) -> Iterator[None]:
    """Note an error of a machine: the others go on."""
    try:
        yield
    except DeviceError as error:
        problems[target.name] = error


def ask_password(
    wishes: ContactWishes, targets: Sequence[Target], users: Iterable[str], problems: Problems, *, need: str
) -> str | None:
    """Return the password; without it, that is what is wrong with the machines that need it."""
    machines = place_of(targets[0]) if len(targets) == 1 else plural(len(targets), "machine")
    try:
        if wishes.password:
            return resolve(wishes.password)
        return ask_terminal(f"password of {' and '.join(users)} on {machines}")
    except DeviceError as error:
        hint = error.hint if wishes.password else "name its place: `--password env:NAME` or `keyring:SERVICE/USER`"
        for target in targets:
            problems[target.name] = LoginRefused(f"{place_of(target)} {need}, and {error.message}", hint=hint)
    return None
