"""What a trained model is used for, without torch: which weights there are, and the programs on a node that use them.

Read `program.py` first.

sources  the weights of a run on its nodes
program  starts a program of `worker/results` on a node, and reads its messages; fetches a folder from a node
adapter  the settings of an adapter's folder, and the model below it
"""
