# SPDX-License-Identifier: Apache-2.0
"""A rank of async_test.py: calls collective/async/async.h as a binding does, through ctypes.

    async_program.py LIBRARY values          reduces, gathers, and says what came out
    async_program.py LIBRARY die PHASE KIND  rank VICTIM is killed in that phase; the others say how their operation ended
    async_program.py LIBRARY generations N   as many lives in one process
    async_program.py LIBRARY stall HOW       the last rank "never" submits, or "late"
    async_program.py LIBRARY late SECONDS    the last rank allocates its result after so long
    async_program.py LIBRARY stopped METHOD  rank VICTIM is stopped while it meets the others, at its first request of this METHOD
    async_program.py LIBRARY slow            rank VICTIM comes to two operations of the meeting 2 s late
    async_program.py LIBRARY forever         reduces until an error ends it
    async_program.py LIBRARY end HOW         ends without leaving, by that signal or an exception, while an operation waits"""

import array
import ctypes
import http.server
import os
import pathlib
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

FLOAT32 = 7
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, BARRIER, JOIN, ADD_SET = range(8)
KINDS = {"allreduce": ALLREDUCE, "allgather": ALLGATHER, "broadcast": BROADCAST, "alltoall": ALLTOALL, "reducescatter": REDUCESCATTER,
         "add": ADD_SET}
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int)
RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Request(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("process_set", ctypes.c_int), ("type", ctypes.c_int),
        ("op", ctypes.c_int), ("root", ctypes.c_int), ("device", ctypes.c_int), ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double), ("dimensions", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("input", ctypes.c_void_p), ("output", ctypes.c_void_p), ("splits", ctypes.POINTER(ctypes.c_int64)),
        ("split_count", ctypes.c_size_t), ("ranks", ctypes.POINTER(ctypes.c_int)), ("rank_count", ctypes.c_size_t),
        ("sequence", ctypes.c_int64), ("context", ctypes.c_void_p), ("allocate", ALLOCATE), ("run", RUN)]


class HorovodInternalError(RuntimeError):
    """As hvdray.torch has it."""


class Rank:
    def __init__(self, library, name="async_program"):
        self.library = ctypes.CDLL(library)
        self.library.hvdray_error.restype = ctypes.c_char_p
        self.rank = int(os.environ["HOROVOD_RANK"])
        self.async_ = ctypes.c_void_p()
        self.kept = []
        self.check(self.library.hvdray_async_init(name.encode(), ctypes.byref(self.async_)))

    def error(self):
        return self.library.hvdray_error().decode()

    def check(self, code):
        if code != 0:
            sys.exit(f"{code}: {self.error()}")

    def submit(self, kind, name, values, allocate=None, root=0):
        """The error, the handle, and where the result will be. A set that is added has ranks 0 and 2."""
        buffer = (ctypes.c_float * len(values)).from_buffer(array.array("f", values))
        shape = (ctypes.c_int64 * 1)(len(values))
        result = []

        def allocated(_context, dimensions, _count):
            if allocate is not None:
                allocate()
            result.append((ctypes.c_float * dimensions[0])())
            return ctypes.addressof(result[0])

        has_output = kind in (ALLREDUCE, BROADCAST)
        request = Request(
            name=name.encode(), kind=kind, type=FLOAT32, device=-1, root=root, prescale=1, postscale=1, dimensions=1, shape=shape,
            input=ctypes.addressof(buffer), output=ctypes.addressof(buffer) if has_output else None, allocate=ALLOCATE(allocated))
        if kind == ADD_SET:
            request.name, request.ranks, request.rank_count = None, (ctypes.c_int * 2)(0, 2), 2
        handle = ctypes.c_int64()
        self.kept.append((buffer, request))
        code = self.library.hvdray_async_submit(self.async_, ctypes.byref(request), ctypes.c_size_t(1), ctypes.byref(handle))
        return code, handle, buffer if has_output else result

    def begin(self, *words, **options):
        code, handle, result = self.submit(*words, **options)
        self.check(code)
        return handle, result

    def wait(self, handle):
        return self.library.hvdray_async_wait(self.async_, handle)

    def run(self, kind, name, values, **options):
        handle, result = self.begin(kind, name, values, **options)
        self.check(self.wait(handle))
        return list(result) if kind in (ALLREDUCE, BROADCAST) else list(result[0])

    def group(self, name, counts):
        """Sums ones, in place; the distinct results of each."""
        buffers = [(ctypes.c_float * count)(*([1.0] * count)) for count in counts]
        shapes = [(ctypes.c_int64 * 1)(count) for count in counts]
        requests = (Request * len(counts))(*(
            Request(name=f"{name}.{i}".encode(), type=FLOAT32, device=-1, prescale=1, postscale=1, dimensions=1, shape=shapes[i],
                    input=ctypes.addressof(buffer), output=ctypes.addressof(buffer)) for i, buffer in enumerate(buffers)))
        handles = (ctypes.c_int64 * len(counts))()
        self.check(self.library.hvdray_async_submit(self.async_, requests, ctypes.c_size_t(len(counts)), handles))
        for handle in handles:
            self.check(self.library.hvdray_async_wait(self.async_, ctypes.c_int64(handle)))
        return [set(buffer) for buffer in buffers]

    def close(self):
        self.library.hvdray_async_free(self.async_)


def values(library):
    rank = Rank(library)
    size = int(os.environ["HOROVOD_SIZE"])
    names = [f"tensor {i}" for i in range(40)]
    order = names[rank.rank:] + names[:rank.rank]  # another one on each rank
    for step in range(5):
        begun = {name: rank.begin(ALLREDUCE, name, [step + rank.rank] * (1 << (names.index(name) % 18))) for name in order}
        for name, (handle, result) in begun.items():
            rank.check(rank.wait(handle))
            assert set(result) == {size * step + size * (size - 1) / 2}, (name, result[0])
    assert rank.run(ALLGATHER, "gather", [rank.rank] * rank.rank) == [r for r in range(size) for _ in range(r)]
    assert rank.run(BROADCAST, "broadcast", [rank.rank], root=size - 1) == [size - 1]
    assert rank.run(ALLTOALL, "exchange", list(range(size))) == [rank.rank] * size
    rank.check(rank.wait(rank.begin(BARRIER, "barrier", [])[0]))
    assert rank.group("group", [1, 70_000]) == [{size}, {size}]
    for step in range(rank.rank):  # those that have joined add zeros
        assert rank.run(ALLREDUCE, f"some {step}", [1.0]) == [size - 1 - step]
    rank.check(rank.wait(rank.begin(JOIN, "join", [])[0]))
    assert rank.run(REDUCESCATTER, "scatter", [1] * (size + 1)) == [size] * (2 if rank.rank == 0 else 1)
    rank.close()
    print("values are right", flush=True)


def die(library, phase, kind):
    """Phases: "before" it submits, "after" it has, when its result is "allocated" (so others exchange data), once it has "joined",
    or when the members of the set that it adds are "meeting"."""
    victim = int(os.environ["VICTIM"])
    me = int(os.environ["HOROVOD_RANK"])
    death = os.environ["DEATH"]

    def dies(pid=None):
        with open(death + ".new", "w") as file:
            file.write(str(time.monotonic()))
        os.rename(death + ".new", death)
        os.kill(pid or os.getpid(), signal.SIGKILL)

    if me == victim and phase == "meeting":
        with_proxy(lambda pid, request: "_set1_" in request.path and dies(pid), lambda: work_and_die(library, phase, KINDS[kind], dies))
    elif me == victim:
        child = os.fork()  # hvdray would end the job for a worker that is killed
        if child:
            os.waitpid(child, 0)
            return
        work_and_die(library, phase, KINDS[kind], dies)
    else:
        say_how_it_ended(Rank(library), phase, KINDS[kind], death)


def count_of(phase):
    return 1_000_000 if phase == "after" else 1000


def work_and_die(library, phase, kind, dies):
    rank = Rank(library)
    rank.run(ALLREDUCE, "first", [1.0])
    if phase in ("after", "meeting"):
        handle, _ = rank.begin(kind, "last", [1.0] * count_of(phase))
        while phase == "meeting":
            rank.wait(handle)
    elif phase == "allocated":
        handle, _ = rank.begin(kind, "last", [1.0] * count_of(phase), allocate=dies)
        rank.wait(handle)
    elif phase == "joined":
        rank.begin(JOIN, "join", [])
        time.sleep(0.05)  # so that others may be in an operation with its zeros, or not
    dies()


def say_how_it_ended(rank, phase, kind, death):
    # Each was done before the death, or ends with it.
    more = [(ALLREDUCE, f"more {i}", 1) for i in range(1_000_000 if phase == "joined" else 1)]
    for what, name, elements in [(ALLREDUCE, "first", 1), (kind, "last", count_of(phase)), *more]:
        code, handle, _ = rank.submit(what, name, [1.0] * elements)
        code = code or rank.wait(handle)
        line, end = rank.error(), time.monotonic()
        if code != 0:
            break
    with open(death) as file:
        late = end - float(file.read())
    print(f"rank {rank.rank}: after {late * 1000:.0f} ms: {code}: {line}", flush=True)
    rank.close()


def with_proxy(seen, act):
    """`act` in a child whose rendezvous is a proxy here: `seen(pid, request)` comes between a request and its answer."""
    origin = f"http://{os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR']}:{os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT']}"
    child = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = urllib.request.Request(origin + self.path, body or None, method=self.command)
            try:
                with urllib.request.urlopen(request) as answer:
                    status, body = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, body = error.code, error.read()
            seen(child[0], self)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_DELETE = forward

        def log_message(self, *_):
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    child.append(os.fork())
    if child[0] == 0:
        os.environ.update(HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1", HOROVOD_GLOO_RENDEZVOUS_PORT=str(server.server_port))
        act()
        os._exit(1)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert os.WIFSIGNALED(os.waitpid(child[0], 0)[1])


def stopped(library, method):
    """rank VICTIM is stopped at its first request of this method to the rendezvous, until the others have given up."""
    death = pathlib.Path(os.environ["DEATH"])
    me = int(os.environ["HOROVOD_RANK"])
    others = int(os.environ["HOROVOD_SIZE"]) - 1

    def stops(pid, request):
        if request.command != method:
            return
        os.kill(pid, signal.SIGSTOP)
        while len(list(death.parent.glob(f"{death.name}.*"))) < others:
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)

    if me == int(os.environ["VICTIM"]):
        with_proxy(stops, lambda: Rank(library))
        return
    hvdray = ctypes.CDLL(library)
    code = hvdray.hvdray_async_init(b"async_program", ctypes.byref(ctypes.c_void_p()))
    hvdray.hvdray_error.restype = ctypes.c_char_p
    print(f"rank {me}: {code}: {hvdray.hvdray_error().decode()}", flush=True)
    death.with_name(f"{death.name}.{me}").touch()


def slow(library):
    """rank VICTIM, which is 0, comes 2 s late to the connections, and again to what follows."""
    late = set()

    def delays(_pid, request):
        what = request.command if request.command == "DELETE" else request.path.rpartition("/")[2]
        if what in ("DELETE", "2") and what not in late:
            late.add(what)
            time.sleep(2)

    def works():
        rank = Rank(library)
        assert rank.run(ALLREDUCE, "sum", [1.0]) == [float(os.environ["HOROVOD_SIZE"])]
        rank.close()

    def works_and_dies():
        works()
        print("rank 0 is late", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    if os.environ["HOROVOD_RANK"] == os.environ["VICTIM"]:
        with_proxy(delays, works_and_dies)
    else:
        works()


def generations(library, count):
    size = int(os.environ["HOROVOD_SIZE"])
    for generation in range(int(count)):
        rank = Rank(library, f"generation{generation}")
        assert rank.run(ALLREDUCE, "one", [1.0]) == [size]
        rank.close()
    print("all generations are over", flush=True)


def end(library, how):
    rank = Rank(library)
    rank.run(ALLREDUCE, "seen", [1.0])
    if rank.rank == 0:
        rank.begin(ALLREDUCE, "waits", [1.0])
        while "waits" not in pathlib.Path(os.environ["HOROVOD_TIMELINE"]).read_text():
            time.sleep(0.001)
        if how == "exception":
            raise ValueError("as a script does")
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), int(how))
    rank.run(ALLREDUCE, "never", [1.0])


def forever(library):
    rank = Rank(library)
    for step in range(1 << 30):
        rank.run(ALLREDUCE, "step", [1.0] * 1000)
        if step == 10:
            print("ten steps", flush=True)


def late(library, seconds):
    """The last rank's program is slow to say where a result goes, as one that waits for a lock."""
    rank = Rank(library)
    size = int(os.environ["HOROVOD_SIZE"])
    waits = (lambda: time.sleep(float(seconds))) if rank.rank == size - 1 else None
    assert rank.run(ALLGATHER, "late", [rank.rank], allocate=waits) == list(range(size))
    print("they waited", flush=True)


def stall(library, how):
    """The last rank never comes, or once its record says that others wait for it."""
    rank = Rank(library)
    record = pathlib.Path(os.environ["TORCHELASTIC_ERROR_FILE"])
    if rank.rank == int(os.environ["HOROVOD_SIZE"]) - 1:
        while how == "never" or "never submitted lonely" not in record.read_text():
            time.sleep(0.01)
    if rank.wait(rank.begin(ALLREDUCE, "lonely", [1.0])[0]) != 0:
        raise HorovodInternalError(rank.error())
    rank.run(ALLREDUCE, "after it", [1.0])
    assert record.read_text() == ""
    print("it came", flush=True)


if __name__ == "__main__":
    {"values": values, "die": die, "generations": generations, "end": end, "stall": stall, "late": late, "stopped": stopped,
     "slow": slow, "forever": forever}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
