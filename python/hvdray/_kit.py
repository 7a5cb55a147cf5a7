# SPDX-License-Identifier: Apache-2.0
"""What hosts need to run functions: this package and cloudpickle as one zip, which workers import from memory.

So nothing is installed on hosts but the interpreter and what the functions import.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import marshal
import os
import pathlib
import sys
import zipfile
from typing import Any, Iterator

from ._payload import the_cloudpickle
from ._trust import machine, trustees_of

# Takes the descriptor of the zip, which comes with the first byte of the first message (docs/channel.md), and drops the
# current folder from the path first: it may hold a module named like one of Python's own. A fork may have another hvdray.
BOOTSTRAP = """\
import sys
if sys.path[:1]==['']:del sys.path[0]
import os,socket
c=socket.socket(fileno=int(os.environ.pop('HVDRAY_CHANNEL_FD')))
c.set_inheritable(False)
f=int.from_bytes(c.recvmsg(1,64,socket.MSG_CMSG_CLOEXEC)[1][0][2][:4],sys.byteorder)
while c.recv(1)!=b'\\n':pass
sys.path.insert(0,'/proc/self/fd/%d'%f)
sys.modules.pop('hvdray',0)
from hvdray._worker import main
main(c)
"""

# What workers import of Python's own library before their first call: half of a gang's start, if each has to.
STANDARD_IMPORTS = tuple(
    "socket json mmap pickle platform traceback typing threading inspect dis uuid logging contextlib array re".split()
)


@functools.lru_cache(maxsize=1)
def kit() -> bytes:
    packages = {"hvdray": pathlib.Path(__file__).parent, "cloudpickle": pathlib.Path(the_cloudpickle().__file__).parent}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for package, folder in packages.items():
            for name, source in _sources(package, folder if folder.is_dir() else _inside_of_a_zip(package)):
                archive.writestr(name + ".py", source)
                # Workers of the same Python, and there are no others, need not compile it.
                archive.writestr(name + ".pyc", _compiled(name + ".py", source))
    return content.getvalue()


def driver_place(is_on_ray: bool) -> dict[str, Any]:
    """For workers: this program's Python, what it imports from, and who could change that already."""
    front, back = _driver_path()
    path = [*front, *back]
    place: dict[str, Any] = {"python": list(sys.version_info[:2]), "path": path, "behind": back}
    if not is_on_ray:  # Ray itself runs programs in directories that everybody may write to.
        place.update(machine=machine(), trustees=[trustees_of(entry) for entry in path])
    return place


def _driver_path() -> tuple[list[str], list[str]]:
    """What this program has put on its path, before and behind its interpreter's own."""
    import sysconfig

    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own |= {os.path.join(path, "lib-dynload") for path in own}
    entries = [entry for entry in map(_absolute, sys.path) if entry]
    first = next((at for at, entry in enumerate(entries) if entry in own), len(entries))
    added = [[e for e in part if e not in own and not e.endswith(".zip")] for part in (entries[:first], entries[first:])]
    front = list(dict.fromkeys(added[0]))
    return front, [entry for entry in dict.fromkeys(added[1]) if entry not in front]


def _absolute(entry: Any) -> str:
    """Empty: Python does not import from there, or no message can name it."""
    try:
        path = os.path.abspath(entry) if isinstance(entry, str) else ""
        path.encode()
        return path
    except (OSError, UnicodeEncodeError):  # The current folder may be gone.
        return ""


def _inside_of_a_zip(package: str) -> Any:
    """That of python -m zipapp, say."""
    from importlib.resources import files

    return files(package)


def _sources(name: str, folder: Any) -> Iterator[tuple[str, bytes]]:
    """Of a folder, or of what stands for one in a zip."""
    for item in sorted(folder.iterdir(), key=lambda item: str(item.name)):
        if item.is_dir():
            yield from _sources(f"{name}/{item.name}", item)
        elif item.name.endswith(".py"):
            yield f"{name}/{item.name[:-3]}", item.read_bytes()


def _compiled(name: str, source: bytes) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True)
    flags = 1  # by hash, which is not checked
    return importlib.util.MAGIC_NUMBER + flags.to_bytes(4, "little") + bytes(8) + marshal.dumps(code)
