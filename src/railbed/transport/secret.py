"""Passwords and passphrases, fetched when needed from the places in the cluster file; never stored."""

from __future__ import annotations

import getpass
import os
import sys
from functools import cache

from railbed.errors import LoginRefused, ToolMissing
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
    """Ask once for each question; what is typed is not shown."""
    if not sys.stdin.isatty():
        raise LoginRefused(
            f"there is no terminal to ask for the {question}",
            hint="use an environment variable or a keyring in the cluster file",
        )
    value = getpass.getpass(f"{question}: ")
    if not value:
        raise LoginRefused(f"no {question} was given")
    return value


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
