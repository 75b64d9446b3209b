"""One file per source: a command and a pure parser (`PROBE`). `interpret` turns raw output into readings."""
