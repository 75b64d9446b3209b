"""Recordings for the rules of capture: for each, one that it recognises, and one that nearly is one.

Every number is right at a threshold, on one side or the other.
"""
