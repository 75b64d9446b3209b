"""`python -m railbed` is the same as `railbed`."""

from railbed.cli.main import main

main()
