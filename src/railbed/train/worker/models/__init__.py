"""The torch side of each model family, and what they share. Read `base.py` first.

gpt      GPT-2
loss     cross-entropy without a table of all scores
sample   text from a trained model
"""
