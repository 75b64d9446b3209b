"""Texts: amounts with units, text that cannot control a terminal, text without secrets, and paths as typed.

Read `printable.py` first.
"""
