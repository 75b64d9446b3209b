"""What the parsers of probes and bench tools share: careful readers of text and JSON, and shell snippets.

Read `text.py` first.

There are no probes or tools here; each module handles one format or one kind of value. A text that does not match
raises `ParseError`, and parsing takes linear time.
"""
