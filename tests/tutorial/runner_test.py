# SPDX-License-Identifier: Apache-2.0
"""The runner of docs/tutorial finds what is wrong with a chapter, and says where."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
# How long to sleep: nobody else on this machine sleeps as long.
HANG, LEFT, LEFT_TOO, FRONT, BACK = (f"{1000 + number}.{os.getpid()}" for number in range(5))


def console(text):
    return f"```console\n{text}\n```\n"


# Name: text, and for each of its blocks what the runner says about it; {}:N is line N of the text, None is nothing. They make one
# page, so they run in one bash.
CASES = {
    "output differs": (console("$ printf 'a\\nb\\n'\na\nc"), ["{}:4: `$ printf 'a\\nb\\n'` printed (+) what is not expected (-):\n"
                                                              "  a\n- c\n+ b"]),
    "output where none is expected": (console("$ echo hello"), ["{}:3: `$ echo hello` printed (+)"]),
    "no output where some is expected": (console("$ true\nhello\n$ echo a\na"), ["{}:3: `$ true` printed (+)"]),
    "any text": (console("$ echo one two\none …\n$ seq 9\n1\n…\n9\n$ true\n…\n$ echo a.b\na…b\n$ echo one\n… one …"),
                 ["{}:13: `$ echo one` printed (+)"]),
    "any number before a unit": (console("$ echo '12 ms, 1.5 GB/s, 97%,  7 s, 8 images/s'\n345 ms, 2 GB/s, 1.25%,    10 s, 1,234 images/s"), [None]),
    "a number is not any number": (console("$ echo rank 1\nrank 2") + console("$ echo 1 second\n2 second"),
                                   ["{}:3: `$ echo rank 1`", "{}:7: `$ echo 1 second`"]),
    "lines in any order": ("<!-- any order -->\n" + console("$ printf 'b\\na\\n5 ms\\n'\n7 ms\na\nb") +
                           "<!-- any order -->\n" + console("$ printf 'a\\na\\n'\na\nb"),
                           [None, "{}:12: `$ printf 'a\\na\\n'` printed (+) what is not expected (-):\n  a\n- b\n+ a"]),
    "exit code": (console("$ false\n$ echo $?\n1") + console("$ (exit 3)") + console("$ (exit 3)\n$ echo $?  # its code\n4") +
                  console("$ true\n$ echo $?\n0"),
                  [None, "{}:7: `$ (exit 3)` exited with 3; expected `$ echo $?` behind it", "{}:12: `$ echo $?", None]),
    "state": (console("$ mkdir 'a b' && cd 'a b'\n$ v=1\n$ f() {\n>   echo $v $1\n> }") +
              console("$ f x; basename \"$PWD\"\n1 x\na b"), [None, None]),
    "nothing to read": (console("$ cat; read x\n$ echo $?\n1"), [None]),
    "what runs in the background": (console("$ (sleep 0.1; echo late) >out.txt &\n$ wait; cat out.txt\nlate"), [None]),
    "an interrupt in the background": (
        "<!-- file: wait.py -->\n```python\nimport pathlib, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "pathlib.Path('up').touch()\nsignal.sigwait([signal.SIGINT])\n"
        "print('heard')\n```\n" + console("$ python3 wait.py >heard.txt &\n$ until [ -e up ]; do sleep 0.05; done; kill -INT %1; wait %1; cat heard.txt\nheard"),
        [None, None]),
    "places": (console("$ cd; pwd | sed 's/.*hvdray-course-[^/]*//'; ls /tmp /dev/shm\n/a learner\n"
                       "/dev/shm:\n\n/tmp:\n$ cd hvdray; ls -d quickstart build/release/bin\nbuild/release/bin\n"
                       "quickstart\n$ echo \"$CI$HVDRAY_TEST\"\n"), [None]),
    "a file": ("<!-- file: a.py -->\n```python\nprint(1)\n```\n" + console("$ python3 a.py\n1"), [None, None]),
    "a file elsewhere": ("<!-- file: ../a -->\n```text\n```\n<!-- file: no/a -->\n```text\n```\n" + console("$ cd /") +
                         "<!-- file: a -->\n```text\n```\n",
                         ["{}:2: expected a file below this directory, not ../a", "{}:5: there is no directory", None,
                          "{}:11: /a is outside"]),
    "what is expected": ("<!-- expected -->\n```text\na\n…\n```\n" + console("$ cd\n$ seq 3 | tr 1 a\na\n2\n3") +
                         "<!-- expected -->\n```text\nb\n```\n" + console("$ echo a\na"),
                         [None, None, None, "{}:14: no command of the block at {}:17 prints this"]),
    "a mark without a report": ('<!-- mark: {"a": 2} -->\n', ["report.json: [Errno 2]"]),
    "marks": (console("$ echo '{\"a\": {\"b\": [1, 2]}}' >report.json") + '<!-- mark: {"a.b.length": 2, "a.b.1": {"min": 2, "max": 3}} -->\n\n'
              '<!-- mark: {"a.b.0": 2, "a.c": true} -->\n',
              [None, None, "{}:6: the solution does not pass:\na.b.0: expected 2, not 1\na.c: expected true, not null"]),
    "languages": ("```py\n```\n```\n```\n```python title=a\n```\n~~~\n  ```sh\n- ```sh\n> ```\n````\n```text\n```\n``` console\n$ true\n```\n",
                  [f"{{}}:{line}: a fence that the runner does not know" for line in (1, 3, 5, 7, 8, 9, 10, 11, 12, 14)]),
    "indented code": ("Text\n\n    code\n\n- item\n\n    more of it\n\nText\n\n\tcode\n", ["{}:3: indented code", "{}:11: indented code"]),
    "comments": ("<!-- skip: next -->\n\nText <!-- x -->\n<!--\n-->\n<pre>\n<!-- any order -->\n\n<!-- mark: 1 -->\n<!-- en: 1 -->\n",
                 ["{}:1: a comment that", "{}:3: neither text", "{}:4: neither", "{}:6: neither", "{}:7: expected a block right under",
                  "{}:9: expected an object", "{}:10: expected <!-- en"]),
    "directives": ("<!-- file: a -->\n```console\n$ true\n```\n<!-- expected -->\n```sh\n```\n<!-- any order -->\n```text\n```\n",
                   [f"{{}}:{line}: a fence that the runner does not know" for line in (2, 6, 9)]),
    "console": (console("hello") + "```console\n```\n" + console("$ ") + "```console\n$ true\n",
                ["{}:1: expected a line `$ command` at line 2", "{}:4: expected", "{}:6: expected", "{}:9: this block does not end"]),
}
# Each a page of its own, with a limit of five seconds.
IMPATIENT = {
    "a command that hangs": (console(f"$ echo begun; sleep {HANG}\nbegun\n$ echo next\nnext") + console("$ echo last\nlast"),
                             [f"{{}}:2: `$ echo begun; sleep {HANG}` did not end within 5 s; it had printed:\nbegun",
                              "{}:7: not run: the command at {}:2 did not end"]),
    "a command that prints without end": (console("$ yes"),
                                          ["{}:2: `$ yes` printed more than 256 KiB; it had printed:\ny\ny\n"]),
    "a command that prints now and then": (console("$ while sleep 0.1; do echo y; done"),
                                           ["{}:2: `$ while sleep 0.1; do echo y; done` did not end within 5 s"]),
    "processes left": (console(f"$ setsid sleep {LEFT} >/dev/null 2>&1 &\n$ (setsid sleep {LEFT_TOO} >/dev/null 2>&1 &)"),
                       [f"{{}}:1: after this chapter there is still\n  process sleep {LEFT}, pid …\n  process sleep {LEFT_TOO}, pid …"]),
}
# Each a page of its own.
PAGES = {
    "the shell ends": (console("$ echo bye; exit 0\nbye") + console("$ true"),
                       ["{}:2: `$ echo bye; exit 0` ended the chapter's bash; it had printed:\nbye", "{}:5: not run: the command at {}:2 ended"]),
    "a file in a common place": (console("$ touch /tmp/x /dev/shm/y; ip netns add z"),
                                 ["{}:1: after this chapter there is still\n  file /tmp/x\n  network namespace /run/netns/z\n  file /dev/shm/y"]),
    "expected of nothing": (console("$ true") + "<!-- expected -->\n```text\nb\n```\n",
                            [None, "{}:5: no console block follows that prints this"]),
}


def messages(*words):
    """Runs pages. Returns what is said about their blocks: (file name, line of the block) -> text."""
    junit = words[0].parent / "junit.xml"
    done = run(*words, f"--junit-xml={junit}")
    assert junit.exists(), done.stdout + done.stderr
    found = {}
    for case in xml.etree.ElementTree.parse(junit).iter("testcase"):
        key = case.get("classname").rpartition("/")[2], int(re.match(r"line:(\d+)", case.get("name"))[1])
        said = [part.text or "" for part in case if part.tag in ("failure", "error")]
        found[key] = "\n".join([found.get(key, ""), *said]).strip()
    return found


def words_for(*words):
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "course_plugin", "-c", os.devnull, *map(str, words)]


def environment():
    return {**os.environ, "PYTHONPATH": str(HERE), "CI": "true", "HVDRAY_TEST": "1"}


def run(*words):
    return subprocess.run(words_for(*words), capture_output=True, text=True, env=environment())


def command_lines():
    lines = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
    return lines


def compare(name, path, blocks, wanted, offset=0):
    """blocks: what was said, in the order of the page."""
    assert len(blocks) == len(wanted), (name, blocks)
    for said, words in zip(blocks, wanted):
        if words is None:
            assert not said, (name, said)
        else:
            words = re.sub(r"\{\}:(\d+)", lambda place: f"{path}:{int(place[1]) + offset}", words)
            words = re.escape(words).replace("…", r"\d+")
            assert re.search(words, said), (name, words, said)


def test_blocks(tmp_path):
    page = tmp_path / "page.md"
    offsets, text = {}, ""
    for name, (case, _) in CASES.items():
        offsets[name] = text.count("\n")
        text += case
    page.write_text(text)
    said = messages(page)
    names = list(CASES)
    for name, after in zip(names, [*names[1:], None]):
        lines = range(offsets[name] + 1, offsets[after] + 1 if after else sys.maxsize)
        compare(name, page, [message for (_, line), message in sorted(said.items()) if line in lines], CASES[name][1], offsets[name])


def test_chapters(tmp_path):
    for pages, options in ((PAGES, ()), (IMPATIENT, ("--command-limit=5",))):
        paths = {name: tmp_path / f"{name}.md" for name in pages}
        for name, path in paths.items():
            path.write_text(pages[name][0])
        said = messages(*paths.values(), *options)
        for name, path in paths.items():
            compare(name, path, [message for (file, _), message in sorted(said.items()) if file in (path.name, path.stem)],
                    pages[name][1])
    assert not {f"sleep {long}" for long in (HANG, LEFT, LEFT_TOO)} & command_lines()


def course_words(folder):
    """The words of tools/course.py for chapter 1 of that folder."""
    page = folder / "docs/tutorial" / "en/01_page.md"
    page.parent.mkdir(parents=True)
    shutil.copy(folder / "page.md", page)
    (folder / "tools").mkdir()
    for name in ("course.py", "course_pages.py", "course_env.sh", "machine.sh"):
        shutil.copy(HERE.parents[1] / "tools" / name, folder / "tools")
    (folder / "tests").mkdir()
    (folder / "build/release/bin").mkdir(parents=True)
    (folder / "tests/tutorial").symlink_to(HERE)
    return [sys.executable, str(folder / "tools/course.py"), "run", "1"]


@pytest.mark.parametrize("is_course", [False, True], ids=["pytest", "course"])
def test_a_signal_ends_the_chapter(tmp_path, is_course):
    (tmp_path / "page.md").write_text(console(f"$ sleep {BACK} & sleep {FRONT}"))
    words = course_words(tmp_path) if is_course else words_for(tmp_path / "page.md")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()) as process:
        while not {f"sleep {BACK}", f"sleep {FRONT}"} <= command_lines():
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and "KeyboardInterrupt" in output, output
    assert not {f"sleep {BACK}", f"sleep {FRONT}"} & command_lines()


def test_update_writes_both_languages(tmp_path):
    """Lines that match stay as they are, and comments too."""
    text = ("<!-- any order -->\n" + console("$ printf '5 ms\\nb\\na\\n'  # {}\nold\na\n7 ms") + console("$ true  # {}\nmore\n$ seq 2") +
            console("$ echo a\n…"))
    wanted = ("<!-- any order -->\n" + console("$ printf '5 ms\\nb\\na\\n'  # {}\na\n7 ms\nb") + console("$ true  # {}\n$ seq 2\n1\n2") +
              console("$ echo a\n…"))
    pages = [tmp_path / language / "01_page.md" for language in ("en", "zh")]
    for page in pages:
        page.parent.mkdir()
        page.write_text(text.replace("{}", page.parent.name))
    done = run("--update", pages[0])
    assert done.returncode == 0, done.stdout
    assert [page.read_text() for page in pages] == [wanted.replace("{}", page.parent.name) for page in pages]


def test_chapters_need_root(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import chapter_shell  # pylint: disable=import-outside-toplevel
    monkeypatch.setattr(chapter_shell.os, "geteuid", lambda: 1000)
    try:
        chapter_shell.ChapterShell("bin", 1)
    except chapter_shell.ShellError as error:
        assert str(error).startswith("chapters run as root: ")
    else:
        assert False
