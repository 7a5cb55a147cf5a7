# SPDX-License-Identifier: Apache-2.0
"""How long a launcher takes to start and end ranks that do nothing, and to notice a failure."""

import os
import shlex
import tempfile

from harness import Measure, Series, alternate, timed, which


def commands(context, np, words):
    """{contender: command line that runs `words` on np ranks of this machine}."""
    found = {name: [hvdray, "run", "-np", np, "--", *words] for name, hvdray in context.builds.items()}
    if which("mpirun.mpich"):
        found["hydra"] = ["mpirun.mpich", "-np", np, *words]
    if which("mpirun.openmpi"):
        found["OpenMPI"] = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", np,
                            *words]
    if context.venv:
        found["horovodrun"] = [context.venv / "bin/horovodrun", "-np", np, "-H", f"localhost:{np}",
                               *words]
    return found


def environment(context):
    env = dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1", PMIX_MCA_gds="hash")
    if context.venv:
        env["PATH"] = f"{context.venv}/bin:{env['PATH']}"
    return env


def launch_64(context):
    env = environment(context)
    peers = commands(context, 64, ["/bin/true"])
    slow = peers.pop("horovodrun", None)
    contenders = {name: (lambda c=c: timed(c, 10, env=env)) for name, c in peers.items()}
    contenders["posix_spawn loop"] = lambda: timed([context.spawn_loop, 64, "/bin/true"])
    series = alternate(contenders, context.rounds(11))
    if slow and not context.is_quick:
        # Half a minute per round; two rounds suffice for a factor of hundreds.
        series.append(Series("horovodrun", [timed(slow, 120, env=env) for _ in range(2)]))
    return Measure("launch and reap 64 × /bin/true", "s", series,
                   "≤ 1.3 × hydra; ≥ 100 × faster than horovodrun")


def launch_1200(context):
    env = environment(context)
    peers = commands(context, 1200, ["/bin/true"])
    peers.pop("horovodrun", None)  # limited to 1,000 ranks by design
    peers.pop("OpenMPI", None)
    contenders = {name: (lambda c=c: timed(c, 120, env=env)) for name, c in peers.items()}
    return Measure("1,200 trivial ranks", "s", alternate(contenders, context.rounds(3), warmup=0),
                   "all complete, exit 0")


def names_64(context):
    """64 names of this machine, as a file of hosts gives them: each is looked up, by static programs through getent."""
    with tempfile.NamedTemporaryFile("w", prefix="bench_hosts_", suffix=".txt") as table:
        print("127.0.0.1 localhost", *(f"127.0.2.{number} node{number}" for number in range(1, 65)), sep="\n", file=table, flush=True)
        hosts = ",".join(f"node{number}:1" for number in range(1, 65))
        own_table = f"mount --bind {shlex.quote(table.name)} /etc/hosts && exec \"$@\""
        alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", own_table, "sh"]
        contenders = {name: (lambda h=hvdray: timed([*alone, h, "run", "-np", 64, "-H", hosts, "--", "/bin/true"]))
                      for name, hvdray in context.builds.items()}
        return Measure("launch and reap /bin/true on 64 names of this machine", "s", alternate(contenders, context.rounds(11)))


def first_failure(context):
    env = environment(context)
    # One script for all launchers: the rank is HOROVOD_RANK, PMI_RANK or OMPI_COMM_WORLD_RANK.
    script = ("r=${HOROVOD_RANK:-${PMI_RANK:-$OMPI_COMM_WORLD_RANK}}; "
              "[ $r = 3 ] && { sleep 0.5; exit 7; }; exec sleep 30")
    contenders = {}
    for name, command in commands(context, 8, ["sh", "-c", script]).items():
        expect = 7 if name in context.builds else None
        contenders[name] = lambda c=command, e=expect: minus(timed(c, 15, env=env, expect=e), 0.5)
    return Measure("one of 8 workers exits 7 after 0.5 s → the launcher has returned, launch included",
                   "s beyond the 0.5", alternate(contenders, context.rounds(7)),
                   "≤ 0.1 s, and the exit code is 7 (horovodrun returns 1)")


def minus(value, amount):
    return None if value is None else value - amount
