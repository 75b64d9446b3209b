"""One file per tool."""
