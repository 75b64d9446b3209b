"""A training from its request to its last record: `verb.py` has the function, `stages.py` what it consists of.

`request.py` makes the request from a recipe or an earlier run (`earlier.py`); `files.py` writes what belongs to the
run besides its records; `restarts.py` checks the nodes again when ranks restart.
"""
