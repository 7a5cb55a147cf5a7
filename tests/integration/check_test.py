# SPDX-License-Identifier: Apache-2.0
"""`hvdray check` on hosts that are well and on hosts that are not, through real sshd."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import time

import pytest
from hosts import BEHIND, OTHER_INTERFACE, SLOW, SLOW_MS

from hosts_processes import send


@pytest.fixture
def check(hvdray, hosts, tmp_path):
    """Runs hvdray check at the launcher's place: check(*words) -> subprocess.CompletedProcess."""

    def run(*words, timeout=120, **kwargs):
        kwargs.setdefault("cwd", str(tmp_path))
        result = hosts.run([hvdray.binary, "check", *words], timeout=timeout, **kwargs)
        assert hosts.leftovers(within=30) == {}
        return result

    run.start = lambda *words, **kwargs: hosts.popen(
        [hvdray.binary, "check", *words], cwd=str(tmp_path), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, **kwargs)
    return run


def document(result):
    assert result.stdout, result.stderr
    page = json.loads(result.stdout)
    assert page["schema"] == "hvdray.check/1"
    assert page["exit_code"] == result.returncode
    assert page["would_start"] == (result.returncode == 0)
    assert all(finding["hint"] for finding in page["findings"])
    return page


def host_of(page, name):
    return next(host for host in page["hosts"] if host["name"] == name)


def findings(page, kind):
    return [finding for finding in page["findings"] if finding["kind"] == kind]


def errors(page):
    return [finding for finding in page["findings"] if finding["level"] == "error"]


def test_hosts_that_are_well_are_told_of_on_one_screen(check):
    result = check("-H", "h1:1,h2:1,h6:1", "--", "sh", "-c", "exit 3")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 of 3 hosts ready, for 3 workers" in result.stdout
    assert "h[1-2,6]: 1 worker each, ready in " in result.stdout, result.stdout
    assert "all hosts reach each other" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("a job would start: 0 errors")
    # These hosts share processors with other tests, so one may be slow in truth: that is no line of a healthy host.
    slow = result.stdout.count("hint: every all-reduce waits for the slowest way")
    lines_of_slow = 2 * slow + (1 if slow else 0)
    assert len(result.stdout.splitlines()) - lines_of_slow <= 24, result.stdout


def test_json_has_the_facts_of_every_host(check, hosts):
    other = OTHER_INTERFACE[0]
    page = document(check("-H", f"h1:2,{other}:1,{BEHIND}:1", "--json", "--", "python3", "x.py"))
    assert [host["name"] for host in page["hosts"]] == ["h1", other, BEHIND]
    assert page["np"] == 4 and page["command"] == "python3" and page["network_proved"]
    for host in page["hosts"]:
        assert host["ready"] and host["remote"] and host["error"] is None
        assert host["host_name"] == host["name"]
        assert host["address"] == hosts[host["name"]].address
        assert 0 < host["ready_after_s"] < 30
        assert abs(host["clock"]["offset_s"]) <= host["clock"]["bound_s"] + 0.001  # one clock
        facts = host["facts"]
        assert facts["libc"] == "glibc " + os.confstr("CS_GNU_LIBC_VERSION").split()[1]
        assert facts["kernel"] == os.uname().release
        assert facts["command_version"].startswith("Python 3.")
        assert facts["unanswered"] == []
        assert {folder["use"] for folder in facts["folders"]} == {
            "agent", "home", "working", "tmp", "shm"}
        home = next(folder for folder in facts["folders"] if folder["use"] == "home")
        assert home["path"] == str(hosts.state / "home") and home["free_bytes"] > 0
        assert facts["limits"]["nofile"]["soft"] >= 1024
    assert host_of(page, other)["interface"] == "ens5"
    assert host_of(page, "h1")["interface"] == "eth0"


def test_one_bad_host_of_each_kind_does_not_hide_the_others(check, hosts):
    hosts.stop_sshd("h2")
    hosts.change_host_key("h6")
    try:
        result = check("-H", "h1:1,h2:1,nope[1-3]:1,h6:1,h5:1", "--json")
    finally:
        hosts.trust_host_keys()
    page = document(result)
    assert result.returncode == 125
    told = {finding["code"]: finding["hosts"] for finding in findings(page, "host")}
    assert told == {"HVD-E0202": ["h2"], "HVD-E0209": ["nope1", "nope2", "nope3"],
                    "HVD-E0212": ["h6"]}
    alike = next(f for f in findings(page, "host") if f["code"] == "HVD-E0209")
    assert alike["message"].startswith("hosts nope[1-3]: ")
    for name in ("h1", "h5"):
        assert host_of(page, name)["ready"] and host_of(page, name)["facts"]["libc"]
    assert page["network_proved"] and page["closed_ways"] == []


def test_the_same_in_words_has_a_hint_for_each(check, hosts):
    hosts.stop_sshd("h2")
    result = check("-H", "h1:1,h2:1,nope[1-3]:1")
    assert result.returncode == 125
    lines = result.stdout.splitlines()
    bad = [i for i, line in enumerate(lines) if line.startswith(("error: ", "warning: "))]
    assert len(bad) >= 2 and all(lines[i + 1].startswith("  hint: ") for i in bad)
    assert "1 of 5 hosts ready" in result.stdout
    assert lines[-1].startswith("a job would not start: 2 errors"), result.stdout


@pytest.mark.rest
def test_a_host_that_is_down_is_named_in_time(check, hosts):
    hosts.cut("h2")
    started = time.monotonic()
    page = document(check("-H", "h1:1,h2:1", "--start-timeout", "15", "--json"))
    assert time.monotonic() - started < 60
    assert findings(page, "host")[0]["hosts"] == ["h2"]
    assert host_of(page, "h1")["ready"]


def test_a_full_disk_and_a_noexec_folder_are_errors_of_their_host(check, hosts):
    for options, said in (("size=64k", "No space left on device"), ("noexec", "noexec")):
        with hosts.mounted("h1", "/mnt", "size=64m"), hosts.mounted("h6", "/mnt", options):
            result = check("-H", "h1:1,h6:1", "--remote-dir", "/mnt/agents", "--json")
        page = document(result)
        assert result.returncode == 125
        assert [f["hosts"] for f in errors(page)] == [["h6"]], result.stdout
        assert said in errors(page)[0]["message"]
        assert host_of(page, "h1")["ready"]


def test_small_shared_memory_and_a_full_working_folder_are_warnings(check, hosts):
    with hosts.mounted("h6", "/dev/shm", "size=64m"), hosts.mounted("h6", "/mnt", "size=1m,mode=755"):
        page = document(check("-H", "h6:1", "--cwd", "/mnt", "--json"))
    assert page["would_start"]
    assert "/dev/shm has room for 64 MiB only" in findings(page, "shared_memory")[0]["message"]
    assert "1 MiB free of 1 MiB in /mnt" in findings(page, "disk")[0]["message"]


@pytest.mark.parametrize("verdict, code, said", [
    ("reject with tcp reset", "HVD-E0202", "connection refused"),
    ("drop", "HVD-E0204", "timed out after"),
])
def test_a_way_that_is_closed_one_way_is_named(check, hosts, verdict, code, said):
    wall = (f"table ip wall {{ chain in {{ type filter hook input priority 0; "
            f"ip saddr {hosts['h1'].address} tcp flags syn / syn,ack {verdict}; }}; }}")
    hosts.run(["nft", wall], on="h2", check=True)
    try:
        result = check("-H", "h1:1,h2:1,h6:1", "--start-timeout", "15", "--json")
    finally:
        hosts.run(["nft", "delete table ip wall"], on="h2", check=True)
    page = document(result)
    assert result.returncode == 125
    [finding] = errors(page)
    assert finding["kind"] == "network" and finding["code"] == code
    assert finding["hosts"] == ["h1", "h2"]
    assert "host h1 (eth0 " in finding["message"] and "cannot reach host h2" in finding["message"]
    assert said in finding["message"]
    assert [(way["from"], way["to"]) for way in page["closed_ways"]] == [("h1", "h2")]


def test_a_command_that_one_host_lacks_gives_127_and_names_it(check, hosts):
    tool = hosts.folder("h1") / "home" / "my-train"
    tool.write_text("#!/bin/sh\necho started >started\n")
    tool.chmod(0o755)
    seen = hosts.state / "home" / "my-train"  # where the hosts see their own home
    try:
        result = check("-H", "h1:1,h2:1", "--json", "--", seen)
        page = document(result)
        assert result.returncode == 127
        assert [f["hosts"] for f in errors(page)] == [["h2"]]
        assert errors(page)[0]["code"] == "HVD-E0301"
        assert host_of(page, "h1")["facts"]["command_path"] == str(seen)
        tool.chmod(0o644)
        assert check("-H", "h1:1", "--", seen).returncode == 126
        assert not (hosts.folder("h1") / "home" / "started").exists(), "it must not be run"
    finally:
        tool.unlink()


def test_the_working_folder_is_looked_for(check, hosts):
    hosts.run(["mkdir", "-p", "/run/only-here"], on="launcher", check=True)
    result = check("-H", "h1:1", "--json", cwd="/run/only-here")
    [finding] = findings(document(result), "working_folder")
    assert result.returncode == 125 and "/run/only-here" in finding["message"]
    result = check("-H", "h1:1,h2:1", "--cwd", "/no/such/folder", "--json")
    page = document(result)
    assert result.returncode == 125
    assert [f["hosts"] for f in errors(page)] == [["h1", "h2"]]
    assert check("-np", "1", "--cwd", "/no/such/folder").returncode == 2, "on this machine run looks first"


def test_nothing_is_run_in_a_folder_that_another_user_can_fill(check, hosts):
    hosts.run(["mkdir", "-p", "/run/job"], on="launcher", check=True)
    plant = ("rm -rf /run/job; install -d -o 65534 /run/job; printf '#!/bin/sh\ntouch /run/taken\n' >/run/job/python3; "
             "chmod 755 /run/job/python3")
    hosts.run(["sh", "-ec", plant], on="h1", check=True)
    try:
        result = check("-H", "h1:1", "--json", "--", "./python3", "train.py", cwd="/run/job")
        [finding] = errors(document(result))
        assert result.returncode == 125
        assert finding["kind"] == "working_folder" and "other users could change" in finding["message"]
        assert hosts.run(["test", "!", "-e", "/run/taken"], on="h1").returncode == 0
    finally:
        hosts.run(["rm", "-rf", "/run/job", "/run/taken"], on="h1", check=True)


def test_too_many_workers_are_an_error_beside_the_facts(check):
    result = check("-np", "9", "-H", "h1:1,h2:1", "--json")
    page = document(result)
    assert result.returncode == 2
    assert errors(page)[0]["kind"] == "slots" and "(9)" in errors(page)[0]["message"]
    assert all(host["ready"] for host in page["hosts"]) and page["np"] == 9


def test_hosts_without_a_worker_are_left_alone(check):
    page = document(check("-np", "1", "-H", "h1:1,nope:1", "--json"))
    assert page["would_start"] and page["unused_hosts"] == ["nope"]
    assert [host["name"] for host in page["hosts"]] == ["h1"]


def test_an_interface_that_one_host_lacks_is_that_hosts_error(check):
    other = OTHER_INTERFACE[0]
    result = check("-H", f"h1:1,{other}:1,h2:1", "--network-interfaces", "eth0", "--json")
    page = document(result)
    assert result.returncode == 125
    assert [f["hosts"] for f in findings(page, "interface")] == [[other]]
    assert host_of(page, "h1")["interface"] == "eth0" and page["network_proved"]


@pytest.mark.rest
def test_a_frozen_host_is_given_up_in_time(check, hosts):
    hosts.freeze("h2")
    started = time.monotonic()
    page = document(check("-H", "h1:1,h2:1", "--start-timeout", "15", "--json"))
    assert time.monotonic() - started < 60
    assert [f["hosts"] for f in errors(page)] == [["h2"]]
    assert host_of(page, "h1")["ready"]
    hosts.thaw("h2")


@pytest.mark.parametrize("signo, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_at_once_and_leaves_nothing(check, hosts, signo, code):
    hosts.cut("h2")
    job = check.start("-H", "h1:1,h2:1", "--start-timeout", "60")
    deadline = time.monotonic() + 60
    while not any("/agent-" in line for line in hosts.processes("h1").values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    job.send_signal(signo)
    out, err = job.communicate(timeout=60)
    assert (job.returncode, out) == (code, ""), err
    assert hosts.leftovers("h1", within=30) == {}


def test_this_machine_alone_needs_no_host(hvdray):
    result = hvdray.run("check", "--json", "--", "sh")
    assert result.code == 0, result.errors + result.text
    page = json.loads(result.text)
    [host] = page["hosts"]
    assert (host["name"], host["remote"], host["interface"]) == ("localhost", False, "lo")
    assert not page["network_proved"]
    assert hvdray.run("check", "-np", "2", "--", "no-such-command").code == 127


def test_where_there_is_no_proc_it_does_not_take_itself_for_another(hvdray):
    result = hvdray.run("-m", "sh", "-c", 'umount -l /proc && PATH=$1:$PATH exec hvdray check -np 1 -- sh', "sh", hvdray.bin_dir, binary="unshare")
    assert result.code == 0 and "another hvdray" not in result.text, result.errors + result.text


def test_a_script_with_python_in_front_of_its_name_is_not_run(hvdray, script, tmp_path):
    """`--version` is for interpreters: this one would have begun to train."""
    train = script("python_train.sh", f"#!/bin/sh\n: >{tmp_path}/was-run\n")
    result = hvdray.run("check", "--json", "--", "./python_train.sh", cwd=tmp_path)
    assert result.code == 0, result.errors + result.text
    assert json.loads(result.text)["hosts"][0]["facts"]["command_path"].endswith(train.name)
    assert not (tmp_path / "was-run").exists()


def test_a_script_that_is_nowhere_is_an_error(hvdray, tmp_path):
    result = hvdray.run("check", "--", "python3", "-u", "nosuch.py", cwd=tmp_path)
    assert result.code == 127, result.text
    assert "script nosuch.py in " in result.text and "No such file" in result.text
    assert result.text.splitlines()[-1].startswith("a job would not start: 1 error")


def test_modules_are_imported_on_every_host(check, hosts):
    name = hosts.folder("h1") / "home" / "only_at_h1.py"
    name.write_text("__version__ = '7'\n")
    try:
        result = check("-H", "h1:1,h2:1", "--cwd", hosts.state / "home", "--import",
                       "json,only_at_h1", "--json", "--", "python3", "-c", "0")
    finally:
        name.unlink()
    page = document(result)
    assert result.returncode == 1
    [finding] = errors(page)
    assert finding["kind"] == "imports" and finding["hosts"] == ["h2"]
    assert "No module named 'only_at_h1'" in finding["message"]
    assert host_of(page, "h1")["facts"]["modules"][1] == {
        "name": "only_at_h1", "version": "7", "error": None}


def test_arguments_that_are_files_here_are_looked_for_on_every_host(check, hosts):
    here = hosts.state / "home"  # as each place sees its own home
    for place, names in (("launcher", ("train.py", "a.yaml")), ("h1", ("train.py", "a.yaml"))):
        for name in names:
            (hosts.folder(place) / "home" / name).write_text("")
    words = ["--", "python3", "train.py", "--config=a.yaml", "--out", "results"]
    try:
        result = check("-H", "h1:1,h2:1", "--json", *words, cwd=str(here))
        copied = check("-H", "h1:1,h2:1", "--sync", ".", "--json", *words, cwd=str(here))
    finally:
        for path in hosts.state.glob("*/home/*"):
            if path.name in ("train.py", "a.yaml"):
                path.unlink()
    page = document(result)
    assert result.returncode == 127
    script, other = findings(page, "files")
    assert (script["level"], script["hosts"]) == ("error", ["h2"])
    assert "script train.py" in script["message"]
    assert (other["level"], other["hosts"]) == ("warning", ["h2"]) and "a.yaml" in other["message"]
    assert document(copied)["would_start"] and not findings(document(copied), "files")


def test_names_that_resolve_to_loopback_are_a_warning(check, hosts):
    names = hosts.folder("h2") / "etc" / "hosts"
    before = names.read_text()
    names.write_text("127.0.0.1 localhost\n127.0.1.1 h2\n")
    try:
        page = document(check("-H", "h1:1,h2:1", "--json"))
    finally:
        names.write_text(before)
    [finding] = findings(page, "host_name")
    assert (finding["level"], finding["hosts"]) == ("warning", ["h2"])
    assert "h2 resolves to 127.0.1.1" in finding["message"]
    assert host_of(page, "h1")["facts"]["name_addresses"] == [hosts["h1"].address]


def ways_of(page):
    return {(pair["from"], pair["to"]): pair for pair in page["pairs"]}


def test_pairs_are_measured_and_a_slow_host_is_named(check, hosts):
    for _ in range(3):  # on a machine that others use, any host may be slow for once
        page = document(check("-H", "h1:1,h2:1,h6:1,h5:1", "--json"))
        assert {frozenset(way) for way in ways_of(page)} == {
            frozenset(pair) for pair in itertools.combinations(("h1", "h2", "h5", "h6"), 2)}
        for way, pair in ways_of(page).items():
            assert pair["error"] is None and pair["bytes_per_s"] > 0 and pair["back_bytes_per_s"] > 0
            assert pair["round_trip_s"] >= (SLOW_MS / 1000 if SLOW in way else 0), pair
        assert page["medians"]["round_trip_s"] > 0
        found = [finding for finding in findings(page, "slow") if finding["hosts"] == [SLOW]]
        if found:
            break
    assert len(found) == 1 and page["would_start"], page["findings"]
    assert f"host {SLOW} is slow with every other host: " in found[0]["message"]
    assert "times the median" in found[0]["message"]


def test_eight_hosts_are_measured_and_shown(check, hosts):
    names = [f"h{n}" for n in range(1, 9)]
    result = check("-H", ",".join(f"{name}:1" for name in names))
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    for title in ("GB/s from row to column, median ", "round trip in ms, median "):
        [begin] = [n for n, line in enumerate(lines) if line.startswith(title)]
        rows = lines[begin + 2:][:8]
        assert [row.split()[0] for row in rows] == names
        for n, row in enumerate(rows):
            cells = row.split()[2:]
            assert cells[n] == "-" and len(cells) == 8
            assert all(float(cell) > 0 for i, cell in enumerate(cells) if i != n), row
    assert "\x1b" not in result.stdout
    colored = check("-H", "h1:1,h2:1,h6:1", "--color", "always")
    assert "\x1b[38;5;231;48;5;" in colored.stdout


def test_a_pair_that_connects_but_passes_no_data_is_an_error(check, hosts):
    """An MTU that is too large somewhere: small packets pass, large ones are lost."""
    wall = (f"table ip wall {{ chain in {{ type filter hook input priority 0; "
            f"ip saddr {hosts['h1'].address} tcp dport != 22 ip length > 1000 drop; }}; }}")
    hosts.run(["nft", wall], on="h2", check=True)
    try:
        result = check("-H", "h1:1,h2:1", "--json")
    finally:
        hosts.run(["nft", "delete table ip wall"], on="h2", check=True)
    page = document(result)
    assert result.returncode == 125
    [finding] = errors(page)
    assert (finding["kind"], finding["hosts"]) == ("network", ["h1", "h2"])
    for text in ("no bulk data arrived", "timed out after", hosts["h1"].address, hosts["h2"].address):
        assert text in finding["message"]
    [pair] = page["pairs"]
    assert pair["bytes_per_s"] is None and pair["error"]["code"] == "HVD-E0204"


def test_what_differs_between_hosts_is_one_list(check, hosts):
    conf = hosts.folder("h2") / "home" / ".nccl.conf"
    conf.write_text("NCCL_IB_HCA=mlx5_1\n")
    try:
        result = check("-H", "h1:1,h2:1,h6:1")
        page = document(check("-H", "h1:1,h2:1,h6:1", "--json"))
    finally:
        conf.unlink()
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    begin = lines.index("hosts differ; most have")
    assert [line.split() for line in lines[begin + 1:begin + 4]] == [
        ["NCCL_IB_HCA", "(nccl.conf)", "none"], ["h2"], ["NCCL_IB_HCA", "(nccl.conf)", "mlx5_1"]]
    assert page["differences"] == [{
        "name": "NCCL_IB_HCA (nccl.conf)", "of_workers": True,
        "values": [{"value": "none", "hosts": ["h1", "h6"]},
                   {"value": "mlx5_1", "hosts": ["h2"]}]}]
    [finding] = findings(page, "differences")
    assert finding["message"] == "the hosts differ in NCCL_IB_HCA (nccl.conf)"
    packages = {package["name"] for package in host_of(page, "h1")["facts"]["packages"]}
    assert "Python" in packages
    variables = {item["name"] for item in host_of(page, "h1")["facts"]["variables"]}
    assert "PATH" in variables and "HOME" not in variables


@contextlib.contextmanager
def no_bulk_to(hosts, name):
    """Has a measurement with this host last until it is given up, for seconds."""
    wall = ("table ip wall { chain in { type filter hook input priority 0; "
            "tcp dport != 22 ip length > 1000 drop; }; }")
    hosts.run(["nft", wall], on=name, check=True)
    yield
    hosts.run(["nft", "delete table ip wall"], on=name, check=True)


def wait_for_measurement(hosts, *names):
    """Until data flows between them: connections of agents to each other's ports."""
    deadline = time.monotonic() + 60
    while True:
        for name in names:
            seen = hosts.run(["ss", "-Htn", "state", "established", "not", "sport", "=", ":22"],
                             on=name)
            if seen.stdout.strip():
                return
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_host_that_dies_while_it_is_measured_is_lost_and_the_others_are_measured(check, hosts):
    with no_bulk_to(hosts, "h2"):
        job = check.start("-H", "h1:1,h2:1,h6:1", "--json")
        wait_for_measurement(hosts, "h1", "h6")
        send([pid for pid, line in hosts.processes("h2").items() if "/agent-" in line], signal.SIGKILL)
        out, err = job.communicate(timeout=60)
    page = json.loads(out)
    assert job.returncode == 125, err
    assert [f["hosts"] for f in errors(page)] == [["h2"]], page["findings"]
    assert {frozenset(way) for way in ways_of(page)} == {
        frozenset(("h1", "h6"))}


def test_ctrl_c_ends_a_measurement_and_leaves_nothing(check, hosts):
    with no_bulk_to(hosts, "h2"):
        job = check.start("-H", "h1:1,h2:1,h6:1,h5:1")
        wait_for_measurement(hosts, "h1", "h6")
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
    assert (job.returncode, out) == (130, ""), err
    assert hosts.leftovers(within=30) == {}


def test_one_host_has_no_pairs(check):
    result = check("-H", "h1:2")
    assert result.returncode == 0
    assert "one host: no pairs to measure" in result.stdout.splitlines()


SUM_OF_ONES = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=100))
total = torch.ones(1)
dist.all_reduce(total)
print(int(total.item()))
"""


@pytest.fixture
def sum_of_ones(hvdray, hosts, tmp_path):
    """A torch job on h1 and h2, whose own names are as Debian's installer leaves them: 127.0.1.1."""
    before = {}
    for name in ("h1", "h2"):
        path = hosts.folder(name) / "etc" / "hosts"
        before[path] = path.read_text()
        path.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    yield lambda *words: hosts.run(
        [hvdray.binary, "run", "-H", "h1:1,h2:1", "--tag-output", "none", "--", *words,
         "/usr/bin/python3", "-c", SUM_OF_ONES], cwd=str(tmp_path), timeout=120)
    for path, text in before.items():
        path.write_text(text)


def test_torch_finds_its_peers_where_names_resolve_to_loopback(sum_of_ones):
    result = sum_of_ones()
    assert (result.returncode, result.stdout) == (0, "2\n2\n"), result.stderr


def test_who_dies_of_a_name_on_loopback_is_told_so(sum_of_ones):
    result = sum_of_ones("env", "-u", "GLOO_SOCKET_IFNAME")
    assert result.returncode != 0
    assert "/etc/hosts" in result.stderr, result.stderr


@pytest.mark.parametrize("words, said", [
    (["-H", "a"], "Invalid host input"),
    (["-H", "a:1", "--import", "torch,;x"], "--import"),
    (["-H", "a:1,n[3-1]:1"], "reversed"),
    (["-H", "a:1", "--no-such-option"], "--no-such-option"),
    (["-H", "a:1", "--dry-run"], "--dry-run"),
    (["-H", "a:1", "-i", "/no/such/key"], "/no/such/key"),
    (["-H", "a:1", "--launch-agent", "rsh"], "{host}"),
    (["-np", "2", "--min-np", "3"], "--min-np"),
    (["-np", "2", "--host-discovery-script", "/nowhere/discover"], "/nowhere/discover"),
    (["-np", "2", "--host-discovery-script", "echo a:many"], "line 1"),
    (["-np", "many"], "many"),
    (["--hostfile", "/nowhere/hosts"], "/nowhere/hosts"),
])
def test_bad_input_is_refused_before_any_host_is_asked(hvdray, words, said):
    result = hvdray.run("check", *words)
    assert result.code == 2 and said in result.errors, result.errors
    assert result.text == "" and result.errors.startswith("hvdray check: ")
    assert len(result.errors.splitlines()) <= 3


def test_help_and_version(hvdray):
    assert hvdray.run("check", "--help").text.startswith("usage: hvdray check ")
    assert hvdray.run("check", "-v").text.startswith("hvdray ")


def test_a_reader_that_goes_away_gives_141(hvdray):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        assert hvdray.run("check", stdout=write_end).code == 141
    finally:
        os.close(write_end)


@pytest.mark.rest
@pytest.mark.parametrize("count", [63, 64, 65, 66, 130])
def test_any_number_of_hosts_works(hvdray, tmp_path, count):
    names = ",".join(f"sim{i}:1" for i in range(count))
    result = hvdray.run("check", "-H", names, "--launch-agent", ": {host}; sh -c", "--remote-dir",
                        tmp_path, "--network-interfaces", "lo", "--start-timeout", "120", "--json", timeout=240)
    page = json.loads(result.text)
    assert result.code == 0, page["findings"]
    assert all(host["ready"] and host["facts"] for host in page["hosts"])
