"""From text to the windows of tokens that a step trains on.

prepare     text files to memory-mapped tokens, cached by content
tokenizer   text to tokens and back
sampling    which windows a step trains on, and which rank computes which of them
"""
