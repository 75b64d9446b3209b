"""One file per section, each with a `SECTION`; found by folder."""
