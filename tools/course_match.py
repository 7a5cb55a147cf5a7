# SPDX-License-Identifier: Apache-2.0
"""Compares what a command printed with what a page of docs/tutorial expects."""

import difflib
import re

ANY = "…"
UNIT = r"(?:[nµum]?s|min|h|[kKMGT]?i?B|\w+/s|%)(?![\w/])"
WILD = re.compile(rf"{ANY}|(?: {{2,}})?(?<![\w.])\d[\d,]*(?:\.\d+)?(?= ?{UNIT})")


def pattern(line):
    """A regular expression for one line of expected output."""
    parts, place = [], 0
    for wild in WILD.finditer(line):
        parts.append(re.escape(line[place:wild.start()]))
        padding = " +" if wild[0].startswith(" ") else ""
        parts.append("[^\n]*" if wild[0] == ANY else padding + r"\d[\d,]*(?:\.\d+)?")
        place = wild.end()
    return "".join([*parts, re.escape(line[place:])])


def matches(expected, actual):
    """Both are lists of lines."""
    whole = "".join(r"(?:[^\n]*\n)*?" if line.strip() == ANY else pattern(line) + r"\n" for line in expected)
    return re.fullmatch(whole, "".join(line + "\n" for line in actual)) is not None


def pairs(expected, actual):
    """Pairs as many lines as can be: index in `actual` -> index in `expected`."""
    patterns = [re.compile(pattern(line)) for line in expected]
    fits = [[at for at, line in enumerate(actual) if one.fullmatch(line)] for one in patterns]
    owner = {}

    def find(line, seen):
        for at in fits[line]:
            if at not in seen:
                seen.add(at)
                if at not in owner or find(owner[at], seen):
                    owner[at] = line
                    return True
        return False

    for line in range(len(expected)):
        find(line, set())
    return owner


def matches_in_any_order(expected, actual):
    lines = [line for line in expected if line.strip() != ANY]
    owner = pairs(lines, actual)
    return len(owner) == len(lines) and (len(lines) < len(expected) or len(owner) == len(actual))


def in_expected_words(expected, actual):
    """The actual lines; those that match an expected one, as that is written."""
    lines = [line for line in expected if line.strip() != ANY]
    owner = pairs(lines, actual)
    return [lines[owner[at]] if at in owner else line for at, line in enumerate(actual)]


def in_expected_order(expected, actual):
    """As in_expected_words(), with these lines first, in the order of the page."""
    lines = [line for line in expected if line.strip() != ANY]
    owner = pairs(lines, actual)
    return [lines[at] for at in sorted(owner.values())] + [line for at, line in enumerate(actual) if at not in owner]


def difference(expected, actual):
    """A diff, and the index of the first expected line that differs."""
    lines = list(difflib.ndiff(expected, in_expected_words(expected, actual)))
    shown = [line for line in lines if not line.startswith("?")]
    first = 0
    for line in shown:
        if not line.startswith("  "):
            break
        first += 1
    return "\n".join(shown), min(first, len(expected))
