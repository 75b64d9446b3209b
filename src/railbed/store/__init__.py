"""Runs: one folder per use of a verb, append-only, readable with `jq`, intact after any crash.

Read `writing.py` first.
"""

from railbed.store.find import ANY_RUN, NEWEST, RunKind, find_run, similar_names, summary_of
from railbed.store.records import (
    NewLines,
    RecordReader,
    follow,
    measurement_name,
    read_record,
    read_records,
    record_lines,
    to_line,
)
from railbed.store.run import (
    Process,
    RunSummary,
    Status,
    ask_to_end,
    is_being_written,
    is_own_folder,
    list_runs,
    read_run,
    read_run_in,
    remove_run,
    replacing,
    resolve_links,
    runs_folder,
    write_atomically,
)
from railbed.store.writing import CONTINUED, OpenRun, Store, new_run, open_run, run_to_continue, set_status

__all__ = [
    "ANY_RUN",
    "CONTINUED",
    "NEWEST",
    "NewLines",
    "OpenRun",
    "Process",
    "RecordReader",
    "RunKind",
    "RunSummary",
    "Status",
    "Store",
    "ask_to_end",
    "find_run",
    "follow",
    "is_being_written",
    "is_own_folder",
    "list_runs",
    "measurement_name",
    "new_run",
    "open_run",
    "read_record",
    "read_records",
    "read_run",
    "read_run_in",
    "record_lines",
    "remove_run",
    "replacing",
    "resolve_links",
    "run_to_continue",
    "runs_folder",
    "set_status",
    "similar_names",
    "summary_of",
    "to_line",
    "write_atomically",
]
