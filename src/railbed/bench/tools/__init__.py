"""The measuring tools, one file each."""
