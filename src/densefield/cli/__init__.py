"""The command line: it parses arguments, calls the layers below, and prints. Needs typer, rich and Pillow."""
