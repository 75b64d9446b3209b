"""Distributed training. What stands directly here needs no torch; `worker/` is what runs on the nodes.

recipe      what to train, as a validated file          data        text to memory-mapped tokens
order       which window of tokens is where in a step   job         what a rank is told, and how
checkpoints which saved states are good                 estimate    memory before anything is started
fit         whether it fits into the nodes              idle        how long ranks waited for each other
shares      who takes how much of a batch               network     how the gradients travel, and the proof
"""
