"""One program at a time on the GPU, while others start: a lock that is held until the process ends."""

import fcntl

_HELD = []


def wait_for_gpu(path):
    """Waits for the lock of this file; without a path nothing is waited for."""
    if path:
        file = open(path, "a")
        fcntl.flock(file, fcntl.LOCK_EX)
        _HELD.append(file)
