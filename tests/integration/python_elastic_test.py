# SPDX-License-Identifier: Apache-2.0
"""Elastic calls from Python on this machine, under several names: `hvdray.run(min_num_proc=…)` and
`hvdray.Executor(min_workers=…)`. With real Horovod where workers live through changes, else without.

Not here: other machines, kills at random moments (python_kills_test), and the driver's rules (elastic_test and its neighbours).
"""

import pytest
from python_program import Programs


@pytest.fixture
def programs(hvdray, tmp_path):
    return Programs(hvdray, tmp_path)


# A script as users of Horovod write it: unmodified but for the end, which the test decides.
TRAIN = """
def train(least=0):
    import horovod.torch as hvd, torch
    hvd.init()
    model = torch.nn.Linear(2, 1)
    state = hvd.elastic.TorchState(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1), step=0, sizes=[])

    @hvd.elastic.run
    def go(state):
        state.sizes = state.sizes + [hvd.size()]
        for step in range(10**6):
            if step == 3:  # all are through hvd.init()
                open(f"gang{len(state.sizes)}of{hvd.size()}", "w").close()
            may_end = torch.tensor([float(os.path.exists("stop"))])
            if hvd.allreduce(may_end, op=hvd.Min, name="end").item() and state.step >= least:
                return hvd.rank(), hvd.size(), state.sizes
            state.step += 1
            state.commit()
            time.sleep(0.01)

    return go(state)

def gang(generation, size):
    until(lambda: os.path.exists(f"gang{generation}of{size}"), (generation, size))

def until(condition, what):
    for _ in range(12000):
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    print("waited in vain for", what, file=sys.stderr)
    os._exit(9)

def beside(act):
    def go():
        try:
            act()
        except BaseException:
            import traceback; traceback.print_exc()
            os._exit(9)
    threading.Thread(target=go, daemon=True).start()
"""


def test_a_script_of_horovod_runs_and_the_first_values_come_back(programs, horovod_python):
    programs.run(TRAIN + """
import warnings
open("stop", "w").close()
values = hvdray.run(train, (5,), min_num_proc=2, max_num_proc=3, hosts="localhost:2,127.0.0.1:1")
assert values == [(0, 3, [3]), (1, 3, [3])], values
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert hvdray.run(os.getpid, min_np=1, max_np=1, np=1) != [os.getpid()]
assert [w.category for w in warned] == [DeprecationWarning] * 3 and "min_num_proc" in str(warned[1].message), warned
""", python=horovod_python)


def test_hosts_come_and_go_and_workers_die_and_the_call_goes_on(programs, horovod_python):
    """The hosts come from an object; what it raises is said once, and the last list holds."""
    result = programs.run(TRAIN + """
class Hosts:
    found = {"localhost": 1, "127.0.0.1": 1}
    def find_available_hosts_and_slots(self):
        if self.found is None:
            self.raised = getattr(self, "raised", 0) + 1
            raise OSError("the list can't be had")
        return self.found

hosts = Hosts()
executor = hvdray.Executor(min_workers=1, max_workers=3, hosts=hosts)

def pids(generation, *names):
    gang(generation, len(names))
    workers = executor.workers
    assert [w["host"] for w in workers] == list(names), workers
    return [w["pid"] for w in workers]

def change():
    first = pids(1, "localhost", "127.0.0.1")
    hosts.found = {**hosts.found, "127.1": 1}
    second = pids(2, "localhost", "127.0.0.1", "127.1")
    assert second[:2] == first
    os.kill(second[1], signal.SIGKILL)
    assert pids(3, "localhost", "127.1") == [second[0], second[2]]
    hosts.found = None
    until(lambda: getattr(hosts, "raised", 0) > 1, "failures")
    hosts.found = {"127.1": 1}
    assert pids(4, "127.1") == second[2:]
    open("stop", "w").close()

import hvdray._elastic
hvdray._elastic.DISCOVER_HOSTS_FREQUENCY_SECS = 0.1
beside(change)
assert executor.run(train) == [(0, 1, [2, 3, 2, 1])]
assert executor.workers == []
# The next one has the hosts of the moment, also the one that had failed, and their agents.
hosts.found = {"127.1": 1, "127.0.0.1": 1}
assert executor.run(train) == [(0, 2, [2]), (1, 2, [2])]
executor.shutdown()
""", python=horovod_python)
    assert result.errors.count("OSError: the list can't be had") == 1, result.errors


def test_the_driver_knows_the_slots_and_its_notices_reach_workers(programs, horovod_python):
    """As `executor.driver` of executors on Ray has it; also notices of the job itself after one that was dated ahead."""
    programs.run(TRAIN + """
from hvdray._slots import NO_SLOT, ElasticDriver
class Hosts:
    found = {"localhost": 2, "127.0.0.1": 1}
    def find_available_hosts_and_slots(self):
        return self.found

hosts = Hosts()
executor = hvdray.Executor(min_workers=2, max_workers=3, hosts=hosts, options={"events": "events"})
driver = ElasticDriver(lambda: executor._elastic_call)

def no_slots():
    assert driver.get_slot_info("localhost", 0) == NO_SLOT and driver.get_worker_client(NO_SLOT) is None
    assert driver.get_coordinator_info() is None and driver.world_size() == 0

def place_and_train():
    names = ("RANK", "LOCAL_RANK", "CROSS_RANK", "SIZE", "LOCAL_SIZE", "CROSS_SIZE")
    place = os.environ["HOROVOD_HOSTNAME"], *(int(os.environ["HOROVOD_" + name]) for name in names)
    return place, train()

def infos(*slots):
    known = [driver.get_slot_info(*slot) for slot in slots]
    assert driver.get_coordinator_info() == known[0] and driver.world_size() == len(known)
    return [tuple(vars(info).values()) for info in known]

def client(*slot):
    return until(lambda: driver.get_worker_client(driver.get_slot_info(*slot)), slot)

def change():
    gang(1, 3)
    pids = [worker["pid"] for worker in executor.workers]
    seen.append(infos(("localhost", 0), ("localhost", 1), ("127.0.0.1", 0)))
    for slot in (("localhost", 2), ("127.1", 0)):
        assert driver.get_slot_info(*slot) == NO_SLOT and driver.get_worker_client(driver.get_slot_info(*slot)) is None
    client("localhost", 1).notify_hosts_updated(time.time() + 50, 1)  # rank 0 does not hear of it
    clients.append(client("localhost", 0))
    clients[0].notify_hosts_updated(time.time(), 1)
    gang(2, 3)
    clients[0].notify_hosts_updated(time.time() + 1000, 1)
    gang(3, 3)
    assert [worker["pid"] for worker in executor.workers] == pids
    hosts.found = {"localhost": 2}
    gang(4, 2)
    seen.append(infos(("localhost", 0), ("localhost", 1)))
    assert driver.get_slot_info("127.0.0.1", 0) == NO_SLOT
    open("stop", "w").close()

import hvdray._elastic
hvdray._elastic.DISCOVER_HOSTS_FREQUENCY_SECS = 0.1
seen, clients = [], []
no_slots()
beside(change)
values = executor.run(place_and_train)
assert seen[0] == [("localhost", 0, 0, 0, 3, 2, 2), ("localhost", 1, 1, 0, 3, 2, 1), ("127.0.0.1", 2, 0, 1, 3, 1, 2)], seen
assert values == [(place, (place[1], 2, [3, 3, 3, 2])) for place in seen[0][:2]], values
assert seen[1] == [("localhost", 0, 0, 0, 2, 2, 1), ("localhost", 1, 1, 0, 2, 2, 1)], seen
no_slots()
error = raised(hvdray.HvdrayError, lambda: clients[0].notify_hosts_updated(time.time(), 3))
assert error.message == "no worker on host localhost, local rank 0, takes notices", error
executor.shutdown()
import json
with open("events") as file:
    notices = [event for event in map(json.loads, file) if event["event"] == "notice"]
asked = [(notice["worker"], notice["host"], notice["code"]) for notice in notices[:3]]
assert asked == [(1, "localhost", "mixed"), (0, "localhost", "mixed"), (0, "localhost", "mixed")], notices
""", python=horovod_python)


def test_a_script_finds_hosts_and_resets_are_limited(programs, horovod_python, tmp_path):
    (tmp_path / "hosts").write_text("localhost\n")
    programs.run(TRAIN + """
def change():
    for size, hosts in ((1, "localhost\\n127.0.0.1\\n"), (2, "localhost\\n")):
        gang(size, size)
        with open("hosts.new", "w") as file:
            file.write(hosts)
        os.rename("hosts.new", "hosts")

beside(change)
error = raised(hvdray.HvdrayError, lambda: hvdray.run(
    train, min_num_proc=1, host_discovery_script="cat hosts", slots=1, reset_limit=1, cooldown_range=[1, 2],
    options={"discovery_interval": 0.1}))
assert error.code == "HVD-E0309" and error.message.startswith(
    "Horovod was shutdown because number of resets during elastic job exceeded limit: 1"), error
""", python=horovod_python)


def test_too_few_slots_end_the_call_with_horovods_sentence(programs):
    programs.run("""
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, min_num_proc=3, max_num_proc=4, host_discovery_script="echo localhost:1",
                                                      options={"elastic_timeout": 0.3}))
assert error.code == "HVD-E0208" and type(error) is hvdray.PlacementTimeout, error
assert "Please check that you have enough resources to run at least 3 Horovod processes." in error.message, error
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, host_discovery_script="exit 3"))
assert "discovery" in str(error) and "3" in str(error), error
""")


def test_functions_that_fail(programs):
    """Each failure of a plain function is one that no change of hosts mends."""
    programs.run("""
def run(f, *args, **more):
    return hvdray.run(f, args, min_num_proc=2, **more)
def fail_on(which, act):
    if rank() == which: act()
    time.sleep(60 if act is sys.exit else 0)
    return 1

error = raised(ValueError, lambda: run(int, "bad"))
assert isinstance(error, hvdray.WorkerError) and type(error.__cause__) is ValueError, error
assert error.message.startswith("Horovod detected that one or more processes exited with non-zero status"), error
assert "Exit code: 1" in error.message and "int" in error.message and error.code == "HVD-E0303", error
assert error.report["exit"]["code"] == 1 and len(error.outcomes) == 2
error = raised(hvdray.SerializationError, lambda: run(lambda: threading.Lock()))
assert "the result" in str(error) and "lock" in str(error), error
error = raised(hvdray.WorkerDied, lambda: run(fail_on, 1, lambda: os._exit(3)))
assert (error.rank, error.exit_code) == (1, 3) and "Exit code: 3" in error.message, error
error = raised(hvdray.WorkerDied, lambda: run(fail_on, 0, lambda: os._exit(0)))
assert "before it had answered" in str(error) and error.rank == 0, error
error = raised(hvdray.WorkerDied, lambda: run(fail_on, 0, lambda: os.kill(os.getpid(), signal.SIGSEGV)))
assert error.signal == "SIGSEGV", error
def fail_after_the_other():
    if rank() == 0:
        with open("pid.new", "w") as file: file.write(str(os.getpid()))
        os.rename("pid.new", "pid")
        return 1
    while not os.path.exists("pid"): time.sleep(0.01)
    with open("pid") as file: other = file.read()
    while os.path.exists(f"/proc/{other}"): time.sleep(0.01)
    os._exit(5)
assert run(fail_after_the_other, options={"success": "any"}) == [1]
error = raised(hvdray.WorkerError, lambda: run(lambda: {rank(): object()}[7]))
assert type(error.__cause__) is KeyError
""")


@pytest.mark.parametrize("leave", ["sys.exit(0)", "sys.exit(3)", "return 'child'", "raise RuntimeError('of the child')"])
def test_a_forked_child_neither_answers_nor_ends_the_worker(programs, leave):
    programs.run(f"""
def f(_=None):
    pid = os.fork()
    if pid == 0:
        {leave}
    return os.getpid(), os.waitpid(pid, 0)[1] >> 8
code = {{"sys.exit(3)": 3, "raise RuntimeError('of the child')": 1}}.get({leave!r}, 0)
for values in (hvdray.run(f, min_num_proc=2), hvdray.run(f, min_num_proc=2, options={{"elastic_mode": "gang"}})):
    assert len({{pid for pid, _ in values}}) == 2 and [status for _, status in values] == [code] * 2, values
with hvdray.Executor(min_workers=2) as executor:
    for _ in range(2):
        assert [status for _, status in executor.run(f)] == [code] * 2
        assert [status for _, status in executor.execute(f)] == [code] * 2
""")


def test_gangs_are_restarted_with_the_call(programs):
    """Without Horovod in the function: each change starts all workers anew, with the function."""
    programs.run("""
def f(big):
    if rank() == 1 and not os.path.exists("tried"):
        open("tried", "w").close()
        os._exit(7)
    return rank(), len(big), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

options = {"elastic_mode": "gang", "max_restarts": 1}
assert hvdray.run(f, (b"x" * 2_000_000,), min_num_proc=2, options=options) == [(0, 2_000_000, 1), (1, 2_000_000, 1)]
os.remove("tried")
options["max_restarts"] = 0
assert raised(hvdray.WorkerDied, lambda: hvdray.run(f, (b"",), min_num_proc=2, options=options)).exit_code == 7
""")


def test_executors(programs):
    programs.run("""
class Model:
    def __init__(self, *sizes, seed=0): self.sizes, self.seed = sizes, seed
executor = hvdray.Executor(min_workers=2, max_workers=3, env={"COLOUR": "blue"})
executor.start(Model, [784, 10], {"seed": 7}, {"SHAPE": "round"})
assert executor.execute(lambda model: (model.sizes, model.seed, rank())) == [((784, 10), 7, r) for r in range(3)]
agents = executor.run(os.getppid)
assert len(set(agents)) == 1 and executor.run(os.getppid) == agents  # one host, which stays connected
assert executor.run(lambda: "x" * 3_000_000) == ["x" * 3_000_000] * 3
assert executor.run(lambda a, b: (a + b, os.environ["COLOUR"], os.environ["SHAPE"]), [1], {"b": 2}) == [(3, "blue", "round")] * 3
text = str(raised(NotImplementedError, lambda: executor.execute_single(print)))
assert text == "Elastic mode does not support execute_single. Please use the execute method instead", text
text = str(raised(NotImplementedError, lambda: executor.run_remote(print)))
assert text == "ObjectRefs cannot be returned from Elastic runs as the workers are ephemeral", text
executor.restart()
assert executor.run(os.getppid) != agents
executor.shutdown()
assert "shut down" in str(raised(hvdray.HvdrayError, lambda: executor.run(rank)))
with hvdray.Executor(min_workers=1, results="json", output="none") as executor:
    assert executor.execute(lambda nothing: [nothing, (1,)]) == [[None, [1]]]
    assert type(raised(hvdray.WorkerError, lambda: executor.run(int, ("x",))).__cause__) is RuntimeError
""")


def test_waits_end(programs):
    """By a time limit, an interrupt, a shutdown, Ctrl-C once and again."""
    programs.run("""
executor = hvdray.Executor(min_workers=2, options={"grace": 15})
def when_there(name, act):
    def go():
        while not all(os.path.exists(f"{name}{r}") for r in range(2)): time.sleep(0.01)
        act()
    threading.Thread(target=go, daemon=True).start()
def stay(name, is_deaf=False):
    if is_deaf: signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        open(f"{name}{rank()}", "w").close()
        time.sleep(600)
    finally:
        open(f"{name}{rank()} returned", "w").close()
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
def twice():
    interrupt()
    while executor._elastic_call._end_due == 0: time.sleep(0.01)
    time.sleep(0.2)  # else it is a copy of the first
    interrupt()

error = raised(TimeoutError, lambda: executor.run(stay, ["timeout"], timeout=0.5))
assert str(error) == "the elastic job has not ended in time", error
when_there("interrupt", executor.interrupt)
raised(KeyboardInterrupt, lambda: executor.run(stay, ["interrupt"]))
when_there("once", interrupt)
raised(KeyboardInterrupt, lambda: executor.run(stay, ["once"]))
for name in ("interrupt", "once"):
    assert all(os.path.exists(f"{name}{r} returned") for r in range(2)), os.listdir()
executor._options["grace"] = 0.2
when_there("deaf", interrupt)
error = raised(KeyboardInterrupt, lambda: executor.run(stay, ["deaf", True]))
assert str(error) == "killed, because they did not return: ranks 0, 1", error
executor._options["grace"] = 600
when_there("twice", twice)
assert "killed" in str(raised(KeyboardInterrupt, lambda: executor.run(stay, ["twice", True])))
def at_once():
    launcher = executor._elastic_call._launcher
    stop = launcher.stop
    def interrupted(*args, **words):
        launcher.stop = stop
        time.sleep(0.2)
        interrupt()
        stop(*args, **words)
    launcher.stop = interrupted
    interrupt()
when_there("at once", at_once)
assert "killed" in str(raised(KeyboardInterrupt, lambda: executor.run(stay, ["at once", True])))
executor._options["grace"] = 0.2
assert executor.run(lambda: 5) == [5, 5]
when_there("shutdown", executor.shutdown)
assert "shut down" in str(raised(hvdray.HvdrayError, lambda: executor.run(stay, ["shutdown"])))
""")


def test_what_does_not_fit_together_is_refused(programs):
    programs.run("""
class Hosts:
    def find_available_hosts_and_slots(self): return {}
for kind, arguments, said in (
    (ValueError, dict(max_workers=2), "`max_workers` provided without any positive `min_workers`"),
    (ValueError, dict(num_workers=2, min_workers=2), "Both `min_workers` and `num_workers` provided"),
    (ValueError, dict(min_workers=0), "min_workers must be 1 or more"),
    (TypeError, dict(min_workers="2"), "min_workers must be an int"),
    (ValueError, dict(min_workers=1, options={"min_np": 1}), "both given"),
    (ValueError, dict(min_workers=1, hosts="a:1", options={"host_discovery_script": "true"}), "both given"),
    (ValueError, dict(num_workers=1, options={"min_np": 1}), "give min_workers"),
    (ValueError, dict(num_workers=1, hosts=Hosts()), "need min_workers"),
):
    error = raised(kind, lambda: hvdray.Executor(**arguments))
    assert said in str(error), error
for arguments, said in (
    (dict(hosts="a", hostfile="b", min_num_proc=1), "Argument hosts and hostfile only allow one provided."),
    (dict(use_gloo=True, use_mpi=True), "Argument use_gloo and use_mpi only allow one set True."),
    (dict(min_np=1, min_num_proc=1), "both given"),
    (dict(min_num_proc=1, slots=1, options={"slots_per_host": 2}), "both given"),
):
    assert said in str(raised(ValueError, lambda: hvdray.run(rank, **arguments))), said
error = raised(ValueError, lambda: hvdray.run(rank, min_num_proc=3, max_num_proc=2))
assert "above" in str(error), error
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, min_num_proc=1, cooldown_range=[5, 1]))
assert "cooldown" in str(error), error
# A variable that makes jobs elastic says nothing about calls.
assert len(hvdray.run(rank, num_proc=2)) == 2
""", env={"HVDRAY_MIN_NP": "1"})
