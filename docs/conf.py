"""How Sphinx builds these pages; `make docs` treats every warning as an error."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "densefield"
author = "The densefield developers"
copyright = "2026, The densefield developers"
release = version = installed_version("densefield")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "offline_math",
    "short_types",
]
# README.md is for readers of the repository; gallery and tutorials are the sources of generated/.
exclude_patterns = ["README.md", "_build", "gallery", "tutorials"]
default_role = "literal"  # `values` in a docstring is code

myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Scripts of docs/tutorials and docs/gallery run when the pages are built; an error in one ends the build.
sphinx_gallery_conf = {
    "examples_dirs": ["tutorials", "gallery"],
    "gallery_dirs": ["generated/tutorials", "generated/gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/uses",
    "doc_module": ("densefield",),
    "reference_url": {"densefield": None},
    "reset_modules": ("matplotlib",),
    "image_srcset": ["2x"],
    "thumbnail_size": (640, 220),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = f"densefield {release}"
html_static_path = ["_static"]
html_css_files = ["densefield.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#4cc38a", "color-brand-content": "#4cc38a"},
}


def add_example_headings(app, what, name, obj, options, lines):
    """Puts a heading before an example that follows a Parameters section, so that it is not read as a parameter."""
    if "Parameters" not in lines or "Examples" in lines:
        return
    first = next((i for i, line in enumerate(lines) if line.startswith(">>>") and i > lines.index("Parameters")), None)
    if first is not None:
        lines[first:first] = ["Examples", "--------"]


def link_pages_of_scripts(app, docname, source):
    """Links scripts of the gallery, which a reader of the repository opens, to the pages made of them."""
    source[0] = re.sub(r"\]\((gallery|tutorials)/(\w+)\.py\)", r"](generated/\1/\2.rst)", source[0])


def setup(app):
    """Headings are added before napoleon reads the docstrings."""
    app.connect("source-read", link_pages_of_scripts)
    app.connect("autodoc-process-docstring", add_example_headings, priority=400)
