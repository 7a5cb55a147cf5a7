# SPDX-License-Identifier: Apache-2.0
"""A directory of files that a loop reported, or is about to report."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Any, Callable, Iterator, Optional, Union

from . import _files


class Checkpoint:
    """`path`: its directory; on a host that does not see the storage, where it is on the driver's, or its URL. Threads: any."""

    def __init__(self, path: "Union[str, os.PathLike[str]]", *, fetch: Optional[Callable[[str], None]] = None):
        """`fetch`: copies it into a directory. Without it `path` is a directory here."""
        self.path = os.fspath(path)
        self._fetch = fetch

    @classmethod
    def from_directory(cls, path: "Union[str, os.PathLike[str]]") -> "Checkpoint":
        """Of files that are there when it is reported, and do not change while report() copies them."""
        return cls(os.path.abspath(os.path.expanduser(os.fspath(path))))

    def to_directory(self, path: "Optional[Union[str, os.PathLike[str]]]" = None) -> str:
        """Copies its files there; default: a new directory for temporary files, which is the caller's. Raises OSError."""
        target = os.path.expanduser(os.fspath(path)) if path is not None else tempfile.mkdtemp(prefix="hvdray-checkpoint-")
        os.makedirs(target, exist_ok=True)
        if self._fetch is not None:
            self._fetch(target)
        else:
            _files.copy_in(self.path, _files.scan(self.path), target, str(os.getpid()))
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Its files, to be read: in place, or a copy that ends with the block. Raises OSError."""
        if self._fetch is None:
            yield self.path
            return
        target = self.to_directory()
        try:
            yield target
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r})"

    def __reduce__(self) -> Any:
        return Checkpoint, (self.path,)


def stored(store: Any, name: str) -> Checkpoint:
    """One of a run's; on the driver."""
    if "://" not in store.root:
        return Checkpoint(store.path(name))

    def fetch(target: str) -> None:
        receive(target, store.listing(name), lambda wanted: [store.piece(name, file, at) for file, at in wanted])

    return Checkpoint(f"{store.root}/{name}", fetch=fetch)


def receive(target: str, found: _files.Listing, pieces: Callable[[list[tuple[str, int]]], list[bytes]]) -> None:
    """Asks for many small files at a time. `pieces`: of each file, from where it says, bytes or, for want of room, none."""
    folders, files = found
    _files.make_folders(target, folders)
    for batch in _files.batches(files):
        names = [file.name for file in batch if file.size]
        contents = dict(zip(names, pieces([(name, 0) for name in names]))) if names else {}
        for file in batch:
            _files.make_folder(target, os.path.dirname(file.name))  # An object store has no directories.
            arriving = _files.Arriving(target, file.name, str(os.getpid()))
            try:
                at = 0
                while at < file.size:
                    data = contents.pop(file.name, b"") or pieces([(file.name, at)])[0]
                    if not data:
                        raise OSError(f"a file of the checkpoint has ended early: {file.name}")
                    arriving.write(data)
                    at += len(data)
                arriving.finish(file.mode)
            except BaseException:
                arriving.discard()
                raise
