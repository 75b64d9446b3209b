"""A training from its request to its last record: `verb.py` has the function, `stages.py` what it consists of.

Read `verb.py` first.

`request.py` makes the request from a recipe or an earlier run (`earlier.py`); `restarts.py` checks the nodes again when
ranks restart.
"""
