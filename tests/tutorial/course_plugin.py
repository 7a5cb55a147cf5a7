# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs the blocks of docs/tutorial, README.md and docs/*.md, by Sybil: docs/tutorial/README.md says how.

    pytest -p course_plugin --bin-dir=build/release/bin docs/tutorial/en/02_first_gang.md

with this folder in PYTHONPATH, and the packages of tools/course_env.sh. `tools/course.py run` does that.
"""

import json
import pathlib
import signal
import sys

import pytest
from sybil import Region, Sybil

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import block_checks
import course_match
from chapter_shell import ChapterShell, ShellError
from course_pages import Page, PageError, form, marked, without_comments

OPTIONS = None  # pytest's, from pytest_configure()


def pytest_addoption(parser):
    parser.addoption("--bin-dir", default="build/release/bin", help="where hvdray is")
    parser.addoption("--update", action="store_true", help="write what the commands print into the pages")
    parser.addoption("--command-limit", type=float, default=60.0, help="seconds that a command of a page may take")


def pytest_configure(config):
    global OPTIONS  # pylint: disable=global-statement
    OPTIONS = config.option
    for signo in (signal.SIGINT, signal.SIGTERM):  # also where a caller in the background ignores the first
        signal.signal(signo, signal.default_int_handler)


class Chapter:
    """A page while its blocks run, one after the other."""

    def __init__(self, page):
        self.page = page
        self.expected = None  # the block whose text a command of the next console block must print
        self.outputs = {}  # by the line of the command: what replaces the lines of the page
        self.stopped = ""
        self._shell = None

    def evaluate(self, block):
        """Runs a block. Returns what is wrong, or None."""
        if block.kind == "fault":
            return f"{self.page.place(block.line)}: {block.text}"
        if block.kind == "checked":
            found = "\n".join(block_checks.faults(block, OPTIONS.bin_dir))
            return f"{self.page.place(block.line)}: {found}" if found else None
        if self.stopped:
            return f"{self.page.place(block.line)}: not run: {self.stopped}"
        try:
            self._shell = self._shell or ChapterShell(OPTIONS.bin_dir, OPTIONS.command_limit)
            getattr(self, f"_{block.kind}")(block)
        except PageError as error:
            return str(error)
        except ShellError as error:
            self.stopped = self.stopped or str(error)
            return f"{self.page.place(block.line)}: {error}"
        return None

    def close(self):
        """Raises PageError if the chapter has left anything."""
        if self._shell is None:
            return
        try:
            left = self._shell.left(0 if self.stopped else min(10, OPTIONS.command_limit))
        finally:
            self._shell.close()
        if OPTIONS.update and not self.stopped:
            self._update()
        if left and not self.stopped:
            raise PageError(f"{self.page.place(1)}: after this chapter there is still\n  " + "\n  ".join(left))
        if self.expected:
            raise PageError(f"{self.page.place(self.expected.line)}: no console block follows that prints this")

    def _file(self, block):
        path = self._shell.folder() / block.name
        if not path.resolve().is_relative_to(self._shell.home):
            raise PageError(f"{self.page.place(block.line)}: {path} is outside the chapter's folder")
        if not path.parent.is_dir():
            raise PageError(f"{self.page.place(block.line)}: there is no directory {path.parent}")
        path.write_text(block.text, encoding="utf-8")

    def _expected(self, block):
        self.expected = block

    def _mark(self, block):
        path = self._shell.folder() / "report.json"
        try:
            differences = list(marked(json.loads(path.read_text(encoding="utf-8")), json.loads(block.text)))
        except (OSError, ValueError) as error:
            differences = [f"report.json: {error}"]
        if differences:
            raise PageError("\n".join([f"{self.page.place(block.line)}: the solution does not pass:", *differences]))

    def _console(self, block):
        wrong, printed = [], []
        for position, command in enumerate(block.commands):
            here = self.page.place(command.line)
            try:
                output = self._shell.run(command.text)
            except ShellError as error:
                self.stopped = f"the command at {here} {error}"
                raise PageError(f"{here}: `$ {command.text}` {error}") from error
            except KeyboardInterrupt:
                self.stopped = f"interrupted at {here}"
                raise
            printed.append(output)
            code = self._shell.code
            following = block.commands[position + 1:position + 2]
            if code and not (following and without_comments(following[0].text, "sh") in ("echo $?", "echo $?  #")):
                wrong.append(f"{here}: `$ {command.text}` exited with {code}; expected `$ echo $?` behind it\n"
                             + "\n".join(output))
            elif complaint := self._compare(block, command, output):
                wrong.append(complaint)
        if expected := self.expected:
            self.expected = None
            lines = expected.text.split("\n")
            if not any(course_match.matches(lines, output) for output in printed):
                wrong.append(f"{self.page.place(expected.line)}: no command of the block at "
                             f"{self.page.place(block.line)} prints this")
        if wrong:
            raise PageError("\n".join(wrong))

    def _compare(self, block, command, output):
        """Returns what differs; with --update, keeps the output instead."""
        compare = course_match.matches_in_any_order if block.in_any_order else course_match.matches
        if compare(command.output, output):
            return None
        in_words = course_match.in_expected_order if block.in_any_order else course_match.in_expected_words
        if OPTIONS.update:
            self.outputs[command.line] = in_words(command.output, output)
            return None
        diff, first = course_match.difference(command.output, in_words(command.output, output))
        return (f"{self.page.place(command.first + 1 + first)}: `$ {command.text}` printed (+) "
                f"what is not expected (-):\n{diff}")

    def _update(self):
        """Writes the outputs into this page, and into its translations where that has the same block."""
        pages = [self.page]
        if self.page.path.parent.name == "en":
            pages += [Page(path) for path in self.page.path.parent.parent.glob(f"*/{self.page.path.name}")
                      if path.parent.name != "en"]
        for page in pages:
            changes = []
            for ours, theirs in zip(page.blocks, self.page.blocks):
                if theirs.kind == "console" and form(ours) == form(theirs):
                    changes += [(mine.first, len(mine.output), self.outputs[command.line]) for mine, command
                                in zip(ours.commands, theirs.commands) if command.line in self.outputs]
            for first, count, output in sorted(changes, reverse=True, key=lambda change: change[0]):
                page.lines[first:first + count] = output
            if changes:
                page.path.write_text("\n".join(page.lines), encoding="utf-8")


def evaluate(example):
    chapter = example.namespace["chapter"]
    return chapter.evaluate(example.parsed)


def regions(document):
    page = Page(document.path, document.text)
    document.namespace["chapter"] = Chapter(page)
    starts = [0]
    for line in page.lines:
        starts.append(starts[-1] + len(line) + 1)
    for block in page.blocks:
        yield Region(starts[block.line - 1], starts[block.end] - 1, block, evaluate)


def tear_down(namespace):
    try:
        namespace["chapter"].close()
    except PageError as error:
        pytest.fail(str(error), pytrace=False)


pytest_collect_file = Sybil([regions], path="/", patterns=["*.md"], teardown=tear_down).pytest()
