"""Invalid arguments: what is wrong, what was probably meant, and where to read about it."""

from __future__ import annotations

import difflib

import typer


def complaint(error: typer.TyperException) -> tuple[str, str]:
    """Return the sentence and the hint for invalid arguments."""
    message = error.format_message().rstrip(".")
    if hasattr(error, "possibilities"):
        option = getattr(error, "option_name", "")
        near = difflib.get_close_matches(option, error.possibilities or (), n=1)
        message = f"No such option: {option}" + (f"; did you mean {near[0]}?" if near else "")
    command = _command(error)
    return message, f"`{command} --help` shows {'how it is used' if ' ' in command else 'the commands'}"


def _command(error: typer.TyperException) -> str:
    """Return the command that was called, as far as it was parsed."""
    words: list[str] = []
    context = getattr(error, "ctx", None)
    while context is not None and context.parent is not None:
        words.insert(0, str(context.info_name))
        context = context.parent
    return " ".join(["railbed", *words])
