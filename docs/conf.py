"""The site: `make docs` builds it from these pages, and every warning is an error."""

import snapimpute

project = "snapimpute"
author = "The snapimpute developers"
project_copyright = author
release = version = snapimpute.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["results/README.md"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "snapimpute"
html_static_path = ["_static"]
html_theme_options = {"navigation_with_keys": True}
pygments_dark_style = "monokai"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = False
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

suppress_warnings = [
    "ref.python",  # types such as "array of shape (m, n)" are words, not names to link
    "myst.header",  # tables of results are made to stand below other headings, too
]


def _as_prose(app, what, name, obj, options, lines):
    """Our docstrings are plain text: |Ω| is a size there, not a substitution."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        lines[i] = line if example else line.replace("|", r"\|")


def _without_requests(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator to route metadata."""
    return True if name.startswith("set_") and name.endswith("_request") else skip


def setup(app):
    """Connect the two."""
    app.connect("autodoc-process-docstring", _as_prose, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", _without_requests)
