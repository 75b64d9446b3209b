"""What the parsers of probes and bench tools share: careful readers of text and JSON, and shell snippets.

Nothing here is a probe or a tool; each module is about one format or one kind of value. A text that does not match
raises `ParseError`, and parsing time grows in proportion to the text.
"""
