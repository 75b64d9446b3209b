"""Shows a verb at work: its records on a screen, its end as an exit code, an interruption as what was saved."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from railbed.api.running import Beside, Closing, Invocation, LeftEarly, RunningVerb, Work, start_verb
from railbed.api.stream import RecordStream
from railbed.api.tally import Decide, conclude
from railbed.cli.hints import add_cluster_file
from railbed.cli.options import Options
from railbed.cli.run.signals import Interrupted, run_until_ended
from railbed.cli.run.unfinished import KeptRun
from railbed.cli.screens.base import Screen
from railbed.cli.screens.choose import make_screen
from railbed.errors import RailbedError
from railbed.model.cluster import Cluster
from railbed.store import Store, run_to_continue

ACTED_ON = ("train", "bench")
"""Verbs whose runs later commands work on: they continue training, fetch results, and remove files of nodes."""


def perform(
    verb: str,
    cluster: Cluster,
    options: Options,
    work: Work,
    *,
    decide: Decide = conclude,
    screen: Screen | None = None,
    beside: Beside | None = None,
    closing: Closing = tuple,
    changing: bool = False,
) -> int:
    """Run a verb on a cluster and return the exit code; an error that ends it gets notes about what was saved.

    `changing` reaches every device in a way that can change it.
    """
    screen = screen or make_screen(as_json=options.json, verbose=options.verbose, cluster=cluster)
    invocation = Invocation(
        verb=verb, cluster=cluster, work=work, decide=decide, beside=beside, closing=closing, changing=changing
    )
    return show(RecordStream(invocation, options), screen)


def show(stream: RecordStream, screen: Screen) -> int:
    """Run a verb that was called, show it, and return the exit code."""
    invocation, store = stream.invocation, Store(continued=run_to_continue())
    starting = start_verb(invocation, stream.reach, store=store, arguments=sys.argv[1:], revise=add_cluster_file)
    with starting as running, screen:
        folder = running.run.folder
        stream.begin(folder)
        if running.run.unproven and invocation.verb in ACTED_ON:
            sys.stderr.write(f"railbed: later commands need -c FILE for this run: {running.run.unproven.message}\n")
        screen.begin(folder)
        unfinished = KeptRun(running.run)
        running.takers += [unfinished.take, screen.show]
        try:
            with running.ending():
                run_until_ended(running.complete(), screen.line.end)
        except KeyboardInterrupt:
            _show_cut_short(running, screen)
            raise Interrupted(*unfinished.notes()) from None
        except LeftEarly:
            _show_cut_short(running, screen)
            raise
        except BrokenPipeError:
            raise
        except RailbedError as error:
            _show_cut_short(running, screen)
            _annotate(error, unfinished.notes())
            raise
        except BaseException as error:
            _annotate(error, unfinished.notes())
            raise
        return _complete(running, screen)


def _complete(running: RunningVerb, screen: Screen) -> int:
    """Record and show the end of a run that completed its work, and return the exit code."""
    conclusion = running.conclude()
    screen.finish(running.run.folder)
    if conclusion.announced and conclusion.reason:
        screen.conclude(f"exit code {conclusion.code}: {conclusion.reason}")
    return conclusion.code


def _show_cut_short(running: RunningVerb, screen: Screen) -> None:
    with suppress(OSError):  # the terminal was closed
        screen.cut_short(running.run.folder)


def _annotate(error: BaseException, notes: Iterable[str]) -> None:
    for note in notes:
        error.add_note(note)
