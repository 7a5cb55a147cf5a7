# SPDX-License-Identifier: Apache-2.0
"""The files of a checkpoint: listed, copied and read without following links, with their permissions."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
from typing import IO, Any, Iterable, Iterator, NamedTuple, Optional

PIECE = 4 << 20  # bytes
MODE = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


class Found(NamedTuple):
    name: str  # relative, with '/'
    size: int
    changed_ns: int
    mode: Optional[int]  # permissions; None: an object store has none


Listing = tuple[list[Found], list[Found]]  # directories, outer ones first, and files


def scan(root: str) -> Listing:
    """Its directories, outer ones first, and its files. Raises OSError, and ValueError for links, devices, sockets and pipes."""
    folders: list[Found] = []
    files: list[Found] = []
    pending = [""]
    while pending:
        folder = pending.pop()
        with _listed(root, folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = f"{folder}/{entry.name}" if folder else entry.name
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    folders.append(Found(name, 0, 0, about.st_mode & MODE))
                    pending.append(name)
                elif stat.S_ISREG(about.st_mode):
                    files.append(Found(name, about.st_size, about.st_mtime_ns, about.st_mode & MODE))
                else:
                    what = "a link, and links are not followed" if stat.S_ISLNK(about.st_mode) else "no plain file"
                    raise ValueError(f"{os.path.join(root, name)!r} is {what}: a checkpoint has files and directories only")
    return sorted(folders), files


def _listed(root: str, folder: str) -> "os._ScandirIterator[str]":
    try:
        return os.scandir(os.path.join(root, folder))
    except (FileNotFoundError, NotADirectoryError):  # and not os.path.isdir(): it hides what a signal's handler raises
        raise FileNotFoundError(f"the checkpoint's directory is not there: {os.path.join(root, folder)}") from None


def check_unchanged(root: str, before: Listing) -> None:
    """Raises RuntimeError."""
    if scan(root) != before:
        raise RuntimeError(f"the checkpoint's directory has changed while it was copied: {root}")


def checked_name(name: Any) -> str:
    """A relative name without `..`, as another process gave it. Raises ValueError."""
    if not isinstance(name, str) or not name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"not the name of a file in a checkpoint: {name!r}")
    return name


def as_text(name: str) -> str:
    """A name whose bytes may be no UTF-8, for JSON."""
    return os.fsencode(name).decode("latin-1")


def as_name(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))


def as_rows(found: Iterable[Found]) -> list[Any]:
    """For JSON."""
    return [[as_text(entry.name), entry.size, entry.mode] for entry in found]


def as_found(rows: Iterable[Any]) -> list[Found]:
    """As another process gave them. Raises ValueError."""
    return [Found(checked_name(as_name(name)), size, 0, None if mode is None else mode & MODE) for name, size, mode in rows]


def room_of(name: str) -> int:
    """What a name may take of a message, beside the bytes of its file: the line has room for it, each byte of which may take six there."""
    return 32 * len(name) + 256


def batches(files: Iterable[Found]) -> Iterator[list[Found]]:
    """Those whose bytes, or the first ones of the last, go in one message."""
    batch: list[Found] = []
    room = PIECE
    for file in files:
        batch.append(file)
        room -= file.size + room_of(file.name)
        if room <= 0:
            yield batch
            batch, room = [], PIECE
    if batch:
        yield batch


def make_folders(root: str, folders: Iterable[Found]) -> None:
    """The owner may do everything in them. Raises OSError."""
    os.makedirs(root, exist_ok=True)
    for folder in folders:
        make_folder(root, folder.name)
        if folder.mode is not None:
            os.chmod(os.path.join(root, folder.name), folder.mode | stat.S_IRWXU)


@contextlib.contextmanager
def reading(root: str, name: str) -> Iterator[IO[bytes]]:
    """No component below `root` may be a link. Raises OSError."""
    *folders, last = name.split("/")
    opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part, flags in [*((folder, os.O_DIRECTORY) for folder in folders), (last, os.O_NONBLOCK)]:
            opened.append(os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=opened[-1]))
        with open(opened[-1], "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        # A signal's handler may raise anywhere: what is closed twice may be another's by then.
        while opened:
            os.close(opened.pop())


def anew(path: str) -> io.FileIO:
    """A file in place of the one that may be there, or of the link. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return open(path, "xb", buffering=0)


def make_folder(root: str, folder: str) -> None:
    """With those between it and `root`; none of them may be a link. Raises OSError."""
    path = root
    for part in filter(None, folder.split("/")):
        path = os.path.join(path, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory, or is a link to one", path)


class Arriving:
    """A file that gets its name once it is whole. Discarded, if it is not finished. Raises OSError."""

    def __init__(self, root: str, name: str, by: str):
        self._path = os.path.join(root, name)
        self._part = f"{self._path}.{by}~"
        if len(os.fsencode(os.path.basename(self._part))) > 255:  # The name itself may have as many.
            digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
            self._part = os.path.join(os.path.dirname(self._path), f".{digest}.{by}~")
        self.file: IO[bytes] = anew(self._part)

    def write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            view = view[self.file.write(view) :]

    def copy(self, source: IO[bytes], size: int) -> None:
        """At most `size` bytes: a file that grows has no end."""
        at = 0
        while at < size and (count := os.sendfile(self.file.fileno(), source.fileno(), at, min(size - at, 64 * PIECE))):
            at += count

    def finish(self, mode: Optional[int] = None) -> None:
        """Its owner may read it."""
        if mode is not None:
            os.fchmod(self.file.fileno(), mode | stat.S_IRUSR)
        self.file.close()
        os.rename(self._part, self._path)

    def discard(self) -> None:
        self.file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._part)


def copy_in(source: str, found: Listing, target: str, by: str) -> None:
    """Into a directory that others copy into as well. Raises OSError."""
    folders, files = found
    make_folders(target, folders)
    for entry in files:
        arriving = Arriving(target, entry.name, by)
        try:
            with reading(source, entry.name) as file:
                arriving.copy(file, entry.size)
            arriving.finish(entry.mode)
        except BaseException:
            arriving.discard()
            raise
