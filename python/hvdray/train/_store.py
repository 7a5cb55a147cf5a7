# SPDX-License-Identifier: Apache-2.0
"""Where the files of a run are: a directory, or a URL of fsspec. Only the driver writes here, and workers that see the directory
into `.part-…` of it. One thread at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib
import io
import os
import shutil
import uuid
from typing import Any, Optional

from .._disk import sync_folder, sync_tree
from .._errors import HvdrayError
from .._trust import no_link
from . import _files


def store_of(path: str) -> "Store":
    """Raises HvdrayError."""
    return UrlStore(path) if "://" in path else Store(path)


class Store:
    """A directory."""

    def __init__(self, root: str):
        self.root = os.path.abspath(os.path.expanduser(root)) if "://" not in root else root.rstrip("/")
        self._lock = -1

    def open(self) -> None:
        """Makes it, for one driver at a time. Raises OSError, HvdrayError."""
        os.makedirs(self.root, exist_ok=True)
        self._lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                self.close()
                raise HvdrayError(f"another trainer is using {self.root}", hint="wait for its end, or take another name") from None

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def probe(self) -> "tuple[str, str]":
        """A file and what is in it: who reads that there sees this directory."""
        token = uuid.uuid4().hex
        self.put(".probe", token.encode())
        return os.path.join(self.root, ".probe"), token

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.root))
        return []

    def make(self, part: str, folders: "list[_files.Found]") -> None:
        _files.make_folder(self.root, part)
        _files.make_folders(self.path(part), folders)

    def arriving(self, part: str, name: str, by: str) -> Any:
        _files.make_folder(self.root, os.path.dirname(f"{part}/{name}"))
        return _files.Arriving(os.path.join(self.root, part), name, by)

    def flush(self, part: str) -> None:
        """All of it is on the disk."""
        sync_tree(self.path(part))

    def move(self, part: str, name: str) -> None:
        """Into a checkpoint, which may have files of other ranks."""
        if not os.path.lexists(self.path(name)):
            os.rename(self.path(part), self.path(name))
            return
        folders, files = _files.scan(self.path(part))
        self.make(name, folders)
        for file in files:
            os.rename(os.path.join(self.path(part), file.name), os.path.join(self.path(name), file.name))
        for path in [self.path(name), *(os.path.join(self.path(name), folder.name) for folder in folders)]:
            sync_folder(path)
        self.remove(part)

    def sync(self) -> None:
        """What was moved is on the disk."""
        sync_folder(self.root)

    def remove(self, name: str) -> None:
        path = self.path(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def put(self, name: str, content: bytes) -> None:
        """Whole, or as it was before."""
        arriving = _files.Arriving(self.root, name, "new")
        try:
            arriving.write(content)
            os.fsync(arriving.file.fileno())
            arriving.finish()
        except BaseException:
            arriving.discard()
            raise
        sync_folder(self.root)

    def append(self, name: str, content: bytes) -> None:
        with open(self.path(name), "ab", buffering=0, opener=no_link) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise

    def replace(self, name: str, content: bytes) -> None:
        """What append() adds to."""
        self.put(name, content)

    def truncate(self, name: str, size: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            with open(self.path(name), "r+b", buffering=0, opener=no_link) as file:
                file.truncate(size)

    def read(self, name: str) -> Optional[bytes]:
        with contextlib.suppress(FileNotFoundError):
            with open(self.path(name), "rb") as file:
                return file.read()
        return None

    def listing(self, name: str) -> _files.Listing:
        return _files.scan(self.path(name))

    def piece(self, name: str, file: str, at: int) -> bytes:
        with _files.reading(self.path(name), file) as source:
            source.seek(at)
            return source.read(_files.PIECE)


class _Upload(io.BytesIO):
    def __init__(self, system: Any, path: str):
        super().__init__()
        self._file = system.open(path, "wb")

    def write(self, data: Any) -> int:
        self._file.write(bytes(data))
        return len(data)

    def finish(self, _mode: Optional[int] = None) -> None:
        self._file.close()

    def discard(self) -> None:
        with contextlib.suppress(Exception):
            self._file.discard()


class UrlStore(Store):
    """Files by fsspec; a commit is a copy there, and then counts as run.json says."""

    def __init__(self, root: str):
        super().__init__(root)
        try:
            fsspec: Any = importlib.import_module("fsspec")
        except ModuleNotFoundError:
            raise HvdrayError("storage at a URL needs the package fsspec", hint="pip install fsspec") from None
        self._system, self._base = fsspec.core.url_to_fs(self.root)
        self._texts: dict[str, bytes] = {}

    def open(self) -> None:
        self._system.makedirs(self._base, exist_ok=True)

    def probe(self) -> "tuple[str, str]":
        return "", ""

    def path(self, name: str) -> str:
        return f"{self._base}/{name}"

    def names(self) -> list[str]:
        if not self._system.exists(self._base):
            return []
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in self._system.ls(self._base, detail=False, refresh=True))

    def make(self, part: str, folders: "list[_files.Found]") -> None:
        for folder in ["", *(folder.name for folder in folders)]:
            self._system.makedirs(f"{self.path(part)}/{folder}".rstrip("/"), exist_ok=True)

    def arriving(self, part: str, name: str, by: str) -> Any:
        path = f"{self.path(part)}/{name}"
        self._system.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        return _Upload(self._system, path)

    def flush(self, part: str) -> None:
        pass

    def move(self, part: str, name: str) -> None:
        folders, files = self.listing(part)
        self.make(name, folders)
        for file in files:  # mv() and rm() would take a name with brackets for a pattern, also where a file has it.
            self._system.cp_file(f"{self.path(part)}/{file.name}", f"{self.path(name)}/{file.name}")
        self.remove(part)

    def sync(self) -> None:
        for name, content in self._texts.items():
            self.put(name, content)

    def remove(self, name: str) -> None:
        self._texts.pop(name, None)
        found = self._system.find(self.path(name), withdirs=True, detail=True)
        for path, about in sorted(found.items(), reverse=True):
            if about["type"] == "file":
                self._system.rm_file(path)
            else:
                self._remove_folder(path)
        self._remove_folder(self.path(name))

    def _remove_folder(self, path: str) -> None:
        with contextlib.suppress(OSError):  # An object store has none.
            self._system.rmdir(path)

    def put(self, name: str, content: bytes) -> None:
        self._system.pipe_file(self.path(name), content)

    def append(self, name: str, content: bytes) -> None:
        """Objects can't grow: written anew with the next commit."""
        self._texts[name] = (self.read(name) or b"") + content

    def replace(self, name: str, content: bytes) -> None:
        self._texts[name] = content

    def truncate(self, name: str, size: int) -> None:
        content = self.read(name)
        if content is not None:
            self._texts[name] = content[:size]
            self.put(name, content[:size])

    def read(self, name: str) -> Optional[bytes]:
        if name in self._texts:
            return self._texts[name]
        with contextlib.suppress(FileNotFoundError):
            return bytes(self._system.cat_file(self.path(name)))
        return None

    def listing(self, name: str) -> _files.Listing:
        base = self.path(name).rstrip("/")
        found = self._system.find(base, withdirs=True, detail=True)
        rows = [(path[len(base) + 1 :] if path.startswith(base) else path, about) for path, about in found.items()]
        rows = [(path.rstrip("/"), about) for path, about in rows if path.strip("/")]
        found_of = {kind: [_files.Found(path, about["size"] or 0, 0, None) for path, about in rows if about["type"] == kind] for kind in ("directory", "file")}
        return sorted(found_of["directory"]), found_of["file"]

    def piece(self, name: str, file: str, at: int) -> bytes:
        return bytes(self._system.cat_file(f"{self.path(name)}/{file}", start=at, end=at + _files.PIECE))
