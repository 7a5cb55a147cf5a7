# SPDX-License-Identifier: Apache-2.0
"""The main path of `hvdray run`: who is started where, with what, and what comes back."""

import json
import os
import re
import sys

import pytest

from conftest import ROOT, python_script

SHOW = python_script("""
import json, os, sys
names = sys.argv[1:]
print(json.dumps({n: os.environ.get(n) for n in names}), flush=True)
""")


def lines_by_rank(text):
    found = {}
    for line in text.splitlines():
        match = re.match(r"\[(\d+)\]<stdout>:(.*)", line)
        assert match, line
        found.setdefault(int(match[1]), []).append(match[2])
    return found


def environments(hvdray, script, names, *args, **kwargs):
    show = script("show", SHOW)
    result = hvdray.go(*args, "--", show, *names, **kwargs)
    assert result.code == 0, result.errors
    return {rank: json.loads(lines[0]) for rank, lines in lines_by_rank(result.text).items()}


def test_every_rank_runs_once_and_success_is_silent(hvdray):
    result = hvdray.go("-np", "4", "--", "sh", "-c", "echo hello")
    assert result.code == 0
    assert sorted(result.text.splitlines()) == [f"[{r}]<stdout>:hello" for r in range(4)]
    assert result.errors == ""


def test_workers_get_horovods_and_torchruns_variables(hvdray, script):
    names = ["HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
             "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME",
             "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", "HOROVOD_CONTROLLER",
             "HOROVOD_CPU_OPERATIONS", "HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
             "PYTHONUNBUFFERED", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
             "TORCHELASTIC_RESTART_COUNT", "HOROVOD_ELASTIC"]
    seen = environments(hvdray, script, names, "-np", "3")
    assert sorted(seen) == [0, 1, 2]
    ports = set()
    for rank, env in seen.items():
        assert env["HOROVOD_RANK"] == env["RANK"] == str(rank)
        assert env["HOROVOD_SIZE"] == env["WORLD_SIZE"] == "3"
        assert env["HOROVOD_LOCAL_RANK"] == env["LOCAL_RANK"] == str(rank)
        assert env["HOROVOD_LOCAL_SIZE"] == env["LOCAL_WORLD_SIZE"] == "3"
        assert (env["HOROVOD_CROSS_RANK"], env["HOROVOD_CROSS_SIZE"]) == ("0", "1")
        assert env["HOROVOD_HOSTNAME"] == "localhost"
        assert env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"
        assert env["HOROVOD_CONTROLLER"] == env["HOROVOD_CPU_OPERATIONS"] == "gloo"
        assert env["HOROVOD_GLOO_IFACE"] == env["NCCL_SOCKET_IFNAME"] == "lo"
        assert env["GLOO_SOCKET_IFNAME"] == "lo"
        assert env["MASTER_ADDR"] == "127.0.0.1"
        assert env["PYTHONUNBUFFERED"] == "1"
        assert env["TORCHELASTIC_RESTART_COUNT"] == "0"
        assert env["HOROVOD_ELASTIC"] is None
        ports.add(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    assert len(ports) == 3  # one listener per worker: the port names the speaker
    assert len({env["MASTER_PORT"] for env in seen.values()}) == 1


def test_slot_variables_beat_inherited_ones(hvdray, script):
    env = dict(os.environ, HOROVOD_RANK="7", RANK="9", HOROVOD_SIZE="99", KEPT="yes",
               HVDRAY_GRACE="3", CUDA_VISIBLE_DEVICES="1,0")
    names = ["HOROVOD_RANK", "RANK", "HOROVOD_SIZE", "KEPT", "HVDRAY_GRACE", "CUDA_VISIBLE_DEVICES"]
    seen = environments(hvdray, script, names, "-np", "2", env=env)
    assert seen[1] == {"HOROVOD_RANK": "1", "RANK": "1", "HOROVOD_SIZE": "2", "KEPT": "yes",
                       "HVDRAY_GRACE": None, "CUDA_VISIBLE_DEVICES": "1,0"}


def test_ranks_of_srun_and_mpirun_around_hvdray_reach_no_worker(hvdray, script):
    env = dict(os.environ, SLURM_PROCID="3", SLURM_LOCALID="3", OMPI_COMM_WORLD_RANK="3", PMIX_RANK="3", PMI_RANK="3",
               PET_NODE_RANK="3", SLURM_ARRAY_TASK_ID="5")
    names = ["SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PET_NODE_RANK"]
    for words in (("-np", "2"), ("-np", "2", "-H", "localhost:2", "--min-np", "2")):
        seen = environments(hvdray, script, [*names, "SLURM_ARRAY_TASK_ID"], *words, env=env)
        assert seen == {rank: {**dict.fromkeys(names), "SLURM_ARRAY_TASK_ID": "5"} for rank in range(2)}
        kept = environments(hvdray, script, names, *words, "--keep-rank-variables", env=env)
        assert kept == {rank: dict.fromkeys(names, "3") for rank in range(2)}


def test_x_of_an_interface_counts_and_of_a_slot_variable_is_refused(hvdray, script, tmp_path):
    names = ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "PYTHONUNBUFFERED"]
    chosen = ["-x", "NCCL_SOCKET_IFNAME=ib0", "-x", "GLOO_SOCKET_IFNAME=ib1", "-x", "PYTHONUNBUFFERED="]
    expected = {"NCCL_SOCKET_IFNAME": "ib0", "GLOO_SOCKET_IFNAME": "ib1", "HOROVOD_GLOO_IFACE": "lo", "PYTHONUNBUFFERED": ""}
    for words in (("-np", "2"), ("-np", "2", "-H", "localhost:2", "--min-np", "2")):
        seen = environments(hvdray, script, names, *words, *chosen)
        assert seen == {rank: expected for rank in range(2)}
    job = tmp_path / "job.yaml"
    job.write_text("env: {RANK: 3}\n")
    for words, variables in ((["-x", "HOROVOD_RANK=3"], {}), (["-x", "MASTER_PORT=1"], {}), (["-f", job], {}),
                             ([], {"HVDRAY_ENV": "LOCAL_RANK=3"})):
        result = hvdray.go("-np", "2", *words, "--", "true", env=dict(os.environ, **variables))
        assert result.code == 2 and "cannot be set" in result.errors, result.errors


def test_threads_are_a_share_of_the_affinity_mask_and_said_once(hvdray, script):
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    env = {name: value for name, value in os.environ.items() if name not in names}
    cpus = json.loads(hvdray.run("check", "--json").text)["hosts"][0]["cpus"]
    assert 1 <= cpus <= len(os.sched_getaffinity(0))
    show = script("show", SHOW)

    def run(*words, **more):
        result = hvdray.go(*words, "--", show, *names, env=dict(env, **more))
        assert result.code == 0, result.errors
        seen = {tuple(json.loads(lines[0]).values()) for lines in lines_by_rank(result.text).values()}
        assert len(seen) == 1
        return seen.pop(), result.errors

    for words in (("-np", "2"), ("-np", "2", "-H", "localhost:2", "--min-np", "2")):
        share = str(max(1, cpus // 2))
        seen, errors = run(*words)
        assert seen == (share,) * 3
        assert errors.count(f"OMP_NUM_THREADS={share}") == 1
        seen, errors = run("-q", *words)
        assert (seen, errors) == ((share,) * 3, "")
    seen, errors = run("-np", "1")
    assert (seen, errors) == ((str(cpus),) * 3, ""), "a worker alone has them all: nothing to say"
    assert run("-np", str(4 * cpus))[0] == ("1",) * 3
    assert run("-np", "2", OMP_NUM_THREADS="7") == (("7", None, None), "")
    assert run("-np", "2", "--omp-threads", "3", OMP_NUM_THREADS="7") == (("3",) * 3, "")
    assert run("-np", "2", "--omp-threads", "inherit") == ((None,) * 3, "")


def test_threads_are_a_share_of_what_a_cpu_quota_leaves(hvdray):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU is the least that any quota leaves")
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    groups = {name: path for _, names, path in lines for name in names.split(",")}
    name, text = ("cpu.cfs_quota_us", "50000") if "cpu" in groups else ("cpu.max", "50000 100000")
    root = "/sys/fs/cgroup/cpu" if "cpu" in groups else "/sys/fs/cgroup"
    group = f"{root}{groups.get('cpu', groups.get(''))}/hvdray-test-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError:
        pytest.skip("this user may create no cgroups here")
    try:
        try:
            with open(f"{group}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            pytest.skip("the CPU controller is off here")
        env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        enter = ("-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh")
        result = hvdray.run(*enter, hvdray.binary, "run", "-np", "1", "--", "printenv", "OMP_NUM_THREADS", binary="/bin/sh", env=env)
        assert (result.code, result.text) == (0, "[0]<stdout>:1\n"), result.errors
        env.update(PYTHONPATH=str(ROOT / "python"), HVDRAY_BINARY=str(hvdray.binary))
        counted = "from hvdray.tune._slots import cpus; print(cpus())"  # for trials beside each other
        assert hvdray.run(*enter, sys.executable, "-c", counted, binary="/bin/sh", env=env).text == "1\n"
    finally:
        os.rmdir(group)


def test_hosts_of_a_batch_system_are_named_and_are_not_horovodruns(hvdray, tmp_path):
    env = dict(os.environ, SLURM_JOB_ID="7", SLURM_JOB_NODELIST="127.0.0.1", SLURM_TASKS_PER_NODE="2")
    result = hvdray.go("--", "printenv", "HOROVOD_HOSTNAME", env=env)
    assert result.code == 0 and "SLURM_JOB_NODELIST: 127.0.0.1, 2 slots" in result.errors
    assert sorted(result.text.splitlines()) == [f"[{r}]<stdout>:127.0.0.1" for r in range(2)]
    assert hvdray.go("-q", "--", "true", env=env).errors == ""
    checked = hvdray.run("check", env=env)
    assert "SLURM_JOB_NODELIST: 127.0.0.1, 2 slots" in checked.errors
    horovodrun = tmp_path / "horovodrun"
    horovodrun.symlink_to(hvdray.binary)
    result = hvdray.run("-np", "2", "printenv", "HOROVOD_HOSTNAME", binary=horovodrun, env=env)
    assert sorted(result.text.splitlines()) == [f"[{r}]<stdout>:localhost" for r in range(2)]
    assert result.errors == ""


def test_srun_with_several_tasks_starts_no_job(hvdray):
    env = dict(os.environ, SLURM_JOB_ID="7", SLURM_JOB_NODELIST="127.0.0.1", SLURM_TASKS_PER_NODE="2", SLURM_STEP_ID="0",
               SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="1")
    result = hvdray.go("-np", "2", "--", "true", env=env)
    assert (result.code, result.text) == (2, "") and "srun" in result.errors


def test_mpirun_with_several_tasks_starts_no_job(hvdray, tmp_path):
    mpirun = tmp_path / "mpirun"  # as Open MPI's: it is above its tasks, and tells them their number
    mpirun.write_text('#!/bin/sh\nexport OMPI_COMM_WORLD_SIZE=2\n"$@"\nexit $?\n')
    mpirun.chmod(0o755)
    result = hvdray.run(hvdray.binary, "run", "-np", "1", "--", "true", binary=mpirun)
    assert (result.code, result.text) == (2, "") and "mpirun runs this command as 2 tasks" in result.errors


def test_clean_env_and_x(hvdray, script):
    env = dict(os.environ, SECRET="s", WANTED="w", NCCL_DEBUG="INFO", HOROVOD_LOG_LEVEL="debug")
    names = ["SECRET", "WANTED", "NEW", "NCCL_DEBUG", "HOROVOD_LOG_LEVEL", "HOME"]
    seen = environments(hvdray, script, names, "-np", "1", "--clean-env", "-x", "WANTED", "-x",
                        "NEW=a=b", env=env)
    assert seen[0] == {"SECRET": None, "WANTED": "w", "NEW": "a=b", "NCCL_DEBUG": "INFO",
                       "HOROVOD_LOG_LEVEL": "debug", "HOME": os.environ.get("HOME")}


def test_tunables_become_environment(hvdray, script):
    names = ["HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY"]
    seen = environments(hvdray, script, names, "-np", "1", "--fusion-threshold-mb", "10",
                        "--cycle-time-ms", "20", "--cache-capacity", "512")
    assert list(seen[0].values()) == ["10485760", "20.0", "512"]


def test_np_caps_the_slots_and_two_names_of_this_machine_are_two_hosts(hvdray, script):
    names = ["HOROVOD_HOSTNAME", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE",
             "GROUP_RANK"]
    seen = environments(hvdray, script, names, "-np", "3", "-H", "localhost:2,127.0.0.1:4")
    assert [list(seen[r].values()) for r in range(3)] == [
        ["localhost", "0", "0", "2", "0"], ["localhost", "1", "0", "1", "0"],
        ["127.0.0.1", "0", "1", "2", "1"]]


def test_an_ipv6_address_and_a_range_give_names_without_colons(hvdray, script):
    seen = environments(hvdray, script, ["HOROVOD_HOSTNAME", "HOROVOD_CROSS_RANK"],
                        "-H", "[0::1]:1,127.0.0.[1-2]:1")
    assert [list(seen[r].values()) for r in range(3)] == [
        ["0--1", "0"], ["127.0.0.1", "1"], ["127.0.0.2", "2"]]


def test_user_and_port_reach_ssh_and_not_the_workers(hvdray, script, tmp_path):
    words = tmp_path / "words"
    ssh = tmp_path / "ssh"  # stands in for the client; what it would run there runs here
    ssh.write_text(f'#!/bin/sh\necho "$@" >>{words}\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HVDRAY_FORCE_REMOTE": "1"}
    seen = environments(hvdray, script, ["HOROVOD_HOSTNAME"], "-p", "99",
                        "--ssh-transport", "openssh",
                        "--remote-dir", tmp_path / "cache", "-H",
                        "ssh://bob@localhost:2222:1,[::1]:1", env=env)
    assert [seen[r]["HOROVOD_HOSTNAME"] for r in range(2)] == ["localhost", "0--1"]
    calls = words.read_text()
    assert "-p 2222 -l bob -- localhost " in calls
    assert "-p 99 -- ::1 " in calls


@pytest.mark.parametrize("variables", [
    {"SLURM_JOB_NODELIST": "127.0.0.[1-2]", "SLURM_TASKS_PER_NODE": "2,1"},
    {"PBS_NODEFILE": "nodes"},
    {"LSB_HOSTS": "127.0.0.1 127.0.0.1 127.0.0.2"},
    {"LSB_MCPU_HOSTS": "127.0.0.1 2 127.0.0.2 1"},
])
def test_a_batch_job_brings_its_hosts_unless_others_are_named(hvdray, script, tmp_path, variables):
    (tmp_path / "nodes").write_text("127.0.0.1\n127.0.0.2\n127.0.0.1\n")
    env = {**os.environ, **variables}
    seen = environments(hvdray, script, ["HOROVOD_HOSTNAME"], env=env, cwd=tmp_path)
    assert [seen[r]["HOROVOD_HOSTNAME"] for r in range(3)] == ["127.0.0.1"] * 2 + ["127.0.0.2"]
    seen = environments(hvdray, script, ["HOROVOD_HOSTNAME"], "-H", "localhost:1", env=env,
                        cwd=tmp_path)
    assert [list(own.values()) for own in seen.values()] == [["localhost"]]


def test_cwd_and_separator(hvdray, tmp_path):
    result = hvdray.go("-np", "1", "--cwd", tmp_path, "--", "pwd", "-P")
    assert result.text == f"[0]<stdout>:{tmp_path}\n"


def test_called_as_horovodrun(hvdray, tmp_path):
    link = tmp_path / "horovodrun"
    link.symlink_to(hvdray.binary)
    result = hvdray.run("-np", "2", "sh", "-c", "echo $HOROVOD_RANK", binary=link)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:0", "[1]<stdout>:1"]


def test_job_file_and_flags_that_win(hvdray, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("np: 3\nenv: [A=1]\ncommand: 'echo $A $HOROVOD_SIZE'\n")
    result = hvdray.go("-f", job)
    assert sorted(lines_by_rank(result.text)) == [0, 1, 2], result.errors
    result = hvdray.go("-f", job, "-np", "1")
    assert result.text == "[0]<stdout>:1 1\n"


def test_stdin_goes_to_one_rank(hvdray):
    read, write = os.pipe()
    job = hvdray.job("-np", "2", "--stdin", "1", "--", "sh", "-c", "wc -c", stdin=read)
    os.close(read)
    data = os.urandom(1 << 20)
    with os.fdopen(write, "wb") as pipe:
        pipe.write(data)
    result = job.wait()
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:0", f"[1]<stdout>:{len(data)}"]


def test_a_restarted_rank_reads_an_empty_stdin(hvdray):
    read, write = os.pipe()
    job = hvdray.job("-np", "1", "--stdin", "0", "--max-restarts", "1", "--",
                     "sh", "-c", "head -c 3; echo; exit 3", stdin=read)
    os.close(read)
    os.write(write, b"abcdef")  # the stream is half read, and stays open
    result = job.wait()
    os.close(write)
    assert (result.code, result.text) == (3, "[0]<stdout>:abc\n[0]<stdout>:\n"), result.errors


@pytest.mark.parametrize("source", ["/dev/null", "/"])
def test_stdin_may_be_what_cannot_be_waited_for(hvdray, source):
    fd = os.open(source, os.O_RDONLY)  # a directory gives no bytes: the end, too
    try:
        result = hvdray.go("-np", "1", "--stdin", "0", "--", "wc", "-c", stdin=fd)
    finally:
        os.close(fd)
    assert result.code == 0 and result.text.split()[-1].endswith("0"), (result.text, result.errors)


def test_closed_standard_streams_do_no_harm(hvdray, tmp_path):
    out = tmp_path / "out"
    job = ["run", "-np", "2", "--stdin", "0", "--", "sh", "-c", f"cat; echo $HOROVOD_RANK >>{out}"]
    line = " ".join(f"'{word}'" for word in [hvdray.binary, *job])
    result = hvdray.run("-c", f"{line} <&- >&- 2>&-; echo ended with $?", binary="/bin/sh")
    assert "ended with 0" in result.text
    assert sorted(out.read_text().split()) == ["0", "1"]


def test_stdin_is_empty_by_default(hvdray, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(b"x" * 1000)
    with open(data, "rb") as f:
        result = hvdray.go("-np", "1", "--", "wc", "-c", stdin=f)
    assert result.text == "[0]<stdout>:0\n"


def test_stdin_from_a_file(hvdray, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(os.urandom(300_000))
    with open(data, "rb") as f:
        result = hvdray.go("-np", "1", "--stdin", "0", "--", "sha256sum", stdin=f)
    import hashlib
    assert hashlib.sha256(data.read_bytes()).hexdigest() in result.text


def test_plan_is_printed_without_running(hvdray, tmp_path):
    result = hvdray.go("-np", "3", "-H", "localhost:2,127.0.0.1:2", "--dry-run", "--print-plan=json",
                       "--", "touch", tmp_path / "ran")
    assert result.code == 0, result.errors
    plan = json.loads(result.text)
    assert not (tmp_path / "ran").exists()
    assert "127.0.0.1" in json.dumps(plan)
    text = hvdray.go("-np", "2", "--dry-run", "--print-plan", "--", "true").text
    assert "localhost" in text


def test_print_config_names_origins(hvdray, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("np: 2\ngrace: 1.5\n")
    env = dict(os.environ, HVDRAY_TIMEOUT="2m")
    # From its folder: long paths are cut in the table.
    result = hvdray.go("-f", "job.yaml", "--max-restarts", "1", "--print-config", "--", "true",
                       env=env, cwd=tmp_path)
    assert result.code == 0, result.errors
    for needle in ("flag --max-restarts", "env HVDRAY_TIMEOUT", "job.yaml:2:8", "default"):
        assert needle in result.text, (needle, result.text)


def test_nothing_of_the_job_is_in_any_command_line(hvdray):
    job = hvdray.job("-np", "2", "-x", "TOKEN=topsecret", "--", "sleep", "600")
    job.wait_for(lambda: len(job.find("sleep 600")) >= 3, what="workers")
    mine = [line for pid, line in job.processes().items() if pid != job.pid]
    assert not any("topsecret" in line or "HOROVOD" in line for line in mine), mine
    job.process.terminate()
    assert job.wait().code == 143


def test_files_of_a_run(hvdray, tmp_path):
    files = {k: tmp_path / k for k in ("report", "events", "junit", "trace")}
    flags = [x for k, path in files.items() for x in (f"--{k}", path)]
    result = hvdray.go("-np", "2", *flags, "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 0 ] || { echo broken >&2; exit 7; }; sleep 60")
    assert result.code == 7
    report = json.loads(files["report"].read_text())
    assert report["schema"] == "hvdray.report/1"
    assert report["exit"]["code"] == 7 and report["exit"]["origin"] == "worker"
    assert report["first_failure"]["rank"] == 1
    events = [json.loads(line) for line in files["events"].read_text().splitlines()]
    assert events and "hvdray.events/1" in json.dumps(events[0])
    trace = json.loads(files["trace"].read_text())
    assert trace
    import xml.etree.ElementTree as tree
    suite = tree.parse(files["junit"]).getroot()
    assert suite.find(".//failure") is not None


def test_max_restarts(hvdray, tmp_path):
    body = f'if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then echo fine; else exit 3; fi'
    result = hvdray.go("-np", "2", "--max-restarts", "2", "--", "sh", "-c", body)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:fine", "[1]<stdout>:fine"]
    result = hvdray.go("-np", "2", "--max-restarts", "1", "--", "sh", "-c", body)
    assert result.code == 3


def test_ports_are_fresh_after_a_restart(hvdray, tmp_path):
    body = f'echo $MASTER_PORT >> {tmp_path}/ports; [ $TORCHELASTIC_RESTART_COUNT = 1 ]'
    assert hvdray.go("-np", "1", "--max-restarts", "1", "--", "sh", "-c", body).code == 0
    assert len(set((tmp_path / "ports").read_text().split())) == 2


def test_help_and_version(hvdray):
    for args in (["--help"], ["run", "--help"], ["rendezvous", "--help"]):
        result = hvdray.run(*args)
        assert result.code == 0 and "hvdray" in result.text, args
    version = hvdray.go("-v").text
    assert re.match(r"hvdray \d+\.\d+\.\d+ \(\w+\)\nbuilt with cpp-httplib \d", version), version
    assert re.search(r", libssh2 \d.*, OpenSSL \d.*, zlib \d\S+\n(without NCCL|CUDA \d).*\n$", version), version
    assert "[X] Gloo" in hvdray.go("-cb").text


def test_help_of_a_command_by_its_name(hvdray):
    assert hvdray.run("help", "run").text == hvdray.go("--help").text
    for words in (["help"], ["help", "help"], ["help", "--help"]):
        result = hvdray.run(*words)
        assert result.code == 0 and "\nJobs:\n" in result.text, words
    assert hvdray.run("help", "rum").code == 2


def test_help_of_small_commands_shows_no_types(hvdray):
    for command in ("rendezvous", "follow", "status", "slots"):
        text = hvdray.run(command, "--help").text
        for word in ("FLOAT", "TEXT", "UINT", "INT in", "[UNIT]", "NUMBER"):
            assert word not in text, (command, text)


def test_explain_says_what_the_page_says(hvdray):
    page = (ROOT / "docs" / "errors.md").read_text()
    rows = [line.strip("|").replace("`", "").split("|") for line in page.splitlines()
            if line.startswith("| HVD-E")]
    assert len(hvdray.run("explain").text.splitlines()) == len(rows) > 40
    for number, name, _, _, meaning, advice in rows[::9]:
        text = hvdray.run("explain", number.strip()).text
        assert text.startswith(f"{number.strip()} {name.strip()}: {meaning.strip()}\n"), text
        assert advice.strip() in text, text
        assert hvdray.run("explain", name.strip()).text == text
        assert hvdray.run("explain", number.strip().removeprefix("HVD-E")).text == text
    result = hvdray.run("explain", "host_unreachabel")
    assert result.code == 2 and "did you mean host_unreachable?" in result.errors


@pytest.mark.parametrize("words, meant", [
    (["stat"], "status"), (["tun"], "tune"), (["st"], "stop or status"), (["exce"], "exec"), (["help", "repl"], "replay"),
    (["cluster", "conf", "file.yaml"], "config"), (["explain", "host_unr"], "host_unreachable")])
def test_a_beginning_of_a_name_is_known(hvdray, words, meant):
    result = hvdray.run(*words)
    assert result.code == 2 and f"did you mean {meant}?" in result.errors


@pytest.mark.parametrize("word", ["r", "banana", ""])
def test_what_many_names_begin_with_is_none_of_them(hvdray, word):
    result = hvdray.run(word)
    assert result.code == 2 and "did you mean" not in result.errors, result.errors


def test_the_plan_names_every_variable_that_workers_get(hvdray):
    own = {"PATH": os.environ["PATH"], "HOME": "/"}
    lines = hvdray.go("-np", "2", "--tag-output", "none", "--", "env", env=own).text.splitlines()
    got = {line.split("=", 1)[0] for line in lines} - set(own) - {"TEST_MARK", "PWD", "SHLVL", "_"}
    plan = json.loads(hvdray.go("-np", "2", "--print-plan=json", "env", env=own).text)
    told = set(plan["workers"][0]["environment"]) | set(plan["decided_at_start"])
    assert got == told


def test_check_build_tells_of_the_horovod_that_is_there(hvdray, horovod_python, tmp_path):
    path = f"{horovod_python.parent}:{os.environ['PATH']}"
    table = hvdray.go("--check-build", env=dict(os.environ, PATH=path)).text
    assert f"Horovod 0.28.1 in {horovod_python.parent}/python3 (" in table, table
    assert "[X] PyTorch" in table and "[X] Gloo" in table
    for name in ("TensorFlow", "MXNet", "NCCL", "MPI"):
        assert f"[ ] {name}" in table and f"[X] {name}" not in table, table
    table = hvdray.go("--check-build", env=dict(os.environ, PATH=str(tmp_path))).text
    assert "No python3 on PATH" in table and "[ ] PyTorch" in table, table


@pytest.fixture
def horovodrun(hvdray, tmp_path):
    link = tmp_path / "horovodrun"
    link.symlink_to(hvdray.binary)
    return lambda *words, **kwargs: hvdray.run(*words, binary=link, **kwargs)


def test_horovodrun_says_horovods_version_first(hvdray, horovodrun, horovod_python, tmp_path):
    ours = hvdray.go("--version").text
    env = dict(os.environ, PATH=f"{horovod_python.parent}:{os.environ['PATH']}")
    assert horovodrun("--version", env=env).text == "0.28.1\n" + ours
    assert horovodrun("-v", env=dict(os.environ, PATH=str(tmp_path))).text == ours


def test_variables_in_front_of_the_command_are_horovodruns(hvdray, horovodrun):
    words = ["-np", "1", "FOO=a b", "sh", "-c", "echo $FOO"]
    assert horovodrun("--gloo", *words).text == "[0]<stdout>:a b\n"
    result = hvdray.go(*words)
    assert result.code == 2 and "-x FOO=a b" in result.errors, result.errors
    assert horovodrun("-np", "1", "FOO=1").code == 2
    assert hvdray.run().code == 2


def test_a_host_of_a_thousand_interfaces_gets_its_job(hvdray):
    if os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("not root, and CI skips nothing")
        pytest.skip("only root can make interfaces")
    pairs = "".join(f"link add name left{n} type veth peer name right{n}\n"
                    f"link set left{n} up\nlink set right{n} up\n"
                    f"address add 10.{n // 250}.{n % 250}.1/32 dev left{n}\n" for n in range(500))
    job = hvdray.start("--net", "sh", "-c", 'ip link set lo up; printf "$0" | ip -batch -; exec "$@"', pairs,
                       hvdray.binary, "run", "-np", "1", "--", "true", binary="unshare")
    result = job.wait(240)
    assert result.code == 0, result.errors


def test_a_tilde_that_no_shell_has_seen_is_the_home_directory(hvdray, tmp_path):
    home = tmp_path / "home"
    (home / "there").mkdir(parents=True)
    env = {**os.environ, "HOME": str(home)}
    (home / "job.yaml").write_text("num_proc: 1\noutput_filename: ~/c\nreport: ~/c.json\ncwd: ~/there\ncommand: [pwd]\n")
    for words, more in ((["-np", "1", "--output-filename=~/a", "--report=~/a.json", "--cwd=~/there", "pwd"], {}),
                        (["-np", "1", "--cwd", "~/there", "pwd"], {"HVDRAY_OUTPUT_FILENAME": "~/b", "HVDRAY_REPORT": "~/b.json"}),
                        (["-f", "~/job.yaml"], {})):
        result = hvdray.go(*words, cwd=tmp_path, env={**env, **more})
        assert result.code == 0 and result.text.endswith(f"{home}/there\n"), (result.text, result.errors)
    for name in "abc":
        assert (home / name / "rank.0" / "stdout").read_text().endswith(f"{home}/there\n")
        assert (home / f"{name}.json").exists()
    result = hvdray.go("-np", "1", "--dry-run", "--print-config", "--report=~root/r.json", "true", cwd=tmp_path, env=env)
    assert "/root/r.json" in result.text, result.text
    assert not list(tmp_path.glob("~*")), "a directory named ~"
