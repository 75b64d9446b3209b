"""The functions that `import railbed` offers, a file for each verb: arguments in, a `RecordStream` or a result out.

Read `check.py` first.
"""
