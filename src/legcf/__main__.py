"""`python -m legcf` is the `legcf` command."""

from legcf.cli.app import main

main()
