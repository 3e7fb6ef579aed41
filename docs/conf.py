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


def add_example_headings(app, what, name, obj, options, lines):
    """Puts a heading before an example that follows a Parameters section, so that it is not read as a parameter."""
    if "Parameters" not in lines or "Examples" in lines:
        return
    first = next((i for i, line in enumerate(lines) if line.startswith(">>>") and i > lines.index("Parameters")), None)
    if first is not None:
        lines[first:first] = ["Examples", "--------"]


def setup(app):
    """Runs before napoleon reads the docstrings."""
    app.connect("autodoc-process-docstring", add_example_headings, priority=400)
