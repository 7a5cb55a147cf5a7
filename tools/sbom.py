# SPDX-License-Identifier: Apache-2.0
"""What a build contains, as CycloneDX 1.6: the Debian packages whose headers were compiled, which also have the archives that were
linked, and those of the shared libraries that come along. The same build gives the same bytes."""

import json
import subprocess


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compiled_packages(build):
    """Those of the headers that ninja has seen in the folder of a build."""
    lines = output_of("ninja", "-C", str(build), "-t", "deps").splitlines()
    headers = sorted({line.strip() for line in lines if line.startswith("    /usr/include/") or line.startswith("    /usr/lib/")})
    owners = subprocess.run(["dpkg-query", "-S", *headers], capture_output=True, text=True, check=False).stdout.splitlines()
    unknown = set(headers) - {line.split(": ", 1)[1] for line in owners}
    if unknown:
        raise SystemExit(f"no package has {sorted(unknown)[0]}")
    return {line.split(":")[0] for line in owners}


def bill(version, packages):
    """The text, for hvdray of that version."""
    release = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release", encoding="utf-8") if "=" in line)
    distribution = f"{release['ID']}-{release['VERSION_ID'].strip(chr(34))}"
    form = "${Package}\t${Version}\t${Architecture}\t${source:Package}\n"
    rows = sorted(line.split("\t") for line in output_of("dpkg-query", "-W", "-f", form, *sorted(packages)).splitlines())
    components = [{"type": "library", "name": name, "version": of, "group": source,
                   "purl": f"pkg:deb/debian/{name}@{of}?arch={machine}&distro={distribution}"} for name, of, machine, source in rows]
    about = {"type": "application", "name": "hvdray", "version": version, "purl": f"pkg:pypi/hvdray@{version}",
             "licenses": [{"license": {"id": "Apache-2.0"}}]}
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about},
                       "components": components}, indent=1) + "\n"
