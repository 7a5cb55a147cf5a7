# SPDX-License-Identifier: Apache-2.0
"""Survivors are freed although the job has no rights, or hear honestly that they will not be."""

import json
import os
import pathlib
import sys
import tempfile

import pytest
from elastic import NAMES, ROOT, WORKERS, Elastic, check_training, waited

NOBODY = 65534
PIDFD_GETFD = "438"  # on every architecture
REFUSE = [sys.executable, WORKERS / "refuse_calls.py", PIDFD_GETFD, PIDFD_GETFD, "EPERM"]


@pytest.fixture
def unprivileged(hvdray, horovod_python):
    """Makes jobs of another user who may nothing: unprivileged(wrapper=[...], **plan). What they read is
    mounted where they can."""
    if os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("not root, and CI skips nothing")
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory(prefix="hvdray-elastic-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        places = {"repository": ROOT, "bin": hvdray.bin_dir, "venv": horovod_python.parents[1]}
        for name in places:
            (folder / name).mkdir()
        mounts = "".join(f'mount --bind "{place}" "{folder / name}" && ' for name, place in places.items())

        def make(wrapper=(), **plan):
            def start(*words, **popen):
                wrapped = [str(word).replace(str(ROOT), str(folder / "repository")) for word in wrapper]
                return hvdray.start(
                    "--mount", "sh", "-c", f'{mounts} exec "$@"', "sh", "setpriv", "--reuid", NOBODY,
                    "--regid", NOBODY, "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                    "--no-new-privs", *wrapped, folder / "bin/hvdray", "run", *words,
                    binary="unshare", cwd="/", **popen)

            log = folder / "log"
            job = Elastic(start, folder / "venv/bin/python", log, **plan)
            job.command[1] = job.command[1].replace(str(ROOT), str(folder / "repository"))
            os.chown(log, NOBODY, NOBODY)
            return job

        yield make


def lose_one_of_four(job, timeout_s):
    job.hosts(*NAMES[:4])
    job.start("-np", 4, "--min-np", 1, "--events", job.folder / "events", env=dict(
        os.environ, HOROVOD_GLOO_TIMEOUT_SECONDS=str(timeout_s), HOME=str(job.folder)))
    job.wait_steps(4)
    died = job.kill(2)
    job.wait_steps(3)
    print(f"4 -> 3: paused for {job.standstill(died):.3f} s")
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job, 3)
    return result


def broken(job):
    """Ends of connections that agents shut, that the kernel ended for them, and workers refused."""
    lines = [json.loads(line) for line in (job.folder / "events").read_text().splitlines()]
    found = [line for line in lines if line["event"] == "connections_broken"]
    return tuple(sum(line[key] for line in found) for key in ("shut", "destroyed", "refused"))


def test_a_user_without_rights_frees_the_own_workers(unprivileged):
    job = unprivileged()
    assert not waited(lose_one_of_four(job, 60))
    shut, destroyed, refused = broken(job)
    assert shut > 0 and destroyed == refused == 0


def test_where_pidfd_getfd_is_refused_sock_destroy_frees_them(elastic, hvdray):
    job = elastic(start=lambda *words, **popen: hvdray.start(
        *REFUSE[1:], hvdray.binary, "run", *words, binary=REFUSE[0], **popen))
    assert not waited(lose_one_of_four(job, 60))
    _, destroyed, refused = broken(job)
    assert destroyed > 0 and refused == 0


def test_where_all_ways_are_refused_the_line_says_so_and_the_job_goes_on(unprivileged):
    job = unprivileged(wrapper=REFUSE)
    result = lose_one_of_four(job, 8)
    assert waited(result), result.errors
    shut, destroyed, refused = broken(job)
    assert shut == destroyed == 0 and refused > 0
    lines = [line for line in result.errors.splitlines() if "learn of the loss only by" in line]
    assert len(lines) == 1, "it is said once"
    for word in ("pidfd_getfd: Operation not permitted", "SOCK_DESTROY: Operation not permitted",
                 "CAP_NET_ADMIN"):
        assert word in lines[0], lines[0]
