# SPDX-License-Identifier: Apache-2.0
"""`hvdray run --ray` against a dashboard that a test plays: what is refused before anything is
submitted, and what a client does about its job. The cluster itself: ray_run_test.py."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from fake_dashboard import HEAD, FakeDashboard, last_record, places, record, v2, wait_until
from fault_server import FaultServer, answer

TOKEN = "geheim-0123456789"


@pytest.fixture
def cluster():
    opened = []

    def start(on_job=None, **kwargs):
        opened.append(FakeDashboard(on_job, **kwargs))
        return opened[-1]

    yield start
    for dashboard in opened:
        dashboard.close()


@pytest.fixture
def environment(tmp_path):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("RAY_", "HVDRAY_", "HOROVOD_", "NCCL_"))}
    (tmp_path / "home").mkdir()
    return {**kept, "HOME": str(tmp_path / "home")}


@pytest.fixture
def run(hvdray, environment, tmp_path):
    def call(url, *words, **variables):
        return hvdray.run("run", "--ray-address", url, *words, env={**environment, **variables},
                          cwd=tmp_path)

    return call


@pytest.fixture
def start(hvdray, environment, tmp_path):
    """The same without waiting for its end."""

    def call(url, *words, **kwargs):
        return hvdray.start("run", "--ray-address", url, *words, env=environment, cwd=tmp_path,
                            **kwargs)

    return call


def refused(result, code, label, *said):
    """One line of error and at most a hint; nothing on stdout."""
    assert (result.code, result.text) == (code, ""), result.errors
    lines = result.errors.splitlines()
    assert len(lines) <= 2 and lines[0].endswith(f"[{label}]"), result.errors
    assert all(line.startswith("  hint: ") for line in lines[1:]), result.errors
    assert TOKEN not in result.errors
    for words in said:
        assert words in result.errors, result.errors


# ---- refused with nothing submitted


def test_no_cluster_at_the_address(run):
    refused(run("http://127.0.0.1:9", "-np", "1", "true"), 2, "HVD-E0216", "http://127.0.0.1:9")


def test_gcs_instead_of_the_dashboard(run):
    refused(run("10.0.0.10:6379", "-np", "1", "true"), 2, "HVD-E0102", "10.0.0.10:6379", "http://")
    refused(run("ray://10.0.0.10:10001", "-np", "1", "true"), 2, "HVD-E0102", "ray://")


@pytest.mark.parametrize("status, body, label, code", [
    (401, "Unauthorized: Missing authentication token", "HVD-E0217", 2),
    (403, "Forbidden: Invalid authentication token", "HVD-E0217", 2),
    (500, "Traceback\nRuntimeError: GCS is not there", "HVD-E0218", 125),
    (200, "<html>somebody's router</html>", "HVD-E0216", 2)])
def test_a_dashboard_that_will_not_or_is_none(run, status, body, label, code):
    server = FaultServer({"/api/version": answer(status, body, "text/plain")})
    try:
        result = run(server.url, "-np", "1", "true", RAY_AUTH_TOKEN=TOKEN)
        refused(result, code, label, server.url)
        assert all(method == "GET" for method, _, _ in server.requests)
    finally:
        server.close()


def test_more_than_the_cluster_has(run, cluster):
    dashboard = cluster()
    refused(run(dashboard.url, "-np", "5", "true"), 2, "HVD-E0219",
            "5 slots of 1 CPU each are requested, but 1 live node has room for 4")
    refused(run(dashboard.url, "--num-hosts", "2", "true"), 2, "HVD-E0219",
            "2 hosts with 1 CPU each are requested, but there is 1 live node")
    refused(run(dashboard.url, "-np", "1", "--use-gpu", "--gpus-per-slot", "3", "true"), 2,
            "HVD-E0219", "no live node has more than 2 GPU")
    refused(run(dashboard.url, "-np", "1", "--resources-per-slot", "TPU=1", "true"), 2, "HVD-E0219",
            "no live node has TPU")
    refused(run(dashboard.url, "-H", "10.0.0.99:1", "true"), 2, "HVD-E0219",
            "the cluster has no live node 10.0.0.99")
    assert not dashboard.jobs and not dashboard.packages


def test_more_than_the_cluster_has_is_known_at_once_with_autoscaler_v2_too(run, cluster):
    dashboard = cluster(**v2())
    refused(run(dashboard.url, "-np", "9", "true"), 2, "HVD-E0219",
            "9 slots of 1 CPU each are requested, but 1 live node has room for 4")
    for url, np, said in ((dashboard.url, 1, "there is room for them now"),
                          (dashboard.url, 2, "they would wait: "),  # three of four are taken
                          (cluster(**v2("worker")).url, 9, "they would wait: ")):  # nodes may come
        assert said in run(url, "-np", np, "--dry-run", "true").text


def test_what_nobody_has_told_yet_is_not_taken_for_free(run, hvdray, environment, cluster):
    url = cluster(status=v2()["status"]).url
    assert "would wait: what is free on 1 of 1 live node is not known yet\n" in run(
        url, "-np", "1", "--dry-run", "true").text
    page = json.loads(hvdray.run("slots", "--ray-address", url, "--json", env=environment).text)
    assert (page["slots"], page["hosts"][0]["slots"], page["hosts"][0]["slots_when_idle"]) == (
        0, None, 4)


def test_working_folders_that_cannot_go_along(run, cluster, tmp_path):
    dashboard = cluster()
    folder = tmp_path / "work"
    words = ["-np", "1", "--working-dir", "work", "true"]
    refused(run(dashboard.url, *words), 2, "HVD-E0104", "work")
    folder.mkdir()
    os.symlink("nowhere", folder / "link")
    refused(run(dashboard.url, *words), 2, "HVD-E0101", "work/link -> nowhere leads nowhere",
            "--exclude")
    (folder / "link").unlink()
    os.mkfifo(folder / "pipe")
    refused(run(dashboard.url, *words), 2, "HVD-E0101", "work/pipe is a named pipe")
    assert run(dashboard.url, "-np", "1", "--working-dir", "work", "--exclude", "pipe", "--dry-run",
               "true").code == 0
    (folder / "pipe").unlink()
    with open(folder / "noise.bin", "wb") as noise:
        for _ in range(101):
            noise.write(os.urandom(1 << 20))
    (folder / "small.txt").write_text("x" * 3000)
    refused(run(dashboard.url, *words), 2, "HVD-E0108", "work", "100 MiB",
            "noise.bin 101 MiB, small.txt 3 KiB", "--exclude")
    assert not dashboard.jobs and not dashboard.packages


def test_files_that_cannot_be_written_are_known_first(run, cluster):
    dashboard = cluster()
    refused(run(dashboard.url, "-np", "1", "--report", "/nowhere/r.json", "true"), 2, "HVD-E0105",
            "/nowhere/r.json")
    assert not dashboard.jobs


def test_an_output_folder_that_cannot_be_is_known_first(run, cluster, tmp_path):
    dashboard = cluster()
    (tmp_path / "file").write_text("")
    (tmp_path / "out/rank.0/stdout").mkdir(parents=True)
    for folder, said in ("file/x", "file"), ("out", "out/rank.0/stdout"):
        refused(run(dashboard.url, "-np", "2", "--output-filename", folder, "true"), 2, "HVD-E0105",
                said)
    assert not dashboard.jobs


def test_a_dry_run_only_looks(run, cluster):
    dashboard = cluster()
    result = run(dashboard.url, "-np", "2", "--cpus-per-slot", "2", "--dry-run", "true")
    assert (result.code, result.errors) == (0, "")
    assert f"{dashboard.url}: Ray 2.60.0\n2 workers in 1 bundle, PACK\n  1 x 4 CPU\n" in result.text
    assert "there is room for them now\n" in result.text
    assert {method for method, _ in dashboard.requests} == {"GET"} and not dashboard.jobs


# ---- a job


def well(job):
    """Two lines, and success."""
    job.run()
    job.write("stream", record(1, b"[0]<stdout>:hello\n"))
    job.write("stream", record(2, b"hvdray: one\n"))
    job.end(0)


def test_a_job_and_what_goes_with_it(run, cluster, tmp_path):
    dashboard = cluster(well)
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print(1)\n")
    (work / "tool").write_text("#!/bin/sh\n")
    (work / "tool").chmod(0o755)
    result = run(dashboard.url, "-np", "2", "--working-dir", "work", "--grace", "7", "-x", "A=1",
                 "--", "python3", "train.py", NCCL_DEBUG="INFO", LAPTOP="mine")
    assert (result.code, result.text, result.errors) == (0, "[0]<stdout>:hello\n", "hvdray: one\n")
    (job,) = dashboard.jobs.values()
    env = job.body["runtime_env"]
    assert env["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "17"}
    assert job.body["metadata"]["hvdray_job_id"] == job.id
    assert TOKEN not in json.dumps(job.body) and "NCCL" not in json.dumps(job.body)
    package = dashboard.files_of(env["working_dir"][6:])
    assert package["files/train.py"] == (0o644, b"print(1)\n")
    assert package["files/tool"][0] == 0o755
    assert package[".hvdray/hvdray-agent"][0] == 0o755 and ".hvdray/ray_driver.py" in package
    (uri,) = env["py_modules"]
    assert dashboard.files_of(uri[6:])["hvdray_job/job.json"][0] == 0o600
    page = dashboard.job_file()
    assert page["job_id"] == job.id and len(page["key"]) == 64
    assert page["environment"] == [["NCCL_DEBUG", "INFO"]]
    assert page["key"] not in json.dumps(job.body)


def test_a_runtime_environment_goes_to_the_workers_and_modules_of_this_machine_along(
        run, cluster, tmp_path):
    dashboard = cluster(well)
    (tmp_path / "lib/inner").mkdir(parents=True)
    (tmp_path / "lib/inner/__init__.py").write_text("x = 1\n")
    (tmp_path / "of-1-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "req.txt").write_text("a==1\n")
    env = {"pip": "req.txt", "py_modules": ["lib", "of-1-py3-none-any.whl", "s3://b/m.zip"],
           "env_vars": {"OMP_NUM_THREADS": "4", "MADE": "${HOME}/x", "GIVEN": "no"}}
    result = run(dashboard.url, "-np", "1", "-x", "GIVEN=yes", "--runtime-env", json.dumps(env),
                 "--working-dir", "https://example.com/work.zip", "true")
    assert result.code == 0, result.errors
    (job,) = dashboard.jobs.values()
    sent = job.body["runtime_env"]
    assert sent["working_dir"] == "https://example.com/work.zip"
    private, own, lib, wheel, remote = sent["py_modules"]
    assert (wheel, remote) == ("gcs://of-1-py3-none-any.whl", "s3://b/m.zip")
    assert dashboard.files_of(lib[6:]) == {
        "lib/": (0o755, b""), "lib/inner/": (0o755, b""), "lib/inner/__init__.py": (0o644, b"x = 1\n")}
    assert ".hvdray/hvdray-agent" in dashboard.files_of(own[6:]) and "job" in private
    page = dashboard.job_file()
    assert json.loads(page["options"]["settings"]["runtime_env"]) == {
        "pip": ["a==1"], "env_vars": env["env_vars"]}
    assert sorted(page["environment"]) == [["GIVEN", "no"], ["OMP_NUM_THREADS", "4"]]
    assert page["options"]["settings"]["env"] == ["GIVEN=yes"]


def test_a_runtime_environment_that_is_wrong_is_known_first(run, cluster, tmp_path):
    dashboard = cluster()
    (tmp_path / "env.yaml").write_text("pip: [a]\nenv_var: {A: 1}\n")
    for text, *said in (("env.yaml", "env.yaml: unknown key 'env_var'", "did you mean env_vars?"),
                        ('{"pip": "none.txt"}', "no file 'none.txt'"),
                        ('{"py_modules": ["none"]}', "none")):
        result = run(dashboard.url, "-np", "1", "--runtime-env", text, "true")
        assert result.code == 2, result.errors
        assert all(words in result.errors for words in said), result.errors
    assert not dashboard.jobs


def test_a_client_whose_job_is_not_to_outlive_it_says_that_it_is_there(run, cluster):
    def ends_once_it_has_heard(job):
        job.run()
        wait_until(lambda: f"hvdray_here_{job.id}.zip" in dashboard.packages)
        job.end(0)

    dashboard = cluster(ends_once_it_has_heard)
    assert run(dashboard.url, "-np", "1", "--stop-with-client", "true").code == 0
    assert dashboard.job_file()["options"]["settings"]["stop_with_client"] is True


def test_the_large_package_is_sent_once_and_anew_after_chmod(run, cluster, tmp_path):
    dashboard = cluster(well)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "tool").write_text("#!/bin/sh\n")
    words = ["-np", "1", "--working-dir", "work", "true"]
    assert run(dashboard.url, *words).code == 0
    puts = [path for method, path in dashboard.requests if method == "PUT"]
    assert run(dashboard.url, *words).code == 0
    again = [path for method, path in dashboard.requests if method == "PUT"][len(puts):]
    assert len(puts) == 2 and len(again) == 1 and "hvdray_job_" in again[0]
    (tmp_path / "work" / "tool").chmod(0o755)
    assert run(dashboard.url, *words).code == 0
    assert len([path for method, path in dashboard.requests if method == "PUT"]) == 5


@pytest.mark.parametrize("code", [1, 3, 124, 125, 127, 137])
def test_the_exit_code_is_the_drivers(run, cluster, code):
    def play(job):
        job.run()
        job.end(code)

    assert run(cluster(play).url, "-np", "1", "true").code == code


def test_bytes_arrive_whole_whatever_they_are_and_however_often_the_stream_breaks(run, cluster):
    noise = os.urandom(3 << 20) + b"\xff\xfe no text \0" + b"x" * (5 << 20) + b"\n"

    def play(job):
        job.run()
        for at in range(0, len(noise), 300_000):
            job.write("stream", record(1, noise[at:at + 300_000]))
        job.end(0)

    dashboard = cluster(play)
    dashboard.lost_streams = 3
    result = run(dashboard.url, "-np", "1", "true")
    assert result.code == 0, result.errors
    assert result.out == noise and result.errors == ""


def test_the_files_come_here(run, cluster, tmp_path):
    def play(job):
        job.run()
        for suffix in ("report.json", "events.jsonl", "trace.json", "junit.xml"):
            job.write(suffix, suffix.encode() * 1000)
        job.end(3)

    result = run(cluster(play).url, "-np", "1", "--report", "r", "--events", "e", "--trace", "t",
                 "--junit", "j", "true")
    assert result.code == 3 and result.errors == ""
    for name, suffix in (("r", "report.json"), ("e", "events.jsonl"), ("t", "trace.json"),
                         ("j", "junit.xml")):
        assert (tmp_path / name).read_bytes() == suffix.encode() * 1000


def two_ranks(job, code=0):
    """One with much, one whose bytes are no text; lines of nobody's; files that begin anew."""
    job.run()
    job.write("stream", places(1, 2, (0, (1 << 32) - 1), (1, (1 << 32) - 1)))
    job.write("stream", places(1, 2, (0, 4), (-1, 6), (1, 4)) + record(1, b"old\nours:\n\xff\xfe\0\n"))
    job.write("stream", places(2, 2, (1, 4)) + record(2, b"err\n") + record(2, b"hvdray: x\n"))
    job.write("stream", places(1, 2, (0, (1 << 32) - 1), (0, 5 << 20)))
    job.write("stream", record(1, b"n" * (5 << 20)))
    job.end(code)


FILES = {"rank.0/stdout": b"n" * (5 << 20), "rank.0/stderr": b"", "rank.1/stdout": b"\xff\xfe\0\n",
         "rank.1/stderr": b"err\n", "attempt.1/rank.0/stdout": b"old\n"}


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def test_each_ranks_output_comes_into_its_files_here(run, hvdray, environment, cluster, tmp_path):
    dashboard = cluster(two_ranks)
    dashboard.lost_streams = 2
    (tmp_path / "out/rank.1").mkdir(parents=True)
    (tmp_path / "out/rank.1/stderr").write_text("of another job")
    result = run(dashboard.url, "-np", "2", "--output-filename", "out", "true")
    assert result.code == 0, result.errors
    assert files_below(tmp_path / "out") == FILES
    (name,) = dashboard.jobs
    result = hvdray.run("follow", name, "--ray-address", dashboard.url, "--output-filename",
                        "again", env=environment, cwd=tmp_path)
    assert result.code == 0 and files_below(tmp_path / "again") == FILES, result.errors
    refused(hvdray.run("follow", name, "--ray-address", dashboard.url, "--output-filename",
                       "/proc/x", env=environment, cwd=tmp_path), 2, "HVD-E0105", "/proc/x")


@pytest.mark.parametrize("code", [0, 3])
def test_a_full_disk_here_costs_the_exit_code_not_the_job(run, cluster, tmp_path, code):
    (tmp_path / "tiny").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path / "tiny"],
                   check=True)
    try:
        result = run(cluster(lambda job: two_ranks(job, code)).url, "-np", "2",
                     "--output-filename", "tiny/out", "true")
    finally:
        subprocess.run(["umount", tmp_path / "tiny"], check=True)
    assert result.code == (code or 125) and len(result.out) > 5 << 20
    assert "tiny/out/rank.0/stdout: write: No space left on device" in result.errors
    assert result.errors.count("No space left") <= 2, result.errors


def test_events_come_while_the_job_runs(start, cluster, tmp_path):
    seen = tmp_path / "e"

    def play(job):
        job.run()
        job.write("events.jsonl", b"one\n")
        wait_until(lambda: seen.exists() and seen.read_bytes() == b"one\n")
        job.write("events.jsonl", b"two\n" * 100_000)
        job.end(0)

    dashboard = cluster(play)
    dashboard.lost_streams = 1
    result = start(dashboard.url, "-np", "1", "--events", "e", "true").wait()
    assert result.code == 0, result.errors
    assert seen.read_bytes() == b"one\n" + b"two\n" * 100_000


def test_a_file_that_does_not_come_makes_a_good_job_a_bad_one(run, cluster):
    result = run(cluster(well).url, "-np", "1", "--report", "r", "true")
    assert result.code == 125 and "fetch r" in result.errors


def test_what_ray_says_of_a_job_that_never_ran(run, cluster):
    def play(job):
        job.message = "Traceback\nOSError: the node has no room\n"
        job.error_type, job.status = "RUNTIME_ENV_SETUP_FAILURE", "FAILED"

    refused(run(cluster(play).url, "-np", "1", "true"), 125, "HVD-E0218",
            "RUNTIME_ENV_SETUP_FAILURE: OSError: the node has no room")


def test_a_driver_that_dies_says_its_last_line(run, cluster):
    def play(job):
        job.run()
        job.files[f"job-driver-{job.id}.log"] = b"Running entrypoint\nModuleNotFoundError: ray\n"
        job.error_type, job.code, job.status = "JOB_ENTRYPOINT_COMMAND_ERROR", 1, "FAILED"

    refused(run(cluster(play).url, "-np", "1", "true"), 125, "HVD-E0218",
            "its driver exited with code 1: ModuleNotFoundError: ray")


def test_a_stream_in_several_files_is_one_and_a_cut_costs_no_more_than_one_of_them(run, cluster):
    lines = [b"[0]<stdout>:%d\n" % i * 100_000 for i in range(3)]

    def play(job):
        job.write("stream", record(1, lines[0]) + record(2, b"") + record(5, b"1"))
        job.write("stream.1", record(1, lines[1]) + record(5, b"2"))
        job.write("stream.2", record(1, lines[2]))
        dashboard.lost_streams, dashboard.lost_suffix = 4, ".2"
        job.run()
        wait_until(lambda: dashboard.lost_streams == 0)
        job.write("stream.2", last_record(0))
        job.code, job.status = 0, "SUCCEEDED"

    dashboard = cluster(play)
    result = run(dashboard.url, "-np", "1", "true")
    assert (result.code, result.errors) == (0, "")
    assert result.out == b"".join(lines)
    asked = [name.rpartition("stream")[2] for name in dashboard.streamed]
    # The last cut may be followed by a look at the whole file: the job may have ended by then.
    assert asked in [["", ".1"] + [".2"] * reads for reads in (4, 5)]


def test_the_rest_of_a_job_that_has_ended_may_be_in_several_files(run, cluster):
    def play(job):
        job.write("stream", record(1, b"[0]<stdout>:a\n") + record(5, b"1"))
        job.write("stream.1", record(1, b"[0]<stdout>:b\n") + last_record(7))
        job.node, job.code, job.status = HEAD, 7, "FAILED"

    result = run(cluster(play).url, "-np", "1", "true")
    assert (result.code, result.out) == (7, b"[0]<stdout>:a\n[0]<stdout>:b\n"), result.errors


def test_garbage_in_the_stream_is_said_and_the_job_still_ends(run, cluster):
    def play(job):
        job.run()
        job.write("stream", b"\0\0\0\0\0 what is this")
        job.code, job.status = 0, "SUCCEEDED"

    result = run(cluster(play).url, "-np", "1", "true")
    assert result.code == 125 and "HVD-E0207" in result.errors


def test_every_line_of_ours_is_json_when_asked_for_here_too(run, start, cluster):
    def ours(result, code, *said):
        assert result.code == code, result.errors
        lines = [json.loads(line) for line in result.errors.splitlines()]
        assert all(line.keys() == {"time", "level", "where", "message"} for line in lines), lines
        assert all(any(words in line["message"] for line in lines) for words in said), lines

    def garbage(job):
        job.run()
        job.write("stream", b"\0\0\0\0\0 what is this")
        job.code, job.status = 0, "SUCCEEDED"

    ours(run(cluster(garbage).url, "--log-json", "-np", "1", "true"), 125, "HVD-E0207")
    ours(run(cluster().url, "--log-json", "-np", "1", "--detach", "true"), 0, "hvdray follow ")
    job = start(cluster(stopped).url, "--log-json", "-np", "1", "true")
    assert first_line(job) == b"ready\n"
    job.process.send_signal(signal.SIGTERM)
    ours(job.wait(), 143, "stopping job ")


# ---- the user


def stopped(job, code=143):
    """A driver that stops in good order when it is told to."""
    job.run()
    job.write("stream", record(1, b"ready\n"))
    wait_until(lambda: job.stops > 0)
    job.end(code, "STOPPED")


def first_line(job):
    return job.process.stdout.readline()


@pytest.mark.parametrize("signo, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143),
                                         (signal.SIGHUP, 129)])
def test_a_signal_stops_the_job(start, cluster, signo, code):
    dashboard = cluster(stopped)
    job = start(dashboard.url, "-np", "1", "true")
    assert first_line(job) == b"ready\n"
    job.process.send_signal(signo)
    result = job.wait()
    assert result.code == code, result.errors
    assert f"stopping job {next(iter(dashboard.jobs))}" in result.errors


def test_a_second_ctrl_c_forces_the_stop(start, cluster):
    def play(job):
        job.run()
        job.write("stream", record(1, b"ready\n"))
        name = f"hvdray_now_{job.id}.zip"
        wait_until(lambda: name in dashboard.packages)
        job.end(143, "STOPPED")

    dashboard = cluster(play)
    job = start(dashboard.url, "-np", "1", "true")
    assert first_line(job) == b"ready\n"
    job.process.send_signal(signal.SIGINT)
    wait_until(lambda: next(iter(dashboard.jobs.values())).stops)
    time.sleep(0.2)  # sooner, it would be a copy of the first
    job.process.send_signal(signal.SIGINT)
    assert job.wait().code == 130


def test_a_third_leaves_and_says_how_to_go_on(start, cluster):
    def play(job):
        job.run()
        job.write("stream", record(1, b"ready\n"))

    dashboard = cluster(play)
    job = start(dashboard.url, "-np", "1", "true")
    assert first_line(job) == b"ready\n"
    (played,) = dashboard.jobs.values()
    for is_heard, signo in ((lambda: played.stops, signal.SIGTERM), (lambda: len(dashboard.packages) > 2, signal.SIGQUIT),
                            (lambda: True, signal.SIGINT)):
        job.process.send_signal(signo)
        wait_until(is_heard)
    result = job.wait()
    assert result.code == 130
    (name,) = dashboard.jobs
    assert f"hvdray follow {name} --ray-address {dashboard.url}" in result.errors


def test_a_pending_job_is_stopped_as_soon_as_it_listens(start, cluster):
    def play(job):
        wait_until(lambda: job.stops > 1)  # Ray says yes to each, and does nothing
        before = job.stops
        job.run()
        wait_until(lambda: job.stops > before)
        job.end(143, "STOPPED")

    dashboard = cluster(play)
    job = start(dashboard.url, "-np", "1", "true")
    wait_until(lambda: dashboard.jobs)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGINT)
    assert job.wait().code == 130


def test_a_reader_that_goes_away_stops_the_job(start, cluster):
    def play(job):
        job.run()
        while job.stops == 0:
            job.write("stream", record(1, b"line\n" * 100))
            time.sleep(0.05)
        job.end(143, "STOPPED")

    job = start(cluster(play).url, "-np", "1", "true")
    assert job.process.stdout.read(5) == b"line\n"
    job.process.stdout.close()
    assert job.process.wait(60) == 141


def test_a_job_whose_submission_was_not_answered_is_found(run, cluster):
    dashboard = cluster(well)
    dashboard.before_answer = lambda: True
    result = run(dashboard.url, "-np", "1", "true")
    assert result.code == 0, result.errors
    assert len(dashboard.jobs) == 1


def test_a_job_that_may_be_there_is_said_to_be(run, cluster):
    dashboard = cluster()

    def goes_away():
        threading.Thread(target=dashboard.close, daemon=True).start()
        dashboard.ending.wait(60)
        return True

    dashboard.before_answer = goes_away
    refused(run(dashboard.url, "-np", "1", "true"), 125, "HVD-E0218", "it is unknown whether Ray accepted job hvd-",
            "hvdray stop hvd-")


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_being_submitted_is_stopped_too(start, cluster, signo):
    def play(job):
        job.run()
        wait_until(lambda: job.stops)
        job.write("stream", record(3, b'{"exit_code": 130, "error": ""}'))
        job.end(130, "STOPPED")

    dashboard = cluster(play)
    clients = []

    def signalled():
        clients[0].process.send_signal(signo)
        time.sleep(0.2)
        return False

    dashboard.before_answer = signalled
    clients.append(start(dashboard.url, "-np", "1", "true"))
    assert clients[0].process.wait(60) == 128 + signo, clients[0].process.stderr.read()
    assert all(job.stops == 1 for job in dashboard.jobs.values())


def test_a_full_disk_costs_the_exit_code_not_the_job(start, cluster):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")

    def play(job):
        job.run()
        job.write("stream", record(1, b"x" * 100000))
        time.sleep(0.3)
        job.end(0)

    with open("/dev/full", "wb") as full:
        job = start(cluster(play).url, "-np", "1", "true", stdout=full)
        assert job.process.wait(60) == 125
    assert b"HVD-E0305" in job.process.stderr.read()


def test_a_full_disk_is_told_though_the_job_was_over_before(run, hvdray, environment, cluster):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    dashboard = cluster()
    assert run(dashboard.url, "-np", "1", "--detach", "-q", "true").code == 0
    (job,) = dashboard.jobs.values()
    well(job)
    with open("/dev/full", "wb") as full:
        follower = hvdray.start("follow", job.id, "--ray-address", dashboard.url, stdout=full,
                                env=environment)
        assert follower.process.wait(60) == 125
    assert b"HVD-E0305" in follower.process.stderr.read()


def test_a_slow_reader_holds_the_stream_not_the_memory(start, cluster):
    size = 64 << 20

    def play(job):
        job.run()
        job.write("stream", record(1, b"y" * size))
        job.end(0)

    job = start(cluster(play).url, "-np", "1", "true")
    assert job.process.stdout.read(1) == b"y"
    time.sleep(1.5)
    with open(f"/proc/{job.process.pid}/status", encoding="ascii") as status:
        peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    assert peak < 48 << 10, f"{peak} KiB"
    assert len(job.process.stdout.read()) == size - 1
    assert job.process.wait(60) == 0


# ---- without a client


@pytest.fixture
def head_here(tmp_path):
    """Makes a cluster file whose head is this machine, with a dashboard at `port` by the process that /proc has."""
    started = []

    def make(port):
        name = f"here-{os.getpid()}"
        file = tmp_path / "my cluster.yaml"
        file.write_text(f"cluster_name: {name}\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: []}}\n")
        started.append(subprocess.Popen(
            ["python3", "-c", "import sys; sys.stdin.read()", "/ray/dashboard/dashboard.py", "--host=127.0.0.1",
             f"--port={port}"], stdin=subprocess.PIPE, env={**os.environ, "HVDRAY_NODE": f"{name}/127.0.0.1"}))
        return file

    yield make
    for process in started:
        process.stdin.close()
        process.wait()


def test_the_line_that_a_detached_job_prints_follows_it(hvdray, environment, cluster, head_here, tmp_path):
    dashboard = cluster()
    file = head_here(dashboard.server.server_port)
    (tmp_path / "ssh config").write_text("")
    words = ("--cluster", file.name, "--ssh-config", "ssh config", "--ssh-port", "2200")
    result = hvdray.run("run", "-np", "1", "--ray", *words, "--detach", "true", env=environment, cwd=tmp_path)
    assert result.code == 0, result.errors
    (name,) = dashboard.jobs
    line = next(line for line in result.errors.splitlines() if "hvdray follow" in line)
    for said in ("--cluster 'my cluster.yaml'", "--ssh-config 'ssh config'", "--ssh-port 2200"):
        assert said in line
    well(dashboard.jobs[name])
    command = line[line.index("hvdray follow"):].replace("hvdray", str(hvdray.binary), 1)
    followed = subprocess.run(command, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert followed.returncode == 0, followed.stderr
    for command in ("jobs", "slots"):
        assert hvdray.run(command, *words, env=environment, cwd=tmp_path).code == 0


def test_a_job_that_is_stopped_while_it_is_pending_ends_its_follower_as_one_that_ran(run, hvdray, environment, cluster):
    dashboard = cluster()
    run(dashboard.url, "-np", "1", "--detach", "true")
    (name,) = dashboard.jobs
    dashboard.jobs[name].status = "STOPPED"
    result = hvdray.run("follow", name, "--ray-address", dashboard.url, env=environment)
    assert result.code == 143, result.errors
    assert "someone else stopped" in result.errors


def test_a_reason_that_is_cut_off_is_shown_whole_by_logs(run, hvdray, environment, cluster):
    dashboard = cluster()
    run(dashboard.url, "-np", "1", "--detach", "true")
    (name,) = dashboard.jobs
    job = dashboard.jobs[name]
    job.status, job.error_type, job.message = "FAILED", "RUNTIME_ENV_SETUP_FAILED", "first\nlast"
    result = hvdray.run("follow", name, "--ray-address", dashboard.url, env=environment)
    assert result.code == 125
    assert f"hint: hvdray logs {name} --ray-address {dashboard.url} shows" in result.errors


def test_a_detached_job_is_followed_later(run, hvdray, environment, cluster, tmp_path):
    dashboard = cluster()
    result = run(dashboard.url, "-np", "1", "--detach", "--report", "r.json", "true")
    (name,) = dashboard.jobs
    assert (result.code, result.text) == (0, name + "\n")
    assert f"hvdray follow {name} --ray-address {dashboard.url} --report 'r.json'" in result.errors
    job = dashboard.jobs[name]
    well(job)
    job.write("report.json", b"{}")
    result = hvdray.run("follow", name, "--ray-address", dashboard.url, "--report", "r.json",
                        env=environment, cwd=tmp_path)
    assert (result.code, result.text, result.errors) == (0, "[0]<stdout>:hello\n", "hvdray: one\n")
    assert (tmp_path / "r.json").read_bytes() == b"{}"


def test_who_follows_leaves_the_job_alone_and_stop_ends_it(run, hvdray, environment, cluster):
    dashboard = cluster()
    assert run(dashboard.url, "-np", "1", "--detach", "-q", "true").errors == ""
    (job,) = dashboard.jobs.values()
    job.run()
    job.write("stream", record(1, b"ready\n"))
    follower = hvdray.start("follow", job.id, "--ray-address", dashboard.url, env=environment)
    assert first_line(follower) == b"ready\n"
    follower.process.send_signal(signal.SIGINT)
    assert follower.wait().code == 130 and job.stops == 0
    refused(hvdray.run("follow", job.id, "--stop", env=environment), 2, "HVD-E0101", "hvdray stop ID")
    stopper = hvdray.start("stop", job.id, "--ray-address", dashboard.url, env=environment)
    wait_until(lambda: job.stops == 1)
    job.end(143, "STOPPED")
    assert stopper.wait().code == 0


def test_only_jobs_of_ours_are_followed(hvdray, environment, cluster):
    dashboard = cluster()
    refused(hvdray.run("follow", "nope", "--ray-address", dashboard.url, env=environment), 2,
            "HVD-E0101", "no job nope")
