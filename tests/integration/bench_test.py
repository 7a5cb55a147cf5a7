# SPDX-License-Identifier: Apache-2.0
"""hvdray bench: its ranks, its table and files, wrong input, and ranks that die."""

import contextlib
import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import xml.dom.minidom

import pytest

COLLECTIVES = ["all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "all_to_all", "gather", "scatter", "send_recv"]
# In the order of the library.
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"]
FAST = ("-n", "2", "-w", "1")


def bench(hvdray, *words, **kwargs):
    return hvdray.run("bench", *words, **kwargs)


def ranks_of(job, np):
    """Waits until so many run."""
    def both():
        found = [pid for pid, line in job.processes().items() if line.split(" ")[0].endswith("/hvdray-bench")]
        return len(found) == np and found
    return job.wait_for(both, what="ranks")


def rows_of(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_table_of_a_job_that_it_starts_itself(hvdray):
    result = bench(hvdray, "-np", 2, "-b", 8, "-e", "4K", *FAST)
    assert result.code == 0 and result.errors == "", result.errors
    rows = rows_of(result.text)
    assert [int(row[0]) for row in rows] == [8 << i for i in range(10)]
    assert all(row[1] == str(int(row[0]) // 4) and row[2:5] == ["float32", "sum", "-1"] for row in rows)
    # time p50 p99 algbw busbw %copy #wrong, out of place and in place.
    assert all(len(row) == 5 + 14 and row[11] == row[18] == "0" for row in rows), result.text
    assert "# all_reduce, backend shm\n" in result.text
    assert re.search(r"# 2 ranks on 1 host; while all ranks of a host copy blocks of 4 KiB, each copies [\d.]+", result.text)
    assert "# all results are right; average busbw " in result.text


@pytest.mark.parametrize("backend,np,lines", [("shm", 2, ["shm_direct_of_two"]), ("gloo", 3, ["network_doubling", "network_ring"])])
def test_the_table_of_algorithms_is_written_and_can_be_used(hvdray, tmp_path, backend, np, lines):
    table = tmp_path / "table"
    result = bench(hvdray, "-np", np, "--backend", backend, "--tune", table, *FAST)
    assert result.code == 0, result.errors
    assert result.text.count("# all_reduce, in-place, float32: ") == len(lines), result.text
    text = table.read_text()
    assert f": {np} ranks on 1 host, {backend}\n" in text
    found = dict(line.split("#")[0].split() for line in text.splitlines()[1:])
    assert set(lines) < set(found) and all(int(number) >= 0 for number in found.values())
    # Read back: rank 0 gives it to all.
    again = hvdray.run("run", "-np", np, "-x", f"HVDRAY_COLLECTIVE_TABLE={table}", "--", hvdray.binary, "bench", "-e", "1K", *FAST)
    assert again.code == 0, again.errors


def test_a_tuning_is_for_one_backend_and_has_no_other_files(hvdray, tmp_path):
    for words in (["--backend", "shm,gloo"], ["--json", "-"], ["--plot"]):
        result = bench(hvdray, "-np", 2, "--tune", tmp_path / "table", *words)
        assert result.code == 2 and "--tune takes one --backend" in result.errors
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("backend,np", [("auto", 1), ("shm", 3), ("gloo", 2)])
def test_every_collective_of_every_type_is_right(hvdray, backend, np):
    result = bench(hvdray, "-np", np, "-b", 8, "-e", 600, "-f", 70, "--collective", "all", "-d", "all", "-o", "all", "-r", "all",
                   "--backend", backend, "--json", "-", "-n", 1, "-w", 0)
    assert result.code == 0, result.errors
    measured = json.loads(result.text)
    assert (measured["ranks"], measured["hosts"], measured["wrong"]) == (np, 1, 0)
    rows = measured["rows"]
    assert {row["backend"] for row in rows} == {"single" if np == 1 else backend}
    found = {(row["collective"], row["dtype"]) for row in rows}
    wanted = {(collective, dtype) for collective in COLLECTIVES for dtype in DTYPES if np > 1 or collective != "send_recv"}
    assert found == wanted
    assert {row["op"] for row in rows} == {None, "sum", "average", "min", "max", "product", "bit_and", "bit_or", "bit_xor"}
    assert {row["root"] for row in rows} == {None, *range(np)}
    for row in rows:
        ways = [way for way in (row["out_of_place"], row["in_place"]) if way]
        assert len(ways) == (1 if row["collective"] in ("broadcast", "send_recv") else 2)
        assert all(way["wrong"] == 0 and way["iterations"] == 1 for way in ways)


def test_a_rank_of_hvdray_run(hvdray):
    result = hvdray.go("-np", 2, "-x", "HVDRAY_COLLECTIVE=gloo", "--", hvdray.binary, "bench", "-e", "16", *FAST)
    assert result.code == 0, result.errors
    assert "[0]<stdout>:# all_reduce, backend gloo\n" in result.text
    assert "[1]" not in result.text, "only rank 0 prints"


def test_two_hosts_have_no_memory_in_common(hvdray):
    """Two names of this machine, which are two hosts; one rank is the only one of its host with that local rank."""
    result = bench(hvdray, "-H", "localhost:2,127.0.0.1:1", "-e", 8, *FAST)
    assert result.code == 0, result.errors
    assert "3 ranks on 2 hosts" in result.text and "%copy" not in result.text


def test_files_and_plots(hvdray, tmp_path):
    result = bench(hvdray, "-np", 2, "-e", "1K", "--backend", "shm,gloo", "--json", "bench.json", "--csv", "bench.csv", "--plot",
                   "busbw.svg", *FAST, cwd=tmp_path)
    assert result.code == 0, result.errors
    measured = json.loads((tmp_path / "bench.json").read_text())
    lines = list(csv.DictReader((tmp_path / "bench.csv").open()))
    assert len(lines) == 2 * len(measured["rows"]) == 2 * 2 * 8
    assert {line["backend"] for line in lines} == {"shm", "gloo"}
    for line, row in zip(lines[::2], measured["rows"]):
        assert float(line["busbw_gbps"]) == pytest.approx(row["out_of_place"]["busbw_gbps"], abs=1e-6)
        assert row["out_of_place"]["p50_us"] <= row["out_of_place"]["p99_us"]
    picture = xml.dom.minidom.parse(str(tmp_path / "busbw.svg"))
    assert len(picture.getElementsByTagName("polyline")) == 2
    assert len(rows_of(result.text)) == 16


def test_a_plot_on_the_terminal_and_csv_on_stdout(hvdray):
    result = bench(hvdray, "-np", 2, "-e", "64", "--plot", *FAST)
    assert "busbw (GB/s)\n" in result.text and "  a all_reduce, shm\n" in result.text
    lines = list(csv.DictReader(io.StringIO(bench(hvdray, "-np", 2, "-e", "64", "--csv", "-", "-c", 0, *FAST).text)))
    assert [line["bytes"] for line in lines[::2]] == ["8", "16", "32", "64"]
    assert {line["wrong"] for line in lines} == {""}, "not checked"


@pytest.mark.parametrize("words,text", [
    ([], "there are no ranks to measure"),
    (["-np", "2", "--collective", "allreduce"], "--collective: unknown name 'allreduce'"),
    (["-np", "2", "-d", "half"], "float16, bfloat16"),
    (["-np", "2", "-o", "avg"], "average"),
    (["-np", "2", "--backend", "mpi"], "--backend: HVDRAY_COLLECTIVE must be auto, shm, gloo, hierarchical or nccl, not mpi"),
    (["-np", "2", "-b", "1M", "-e", "1K"], "--minbytes: 1M is more than the 1K of --maxbytes"),
    (["-np", "2", "-b", "8Q"], "--minbytes: must be a size"),
    (["-np", "2", "-f", "1"], "--stepfactor"),
    (["-np", "2", "-n", "0"], "from 1"),
    (["-np", "2", "--json", "-", "--csv", "-"], "only one of --json and --csv"),
    (["-np", "2", "--json", "both", "--csv", "./both"], "--json and --csv name the same file './both'"),
    (["-np", "2", "--plot", "--json", "-"], "no room for --plot"),
    (["-np", "2", "--plot", "busbw.png"], "unexpected word 'busbw.png'"),
    (["-np", "2", "--itres", "5"], "did you mean --iters?"),
])
def test_wrong_words_start_nothing(hvdray, words, text):
    result = bench(hvdray, *words)
    assert result.code == 2 and result.text == ""
    assert result.errors.startswith("hvdray bench: ") and text in result.errors, result.errors


@pytest.mark.parametrize("option", ["--json", "--csv", "--tune", "--plot"])
def test_no_result_is_written_over_what_is_read(hvdray, tmp_path, option):
    name = "hosts.svg" if option == "--plot" else "hosts"
    hosts = tmp_path / name
    hosts.write_text("localhost:2\n")
    (tmp_path / f"hard-{name}").hardlink_to(hosts)
    for words in (["--hostfile", name, option, name], [f"--hostfile={name}", option, f"hard-{name}"]):
        result = bench(hvdray, *words, cwd=tmp_path)
        assert result.code == 2 and "name the same file" in result.errors, result.errors
    result = bench(hvdray, option, name, cwd=tmp_path, env={**os.environ, "HVDRAY_HOSTFILE": name})
    assert result.code == 2 and "HVDRAY_HOSTFILE" in result.errors, result.errors
    assert hosts.read_text() == "localhost:2\n"


@pytest.mark.parametrize("words,text", [
    (["--collective", "broadcast", "-r", "2"], "--root: no rank 2 of 2 ranks"),
    (["-b", "512T", "-e", "512T"], "must be a size"),
    (["-b", "500000G", "-e", "500000G"], "do not fit the"),
    (["-e", "8", "--json", "/nowhere/bench.json"], "--json: /nowhere/bench.json: No such file"),
    (["-x", "HVDRAY_COLLECTIVE=mpi"], "HVDRAY_COLLECTIVE must be auto, shm, gloo, hierarchical or nccl, not mpi"),
])
def test_what_only_the_ranks_can_know_is_said_once(hvdray, words, text):
    result = bench(hvdray, "-np", 2, *words)
    assert result.code == 2
    said = [line for line in result.errors.splitlines() if line.startswith("hvdray bench: ")]
    assert len(said) == 1 and text in said[0], result.errors


@pytest.mark.parametrize("words", [["-e", "64", "--plot"], ["--tune", "-"]])
def test_one_rank_has_nothing_to_plot_or_tune(hvdray, words):
    result = bench(hvdray, "-np", 1, *words)
    assert result.code == 2 and f"{words[-1 if '--plot' in words else 0]}: one rank alone" in result.errors


def test_workers_may_be_named_by_the_environment(hvdray):
    result = bench(hvdray, "-e", 8, *FAST, env={"HVDRAY_NUM_PROC": "2"})
    assert result.code == 0 and "# 2 ranks on 1 host" in result.text, result.errors


@pytest.mark.parametrize("words", [
    ["-e", "64", "--csv", "/nowhere/bench.csv"],
    ["-b", "500000G", "-e", "500000G"],
    ["-r", "2", "--collective", "broadcast"],
])
def test_old_files_stay_if_nothing_is_measured(hvdray, tmp_path, words):
    (tmp_path / "bench.json").write_text("old")
    assert bench(hvdray, "-np", 2, *words, "--json", "bench.json", cwd=tmp_path).code == 2
    assert (tmp_path / "bench.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["bench.json"]


@pytest.mark.parametrize("words", [["-e", "64", "--json"], ["-e", "64", "--csv"], ["-e", "64", "--plot"]])
def test_a_file_that_cannot_be_written_whole_is_named(hvdray, words):
    result = bench(hvdray, "-np", 2, *FAST, *words[:-1], f"{words[-1]}=/dev/full")
    assert result.code == 125
    assert f"hvdray bench: {words[-1]}: /dev/full: write: No space left on device" in result.errors


def test_a_rank_that_dies_ends_the_others_with_a_message(hvdray, script, tmp_path):
    wrapper = script("wrapper", f"""#!/bin/sh
[ $HOROVOD_RANK = 1 ] && {{
{hvdray.bin_dir}/hvdray-bench -n 1000000 & until [ -e {tmp_path}/go ]; do sleep 0.1; done; kill -9 $!; exit 0; }}
exec {hvdray.bin_dir}/hvdray-bench -n 1000000
""")
    job = hvdray.job("-np", 2, "--", wrapper)
    for line in iter(job.process.stdout.readline, b""):  # what is above the table is printed once both have met
        if b"# all_reduce, backend " in line:
            (tmp_path / "go").touch()
            break
    result = job.wait()
    assert result.code == 1
    assert "hvdray bench: rank 0: " in result.errors and "rank 1 of 2 has died" in result.errors, result.errors


def test_a_killed_rank_is_named_by_the_job(hvdray):
    job = hvdray.start("bench", "-np", 2, "-n", 1000000)
    os.kill(ranks_of(job, 2)[1], signal.SIGKILL)
    result = job.wait(60)
    assert result.code == 128 + signal.SIGKILL or result.code == 1
    assert "has died" in result.errors or "SIGKILL" in result.errors, result.errors


def memory_of(pid):
    """The descriptor of the ranks' common memory, by way of one of them."""
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it opens and closes others meanwhile
            if "hvdray-collective" in os.readlink(fd):
                return os.open(fd, os.O_RDWR)
    return None


def test_wrong_results_are_counted_named_and_the_exit_code(hvdray, tmp_path):
    """The ranks' data is overwritten while it is in their common memory, as by a machine that is broken.

    One call of each row is checked: it has to last, so that none of them is over between two turns of this process."""
    job = hvdray.start("bench", "-np", 3, "--backend", "shm", "-b", "256K", "-e", "32M", "-w", 0, "-n", 1, "--json", "bench.json",
                       cwd=tmp_path)
    memory = job.wait_for(lambda: memory_of(ranks_of(job, 3)[0]), what="the ranks' memory")
    junk = os.urandom(2 << 20)
    while job.process.poll() is None:
        os.pwrite(memory, junk, 512 << 10)  # all in the slots: behind the counters, before the rings
    os.close(memory)
    result = job.wait(60)
    assert result.code == 1, result.errors
    wrong = json.loads((tmp_path / "bench.json").read_text())["wrong"]
    assert wrong > 0 and "# all results are right" not in result.text
    assert re.search(r"hvdray bench: \d+ wrong elements? in all_reduce", result.errors), result.errors


def test_ctrl_c_ends_it_and_keeps_old_files(hvdray, tmp_path):
    (tmp_path / "bench.json").write_text("old")
    job = hvdray.start("bench", "-np", 2, "-n", 1000000, "--json", "bench.json", cwd=tmp_path)
    ranks_of(job, 2)
    os.kill(job.pid, signal.SIGINT)
    assert job.wait(60).code == 128 + signal.SIGINT
    assert (tmp_path / "bench.json").read_text() == "old"


def test_without_hvdray_bench_a_line_says_so(hvdray, tmp_path):
    lonely = pathlib.Path(shutil.copy(hvdray.binary, tmp_path / "hvdray"))
    result = bench(hvdray, "-np", 2, binary=lonely)
    assert result.code == 127
    assert f"cannot start {tmp_path}/hvdray-bench: No such file or directory" in result.errors
    assert bench(hvdray, "--help", binary=lonely).code == 0
