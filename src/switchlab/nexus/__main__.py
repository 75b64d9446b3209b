"""`python -m switchlab.nexus`: run one emulated switch until SIGTERM."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from switchlab.common.program import add_options, announce, may_log_in, run, stop_event, take_logins
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.certificate import ensure_certificate, server_context
from switchlab.nexus.service import Emulator, Endpoints

PASSWORD_VARIABLE = "NEXUS_PASSWORD"  # noqa: S105 - the name of a variable, not a password


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m switchlab.nexus", description="Run an emulated Cisco Nexus.")
    parser.add_argument("--platform", choices=PLATFORMS, default="n9k", help="the switch model (default: %(default)s)")
    parser.add_argument("--nxapi-port", type=int, default=0, help="the NX-API port, open while `feature nxapi` is on")
    parser.add_argument(
        "--nxapi-tls", nargs=2, type=Path, metavar=("CERT", "KEY"), help="certificate of NX-API; made if not given"
    )
    parser.add_argument(
        "--config", type=Path, help="configuration lines to apply and save at the start, unless one was saved before"
    )
    parser.add_argument("--hostname", help="the switch's name (default: switch)")
    parser.add_argument("--state", type=Path, help="folder for the startup configuration and checkpoints")
    add_options(parser, user="admin", password_variable=PASSWORD_VARIABLE)
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
    logins = take_logins(options, PASSWORD_VARIABLE)
    endpoints = Endpoints(
        host=options.host, ssh_port=options.port, nxapi_port=options.nxapi_port, control=options.control
    )
    stop = stop_event(until_eof=options.until_eof)
    with ExitStack() as temporary:
        folder = options.state or Path(temporary.enter_context(tempfile.TemporaryDirectory(prefix="nexus-")))
        key = options.host_key or folder / "ssh_host_ed25519_key"
        tls = server_context(
            *(options.nxapi_tls or ensure_certificate(folder, name=switch.running.hostname, host=options.host))
        )
        async with Emulator(switch, logins, endpoints, host_key=key, tls=tls) as emulator:
            for line in [*rejected, *emulator.rejected]:
                sys.stderr.write(f"rejected: {line}\n")
            ports = f"ssh={emulator.ssh_port} nxapi={emulator.nxapi.port or 'off'}"
            announce(options, f"{switch.running.hostname} ({switch.platform.model})", ports)
            await stop.wait()


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.hostname and not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,62}", options.hostname):
        sys.stderr.write(f"{options.hostname} is not a valid switch name\n")
        return 2
    if not may_log_in(options, PASSWORD_VARIABLE):
        return 2
    return run(serve(options))


if __name__ == "__main__":
    sys.exit(main())
