"""Runs: one folder per use of a verb, append-only, readable with `jq`, whole after any crash."""

from railbed.store.run import OpenRun, RunSummary, list_runs, open_run, read_records, read_run, write_atomically

__all__ = ["OpenRun", "RunSummary", "list_runs", "open_run", "read_records", "read_run", "write_atomically"]
