#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds a container image (image/) as an OCI archive, which podman and docker load, from what FOLDER has.

Usage: tools/build_image.py FOLDER [--python [BASE]]     prints the archive's path
Without --python: from the tarball, the static programs alone; the same commit gives the same bytes. With it: from the wheel, an image with
Python and ssh over BASE (default: Debian 12's on Docker Hub), which needs the network.
Needs Debian's buildah and root; what it keeps while it builds is in a folder of its own.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_BYTES = 20_000_000


def main():
    folder, *words = sys.argv[1:] or [""]
    if not folder or folder.startswith("-") or words[:1] not in ([], ["--python"]) or len(words) > 2:
        sys.exit(__doc__)
    if not shutil.which("buildah"):
        sys.exit("tools/build_image.py: buildah is missing: tools/install_packages.sh image")
    if os.geteuid() != 0:
        sys.exit("tools/build_image.py: not root")
    with tempfile.TemporaryDirectory() as scratch:
        image = with_python if words else static
        print(image(pathlib.Path(folder), pathlib.Path(scratch), *words[1:]))


def static(folder, scratch):
    tarball, version, machine = find(folder, r"hvdray-([\d.]+)-linux-(.+)\.tar\.gz", "tarball")
    run(["tar", "-xzf", tarball, "-C", scratch])
    context = next(scratch.iterdir())
    written = int(context.stat().st_mtime)
    (context / "skeleton").mkdir()
    (context / "skeleton/tmp").mkdir()
    (context / "skeleton/tmp").chmod(0o1777)
    made = folder / f"hvdray-{version}-linux-{machine}.oci.tar"
    pack(build("Containerfile", version, version, context, scratch, "--timestamp", str(written)), made, written)
    size = made.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{made} has {size} bytes, and may have {MAX_BYTES}")
    return made


def with_python(folder, scratch, base=None):
    wheel, version, machine = find(folder, r"hvdray-([\d.]+)-py3-none-.*linux_\d+_\d+_(\w+)\.whl", "wheel")
    (scratch / "context/wheels").mkdir(parents=True)
    shutil.copy(wheel, scratch / "context/wheels")
    made = folder / f"hvdray-python-{version}-linux-{machine}.oci.tar"
    options = ["--build-arg", f"BASE={base}"] if base else []
    pack(build("python.Containerfile", version, f"{version}-python", scratch / "context", scratch, *options), made)
    return made


def find(folder, pattern, what):
    """The one such file, and what the pattern's groups are in its name."""
    found = [(path, match) for path in folder.glob("*") if (match := re.fullmatch(pattern, path.name))]
    if len(found) != 1:
        sys.exit(f"tools/build_image.py: expected one {what} in {folder}, found {len(found)}: tools/build_{what}.py makes it")
    return found[0][0], *found[0][1].groups()


def build(file, version, tag, context, scratch, *options):
    """The image's folder, as OCI has it."""
    # vfs and chroot need nothing of the kernel that a container or a small machine lacks.
    buildah = ["buildah", "--root", scratch / "storage", "--runroot", scratch / "run", "--storage-driver", "vfs"]
    name = f"hvdray:{tag}"
    run([*buildah, "build", "--isolation", "chroot", "--identity-label=false", "--label", f"org.opencontainers.image.version={version}",
         "--file", ROOT / "image" / file, "--tag", name, *options, context])
    run([*buildah, "push", name, f"oci:{scratch / 'image'}:{name}"])
    return scratch / "image"


def run(command):
    """Shows what it says only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-40000:]}tools/build_image.py: {command[0]} failed")


def pack(image, made, written=None):
    """With `written`, the same for the same files, whoever packs them and when."""
    new = made.with_name(f"{made.name}.new")  # what an interrupted run leaves is not taken for an image
    with tarfile.open(new, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(path for path in image.rglob("*") if path.is_file()):
            item = tarfile.TarInfo(str(path.relative_to(image)))
            item.size = path.stat().st_size
            item.mtime = written or int(path.stat().st_mtime)
            with path.open("rb") as file:
                tar.addfile(item, file)
    new.rename(made)


if __name__ == "__main__":
    main()
