"""Reading a switch over NX-API: the same facts as over SSH, a verified certificate, and failures in one sentence."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from railbed import clusterfile
from railbed.errors import (
    ClusterFileError,
    DeviceError,
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    TimedOut,
    Unreachable,
)
from railbed.model.cluster import Login, Nxapi, Secret
from railbed.model.reading import MAX_OUTPUT_BYTES, Known, Output
from railbed.probes.outputs import all_probes, parse_output
from railbed.transport import https, nxapi
from railbed.transport.base import Command, Target, targets_of
from railbed.transport.connect import live_connector
from switchlab.common.logins import Logins
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.certificate import ensure_certificate, server_context
from tests.support.nexus import connected
from tests.support.sshd import SSHD, running_servers
from tests.switchlab.nexus.conftest import StartEmulator
from tests.switchlab.nexus.support import LOSSLESS, PASSWORD

LOGIN = Login(user="admin", password=Secret(env="NEXUS_PASSWORD"))
VERSION = Command(key="version", script="show version | json\nshow version")
Answer = Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_PASSWORD", PASSWORD)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return ensure_certificate(tmp_path / "tls", name="nexus", host="127.0.0.1")[0]


def fingerprint(certificate: Path) -> str:
    data = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    return hashlib.sha256(data).digest().hex(":").upper()


def tls(certificate: Path) -> ssl.SSLContext:
    return server_context(certificate, certificate.with_name("nxapi.key"))


def target(trust: Nxapi, login: Login = LOGIN, host: str = "127.0.0.1") -> Target:
    return Target(name="s1", host=host, login=login, kind="switch", nxapi=trust)


async def outputs_of(wanted: Target, *commands: Command) -> list[Output]:
    async with (
        live_connector() as connect,
        connect(wanted) as transport,
        aclosing(transport.run(commands)) as outputs,
    ):
        return [output async for output in outputs]


@asynccontextmanager
async def serving(emulate: StartEmulator, switch: Switch, certificate: Path) -> AsyncIterator[Nxapi]:
    """Yield how to reach a switch over NX-API, by its fingerprint."""
    assert apply_lines(switch, ["feature nxapi"]) == []
    async with emulate(switch, tls=tls(certificate)) as emulator:
        yield Nxapi(port=await emulator.nxapi.settle() or 0, fingerprint=fingerprint(certificate))


@pytest.mark.parametrize("platform", ["n9k", "n9k-9.2", "n9k-ale"])
async def test_every_probe_reads_the_same_over_nxapi_and_over_ssh(
    emulate: StartEmulator, certificate: Path, tmp_path: Path, platform: str
) -> None:
    switch = connected(platform, LOSSLESS if platform == "n9k" else "feature lldp")
    switch.add("Ethernet1/1", "rx_unicast", 42)
    probes = [probe for probe in all_probes().values() if probe.runs_on == "switch"]
    commands = [Command(key=probe.name, script=str(probe.command)) for probe in probes]
    assert apply_lines(switch, ["feature nxapi"]) == []
    async with emulate(switch, tls=tls(certificate)) as emulator:
        (tmp_path / "known").write_text(f"[127.0.0.1]:{emulator.ssh_port} {(tmp_path / 'host_key.pub').read_text()}")
        login = LOGIN.model_copy(update={"port": emulator.ssh_port, "known_hosts": str(tmp_path / "known")})
        ssh = Target(name="s1", host="127.0.0.1", login=login, kind="switch")
        trust = Nxapi(port=await emulator.nxapi.settle() or 0, ca=str(certificate))
        over_ssh, over_nxapi = await outputs_of(ssh, *commands), await outputs_of(target(trust), *commands)
    for probe, first, second in zip(probes, over_ssh, over_nxapi, strict=True):
        expected, read = parse_output(probe, first), parse_output(probe, second)
        assert isinstance(expected, Known), (probe.name, expected)
        assert isinstance(read, Known), (probe.name, read)
        assert read.facts == expected.facts, probe.name


async def test_a_refused_form_is_followed_by_the_next(
    switch: Switch, emulate: StartEmulator, certificate: Path
) -> None:
    async with serving(emulate, switch, certificate) as trust:
        outputs = await outputs_of(
            target(trust),
            Command(key="text", script="show running-config | json\nshow running-config"),
            Command(key="none", script="show nothing | json\nshow nothing"),
            Command(key="part", script='show running-config | section "interface Ethernet1/1"'),
        )
    assert [(output.key, output.command, output.exit) for output in outputs] == [
        ("text", "show running-config", 0),
        ("none", "show nothing", 1),
        ("part", 'show running-config | section "interface Ethernet1/1"', 0),
    ]
    assert (outputs[1].stdout, outputs[1].complaint) == (b"", "% Invalid command at '^' marker.")


async def test_one_login_serves_all_commands(
    switch: Switch, emulate: StartEmulator, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    check = Logins.check

    def counted(logins: Logins, user: str, password: str) -> bool:
        checked.append(user)
        return check(logins, user, password)

    monkeypatch.setattr(Logins, "check", counted)
    async with serving(emulate, switch, certificate) as trust:
        await outputs_of(target(trust), VERSION, VERSION, VERSION)
    assert checked == ["admin"]


async def test_an_unknown_certificate_is_refused_before_the_login(
    switch: Switch, emulate: StartEmulator, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Logins, "check", lambda *_: pytest.fail("the password was sent"))
    async with serving(emulate, switch, certificate) as trust:
        with pytest.raises(HostKeyUnknown, match=r"is not trusted: self-signed certificate") as unknown:
            await outputs_of(target(Nxapi(port=trust.port)))
        assert fingerprint(certificate) in unknown.value.hint
        with pytest.raises(HostKeyUnknown, match=r"is not trusted: .*localhost"):
            await outputs_of(target(Nxapi(port=trust.port, ca=str(certificate)), host="localhost"))
        other = "00:" * 31 + "00"
        with pytest.raises(HostKeyChanged, match=f"its fingerprint is {fingerprint(certificate)}"):
            await outputs_of(target(Nxapi(port=trust.port, fingerprint=other)))


async def test_fingerprints_may_be_lower_case(switch: Switch, emulate: StartEmulator, certificate: Path) -> None:
    async with serving(emulate, switch, certificate) as trust:
        small = Nxapi(port=trust.port, fingerprint=fingerprint(certificate).lower())
        assert (await outputs_of(target(small), VERSION))[0].exit == 0


@pytest.mark.parametrize(
    ("login", "sentence"),
    [
        (
            LOGIN.model_copy(update={"user": "nobody"}),
            r"refused the login of nobody with the password from the environment variable NEXUS_PASSWORD",
        ),
        (Login(user="admin"), "needs a password"),
        (Login(password=Secret(env="NEXUS_PASSWORD")), "names no `user:`"),
        (Login(user="admin", password=Secret(env="NOT_SET_ANYWHERE")), "NOT_SET_ANYWHERE is not set"),
    ],
    ids=["wrong", "no password", "no user", "not set"],
)
async def test_logins_that_fail(
    switch: Switch, emulate: StartEmulator, certificate: Path, login: Login, sentence: str
) -> None:
    async with serving(emulate, switch, certificate) as trust:
        with pytest.raises(LoginRefused, match=sentence) as refused:
            await outputs_of(target(trust, login))
    assert PASSWORD not in f"{refused.value.message} {refused.value.hint}"


async def test_without_the_feature_nothing_listens(switch: Switch, emulate: StartEmulator, certificate: Path) -> None:
    apply_lines(switch, ["feature nxapi"])
    async with emulate(switch, tls=tls(certificate)) as emulator:
        trust = Nxapi(port=await emulator.nxapi.settle() or 0, fingerprint=fingerprint(certificate))
        apply_lines(switch, ["no feature nxapi"])
        assert await emulator.nxapi.settle() is None
        with pytest.raises(Unreachable, match="Connection refused") as refused:
            await outputs_of(target(trust))
    assert "`feature nxapi`" in refused.value.hint


async def test_a_file_without_authorities(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    for name, reason in (("empty", "it has no certificate"), ("missing", "No such file or directory")):
        with pytest.raises(LoginRefused, match=f"{name} cannot be read: {reason}"):
            await outputs_of(target(Nxapi(ca=str(tmp_path / name))))


@asynccontextmanager
async def listening(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections on a port; those that are still open end with it."""
    tasks: set[asyncio.Task[object]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def stub(certificate: Path, answer: Answer) -> AsyncIterator[Nxapi]:
    """Serve HTTPS that answers every command but the login as a test wants."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        fields = json.loads(await reader.readexactly(length))["ins_api"]
        await (complete("12:00") if fields["input"] == "show clock" else answer)(fields, writer)

    async with listening(serve, tls(certificate)) as port:
        yield Nxapi(port=port, fingerprint=fingerprint(certificate))


def document(body: object, **fields: object) -> bytes:
    output = {"code": "200", "msg": "Success", "body": body, **fields}
    return json.dumps({"ins_api": {"outputs": {"output": output}}}).encode()


def sends(*parts: bytes) -> Answer:
    async def answer(_: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return answer


def complete(body: object) -> Answer:
    content = document(body)
    return sends(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content), content)


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> Answer:
    lines = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *lines, end)


async def test_an_answer_in_chunks(certificate: Path) -> None:
    content = document({"a": 1})
    async with stub(certificate, chunked(content[:9], content[9:])) as trust:
        (output,) = await outputs_of(target(trust), VERSION)
    assert (output.command, output.text, output.exit) == ("show version | json", '{"a": 1}', 0)


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("text", (b"text", "", 0)),
        ({}, (b"", "", 0)),
        ("ERROR: no such policy", (b"", "ERROR: no such policy", 1)),
        ("half \ud800", (b"half ?", "", 0)),
    ],
    ids=["text", "nothing", "refusal as success", "half a character"],
)
async def test_bodies(certificate: Path, body: object, output: tuple[bytes, str, int]) -> None:
    async with stub(certificate, complete(body)) as trust:
        (read,) = await outputs_of(target(trust), Command(key="x", script="show x"))
    assert (read.stdout, read.complaint, read.exit) == output


HTML = b"<html><h1>502 Bad Gateway</h1></html>"
DEEP = b'{"ins_api": ' + b"[" * 100_000


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (sends(b""), "closed the connection without an answer"),
        (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), "is not an HTTPS server"),
        (sends(b"HTTP/1.1 502 Bad Gateway\r\n\r\n", HTML), "does not answer as NX-API does: HTTP 502 Bad Gateway"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", document("x")), "broke off its answer"),
        (chunked(document("x")[:9], end=b""), "broke off its answer"),
        (chunked(end=b"f" * 40 + b"\r\nx"), "broke off its answer"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100012\r\n\r\n", DEEP), "does not answer as NX-API does"),
        (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"[]"), "does not answer as NX-API does: HTTP 200 OK"),
    ],
    ids=["nothing", "not HTTP", "another server", "short", "chunks cut off", "huge chunk", "deep", "other JSON"],
)
async def test_other_answers_are_one_sentence(certificate: Path, answer: Answer, sentence: str) -> None:
    async with stub(certificate, answer) as trust:
        with pytest.raises(Unreachable, match=f"^x: 127.0.0.1 port {trust.port} {sentence}"):
            await outputs_of(target(trust), Command(key="x", script="show x"))


async def test_a_command_that_hangs_or_never_stops_printing_costs_only_itself(certificate: Path) -> None:
    async def answer(fields: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        match fields["input"]:
            case "show slow":
                await asyncio.Event().wait()
            case "show endless":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                for _ in range(2 * https.MAX_ANSWER_BYTES // 65536):
                    writer.write(b"x" * 65536)
                    await writer.drain()
        await complete("fine")(fields, writer)

    async with stub(certificate, answer) as trust:
        slow, endless, fine = await outputs_of(
            target(trust),
            Command(key="slow", script="show slow", timeout=0.5),
            Command(key="endless", script="show endless", timeout=120.0),
            Command(key="fine", script="show fine"),
        )
    assert (slow.failure, slow.exit) == ("did not finish within 0.5 s", None)
    assert f"printed more than {MAX_OUTPUT_BYTES // 2**20} MiB" in endless.failure
    assert fine.text == "fine"


async def test_plain_http_gets_no_password(certificate: Path) -> None:
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(100))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(listen) as port:
        trust = Nxapi(port=port, fingerprint=fingerprint(certificate))
        with pytest.raises(Unreachable, match="does not offer TLS that this machine accepts"):
            await outputs_of(target(trust))
    assert received
    assert not any(b"Authorization" in data or b"POST" in data for data in received)


async def test_a_login_that_never_ends(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nxapi, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(nxapi, "LOGIN_COMMAND", "show login")

    async def hang(_: dict[str, Any], __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with stub(certificate, hang) as trust:
        with pytest.raises(TimedOut, match=r"did not finish the login within 0\.5 s"):
            await outputs_of(target(trust))


async def test_a_port_that_accepts_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "CONNECT_SECONDS", 0.5)

    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(hang) as port:
        with pytest.raises(TimedOut, match=r"no answer from 127\.0\.0\.1 port \d+ within 0\.5 s"):
            await outputs_of(target(Nxapi(port=port)))


async def test_only_show_commands_are_sent(switch: Switch, emulate: StartEmulator, certificate: Path) -> None:
    before = switch.running_text()
    async with serving(emulate, switch, certificate) as trust:
        with pytest.raises(DeviceError, match="reached over NX-API, which only reads: configure needs SSH"):
            await outputs_of(target(trust), Command(key="x", script="configure terminal ; vlan 7"))
    assert "vlan 7" not in switch.running_text()
    assert before in switch.running_text().replace("feature nxapi\n", "")


@pytest.mark.ssh
@pytest.mark.skipif(SSHD is None, reason="OpenSSH's sshd is not installed")
async def test_through_a_jump_host(switch: Switch, emulate: StartEmulator, certificate: Path, tmp_path: Path) -> None:
    (tmp_path / "jump").mkdir()
    with running_servers(1, tmp_path / "jump") as servers:
        (server,) = servers.servers
        login = LOGIN.model_copy(
            update={
                "jump": f"{servers.user}@{server.address}:{server.port}",
                "key": str(servers.key),
                "known_hosts": str(servers.known_hosts),
            }
        )
        async with serving(emulate, switch, certificate) as trust:
            (output,) = await outputs_of(target(trust, login), VERSION)
    assert (output.command, output.exit) == ("show version | json", 0)


SWITCH = "switches: {s: {host: h, access: nxapi, nxapi: {%s}}}\n"


def test_the_cluster_file_chooses_nxapi_for_reading_and_changes_go_over_ssh() -> None:
    text = "name: x\nnodes: {a: {host: h1}}\n" + SWITCH % "port: 8443, ca: ~/site.pem"
    cluster = clusterfile.loads(text, name="f")
    assert clusterfile.loads(clusterfile.dumps(cluster), name="f") == cluster
    (_, reading), (_, changing) = targets_of(cluster), targets_of(cluster, changing=True)
    assert (reading.access, changing.access) == ("nxapi", "ssh-cli")
    assert reading.nxapi == Nxapi(port=8443, ca="~/site.pem")
    assert targets_of(clusterfile.loads(text.replace("access: nxapi, ", ""), name="f"))[1].access == "ssh-cli"


@pytest.mark.parametrize(
    ("trust", "mistake"),
    [
        ("ca: x, fingerprint: " + ":".join(["AB"] * 32), "give ca or fingerprint, not both"),
        ("fingerprint: AB:CD", "32 hexadecimal pairs"),
        ("password: x", "password"),
    ],
)
def test_mistakes_in_the_cluster_file(trust: str, mistake: str) -> None:
    with pytest.raises(ClusterFileError, match=mistake):
        clusterfile.loads("name: x\nnodes: {a: {host: h1}}\n" + SWITCH % trust, name="f")


def test_a_certificate_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    files = ensure_certificate(tmp_path, name="leaf", host="leaf.example")
    first = [path.read_bytes() for path in files]
    assert [path.read_bytes() for path in ensure_certificate(tmp_path, name="leaf", host="leaf.example")] == first
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
