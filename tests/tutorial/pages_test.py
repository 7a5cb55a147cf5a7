# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/tutorial are whole, and their languages agree; and so do tools for them. Runs no block."""

import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import block_checks
from course_pages import MOST_WORDS, TUTORIAL, Page, chapter_pages, disagreements, marked, page_faults, reference_pages

LANGUAGES = ("en", "zh")
EXERCISE = """## Exercise

<!-- expected -->
```text
a
```

<details>
<summary>Solution</summary>

```console
$ echo a
a
```

</details>
"""


def test_all_chapters_are_there_in_both_languages():
    english, chinese = (chapter_pages(language) for language in LANGUAGES)
    assert english and {path.name for path in english.values()} == {path.name for path in chinese.values()}
    for language in LANGUAGES:
        assert sorted(path.name for path in (TUTORIAL / language).iterdir()) == [path.name for path in chapter_pages(language).values()]


@pytest.mark.parametrize("number", chapter_pages("en"))
def test_chapter(number):
    english, chinese = (Page(chapter_pages(language)[number]) for language in LANGUAGES)
    wrong = [*page_faults(english), *page_faults(chinese, is_english=False), *disagreements(english, chinese)]
    assert not wrong, "\n".join(wrong)


def test_no_page_installs_what_no_index_has():
    wrong = [f"{path.name}: {line}" for path in [*reference_pages(), *ROOT.glob("docs/tutorial/**/*.md"), *ROOT.glob("examples/**/*.py")]
             for line in path.read_text(encoding="utf-8").splitlines() if re.search(r"pip install (?:[^`&;]* )?['\"]?hvdray(?![-\w/])", line)]
    assert not wrong, wrong


def test_the_course_takes_at_most_6000_words():
    assert sum(Page(path).words for path in chapter_pages("en").values()) <= 6000


def minutes(number):
    """As docs/tutorial/teaching.md counts them."""
    path = chapter_pages("en")[number]
    chapter = page(path, re.sub(r"<details>.*?</details>\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL))
    commands = sum(len(block.commands) for block in chapter.blocks)
    files = sum(block.kind == "file" for block in chapter.blocks)
    waited = 2 if number == 3 else 1 if 5 <= number <= 9 else 0.2
    return chapter.words / 200 + commands * 5 / 60 + files * 20 / 60 + 2 + waited


def test_chapters_name_their_minutes_which_are_an_hour():
    names = {"en": ("Five", "Six", "Seven", "Eight"), "zh": "五六七八"}
    named = {language: {number: names[language].index(re.search(pattern, path.read_text(encoding="utf-8"), re.M)[1]) + 5
                        for number, path in chapter_pages(language).items()}
             for language, pattern in (("en", r"^(\w+) minutes[.,]"), ("zh", r"^(\w)分钟[。，]"))}
    assert named["en"] == named["zh"] and sum(named["en"].values()) <= 60
    assert not {number: minutes(number) for number, said in named["en"].items() if abs(minutes(number) - said) >= 0.75}


def test_both_lesson_plans_have_each_chapter():
    plans = []
    for name in ("teaching.md", "teaching_zh.md"):
        text = (TUTORIAL / name).read_text(encoding="utf-8")
        questions = re.findall(r"^\*\*(\d+) ", text, re.M)
        rows = re.findall(r"^\| (\d+) \| (\d+) ", text, re.M)
        assert set(questions) == {number for _, number in rows} >= set(map(str, chapter_pages("en")))
        plans.append((questions, rows))
    assert plans[0] == plans[1]


def page(name, text):
    return Page(pathlib.Path(name), text, is_reference=False)


def test_a_stale_translation_names_both_headings():
    english = page("en/x.md", "# One\n\nText.\n\n## Two\nMore.\n\n```console\n$ true\n```\n")
    first, second = (section.hash for section in english.sections)
    assert first != second
    text = f"# 一\n<!-- en: {first} -->\n\n## 二\n<!-- en: {{}} -->\n```console\n$ true\n```\n"
    assert not list(disagreements(english, page("zh/x.md", text.format(second))))
    assert list(disagreements(english, page("zh/x.md", text.format("0123")))) == [
        f'zh/x.md:4: "二" translates an older "Two" (en/x.md:5): expected <!-- en: {second} -->, not 0123']
    assert list(disagreements(english, page("zh/x.md", text.format(second).replace(f"<!-- en: {first} -->", "")))) == [
        f'zh/x.md:1: "一": expected <!-- en: {first} --> under it, for "One" (en/x.md:1)']


def test_a_hash_is_that_of_the_text_without_blocks():
    text = "# One\nText.\n```console\n$ true\n```\n"
    assert page("a", text).sections[0].hash == page("a", text.replace("true", "false")).sections[0].hash
    assert page("a", text).sections[0].hash != page("a", text.replace("Text", "Test")).sections[0].hash


@pytest.mark.parametrize("change, said", [
    (("$ true  # fine", "$ true  # 好"), None),
    (("# a comment", "# 注释"), None),
    (("$ true  # fine", "$ false  # fine"), "zh/x.md:3: this block differs from en/x.md:3"),
    (("out", "aus"), "zh/x.md:3: this block differs from en/x.md:3"),
    (("```python\n", "```sh\n"), "zh/x.md:8: this block differs from en/x.md:8"),
    (("b.py", "c.py"), "zh/x.md:8: this block differs from en/x.md:8"),
    (("#!/x", "#!/y"), "zh/x.md:8: this block differs from en/x.md:8"),
    (("```console\n$ true  # fine\nout\n```", ""), 'zh/x.md:1: "One" has 1 blocks, and "One" (en/x.md:1) has 2'),
    (("# One", "# One\n\n# Two"), "zh/x.md:1: 2 sections, but en/x.md:1 has 1"),
])
def test_blocks_are_the_same_but_for_comments(change, said):
    text = "# One\n\n```console\n$ true  # fine\nout\n```\n<!-- file: b.py -->\n```python\n#!/x\n# a comment\n```\n"
    english = page("en/x.md", text)
    other = text.replace(*change).replace("# One\n", f"# One\n<!-- en: {english.sections[0].hash} -->\n", 1)
    found = [line for line in disagreements(english, page("zh/x.md", other)) if "translates" not in line]
    lines = [line.replace(":4:", ":3:").replace("zh/x.md:9:", "zh/x.md:8:") for line in found]
    assert lines == ([said] if said else []), found


def test_what_a_page_must_have():
    assert not list(page_faults(page("p.md", "# One\n" + EXERCISE)))
    assert list(page_faults(page("p.md", "# One\n\n```py\n```\n" + EXERCISE))) == [
        "p.md:3: a fence that the runner does not know: ```py"]
    assert list(page_faults(page("p.md", "# One\n" + "word " * MOST_WORDS + EXERCISE)))[0].startswith("p.md:1: 60")
    named = "# One\nThis is `a.py`:\n\n<!-- file: a.py -->\n```python\n```\n" + EXERCISE
    assert not list(page_faults(page("p.md", named)))
    assert list(page_faults(page("p.md", named.replace("`a.py`", "`b.py`")))) == [
        "p.md:5: the text above does not name `a.py`: readers do not see comments"]
    for without in ("<details>", "<!-- expected -->\n```text\na\n```", "```console\n$ echo a\na\n```"):
        assert list(page_faults(page("p.md", "# One\n" + EXERCISE.replace(without, "")))) == [
            "p.md:2: expected an exercise last: an expected block, and a solution in <details>"]


@pytest.mark.parametrize("path", reference_pages(), ids=lambda path: path.name)
def test_reference_page_has_no_block_that_nothing_checks(path):
    assert not [f"{path.name}:{block.line}: {block.text}" for block in Page(path).blocks if block.kind == "fault"]


def test_a_chapter_has_no_block_that_does_not_run():
    text = "# One\n\n```sh\ntrue\n```\n<!-- chart: begin, by X -->\n"
    assert [block.kind for block in page("p.md", text).blocks] == ["fault", "fault"]
    assert [block.kind for block in Page(pathlib.Path("p.md"), text, is_reference=True).blocks] == ["checked"]
    assert [block.kind for block in Page(pathlib.Path("p.md"), text.replace("sh", "py"), is_reference=True).blocks] == ["fault"]


@pytest.fixture(scope="module")
def pretended(tmp_path_factory):
    """A folder with a hvdray that has one command with two options."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "hvdray").write_text("#!/bin/sh\n[ \"$*\" = 'run --help' ] && echo '  -np N  --hosts LIST'\n")
    (folder / "hvdray").chmod(0o755)
    return folder


@pytest.mark.parametrize("language, text, said", [
    ("sh", "A=1 hvdray run -np 4 --hosts=a:4 -- python3 train.py --lr 1    # two\n", None),
    ("sh", "hvdray run -np 4 python3 train.py --lr 1\nexec hvdray run \\\n  --hosts a\n", None),
    ("sh", "cd x && hvdray run --host a\n", "hvdray run --help has no --host"),
    ("sh", "id=$(hvdray run --nope)\n", "hvdray run --help has no --nope"),
    ("sh", "hvdray runs -np 4\n", "no such command: hvdray runs"),
    ("sh", "hvdray run \\\n    --nope\n", "hvdray run --help has no --nope"),
    ("sh", "tools/lint.py && tools/nothing.py\n", "no such file in the tree: tools/nothing.py"),
    ("sh", "if true\n", "bash: line "),
    ("python", "import hvdray\nhvdray.run(f, args=(…,), num_proc=4)\n…\n", None),
    ("python", "import hvdray\nhvdray.run(f, number=4)\n", "hvdray.run has no parameter number"),
    ("python", "import hvdray\nhvdray.Executer(4)\n", "hvdray has no Executer"),
    ("python", "from hvdray.ray import RayExecutor\nfrom hvdray.nothing import X\n", "no such module: hvdray.nothing"),
    ("python", "from hvdray import train\ntrain.RunConfig(storage=1)\n", "hvdray.train.RunConfig has no parameter storage"),
    ("python", "import hvdray.tunes\n", "no such module: hvdray.tunes"),
    ("python", "print(\n", "line 1 of the block: '(' was never closed"),
    ("cpp", '#include "collective/communicator.h"\nhvdray::Work work = queue.Start(hvdray::ReduceOp::kAverage);\n', None),
    ("cpp", '#include "collective/nothing.h"\n', "no such header: collective/nothing.h"),
    ("cpp", "hvdray::Nothing x;\n", "no header of base/ or collective/ has Nothing"),
    ("yaml", "hvdray:\n    run:\n        np: 16\n", None),
    ("yaml", "hvdray:\n    slots_for_host: 8\n", "no key of a cluster file or job: slots_for_host"),
    ("json", '{"a": 1}\n{"a": …}\n', "no JSON: Expecting value"),
    ("text", "hvdray: a message\n", None),
    ("text", "$ hvdray run\n", "a command in ```text"),
])
def test_what_is_checked_of_a_block_that_does_not_run(pretended, language, text, said):
    block, = Page(pathlib.Path("p.md"), f"```{language}\n{text}```\n", is_reference=True).blocks
    found = list(block_checks.faults(block, pretended))
    assert [line[:len(said)] for line in found] == [said] if said else not found, found


REPORT = {"exit": {"code": 5}, "workers": [{"rank": 0}, {"rank": 1}], "duration_s": 2.5, "command": ["a"], "ok": True}


@pytest.mark.parametrize("wanted, said", [
    ({"exit.code": 5, "workers.length": 2, "workers.1.rank": 1, "ok": True, "nothing": None}, None),
    ({"duration_s": {"min": 2, "max": 3}, "command": {"has": "a"}}, None),
    ({"exit.code": 4}, "exit.code: expected 4, not 5"),
    ({"ok": 1}, "ok: expected 1, not true"),
    ({"workers.2.rank": 1}, "workers.2.rank: expected 1, not null"),
    ({"exit.code.more": 1}, "exit.code.more: expected 1, not null"),
    ({"duration_s": {"min": 3}}, "duration_s: expected at least 3, not 2.5"),
    ({"duration_s": {"max": 2}}, "duration_s: expected at most 2, not 2.5"),
    ({"command": {"has": "b"}}, 'command: expected something with "b", not ["a"]'),
    ({"command": {"min": 1}}, 'command: expected at least 1, not ["a"]'),
])
def test_mark_of_a_report(wanted, said):
    assert list(marked(REPORT, wanted)) == ([said] if said else [])


def course(*words):
    done = subprocess.run([sys.executable, ROOT / "tools/course.py", *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_learner_s_report_is_judged(tmp_path):
    report = tmp_path / "report.json"
    solved = {"exit": {"code": 5, "origin": "worker"}, "workers": [0, 1, 2], "first_failure": {"rank": 2}, "duration_s": 1.5}
    report.write_text(json.dumps(solved))
    assert course("mark", 2, report) == (0, "Chapter 2: solved.\n")
    report.write_text(json.dumps({**solved, "workers": [0]}))
    assert course("mark", 2, report) == (1, "workers.length: expected 3, not 1\n")
    report.write_text("{")
    code, said = course("mark", 2, report)
    assert code == 1 and said.startswith(f"course.py: {report} is no report: ")
    code, said = course("mark", 77, report)
    assert code == 1 and said.startswith("course.py: no chapter 77: expected one of ")


def test_hashes_are_rewritten_for_named_headings_only(tmp_path):
    tutorial = tmp_path / "docs/tutorial"
    for name in ("course.py", "course_pages.py"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).write_text((ROOT / "tools" / name).read_text())
    for language, text in (("en", "# One\nText.\n## Two\nMore.\n"), ("zh", "# 一\n<!-- en: 0 -->\n甲\n## 二\n乙\n")):
        (tutorial / language).mkdir(parents=True)
        (tutorial / language / "01_x.md").write_text(text)
    first, second = (section.hash for section in Page(tutorial / "en/01_x.md").sections)

    def translated(*words):
        done = subprocess.run([sys.executable, tmp_path / "tools/course.py", "translated", *words], capture_output=True, text=True)
        return done.returncode, done.stderr

    chinese = tutorial / "zh/01_x.md"
    assert translated("zh/01_x.md", "二") == (0, "")
    assert chinese.read_text() == f"# 一\n<!-- en: 0 -->\n甲\n## 二\n<!-- en: {second} -->\n乙\n"
    assert translated("zh/01_x.md", "一", "二") == (0, "")
    assert chinese.read_text() == f"# 一\n<!-- en: {first} -->\n甲\n## 二\n<!-- en: {second} -->\n乙\n"
    assert translated("zh/01_x.md", "三") == (1, 'course.py: zh/01_x.md has no heading "三"\n')


def assert_picture(text):
    """What docs/tutorial promises about pictures: small, for screen readers, for light and dark, without scripts."""
    root = xml.etree.ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    ids = root.get("aria-labelledby").split()
    assert root.get("role") == "img" and [root.find(f"{space}{tag}[@id]").get("id") for tag in ("title", "desc")] == ids
    assert all(root.find(f"{space}{tag}").text.strip() for tag in ("title", "desc"))
    assert "prefers-color-scheme:dark" in text and len(text.encode()) <= 40 * 1024
    assert not re.search(r"<script|<image|<use|@import|url\(|\son\w+=", text)
    return [element.text for element in root.iter(f"{space}text")]


def test_pictures_of_the_pages():
    pictures = sorted(TUTORIAL.rglob("*.svg"))
    assert pictures
    for path in pictures:
        assert_picture(path.read_text(encoding="utf-8"))
        assert any(path.name in page.read_text(encoding="utf-8") for page in TUTORIAL.glob("*/*.md")), path


def trace(workers):
    events = [{"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "a <b>"}},
              {"name": "ready", "ph": "i", "ts": 700, "pid": 1, "tid": 0}]
    times = {"resolve": (0, 600), "hello": (600, 100), "start": (700, 20000), "run": (20700, 2500000), "stop": (2520700, 900)}
    events += [{"name": name, "ph": "X", "ts": ts, "dur": dur, "pid": 0, "tid": 1} for name, (ts, dur) in times.items()]
    for rank in range(workers):
        thread = {"pid": 1, "tid": rank + 1}
        events += [{"name": "thread_name", "ph": "M", "args": {"name": f"rank {rank}"}, **thread},
                   {"name": "starting", "ph": "X", "ts": 700, "dur": 20000, **thread},
                   {"name": f"running, pid {rank}", "ph": "X", "ts": 20700, "dur": 2500000, **thread}]
    return events


def draw(tmp_path, text, *words):
    (tmp_path / "trace.json").write_text(text)
    done = subprocess.run([sys.executable, ROOT / "tools/draw.py", "trace.json", "out.svg", *words], cwd=tmp_path, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_picture_of_a_start_has_what_the_trace_has(tmp_path):
    assert draw(tmp_path, json.dumps(trace(2))) == (0, "")
    texts = assert_picture((tmp_path / "out.svg").read_text())
    assert texts == ["who runs where", "600 µs", "agents start", "100 µs", "workers start", "20 ms", "the program runs", "2.5 s",
                     "all is swept up", "900 µs", "hvdray", "agent on a <b>", "rank 0", "rank 1"]
    assert draw(tmp_path, json.dumps(trace(1000)), "--language", "zh") == (0, "")
    texts = assert_picture((tmp_path / "out.svg").read_text())
    assert texts[-2:] == ["rank 15", "另外 984 个"]


def test_the_picture_of_an_elastic_job_has_its_generations_slots_and_losses(tmp_path):
    text = (ROOT / "tests/golden/report/trace_elastic.json").read_text()
    assert draw(tmp_path, text) == (0, "")
    picture = (tmp_path / "out.svg").read_text()
    assert assert_picture(picture) == ["starts", "trains", "waits or ends", "is killed or fails", "0 s", "1 s", "2 s", "3 s", "4 s", "5 s",
                                       "generation", "1: 2 workers", "2: 3 workers", "3: 2 workers", "a, slot 0", "b, slot 0", "c, slot 0"]
    assert picture.count('<path class="failed"') == 3  # with that of the legend
    assert "After 3 s, b, slot 0: was killed by SIGKILL (signal 9)." in picture
    assert draw(tmp_path, text, "--language", "zh") == (0, "")
    assert "b，槽位 0：was killed" in (tmp_path / "out.svg").read_text()


def test_an_elastic_job_of_many_changes_is_too_much_for_a_picture(tmp_path):
    events = [{"name": f"generation {n}, 2 workers", "ph": "X", "pid": 0, "tid": 100, "ts": n, "dur": 1} for n in range(5000)]
    assert draw(tmp_path, json.dumps(events)) == (1, "draw.py: trace.json: too much for a picture: look at it in Perfetto\n")


@pytest.mark.parametrize("text, said", [
    ("{", "draw.py: trace.json: Expecting property name"),
    ("[]", "draw.py: trace.json: expected a trace of a job that has run"),
    (json.dumps(trace(0)), "draw.py: trace.json: expected a trace of a job that has run"),
    ("[{}]", "draw.py: trace.json: expected a trace of a job that has run"),
    ("[1]", "draw.py: trace.json: expected a trace of a job that has run"),
    ('{"a": 1}', "draw.py: trace.json: expected a trace of a job that has run"),
    ("[" * 100_000, "draw.py: trace.json: expected a trace of a job that has run"),
    ('[{"name": "generation 1, 2 workers", "ph": "X", "pid": 0, "tid": 100}]', "draw.py: trace.json: expected a trace"),
    ('[{"name": "generation 1, 2 workers", "ph": "X", "pid": 0, "tid": 100, "ts": 0, "dur": 1e999}]', "draw.py: trace.json: expected a trace"),
])
def test_a_picture_of_what_is_no_trace(tmp_path, text, said):
    code, words = draw(tmp_path, text)
    assert code == 1 and words.startswith(said) and words.count("\n") == 1 and not (tmp_path / "out.svg").exists()


def test_a_picture_does_not_replace_its_trace(tmp_path):
    (tmp_path / "out.svg").symlink_to("trace.json")
    assert draw(tmp_path, json.dumps(trace(1))) == (1, "draw.py: out.svg is the trace: expected another file for the picture\n")
    assert json.loads((tmp_path / "trace.json").read_text()) == trace(1)
