"""What people call from Python, and what the command line calls: verbs as functions that yield records.

Open `running.py` first: it opens the run of a verb, stores each record and passes it on. Nothing here prints, handles
signals or exits.
"""
