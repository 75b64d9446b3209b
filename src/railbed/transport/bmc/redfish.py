"""A BMC over Redfish: HTTPS with a pinned or verified certificate, and JSON resources that link to each other.

A command names paths of links, such as `Systems/Members`, from the service's root; the output is one JSON object with
the resources at their ends, by their addresses. Only links below this server are followed, and never a redirect.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from railbed.errors import DeviceError, TimedOut, Unreachable
from railbed.model.reading import MAX_OUTPUT_BYTES, Output
from railbed.transport.base import Command, Forward, Program, Target, Transport
from railbed.transport.batch import PrintsTooMuch, cut_off, unfinished_output
from railbed.transport.bmc.actions import (
    POWER_ACTIONS,
    POWER_CYCLE,
    login_of,
    no_programs,
    refused_login,
    require_changing,
)
from railbed.transport.bmc.resources import ROOT, Resource, is_own_path, links_of, next_page
from railbed.transport.https import CONNECT_SECONDS, HttpAnswer, HttpsServer, ServerWords

WORDS = ServerWords(
    device="BMC",
    key="bmc",
    closed="nothing listens on this port there: is Redfish enabled on the BMC, and is this its HTTPS port?",
)
MAX_REQUESTS = 200
"""For one command: a BMC takes up to a second for each."""
ABSENT = (404, 405, 410, 501)
"""A resource that is linked, but not there: common while the machine is off."""
RESET_TYPES: Mapping[str, tuple[str, ...]] = {POWER_CYCLE: ("PowerCycle", "ForceRestart")}
ON_TYPES = ("On", "ForceOn")

Get = Callable[[str], Awaitable[Resource | None]]


@asynccontextmanager
async def connect_redfish(target: Target, forward: Forward) -> AsyncIterator[Transport]:
    """Verify the certificate and read the root of the service, which needs no login."""
    bmc, login = target.bmc, target.login
    assert bmc is not None
    user, password = login_of(bmc)
    authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    async with AsyncExitStack() as stack:
        tunnel = await stack.enter_async_context(forward(login, bmc.host, bmc.open_port)) if login.jump else ""
        server = HttpsServer(host=bmc.host, trust=bmc, words=WORDS, tunnel=tunnel)
        transport = RedfishTransport(target, server, authorization)
        await transport.greet()
        yield transport


class RedfishTransport:
    """Walks the links of a service; commands that are run together read each resource once."""

    def __init__(self, target: Target, server: HttpsServer, authorization: str) -> None:
        self._target = target
        self._server = server
        self._headers = {"Accept": "application/json", "OData-Version": "4.0", "Authorization": authorization}

    async def greet(self) -> None:
        """Read the root, so that a server that is not a BMC is known at once."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await _Walk(self._get, {}).root()
        except TimeoutError as error:
            raise TimedOut(f"{self._server.place} did not answer within {CONNECT_SECONDS:g} s") from error
        except PrintsTooMuch as error:
            raise Unreachable(f"{self._server.place} does not answer as Redfish does") from error

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands: each line is a path of links, or the only line a power action."""
        known: dict[str, Resource | None] = {}
        for command in commands:
            yield await self._run(command, known)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Refuse: our programs do not run on a BMC."""
        raise no_programs(self._target.name, command)

    async def _run(self, command: Command, known: dict[str, Resource | None]) -> Output:
        sent = time.time()
        walk = _Walk(self._get, known, system=self._target.bmc.system if self._target.bmc else None)
        try:
            async with asyncio.timeout(command.timeout):
                if command.script in POWER_ACTIONS:
                    require_changing(self._target, command.script)
                    await self._switch(command.script, walk)
                else:
                    for line in command.script.split("\n"):
                        await walk.follow(line)
        except TimeoutError:
            return unfinished_output(self._target.name, command, b"", sent)
        except PrintsTooMuch:
            return cut_off(self._target.name, command, b"", b"", sent)
        return Output(
            device=self._target.name,
            key=command.key,
            command=command.script,
            stdout=json.dumps(walk.ends).encode(),
            exit=0,
            sent=sent,
            received=time.time(),
        )

    async def _switch(self, action: str, walk: _Walk) -> None:
        """Reset the only system of the BMC, or the one that the cluster file names."""
        await walk.follow("Systems/Members")
        systems = list(walk.ends.values())
        walk.ends.clear()
        if len(systems) != 1:
            raise DeviceError(
                f"{self._server.place} has {len(systems)} systems, and only one can be the node",
                hint="name it by its `Id`: `bmc: {system: …}`",
            )
        target, kind = _reset_of(systems[0], action, self._server.place)
        body = json.dumps({"ResetType": kind}).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        answer = await self._server.post(target, headers, body)
        self._require_success(answer, f"POST {target}")

    async def _get(self, path: str) -> Resource | None:
        """Read one resource; None if it is not there."""
        answer = await self._server.get(path, self._headers)
        if answer.status in ABSENT:
            return None
        self._require_success(answer, f"GET {path}")
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Unreachable(f"{self._server.place} does not answer as Redfish does: {path} is not a JSON object")
        return value

    def _require_success(self, answer: HttpAnswer, request: str) -> None:
        bmc = self._target.bmc
        assert bmc is not None
        if answer.status in (401, 403):
            raise refused_login(self._server.place, bmc, f"HTTP {answer.status}")
        if 300 <= answer.status < 400:
            raise Unreachable(
                f"{self._server.place} redirects to another address, which is not followed ({request[:200]})",
                hint="name the BMC itself in `bmc: {host: …}`",
            )
        if not 200 <= answer.status < 300:
            raise Unreachable(f"{self._server.place} answered HTTP {answer.status} to {request[:200]}")


class _Walk:
    """What one command reads: the resources at the ends of its paths, and those on the way there."""

    def __init__(self, get: Get, known: dict[str, Resource | None], system: str | None = None) -> None:
        self._get = get
        self._known = known
        self._system = system
        self._requests = 0
        self._bytes = 0
        self.ends: dict[str, Resource] = {}

    async def root(self) -> Resource:
        """Return the root of the service."""
        root = await self._read(ROOT)
        if root is None:
            raise Unreachable(f"it has no Redfish service: {ROOT} is not there")
        return root

    async def follow(self, line: str) -> None:
        """Follow a path of links, and keep the resources at its ends; ` or ` precedes what to follow if it has none."""
        for path in line.split(" or "):
            if ends := await self._ends_of(path):
                self._keep(ends)
                return

    async def _ends_of(self, links: str) -> list[tuple[str, Resource]]:
        level: list[tuple[str, Resource]] = [(ROOT, await self.root())]
        above = ""
        for name in links.split("/"):
            level = [end for _, resource in level for end in await self._below(resource, name)]
            if (above, name) == ("Systems", "Members") and self._system is not None:
                level = [(path, system) for path, system in level if system.get("Id") == self._system]
            above = name
        return level

    def _keep(self, ends: list[tuple[str, Resource]]) -> None:
        for path, resource in ends:
            if path not in self.ends:
                self.ends[path] = resource
                self._bytes += len(json.dumps(resource))
            if self._bytes > MAX_OUTPUT_BYTES:
                raise PrintsTooMuch

    async def _below(self, resource: Resource, name: str) -> list[tuple[str, Resource]]:
        """Return the resources that a property leads to, those on further pages of a collection included."""
        ends = []
        page: Resource | None = resource
        while page is not None:
            for path, inline in links_of(page, name):
                if (end := inline or await self._read(path)) is not None:
                    ends.append((path, end))
            further = next_page(page, name)
            page = await self._read(further) if further and further not in self._known else None
        return ends

    async def _read(self, path: str) -> Resource | None:
        if path not in self._known:
            if self._requests >= MAX_REQUESTS:
                return None
            self._requests += 1
            self._known[path] = await self._get(path)
        return self._known[path]


def _reset_of(system: Resource, action: str, place: str) -> tuple[str, str]:
    """Return where to send a power action, and what the system calls it."""
    actions = system.get("Actions")
    reset = actions.get("#ComputerSystem.Reset") if isinstance(actions, dict) else None
    target = reset.get("target") if isinstance(reset, dict) else None
    if not isinstance(reset, dict) or not isinstance(target, str) or not is_own_path(target):
        raise DeviceError(f"the system of {place} offers no power action")
    wanted = RESET_TYPES.get(action, ON_TYPES)
    offered = reset.get("ResetType@Redfish.AllowableValues")
    if not isinstance(offered, list):
        return target, wanted[-1] if action == POWER_CYCLE else wanted[0]
    kind = next((kind for kind in wanted if kind in offered), None)
    if kind is None:
        raise DeviceError(f"the system of {place} does not offer {' or '.join(wanted)}")
    return target, kind
