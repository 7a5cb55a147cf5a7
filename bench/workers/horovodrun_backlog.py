# SPDX-License-Identifier: Apache-2.0
"""Horovod's own launcher with one thing changed: its rendezvous listens with a backlog of 4096."""

import socketserver
import sys

socketserver.TCPServer.request_queue_size = 4096

from horovod.runner.launch import run_commandline  # noqa: E402

if __name__ == "__main__":
    sys.exit(run_commandline())
