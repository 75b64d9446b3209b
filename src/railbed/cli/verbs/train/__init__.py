"""railbed train: `command.py` first.

`options.py` declares the options, `resume.py` reads the run to continue, `files.py` writes further files beside its
records, `environment.py` is `--show-env`, and `data.py` is `--show-data`.
"""
