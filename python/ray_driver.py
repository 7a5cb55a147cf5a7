# SPDX-License-Identifier: Apache-2.0
"""Talks to Ray for its child, `hvdray-agent launch`, which makes all decisions. They exchange JSON, one
object per line, through the child's stdin and stdout; cluster/ray/broker_messages.h lists the fields. A
job's entrypoint, in the cluster's own interpreter: Ray 2.40 to 2.60, Python 3.9 and later."""

import json
import os
import platform
import queue
import signal
import subprocess
import sys
import threading
import time

JOB_LOG = os.dup(2)  # for us alone: join_cluster() redirects Ray's stderr


def log_line(text):
    os.write(JOB_LOG, b"hvdray: ray_driver.py: " + text.encode("ascii", "backslashreplace") + b"\n")


def stop_early(*_):
    log_line("stopped before it had joined the cluster")
    os._exit(143)


signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, children's exit status would be lost
signal.signal(signal.SIGTERM, stop_early)  # a stop may arrive during the slow import of Ray
import hvdray_job  # contains no code, only job.json with the key of the job's links
import ray
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NODES_S, PENDING_S, MAILBOX_S, RELEASE_S, ORPHAN_S = 0.5, 5.0, 0.2, 10.0, 10.0
CLIENT_POLL_S, CLIENT_S = 5.0, 60.0  # a living client reports every 15 s
# A failed poll is repeated every POLL_AGAIN_S; after POLL_LIMIT_S Ray counts as gone.
POLLS, POLL_AGAIN_S, POLL_LIMIT_S = ("group", "watch", "signal", "client"), 1.0, 60.0


class Endpoint:
    """The actor of an agent endpoint. The agent is its child, in its process group, and ends with it."""

    def start(self, argv, line, log_name, *others_gpus):
        gpus = list(dict.fromkeys(sum(others_gpus, gpus_here())))
        names = {"@gpus": ",".join(gpus), "@raylet": str(os.getppid()),
                 "@python": os.path.dirname(sys.executable or "")}
        self.log = os.path.join(ray._private.worker._global_node.get_logs_dir_path(), log_name)
        forget(os.path.join(hvdray_job.__path__[0], "job.json"))
        if not os.path.isfile(argv[0]):  # the working directory is the user's; search the module paths
            argv[0] = next(filter(os.path.isfile, (os.path.join(place, argv[0])
                                                   for place in sys.path)), argv[0])
        if os.path.isfile(argv[0]):
            os.chmod(argv[0], 0o755)  # older versions of Ray unpack without modes
        stdin, self.lifeline = os.pipe()  # open as long as the actor lives
        os.write(self.lifeline, line.encode() + b"\n")
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the child inherits this thread's mask
        self.agent = subprocess.Popen([names.get(word, word) for word in argv], stdin=stdin,
                                      stdout=open(self.log, "wb"), stderr=subprocess.STDOUT)
        os.close(stdin)
        return {"node_id": ray.get_runtime_context().get_node_id(), "gpus": gpus,
                "ip": ray.util.get_node_ip_address(), "hostname": platform.node(),
                "pid": self.agent.pid}

    def wait(self):
        code = self.agent.wait()
        threading.Timer(ORPHAN_S, os._exit, [0]).start()  # if the head is gone, Ray ends no actors
        said = open(self.log, "rb").read()[-500:].decode("ascii", "backslashreplace").strip()
        return (f"the agent ended: {f'signal {-code}' if code < 0 else f'exit code {code}'}"
                + (": " + said.splitlines()[-1] if said else ""))


def gpus_here():
    return ray.get_runtime_context().get_accelerator_ids().get("GPU", [])


class Broker:
    """Executes the launcher's orders, which arrive in `inbox`. Only one thread runs it and calls Ray."""

    def __init__(self, say, job_id):
        self.say, self.job_id, self.inbox = say, job_id, queue.SimpleQueue()
        self.groups, self.endpoints, self.nodes, self.due = {}, {}, None, {}
        self.failing, self.is_resting, self.client_at = {}, False, time.monotonic()

    def run(self):
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
                remove_placement_group(entry["group"])
        except Exception as error:
            log_line(text_of(error))
            self.say(None)

    def next_message(self):  # from `inbox`, or a poll that is due
        wait = max(0.0, min(self.due.values()) - time.monotonic()) if self.due else None
        try:
            return self.inbox.get(timeout=wait)
        except queue.Empty:
            kind, body = min(self.due, key=self.due.get)
            del self.due[kind, body]
            return {kind: body}

    def poll(self, kind, body):
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

    def on_reserve(self, body):
        name, wanted = body["name"], body.get("selectors")
        more = {"bundle_label_selector": wanted} if wanted else {}
        try:
            group = placement_group(body["bundles"], body["strategy"], name=name, **more)
        except Exception as error:  # Ray rejects requests with many exception types
            return self.say({"group": {"name": name, "state": "failed", "text": text_of(error)}})
        self.groups[name] = {"group": group, "said": None, "at": 0.0, "since": time.monotonic()}
        self.poll("group", name)

    def on_release(self, body):
        entry = self.groups.pop(body["name"], None)
        self.due.pop(("group", body["name"]), None)
        if entry:
            remove_placement_group(entry["group"])
            self.say({"group": {"name": body["name"], "state": "removed"}})

    def on_group(self, name):
        entry, now = self.groups[name], time.monotonic()
        table = placement_group_table(entry["group"])
        state = table.get("state", "PENDING").lower().replace("prepared", "pending")
        nodes = table.get("bundles_to_node_id", {})
        found = {"name": name, "state": state,
                 "reason": table.get("stats", {}).get("scheduling_state", ""),
                 "bundles": [nodes.get(i) or "" for i in range(entry["group"].bundle_count)]}
        if found != entry["said"] or (state == "pending" and now - entry["at"] >= PENDING_S):
            entry["said"], entry["at"] = found, now
            self.say({"group": found})
        if state != "removed":  # poll often at first: an idle cluster answers within milliseconds
            self.due["group", name] = now + min(0.5, 0.01 + 0.2 * (now - entry["since"]))

    def on_endpoint(self, body):
        endpoint = self.endpoints[body["endpoint"]] = {"number": body["endpoint"], "actor": None}
        try:
            group = self.groups[body["name"]]["group"]
            nice = {"RAY_worker_niceness": "0"}  # Ray ignores it in the job's environment
            options = [{"num_cpus": 0, "num_gpus": group.bundle_specs[place].get("GPU", 0),
                        "scheduling_strategy": PlacementGroupSchedulingStrategy(group, place),
                        "runtime_env": {"env_vars": nice}} for place in body["bundles"]]
            wanted = body.get("runtime_env", {})
            options[0]["runtime_env"] = {**wanted,
                                         "env_vars": {**wanted.get("env_vars", {}), **nice}}
            endpoint["actor"] = ray.remote(Endpoint).options(max_restarts=0, **options[0]).remote()
            others = [ray.remote(gpus_here).options(max_retries=0, **more).remote()
                      for more in options[1:] if more["num_gpus"]]
            log_name = f"hvdray_{self.job_id}_endpoint{body['endpoint']}.log"
            self.when_done(endpoint["actor"].start.remote(body["argv"], body["stdin"], log_name,
                                                          *others), "started", endpoint)
        except Exception as error:
            self.on_ended((endpoint, text_of(error)))

    def when_done(self, reply, kind, endpoint):
        def tell(future):  # runs on one of Ray's threads
            error = future.exception()
            self.inbox.put({"ended": (endpoint, text_of(error))} if error else
                           {kind: (endpoint, future.result())})
        reply.future().add_done_callback(tell)

    def on_started(self, body):
        endpoint, facts = body
        if self.endpoints.get(endpoint["number"]) is endpoint:
            self.say({"endpoint": {"endpoint": endpoint["number"], "state": "started", **facts}})
            self.when_done(endpoint["actor"].wait.remote(), "ended", endpoint)

    def on_ended(self, body):
        endpoint, text = body
        if endpoint and self.endpoints.get(endpoint["number"]) is endpoint:  # if not, the end is already reported
            del self.endpoints[endpoint["number"]]
            self.say({"endpoint": {"endpoint": endpoint["number"], "state": "ended", "text": text}})
            if endpoint["actor"]:
                ray.kill(endpoint["actor"])

    def on_close_endpoint(self, body):
        self.on_ended((self.endpoints.get(body["endpoint"]), "it was asked to end"))

    def on_rest(self, _):
        """Stops polling nodes and groups until the next watch order."""
        self.is_resting = True
        self.due = {key: at for key, at in self.due.items() if key[0] not in ("watch", "group")}

    def on_watch(self, _):
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

    def on_signal(self, _):
        """Ray does not report a second stop of a job; the client uploads a package of this name instead."""
        kv, key = ray.experimental.internal_kv, f"gcs://hvdray_now_{self.job_id}.zip"
        if kv._internal_kv_exists(key):
            kv._internal_kv_del(key)
            self.say({"signal": int(signal.SIGTERM)})
        self.due["signal", None] = time.monotonic() + MAILBOX_S


    def on_client(self, _):
        """For a job that ends with its client: the client uploads a package of this name while it lives."""
        kv, key = ray.experimental.internal_kv, f"gcs://hvdray_here_{self.job_id}.zip"
        if kv._internal_kv_exists(key):
            kv._internal_kv_del(key)
            self.client_at = time.monotonic()
        elif time.monotonic() - self.client_at > CLIENT_S:
            return self.say({"stop": {"signo": int(signal.SIGTERM), "why":
                                      f"the client has been gone for {CLIENT_S:g} s"}})
        self.due["client", None] = time.monotonic() + CLIENT_POLL_S


def leaving_nodes():  # id -> deadline in seconds since 1970; 0: unknown
    state = ray._private.state.state  # its accessor's name differs between Ray 2.40 and 2.60
    accessor = getattr(state, "_global_state_accessor", getattr(state, "global_state_accessor", 0))
    ask = getattr(accessor, "get_draining_nodes", dict)
    return {node: at / 1000 for node, at in ask().items()}


def own(resources):  # without the groups' shares; object stores fluctuate
    return {name: amount for name, amount in resources.items()
            if "_group_" not in name and name != "object_store_memory"}


def text_of(error):
    error = getattr(error, "cause", None) or error  # the text of a RayTaskError is a traceback
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) < 800 else f"{text[:400]} ... {text[-400:]}"  # may contain a traceback


def join_cluster(log_name):  # returns the launcher's first facts; our parent's parent is the raylet
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


def forget(path):  # it has the links' key and the values of -x, and Ray keeps packages for long
    try:
        os.unlink(path)
    except OSError:
        pass


def write_lines(pipe, outbox):
    with pipe:
        while (message := outbox.get()) is not None:
            pipe.write(json.dumps(message).encode("ascii") + b"\n")
            pipe.flush()


def main():
    os.chmod(job := os.path.join(hvdray_job.__path__[0], "job.json"), 0o600)
    whole = json.load(open(job, encoding="utf-8"))
    job_id, settings = whole["job_id"], whole.get("options", {}).get("settings", {})
    outbox = queue.SimpleQueue()
    outbox.put({"hello": join_cluster(f"hvdray_{job_id}.ray.log")})
    broker = Broker(outbox.put, job_id)
    stops = (signal.SIGTERM, signal.SIGINT)  # the launcher ignores them and learns of them from us
    for stop in stops:
        signal.signal(stop, lambda signo, _: (outbox.put({"signal": signo}),
                                              broker.inbox.put({"signal": None})))
    os.chmod(agent := os.path.join(os.path.dirname(__file__), "hvdray-agent"), 0o755)
    launcher = subprocess.Popen([agent, "launch", os.path.dirname(job)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=JOB_LOG,
                             preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN) for s in stops])
    threading.Thread(target=write_lines, args=(launcher.stdin, outbox), daemon=True).start()
    if settings.get("ray.stops_with_client"):
        broker.inbox.put({"client": None})
    caller = threading.Thread(target=broker.run, daemon=True)
    caller.start()
    for line in launcher.stdout:
        forget(job)  # the launcher's first order shows that it has read the file
        broker.inbox.put(json.loads(line))
    code = launcher.wait()
    forget(job)
    broker.inbox.put(None)
    caller.join(RELEASE_S)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    try:
        main()
    except BaseException as fault:  # while connecting, Ray turns SIGTERM into SystemExit
        stop_early() if isinstance(fault, SystemExit) else log_line(text_of(fault))
        os._exit(125)
