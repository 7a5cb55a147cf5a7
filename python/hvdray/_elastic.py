# SPDX-License-Identifier: Apache-2.0
"""Calls whose workers come and go: each is an elastic job of `hvdray serve`. docs/python.md, "Elastic calls".

The call is the job's start: each worker gets it, also those that come later, and ends with it. What the members of the
last generation returned is its result.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Callable, Mapping, NamedTuple, Optional, Protocol, Sequence

from ._calls import Answer, Limits, Log, died, error_of, value_of
from ._errors import HvdrayError, WorkerDied, WorkerError
from ._interpreter import SignalCopies
from ._kit import driver_place, kit
from ._launcher import Gang, Launcher
from ._payload import Payload, dumps
from ._slots import Slot, SlotInfo, no_worker

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0
NO_CAPACITY = "HVD-E0208"  # of docs/errors.md
CALL = ["fn", "args", "kwargs", "executable"]

Executable = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Discovery(Protocol):
    """What finds the hosts of an elastic call, as Horovod has it."""

    def find_available_hosts_and_slots(self) -> Mapping[str, int]: ...


class Place(NamedTuple):
    """Where and how elastic calls run."""

    launch: Callable[[Sequence[str]], Launcher]  # a new one, with these words more
    min_workers: int
    env: dict[str, str]
    results: str
    grace_s: Callable[[], float]
    discovery: Optional[Discovery]  # None: the launcher's options say where hosts come from
    interval: Callable[[], float]  # seconds between two questions to it
    is_on_ray: bool


def settle_limits(
    options: dict[str, Any], num_workers: Optional[int], min_workers: Optional[int], max_workers: Optional[int]
) -> None:
    """Adds the limits of elastic calls to the options. Raises ValueError, for what Horovod refuses in its words."""
    if max_workers is not None and min_workers is None:
        raise ValueError("`max_workers` provided without any positive `min_workers`: elastic workloads require one")
    if min_workers is not None and num_workers is not None:
        raise ValueError("Both `min_workers` and `num_workers` provided: workloads cannot be elastic and non-elastic")
    for name in ("min_np", "min_num_proc", "max_np", "max_num_proc"):
        if min_workers is not None and name in options:
            raise ValueError(f"min_workers and options[{name!r}] are both given")
    for name in ("min_np", "min_num_proc", "host_discovery_script"):
        if min_workers is None and name in options:
            raise ValueError(f"options[{name!r}] is of elastic jobs: give min_workers, or min_num_proc to run()")
    if min_workers is not None:
        options["min_np"] = min_workers
    if max_workers is not None:
        options["max_np"] = max_workers


def local_hosts(options: Mapping[str, Any]) -> str:
    """Of an elastic call that names none: this machine, with as many slots as workers may come."""
    most = next(options[name] for name in ("max_np", "np", "num_proc", "min_np") if options.get(name) is not None)
    return f"localhost:{most}"


def call_of(do: str, what: Any, executable: Optional[Executable]) -> Payload:
    """Of fn(*args, **kwargs), or, to execute, of fn(object); `executable` says how each worker makes one. Raises
    SerializationError."""
    if do == "run":
        payload = dumps((*what, None), CALL)
    else:
        payload = dumps((what, (), {}, executable) if executable is not None else (what, (None,), {}, None), CALL)
    if payload.scattered:
        raise ValueError("elastic calls take nothing that is scattered: their workers come and go")
    return payload


class ElasticHosts:
    """Stay connected between calls, of which one at a time may use them."""

    def __init__(self, place: Place):
        self.place = place
        self.kit = 0  # an object
        self._launcher: Optional[Launcher] = None

    def take(self) -> Launcher:
        if self._launcher is not None and self._launcher.lost is not None:
            self.close()
        if self._launcher is None:
            self._launcher = self.place.launch([] if self.place.discovery is None else ["--host-source", "control"])
            self.kit = self._launcher.next_object()
            self._launcher.put(self.kit, [kit()])
        return self._launcher

    def close(self) -> None:
        """Returns when nothing is left."""
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.close()


class ElasticCall:
    """One call. run() once; interrupt(), stop() and `workers` from any thread."""

    def __init__(self, hosts: ElasticHosts, payload: Payload, log: Log):
        self._hosts = hosts
        self._log = log
        self.on_train: Optional[Callable[[Any, Any], None]] = None  # as that of a Call
        self._place = hosts.place
        self._payload = payload
        self._answers: dict[int, Answer] = {}  # by worker
        self._launcher: Optional[Launcher] = None
        self._finder: Optional[Finder] = None
        self._gang: Optional[Gang] = None
        self._ended_by: Optional[BaseException] = None
        self._keys = SignalCopies()
        self._end_now: Optional[Callable[[], None]] = None  # what is to be done next for that
        self._end_due = 0.0
        self._turn = threading.Lock()  # of those who end it

    def run(self, limits: Limits) -> list[Any]:
        """The values of the last generation, by rank. Raises what docs/python.md says."""
        place = self._place
        finder: Optional[Finder] = None
        try:
            launcher = self._launcher = self._hosts.take()
            if place.discovery is not None:
                finder = self._finder = Finder(launcher, place.discovery, place.interval, place.is_on_ray)
                finder.start()
            gang = self._begin(launcher)
            self._wait(launcher, gang, limits.deadline)
        except BaseException:
            self._hosts.close()
            raise
        finally:
            if finder is not None:
                finder.stop()
        launcher.drop(self._object)
        launcher.show_output()
        return self._outcome(gang)

    def interrupt(self, why: BaseException) -> None:
        """As Ctrl-C does: run() raises that."""
        self._end_by(why, self._interrupt)

    def stop(self, why: BaseException) -> None:
        """The same, with SIGTERM."""
        self._end_by(why, self._stop)

    @property
    def workers(self) -> list[dict[str, Any]]:
        """Of the present generation, by rank."""
        gang = self._gang
        return [dict(worker) for worker in gang.workers] if gang is not None and not gang.has_ended else []

    @property
    def place(self) -> tuple[Optional[Launcher], Optional[Gang]]:
        return self._launcher, self._gang

    @property
    def slots(self) -> dict[Slot, SlotInfo]:
        """Of the present generation, by rank. Empty: there is none."""
        gang = self._gang
        return gang.slots.infos if gang is not None and not gang.has_ended else {}

    def takes_notices(self, slot: Slot) -> bool:
        return self._listener(slot) is not None

    def notify(self, slot: Slot, timestamp: int) -> None:
        """Raises HvdrayError if no worker there takes notices."""
        rank = self._listener(slot)
        if rank is None:
            raise no_worker(slot)
        assert self._gang is not None and self._launcher is not None
        self._launcher.notify(self._gang, [rank], timestamp)

    def _listener(self, slot: Slot) -> Optional[int]:
        """The rank of the worker there that takes notices."""
        gang, launcher = self._gang, self._launcher
        if gang is None or launcher is None:
            return None
        with launcher.condition:
            takes = not gang.has_ended and gang.slots.takes_notices(slot)
            return gang.slots.infos[slot].rank if takes else None

    # ---- the job

    def _begin(self, launcher: Launcher) -> Gang:
        self._object = launcher.next_object()
        launcher.put(self._object, self._payload.parts)
        call = {
            "call": 1,
            "do": "once",
            **driver_place(self._place.is_on_ray),
            "results": self._place.results,
            "sizes": self._payload.sizes,
            "object": self._object,
            "logs": self._log.is_wanted,
        }
        self._gang = launcher.begin(self._place.env, [self._hosts.kit, self._object], call, self._on_data)
        return self._gang

    def _on_data(self, worker: int, data: Any, content: Any) -> None:
        if not isinstance(data, dict) or data.get("call") != 1 or worker in self._answers:
            return
        if data.get("log") is True:
            self._log.add(lambda: value_of(Answer(data, content), *self._place_of(worker), self._wants_json))
        elif "train" in data:
            if self.on_train is not None:
                self.on_train(data["train"], content)
        elif "ok" in data:
            self._answers[worker] = Answer(data, content)

    def _wait(self, launcher: Launcher, gang: Gang, deadline: Optional[float]) -> None:
        while True:
            try:
                launcher.check_process()
                if launcher.output.is_shown:
                    launcher.output.show()
                self._log.tell()
                with launcher.condition:
                    if self._log.has_news:
                        continue
                    if gang.has_ended:
                        return
                    launcher.check()
                    if self._ended_by is None and deadline is not None and time.monotonic() >= deadline:
                        self._ended_by, self._end_now = TimeoutError("the elastic job has not ended in time"), self._interrupt
                    act = self._end_now if time.monotonic() >= self._end_due else None
                    if act is None:
                        self._sleep(launcher, deadline)
                if act is not None:
                    act()
            except KeyboardInterrupt as why:
                if not self._keys.is_new():
                    continue
                is_again = isinstance(self._ended_by, KeyboardInterrupt)
                self._ended_by = why
                # Above, where the next one may come at any moment.
                self._end_now, self._end_due = self._kill if is_again else self._interrupt, 0.0

    def _sleep(self, launcher: Launcher, deadline: Optional[float]) -> None:
        until = [] if deadline is None or self._ended_by is not None else [deadline]
        if self._end_now is not None:
            until.append(self._end_due)
        pauses = [max(at - time.monotonic(), 0) for at in until] + [0.1] * launcher.output.is_shown
        launcher.condition.wait(min(pauses, default=None))

    def _end_by(self, why: BaseException, act: Callable[[], None]) -> None:
        with self._turn:
            if self._ended_by is None:
                self._ended_by, self._end_now = why, act
        launcher = self._launcher
        if launcher is not None:
            with launcher.condition:
                launcher.condition.notify_all()

    def _interrupt(self) -> None:
        """SIGINT to the workers of the moment; none takes the place of one that it ends."""
        assert self._launcher is not None and self._gang is not None
        self._launcher.stop(self._gang, self._place.grace_s(), interrupt=True)
        # Only now: a signal may have cut that short.
        self._end_now, self._end_due = self._kill, time.monotonic() + self._place.grace_s()

    def _stop(self) -> None:
        assert self._launcher is not None and self._gang is not None
        self._end_now = None
        self._launcher.stop(self._gang, self._place.grace_s())

    def _kill(self) -> None:
        assert self._launcher is not None and self._gang is not None
        self._end_now = None
        self._launcher.stop(self._gang, 0)

    # ---- what came of it

    def _outcome(self, gang: Gang) -> list[Any]:
        verdict = gang.verdict or {}
        if self._ended_by is not None:
            raise self._ending(verdict) from None
        if gang.why is not None:
            raise gang.why
        if verdict["exit"]["code"] != 0:
            raise self._failure(gang, verdict)
        values = []
        for row in verdict["workers"]:
            answer = self._answer_of(gang, row)
            if answer is None and row["exit_code"] == 0:
                raise _silent(row, verdict)
            if answer is None:
                continue  # with --success any
            if answer.head.get("ok") is not True and row["exit_code"] == 0:
                raise error_of(answer, row["rank"], row["host"], row["pid"], self._wants_json)
            if answer.head.get("ok") is True:
                values.append(value_of(answer, row["rank"], row["host"], self._wants_json))
        return values

    def _ending(self, verdict: dict[str, Any]) -> BaseException:
        assert self._ended_by is not None
        killed = ", ".join(str(row["rank"]) for row in verdict.get("workers", []) if row["signal"] == "SIGKILL")
        if not killed or isinstance(self._ended_by, HvdrayError):
            return self._ended_by
        return type(self._ended_by)(f"{self._ended_by}; killed, because they did not return: ranks {killed}".lstrip("; "))

    def _failure(self, gang: Gang, verdict: dict[str, Any]) -> HvdrayError:
        first = verdict["first_failure"]
        answer = self._answer_of(gang, first) if first is not None else None
        if answer is None or answer.head.get("ok") is True:
            error = died(gang)
            if error.code == NO_CAPACITY:
                error.message = _no_capacity(self._place.min_workers) + error.message
                if self._finder is not None and self._finder.foreign_hosts:
                    error.message += "; " + _strange(self._finder.foreign_hosts)
            return error
        raised = error_of(answer, first["rank"], first["host"], first["pid"], self._wants_json)
        raised.code = verdict["exit"]["error"]["code"]
        raised.report = verdict
        if isinstance(raised, WorkerError):
            raised.outcomes = [self._outcome_of(gang, row) for row in verdict["workers"]]
        return raised

    def _place_of(self, number: int) -> tuple[int, str]:
        """Rank and host now; the number itself, of one that is no member."""
        numbers = self._gang.numbers if self._gang is not None else {}
        for worker in self.workers:
            if numbers.get((worker["host"], worker["pid"])) == number:
                return worker["rank"], worker["host"]
        return number, "unknown"

    def _answer_of(self, gang: Gang, row: dict[str, Any]) -> Optional[Answer]:
        return self._answers.get(gang.numbers.get((row["host"], row["pid"]), -1))

    def _outcome_of(self, gang: Gang, row: dict[str, Any]) -> Any:
        answer = self._answer_of(gang, row)
        if answer is None:
            return None
        try:
            if answer.head.get("ok") is True:
                return value_of(answer, row["rank"], row["host"], self._wants_json)
            error = error_of(answer, row["rank"], row["host"], row["pid"], self._wants_json)
            return error.__cause__ or error
        except HvdrayError as unreadable:
            return unreadable

    @property
    def _wants_json(self) -> bool:
        return self._place.results == "json"


class Finder:
    """Asks a Discovery again and again, and tells what it finds. Its exceptions are printed once; the last list holds."""

    def __init__(self, launcher: Launcher, discovery: Discovery, interval: Callable[[], float], is_on_ray: bool):
        self.foreign_hosts: list[str] = []  # that were found, and are no nodes of Ray
        self._is_on_ray = is_on_ray
        self._launcher = launcher
        self._discovery = discovery
        self._interval = interval
        self._is_over = threading.Event()
        self._said: set[str] = set()
        self._told: Optional[list[str]] = None
        self._thread = threading.Thread(target=self._go, name="hvdray discovery", daemon=True)

    def start(self) -> None:
        """Asks once before it returns: what an earlier call was told may be old."""
        self._find()
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for an answer that never comes."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=0.5)

    def _go(self) -> None:
        while not self._is_over.wait(self._interval()) and self._launcher.lost is None:
            self._find()

    def _find(self) -> None:
        try:
            hosts = self._discovery.find_available_hosts_and_slots()
            found = [_host_text(host, int(slots)) for host, slots in hosts.items() if int(slots) > 0]
            if found != self._told and not self._is_over.is_set():
                self._told = found
                self._launcher.tell_hosts(found)
            if self._is_on_ray:
                from ._ray_broker import foreign_hosts

                self.foreign_hosts = foreign_hosts(host for host, slots in hosts.items() if int(slots) > 0)
                if self.foreign_hosts:
                    self._say(f"host discovery: {_strange(self.foreign_hosts)}", "")
        except Exception as error:
            self._say(f"host discovery: {type(error).__name__}: {error}")
        refused = self._launcher.refused_hosts
        if refused is not None:
            self._say(f"host discovery: {refused.message}")

    def _say(self, text: str, holds: str = "; the hosts known before stay") -> None:
        if text in self._said or self._is_over.is_set():
            return
        self._said.add(text)
        print(f"hvdray: {text}{holds}", file=sys.stderr, flush=True)


def _host_text(host: str, slots: int) -> str:
    return f"[{host}]:{slots}" if ":" in host and not host.startswith("[") else f"{host}:{slots}"


def _strange(hosts: Sequence[str]) -> str:
    return f"{', '.join(hosts)} {'is not a node' if len(hosts) == 1 else 'are not nodes'} of the Ray cluster"


def _no_capacity(least: int) -> str:
    # Scripts search for this sentence of Horovod's.
    return f"Timed out waiting for slots. Please check that you have enough resources to run at least {least} Horovod processes. "


def _silent(row: dict[str, Any], verdict: dict[str, Any]) -> WorkerDied:
    dead = WorkerDied(f"rank {row['rank']} on host {row['host']} exited with code 0 before it had answered", report=verdict)
    dead.rank, dead.host, dead.pid = row["rank"], row["host"], row["pid"]
    return dead
