# SPDX-License-Identifier: Apache-2.0
"""One program that trains: train.py MEASURE CONTENDER [ARGUMENTS]. Prints a JSON list of seconds."""

import json
import os
import pathlib
import subprocess
import sys
import time


def timed(function):
    began = time.monotonic()
    function()
    return time.monotonic() - began


# ---- a checkpoint of a host that does not see the storage

def checkpoint(contender, host, folder, storage):
    """Seconds without connecting: of report(), and from the first byte of ssh's."""
    if contender == "ssh":
        path = pathlib.Path(storage, "data")
        took = of_ssh(["ssh", "-n", host, f"cat {folder}/data"], path)
    else:
        from hvdray import train

        def loop():
            made = train.Checkpoint.from_directory(folder)
            return timed(lambda: train.report({"loss": 1.0}, checkpoint=made))
        options = {"ssh_transport": "openssh"} if contender == "openssh" else {}
        result = train.Trainer(loop, hosts=f"{host}:1", options=options, run_config=train.RunConfig(name="run", storage_path=storage)).fit()
        path, took = pathlib.Path(result.checkpoint.path, "data"), result.return_value
    here, there = (subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.split()[0]
                   for words in (["sha256sum", path], ["ssh", "-n", host, f"sha256sum {folder}/data"]))
    assert here == there
    return [took]


def of_ssh(command, path):
    with open(path, "wb") as out, subprocess.Popen(command, stdout=out) as process:
        while not os.fstat(out.fileno()).st_size:
            assert process.poll() is None
            time.sleep(0.0005)
        took = timed(process.wait)
    assert process.returncode == 0
    return took


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)
