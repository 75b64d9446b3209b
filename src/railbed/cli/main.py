"""The entry point: the verbs, the only place that catches errors, and the exit codes.

Messages about invalid arguments say what is wrong, what was probably meant, and where to read about it. `--help` reads
the verbs and their descriptions from source: importing all of them takes a second.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import errno
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from railbed import __version__
from railbed.api.exits import BUG, INTERRUPTED, PIPE, USER, exit_code
from railbed.cli.hints import use_cluster_file, with_cluster
from railbed.cli.run import signals
from railbed.cli.run.encoding import ERRORS, SafeStream, is_ascii_wanted
from railbed.errors import RailbedError, os_reason


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


def summary_of(verb: str, module: str) -> str:
    """Return the first paragraph of a verb's `--help`: a docstring, or the `help` of a group of commands."""
    path = Path(__file__).parent.joinpath("verbs", *module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_bytes())
    name = f"{verb}_command"
    for node in tree.body:
        match node:
            case ast.FunctionDef() if node.name == name:
                return (ast.get_docstring(node) or "").partition("\n\n")[0]
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(keywords=keywords)) if target == name:
                return str(next(ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg == "help"))
    raise LookupError(name)


def stand_in(verb: str, module: str) -> Callable[[], None]:
    """Return a placeholder that is listed like the verb and never called."""

    def command() -> None:
        raise AssertionError(f"{verb} was not loaded")

    command.__doc__ = summary_of(verb, module)
    return command


VERBS = {
    "discover": "discover",
    "check": "check.command",
    "configure": "configure.command",
    "bench": "bench",
    "train": "train.command",
    "watch": "watch.command",
    "capture": "capture.command",
    "export": "export",
    "generate": "generate",
    "lab": "lab",
    "diagnose": "diagnose.command",
    "report": "report",
    "compare": "compare",
    "submit": "submit",
    "runs": "runs.command",
    "parse": "parse",
}
"""Each verb's module in `railbed.cli.verbs`, which has `VERB_command`: a function, or a group of further commands."""
SETTINGS = {"submit": {"ignore_unknown_options": True}}
"""Settings of a verb's command line: submit passes options on to the verb of the job."""
COMPLETION = "_RAILBED_COMPLETE"
"""Set by a shell that completes a command line."""


def make_app(verbs: Iterable[str] = VERBS, listed: Iterable[str] = ()) -> typer.Typer:
    """Return the command line with these verbs; others are only listed, without loading them."""
    app = typer.Typer(
        name="railbed",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(railbed)
    for verb in verbs:
        command = getattr(import_module(f"railbed.cli.verbs.{VERBS[verb]}"), f"{verb}_command")
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=verb)
        else:
            app.command(verb, context_settings=SETTINGS.get(verb))(command)
    for verb in listed:
        app.command(verb)(stand_in(verb, VERBS[verb]))
    return app


def _app_for(words: Sequence[str]) -> typer.Typer:
    """Return the command line with the requested verb; without one, with the list of all."""
    if COMPLETION in os.environ:
        return make_app()
    verb = next((word for word in words if not word.startswith("-")), "")
    return make_app([verb]) if verb in VERBS else make_app([], listed=VERBS)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"railbed {__version__}")
        raise typer.Exit


def railbed(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """From one cluster file to a proven RDMA training cluster.

    Exit codes: 0 success; 1 findings failed, or there are changes to make; 2 mistakes in files or arguments;
    3 a device or tool is missing or unreachable, or something that training depends on is unknown; 70 a bug in railbed;
    130 interrupted.
    """


def run(arguments: list[str] | None = None, *, loaded: Callable[[], None] = lambda: None) -> int:
    """Run the command line and return the exit code; `loaded` is called when the verb's modules are loaded."""
    _prepare_streams()
    use_cluster_file(None)
    words = arguments or sys.argv[1:] or ["--help"]
    try:
        app = _app_for(words)
        loaded()
        code = int(app(words, standalone_mode=False) or 0)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        return _ending(error)
    return _complain("interrupted", "", code) if code == INTERRUPTED else code


def _ending(error: BaseException) -> int:  # noqa: PLR0911  (one for each ending)
    """Print what went wrong in one sentence, and return the exit code for it."""
    notes = getattr(error, "__notes__", [])
    if signals.was_interrupted() and not isinstance(error, SystemExit):
        return _complain("interrupted", "", INTERRUPTED, notes)  # as some libraries raise it
    match error:
        case SystemExit(code=1):  # raised by typer and rich if nothing reads the output (`railbed … | head`)
            return PIPE
        case SystemExit(code=code):
            return int(code or 0)
        case KeyboardInterrupt() | typer.Abort() | signals.Interrupted():
            return _complain("interrupted", "", INTERRUPTED, notes)
        case typer.TyperException():
            return _complain(*complaint(error), USER)
        case RailbedError():
            return _complain(error.message, error.hint, exit_code(error), notes)
        case OSError(errno=errno.ENOSPC | errno.EIO):
            _drop_output()
            return _complain(f"the output cannot be written: {os_reason(error)}", "", USER, notes)
        case _:
            details = _keep_traceback(error)
            return _complain(f"railbed itself failed; the details: {details}", "please report it", BUG, notes)


def _prepare_streams() -> None:
    """Make closed streams, unsupported characters and control sequences harmless."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (until the end)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="ascii" if is_ascii_wanted() else None, errors=ERRORS)
        if not isinstance(getattr(sys, name), SafeStream):
            setattr(sys, name, SafeStream(getattr(sys, name)))


def _drop_output() -> None:
    """Discard pending output: otherwise Python writes it again at exit, and prints its own error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, hint: str, code: int, notes: Sequence[str] = ()) -> int:
    """Print what went wrong, what to do about it, and what was saved."""
    lines = [f"railbed: {message}", *(f"  {line}" for line in (with_cluster(hint), *notes) if line)]
    with contextlib.suppress(OSError):  # the terminal was closed
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    return code


def _keep_traceback(error: BaseException) -> str:
    """Write the traceback to a file and return its path; if that is not possible, return the last line."""
    details = "".join(traceback.format_exception(error))
    try:
        # A new file with an unpredictable name, readable only by us: in /tmp others may have placed a link.
        descriptor, path = tempfile.mkstemp(prefix=f"railbed-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"railbed {__version__}, Python {sys.version}\n{sys.argv}\n\n{details}")
    except OSError:
        return details.strip().splitlines()[-1]
    return path
