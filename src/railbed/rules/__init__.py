"""rules: what the rules of check, diagnose, capture and bench share. Read `rule.py` first.

rule        the form of a rule, and why one may not judge a subject
judgement   what a rule concludes about a subject, and the proof of it
book        the rules of a verb, and what differs between verbs
engine      from evidence to findings
explain     verdicts that explain others
site        what a rule sees: the cluster file with the facts of its devices and the series of a run
recorded    what was recorded of that run
signal      one series, the episodes in which it was unusual, and its chart
"""
