#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (pyproject.toml) with static programs, tags it for the oldest systems that it runs on, and adds what it contains
(PEP 770) and the notices that licences of others ask for.

Usage: tools/build_wheel.py FOLDER     prints the wheel's path
Needs what the build needs, binutils, dpkg-dev, Debian's source packages, and PyPI for scikit-build-core and Gloo.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile

import sbom

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/wheel"
PROGRAMS = ("hvdray", "hvdray-agent", "hvdray-bench", "hvdray-digits")
LIBRARY = "libhvdray.so.0"
LINKED = [f"bin/{name}" for name in PROGRAMS]
SHARED = "collective/libhvdray.so.0.0.0"
MAX_BYTES = 14 << 20
# What each Linux with glibc has, by PEP 600; and the oldest glibc that has tags by version.
GLIBC = r"(lib(c|m|rt|dl|pthread|gcc_s)|ld-linux[-\w]*)\.so\.\d"
OLDEST = 17


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        built = build(pathlib.Path(scratch))
        wheel = complete(built, platform_tags(built, pathlib.Path(scratch)), folder)
    size = wheel.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{wheel} has {size} bytes, and may have {MAX_BYTES}")
    print(wheel)


def build(scratch):
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True, stdout=sys.stderr)
    # The compiler's name is part of the key of ccache: the other builds call it c++. The system's cmake is named, because
    # scikit-build-core takes one from PyPI where that has not answered within 5 s; in CI it waits for 20.
    environment = {"CXX": "c++", **os.environ, "CI": "true", "CMAKE_EXECUTABLE": shutil.which("cmake") or "cmake"}
    subprocess.run(
        [scratch / "venv/bin/pip", "wheel", "--disable-pip-version-check", "--quiet", "--no-deps", "--wheel-dir", scratch,
         "--config-settings", f"build-dir={BUILD}", "--config-settings", "cmake.define.HVDRAY_STATIC=ON", ROOT],
        check=True, stdout=sys.stderr, env=environment)
    return next(scratch.glob("hvdray-*.whl"))


def platform_tags(wheel, scratch):
    """Those of the wheel. Its programs need only a kernel, so musl's systems can have them, too; libhvdray.so needs a glibc, and says so
    elsewhere when it is loaded."""
    minor = OLDEST
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = scratch / "elf"
            path.write_bytes(archive.read(name))
            if path.read_bytes()[:4] != b"\x7fELF":
                continue
            about = subprocess.run(["objdump", "-p", "-T", path], capture_output=True, text=True, check=False).stdout
            needed = re.findall(r"^ +NEEDED +(\S+)$", about, re.M)
            unknown = [library for library in needed if not re.fullmatch(GLIBC, library)]
            if unknown or (needed and not name.endswith(LIBRARY)):
                sys.exit(f"{name} needs {', '.join(unknown or needed)}: it can't be in the wheel")
            minor = max(minor, *map(int, re.findall(r"\bGLIBC_2\.(\d+)", about)), OLDEST)
    return [f"manylinux_2_{minor}_{platform.machine()}", f"musllinux_1_1_{platform.machine()}"]


def complete(wheel, tags, folder):
    """Copies the wheel under its new name, with its tags, bill of materials and notices, and the hashes of what changed."""
    name, version = wheel.name.split("-")[:2]
    target = folder / f"{name}-{version}-py3-none-{'.'.join(tags)}.whl"
    info = f"{name}-{version}.dist-info"
    found = sbom.parts(sbom.files_of_others(BUILD, *LINKED, SHARED))
    added = {f"{info}/sboms/hvdray.cdx.json": sbom.bill(version, f"pkg:pypi/hvdray@{version}", found).encode(),
             f"{info}/licenses/{sbom.NOTICES}": sbom.notices(found).encode()}
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        lines = "\n".join(f"Tag: py3-none-{tag}" for tag in tags)
        about = re.sub(rb"(?m)^Tag: .*$", lines.encode(), old.read(f"{info}/WHEEL"))
        record = re.sub(rf"(?m)^{re.escape(info)}/WHEEL,.*$", record_line(f"{info}/WHEEL", about), old.read(f"{info}/RECORD").decode())
        record = "".join(sorted(("".join(record_line(*file) + "\n" for file in added.items()) + record).splitlines(keepends=True)))
        replaced = {f"{info}/WHEEL": about, f"{info}/RECORD": record.encode(), **added}
        modes = {item.filename: 0o755 if item.external_attr >> 16 & 0o100 else 0o644 for item in old.infolist()}
        for file in sorted({*modes, *replaced}, key=lambda file: (file.startswith(info), file)):
            item = zipfile.ZipInfo(file)  # without time and umask, so that the same build gives the same bytes
            item.external_attr = (stat.S_IFREG | modes.get(file, 0o644)) << 16
            new.writestr(item, replaced.get(file) or old.read(file), zipfile.ZIP_DEFLATED, 9)
    return target


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


if __name__ == "__main__":
    main()
