import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import desc_signature
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.writers.html5 import HTML5Translator

import gemax

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "gemax"
author = "The gemax authors"
copyright = author
version = release = gemax.__version__
language = "en_GB"

extensions = ["myst_nb", "sphinx.ext.autodoc", "gemax_reference"]
exclude_patterns = ["jupyter_execute", "_build"]
nb_execution_mode = "off"  # the notebook has its outputs, and a test executes it
html_theme = "furo"
toc_object_entries_show_parents = "hide"
html_title = f"gemax {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["gemax.css"]
html_math_renderer = "mathml"

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings use single backticks for code, which are easier to read in the source.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
python_use_unqualified_type_names = True

MODULES = {"~jaxtyping.": "", "jaxtyping.": "", "jaxlib._jax.Array": "Array", "numpy.ndarray": "ndarray"}
ALIASES = {
    "Float[Array, 'N'] | Bool[Array, 'N']": "Weight",
    "Float[Array, 'M'] | Bool[Array, 'M']": "OtherWeight",
    "Key[Array, ''] | UInt32[Array, '2'] | UInt32[Array, '4']": "PRNGKeyArray",
}


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Writes inline mathematics as MathML, which browsers render without scripts and without a network."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Writes displayed mathematics as MathML."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def shorten(text: str, names: dict[str, str]) -> str:
    """Replaces long type names by the names used in the source."""
    for long, short in names.items():
        text = text.replace(long, short)
    return text


def shorten_signature(app, what, name, obj, options, signature, return_annotation):
    """Shortens the types in function signatures, before Sphinx parses them."""
    return tuple(text and shorten(text, MODULES | ALIASES) for text in (signature, return_annotation))


def shorten_attributes(app: Sphinx, doctree: nodes.document) -> None:
    """Shortens the types of attributes, for which autodoc has no hook."""
    for declaration in doctree.findall(desc_signature):
        for text in list(declaration.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(shorten(text, MODULES)))


def read_sections(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Reads `Args:` and other sections. Not in docstrings of attributes, where a colon would end a type."""
    if what in ("class", "function", "method"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()


def setup(app: Sphinx) -> None:
    """Registers these functions with Sphinx."""
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", read_sections)
    app.connect("doctree-read", shorten_attributes)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
