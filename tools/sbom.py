# SPDX-License-Identifier: Apache-2.0
"""What others have written of the programs in a folder of a static build: the files that the linker and the compiler have read, and
whose they are, as a bill of materials (CycloneDX 1.6) and as the notices that their licences ask for. The same build gives the same
bytes. What has no owner or no licence is an error."""

import fnmatch
import hashlib
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTICES = "THIRD-PARTY-NOTICES"
COMMON = pathlib.Path("/usr/share/common-licenses")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def files_of_others(build, *linked):
    """Those in the programs and libraries `linked`, which lie in the folder `build`, and the headers that all was compiled with."""
    found = set()
    for program in linked:
        rule = (build / f"{program}.d").read_text().split("\n\n")[0]  # as for make
        found |= {word.replace("\\ ", " ") for word in re.split(r"(?<!\\)\s+", rule.split(":", 1)[1].replace("\\\n", " ")) if word}
    headers = output_of("ninja", "-C", str(build), "-t", "deps").splitlines()
    found |= {line.strip() for line in headers if line.startswith("    ")}
    absolute = {os.path.normpath(os.path.join(build, name)) for name in found}
    # What a library takes from a shared one is not in it.
    return sorted(path for path in absolute if not path.startswith(f"{ROOT}/") and not re.search(r"\.so(\.|$)", path))


def parts(files):
    """By name: version, source, package URL, copyright, and which of the files."""
    rows = list(made())
    ours = {path: part for path in files for pattern, part in rows if fnmatch.fnmatchcase(path, pattern)}
    found = {**debian_parts([path for path in files if path not in ours]), **ours}
    for path in files:
        if path not in found:
            raise SystemExit(f"{path} was compiled or linked, and no package has it")
        if not os.path.isfile(found[path]["copyright"]):
            raise SystemExit(f"{found[path]['name']} has no licence: {found[path]['copyright']} is missing")
    return {part["name"]: {**part, "files": [path for path in files if found[path] is part]}
            for part in sorted({id(part): part for part in found.values()}.values(), key=lambda part: part["name"])}


def made():
    """What tools/static_libraries.sh has built, as (pattern, part)."""
    prefix = pathlib.Path(output_of(ROOT / "tools/static_libraries.sh").strip())
    for folder in sorted((prefix / "parts").iterdir()):
        name, version, url, *patterns = (folder / "of").read_text().splitlines()
        part = {"name": name, "version": version, "source": name, "purl": url, "copyright": str(folder / "copyright")}
        yield from ((str(prefix / pattern), part) for pattern in patterns)


def debian_parts(paths):
    done = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True, check=False)
    owners = {path: names.split(",")[0].split(":")[0] for names, path in (line.split(": ", 1) for line in done.stdout.splitlines())}
    form = "${Package}\t${Version}\t${Architecture}\t${source:Package}\n"
    release = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release", encoding="utf-8") if "=" in line)
    distribution = f"{release['ID']}-{release['VERSION_ID'].strip(chr(34))}"
    rows = (line.split("\t") for line in output_of("dpkg-query", "-W", "-f", form, *sorted(set(owners.values()))).splitlines())
    packages = {name: {"name": name, "version": version, "source": source, "copyright": f"/usr/share/doc/{name}/copyright",
                       "purl": f"pkg:deb/debian/{name}@{version}?arch={machine}&distro={distribution}"}
                for name, version, machine, source in rows}
    return {path: packages[name] for path, name in owners.items()}


def bill(version, purl, found):
    """The text, for hvdray of that version in the package of that URL."""
    about = {"type": "application", "name": "hvdray", "version": version, "purl": purl, "licenses": [{"license": {"id": "Apache-2.0"}}]}
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about},
                       "components": [component(part) for part in found.values()]}, indent=1) + "\n"


def component(part):
    archives = [path for path in part["files"] if path.endswith((".a", ".o"))]
    files = [{"type": "file", "name": path, "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()}]}
             for path in archives or part["files"]]  # headers, where that is all
    for file in files:
        file["name"] = os.path.basename(file["name"]) if archives else file["name"].split("/include/", 1)[-1]
    return {"type": "library", "name": part["name"], "version": part["version"], "group": part["source"], "purl": part["purl"],
            "licenses": [{"license": {"name": name}} for name in licences(part["copyright"])], "components": files}


def licences(copyright_file):
    """What a copyright file of Debian's machine-readable form says of most files; else where the text is."""
    text = pathlib.Path(copyright_file).read_text(encoding="utf-8")
    most = re.search(r"(?m)^Files: *\n? *\*\n(?:.+\n)*?License: *(.+)$", text)
    return [most[1] if most and text.startswith("Format:") else f"see {NOTICES}"]


ABOUT_GLIBC = """\
The programs contain the GNU C Library, Debian's package {package} {version}, under the GNU Lesser General Public License 2.1 or
later. Its sources: apt-get source {source}={version}. You may change it and link the programs again: hvdray's own sources of the same
version are published beside this file; on Debian 12, with your libc.a in place of Debian's, tools/build_wheel.py makes them. You
may take the programs apart to find errors in such changes.
"""


def notices(found):
    """The text. A licence that Debian keeps once for all packages is there once, at the end."""
    texts = {}
    for part in found.values():
        texts.setdefault(pathlib.Path(part["copyright"]).read_text(encoding="utf-8"), []).append(f"{part['name']} {part['version']}")
    library = found["libc6-dev"]
    blocks = ["hvdray contains, or was compiled with, what follows. Each has its own licence.\n",
              block("The GNU C Library", ABOUT_GLIBC.format(package=library["name"], source=library["source"], version=library["version"])),
              block("digits.csv", (ROOT / "examples/digits/DATA.md").read_text(encoding="utf-8"))]
    blocks += [block(", ".join(names), text) for text, names in texts.items()]
    names = sorted({name.rstrip(".") for text in texts for name in re.findall(rf"{COMMON}/([\w.+-]+)", text)})
    known = {}
    for name in names:
        if (COMMON / name).is_file():
            known.setdefault((COMMON / name).resolve(), []).append(f"{COMMON}/{name}")  # GPL is GPL-3
    blocks += [block(", ".join(names), path.read_text(encoding="utf-8")) for path, names in known.items()]
    return "\n".join(blocks)


def block(title, text):
    return f"{'=' * 78}\n{title}\n{'=' * 78}\n{text}"
