"""The site: `make docs` builds it into docs/_build/html, where it can be read without a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import cacr

project = "cacr"
author = "The cacr authors"
copyright = "the cacr authors, MIT licence"
version = release = cacr.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "named_things",
    "short_references",
    "bars_in_docstrings",
]
exclude_patterns = ["_build", "_ext", "figures", "reference/modules/modules.rst"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# One page per module, made anew at every build.
apidoc_modules = [
    {
        "path": "../src/cacr",
        "destination": "reference/modules",
        "separate_modules": True,
        "module_first": True,
        "exclude_patterns": ["../src/cacr/__main__.py"],
        "automodule_options": {"members", "undoc-members", "show-inheritance"},
    }
]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# An object stands on the page of the module that defines it, not again on that of a package that hands it on.
autodoc_default_options = {"ignore-module-all": True}
autodoc_mock_imports = ["wandb"]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields of a dataclass stand in its signature already

# A reference to something of cacr that is not there is an error. What other packages call their things is not checked,
# nor are private names and type variables, which signatures show and no page has.
nitpicky = True
suppress_warnings = ["ref.python"]  # a short name that several things have, such as `dim`, stays plain text
nitpick_ignore_regex = [(r"py:.*", r"(?!cacr\.).*"), (r"py:.*", r"cacr\..*\.(_\w+|[A-Z]|AnySource|Draw)")]

html_theme = "pydata_sphinx_theme"
html_title = "cacr"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
