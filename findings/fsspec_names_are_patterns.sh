#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fsspec 2026.9.0: an existing file whose name has brackets is taken for a pattern, and another file stands in for it.
#
# Expected: cat(), rm() and put() of a path that exists, as exists() says, act on that file.
# Seen: with layer[0].pt and layer0.pt in a folder, cat("layer[0].pt") returns a dictionary with the bytes of layer0.pt, rm() of it in the
# memory file system removes layer0.pt and keeps it, and put() sends layer0.pt. Without layer0.pt they raise FileNotFoundError. rm() of the local
# file system alone removes what was named. The calls for one file, cat_file(), rm_file(), put_file(), take no patterns.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check fsspec==2026.9.0
cd "$folder"
mkdir here
printf brackets >'here/layer[0].pt'
printf other >here/layer0.pt
venv/bin/python - <<'PROGRAM'
import fsspec

for kind in "memory", "file":
    system = fsspec.filesystem(kind)
    base = "/there" if kind == "memory" else system._strip_protocol("there")
    for name in "layer[0].pt", "layer0.pt":
        system.makedirs(base, exist_ok=True)
        system.pipe_file(f"{base}/{name}", name.encode())
    path = f"{base}/layer[0].pt"
    assert system.exists(path) and system.cat_file(path) == b"layer[0].pt"
    read = system.cat(path)
    print(kind, "cat:", read)
    assert list(read.values()) == [b"layer0.pt"]
    system.makedirs(f"{base}/put")
    system.put("here/layer[0].pt", f"{base}/put/")
    print(kind, "put:", system.ls(f"{base}/put", detail=False))
    assert [name.rsplit("/", 1)[1] for name in system.ls(f"{base}/put", detail=False)] == ["layer0.pt"]
    system.rm(path)
    left = [name.rsplit("/", 1)[1] for name in system.ls(base, detail=False) if name.endswith(".pt")]
    print(kind, "rm leaves:", left)
    assert left == (["layer[0].pt"] if kind == "memory" else ["layer0.pt"])
    if kind == "file":
        system.put_file("here/layer[0].pt", path)
        system.rm_file(f"{base}/layer0.pt")
    for call in system.cat, lambda name: system.get(name, "got"):
        try:
            call(path)
            raise SystemExit(f"{kind}: the file was found")
        except (FileNotFoundError, IsADirectoryError) as error:
            print(kind, "alone:", type(error).__name__)
PROGRAM
echo "as described"
