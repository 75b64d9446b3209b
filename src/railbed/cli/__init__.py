"""Arguments in, records out: the only code that prints, handles signals and exits. Read `main.py` first.

It has the verbs and the only place that catches errors. Then read `run/perform.py`, which shows each record of a
verb and returns the exit code.

- `verbs/`: one command per verb. `screens/`: records for people or as JSON lines. `background/`: detached runs.
- `run/`: a verb's run, its signals, and what remains of it. `slurm/`: railbed inside a job.
- `options.py`, `site.py`: shared options, and which cluster they select.
- `chosen.py`: the run that a user names. `hints.py`: the cluster file in commands that messages contain.
- `console.py`: text that cannot control the terminal. `explain.py`: `--explain`.
"""
