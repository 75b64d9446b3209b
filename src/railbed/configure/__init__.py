"""configure: the fixes of failing rules as changes of each device; shown, applied, undone. `run.py` is the verb."""
