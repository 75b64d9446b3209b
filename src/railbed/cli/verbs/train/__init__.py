"""railbed train: `command.py` first.

`options.py` declares the options, `resume.py` reads the run to continue, `files.py` writes what a run leaves beside its
records, and `environment.py` is `--show-env`.
"""
