"""Runs: one folder per use of a verb, append-only, readable with `jq`, whole after any crash."""

from railbed.store.run import (
    OpenRun,
    RunSummary,
    find_run,
    list_runs,
    open_run,
    read_records,
    read_run,
    read_run_in,
    record_lines,
    write_atomically,
)

__all__ = [
    "OpenRun",
    "RunSummary",
    "find_run",
    "list_runs",
    "open_run",
    "read_records",
    "read_run",
    "read_run_in",
    "record_lines",
    "write_atomically",
]
