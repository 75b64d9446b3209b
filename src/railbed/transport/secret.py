"""Passwords and passphrases, fetched when needed from the places in the cluster file; never stored."""

from __future__ import annotations

import getpass
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from railbed.errors import LoginRefused, ToolMissing, UsageError
from railbed.model.cluster import Secret
from railbed.model.requirements import install_package


def resolve(secret: Secret | None) -> str | None:
    """Return the secret itself, or None if none is configured."""
    if secret is None:
        return None
    if secret.prompt:
        return _from_terminal(secret.prompt)
    return _from_environment(secret.env) if secret.env else _from_keyring(secret.keyring or "")


def secret_place(secret: Secret) -> str:
    """Describe where a secret comes from, without the secret."""
    if secret.prompt:
        return "the terminal"
    return f"the environment variable {secret.env}" if secret.env else f"the keyring entry {secret.keyring}"


@cache
def _from_terminal(question: str) -> str:
    """Ask once for each question."""
    return ask_terminal(question)


def ask_terminal(question: str) -> str:
    """Ask a person; what is typed is not shown."""
    if not sys.stdin.isatty():
        raise LoginRefused(
            f"there is no terminal to ask for the {question}",
            hint="use an environment variable or a keyring in the cluster file",
        )
    with _interruptible():
        value = getpass.getpass(f"{question}: ")
    if not value:
        raise LoginRefused(f"no {question} was given")
    return value


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a question at once: the handler of an event loop would wait for the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def secret_from(text: str) -> Secret:
    """Return the place of a secret that is named as `env:NAME` or `keyring:SERVICE/USER`."""
    kind, _, name = text.partition(":")
    try:
        if kind in ("env", "keyring") and name:
            return Secret.model_validate({kind: name})
    except ValueError:
        pass
    # What was typed may be the secret itself, so it is not repeated.
    raise UsageError(
        "the place of the password is not one", hint="give env:NAME or keyring:SERVICE/USER, never the secret itself"
    )


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise LoginRefused(f"the environment variable {name} is not set", hint=f"export {name} before running railbed")
    return value


def _from_keyring(entry: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise ToolMissing(
            "the login uses a keyring, but the Python package keyring is not installed",
            hint=install_package("keyring"),
        ) from error
    service, _, user = entry.rpartition("/")
    try:
        value = keyring.get_password(service, user)
    except KeyringError as error:
        raise LoginRefused(
            f"the keyring did not answer: {error}", hint="unlock it, or use an environment variable"
        ) from error
    if value is None:
        raise LoginRefused(f"the keyring has no entry {entry}", hint=f"keyring set {service} {user}")
    return value
