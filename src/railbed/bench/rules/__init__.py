"""One file per verdict about measurements."""
