# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration for the site, which tools/build_site.sh builds once with the tag `en` and once with `zh`.

The pages stay as they are in the tree, where Markdown's own links join them. This file adds what a site needs beside them: the order of
pages, links from one language to the other, and a search that can separate Chinese words."""

import fnmatch
import logging
import os
import pathlib
import re
import shutil

import jieba
from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.search.zh import SearchChinese
from sphinx.util.osutil import relative_uri

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANGUAGE = "zh" if tags.has("zh") else "en"  # noqa: F821  # Sphinx defines `tags`
DECISION = re.compile(r"docs/adr/\d")
FRONT = {"en": "README", "zh": "README_zh"}
FOLDER = {"en": "", "zh": "zh/"}  # in the site
NAMES = {"en": "English", "zh": "中文"}
SKIP = {"en": "Skip the navigation", "zh": "跳过导航"}  # what the keyboard reaches first
HTML_LANGUAGE = {"en": "en", "zh": "zh-CN"}
# Captions of the navigation and their pages; what is in none comes last.
GROUPS = {
    "en": {"Course": ["docs/tutorial/README", "docs/tutorial/en/*", "docs/tutorial/teaching"],
           "Running jobs": [f"docs/{name}" for name in ("cli", "elastic", "ssh", "ray", "cluster", "batch", "check", "report", "errors",
                                                        "coming-from", "preload", "compatibility")],
           "Python": [f"docs/{name}" for name in ("python", "train", "tune", "torch", "ray_train")],
           "Inside": ["docs/architecture", "docs/protocol", "docs/rendezvous", "docs/*", "docs/adr/README"],
           "Project": ["*"]},
    "zh": {"教程": ["docs/tutorial/zh/*", "*"]},
}


def language_of(name):
    return "zh" if "/zh/" in name or name.endswith("_zh.md") else "en"


ALL_PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"),
                                                                  *ROOT.glob("examples/*/README.md")))

jieba.setLogLevel(logging.WARNING)
project = "hvdray"
version = release = re.search(r"project\(\s*hvdray\s+VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
language = {"en": "en", "zh": "zh_CN"}[LANGUAGE]
root_doc = FRONT[LANGUAGE]
include_patterns = [name for name in ALL_PAGES if language_of(name) == LANGUAGE]
exclude_patterns = [name for name in os.listdir(ROOT) if name not in ("docs", "examples") and not name.endswith(".md")]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_ref_domains = ["std"]
myst_disable_syntax = ["myst_role", "myst_line_comment", "myst_block_break", "myst_target"]  # the pages are plain Markdown
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # pages abbreviate code with …
smartquotes = False
html_theme = "furo"
html_title = f"hvdray {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_sidebars = {"**": ["sidebar/brand.html", "language.html", "sidebar/search.html", "sidebar/scroll-start.html",
                        "sidebar/navigation.html", "sidebar/scroll-end.html"]}
templates_path = ["."]


class Search(SearchChinese):
    """A query, in which Chinese words are not separated, is cut into the longest ones that the index has."""

    js_splitter_code = """
function splitQuery(query) {
  const found = [];
  const isKnown = (word) => word in Search._index.terms || word in Search._index.titleterms;
  for (const part of query.match(/\\p{Script=Han}+|(?:(?!\\p{Script=Han})[\\p{L}\\p{N}_])+/gu) || []) {
    if (!/\\p{Script=Han}/u.test(part)) {
      found.push(part);
      continue;
    }
    const before = found.length;
    for (let i = 0, length; i < part.length; i += length) {
      for (length = part.length - i; length > 1 && !isKnown(part.slice(i, i + length)); --length) {}
      if (length > 1) found.push(part.slice(i, i + length));
    }
    if (found.length === before) found.push(part);
  }
  return found;
}
"""


def navigation():
    """The pages in their order, as toctree directives."""
    pages = [name.removesuffix(".md") for name in include_patterns if not DECISION.match(name)]
    left = [page for page in pages if page != root_doc]
    named = {page for patterns in GROUPS[LANGUAGE].values() for page in patterns}
    for caption, patterns in GROUPS[LANGUAGE].items():
        chosen = []
        for pattern in patterns:
            chosen += [page for page in left if fnmatch.fnmatch(page, pattern) and (page == pattern or page not in named)]
            left = [page for page in left if page not in chosen]
        yield toctree(chosen, f":hidden:\n:caption: {caption}")


def toctree(pages, options):
    return "\n```{toctree}\n" + "\n".join([options, "", *(f"/{page}" for page in pages)]) + "\n```\n"


def add_navigation(app, docname, source):
    if docname == root_doc:
        source[0] += "".join(navigation())
    elif docname == "docs/adr/README":
        source[0] += toctree([name.removesuffix(".md") for name in include_patterns if DECISION.match(name)], ":titlesonly:")


def address(name):
    """Of a page in the site."""
    return FOLDER[language_of(name)] + name.removesuffix(".md") + ".html"


def link_elsewhere(app, env, node, contnode):
    """Links to a folder, which mean its first page, and to pages of the other language."""
    target, _, anchor = node["reftarget"].partition("#")
    if not target:
        return None  # a heading that this page lacks: Sphinx says so
    name = os.path.normpath(os.path.join(os.path.dirname(node["refdoc"]), target))
    if (ROOT / name).is_dir():
        pages = sorted((page for page in ALL_PAGES if os.path.dirname(page) == name), key=lambda page: not page.endswith("README.md"))
        name = pages[0] if pages else name
    if name not in ALL_PAGES:
        return None
    uri = relative_uri(address(node["refdoc"] + ".md"), address(name)) + (f"#{anchor}" if anchor else "")
    return nodes.reference("", "", contnode, refuri=uri, internal=True)


def page_context(app, pagename, templatename, context, doctree):
    # Nothing here needs them, and they are larger than all the rest.
    context["script_files"] = [script for script in context["script_files"] if not re.search(r"jquery|underscore|_compat", str(script.filename))]
    context["skip"] = SKIP[LANGUAGE]
    other = "en" if LANGUAGE == "zh" else "zh"
    counterpart = pagename.replace(f"tutorial/{LANGUAGE}/", f"tutorial/{other}/") + ".md"
    if re.fullmatch(r"docs/tutorial/(README|teaching)(_zh)?", pagename):
        counterpart = pagename.removesuffix("_zh") + ("_zh.md" if other == "zh" else ".md")
    if counterpart not in ALL_PAGES or language_of(counterpart) != other:
        counterpart = FRONT[other] + ".md"
    here = FOLDER[LANGUAGE] + pagename + ".html"
    context["other_language"] = {"name": NAMES[other], "code": HTML_LANGUAGE[other], "address": relative_uri(here, address(counterpart))}


def finish(app, exception):
    if exception is None:
        folder = pathlib.Path(app.outdir)
        shutil.copyfile(folder / f"{root_doc}.html", folder / "index.html")
        for script in (folder / "_static").glob("*.js"):
            if re.search(r"jquery|underscore|_compat", script.name):
                script.unlink()
        # Debian's furo takes this from /javascript of its server, which only Debian's servers have.
        style = folder / "_static/styles/furo.css"
        style.write_text(re.sub(r"@import url\((/javascript/[^)]*)\);", lambda found: pathlib.Path(f"/usr/share{found[1]}").read_text(),
                                style.read_text()))
        # And its script is a module that pages load as none, so that no browser runs it: as one file it runs.
        scripts = folder / "_static/scripts"
        first, _, rest = (scripts / "furo.js").read_text().partition("\n")
        if first == 'import Gumshoe from "./gumshoe-patched.js";':
            (scripts / "furo.js").write_text((scripts / "gumshoe-patched.js").read_text() + rest)


def setup(app):
    app.add_lexer("mermaid", TextLexer)
    app.add_search_language(Search)
    app.connect("source-read", add_navigation)
    app.connect("missing-reference", link_elsewhere)
    app.connect("html-page-context", page_context, priority=900)
    app.connect("build-finished", finish, priority=900)
