"""The program around an emulated device: the options that all of them have, and how it ends."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path

from switchlab.common.logins import Logins


def add_options(parser: argparse.ArgumentParser, *, user: str, password_variable: str) -> None:
    """Add the options that do not depend on the kind of device."""
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=2222, help="the SSH port; 0 chooses one (default: %(default)s)")
    parser.add_argument("--control", type=Path, help="Unix socket that drives what surrounds the device")
    parser.add_argument("--host-key", type=Path, help="SSH host key; generated if the file does not exist")
    parser.add_argument("--user", default=user, help=f"login name; its password is in ${password_variable}")
    parser.add_argument("--authorized-keys", type=Path, help="public keys that may log in")
    parser.add_argument("--ready-file", type=Path, help="file to write the ports to once the device answers")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input is closed")


def may_log_in(options: argparse.Namespace, password_variable: str) -> bool:
    """Whether anybody could log in; complains if not."""
    if os.environ.get(password_variable) or options.authorized_keys:
        return True
    sys.stderr.write(f"nobody could log in: set {password_variable} or give --authorized-keys\n")
    return False


def take_logins(options: argparse.Namespace, password_variable: str) -> Logins:
    """Return who may log in; the password leaves the environment."""
    password = os.environ.pop(password_variable, "")
    return Logins(passwords={options.user: password} if password else {}, authorized_keys=options.authorized_keys)


def stop_event(*, until_eof: bool) -> asyncio.Event:
    """Return an event that is set when the program has to end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if until_eof:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    return stop


def announce(options: argparse.Namespace, name: str, ports: str) -> None:
    """Print where the device listens, and write it to the ready file."""
    sys.stderr.write(f"{name} listens on {options.host}: {ports}\n")
    if options.ready_file:
        options.ready_file.write_text(f"{ports}\n")


def run(serving: Coroutine[object, object, None]) -> int:
    """Run a device until it is stopped; return the exit status."""
    try:
        asyncio.run(serving)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return 0
