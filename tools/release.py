#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills dist/ for a release, and prints the commands that publish it; runs none of them.

Usage: tools/release.py VERSION [WHEEL]     WHEEL: built already by tools/build_wheel.py from this commit
dist/ gets the wheel, the sources, and SHA256SUMS. The version must be that of the tree, whose changelog has a section for it, and
nothing may be uncommitted.
"""

import gzip
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def main():
    if len(sys.argv) not in (2, 3) or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit(__doc__)
    version, *wheel = sys.argv[1:]
    problems = list(find_problems(version, *wheel))
    if problems:
        sys.exit("\n".join(f"tools/release.py: {problem}" for problem in problems))
    fill(version, *wheel)
    tag = f"v{version}"
    print(f"git tag --sign {tag} --message 'hvdray {version}' {git('rev-parse', 'HEAD')}",
          f"git push origin {tag}",
          "ssh-keygen -Y sign -n file -f KEY dist/SHA256SUMS",
          "twine upload dist/*.whl", sep="\n")


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def find_problems(version, wheel=None):
    if git("status", "--porcelain"):
        yield "the tree has changes that are not committed: git status"
    if git("tag", "--list", f"v{version}"):
        yield f"there is a tag v{version} already"
    for file, pattern in (("CMakeLists.txt", r"^project\(hvdray VERSION (\S+)"),
                          ("python/hvdray/__init__.py", r'^__version__ = "(.*)"')):
        found = re.search(pattern, (ROOT / file).read_text(), re.M)
        if not found or found[1] != version:
            yield f"{file} has version {found[1] if found else '?'}, not {version}"
    yield from changelog_problems(version, (ROOT / "CHANGELOG.md").read_text())
    path = pathlib.Path(wheel or "")
    if wheel and not (path.name.startswith(f"hvdray-{version}-") and path.suffix == ".whl" and path.is_file()):
        yield f"{wheel} is not a wheel of {version}"


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


def fill(version, wheel=None):
    made = ROOT / "dist.new"  # what an interrupted run leaves is not taken for a release, and dist/ is as it was
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    # Whatever this user's git is told about modes and ends of lines.
    archive = ["git", "-c", "tar.umask=0022", "-c", "core.autocrlf=false", "-C", ROOT, "archive", f"--prefix=hvdray-{version}/", "HEAD"]
    sources = subprocess.run(archive, check=True, capture_output=True).stdout
    (made / f"hvdray-{version}.tar.gz").write_bytes(gzip.compress(sources, mtime=0))
    if wheel:
        shutil.copyfile(wheel, made / pathlib.Path(wheel).name)  # it may lie in dist/
    else:
        subprocess.run([sys.executable, ROOT / "tools/build_wheel.py", made], check=True, stdout=sys.stderr)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made.iterdir())]
    (made / "SHA256SUMS").write_text("".join(sums))
    shutil.rmtree(DIST, ignore_errors=True)
    made.rename(DIST)


if __name__ == "__main__":
    main()
