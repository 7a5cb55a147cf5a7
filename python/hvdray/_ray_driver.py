# SPDX-License-Identifier: Apache-2.0
"""Talks to Ray for a launcher, which makes all decisions. They exchange JSON, one object per line;
cluster/ray/broker_messages.h lists the fields. Two lives: the entrypoint of a job (ray_driver.py there), in the
cluster's own interpreter, with `hvdray-agent launch` as its child; and a thread of a program that uses Ray, for its
`hvdray serve` (_ray_broker.py). One file, without the rest of the package. Ray 2.40 to 2.60, Python 3.9 and later."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import queue
import signal
import stat
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Optional

JOB_LOG = 2  # main() makes one for us alone: join_cluster() redirects Ray's stderr


def log_line(text: str) -> None:
    os.write(JOB_LOG, b"hvdray: ray_driver.py: " + text.encode("ascii", "backslashreplace") + b"\n")


def stop_early(*_: Any) -> None:
    log_line("stopped before it had joined the cluster")
    os._exit(143)


if __name__ == "__main__":
    JOB_LOG = os.dup(2)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, children's exit status would be lost
    signal.signal(signal.SIGTERM, stop_early)  # a stop may arrive during the slow import of Ray

if TYPE_CHECKING:
    ray: Any
    placement_group: Any
    placement_group_table: Any
    remove_placement_group: Any
    PlacementGroupSchedulingStrategy: Any
else:
    import ray
    from ray.util import placement_group, placement_group_table, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NODES_S, PENDING_S, MAILBOX_S, RELEASE_S, ORPHAN_S = 0.5, 5.0, 0.2, 10.0, 10.0
CLIENT_POLL_S, CLIENT_S = 5.0, 60.0  # a living client reports every 15 s
# A failed poll is repeated every POLL_AGAIN_S; after POLL_LIMIT_S Ray counts as gone.
POLLS, POLL_AGAIN_S, POLL_LIMIT_S = ("group", "watch", "signal", "client"), 1.0, 60.0


class Endpoint:
    """The actor of an agent endpoint. The agent is its child, in its process group, and ends with it."""

    def start(self, argv: list[str], line: str, log_name: str, brought: Any, *others_gpus: list[str]) -> dict[str, Any]:
        """`brought`: the agent, of bring(); None: it is in the job's package."""
        gpus = list(dict.fromkeys(sum(others_gpus, gpus_here())))
        names = {"@gpus": ",".join(gpus), "@raylet": str(os.getppid()), "@python": sys.executable or ""}
        self.log = os.path.join(ray._private.worker._global_node.get_logs_dir_path(), log_name)
        argv[0] = packaged(argv[0]) if brought is None else unpacked(*brought)
        program = os.open(argv[0], os.O_RDONLY)  # what is looked at is what runs
        if brought is not None and not is_own(os.fstat(program)):
            raise PermissionError(f"{argv[0]} is another user's")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.log)  # everybody may write to Ray's directories: it may be another user's, or a link
        stdin, self.lifeline = os.pipe()  # open as long as the actor lives
        os.write(self.lifeline, line.encode() + b"\n")
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the child inherits this thread's mask
        self.agent = subprocess.Popen([names.get(word, word) for word in argv], executable=f"/proc/self/fd/{program}",
                                      pass_fds=[program], stdin=stdin, stdout=open(self.log, "xb"), stderr=subprocess.STDOUT)
        os.close(stdin)
        os.close(program)
        return {"node_id": ray.get_runtime_context().get_node_id(), "gpus": gpus,
                "ip": ray.util.get_node_ip_address(), "hostname": platform.node(),
                "pid": self.agent.pid}

    def wait(self) -> str:
        code = self.agent.wait()
        threading.Timer(ORPHAN_S, os._exit, [0]).start()  # if the head is gone, Ray ends no actors
        said = open(self.log, "rb").read()[-500:].decode("ascii", "backslashreplace").strip()
        return (f"the agent ended: {f'signal {-code}' if code < 0 else f'exit code {code}'}"
                + (": " + said.splitlines()[-1] if said else ""))


def packaged(agent: str) -> str:
    """Its path in the job's package."""
    import hvdray_job  # type: ignore[import]  # contains no code, only private() files

    forget(hvdray_job.__path__[0])
    if not os.path.isfile(agent):  # the working directory is the user's; search the module paths
        agent = next(filter(os.path.isfile, (os.path.join(place, agent) for place in sys.path)), agent)
    if os.path.isfile(agent):
        os.chmod(agent, 0o755)  # older versions of Ray unpack without modes
    return agent


def bring(path: str) -> tuple[str, list[Any]]:
    """A file of ours for unpacked(). The list keeps Ray from sending the bytes before somebody asks for them."""
    with open(path, "rb") as file:
        content = file.read()
    return hashlib.sha256(content).hexdigest()[:16], [ray.put(content)]


def unpacked(digest: str, content: list[Any]) -> str:
    """Its path on this node, once a session of Ray."""
    path = os.path.join(ray._private.worker._global_node.get_session_dir_path(), f"hvdray-agent-{digest}")
    if not os.path.lexists(path) or not is_own(os.lstat(path)):
        whole = ray.get(content[0])  # fails when the program ends meanwhile
        if os.path.lexists(path) or not put_nameless(path, whole):
            put_renamed(path, whole)
    return path


def is_own(info: os.stat_result) -> bool:
    """A file that nobody else has put there or may change: everybody may write to Ray's directories."""
    return stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022


def put_nameless(path: str, whole: bytes) -> bool:
    """Makes that program of a file without a name, of which no kill leaves anything. False: the filesystem has none."""
    try:
        with open(os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY, 0o755), "wb") as file:
            file.write(whole)
            file.flush()
            os.fchmod(file.fileno(), 0o755)
            readable = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY)
    except OSError:
        return False
    try:  # nobody can run what is open for writing, so it gets its name afterwards
        os.link(f"/proc/self/fd/{readable}", path, src_dir_fd=readable)  # without src_dir_fd Python would link the link
    except FileExistsError:
        pass  # of another actor of this node: the same
    except OSError:
        return False
    finally:
        os.close(readable)
    return True


def put_renamed(path: str, whole: bytes) -> None:
    fresh = f"{path}.{os.getpid()}"
    try:
        with open(fresh, "xb") as file:
            file.write(whole)
        os.chmod(fresh, 0o755)
        os.rename(fresh, path)
    except BaseException:  # Ray ends an actor by SIGTERM, as SystemExit
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def gpus_here() -> list[str]:
    return list(ray.get_runtime_context().get_accelerator_ids().get("GPU", []))


class Broker:
    """Executes the launcher's orders, which arrive in `inbox`. Only one thread runs it and calls Ray."""

    def __init__(self, say: Callable[[Any], None], job_id: str, within: Any = None):
        """`within`: a placement group that has the slots; it stays as it is."""
        self.say, self.job_id, self.within = say, job_id, within
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.groups: dict[str, dict[str, Any]] = {}
        self.endpoints: dict[int, dict[str, Any]] = {}
        self.nodes: Any = None
        self.due: dict[tuple[str, Any], float] = {}
        self.failing: dict[tuple[str, Any], float] = {}
        self.is_resting, self.client_at = False, time.monotonic()
        self.brought: dict[str, Any] = {}
        self.failure = ""  # why it has ended, if Ray failed

    def run(self) -> None:
        """Runs until `inbox` gives None, or Ray fails; then the launcher sees our end of the pipe close."""
        try:
            while (message := self.next_message()) is not None:
                for kind, body in message.items():
                    if kind in POLLS:
                        self.poll(kind, body)
                    else:
                        getattr(self, "on_" + kind)(body)
            for endpoint in self.endpoints.values():
                ray.kill(endpoint["actor"])
            for entry in self.groups.values():
                if self.within is None:
                    remove_placement_group(entry["group"])
        except Exception as error:
            self.failure = text_of(error)
            log_line(self.failure)
            self.say(None)

    def next_message(self) -> Any:  # from `inbox`, or a poll that is due
        wait = max(0.0, min(self.due.values()) - time.monotonic()) if self.due else None
        try:
            return self.inbox.get(timeout=wait)
        except queue.Empty:
            kind, body = min(self.due, key=self.due.__getitem__)
            del self.due[kind, body]
            return {kind: body}

    def poll(self, kind: str, body: Any) -> None:
        """Repeats a failed call to Ray for a while, so that one missing answer does not end the job."""
        key, now = (kind, body if isinstance(body, str) else None), time.monotonic()
        try:
            getattr(self, "on_" + kind)(body)
            self.failing.pop(key, None)
        except Exception as error:
            if now - self.failing.setdefault(key, now) > POLL_LIMIT_S:
                raise
            if self.failing[key] == now:
                log_line(f"asking again: {text_of(error)}")
            self.due[key] = now + POLL_AGAIN_S

    def on_reserve(self, body: dict[str, Any]) -> None:
        name, wanted, bundles = body["name"], body.get("selectors"), body["bundles"]
        more = {"bundle_label_selector": wanted} if wanted else {}
        group, places, failed = self.within, list(range(len(bundles))), {}
        try:
            if group is None:
                group = placement_group(bundles, body["strategy"], name=name, **more)
            else:
                places = places_in(group, bundles, more)
        except NoRoom as error:
            failed = {"reason": "INFEASIBLE", "text": str(error)}
        except Exception as error:  # Ray rejects requests with many exception types
            failed = {"text": text_of(error)}
        if failed:
            return self.say({"group": {"name": name, "state": "failed", **failed}})
        self.groups[name] = {"group": group, "bundles": bundles, "places": places, "said": None, "at": 0.0,
                             "since": time.monotonic()}
        self.poll("group", name)

    def on_release(self, body: dict[str, Any]) -> None:
        entry = self.groups.pop(body["name"], None)
        self.due.pop(("group", body["name"]), None)
        if entry and self.within is None:
            remove_placement_group(entry["group"])
            self.say({"group": {"name": body["name"], "state": "removed"}})

    def on_group(self, name: str) -> None:
        entry, now = self.groups[name], time.monotonic()
        table = placement_group_table(entry["group"])
        state = table.get("state", "PENDING").lower().replace("prepared", "pending")
        nodes = table.get("bundles_to_node_id", {})
        found = {"name": name, "state": state,
                 "reason": table.get("stats", {}).get("scheduling_state", ""),
                 "bundles": [nodes.get(place) or "" for place in entry["places"]]}
        if found != entry["said"] or (state == "pending" and now - entry["at"] >= PENDING_S):
            entry["said"], entry["at"] = found, now
            self.say({"group": found})
        if state != "removed":  # poll often at first: an idle cluster answers within milliseconds
            self.due["group", name] = now + min(0.5, 0.01 + 0.2 * (now - entry["since"]))

    def on_endpoint(self, body: dict[str, Any]) -> None:
        endpoint = self.endpoints[body["endpoint"]] = {"number": body["endpoint"], "actor": None}
        try:
            entry = self.groups[body["name"]]
            nice = {"RAY_worker_niceness": "0"}  # Ray ignores it in the job's environment
            options: list[dict[str, Any]] = [
                {"num_cpus": 0, "num_gpus": entry["bundles"][i].get("GPU", 0), "runtime_env": {"env_vars": nice},
                 "scheduling_strategy": PlacementGroupSchedulingStrategy(entry["group"], entry["places"][i])}
                for i in body["bundles"]]
            wanted = body.get("runtime_env", {})
            options[0]["runtime_env"] = {**wanted,
                                         "env_vars": {**wanted.get("env_vars", {}), **nice}}
            endpoint["actor"] = ray.remote(Endpoint).options(max_restarts=0, **options[0]).remote()
            others = [ray.remote(gpus_here).options(max_retries=0, **more).remote()
                      for more in options[1:] if more["num_gpus"]]
            log_name = f"hvdray_{self.job_id}_endpoint{body['endpoint']}.log"
            brought, path = None, body["argv"][0]
            if path.startswith("@agent:"):
                brought = self.brought[path] = self.brought.get(path) or bring(path[len("@agent:"):])
            self.when_done(endpoint["actor"].start.remote(body["argv"], body["stdin"], log_name, brought,
                                                          *others), "started", endpoint)
        except Exception as error:
            self.on_ended((endpoint, text_of(error)))

    def when_done(self, reply: Any, kind: str, endpoint: dict[str, Any]) -> None:
        def tell(future: Any) -> None:  # runs on one of Ray's threads
            error = future.exception()
            self.inbox.put({"ended": (endpoint, text_of(error))} if error else
                           {kind: (endpoint, future.result())})
        reply.future().add_done_callback(tell)

    def on_started(self, body: Any) -> None:
        endpoint, facts = body
        if self.endpoints.get(endpoint["number"]) is endpoint:
            self.say({"endpoint": {"endpoint": endpoint["number"], "state": "started", **facts}})
            self.when_done(endpoint["actor"].wait.remote(), "ended", endpoint)

    def on_ended(self, body: Any) -> None:
        endpoint, text = body
        if endpoint and self.endpoints.get(endpoint["number"]) is endpoint:  # if not, the end is already reported
            del self.endpoints[endpoint["number"]]
            self.say({"endpoint": {"endpoint": endpoint["number"], "state": "ended", "text": text}})
            if endpoint["actor"]:
                ray.kill(endpoint["actor"])

    def on_close_endpoint(self, body: dict[str, Any]) -> None:
        self.on_ended((self.endpoints.get(body["endpoint"]), "it was asked to end"))

    def on_rest(self, _: Any) -> None:
        """Stops polling nodes and groups until the next watch order."""
        self.is_resting = True
        self.due = {key: at for key, at in self.due.items() if key[0] not in ("watch", "group")}

    def on_watch(self, _: Any) -> None:
        if self.is_resting:
            self.is_resting = False
            self.due.update({("group", name): time.monotonic() for name in self.groups})
        free = ray._private.state.available_resources_per_node()  # connects if necessary
        leaving = leaving_nodes()
        nodes = [{"id": node["NodeID"], "ip": node["NodeManagerAddress"],
                  "is_alive": node["Alive"], "total": own(node["Resources"]),
                  "free": own(free.get(node["NodeID"], {}) if node["Alive"] else {}),
                  "labels": node.get("Labels") or {},
                  **({"leaves_at": leaving[node["NodeID"]]} if node["NodeID"] in leaving else {})}
                 for node in ray.nodes()]
        if nodes != self.nodes:
            self.say({"nodes": nodes})
        self.nodes = nodes
        self.due["watch", None] = time.monotonic() + NODES_S

    def on_signal(self, _: Any) -> None:
        """Ray does not report a second stop of a job; the client uploads a package of this name instead."""
        kv, key = ray.experimental.internal_kv, f"gcs://hvdray_now_{self.job_id}.zip"
        if kv._internal_kv_exists(key):
            kv._internal_kv_del(key)
            self.say({"signal": int(signal.SIGTERM)})
        self.due["signal", None] = time.monotonic() + MAILBOX_S

    def on_client(self, _: Any) -> None:
        """For a job that ends with its client: the client uploads a package of this name while it lives."""
        kv, key = ray.experimental.internal_kv, f"gcs://hvdray_here_{self.job_id}.zip"
        if kv._internal_kv_exists(key):
            kv._internal_kv_del(key)
            self.client_at = time.monotonic()
        elif time.monotonic() - self.client_at > CLIENT_S:
            return self.say({"stop": {"signo": int(signal.SIGTERM), "why":
                                      f"the client has been gone for {CLIENT_S:g} s"}})
        self.due["client", None] = time.monotonic() + CLIENT_POLL_S


def leaving_nodes() -> dict[str, float]:  # id -> deadline in seconds since 1970; 0: unknown
    state = ray._private.state.state  # its accessor's name differs between Ray 2.40 and 2.60
    accessor = getattr(state, "_global_state_accessor", getattr(state, "global_state_accessor", 0))
    ask = getattr(accessor, "get_draining_nodes", dict)
    return {node: at / 1000 for node, at in ask().items()}


class NoRoom(Exception):
    pass


def places_in(group: Any, bundles: list[dict[str, float]], more: dict[str, Any]) -> list[int]:
    """Which bundle of the group takes each one asked for: the first with room. Raises NoRoom."""
    if more:
        raise NoRoom("labels of nodes can't be asked for within a placement group: its nodes are chosen")
    free = [dict(bundle) for bundle in group.bundle_specs]
    ours = ray.get_runtime_context().get_assigned_resources()  # this process is in the group, too
    for bundle in free:
        if ours and all(bundle.get(name, 0) >= amount for name, amount in ours.items()):
            bundle.update({name: bundle[name] - amount for name, amount in ours.items()})
            break
    places: list[int] = []
    for wanted in bundles:
        fits = [i for i, bundle in enumerate(free) if all(bundle.get(name, 0) >= amount for name, amount in wanted.items())]
        if not fits:
            text = ", ".join(f"{amount:g} {name}" for name, amount in bundles[0].items())
            raise NoRoom(f"the current placement group has room for {len(places)} workers of {text} each, and "
                         f"{len(bundles)} are asked for")
        places.append(fits[0])
        free[fits[0]].update({name: free[fits[0]][name] - amount for name, amount in wanted.items()})
    return places


def own(resources: dict[str, float]) -> dict[str, float]:  # without the groups' shares; object stores fluctuate
    return {name: amount for name, amount in resources.items()
            if "_group_" not in name and name != "object_store_memory"}


def text_of(error: Any) -> str:
    error = getattr(error, "cause", None) or error  # the text of a RayTaskError is a traceback
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) < 800 else f"{text[:400]} ... {text[-400:]}"  # may contain a traceback


def join_cluster(log_name: str) -> dict[str, Any]:  # returns the launcher's first facts; our parent's parent is the raylet
    ray.init(log_to_driver=False, logging_level="ERROR")
    logs = ray._private.worker._global_node.get_logs_dir_path()
    aside = os.open(os.path.join(logs, log_name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.dup2(aside, 1), 2)
    metadata = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")).get("metadata") or {}
    raylet = open(f"/proc/{os.getppid()}/stat", "rb").read().rsplit(b")", 1)[1].split()[1]
    return {"ray": ray.__version__, "python": platform.python_version(), "logs": logs,
            "node_id": ray.get_runtime_context().get_node_id(),
            "node_ip": ray.util.get_node_ip_address(), "raylet_pid": int(raylet),
            "submission_id": metadata.get("job_submission_id", "")}


def private(folder: str) -> list[str]:  # the links' key and the values of -x; what a client of `hvdray serve` says
    return [os.path.join(folder, name) for name in ("job.json", "control")]


def forget(folder: str) -> None:  # Ray keeps packages for long
    for path in private(folder):
        try:
            os.unlink(path)
        except OSError:
            pass


def write_lines(pipe: Any, outbox: queue.SimpleQueue[Any]) -> None:
    try:
        with pipe:
            while (message := outbox.get()) is not None:
                pipe.write(json.dumps(message).encode("ascii") + b"\n")
                pipe.flush()
    except OSError:
        pass  # the launcher has ended, as the reader of its orders hears, too


def main() -> None:
    import hvdray_job

    folder = hvdray_job.__path__[0]
    for path in filter(os.path.isfile, private(folder)):
        os.chmod(path, 0o600)  # older versions of Ray unpack without modes
    whole = json.load(open(os.path.join(folder, "job.json"), encoding="utf-8"))
    job_id, settings = whole["job_id"], whole.get("options", {}).get("settings", {})
    outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    outbox.put({"hello": join_cluster(f"hvdray_{job_id}.ray.log")})
    broker = Broker(outbox.put, job_id)
    stops = (signal.SIGTERM, signal.SIGINT)  # the launcher ignores them and learns of them from us

    def on_stop(signo: int, _: Any) -> None:
        outbox.put({"signal": signo})
        broker.inbox.put({"signal": None})

    for stop in stops:
        signal.signal(stop, on_stop)
    os.chmod(agent := os.path.join(os.path.dirname(__file__), "hvdray-agent"), 0o755)
    launcher = subprocess.Popen([agent, "launch", folder], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=JOB_LOG,
                             preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN) for s in stops])
    threading.Thread(target=write_lines, args=(launcher.stdin, outbox), daemon=True).start()
    if settings.get("stop_with_client"):
        broker.inbox.put({"client": None})
    caller = threading.Thread(target=broker.run, daemon=True)
    caller.start()
    assert launcher.stdout is not None
    for line in launcher.stdout:
        forget(folder)  # the launcher's first order shows that it has read the file
        broker.inbox.put(json.loads(line))
    code = launcher.wait()
    forget(folder)
    broker.inbox.put(None)
    caller.join(RELEASE_S)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    try:
        main()
    except BaseException as fault:  # while connecting, Ray turns SIGTERM into SystemExit
        stop_early() if isinstance(fault, SystemExit) else log_line(text_of(fault))
        os._exit(125)
