# SPDX-License-Identifier: Apache-2.0
"""Each of these gets one line that names the place, the documented exit code, and leaves nothing."""

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess

import pytest


def refused(result, code, *needles):
    assert result.code == code, (result.code, result.errors)
    assert result.text == ""
    for needle in needles:
        assert needle in result.errors, (needle, result.errors)
    assert "terminate called" not in result.errors and "Traceback" not in result.errors
    assert len(result.errors.splitlines()) <= 3, result.errors


@pytest.mark.parametrize("args,needles", [
    (["-np", "2", "--outputfilename", "x", "true"], ["--output-filename"]),
    (["-np", "0", "true"], ["-np"]),
    (["-np", "-1", "true"], ["-np"]),
    (["-np", "many", "true"], ["-np", "many"]),
    (["-np", "5", "-H", "localhost:4", "true"], ["(5)", "(4)"]),
    (["-np", "2", "-H", "localhost:1,localhost:1", "true"], ["localhost"]),
    (["-np", "2", "-H", "localhost", "true"], ["Invalid host input"]),
    (["-np", "2", "-H", "", "true"], ["flag -H must not be empty"]),
    (["--nproc_per_node", "2", "true"], ["-H localhost:N"]),
    (["-np", "2", "-H", "a:1", "--hostfile", "x", "true"], ["hostfile"]),
    (["-np", "2"], ["command"]),
    (["true"], ["-np"]),
    (["-np", "1", "--mpi", "true"], ["not supported", "--mpi"]),
    (["-np", "1", "--jsrun", "true"], ["not supported"]),
    (["-np", "1", "-x", "SURELY_NOT_SET_ANYWHERE", "true"], ["SURELY_NOT_SET_ANYWHERE"]),
    (["-np", "1", "--stdin", "1", "true"], ["--stdin"]),
    (["-np", "1", "--color", "purple", "true"], ["--color", "purple"]),
    (["-np", "1", "--grace", "soon", "true"], ["--grace", "soon"]),
    (["-np", "1", "--hostfile", "/nowhere/hosts", "true"], ["/nowhere/hosts"]),
    (["-np", "1", "-f", "/nowhere/job.yaml"], ["/nowhere/job.yaml"]),
    (["-np", "1", "--report", "/nowhere/report", "true"], ["--report", "/nowhere/"]),
    (["-np", "2", "-H", "a:1,n[3-1]:1", "true"], ["item 2", "reversed"]),
    (["-np", "2", "-H", "n[1-100001]:1", "true"], ["item 1", "100000"]),
    (["-np", "2", "-H", "n[1-3]:1,n[3-4]:1", "true"], ["n3", "items 1 and 2"]),
    (["-np", "2", "-H", "ssh://a:65536:2", "true"], ["item 1", "65536"]),
    (["-np", "2", "-H=-u@a:2", "true"], ["item 1", "-u"]),
    (["-H", "u@a:2", "--launch-agent", "rsh {host}", "true"], ["--launch-agent", "u@a:2"]),
])
def test_wrong_words(hvdray, args, needles):
    refused(hvdray.go(*args), 2, *needles)


def test_unknown_command(hvdray):
    refused(hvdray.run("rum", "-np", "1"), 2, "rum", "run")
    refused(hvdray.run("--verison"), 2, "did you mean --version?", "hvdray --help")
    for words, hint in (["train.py"], "hvdray run -np 4 -- python3 train.py"), (["python3", "train.py"], "hvdray run -np 4"), (
            ["-np", "2", "true"], "hvdray run -np"), (["job.yaml"], "hvdray run -f job.yaml"):
        refused(hvdray.run(*words), 2, hint)


def test_command_not_found(hvdray):
    result = hvdray.go("-np", "3", "--", "surely-no-such-command")
    assert result.code == 127
    assert "surely-no-such-command" in result.errors
    assert "HVD-E0301" in result.errors


@pytest.mark.parametrize("make,why", [
    (lambda p: (p / "x").write_text("#!/bin/sh\n"), "Permission denied"),
    (lambda p: (p / "x").mkdir(), "ermission denied"),
    (lambda p: ((p / "x").write_text("#!/no/such/interpreter\n"), (p / "x").chmod(0o755)),
     "interpreter"),
])
def test_command_that_cannot_be_executed(hvdray, tmp_path, make, why):
    make(tmp_path)
    result = hvdray.go("-np", "2", "--", tmp_path / "x")
    assert result.code == 126, result.errors
    assert str(tmp_path / "x") in result.errors and why in result.errors


def test_a_program_for_another_loader(hvdray, tmp_path):
    program = pathlib.Path("/bin/true").read_bytes()
    (tmp_path / "x").write_bytes(program.replace(b"/lib", b"/bil", 1))
    (tmp_path / "x").chmod(0o755)
    result = hvdray.go("-np", "1", "./x", cwd=tmp_path)
    assert result.code == 126 and "built for a system with /bil" in result.errors, result.errors
    check = hvdray.run("check", "-np", "1", "./x", cwd=tmp_path)
    assert check.code != 0 and "a job would not start" in check.text, check.text


def test_a_worker_that_ends_its_agent_by_a_signal(hvdray):
    result = hvdray.go("-np", "1", "sh", "-c", "kill -TERM $PPID; sleep 60")
    assert result.code == 125 and "the agent received SIGTERM" in result.errors, result.errors
    assert "a worker, a user or" in result.errors and "--heartbeat-timeout" not in result.errors, result.errors


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_working_folder_that_is_not_here(hvdray, tmp_path, more):
    (tmp_path / "file").write_text("")
    for name, why in (("nothing", "No such file"), ("file", "Not a directory")):
        result = hvdray.go("-np", "1", *more, "--cwd", tmp_path / name, "true")
        refused(result, 2, "flag --cwd", str(tmp_path / name), why, "hint: ")


@pytest.mark.parametrize("key", ["report", "junit", "trace", "events"])
def test_a_path_of_a_job_file_is_blamed_on_its_line(hvdray, tmp_path, key):
    job = tmp_path / "job.yaml"
    job.write_text(f"np: 1\ncommand: [\"true\"]\n{key}: /nowhere/at/all\n")
    result = hvdray.go("-f", job)
    refused(result, 2, f"job.yaml:3:{len(key) + 3}: {key}: /nowhere/at")
    assert f"--{key}" not in result.errors


def test_a_bare_script_and_dos_line_ends_have_a_hint(hvdray, script, tmp_path):
    (tmp_path / "ddp.py").write_text("print(1)\n")
    for word in ("ddp.py", "./ddp.py"):
        result = hvdray.go("-np", "1", word, cwd=tmp_path)
        assert result.code in (126, 127), result.errors
        assert f"python3 {word}" in result.errors, result.errors
    script("dos.py", "#!/usr/bin/python3\r\nprint(1)\r\n")
    result = hvdray.go("-np", "1", "./dos.py", cwd=tmp_path)
    assert result.code == 126
    assert "names /usr/bin/python3 and a carriage return" in result.errors, result.errors


@pytest.mark.parametrize("line, meant", [("localhost slot=4", "slots"),
                                         ("localhost slots=1 prot=22", "port")])
def test_a_slip_in_a_host_file_has_a_hint(hvdray, tmp_path, line, meant):
    (tmp_path / "hosts").write_text(line + "\n")
    result = hvdray.go("-np", "1", "--hostfile", tmp_path / "hosts", "true")
    refused(result, 2, "hosts:1:", "unknown key", f"did you mean {meant}=?")


def test_two_reports_in_one_file(hvdray, tmp_path):
    result = hvdray.go("-np", "1", "--report", tmp_path / "x", "--trace", tmp_path / "y",
                       "--junit", f"{tmp_path}/./x", "true")
    refused(result, 2, "flag --report and flag --junit name the same file")
    assert not (tmp_path / "x").exists()
    (tmp_path / "x").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    result = hvdray.go("-np", "1", "--events", tmp_path / "x", "--trace", tmp_path / "link",
                       "--dry-run", "true")
    refused(result, 2, "flag --events and flag --trace name the same file")
    assert (tmp_path / "x").read_text() == "before"
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost:1\n")
    for report in ("--report", "--events", "--record"):
        result = hvdray.go("-np", "1", "--min-np", "1", "--hostfile", hosts, report, hosts, "true")
        refused(result, 2, f"flag --hostfile and flag {report} name the same file")
    assert hosts.read_text() == "localhost:1\n"
    assert hvdray.go("-np", "1", "--report", "/dev/null", "--junit", "/dev/null", "true").code == 0


# Each writes a file.
OUTPUTS = ("--report", "--events", "--junit", "--trace", "--record", "--timeline-filename", "--autotune-log-file")
# Each reads, runs or copies FILE.
INPUTS = {
    "job file": ["-f", "FILE"],
    "hostfile": ["--hostfile", "FILE", "true"],
    "config file": ["--config-file", "FILE", "true"],
    "cluster file": ["--cluster", "FILE", "true"],
    "ssh config": ["--ssh-config", "FILE", "true"],
    "identity": ["--ssh-identity-file", "FILE", "true"],
    "discovery script": ["--min-np", "1", "--host-discovery-script", "./FILE", "true"],
    "discovery script's argument": ["--min-np", "1", "--host-discovery-script", "sh 'FILE' x", "true"],
    "program": ["./FILE"],
    "program in PATH": ["FILE"],
    "script": ["python3", "-u", "FILE"],
    "module": ["python3", "-m", "FILE"],
    "package": ["python3", "-m", "pack.age.mod"],
    "argument": ["true", "--data", "FILE"],
    "value": ["true", "--data=FILE"],
    "known hosts": ["true"],
    "known hosts elsewhere": ["--ssh-config", "config", "true"],
    "requirements": ["--ray", "--runtime-env", "env.yaml", "true"],
    "directory": ["--sync", ".", "true"],
    "word of a shell": ["sh", "-c", "cat mine"],
    "one of several": ["true", "--data=a,FILE", "b:FILE"],
    "variable": ["-x", "DATA=FILE", "true"],
}
CONTENT = {
    "package": "",
    "job file": "num_proc: 1\ncommand: [true]\n",
    "hostfile": "localhost slots=1\n",
    "config file": "verbose: false\n",
    "cluster file": "cluster_name: c\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\nauth: {ssh_user: u}\n",
}


def snapshot(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("read", INPUTS)
def test_no_output_is_what_the_command_reads_runs_or_copies(hvdray, tmp_path, read):
    name = {"module": "mine.py", "known hosts": ".ssh/known_hosts", "package": "pack/__init__.py"}.get(read, "mine")
    file = tmp_path / name
    for folder in (".ssh", "pack"):
        (tmp_path / folder).mkdir()
    file.write_text(CONTENT.get(read, "#!/bin/sh\necho localhost:1\n"))
    file.chmod(0o700)
    (tmp_path / "config").write_text(f"Host x\n  UserKnownHostsFile={file}\n")
    (tmp_path / "env.yaml").write_text("pip: mine\n")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "hard").hardlink_to(file)
    before = snapshot(tmp_path)
    words = [word.replace("FILE", "mine") for word in INPUTS[read]]
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for option in OUTPUTS:
        for path in (name, f"./{name}", str(file), "link", "hard"):
            count = [] if "--hostfile" in words or "-f" in words or "--cluster" in words else ["-np", "1"]
            if read in ("directory", "word of a shell", "one of several", "variable") and option in OUTPUTS[-2:]:
                continue  # a worker's file, which is its own affair
            more = ["--autotune"] if option == "--autotune-log-file" else []
            result = hvdray.go(*count, *more, option, path, *words, cwd=tmp_path, env=env)
            assert result.code == 2 and result.text == "", (option, path, result.errors)
            line = result.errors.splitlines()[-2]
            assert option in line and f"{os.path.basename(path)}'" in line, result.errors
            assert "name the same file" in line or "would overwrite" in line, result.errors
    assert {**snapshot(tmp_path), **before} == before, "something was written"


def test_no_output_is_a_standard_stream_too(hvdray, tmp_path):
    stream = tmp_path / "stream"
    for option in ("--report", "--events"):
        for number, mode in (("stdin", "r"), ("stdout", "a"), ("stderr", "a")):
            stream.write_text('{"schema": "hvdray.report/1"}\n')
            before = stream.read_bytes()
            with stream.open(mode) as file:
                streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, number: file}
                result = subprocess.run([hvdray.binary, "run", "-np", "1", option, stream, "true"], check=False, **streams)
            assert result.returncode == 2, option
            assert number == "stderr" or b"name the same file" in result.stderr, result.stderr
            assert stream.read_bytes().startswith(before)
    with stream.open("w") as file:
        words = [hvdray.binary, "run", "-np", "1", "--report", "/dev/stdout", "true"]
        assert subprocess.run(words, check=False, stdout=file).returncode == 0
    assert json.loads(stream.read_text())["schema"] == "hvdray.report/1"


def test_a_dash_is_no_file(hvdray, tmp_path):
    for option in ("--report", "--events", "--junit", "--trace", "--record"):
        refused(hvdray.go("-np", "1", option, "-", "true", cwd=tmp_path), 2, option, "/dev/stdout")
    assert not snapshot(tmp_path)


def test_outputs_of_an_earlier_job_are_replaced(hvdray, tmp_path):
    """Also those in a directory that is copied, and none that a word of the command names."""
    files = {"--report": "r.json", "--events": "e.jsonl", "--junit": "j.xml", "--trace": "t.json"}
    words = [word for pair in files.items() for word in pair]
    for _ in range(2):
        result = hvdray.go("-np", "1", "--sync", ".", *words, "--output-filename", "out", "true", cwd=tmp_path)
        assert result.code == 0, result.errors
    before = snapshot(tmp_path)
    for file in ("r.json", "out/rank.0/stdout"):
        result = hvdray.go("-np", "1", *words, "--output-filename", "out", "grep", "x", file, cwd=tmp_path)
        refused(result, 2, file, "name the same file")
    assert snapshot(tmp_path) == before


def test_a_cluster_file_is_not_written_by_what_reads_it(hvdray, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(CONTENT["cluster file"] + "file_mounts: {/tmp/there: mounted, /tmp/too: folder}\n")
    (tmp_path / "mounted").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data").write_text("y")
    before = snapshot(tmp_path)
    for command in (["up", "--yes"], ["down", "--yes"]):
        for option in ("--report", "--events"):
            for path in ("c.yaml", "mounted", "folder/data"):
                result = hvdray.run(*command, "c.yaml", option, path, cwd=tmp_path)
                refused(result, 2, option, path)
    for words in (["c.yaml", "c.yaml"], ["elsewhere/c.yaml", "."]):
        result = hvdray.run("rsync-down", "c.yaml", *words, cwd=tmp_path)
        refused(result, 2, "the cluster file and TARGET name the same file")
    for action in ("config", "migrate"):
        with file.open("a") as stdout:
            result = subprocess.run([hvdray.binary, "cluster", action, "c.yaml"], cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE)
        assert result.returncode == 2 and b"name the same file" in result.stderr, result.stderr
    assert snapshot(tmp_path) == before


def bind_apart(unbound, address):
    """To a port that nobody gets who asks for any, so that it stays free once it is given back."""
    for port in range(10000 + os.getpid() % 10000, 32768):
        with contextlib.suppress(OSError):
            return unbound.bind((address, port))
    raise AssertionError("no free port")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_master_port_that_is_taken(hvdray, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as taken:
        bind_apart(taken, address)
        taken.listen()
        port = str(taken.getsockname()[1])
        result = hvdray.go("-np", "1", "--master-port", port, "true")
        refused(result, 125, "flag --master-port", port, "in use", "hint: ")
        assert hvdray.go("-np", "1", "--master-port", port, "--dry-run", "true").code == 0
    assert hvdray.go("-np", "1", "--master-port", port, "true").code == 0


def test_yaml_where_the_command_belongs(hvdray, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("np: 1\n")
    refused(hvdray.go("-np", "1", job), 2, "-f")


def test_hostfile(hvdray, tmp_path):
    good = tmp_path / "good"
    good.write_text("# all of it\n\nlocalhost slots=2   # mine\n")
    assert hvdray.go("-np", "2", "--hostfile", good, "true").code == 0
    bad = tmp_path / "bad"
    bad.write_text("localhost slots=2\nnode1 slots=many\n")
    refused(hvdray.go("-np", "2", "--hostfile", bad, "true"), 2, "bad:2")
    bad.write_text("localhost slots=2\n\n  n[3-1] slots=1\n")
    refused(hvdray.go("-np", "2", "--hostfile", bad, "true"), 2, "bad:3:5", "reversed")


@pytest.mark.parametrize("variables,needle", [
    ({"SLURM_JOB_NODELIST": "a,n[1"}, "env SLURM_JOB_NODELIST:4: "),
    ({"SLURM_JOB_NODELIST": "a,b", "SLURM_TASKS_PER_NODE": "1,x"}, "env SLURM_TASKS_PER_NODE:3: "),
    ({"PBS_NODEFILE": "/nowhere/nodes"}, "/nowhere/nodes"),
    ({"LSB_HOSTS": "a /"}, "env LSB_HOSTS:3: "),
    ({"LSB_MCPU_HOSTS": "a 1 b"}, "env LSB_MCPU_HOSTS:6: "),
])
def test_allocation_that_does_not_parse(hvdray, variables, needle):
    refused(hvdray.go("-np", "1", "true", env={**os.environ, **variables}), 2, needle)


@pytest.mark.parametrize("text,needles", [
    ("np: [1\n", ["job.yaml:"]),
    ("np: two\n", ["job.yaml:1:5", "np"]),
    ("np: 1\nnp: 2\n", ["job.yaml:2:1", "np"]),
    ("np: 1\ngrase: 2\n", ["job.yaml:2:1", "grace"]),
    ("np: 1\ncommand: {a: b}\n", ["job.yaml:2:"]),
])
def test_job_file(hvdray, tmp_path, text, needles):
    job = tmp_path / "job.yaml"
    job.write_text(text)
    refused(hvdray.go("-f", job, "true"), 2, *needles)


@pytest.mark.parametrize("text,needles", [
    ("cluster_name: a\nprovidr: {type: local}\n", ["cluster.yaml:2:1", "provider"]),
    ("cluster_name: a\nprovider: {type: aws, region: us-west-2}\n", ["aws"]),
])
def test_cluster_file(hvdray, tmp_path, text, needles):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(text)
    refused(hvdray.go("--cluster", cluster, "-np", "1", "true"), 2, *needles)


def test_a_large_environment_works_and_a_huge_variable_is_named(hvdray):
    env = dict(os.environ, **{f"BIG_{i}": "v" * 20_000 for i in range(20)})
    result = hvdray.go("-np", "1", "--", "sh", "-c", "echo ${#BIG_19}", env=env)
    assert result.text == "[0]<stdout>:20000\n", result.errors
    job_env = dict(os.environ)
    flag = "HUGE=" + "v" * 131_000
    # The kernel refuses longer strings on our own command line too, so the file is the way in.
    import tempfile
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(f"np: 1\nenv: ['HUGE={'v' * 140_000}']\ncommand: 'true'\n")
        f.flush()
        refused(hvdray.go("-f", f.name, env=job_env), 2, "HUGE", "HVD-E0107")


def test_open_file_limit_is_raised(hvdray):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    result = hvdray.go("-np", "60", "--", "true",
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)))
    assert result.code == 0, result.errors


def test_taken_port(hvdray):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = hvdray.run("rendezvous", "--port", str(port))
    assert result.code == 125 and str(port) in result.errors


def test_a_quiet_rendezvous_ends_with_the_process_that_started_it(hvdray, tmp_path):
    """No shell's pipe, file or group tells it: its parent is killed, and a third process holds what it writes to."""
    out = tmp_path / "out"
    job = hvdray.start("-c", f'"{hvdray.binary}" rendezvous --quiet >"{out}" & wait', binary="/bin/sh")
    job.wait_for(lambda: out.exists() and out.read_text().count("\n") == 5, what="its address")
    os.kill(job.pid, signal.SIGKILL)
    result = job.wait()
    assert not job.survivors()
    assert result.err == b"" and out.read_text().startswith("127.0.0.1 "), result.errors


def test_rendezvous_on_the_network_needs_allow(hvdray):
    refused(hvdray.run("rendezvous", "--host", "0.0.0.0"), 2, "--allow")

def test_hosts_without_ipv4_are_told_of_alike_by_check_and_run(hvdray, tmp_path):
    """Two network namespaces with one link between them, which has IPv6 addresses alone."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may make no network namespaces")
    spaces = [subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE) for _ in "ab"]
    try:
        for space in spaces:
            space.stdout.readline()
        a, b = [space.pid for space in spaces]
        for pid, words in ((a, f"link add eth0 type veth peer name eth0 netns {b}"),
                           *((pid, words) for number, pid in enumerate((a, b), 1) for words in (
                               "link set lo up", "link set eth0 up", f"-6 addr add fd00::{number}/64 dev eth0 nodad"))):
            subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", *words.split()], check=True)
        enter = tmp_path / "enter"
        enter.write_text(f'#!/bin/sh\ncase $1 in a) pid={a};; b) pid={b};; esac\nexec nsenter -t $pid -n /bin/sh -c "$2"\n')
        enter.chmod(0o755)
        words = ["-H", "a:1,b:1", "--launch-agent", f"{enter} {{host}}", "--", "true"]
        fault = "no IPv4 address that other hosts can reach; its interfaces: lo, eth0 (no IPv4 address)"
        checked = hvdray.run("check", *words)
        assert checked.code == 125 and f"error: hosts a,b: {fault} [HVD-E0210]" in checked.text, checked.text
        result = hvdray.go(*words)
        assert result.code == 125 and f"hvdray: host a has {fault} [HVD-E0210]" in result.errors, result.errors
        assert result.errors.count(fault) == 1 and "IPv4 only" in result.errors, result.errors
    finally:
        for space in spaces:
            space.kill()
            space.wait()
