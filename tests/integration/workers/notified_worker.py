# SPDX-License-Identifier: Apache-2.0
"""Takes notices as an elastic Horovod worker does, and prints each that its listener hears. Ends with its
stdin."""

import sys

from horovod.runner.elastic.worker import HostUpdateResult, WorkerNotificationManager


class Listener:
    def on_hosts_updated(self, timestamp, update_res):
        # As State.check_host_updates() treats them.
        assert timestamp > 0
        # One write: the service's threads call this at the same moment, and print() ends its line in a second.
        sys.stdout.write(f"heard {timestamp} {int(HostUpdateResult.no_update | update_res)}\n")
        sys.stdout.flush()


def main():
    manager = WorkerNotificationManager()
    manager.init()
    manager.register_listener(Listener())
    print("listening", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
