"""railbed train. Read `command.py` first.

`start.py` makes the request and the run around it, whose work is in `stages.py`: check the cluster, train on it.
`command.py` declares the options, `start.py` reads the run to continue, and `files.py` writes further files beside its
records. `queries.py` is what starts nothing, with `--show-env` in `environment.py` and `--show-data` in `data.py`.
"""
