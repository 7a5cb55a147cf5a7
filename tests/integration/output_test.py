# SPDX-License-Identifier: Apache-2.0
"""Worker output: unharmed, tagged, bounded, and honest when it can't be written."""

import fcntl
import hashlib
import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from conftest import python_script


def test_bytes_pass_through_unharmed(hvdray, script, tmp_path):
    data = bytes(range(256)).replace(b"\n", b"").replace(b"\r", b"") * 50 + b"\n"
    (tmp_path / "data").write_bytes(data)
    result = hvdray.go("-np", "1", "--tag-output", "none", "--", "cat", tmp_path / "data")
    assert result.out == data


def test_a_large_output_is_exact(hvdray, script, tmp_path):
    line = script("lines", python_script("""
import os, sys
rank = int(os.environ["HOROVOD_RANK"])
out = sys.stdout.buffer
for i in range(50000):
    out.write(b"%d %06d " % (rank, i) + b"x" * 90 + b"\\n")
"""))
    result = hvdray.go("-np", "4", "--", line)
    assert result.code == 0
    by_rank = {r: [] for r in range(4)}
    for text in result.out.split(b"\n")[:-1]:
        match = re.match(rb"\[(\d)\]<stdout>:(\d) (\d{6}) x{90}$", text)
        assert match and match[1] == match[2], text[:200]
        by_rank[int(match[1])].append(int(match[3]))
    assert all(numbers == list(range(50000)) for numbers in by_rank.values())


def test_tags_of_hosts_and_none_and_timestamps(hvdray):
    assert re.search(r"localhost:0", hvdray.go("-np", "1", "--tag-output", "host", "echo", "a").text)
    assert hvdray.go("-np", "1", "--tag-output", "none", "echo", "a").text == "a\n"
    stamped = hvdray.go("-np", "1", "--prefix-output-with-timestamp", "echo", "a").text
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:a\n", stamped), stamped


def test_carriage_returns_and_a_missing_newline(hvdray):
    result = hvdray.go("-np", "1", "--", "printf", r"first\ragain\nlast")
    assert result.out == b"[0]<stdout>:first\r[0]<stdout>:again\n[0]<stdout>:last"


def test_unfinished_last_lines_of_several_ranks_do_not_run_into_each_other(hvdray, tmp_path):
    result = hvdray.go("-np", "3", "--output-filename", tmp_path / "out", "--", "printf", "end")
    assert sorted(result.out.splitlines()) == [b"[%d]<stdout>:end" % rank for rank in range(3)]
    assert (tmp_path / "out/rank.1/stdout").read_text() == "[1]<stdout>:end"  # a file has what was written


ASKS = python_script("""
import os, sys
if int(os.environ["HOROVOD_RANK"]) != int(os.environ["ASKED"]):
    sys.exit()
sys.stdout.write("(Pdb) ")
sys.stdout.flush()
sys.stdout.write("got " + sys.stdin.readline())
""")


@pytest.mark.parametrize("size, asked", [(1, 0), (3, 1)])
def test_a_question_of_the_rank_that_is_typed_to_is_shown_before_its_answer(hvdray, script, size, asked):
    master, slave = pty.openpty()
    job = hvdray.job("-np", size, "--stdin", asked, "-x", f"ASKED={asked}", "--", script("asks", ASKS),
                     stdin=subprocess.PIPE, stdout=slave)
    os.close(slave)
    shown = b""
    while b"(Pdb) " not in shown:
        assert select.select([master], [], [], 60)[0], shown
        shown += os.read(master, 4096)
    job.process.stdin.write(b"c\n")
    job.process.stdin.close()
    job.process.stdin = None
    assert job.wait().code == 0
    while not shown.endswith(b"\n"):  # what was written in one piece may come in several
        shown += os.read(master, 4096)
    os.close(master)
    assert shown == b"[%d]<stdout>:(Pdb) got c\r\n" % asked


def test_stderr_stays_on_stderr(hvdray):
    result = hvdray.go("-np", "1", "--", "sh", "-c", "echo e >&2")
    assert result.text == "" and "[0]<stderr>:e" in result.errors


def test_output_folder_has_what_the_console_has(hvdray, tmp_path):
    folder = tmp_path / "a" / "b"
    result = hvdray.go("-np", "2", "--output-filename", folder, "--", "sh", "-c",
                       "echo out$HOROVOD_RANK; echo err >&2")
    assert result.code == 0, result.errors
    for rank in range(2):
        assert (folder / f"rank.{rank}" / "stdout").read_text() == f"[{rank}]<stdout>:out{rank}\n"
        assert (folder / f"rank.{rank}" / "stderr").read_text() == f"[{rank}]<stderr>:err\n"


def test_each_attempt_keeps_its_output(hvdray, tmp_path):
    folder = tmp_path / "out"
    result = hvdray.go("-np", "2", "--max-restarts", "2", "--output-filename", folder,
                       "--report", tmp_path / "report", "--", "sh", "-c",
                       "echo attempt $TORCHELASTIC_RESTART_COUNT; "
                       "[ $HOROVOD_RANK = 0 ] && exec sleep 60; "
                       "echo why $TORCHELASTIC_RESTART_COUNT >&2; "
                       "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 9; kill -9 $$")
    assert result.code == 137
    for place, number in (("attempt.1/", 0), ("attempt.2/", 1), ("", 2)):
        for rank in (0, 1):
            text = (folder / f"{place}rank.{rank}/stdout").read_text()
            assert text in (f"[{rank}]<stdout>:attempt {number}\n", "" if rank == 0 else None), place
        assert (folder / f"{place}rank.1/stderr").read_text() == f"[1]<stderr>:why {number}\n"
    assert sorted(os.listdir(folder)) == ["attempt.1", "attempt.2", "rank.0", "rank.1"]
    report = json.loads((tmp_path / "report").read_text())
    assert [(f["generation"], f["rank"], f["exit_code"], f["state"], f["last_stderr"])
            for f in report["earlier_failures"]] == [
                (1, 1, 9, "failed", ["why 0"]), (2, 1, 9, "failed", ["why 1"])]
    assert report["first_failure"]["last_stderr"] == ["why 2"]


def test_what_another_run_left_in_the_output_folder_is_named(hvdray, tmp_path):
    assert hvdray.go("-np", "3", "--output-filename", tmp_path / "out", "true").errors == ""
    result = hvdray.go("-np", "2", "--output-filename", tmp_path / "out", "true")
    assert result.code == 0
    assert result.errors == f"hvdray: rank.2 of another run is in {tmp_path}/out (--output-filename)\n"
    assert (tmp_path / "out/rank.2").exists()


def test_every_line_of_ours_is_json_when_asked_for(hvdray):
    def ours(*args, code):
        result = hvdray.go("--log-json", *args)
        assert result.code == code, result.errors
        return [json.loads(line) for line in result.errors.splitlines() if line[:1] != "["]

    lines = ours("-np", "2", "--max-restarts", "1", "--verbose", "--", "sh", "-c",
                 "[ $HOROVOD_RANK = 0 ] && exec sleep 60; printf 'caf\\303\\251\\n' >&2; exit 7", code=7)
    texts = [line["message"] for line in lines]
    assert all(line.keys() == {"time", "level", "where", "message"} for line in lines)
    assert any(text.startswith("rank 1 on host localhost exited with code 7") for text in texts)
    assert "  | caf\u00e9" in texts and any(text.startswith("restart 1 of 1") for text in texts)
    assert [line["level"] for line in lines if line["message"].startswith("stopped because of it")] == ["error"]
    assert not any(" -> " in text for text in texts), "the state machine is for --log-level debug"
    for wrong in (["--no-such-option"], ["-np", "x", "true"], ["-np", "1"]):
        (line,) = ours(*wrong, code=2)
        assert line["level"] == "error" and "HVD-E01" in line["message"]


def test_log_level_is_that_of_the_launcher_too_in_any_case(hvdray):
    for level, has_states in (("debug", True), ("Trace", True), ("INFO", False)):
        result = hvdray.go("-np", "1", "--log-level", level, "--", "sh", "-c", "echo $HOROVOD_LOG_LEVEL")
        assert result.code == 0 and result.text == f"[0]<stdout>:{level.upper()}\n"
        assert ("running -> " in result.errors) == has_states, result.errors


def test_unwritable_output_folder_starts_nothing(hvdray, tmp_path):
    (tmp_path / "file").write_text("")
    result = hvdray.go("-np", "1", "--output-filename", tmp_path / "file" / "x", "--", "touch",
                       tmp_path / "ran")
    assert result.code == 2 and str(tmp_path / "file") in result.errors
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_said_once_and_the_job_goes_on(hvdray, tiny_disk):
    result = hvdray.go("-np", "2", "--output-filename", tiny_disk, "--", "sh", "-c",
                       "seq 1 100000; echo end >&2")
    assert result.code == 125
    assert len([l for l in result.text.splitlines() if l.endswith(":100000")]) == 2
    assert "No space left" in result.errors
    assert "HVD-E0305" in result.errors
    assert result.errors.count("No space left") <= 3, result.errors


def test_a_limit_of_file_sizes_is_as_a_full_disk(hvdray, tmp_path):
    """Without care, it is a signal that kills (setrlimit(2)); workers have theirs."""
    limit = (64 << 10, 64 << 10)
    result = hvdray.go("-np", "2", "--output-filename", tmp_path / "out", "--", "sh", "-c",
                       "seq 1 100000; dd if=/dev/zero of=large bs=1M count=1 status=none; echo $? >&2", cwd=tmp_path,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert result.code == 125 and "HVD-E0305" in result.errors, result.errors
    assert "File too large; the job continues" in result.errors, result.errors
    assert len([l for l in result.text.splitlines() if l.endswith(":100000")]) == 2
    assert [l for l in result.errors.splitlines() if "<stderr>" in l and l.endswith(":153")], result.errors


def test_a_worker_failure_beats_a_full_disk(hvdray, tiny_disk):
    result = hvdray.go("-np", "1", "--output-filename", tiny_disk, "--", "sh", "-c",
                       "seq 1 100000; exit 3")
    assert result.code == 3


def test_full_stdout(hvdray):
    with open("/dev/full", "w") as full:
        result = hvdray.go("-np", "1", "--", "echo", "x", stdout=full)
    assert result.code == 125 and "HVD-E0305" in result.errors


@pytest.mark.parametrize("words", [
    ["run", "-np", "1", "--", "echo", "x"], ["run", "-np", "1", "--min-np", "1", "--", "echo", "x"],
    ["run", "--dry-run", "-np", "1", "--", "true"], ["run", "--help"], ["run", "-np", "1", "--print-config", "--", "true"],
    ["run", "-np", "1", "--report", "/dev/stdout", "--", "true"], ["run", "-np", "1", "--events", "/dev/stdout", "--", "true"],
    ["run", "-np", "1", "--min-np", "1", "--events", "/dev/stdout", "--", "true"], ["check", "-np", "1", "--", "sh"],
    ["cluster", "config", "FILE"], ["get-head-ip", "FILE"], ["up", "-y", "FILE"], ["down", "-y", "FILE"], ["explain"], ["version"], ["agent", "--version"]],
    ids=lambda words: "-".join(word.strip("-/") for word in words[:3]))
def test_output_that_is_not_written_is_a_failure(hvdray, tmp_path, words):
    """125 to a stdout that is closed, or full; 141 to one that nobody reads."""
    (tmp_path / "FILE").write_text("cluster_name: x\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n"
                                   "auth: {ssh_user: nobody}\nhead_start_ray_commands: []\n")
    closed = hvdray.run("-c", 'exec "$0" "$@" >&-', hvdray.binary, *words, binary="sh", cwd=tmp_path)
    assert closed.code == 125, closed.errors
    with open("/dev/full", "wb") as full:
        assert hvdray.run(*words, cwd=tmp_path, stdout=full).code == 125
    read, write = os.pipe()
    os.close(read)
    gone = hvdray.run(*words, cwd=tmp_path, stdout=write)
    os.close(write)
    assert gone.code == 141, gone.errors


def test_a_closed_stdout_that_nobody_writes_to_is_none(hvdray):
    result = hvdray.run("-c", 'exec "$0" run -np 2 -- true >&-', hvdray.binary, binary="sh")
    assert result.code == 0 and result.errors == ""


def test_reader_gone_stops_the_gang(hvdray):
    job = hvdray.job("-np", "2", "--", "sh", "-c", "while :; do echo y; done")
    job.process.stdout.readline()
    job.process.stdout.close()
    job.process.wait(60)
    assert job.process.returncode == 141


def test_a_slow_reader_slows_the_writers_and_not_memory(hvdray, script):
    writer = script("writer", python_script("""
import sys
block = (b"z" * 99 + b"\\n") * 1000
for i in range(400):
    sys.stdout.buffer.write(block)
"""))
    job = hvdray.job("-np", "2", "--", writer)
    time.sleep(2)  # 80 MB could have come by now
    sizes = {}
    for pid, line in job.processes().items():
        if "hvdray" in line.split(" ")[0]:
            with open(f"/proc/{pid}/status") as f:
                sizes[line] = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
    assert max(sizes.values()) < 60_000, sizes  # KiB
    total = 0
    while chunk := os.read(job.process.stdout.fileno(), 1 << 20):
        total += len(chunk)
    job.process.wait(60)
    assert job.process.returncode == 0
    assert total == 2 * 400 * 1000 * (100 + len("[0]<stdout>:"))


def test_stdout_flags_are_left_as_they_were(hvdray):
    read, write = os.pipe()
    job = hvdray.job("-np", "1", "--", "echo", "x", stdout=write)
    job.process.wait(60)
    assert not fcntl.fcntl(write, fcntl.F_GETFL) & os.O_NONBLOCK
    os.close(write)
    os.close(read)


def waiting_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.rest
def test_a_reader_of_stderr_that_does_not_read_costs_no_report(hvdray, tmp_path):
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    report = tmp_path / "report.json"
    job = hvdray.job("-np", "1", "--verbose", "--report", report, "--", "sh", "-c",
                     "yes why >&2 & sleep 600", stderr=write)
    os.close(write)
    job.wait_for(lambda: waiting_bytes(read) > 0)
    time.sleep(0.5)  # `yes` fills a pipe in less
    job.process.send_signal(signal.SIGTERM)
    code = job.process.wait(60)  # nobody reads: given up after some seconds
    os.close(read)
    assert code == 143
    assert json.loads(report.read_text())["exit"]["code"] == 143
    assert job.survivors() == {}


def test_quiet_and_the_last_lines(hvdray):
    assert hvdray.go("-np", "1", "--max-np", "2", "-q", "--", "true").errors == "", "no warnings, either"
    result = hvdray.go("-np", "1", "-q", "--", "sh", "-c", "echo why >&2; exit 5")
    assert result.code == 5
    loud = hvdray.go("-np", "1", "--", "sh", "-c", "echo why >&2; exit 5")
    for errors in (result.errors, loud.errors):
        assert "\n  | why\n" in errors.split("[0]<stderr>:why", 1)[1]
    assert len(result.errors.splitlines()) <= len(loud.errors.splitlines())  # the times in them differ in length
