#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills dist/ for a release, and prints the commands that publish it; runs none of them.

Usage: tools/release.py VERSION [FOLDER]     FOLDER: what tools/build_{wheel,tarball,deb,image}.py made from this commit
dist/ gets the wheel, the tarball of programs with the list of what is in it, Debian's packages, the image of the programs, the sources, and
SHA256SUMS. The version must be that of the tree, whose changelog has a section for it; nothing may be uncommitted; each part of others
must have a licence and a hash; and tools/reproduce.py --all, which compiles everything again, must find the same bytes.
"""

import gzip
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, LookupError, TypeError, AttributeError)


def main():
    if len(sys.argv) not in (2, 3) or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit(__doc__)
    version, *folder = sys.argv[1:]
    refuse_if(find_problems(version))
    fill(version, *folder)
    tag = f"v{version}"
    print(f"git tag --sign {tag} --message 'hvdray {version}' {git('rev-parse', 'HEAD')}",
          f"git push origin {tag}",
          "ssh-keygen -Y sign -n file -f KEY dist/SHA256SUMS",
          "twine upload dist/*.whl",
          *(push_command(f"dist/{image.name}", version) for image in DIST.glob("*.oci.tar")), sep="\n")


def push_command(archive, version):
    return f'buildah push "$(buildah pull --quiet oci-archive:{archive})" docker://REGISTRY/hvdray:{version}'


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def refuse_if(problems):
    lines = [f"tools/release.py: {problem}" for problem in problems]
    if lines:
        sys.exit("\n".join(lines))


def find_problems(version):
    if git("status", "--porcelain"):
        yield "the tree has changes that are not committed: git status"
    if git("tag", "--list", f"v{version}"):
        yield f"there is a tag v{version} already"
    for file, pattern in (("CMakeLists.txt", r"^project\(hvdray VERSION (\S+)"),
                          ("debian/changelog", r"\Ahvdray \((\S+)\)"),
                          ("python/hvdray/__init__.py", r'^__version__ = "(.*)"')):
        found = re.search(pattern, (ROOT / file).read_text(), re.M)
        if not found or found[1] != version:
            yield f"{file} has version {found[1] if found else '?'}, not {version}"
    yield from changelog_problems(version, (ROOT / "CHANGELOG.md").read_text())


def changelog_problems(version, text):
    sections = re.split(r"(?m)^## \[(.+?)\](?: - (.*))?$", text)[1:]
    names, dates, bodies = sections[::3], sections[1::3], sections[2::3]
    if version not in names:
        yield f"CHANGELOG.md has no section [{version}]"
        return
    place = names.index(version)
    if not dates[place] or not re.fullmatch(r"\d{4}-\d\d-\d\d", dates[place]):
        yield f"CHANGELOG.md: section [{version}] has no date"
    if not re.search(r"(?m)^- ", bodies[place]):
        yield f"CHANGELOG.md: section [{version}] is empty"
    if any(re.search(r"(?m)^- ", body) for body in bodies[:place]):
        yield f"CHANGELOG.md: there are entries above section [{version}]"


def packages(version, folder):
    """Wheel, tarball, the list beside it, and Debian's packages."""
    for pattern in ("hvdray-{}-py3-none-*.whl", "hvdray-{}-linux-*.tar.gz", "hvdray-{}-linux-*.cdx.json", "hvdray_{}_*.deb", "python3-hvdray_{}_all.deb"):
        found = sorted(pathlib.Path(folder).glob(pattern.format(version)))
        if len(found) != 1:
            sys.exit(f"tools/release.py: {folder} has {len(found)} files {pattern.format(version)}, not 1")
        yield found[0]


def package_problems(wheel, tarball, beside, _deb, _python_deb, *images):
    try:
        with zipfile.ZipFile(wheel) as archive:
            texts = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith((".cdx.json", "/THIRD-PARTY-NOTICES"))}
        yield from content_problems(wheel.name, texts)
    except DAMAGE as error:
        yield f"{wheel.name} is damaged: {error}"
    try:
        with tarfile.open(tarball) as archive:
            texts = {item.name: archive.extractfile(item).read().decode() for item in archive if item.name.endswith("/THIRD-PARTY-NOTICES")}
        yield from content_problems(tarball.name, {**texts, beside.name: beside.read_text()})
    except DAMAGE as error:
        yield f"{tarball.name} or its list is damaged: {error}"
        return
    for image in images:  # tools/reproduce.py builds none
        try:
            with open(tarball, "rb") as packed:
                same = programs_of_image(image) == programs_of(packed)
            if not same:
                yield f"{image.name} has other programs than {tarball.name}"
        except DAMAGE as error:
            yield f"{image.name} is damaged: {error}"


def programs_of(file):
    with tarfile.open(fileobj=file) as archive:
        return {item.name.rpartition("/bin/")[2]: hashlib.sha256(archive.extractfile(item).read()).digest()
                for item in archive if "/bin/" in item.name and item.isfile()}


def programs_of_image(path):
    with tarfile.open(path) as archive:
        def blob(described):
            return archive.extractfile("blobs/" + described["digest"].replace(":", "/"))

        manifest = json.load(blob(json.load(archive.extractfile("index.json"))["manifests"][0]))
        return {name: program for layer in manifest["layers"] for name, program in programs_of(blob(layer)).items()}


def content_problems(package, texts):
    bills = [json.loads(text) for name, text in texts.items() if name.endswith(".cdx.json")]
    notices = [text for name, text in texts.items() if not name.endswith(".cdx.json")]
    if len(bills) != 1 or len(notices) != 1 or not bills[0].get("components"):
        yield f"{package} has no list of what is in it, or no notices"
        return
    for part in bills[0]["components"]:
        files = part.get("components", [])
        if not part.get("licenses") or f"{part['name']} {part['version']}" not in notices[0]:
            yield f"{package}: {part['name']} has no licence"
        if not files or not all(file.get("hashes") for file in files):
            yield f"{package}: {part['name']} has no hash"


def code_of(command):
    """What stops this program stops the command, which gets the time to clean up."""
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def fill(version, folder=None):
    made = ROOT / "dist.new"  # what an interrupted run leaves is not taken for a release, and dist/ is as it was
    if folder and pathlib.Path(folder).resolve() == made:
        refuse_if([f"{folder} is what this run would begin anew: give it another name"])
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    # Whatever this user's git is told about modes and ends of lines.
    archive = ["git", "-c", "tar.umask=0022", "-c", "core.autocrlf=false", "-C", ROOT, "archive", f"--prefix=hvdray-{version}/", "HEAD"]
    sources = subprocess.run(archive, check=True, capture_output=True).stdout
    (made / f"hvdray-{version}.tar.gz").write_bytes(gzip.compress(sources, mtime=0))
    if folder is None:
        for tool in ("build_wheel.py", "build_tarball.py", "build_deb.py", "build_image.py"):
            subprocess.run([sys.executable, ROOT / "tools" / tool, made], check=True, stdout=sys.stderr)
    else:
        images = pathlib.Path(folder).glob(f"hvdray-{version}-linux-*.oci.tar")
        for file in [*packages(version, folder), *images]:  # it may be dist/
            shutil.copyfile(file, made / file.name)
    refuse_if(package_problems(*packages(version, made), *made.glob("*.oci.tar")))
    if code_of([sys.executable, ROOT / "tools/reproduce.py", "--all", made]) != 0:
        refuse_if(["somebody else would not build the same"])
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made.iterdir())]
    (made / "SHA256SUMS").write_text("".join(sums))
    shutil.rmtree(DIST, ignore_errors=True)
    made.rename(DIST)


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.CalledProcessError) as failure:  # a full disk, no git, a build that failed
        sys.exit(f"tools/release.py: {failure}{getattr(failure, 'stderr', None) or ''}".rstrip())
    except KeyboardInterrupt:
        sys.exit(130)
