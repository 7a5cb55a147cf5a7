# SPDX-License-Identifier: Apache-2.0
"""Reads the pages of docs/tutorial, and README.md and docs/*.md: their blocks, what is wrong with them, and whether two languages agree.

docs/tutorial/README.md says how a page is written. Nothing here runs anything.
"""

import dataclasses
import hashlib
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs/tutorial"
MOST_WORDS = 600
CHECKED = ("sh", "python", "cpp", "yaml", "json", "mermaid", "text")  # in reference pages
FENCE = re.compile(r"```([^`]*)")
OTHER_FENCE = re.compile(r"[\s>]*(?:(?:[-*+]|\d+[.)])\s+)*(?:```|~~~)")
LIST_ITEM = re.compile(r" {0,3}(?:[-*+]|\d+[.)])\s")
COMMENT = re.compile(r"<!-- (.*) -->")
GENERATED = re.compile(r"\w+: (?:begin|end)\b.*")
DIRECTIVE = re.compile(r"(file: |any order$|expected$|en: |mark: )(.*)")
HEADING = re.compile(r"#{1,3} (.+)")


class PageError(Exception):
    """Somebody must change a page. The text begins with its file and line."""


@dataclasses.dataclass
class Command:
    line: int  # of its `$ `, from 1
    text: str
    first: int  # index of the first line of its output in the page
    output: list  # of lines


@dataclasses.dataclass
class Block:
    """kind: console, file, expected, mark, checked, or fault, whose text says what is wrong."""
    kind: str
    line: int  # of the fence or comment, from 1
    end: int  # of the last line
    language: str = ""
    text: str = ""  # of fault, file, expected, checked; of mark its JSON
    name: str = ""  # of file
    in_any_order: bool = False
    commands: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Section:
    title: str
    line: int
    prose: list = dataclasses.field(default_factory=list)  # lines, without blocks and comments
    blocks: list = dataclasses.field(default_factory=list)
    translates: str = ""  # the hash that a translation carries

    @property
    def hash(self):
        text = "\n".join([self.title, *(line.rstrip() for line in self.prose)]).strip()
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Page:
    """A chapter, or a reference page (README.md, docs/*.md), in which not all blocks run."""

    def __init__(self, path, text=None, is_reference=None):
        self.path = pathlib.Path(path)
        self.is_reference = self.path.resolve().parent in (ROOT, ROOT / "docs") if is_reference is None else is_reference
        self.lines = (self.path.read_text(encoding="utf-8") if text is None else text).split("\n")
        self.sections = [Section("", 1)]  # what comes before the first heading
        self._directive = None  # of the line before, with its number
        self._is_in_list = False
        index = 0
        while index < len(self.lines):
            index = self._read(index)
        self._unused_directive(len(self.lines))
        if not any(line.strip() for line in self.sections[0].prose) and not self.sections[0].blocks:
            del self.sections[0]

    @property
    def blocks(self):
        return [block for section in self.sections for block in section.blocks]

    @property
    def words(self):
        """The words of the English text: not those of blocks, comments and tags."""
        text = " ".join(" ".join([section.title, *section.prose]) for section in self.sections)
        return len(re.findall(r"\w[\w'’./-]*", re.sub(r"</?\w+>|\]\([^)]*\)", " ", text)))

    def place(self, line):
        return f"{shown(self.path)}:{line}"

    def _add(self, kind, line, end, **rest):
        self.sections[-1].blocks.append(Block(kind, line, end, **rest))

    def _fault(self, line, text, end=None):
        self._add("fault", line, end or line, text=text)

    def _unused_directive(self, line):
        if self._directive:
            self._fault(line - 1 or 1, f"expected a block right under <!-- {self._directive} -->")
            self._directive = None

    def _read(self, index):
        """Reads what begins at the index. Returns the index behind it."""
        line, number = self.lines[index], index + 1
        if fence := FENCE.fullmatch(line):
            return self._block(index, fence[1])
        self._unused_directive(number)
        if comment := COMMENT.fullmatch(line):
            self._comment(number, comment[1])
        elif OTHER_FENCE.match(line):
            self._fault(number, f"a fence that the runner does not know: {line.strip()}")
        elif "<!--" in line or re.match(r"\s*<(?:pre|script|style)\b", line):
            self._fault(number, f"neither text nor a block: {line.strip()}")
        elif heading := HEADING.fullmatch(line):
            self.sections.append(Section(heading[1], number))
        else:
            self._prose(index)
        return index + 1

    def _prose(self, index):
        line = self.lines[index]
        after_blank = index == 0 or not self.lines[index - 1].strip()
        if LIST_ITEM.match(line):
            self._is_in_list = True
        elif line.strip() and not line.startswith(" ") and after_blank:
            self._is_in_list = False
        if re.match(r" {4}|\t", line) and line.strip() and after_blank and not self._is_in_list:
            self._fault(index + 1, "indented code: the runner takes blocks between ``` only")
        self.sections[-1].prose.append(line)

    def _comment(self, number, text):
        found = DIRECTIVE.fullmatch(text)
        if self.is_reference and GENERATED.fullmatch(text):
            return
        if not found or text != text.strip():
            self._fault(number, f"a comment that the runner does not know: <!-- {text} -->")
        elif found[1] == "mark: ":
            self._mark(number, found[2])
        elif found[1] == "en: ":
            section = self.sections[-1]
            if section.line != number - 1 or not section.title:
                self._fault(number, "expected <!-- en: … --> right under a heading")
            section.translates = found[2]
        else:
            self._directive = text

    def _mark(self, number, text):
        try:
            wanted = json.loads(text)
            assert isinstance(wanted, dict) and wanted
        except (ValueError, AssertionError):
            self._fault(number, "expected an object in JSON behind `mark:`")
        else:
            self._add("mark", number, number, text=text)

    def _block(self, index, language):
        directive, self._directive = self._directive, None
        number = index + 1
        end = next((at for at in range(number, len(self.lines)) if self.lines[at] == "```"), None)
        if end is None:
            self._fault(number, "this block does not end: expected a line ```", len(self.lines))
            return len(self.lines)
        lines = self.lines[number:end]
        places = {"line": number, "end": end + 1, "language": language}
        if not re.fullmatch(r"\w+", language):
            self._fault(number, f"a fence that the runner does not know: ```{language}", end + 1)
        elif directive in (None, "any order") and language == "console":
            self._console(number, lines, places, directive == "any order")
        elif directive == "expected" and language == "text":
            self._add("expected", text="\n".join(lines), **places)
        elif directive and directive.startswith("file: ") and language != "console":
            name = directive[len("file: "):]
            if pathlib.PurePosixPath(name).is_absolute() or ".." in pathlib.PurePosixPath(name).parts or name != name.strip():
                self._fault(number, f"expected a file below this directory, not {name}", end + 1)
            else:
                self._add("file", name=name, text="".join(line + "\n" for line in lines), **places)
        elif self.is_reference and directive is None and language in CHECKED:
            self._add("checked", text="".join(line + "\n" for line in lines), **places)
        else:
            above = f" under <!-- {directive} -->" if directive else ""
            self._fault(number, f"a fence that the runner does not know: ```{language}{above}", end + 1)
        return end + 1

    def _console(self, number, lines, places, in_any_order):
        commands = []
        for offset, line in enumerate(lines):
            if line.startswith("$ ") and line[2:].strip():
                commands.append(Command(number + 1 + offset, line[2:], number + 1 + offset, []))
            elif not commands:
                self._fault(number, f"expected a line `$ command` at line {number + 1 + offset}", places["end"])
                return
            elif line.startswith("> ") and not commands[-1].output:
                commands[-1].text += "\n" + line[2:]
                commands[-1].first += 1
            else:
                commands[-1].output.append(line)
        if not commands:
            self._fault(number, "expected a line `$ command`: this block is empty", places["end"])
            return
        self._add("console", commands=commands, in_any_order=in_any_order, **places)


def shown(path):
    """The path as people write it."""
    try:
        return path.resolve().relative_to(ROOT).as_posix()
    except ValueError:
        return str(path)


def without_comments(line, language):
    if line.startswith("#!"):
        return line
    mark = "//" if language in ("c", "cpp", "json") else "#"
    return re.sub(rf"(^\s*|\s{{2,}}){mark}.*", rf"\1{mark}", line).rstrip()


def form(block):
    """What must be equal in all languages."""
    if block.kind == "console":
        return ("console", block.in_any_order, [(without_comments(command.text, "sh"), command.output)
                                                for command in block.commands])
    lines = block.text.split("\n")
    return block.kind, block.language, block.name, [without_comments(line, block.language) for line in lines]


def disagreements(english, chinese):
    """What is wrong with a translation, each with file and line."""
    if len(english.sections) != len(chinese.sections):
        yield (f"{chinese.place(1)}: {len(chinese.sections)} sections, but {english.place(1)} has {len(english.sections)}")
        return
    for theirs, ours in zip(english.sections, chinese.sections):
        here = f'{chinese.place(ours.line)}: "{ours.title}"'
        there = f'"{theirs.title}" ({english.place(theirs.line)})'
        if ours.translates != theirs.hash:
            was = f"an older {there}: expected <!-- en: {theirs.hash} -->, not {ours.translates}"
            yield f"{here} translates {was}" if ours.translates else f"{here}: expected <!-- en: {theirs.hash} --> under it, for {there}"
        if len(ours.blocks) != len(theirs.blocks):
            yield f"{here} has {len(ours.blocks)} blocks, and {there} has {len(theirs.blocks)}"
            continue
        for their_block, our_block in zip(theirs.blocks, ours.blocks):
            if form(their_block) != form(our_block):
                yield f"{chinese.place(our_block.line)}: this block differs from {english.place(their_block.line)}"


def page_faults(page, is_english=True):
    """What is wrong with a page beside its blocks' outcomes."""
    for block in page.blocks:
        if block.kind == "fault":
            yield f"{page.place(block.line)}: {block.text}"
    for section in page.sections:
        for block in section.blocks:
            if block.kind == "file" and not any(f"`{block.name}`" in line for line in page.lines[section.line:block.line - 1]):
                yield f"{page.place(block.line)}: the text above does not name `{block.name}`: readers do not see comments"
    if is_english and page.words > MOST_WORDS:
        yield f"{page.place(1)}: {page.words} words; a chapter has at most {MOST_WORDS}"
    kinds = [block.kind for block in page.sections[-1].blocks]
    folds = [line.strip() for line in page.sections[-1].prose if line.strip() in ("<details>", "</details>")]
    if "expected" not in kinds or "console" not in kinds or folds != ["<details>", "</details>"]:
        yield f"{page.place(page.sections[-1].line)}: expected an exercise last: an expected block, and a solution in <details>"
    if is_english and any(section.translates for section in page.sections):
        yield f"{page.place(1)}: only a translation has <!-- en: … -->"


def marked(report, wanted):
    """How a report differs from the values that a chapter's `mark` wants. A line each."""
    for path, value in wanted.items():
        found = report
        for key in path.split("."):
            if key == "length" and isinstance(found, list):
                found = len(found)
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                found = None
                break
        if not is_as_wanted(found, value):
            yield f"{path}: expected {in_words(value)}, not {json.dumps(found, ensure_ascii=False)}"


def is_as_wanted(found, value):
    if not isinstance(value, dict):
        return found == value and isinstance(found, bool) == isinstance(value, bool)
    if "has" in value:
        return isinstance(found, (str, list)) and value["has"] in found
    return isinstance(found, (int, float)) and value.get("min", found) <= found <= value.get("max", found)


def in_words(value):
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    words = {"min": "at least", "max": "at most", "has": "something with"}
    return " and ".join(f"{words[key]} {json.dumps(bound, ensure_ascii=False)}" for key, bound in value.items())


def reference_pages():
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def chapter_pages(language, tutorial=TUTORIAL):
    """The pages of a language by number."""
    return {int(path.name[:2]): path for path in sorted((tutorial / language).glob("[0-9][0-9]_*.md"))}
