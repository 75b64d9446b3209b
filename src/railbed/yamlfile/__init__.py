"""Files that people write, read with all their mistakes told: file, line, key, and what was probably meant.

kind        what has to be known of a kind of file: the cluster file, a recipe
document    YAML text as plain values, with the line of every key
read        a file's text, and its values as the kind's model
mistakes    a mistake, and the error that tells all of them
translate   pydantic's errors as mistakes;  wording  what a key expects, in words;  syntax  what YAML refuses
"""
