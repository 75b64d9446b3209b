"""Turn a suite into trials and run them on real nodes. Read `trials.py` first.

pattern       who sends to whom
schedule      the trials of a suite on this cluster, in order, and what cannot be measured here
trials        run them one after the other; nodes that stop answering are skipped
exchange      one trial: servers started and awaited, clients run together, everything ended
sample_times  how many samples of a latency test fit into the seconds of its step
script        the shell around a tool: CPU pinning and CPU time
results       numbers and missing numbers as records
pace          how long trials take compared with the schedule, and so the time left
remeasure     repeats a suspiciously slow path before it is reported
"""
