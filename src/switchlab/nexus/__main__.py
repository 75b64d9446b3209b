"""`python -m switchlab.nexus`: run one emulated switch until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.certificate import ensure_certificate, server_context
from switchlab.nexus.servers.ssh import Logins
from switchlab.nexus.service import Emulator, Endpoints

PASSWORD_VARIABLE = "NEXUS_PASSWORD"  # noqa: S105 - the name of a variable, not a password


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m switchlab.nexus", description="Run an emulated Cisco Nexus.")
    parser.add_argument("--platform", choices=PLATFORMS, default="n9k", help="the switch model (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=2222, help="the SSH port; 0 chooses one (default: %(default)s)")
    parser.add_argument("--nxapi-port", type=int, default=0, help="the NX-API port, open while `feature nxapi` is on")
    parser.add_argument(
        "--nxapi-tls", nargs=2, type=Path, metavar=("CERT", "KEY"), help="certificate of NX-API; made if not given"
    )
    parser.add_argument(
        "--config", type=Path, help="configuration lines to apply and save at the start, unless one was saved before"
    )
    parser.add_argument("--hostname", help="the switch's name (default: switch)")
    parser.add_argument("--state", type=Path, help="folder for the startup configuration and checkpoints")
    parser.add_argument("--control", type=Path, help="Unix socket that drives links, neighbours, counters and traffic")
    parser.add_argument("--host-key", type=Path, help="SSH host key; generated if the file does not exist")
    parser.add_argument("--user", default="admin", help=f"login name; its password is in ${PASSWORD_VARIABLE}")
    parser.add_argument("--authorized-keys", type=Path, help="public keys that may log in")
    parser.add_argument("--ready-file", type=Path, help="file to write the ports to once the switch answers")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input is closed")
    return parser.parse_args(arguments)


def build_switch(options: argparse.Namespace) -> tuple[Switch, list[str]]:
    """Return the switch in its initial state, which is saved, and the configuration lines that it rejected."""
    switch = Switch(PLATFORMS[options.platform], options.state)
    rejected: list[str] = []
    if switch.startup is None:
        if options.hostname:
            rejected += apply_lines(switch, [f"hostname {options.hostname}"])
        if options.config:
            rejected += apply_lines(switch, options.config.read_text().splitlines())
        switch.save()
    return switch, rejected


async def serve(options: argparse.Namespace) -> None:
    switch, rejected = build_switch(options)
    password = os.environ.pop(PASSWORD_VARIABLE, "")
    logins = Logins(passwords={options.user: password} if password else {}, authorized_keys=options.authorized_keys)
    endpoints = Endpoints(
        host=options.host, ssh_port=options.port, nxapi_port=options.nxapi_port, control=options.control
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if options.until_eof:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    with ExitStack() as temporary:
        folder = options.state or Path(temporary.enter_context(tempfile.TemporaryDirectory(prefix="nexus-")))
        key = options.host_key or folder / "ssh_host_ed25519_key"
        tls = server_context(
            *(options.nxapi_tls or ensure_certificate(folder, name=switch.running.hostname, host=options.host))
        )
        async with Emulator(switch, logins, endpoints, host_key=key, tls=tls) as emulator:
            for line in [*rejected, *emulator.rejected]:
                sys.stderr.write(f"rejected: {line}\n")
            ready = f"ssh={emulator.ssh_port} nxapi={emulator.nxapi.port or 'off'}\n"
            sys.stderr.write(f"{switch.running.hostname} ({switch.platform.model}) listens on {options.host}: {ready}")
            if options.ready_file:
                options.ready_file.write_text(ready)
            await stop.wait()


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.hostname and not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,62}", options.hostname):
        sys.stderr.write(f"{options.hostname} is not a valid switch name\n")
        return 2
    if not os.environ.get(PASSWORD_VARIABLE) and not options.authorized_keys:
        sys.stderr.write(f"nobody could log in: set {PASSWORD_VARIABLE} or give --authorized-keys\n")
        return 2
    try:
        asyncio.run(serve(options))
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
