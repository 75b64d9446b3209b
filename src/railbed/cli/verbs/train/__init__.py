"""railbed train: `command.py` has the options. Read `command.py` first.

`start.py` makes the request, from a recipe or a run to continue, and the run around it; `railbed.api.train` does the
work. `queries.py` is what starts nothing, with `--show-env` in `environment.py` and `--show-data` in `data.py`.
"""
