# SPDX-License-Identifier: Apache-2.0
"""This worker's place among the others, which elastic jobs give anew each time."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request

from .._async._errors import HorovodInternalError

_VARIABLES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
_began = False  # whether this process has had a place: the first one is in its environment


def is_elastic() -> bool:
    return os.environ.get("HOROVOD_ELASTIC") == "1"


def refresh() -> None:
    """Before each init() of an elastic job: the place for the next generation, and a number for that which all ranks
    have. Blocks until the launcher has assigned the places."""
    global _began
    if not is_elastic():
        return
    if _began:
        _take_place()
    _began = True
    _agree_on_generation()


def _take_place() -> None:
    host, local_rank = os.environ["HOROVOD_HOSTNAME"], os.environ["HOROVOD_LOCAL_RANK"]
    answer = ask("GET", f"rank_and_size/{host}:{local_rank}")
    numbers = (answer or b"").decode("ascii", "replace").split(",")
    if len(numbers) != len(_VARIABLES):
        raise HorovodInternalError(f"the rendezvous answered {answer!r} instead of a place")
    if numbers[0] == "-1":
        raise SystemExit(f"{host}[{local_rank}] has been removed from the elastic job")
    os.environ.update(zip((f"HOROVOD_{name}" for name in _VARIABLES), numbers))


def _agree_on_generation() -> None:
    """Rank 0, which has lived longest, counts on; values of the rendezvous are gone with each generation."""
    key, rank = "hvdray_torch/generation", os.environ.get("HOROVOD_RANK")
    # By this the launcher knows that a newcomer is there, and only then stops the others for it.
    ask("PUT", f"global/rank_{rank}", os.environ.get("HOROVOD_HOSTNAME", "").encode())
    if rank == "0":
        number = str(int(os.environ.get("HVDRAY_GENERATION", "0")) + 1)
        ask("PUT", key, number.encode())
    else:
        answer = ask("GET", key)
        while answer is None:
            time.sleep(0.01)
            answer = ask("GET", key)
        number = str(int(answer))
    os.environ["HVDRAY_GENERATION"] = number


def ask(method: str, path: str, body: bytes | None = None) -> bytes | None:
    """The answer; None: there is no such key yet."""
    address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"]
    port = os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
    request = urllib.request.Request(f"http://{address}:{port}/{path}", body, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request) as response:
            return bytes(response.read())
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise HorovodInternalError(f"the rendezvous answered {error}") from error
    except OSError as error:
        raise HorovodInternalError(f"the rendezvous at {address}:{port}: {error}") from error
