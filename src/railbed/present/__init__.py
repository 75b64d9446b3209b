"""Wording, grouping and numbers that the terminal and the report share; it knows neither of them.

Open `nodes.py` for how nodes with the same findings share one block.
"""
