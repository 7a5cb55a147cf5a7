#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of `docker` that hvdray uses, without its daemon. Root, Linux.

A container has namespaces for mounts and processes, and writes to a layer of its own over the whole file system of the
host. Where tests could take a difference for hvdray's merit, it does as Docker does: what `exec` started is no child of
the client, does not end with it and gets no signal, it only sees the end of its stdin; a container whose first process
ends is gone with what it has written; an option that is not known is an error.

The registry is the file images.json beside this program: {"NAME": ["VARIABLE=VALUE", …]}.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

STATE = pathlib.Path("/run/pretend-docker")
CONTAINER_INIT = r"""
set -e
mount --make-rprivate /
mkdir -p "$LAYER/upper" "$LAYER/work" "$LAYER/root"
mount -t overlay -o "lowerdir=/,upperdir=$LAYER/upper,workdir=$LAYER/work" overlay "$LAYER/root"
cd "$LAYER/root"
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs tmpfs run
for pair in "$@"; do
  source=${pair%%:*} target=${pair#*:}; target=.${target%:ro}
  if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "${target%/*}"; touch "$target"; fi
  mount --bind "$source" "$target"
done
exec /usr/sbin/chroot . /bin/bash -c 'mkdir -p "$HOME"; cd "$HOME"; exec "$0" "$@"' $COMMAND
"""


def fail(text, code=1):
    print(f"docker: {text}", file=sys.stderr)
    sys.exit(code)


def take_options(words, flags=(), valued=()):
    """[(option, value)] and the words that follow the options."""
    taken = []
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if name in flags and not equals:
            taken.append((name, ""))
        elif name in valued:
            taken.append((name, value if equals else words.pop(0)))
        else:
            fail(f"unknown flag: {name}", 125)
    return taken, words


def start_time(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    return ""


def containers():
    found = {}
    for path in (STATE / "containers").glob("*.json"):
        container = json.loads(path.read_text())
        if start_time(container["pid"]) == container["start"] != "":
            found[container["id"]] = container
        else:  # all are started with --rm
            path.unlink()
            shutil.rmtree(container["layer"], ignore_errors=True)
    return found


def find(word):
    for container in containers().values():
        if word in (container["id"], container["name"]):
            return container
    fail(f"No such container: {word}")
    return None


def registry():
    return json.loads((pathlib.Path(__file__).parent / "images.json").read_text())


def pulled(image):
    return STATE / "images" / image.replace("/", "_")


def pull(words):
    image = words[-1]
    if image not in registry():
        fail(f"manifest for {image} not found: manifest unknown")
    pulled(image).parent.mkdir(parents=True, exist_ok=True)
    with pulled(image).open("a") as pulls:
        pulls.write("pulled\n")
    print(f"Status: Downloaded newer image for {image}")


def image_command(words):
    if words.pop(0) != "inspect":
        fail("unknown command")
    options, (image,) = take_options(words, valued=("-f",))
    if not pulled(image).exists():
        fail(f"No such image: {image}")
    if not options:
        print("[]")
    elif options[0][1] == "{{range .Config.Env}}{{println .}}{{end}}":
        print("\n".join(registry()[image]) + "\n")
    else:
        fail("template not known")


def run(words):
    options, words = take_options(words, flags=("--rm", "-d", "-it"),
                                  valued=("--name", "--label", "-v", "-e", "--net", "--shm-size", "--ulimit"))
    image, *command = words
    if not pulled(image).exists():
        fail(f"Unable to find image '{image}' locally", 125)
    names = [value for name, value in options if name == "--name"]
    if any(container["name"] in names for container in containers().values()):
        fail(f'Conflict. The container name "/{names[0]}" is already in use', 125)
    ident = uuid.uuid4().hex * 2
    layer = STATE / "layers" / ident
    layer.mkdir(parents=True)
    home = next((word[5:] for word in registry()[image] if word.startswith("HOME=")), "/root")
    variables = dict(word.split("=", 1) for word in [*registry()[image], f"HOME={home}",
                                                     *(value for name, value in options if name == "-e")])
    variables.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    hold = layer / "stdin"
    os.mkfifo(hold)
    first = subprocess.Popen(  # pylint: disable=consider-using-with
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINER_INIT, "init",
         *(value for name, value in options if name == "-v")],
        stdin=os.open(hold, os.O_RDWR), stdout=subprocess.DEVNULL, stderr=(layer / "log").open("w"),
        start_new_session=True, env={**variables, "LAYER": str(layer), "COMMAND": " ".join(command)})
    until = time.monotonic() + 60
    while not (pid := first_inside(first.pid)) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    if not pid:
        fail("the container did not start: " + (layer / "log").read_text(), 125)
    labels = [value for name, value in options if name == "--label"]
    path = STATE / "containers" / f"{ident}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"id": ident, "name": names[0], "labels": labels, "pid": pid, "start": start_time(pid),
                                "layer": str(layer), "variables": variables, "options": options}))
    print(ident)


def first_inside(parent):
    """The container's process 1, once it is the command itself."""
    with contextlib.suppress(OSError):
        for pid in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == b"bash\0":
                return int(pid)
    return 0


def ps(words):
    options, _ = take_options(words, flags=("-a", "-q", "-aq", "--no-trunc"), valued=("--filter",))
    wanted = [value.removeprefix("label=") for name, value in options if name == "--filter"]
    for container in containers().values():
        if set(wanted) <= set(container["labels"]):
            print(container["id"])


def kill(words):
    container = find(words[-1])
    os.kill(container["pid"], signal.SIGKILL)
    while start_time(container["pid"]) == container["start"]:
        time.sleep(0.01)


def remove(words):
    _, (word,) = take_options(words, flags=("-f",))
    kill([word])


def execute(words):
    options, (word, *command) = take_options(words, flags=("-i", "-it"), valued=("-u",))
    container = find(word)
    argv = ["nsenter", "-t", str(container["pid"]), "-m", "-p", "-r", f"--wdns={container['variables']['HOME']}",
            *command]
    stdin, ours = os.pipe()
    if not options or options[0][0] == "-u":
        stdin = os.open(os.devnull, os.O_RDONLY)
    outputs = [os.pipe(), os.pipe()]  # from the daemon to the client
    code_read, code_write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(ours)
        daemon(argv, container["variables"], stdin, [write for _, write in outputs], code_write)
    for descriptor in (stdin, code_write, *(write for _, write in outputs)):
        os.close(descriptor)
    threading.Thread(target=copy, args=(0, ours, True), daemon=True).start()
    copies = [threading.Thread(target=copy, args=(outputs[n][0], n + 1, False)) for n in range(2)]
    for thread in copies:
        thread.start()
    for thread in copies:
        thread.join()
    sys.stdout.flush()
    os._exit(int(os.read(code_read, 10) or b"137"))


def copy(source, target, is_closed):
    """Until the end; what nobody takes is dropped."""
    while data := os.read(source, 65536):
        with contextlib.suppress(OSError):
            view = memoryview(data)
            while view:
                view = view[os.write(target, view):]
    if is_closed:
        os.close(target)


def daemon(argv, variables, stdin, outputs, code_write):
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with subprocess.Popen(argv, env=variables, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(stdin)
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        copies = [threading.Thread(target=copy, args=(pipe.fileno(), output, True), daemon=True)
                  for pipe, output in zip((process.stdout, process.stderr), outputs)]
        for thread in copies:
            thread.start()
        code = process.wait()
        for thread in copies:
            thread.join(1)
        with contextlib.suppress(OSError):
            os.write(code_write, str(code if code >= 0 else 128 - code).encode())
        os._exit(0)


def main():
    words = sys.argv[1:]
    verb = words.pop(0)
    verbs = {"pull": pull, "image": image_command, "run": run, "ps": ps, "kill": kill, "rm": remove, "exec": execute}
    if verb == "info":
        print("map[io.containerd.runc.v2:{} runc:{}]")
    elif verb in verbs:
        verbs[verb](words)
    else:
        fail(f"'{verb}' is not a docker command")


if __name__ == "__main__":
    main()
