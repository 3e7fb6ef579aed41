"""`python -m densefield.cli`."""

from densefield.cli.main import main

main()
