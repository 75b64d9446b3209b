"""NX-API over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from switchlab.common.logins import Logins
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.nxapi import NxapiService
from switchlab.nexus.session import Session
from tests.switchlab.nexus.conftest import StartEmulator
from tests.switchlab.nexus.support import PASSWORD, run


async def http(port: int, request: bytes, tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """Send raw bytes; return the status and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def post(document: object, *, password: str = PASSWORD, path: str = "/ins") -> bytes:
    body = json.dumps(document).encode()
    login = base64.b64encode(f"admin:{password}".encode()).decode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def rpc(command: str, method: str = "cli", number: int = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": {"cmd": command, "version": 1}, "id": number}


def ins(kind: str, text: str) -> dict[str, object]:
    fields = {"version": "1.0", "type": kind, "chunk": "0", "sid": "1", "input": text, "output_format": "json"}
    return {"ins_api": fields}


@pytest.fixture
def api(switch: Switch) -> Switch:
    assert apply_lines(switch, ["feature nxapi"]) == []
    return switch


async def call(emulate: StartEmulator, switch: Switch, document: object) -> tuple[int, Any]:
    async with emulate(switch) as emulator:
        port = await emulator.nxapi.settle()
        assert port is not None
        status, body = await http(port, post(document))
        return status, json.loads(body)


async def test_json_rpc_returns_numbers_as_numbers(api: Switch, emulate: StartEmulator) -> None:
    api.add("Ethernet1/1", "rx_unicast", 42)
    status, answer = await call(emulate, api, rpc("show interface ethernet 1/1 counters"))
    assert (status, answer["id"]) == (200, 1)
    rows = answer["result"]["body"]["TABLE_rx_counters"]["ROW_rx_counters"]
    assert rows[0] == {"interface_rx": "Ethernet1/1", "eth_inbytes": 0, "eth_inucast": 42}


async def test_json_rpc_text(api: Switch, emulate: StartEmulator) -> None:
    _, answer = await call(emulate, api, rpc("show class-map", "cli_ascii"))
    assert "class-map type queuing match-any c-out-8q-q3" in answer["result"]["msg"]


async def test_json_rpc_configures_in_one_context_and_stops_at_an_error(api: Switch, emulate: StartEmulator) -> None:
    lines = ["interface ethernet 1/1", "mtu 9216", "mtu 1", "shutdown"]
    status, answer = await call(emulate, api, [rpc(line, number=at) for at, line in enumerate(lines, 1)])
    assert status == 500
    assert [("error" in item, item["id"]) for item in answer] == [(False, 1), (False, 2), (True, 3)]
    assert answer[2]["error"]["code"] == -32602
    assert "% Invalid number at '^' marker." in answer[2]["error"]["data"]["msg"]
    assert api.running.interfaces["Ethernet1/1"].settings == {"mtu": "mtu 9216"}


async def test_ins_api_show(api: Switch, emulate: StartEmulator) -> None:
    status, answer = await call(emulate, api, ins("cli_show", "show interface counters ; show vlan"))
    outputs = answer["ins_api"]["outputs"]["output"]
    assert status == 200
    assert [(item["input"], item["msg"], item["code"]) for item in outputs] == [
        ("show interface counters", "Success", "200"),
        ("show vlan", "Success", "200"),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        ("cli_show", "show foo", ("400", "Input CLI command error")),
        ("cli_show", "show running-config", ("501", "Structured output unsupported")),
        ("cli_show", "configure terminal", ("400", "Input CLI command error")),
        ("cli_conf", "interface e1/1 ; mtu 9", ("400", "CLI execution error")),
        ("bash", "ls", ("400", "Request message is invalid")),
    ],
)
async def test_ins_api_errors(
    api: Switch, emulate: StartEmulator, kind: str, text: str, error: tuple[str, str]
) -> None:
    status, answer = await call(emulate, api, ins(kind, text))
    output = answer["ins_api"]["outputs"]["output"]
    last = output[-1] if isinstance(output, list) else output
    assert (status, (last["code"], last["msg"])) == (400, error)


async def test_it_listens_only_with_the_feature(switch: Switch, emulate: StartEmulator) -> None:
    async with emulate(switch) as emulator:
        assert await emulator.nxapi.settle() is None
        run(Session(switch), "conf t", "feature nxapi")
        port = await emulator.nxapi.settle()
        assert port is not None
        assert (await http(port, post(rpc("show hostname"))))[0] == 200
        run(Session(switch), "conf t", "no feature nxapi")
        assert await emulator.nxapi.settle() is None
        with pytest.raises(OSError, match=r"refused|Connect"):
            await http(port, b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post(rpc("show hostname"), password="wrong"), 401),  # noqa: S106 - a wrong one
        (b"POST /ins HTTP/1.1\r\n\r\n", 401),
        (b"nonsense\r\n\r\n", 400),
        (post(rpc("show hostname"), path="/other"), 404),
        (post(rpc("show hostname")).replace(b"POST", b"GET"), 405),
        (post(rpc("show hostname")).replace(b"Content-Length", b"X"), 411),
        (post(rpc("show hostname")).replace(b"Content-Length: ", b"Content-Length: 9999999"), 413),
        (post({})[:-2] + b"{{", 400),
    ],
    ids=["password", "no login", "not HTTP", "path", "method", "no length", "too large", "not JSON"],
)
async def test_http_errors(api: Switch, emulate: StartEmulator, request_bytes: bytes, status: int) -> None:
    async with emulate(api) as emulator:
        port = await emulator.nxapi.settle()
        assert port is not None
        assert (await http(port, request_bytes))[0] == status


async def test_over_tls(api: Switch, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    service = NxapiService(api, Logins(passwords={"admin": PASSWORD}), tls=server)
    await service.start("127.0.0.1", 0)
    try:
        client = ssl.create_default_context(cafile=certificate)
        assert (await http(service.port or 0, post(rpc("show hostname")), client))[0] == 200
    finally:
        await service.close()
