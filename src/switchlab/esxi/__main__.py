"""`python -m switchlab.esxi`: run one emulated host until SIGTERM."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from switchlab.common.program import add_options, announce, may_log_in, run, stop_event, take_logins
from switchlab.esxi.model.description import read_description
from switchlab.esxi.model.host import Host
from switchlab.esxi.model.release import RELEASES
from switchlab.esxi.service import HostEmulator, Listening

PASSWORD_VARIABLE = "ESXI_PASSWORD"  # noqa: S105 - the name of a variable, not a password


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m switchlab.esxi", description="Run an emulated VMware ESXi host.")
    parser.add_argument("--release", choices=RELEASES, default="7.0", help="the release (default: %(default)s)")
    parser.add_argument("--config", type=Path, help="the description of the host as JSON")
    parser.add_argument("--hostname", default="localhost", help="the host's name (default: %(default)s)")
    parser.add_argument("--state", type=Path, help="folder for what survives a boot")
    add_options(parser, user="root", password_variable=PASSWORD_VARIABLE)
    return parser.parse_args(arguments)


def build_host(options: argparse.Namespace) -> Host:
    """Return the host as it is after a boot; raise ValueError if its description has a mistake."""
    description = read_description(options.config.read_text(encoding="utf-8") if options.config else "")
    return Host(RELEASES[options.release], description, hostname=options.hostname, state=options.state)


async def serve(options: argparse.Namespace, host: Host) -> None:
    logins = take_logins(options, PASSWORD_VARIABLE)
    listening = Listening(address=options.host, ssh_port=options.port, control=options.control)
    stop = stop_event(until_eof=options.until_eof)
    with ExitStack() as temporary:
        folder = options.state or Path(temporary.enter_context(tempfile.TemporaryDirectory(prefix="esxi-")))
        key = options.host_key or folder / "ssh_host_ed25519_key"
        async with HostEmulator(host, logins, listening, host_key=key) as emulator:
            announce(options, f"{host.hostname} (ESXi {host.release.version})", f"ssh={emulator.ssh_port}")
            await stop.wait()


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,62}", options.hostname):
        sys.stderr.write(f"{options.hostname} is not a valid host name\n")
        return 2
    if not may_log_in(options, PASSWORD_VARIABLE):
        return 2
    try:
        host = build_host(options)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return run(serve(options, host))


if __name__ == "__main__":
    sys.exit(main())
