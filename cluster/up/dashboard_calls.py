# SPDX-License-Identifier: Apache-2.0
"""Calls of the head's dashboard, for node_script.sh: python -I -c TEXT TOKEN_FILE HOST PORT nodes|drain [SECONDS]."""
import http.client
import json
import os
import sys
import time
import urllib.parse

token = open(sys.argv[1]).read().strip()
host, port = sys.argv[2], int(sys.argv[3])


def check_owner(link):
    """Any user may listen on loopback. What nobody has accepted yet has no inode, and the listener counts."""
    ends = [":%04X" % end[1] for end in (link.sock.getpeername(), link.sock.getsockname())]
    for file in filter(os.path.exists, ("/proc/net/tcp", "/proc/net/tcp6")):
        for line in open(file).readlines()[1:]:
            words = line.split()
            address = words[1][:-5]
            is_here = address.endswith(("0100007F", "7F000001")) or not address.strip("0")
            is_it = words[3] == "0A" and (host != "127.0.0.1" or is_here)
            if words[1].endswith(ends[0]) and (is_it or words[2].endswith(ends[1])) and words[9] != "0":
                if int(words[7]) not in (0, os.getuid()):
                    raise OSError("its port belongs to another user (uid %s)" % words[7])


def ask(method, path):
    link = http.client.HTTPConnection(host, port, timeout=10)
    link.connect()
    check_owner(link)
    link.request(method, path, headers={"Authorization": "Bearer " + token})
    answer = link.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise OSError("it answers %d" % answer.status)
    return json.loads(body)


def nodes():
    listed = ask("GET", "/api/v0/nodes?limit=10000")["data"]["result"]["result"]
    print("@dashboard", host, port)
    for node in listed:
        if node["state"] == "ALIVE":
            print("@alive", node["node_id"], node["node_ip"])


def live_jobs():
    return [job["submission_id"] for job in ask("GET", "/api/jobs/")
            if job.get("submission_id") and job["status"] in ("PENDING", "RUNNING")]


def drain(limit):
    left = jobs = live_jobs()
    for job in jobs:
        ask("POST", "/api/jobs/" + urllib.parse.quote(job, safe="") + "/stop")
    end = time.monotonic() + limit
    while left and time.monotonic() < end:
        time.sleep(0.2)
        left = live_jobs()
    print("@drained", len(jobs), len(left))


try:
    nodes() if sys.argv[4] == "nodes" else drain(float(sys.argv[5]))
except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
    why = str(error) or type(error).__name__
    print("@problem the dashboard:", " ".join(why.split()))
