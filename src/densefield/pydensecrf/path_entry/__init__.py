"""A folder for sys.path and PYTHONPATH: the package pydensecrf in it forwards to densefield.pydensecrf."""
