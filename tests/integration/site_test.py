# SPDX-License-Identifier: Apache-2.0
"""tools/build_site.sh: the site builds without a word, all of its links lead somewhere, and a page that is wrong stops it."""

import html.parser
import pathlib
import re
import resource
import shutil
import subprocess
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_BUILD_S = 40  # of processors: other tests do not count
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("object", "data")}


def build(tree, folder):
    return subprocess.run([tree / "tools/build_site.sh", folder], capture_output=True, text=True)


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    began = children_s()
    done = build(ROOT, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert children_s() - began <= LONGEST_BUILD_S
    return folder


class PageReader(html.parser.HTMLParser):
    """What a page links to and loads, and the places in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.ids, self.language = [], [], set(), None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        if tag == "html":
            self.language = values["lang"]
        for name in ("href", "src", "data"):
            value = values.get(name)
            if value and (tag, name) in LOADED and values.get("rel") not in ("canonical", "next", "prev", "index", "search"):
                self.loads.append(value)
            elif value and name != "data":
                self.links.append(value)


@pytest.fixture(scope="module")
def pages(site):
    return {path: PageReader(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_all_links_lead_to_a_page_a_place_or_a_file(site, pages):
    wrong = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme:
                continue
            goal = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            is_there = goal.is_file() and goal.is_relative_to(site)
            fragment = urllib.parse.unquote(parts.fragment)
            if not is_there or fragment and goal in pages and fragment not in pages[goal].ids and link != "#":
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_nothing_is_loaded_from_another_host(site, pages):
    assert not [(path, load) for path, page in pages.items() for load in page.loads if urllib.parse.urlsplit(load).netloc]
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert "@import" not in text and not re.search(r"url\(['\"]?(?:/|\w+:(?!image/))", text), path


def test_every_page_of_the_tree_is_there_in_its_language(site, pages):
    for source in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        name = source.relative_to(ROOT).with_suffix(".html")
        is_chinese = "zh" in source.parts or source.stem.endswith("_zh")
        page = pages[site / "zh" / name if is_chinese else site / name]
        assert page.language == ("zh-CN" if is_chinese else "en")
    assert (site / "index.html").read_bytes() == (site / "README.html").read_bytes()


def test_chapters_lead_to_the_same_chapter_in_the_other_language(site, pages):
    english, chinese = site / "docs/tutorial/en/05_elastic.html", site / "zh/docs/tutorial/zh/05_elastic.html"
    for here, there in ((english, chinese), (chinese, english)):
        assert there in {(here.parent / link).resolve() for link in pages[here].links}


def test_a_page_that_is_wrong_stops_the_build_and_is_named(tmp_path):
    tree = tmp_path / "a tree"
    (tree / "tools").mkdir(parents=True)
    shutil.copytree(ROOT / "docs", tree / "docs")
    for name in ("README.md", "README_zh.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE", "CMakeLists.txt",
                 "tools/build_site.sh", "tools/install_packages.sh"):
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(ROOT / "configs", tree / "configs")
    for name in ("docs/replay.md", "docs/tutorial/zh/05_elastic.md"):
        with (tree / name).open("a", encoding="utf-8") as page:
            page.write("\n[there](nowhere.md) [here](#no-such-heading)\n")
    (tree / "build/site").mkdir(parents=True)
    (tree / "build/site/searchindex.js").touch()  # the site of before
    done = build(tree, tree / "build/site")
    assert done.returncode == 1 and done.stdout == ""
    said = done.stderr.splitlines()
    for name in ("docs/replay.md", "docs/tutorial/zh/05_elastic.md"):
        for goal in ("nowhere.md", "#no-such-heading"):
            assert [line for line in said if f"{name}:" in line and f"not found: {goal}" in line], (name, goal, done.stderr)
    assert [path.name for path in (tree / "build").iterdir()] == ["site"]
    assert [path.name for path in (tree / "build/site").iterdir()] == ["searchindex.js"]


def test_options_are_no_folders():
    done = build(ROOT, "--help")
    assert (done.returncode, done.stderr) == (2, "usage: build_site.sh [FOLDER]\n")


def test_a_folder_with_something_else_is_not_replaced(tmp_path):
    (tmp_path / "precious").write_text("x")
    for folder in (tmp_path, tmp_path / "precious", ROOT.parent):
        done = build(ROOT, folder)
        assert done.returncode == 2 and done.stderr.startswith("build_site.sh: ") and done.stderr.count("\n") == 1, done.stderr
    assert (tmp_path / "precious").read_text() == "x"
