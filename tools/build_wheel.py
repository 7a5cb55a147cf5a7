#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (pyproject.toml), tags it for the oldest glibc that its programs and libraries can use, and lists in it what it
contains (PEP 770).

Usage: tools/build_wheel.py FOLDER     prints the wheel's path
Needs what the build needs, binutils, and PyPI for scikit-build-core.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import stat
import subprocess
import sys
import tempfile
import zipfile

import sbom

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_BYTES = 14 << 20


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        built = build(pathlib.Path(scratch))
        glibc = oldest_glibc(built, pathlib.Path(scratch))
        wheel = retag(built, f"py3-none-manylinux_2_{glibc}_{platform.machine()}", folder)
    size = wheel.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{wheel} has {size} bytes, and may have {MAX_BYTES}")
    print(wheel)


def build(scratch):
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True, stdout=sys.stderr)
    # The compiler's name is part of the key of ccache: the other builds call it c++.
    environment = {"CXX": "c++", **os.environ}
    subprocess.run(
        [scratch / "venv/bin/pip", "wheel", "--disable-pip-version-check", "--quiet", "--no-deps", "--wheel-dir", scratch,
         "--config-settings", f"build-dir={ROOT / 'build/wheel'}", ROOT], check=True, stdout=sys.stderr, env=environment)
    return next(scratch.glob("hvdray-*.whl"))


def oldest_glibc(wheel, scratch):
    """The minor version."""
    found = {0}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = scratch / "elf"
            path.write_bytes(archive.read(name))
            if path.read_bytes()[:4] == b"\x7fELF":
                symbols = subprocess.run(["objdump", "-T", path], capture_output=True, text=True).stdout
                found |= {int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols)}
    return max(found)


def retag(wheel, tag, folder):
    """Copies the wheel under its new name, with its tag, its bill of materials, and the hash of what changed."""
    name, version = wheel.name.split("-")[:2]
    target = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        about = re.sub(rb"(?m)^Tag: .*$", b"Tag: " + tag.encode(), old.read(f"{info}/WHEEL"))
        record = re.sub(rf"(?m)^{re.escape(info)}/WHEEL,.*$", record_line(f"{info}/WHEEL", about), old.read(f"{info}/RECORD").decode())
        shipped = {name.rsplit("/", 1)[1] for name in old.namelist() if "/lib/hvdray/licenses/" in name}
        bill = sbom.bill(version, sbom.compiled_packages(ROOT / "build/wheel") | shipped).encode()
        record = "".join(sorted((record_line(f"{info}/sboms/hvdray.cdx.json", bill) + "\n" + record).splitlines(keepends=True)))
        replaced = {f"{info}/WHEEL": about, f"{info}/RECORD": record.encode(), f"{info}/sboms/hvdray.cdx.json": bill}
        modes = {item.filename: 0o755 if item.external_attr >> 16 & 0o100 else 0o644 for item in old.infolist()}
        for file in sorted({*modes, *replaced}, key=lambda file: (file.startswith(info), file)):
            item = zipfile.ZipInfo(file)  # without time and umask, so that the same build gives the same bytes
            item.external_attr = (stat.S_IFREG | modes.get(file, 0o644)) << 16
            new.writestr(item, replaced.get(file) or old.read(file), zipfile.ZIP_DEFLATED)
    return target


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


if __name__ == "__main__":
    main()
