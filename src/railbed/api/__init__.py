"""What people call from Python, and what the command line calls: verbs as functions that yield records.

Read `stream.py` first.

- `verbs/`: the functions; `train/` has that of a training, which joins several verbs.
- `stream.py`: what they return, with and without `async`. `stored.py`: runs as objects.
- `running.py`: the engine, which opens the run of a verb, stores each record and passes it on.
- `reach.py`, `clusters.py`, `site.py`: how devices are reached, and which cluster they are of.
- `handover.py`: what the page about a cluster is made from.
- `tally.py`, `exits.py`: the exit code, which runs store. `kinds.py`: which runs a verb can use.

Nothing here prints, handles signals or exits.
"""
