"""One file per source: a command and a pure parser. `text.py` and `sysfs.py` help parsers, `interpret.py` runs them."""
