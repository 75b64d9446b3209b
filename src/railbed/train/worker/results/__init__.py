"""Programs that use a trained model on a node, each started as a module, and what they share. Read `serve.py` first.

serve      the life of such a program: one request, messages, refusals
generate   text from a model
"""
