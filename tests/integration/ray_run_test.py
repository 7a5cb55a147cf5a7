# SPDX-License-Identifier: Apache-2.0
"""`hvdray run --ray` on a real cluster, from a client without Ray: what a person gets, and that
nothing is left (the fixture looks for processes, jobs and groups after each test)."""

import hashlib
import json
import os
import pathlib
import signal
import zipfile

import pytest
from conftest import rest
from ray import HEAD

from hosts_processes import send, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLEEPER = ("/bin/bash", "-c", "echo up $HOROVOD_RANK; exec -a of-the-test sleep 600")


@pytest.fixture
def run(hvdray_at_ray, ray_cluster):
    def go(*words, timeout=240, **kwargs):
        return hvdray_at_ray.go("--ray-address", ray_cluster.url, *words, timeout=timeout, **kwargs)
    return go


@pytest.fixture
def start(hvdray_at_ray, ray_cluster):
    return lambda *words: hvdray_at_ray.job("--ray-address", ray_cluster.url, *words)


def named(ray, beginning):
    """[(host, pid)] of what runs on the nodes beside Ray and is called so."""
    return [(name, pid) for name, alive in ray.foreign_processes(*ray.nodes).items()
            for pid, line in alive.items() if line.startswith(beginning)]


def sleepers(ray):
    return named(ray, "of-the-test")


def four_sleep(start, ray):
    job = start("--num-hosts", 2, "--num-slots", 2, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray)) == 4, "four workers", 120)
    return job


def test_any_bytes_and_long_lines_arrive_whole_with_the_exit_code(run, tmp_path):
    text = "head -c 5000000 /dev/zero | tr '\\0' x; echo; printf '\\377\\376 bad\\n'; exit 3"
    result = run("-np", 1, "--tag-output", "none", "--output-filename", tmp_path / "out", "--",
                 "sh", "-c", text)
    assert result.code == 3, result.errors
    wanted = b"x" * 5_000_000 + b"\n\xff\xfe bad\n"
    assert hashlib.sha256(result.out).digest() == hashlib.sha256(wanted).digest(), len(result.out)
    assert (tmp_path / "out/rank.0/stdout").read_bytes() == wanted
    assert (tmp_path / "out/rank.0/stderr").read_bytes() == b""


@pytest.mark.rest
def test_python_is_rays_own_where_the_path_of_the_nodes_has_none(run, ray_cluster):
    result = run("-np", 2, "--", "python", "-c", "import ray; print(ray.__file__)")
    assert result.code == 0, result.errors
    assert result.text.count(f":{ray_cluster.venv}/lib/") == 2, result.text


def test_a_runtime_environment_is_installed_and_its_python_is_the_workers(run, tmp_path):
    wheel = tmp_path / "of_the_test-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("of_the_test.py", "x = 'from the wheel'\n")
        about = "of_the_test-1.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: of-the-test\nVersion: 1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("y = 'from a module'\n")
    env = {"pip": [str(wheel)], "py_modules": [str(tmp_path / "mine")],
           "env_vars": {"OMP_NUM_THREADS": "3"}}
    result = run("-np", 2, "--runtime-env", json.dumps(env), "--", "python", "-c",
                 "import os, mine, of_the_test; "
                 "print(of_the_test.x, mine.y, os.environ['OMP_NUM_THREADS'])", timeout=240)
    assert result.code == 0, result.errors
    assert result.text.count(":from the wheel from a module 3\n") == 2, result.text


@pytest.mark.rest
def test_workers_have_nothing_of_ray_but_its_slots(run, ray_cluster):
    text = ("echo nice $(nice) omp ${OMP_NUM_THREADS-none} $(env | grep -c ^RAY_) "
            "int $(sed -n 's/^SigBlk:.*\\(.\\)$/\\1/p' /proc/self/status) x=$X; env")
    result = run("-np", 2, "-x", "X=1", "--", "sh", "-c", text)
    assert result.code == 0, result.errors
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    for rank in range(2):
        wanted = f"[{rank}]<stdout>:nice {os.nice(0)} omp {share} 0 int 0 x=1"
        assert wanted in result.text, result.text
    assert "OLDPWD=" not in result.text and "hvdray_job_" not in result.text
    assert ray_cluster.token not in result.text + result.errors
    result = run("-np", 1, "-x", "OMP_NUM_THREADS=3", "--", "sh", "-c", "echo $OMP_NUM_THREADS")
    assert "<stdout>:3" in result.text


@pytest.mark.rest
def test_modules_of_the_users_are_nobody_elses(run, tmp_path):
    """Ray's own processes and ray_driver.py have these names of the library's; only workers see them."""
    for name in ("json", "queue", "ray", "subprocess", "threading", "platform", "signal", "os"):
        (tmp_path / f"{name}.py").write_text(f"print('the users {name}', flush=True)\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train.py").write_text("import queue\n")
    result = run("--num-hosts", 2, "--working-dir", tmp_path, "--", "sh", "-c",
                 "exec /usr/bin/python3 -S sub/train.py")
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == [f"[{n}]<stdout>:the users queue" for n in range(2)]


@pytest.mark.rest
def test_a_package_that_one_node_lacks_names_the_node(run, ray_cluster):
    lacking = ray_cluster.address("h3")
    result = run("-H", f"{ray_cluster.address('h2')}:1,{lacking}:1", "--", "/bin/sh", "-c",
                 "[ $(hostname) = h3 ] && exec /usr/bin/python3 -c 'import of_nobody'; sleep 600")
    assert result.code == 1, result.errors
    (line,) = [line for line in result.errors.splitlines() if "[HVD-E0303]" in line]
    assert f"rank 1 on host {lacking} exited with code 1" in line, result.errors
    assert "  | ModuleNotFoundError: No module named 'of_nobody'" in result.errors


@pytest.mark.rest
def test_a_mode_that_changes_between_two_runs_counts(run, tmp_path):
    script = tmp_path / "train"
    script.write_text("#!/bin/sh\necho ran in $(basename $PWD)\n")
    script.chmod(0o644)
    words = ("-np", 1, "--working-dir", tmp_path, "--", "./train")
    assert run(*words).code == 126
    script.chmod(0o755)
    result = run(*words)
    assert result.code == 0 and "ran in" in result.text, result.errors


@pytest.mark.rest
def test_each_rank_may_see_its_own_gpu_alone(run):
    text = "echo gpus $CUDA_VISIBLE_DEVICES"
    words = ("-np", 2, "--use-gpu", "--strategy", "STRICT_PACK")
    all_of_them = run(*words, "--", "sh", "-c", text)
    assert all_of_them.code == 0, all_of_them.errors
    lists = {line.split()[-1] for line in all_of_them.text.splitlines()}
    assert len(lists) == 1 and len(lists.pop().split(",")) == 2
    own = run(*words, "--gpu-visibility", "rank", "--", "sh", "-c", text)
    assert len({line.split()[-1] for line in own.text.splitlines()}) == 2
    assert "," not in own.text


@pytest.mark.parametrize("fault", ["actor", *rest("raylet_term", "stop")])
def test_whoever_is_ended_nobody_is_left(start, ray_cluster, fault):
    job = four_sleep(start, ray_cluster)
    node = next(name for name, _ in sleepers(ray_cluster) if name != HEAD)
    if fault == "actor":
        actors = [pid for pid, line in ray_cluster.foreign_processes(node)[node].items()
                  if line.startswith("ray::")]
        assert actors
        send(actors, signal.SIGKILL)
    elif fault == "raylet_term":
        ray_cluster.kill_raylet(node, signal.SIGTERM)
    else:
        (entry,) = ray_cluster.jobs()
        ray_cluster.call("POST", f"/api/jobs/{entry['submission_id']}/stop")
    result = job.wait(120)
    assert result.code in (125, 143), (result.code, result.errors)
    wait_until(lambda: not sleepers(ray_cluster), "nobody is left")


@pytest.mark.rest
def test_a_client_that_is_killed_can_be_followed_up(start, hvdray_at_ray, ray_cluster, tmp_path):
    job = start("-np", 1, "--", "sh", "-c", "echo up; sleep 12; exit 5")
    wait_until(lambda: [entry for entry in ray_cluster.jobs("RUNNING")], "the job", 120)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    (entry,) = ray_cluster.jobs()
    result = hvdray_at_ray.run("follow", entry["submission_id"], "--ray-address", ray_cluster.url,
                               "--output-filename", tmp_path / "out")
    assert result.code == 5, result.errors
    assert "[0]<stdout>:up" in result.text
    assert (tmp_path / "out/rank.0/stdout").read_text() == "[0]<stdout>:up\n"


def test_ctrl_c_ends_the_workers_in_good_order(start, ray_cluster):
    job = start("-np", 2, "--grace", 30, "--", "bash", "-c",
                "trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    assert [job.process.stdout.readline().endswith(b":up\n") for _ in range(2)] == [True, True]
    os.kill(job.pid, signal.SIGINT)
    result = job.wait(120)
    assert result.code == 130, result.errors
    assert result.text.count("told") == 2, result.text


@pytest.mark.rest
def test_what_does_not_fit_is_refused_or_waited_for_and_leaves_no_group(run, start, ray_cluster):
    result = run("--num-hosts", 40, "--", "true")
    assert result.code == 2 and "[HVD-E0219]" in result.errors, result.errors
    job = four_sleep(start, ray_cluster)
    waiting = run("-np", 7, "--placement-group-timeout", 4, "--", "true")
    assert waiting.code == 125 and "[HVD-E0208]" in waiting.errors, waiting.errors
    assert len(ray_cluster.groups()) == 1, "the other job's"
    os.kill(job.pid, signal.SIGTERM)
    job.wait()


@pytest.mark.rest
def test_a_stop_before_the_driver_has_joined_ray(start, ray_cluster):
    """ray.init() takes a second; nothing hears of the signal but Python then."""
    for is_own in (True, False):
        job = start("-np", 1, "--", "sh", "-c", "echo too late")
        wait_until(lambda: ray_cluster.jobs("RUNNING"), "the job", 120)
        (entry,) = ray_cluster.jobs("RUNNING")
        if is_own:
            os.kill(job.pid, signal.SIGINT)
        else:
            ray_cluster.call("POST", f"/api/jobs/{entry['submission_id']}/stop")
        result = job.wait(120)
        assert result.code == (130 if is_own else 143), result.errors
        said = "was stopped before it started" if is_own else "someone else stopped job"
        assert "too late" not in result.text and said in result.errors, result.errors


def test_two_jobs_at_once_do_not_meet(start):
    jobs = [start("-np", 3, "--", "sh", "-c", f"sleep 1; echo job {number} of $HOROVOD_SIZE")
            for number in range(2)]
    for number, job in enumerate(jobs):
        result = job.wait(240)
        assert result.code == 0, result.errors
        assert result.text.count(f"job {number} of 3") == 3


def test_a_command_that_is_not_there(run):
    result = run("-np", 2, "--", "no-such-program")
    assert result.code == 127 and "no-such-program" in result.errors


def test_the_report_and_the_events_come_here(run, tmp_path):
    report = tmp_path / "report.json"
    result = run("--num-hosts", 2, "--report", report, "--events", tmp_path / "e", "--", "true")
    assert result.code == 0, result.errors
    events = [json.loads(line) for line in (tmp_path / "e").read_text().splitlines()]
    assert len(events) > 4 and len({str(event) for event in events}) == len(events), events
    assert '"exit_code": 0' in report.read_text() or '"code": 0' in report.read_text()


@pytest.mark.parametrize("name, options", [("static", ()), *rest(("elastic", ("--timeout", "300")))])
def test_the_examples_run_as_their_page_says(hvdray_at_ray, ray_cluster, horovod_python, name, options):
    """From a machine without Ray; the unmodified scripts come with the package."""
    environment = ray_cluster.client_environment()
    environment.update(RAY=ray_cluster.url, HVDRAY=str(hvdray_at_ray.binary), PYTHON=str(horovod_python))
    result = hvdray_at_ray.run(*options, binary=ROOT / f"examples/ray/{name}.sh", env=environment,
                               timeout=360)
    assert result.code == 0, result.errors
    assert "accuracy" in result.text, result.text[-2000:]


@pytest.mark.rest
def test_the_older_ray_runs_jobs_too(request, old_ray_cluster):
    from conftest import Hvdray, checked  # pylint: disable=import-outside-toplevel
    guard = checked(Hvdray(request.config.getoption("--bin-dir"), old_ray_cluster.hosts))
    tool = next(guard)
    result = tool.go("--ray-address", old_ray_cluster.url, "--num-hosts", 2, "--", "sh", "-c",
                     "echo rank $HOROVOD_RANK of $HOROVOD_SIZE",
                     env=old_ray_cluster.client_environment(), timeout=240)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == [f"[{n}]<stdout>:rank {n} of 2" for n in range(2)]
    assert next(guard, None) is None
