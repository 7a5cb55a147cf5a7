#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The course in docs/tutorial: runs its chapters, judges a learner's report, keeps its translation.

    tools/course.py run [--update] [--bin-dir DIR] [N …]     runs the chapters N, or all, as docs/tutorial/README.md says; or pages,
                                                             such as README.md and docs/train.md
    tools/course.py mark N report.json                       judges the report of chapter N's exercise: exit code 0 if it is solved
    tools/course.py translated zh/NAME.md HEADING …          says that these sections translate the English ones as they are now
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from course_pages import ROOT, TUTORIAL, Page, chapter_pages, marked, reference_pages

TESTS = TUTORIAL.parents[1] / "tests/tutorial"


def run(options):
    pages = chapter_pages("en")
    others = {str(path.relative_to(ROOT)): path for path in reference_pages()}
    named = {**{str(number): path for number, path in pages.items()}, **others}
    unknown = [name for name in options.page if name not in named]
    if unknown:
        sys.exit(f"course.py: no chapter {unknown[0]}: expected one of {', '.join(map(str, pages))}, README.md, docs/….md")
    made = subprocess.run([TUTORIAL.parents[1] / "tools/course_env.sh"], stdout=subprocess.PIPE, text=True)
    if made.returncode:
        return made.returncode
    python = pathlib.Path(made.stdout.strip()) / "bin/python"
    chosen = [named[name] for name in options.page or map(str, pages)]
    if pages.get(2) in chosen and not any(pathlib.Path(options.bin_dir, "../packages").glob("hvdray-*.whl")):
        sys.exit("course.py: chapter 2 installs a wheel: ctest --test-dir build/release -R ^wheel_ makes it")
    # In its place: a signal is pytest's, which first ends all that the chapters have started.
    os.execve(python, [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "course_plugin", f"--bin-dir={options.bin_dir}",
                       *(["--update"] if options.update else []), *chosen],
              {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"})


def mark(options):
    pages = chapter_pages("en")
    if options.chapter not in pages:
        sys.exit(f"course.py: no chapter {options.chapter}: expected one of {', '.join(map(str, pages))}")
    wanted = [json.loads(block.text) for block in Page(pages[options.chapter]).blocks if block.kind == "mark"]
    if not wanted:
        sys.exit(f"course.py: the exercise of chapter {options.chapter} has no report to judge: compare what you see with the page")
    try:
        report = json.loads(pathlib.Path(options.report).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        sys.exit(f"course.py: {options.report} is no report: {error}")
    differences = [line for values in wanted for line in marked(report, values)]
    print("\n".join(differences) if differences else f"Chapter {options.chapter}: solved.")
    return 1 if differences else 0


def translated(options):
    path = TUTORIAL / options.page
    if not path.is_file() or path.parent.name == "en" or not (TUTORIAL / "en" / path.name).is_file():
        sys.exit(f"course.py: {options.page} translates no page of {TUTORIAL / 'en'}")
    page, english = Page(path), Page(TUTORIAL / "en" / path.name)
    if len(page.sections) != len(english.sections):
        sys.exit(f"course.py: {options.page} has {len(page.sections)} sections, and the English page {len(english.sections)}")
    hashes = {ours.title: (ours, theirs.hash) for ours, theirs in zip(page.sections, english.sections)}
    for heading in options.heading:
        if heading not in hashes:
            sys.exit(f'course.py: {options.page} has no heading "{heading}"')
    # From the end, because a new comment moves what is below it.
    for section, now in sorted((hashes[heading] for heading in set(options.heading)), key=lambda pair: -pair[0].line):
        page.lines[section.line:section.line + bool(section.translates)] = [f"<!-- en: {now} -->"]
    path.write_text("\n".join(page.lines), encoding="utf-8")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="run|mark|translated")
    command = commands.add_parser("run")
    command.add_argument("--update", action="store_true", help="write what the commands print into the pages")
    command.add_argument("--bin-dir", default=str(TUTORIAL.parents[1] / "build/release/bin"))
    command.add_argument("page", nargs="*")
    command.set_defaults(do=run)
    command = commands.add_parser("mark")
    command.add_argument("chapter", type=int)
    command.add_argument("report")
    command.set_defaults(do=mark)
    command = commands.add_parser("translated")
    command.add_argument("page")
    command.add_argument("heading", nargs="+")
    command.set_defaults(do=translated)
    options = parser.parse_args()
    return options.do(options)


if __name__ == "__main__":
    sys.exit(main())
