"""`python -m densefield` is the command `densefield`."""

from densefield.cli.main import main

main()
