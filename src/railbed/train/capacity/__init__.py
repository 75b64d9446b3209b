"""Whether a model fits before anything is started. Read `memory.py` first.

estimate  the memory one rank needs
memory    the memory each node has, and what helps if it is too little
fit       the Python libraries that tuning needs; the space that checkpoints need
"""
