#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs the static programs with manual pages, completions, the data of the first job, and licences, and lists beside it what is in
them (CycloneDX).

Usage: tools/build_tarball.py FOLDER     prints the tarball's path
The programs are those of the wheel: run tools/build_wheel.py before it.
"""

import gzip
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import sbom
from build_wheel import BUILD, LINKED, PROGRAMS, ROOT


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if not (BUILD / "build.ninja").exists():
        sys.exit("tools/build_tarball.py: there is no build/wheel; run tools/build_wheel.py first")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cmake", "--build", BUILD, "--target", *PROGRAMS], check=True, stdout=sys.stderr)
    version = re.search(r"(?m)^CMAKE_PROJECT_VERSION:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text())[1]
    name = f"hvdray-{version}-linux-{platform.machine()}"
    found = sbom.parts(sbom.files_of_others(BUILD, *LINKED))
    with tempfile.TemporaryDirectory() as scratch:
        top = pathlib.Path(scratch) / name
        subprocess.run(["cmake", "--install", BUILD, "--component", "programs", "--strip", "--prefix", top], check=True, stdout=sys.stderr)
        shutil.copy(ROOT / "LICENSE", top)
        (top / sbom.NOTICES).write_text(sbom.notices(found), encoding="utf-8")
        (folder / f"{name}.tar.gz").write_bytes(packed(top))
    (folder / f"{name}.cdx.json").write_text(sbom.bill(version, f"pkg:generic/hvdray@{version}", found), encoding="utf-8")
    print(folder / f"{name}.tar.gz")


def packed(top):
    """The same for the same files, whoever packs them and when."""
    written = int(os.environ.get("SOURCE_DATE_EPOCH") or sbom.output_of("git", "-C", ROOT, "log", "-1", "--format=%ct"))

    def plain(item):
        item.uid = item.gid = 0
        item.mtime = written
        item.uname = item.gname = "root"
        item.mode = 0o755 if item.isdir() or item.issym() or item.mode & 0o100 else 0o644
        return item

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in [top, *sorted(top.rglob("*"))]:
            tar.add(path, path.relative_to(top.parent), recursive=False, filter=plain)
    return gzip.compress(archive.getvalue(), mtime=0)


if __name__ == "__main__":
    main()
