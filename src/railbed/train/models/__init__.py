"""Model families: one file each, found by folder. A recipe selects one with `model.family`.

A file describes its family without torch (`family.py`): recipe keys, number of parameters, memory, configuration. The
machine that starts the ranks needs no more than that. The torch module, which only ranks load, is what `module()`
returns; a large one has a file in `worker/models/`.
"""
