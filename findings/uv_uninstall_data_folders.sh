#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# uv pip uninstall (0.13.9) leaves the folders of a wheel's data, empty; those of its modules it removes.
#
# Expected: after install and uninstall an environment has no folder that is named for the package, as with pip (23.0.1).
# Seen: what a wheel's .data/data/share/NAME and .data/data/lib/NAME brought is removed by file, and share/NAME and lib/NAME stay; NAME/inner of
# site-packages is gone. Who tests that "uninstall leaves nothing" with one of them finds it untrue with the other.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export PIP_DISABLE_PIP_VERSION_CHECK=1 UV_CACHE_DIR=$PWD/cache UV_NO_CONFIG=1
/usr/bin/python3 -m venv tools
tools/bin/pip install -q uv==0.13.9
tools/bin/uv --version

/usr/bin/python3 - <<'END'
import base64, hashlib, zipfile

files = {
    "tenon/__init__.py": b"",
    "tenon/inner/table.txt": b"1\n",
    "tenon-1.0.data/data/share/tenon/table.txt": b"2\n",
    "tenon-1.0.data/data/lib/tenon/table.txt": b"3\n",
    "tenon-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tenon\nVersion: 1.0\n",
    "tenon-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
sums = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for name, data in files.items()}
record = [f"{name},sha256={sums[name]},{len(data)}" for name, data in files.items()] + ["tenon-1.0.dist-info/RECORD,,"]
with zipfile.ZipFile("tenon-1.0-py3-none-any.whl", "w") as wheel:
    for name, data in {**files, "tenon-1.0.dist-info/RECORD": "\n".join(record).encode()}.items():
        wheel.writestr(name, data)
END

/usr/bin/python3 -m venv by_pip
/usr/bin/python3 -m venv by_uv
by_pip/bin/pip install -q --no-index ./tenon-1.0-py3-none-any.whl
by_pip/bin/pip uninstall -q -y tenon
tools/bin/uv pip install -q --python by_uv/bin/python ./tenon-1.0-py3-none-any.whl
tools/bin/uv pip uninstall -q --python by_uv/bin/python tenon
left() { (cd "$1" && find . -path '*tenon*' | sort | xargs); }
printf 'left by pip: %s\nleft by uv: %s\n' "$(left by_pip)" "$(left by_uv)"
[[ -z $(left by_pip) ]]
[[ $(left by_uv) == "./lib/tenon ./share/tenon" ]]
