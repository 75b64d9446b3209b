"""What a rank reads from disk and writes to it. Read `saver.py` first.

corpus      the training text as batches
saver       the training state, saved in the background and restored
tensorfile  tensors in safetensors format
export      weights in Hugging Face layout
convert     a checkpoint to such weights, as a program
"""
