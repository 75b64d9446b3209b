"""Model families: one file each, found by folder. A recipe selects one with `model.family`. Read `family.py` first.

A file describes its family without torch (`family.py`): recipe keys, number of parameters, memory, configuration. The
machine that starts the ranks needs no more than that. `module()` returns the torch module, which only ranks load: that
of the file of the same name in `worker/models/`, unless a family has its own `module()`.
"""
