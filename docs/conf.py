"""How Sphinx builds these pages; `make docs` treats every warning as an error."""

from importlib.metadata import version as installed_version

project = "densefield"
author = "The densefield developers"
copyright = "2026, The densefield developers"
release = version = installed_version("densefield")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "literal"  # `values` in a docstring is code

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = f"densefield {release}"
