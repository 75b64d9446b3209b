"""A Nexus over NX-API: each command is one HTTPS request, answered in JSON. It is only read this way.

The password leaves this process in the Authorization header alone, after the certificate was verified.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from railbed.errors import DeviceError, LoginRefused, TimedOut, Unreachable
from railbed.model.cluster import Login
from railbed.model.reading import COMPLAINT_CHARS, Output
from railbed.parsing.nexus.refusals import refusal_of
from railbed.transport.base import Command, Forward, Program, Target, Transport
from railbed.transport.batch import PrintsTooMuch, cut_off, unfinished_output
from railbed.transport.https import CONNECT_SECONDS, HttpAnswer, HttpsServer
from railbed.transport.secret import resolve, secret_place
from railbed.transport.ssh.switch import REFUSED, no_programs, run_first_accepted

PATH = "/ins"
AS_JSON = "| json"
LOGIN_COMMAND = "show clock"
COOKIE = re.compile(r"nxapi_auth=[\x21-\x3a\x3c-\x7e]{1,4000}(?=;|$)")


@asynccontextmanager
async def connect_nxapi(target: Target, forward: Forward) -> AsyncIterator[Transport]:
    """Log in to a switch."""
    trust, login = target.nxapi, target.login
    assert trust is not None
    authorization = _authorization(login)
    async with AsyncExitStack() as stack:
        tunnel = await stack.enter_async_context(forward(login, target.host, trust.port)) if login.jump else ""
        server = HttpsServer(host=target.host, trust=trust, tunnel=tunnel)
        transport = NxapiTransport(target.name, server, login, authorization)
        await transport.log_in()
        yield transport


class NxapiTransport:
    """Runs show commands one after another."""

    def __init__(self, device: str, server: HttpsServer, login: Login, authorization: str) -> None:
        self._device = device
        self._server = server
        self._login = login
        self._headers = {"Content-Type": "application/json", "Authorization": authorization}

    async def log_in(self) -> None:
        """Send one command, so that a login that fails is known at once; its cookie spares the next ones the check."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._ask(LOGIN_COMMAND)
        except TimeoutError as error:
            raise TimedOut(
                f"{self._server.place} did not finish the login within {CONNECT_SECONDS:g} s",
                hint="is the switch busy, or its login server out of reach?",
            ) from error
        except PrintsTooMuch as error:
            raise Unreachable(f"{self._server.place} does not answer as NX-API does") from error

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run the commands. The lines of a command are alternatives: the first that is not refused gives the output."""
        for command in commands:
            yield await run_first_accepted(command, self._run)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Refuse: our programs do not run on a switch."""
        raise no_programs(self._device, command)

    async def _run(self, command: Command) -> Output:
        if not command.script.startswith("show "):
            raise DeviceError(
                f"{self._device} is reached over NX-API, which only reads: {command.script.partition(' ')[0]} needs SSH"
            )
        sent = time.time()
        try:
            async with asyncio.timeout(command.timeout):
                reply = await self._ask(command.script)
        except TimeoutError:
            return unfinished_output(self._device, command, b"", sent)
        except PrintsTooMuch:
            return cut_off(self._device, command, b"", b"", sent)
        except Unreachable as error:
            raise type(error)(f"{command.key}: {error.message}", hint=error.hint) from error
        return Output(
            device=self._device,
            key=command.key,
            command=command.script,
            stdout=reply.text,
            stderr=reply.refusal,
            exit=REFUSED if reply.refusal else 0,
            sent=sent,
            received=time.time(),
        )

    async def _ask(self, line: str) -> CommandReply:
        answer = await self._server.post(PATH, self._headers, _request(line))
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            if match := COOKIE.match(cookie):
                self._headers["Cookie"] = match[0]
        if answer.status in (401, 403):
            raise self._explain_refusal(answer)
        reply = read_reply(answer.body)
        if reply is None:
            raise Unreachable(
                f"{self._server.place} does not answer as NX-API does: HTTP {answer.status} {answer.reason}",
                hint="is `feature nxapi` on, and is this its HTTPS port (`show nxapi`)?",
            )
        return reply

    def _explain_refusal(self, answer: HttpAnswer) -> LoginRefused:
        assert self._login.password is not None
        return LoginRefused(
            f"{self._server.place} refused the login of {self._login.user} with the password from "
            f"{secret_place(self._login.password)} (HTTP {answer.status})",
            hint="is it the password of that account on the switch, and may the account use NX-API?",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """What a command printed, or why the switch refused it."""

    text: bytes = b""
    refusal: bytes = b""


def _authorization(login: Login) -> str:
    """Return the Authorization header. NX-API knows no keys: it needs a user and a password."""
    if not login.user or ":" in login.user:
        raise LoginRefused(
            "the cluster file names no `user:` that NX-API accepts", hint="add `user:` to `login:` of the switch"
        )
    password = resolve(login.password)
    if password is None:
        raise LoginRefused(
            "NX-API needs a password, and the cluster file says nowhere to find one",
            hint="name an environment variable: `password: {env: NAME}` under `login:` of the switch",
        )
    return "Basic " + base64.b64encode(f"{login.user}:{password}".encode()).decode()


def _request(line: str) -> bytes:
    """Return the request for a show command: as JSON if it ends with `| json`, otherwise as text."""
    structured = line.endswith(AS_JSON)
    fields = {
        "version": "1.0",
        "type": "cli_show" if structured else "cli_show_ascii",
        "chunk": "0",
        "sid": "1",
        "input": line.removesuffix(AS_JSON).strip(),
        "output_format": "json",
    }
    return json.dumps({"ins_api": fields}).encode()


def read_reply(body: bytes) -> CommandReply | None:
    """Return the reply to the only command of a request; None if the body is not an answer of NX-API."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    match document:
        case {"ins_api": {"outputs": {"output": [dict() as output] | (dict() as output)}}}:
            return _reply_of(output)
    return None


def _reply_of(output: Mapping[str, object]) -> CommandReply:
    code, body = str(output.get("code")), output.get("body")
    if code != "200":
        reason = output.get("clierror") or output.get("msg") or f"NX-API code {code}"
        return CommandReply(refusal=_refusal(str(reason)))
    if isinstance(body, str):
        return CommandReply(refusal=_refusal(body)) if refusal_of(body) else CommandReply(text=_encode(body))
    return CommandReply(text=_encode(json.dumps(body) if body else ""))


def _refusal(text: str) -> bytes:
    """Return the sentence in a refusal, without the caret that points into the command."""
    sentence = refusal_of(text) or (text.strip() or "refused").splitlines()[0].strip()
    return _encode(sentence)[:COMPLAINT_CHARS]


def _encode(text: str) -> bytes:
    """Return text as bytes; JSON may contain halves of characters."""
    return text.encode("utf-8", "replace")
