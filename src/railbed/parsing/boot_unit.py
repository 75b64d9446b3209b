"""The systemd unit that applies settings at boot which the kernel and the cards would otherwise lose.

Each setting is a block under a comment with its key, so that a later run can replace it: the rule and the port, or the
rule alone for a setting of the node itself.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping

HEAD = """\
# Written by `railbed configure`: settings that are lost at reboot. `railbed configure --undo RUN` removes it.
[Unit]
Description=Settings of the rails that are lost at reboot
Wants=network-online.target
After=network-online.target systemd-modules-load.service rdma-hw.target openibd.service {devices}

[Service]
Type=oneshot
RemainAfterExit=yes
"""
FOOT = """\

[Install]
WantedBy=multi-user.target
"""
UNESCAPED = f"{string.ascii_letters}{string.digits}:_."
_KEY = re.compile(r"# (?P<key>\S+(?: \S+)?)")
_QUOTED = re.compile(r"\\.|%%|\$\$")
_COMMAND = re.compile(r'ExecStart=-/bin/sh -c "(?P<command>.*)"')


def render_unit(settings: Mapping[str, Iterable[str]]) -> str:
    """Return the unit for commands by key; a command that fails does not prevent the next."""
    ports = dict.fromkeys(port for key in settings if (port := key.partition(" ")[2]))
    devices = " ".join(f"sys-subsystem-net-devices-{_escape(port)}.device" for port in ports)
    blocks = (
        "\n".join([f"# {key}", *(f'ExecStart=-/bin/sh -c "{_quote(command)}"' for command in commands)])
        for key, commands in settings.items()
    )
    return HEAD.format(devices=devices).replace(" \n", "\n") + "\n".join(blocks) + "\n" + FOOT


def read_unit(text: str) -> dict[str, list[str]]:
    """Return the commands by key from a unit that `render_unit` wrote."""
    settings: dict[str, list[str]] = {}
    key = ""
    for line in text.partition("[Service]")[2].splitlines():
        if match := _KEY.fullmatch(line):
            key = match["key"]
        elif key and (match := _COMMAND.fullmatch(line)):
            settings.setdefault(key, []).append(_unquote(match["command"]))
    return settings


def _quote(command: str) -> str:
    """Quote a command for systemd: backslashes and quotes, its specifiers (%) and variables ($)."""
    return command.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")


def _unquote(text: str) -> str:
    return _QUOTED.sub(lambda match: match[0][1], text)


def _escape(name: str) -> str:
    """Escape an interface's name as `systemd-escape` does, byte for byte."""
    return "".join(
        chr(byte) if chr(byte) in UNESCAPED and (at or byte != ord(".")) else f"\\x{byte:02x}"
        for at, byte in enumerate(name.encode())
    )
