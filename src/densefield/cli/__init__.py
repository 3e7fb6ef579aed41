"""The command line: parsing only; each verb calls one function of the layers below. Needs typer, rich and Pillow."""
