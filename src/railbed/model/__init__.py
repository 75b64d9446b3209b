"""Pure data: the wanted state (cluster), what devices returned (output, reading), and what verbs emit (records).

Read `record.py` first.
"""
