"""Files that people write: every mistake is reported with file, line, key and a suggestion. Read `read.py` first.

kind       the properties of a kind of file: the cluster file, a recipe
document   YAML text as plain values, with the line of every key; what is refused before parsing
read       a file's text, and its values as the kind's model
mistakes   a mistake, and the error that lists all of them
translate  errors of pydantic as mistakes;  wording  what a key expects, in words
"""
