# SPDX-License-Identifier: Apache-2.0
import threading


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Starts a thread; with `silent` what it raises is not printed."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")

    def run():
        try:
            target(*args)
        except BaseException:
            if not silent:
                raise

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread
