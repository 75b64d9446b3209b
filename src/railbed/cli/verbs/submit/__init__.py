"""railbed submit: `command.py` has the options, `words.py` checks those of the verb that the job runs."""
