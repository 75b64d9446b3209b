"""One file per source: a command and a pure parser (`PROBE`). Files without a PROBE are what several parsers share."""
