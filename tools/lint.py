#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tree for faults that no compiler reports. Prints each as file:line: what."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRODUCT = ("agent/", "base/", "cmd/", "launcher/", "rendezvous/", "cluster/", "collective/", "wire/")


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout
    return [name for name in out.splitlines() if (ROOT / name).is_file()]


def text_offences(name, text):
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "trailing white space"
        if "\t" in line and name.endswith((".cc", ".h", ".py", ".cmake", ".yaml")):
            yield number, "tab"


def code_offences(name, text):
    suffix = pathlib.PurePath(name).suffix
    if suffix == ".h":
        guard = "HVDRAY_" + re.sub(r"[/.]", "_", name).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield 1, f"include guard is not {guard}"
    if suffix in (".h", ".cc") and not text.startswith(("//", "#")):
        yield 1, "does not start with a comment or an include"
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"\bgetenv\b", line) and name.startswith(PRODUCT) and "environ" not in name:
            if not line.lstrip().startswith("//"):
                yield number, "getenv outside base/environ"
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield number, "unfinished: TODO, FIXME or XXX"
        # A probe is a child process that a test watches; it may sleep.
        is_unit_test = name.startswith("tests/unit/") and not name.endswith("/probe.cc")
        if is_unit_test and re.search(r"sleep_for|usleep\(|time\.sleep", line):
            yield number, "a unit test that sleeps"


def catalogue_offences():
    header = (ROOT / "base/error_code.h").read_text()
    numbers = [int(n) for n in re.findall(r"^\s*k\w+ = (\d+),", header, re.M) if n != "0"]
    page = (ROOT / "docs/errors.md").read_text() if (ROOT / "docs/errors.md").exists() else ""
    for number in numbers:
        if f"HVD-E{number:04d}" not in page:
            yield f"docs/errors.md:1: HVD-E{number:04d} is missing"


def page_offences(names):
    """Links between our pages, and the pages and headings that sources name, must exist."""
    pages = {name: re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), (ROOT / name).read_text(),
                          flags=re.M | re.S)
             for name in names if name.endswith(".md")}
    headings = {name: re.findall(r"^#+ (.*)", text, re.M) for name, text in pages.items()}
    anchors = {name: {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
               for name, titles in headings.items()}
    for name, text in pages.items():
        for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            goal = os.path.normpath(pathlib.PurePath(name).parent / file) if file else name
            if not (ROOT / goal).exists() or anchor and anchor not in anchors.get(goal, ()):
                line = text[:text.index(f"({target})")].count("\n") + 1
                yield f"{name}:{line}: no such page or heading: {target}"
    for name in names:
        if name.endswith((".cc", ".h", ".py")):
            text = re.sub(r"\n\s*(?:///?|#) ?", " ", (ROOT / name).read_text())
            for page, title in re.findall(r'\b(docs/[\w/-]+\.md)(?:, "([A-Z][^"\n]*)")?', text):
                if page not in pages or not any(known.startswith(title) for known in headings[page]):
                    yield f"{name}:1: no such page or heading: {page} {title}".rstrip()


def shell_offences(names):
    """What shellcheck finds; .shellcheckrc has what it is not asked for."""
    scripts = [name for name in names if name.endswith(".sh") or (
        "." not in name.lstrip(".") and (ROOT / name).read_bytes()[:30].startswith((b"#!/bin/sh", b"#!/usr/bin/env bash")))]
    found = subprocess.run(["shellcheck", "-f", "gcc", *scripts], cwd=ROOT, capture_output=True, text=True)
    return (found.stdout + found.stderr).splitlines()


LIBRARY = re.compile(r"hvdray_(?:library|executable)\((\S+)\s+([^)]*)\)")
# A definition at the start of a line: a type, an alias, a function or a variable.
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)(?!.*;$)")
VALUE = re.compile(r"^(?:constexpr|const|static|thread_local|inline)\b[^(=]*[ *&>](\w+)(?:\[\w*\])? ?[={;]")
FUNCTION = re.compile(r"^(?!\s|return\b|using\b|#|//|\})[\w:<>,*&\[\] ]*[ *&>](\w+)\((.*)")


def parameter_types(text):
    """The parameter types that distinguish overloads. `text` starts after the opening parenthesis."""
    depth, words, word = 0, [], ""
    for c in text:
        if depth == 0 and c in ",)":
            words.append(word)
            word = ""
            if c == ")":
                break
            continue
        depth += (c in "(<{[") - (c in ")>}]")
        word += c
    kinds = [re.sub(r"\s*=.*", "", word, flags=re.S).split() for word in words]
    return tuple(" ".join(kind[:-1] if len(kind) > 1 else kind) for kind in kinds)


def local_names(text):
    """Names in unnamed namespaces: (name, parameter types or None) -> line."""
    lines = text.split("\n")
    names, is_inside = {}, False
    for number, line in enumerate(lines, 1):
        if line == "namespace {":
            is_inside = True
        elif line == "}  // namespace":
            is_inside = False
        elif is_inside and (found := TYPE.match(line) or VALUE.match(line)):
            names.setdefault((found[1], None), number)
        elif is_inside and (found := FUNCTION.match(line)):
            rest = "\n".join([found[2], *lines[number:number + 8]])
            names.setdefault((found[1], parameter_types(rest)), number)
    return names


def twice_offences(names):
    """A unity build (HVDRAY_UNITY) joins a library's sources into one, where a name defined in two of them clashes;
    and such a pair is often one helper written twice."""
    for name in names:
        if not name.endswith("CMakeLists.txt"):
            continue
        folder = pathlib.PurePath(name).parent
        text = re.sub(r"#.*", "", (ROOT / name).read_text())
        for library, words in LIBRARY.findall(text):
            seen = {}
            for word in words.split(" LINK ")[0].split():
                path = ROOT / folder / word
                if word == "LINK":
                    break
                if not word.endswith(".cc") or not path.is_file():
                    continue
                for local, line in local_names(path.read_text()).items():
                    first = seen.setdefault(local, path)
                    if first != path:
                        yield (f"{path.relative_to(ROOT).as_posix()}:{line}: {local[0]} is in the unnamed namespace of "
                               f"{first.name}, too: share one definition, or rename ({library}, HVDRAY_UNITY)")


def main():
    found = []
    for name in tracked():
        if name.startswith(("tests/fuzz/corpus/", "tests/golden/", "tests/data/")):
            continue
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            found.append(f"{name}:1: not UTF-8 text")
            continue
        offences = [] if name.endswith(".csv") else list(text_offences(name, text))
        if name.endswith((".cc", ".h", ".py")) and name != "tools/lint.py":
            offences += code_offences(name, text)
        found += [f"{name}:{number}: {what}" for number, what in offences]
    found += catalogue_offences()
    found += page_offences(tracked())
    found += twice_offences(tracked())
    found += shell_offences(tracked())
    print("\n".join(found) if found else "clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
