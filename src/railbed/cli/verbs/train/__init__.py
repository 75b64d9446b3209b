"""railbed train: `command.py` first.

`options.py` declares the options, `resume.py` reads the run to continue, `files.py` writes further files beside its
records, and `environment.py` is `--show-env`.
"""
