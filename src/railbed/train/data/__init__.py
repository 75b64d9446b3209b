"""From text to the sequences of tokens that a step trains on. Read `prepare.py` first.

prepare    text files to memory-mapped tokens, cached by content
rows       one long text, for models that start from random values; documents packed into rows
tuning     documents and examples, for models that exist: rows of tokens, of which some are trained
examples   instructions and conversations in JSONL
chat       a model's chat template, and where the answers are
show       what the model will get, as text
tokenizer  text to tokens and back; work outside Python, which Ctrl-C and `kill` end at once
sampling   which sequences a step trains on, and which rank computes which of them
"""
