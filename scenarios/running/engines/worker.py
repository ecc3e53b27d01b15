"""A worker process: runs the tasks that arrive over a link, and ends with the link.

``processes`` runs this file by its path, with a link's file descriptor. The driver's import path
arrives first over the link, so the project is imported only after that.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection


def serve(link: Connection[bytes, bytes]) -> None:
    """Carry out tasks, one after the other, until the link is closed."""
    sys.path[:] = pickle.loads(link.recv_bytes())
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(link, tasks), daemon=True).start()

    from scenarios.running.engines.carrying import carried_out

    while True:
        link.send_bytes(carried_out(tasks.get()))


def _listen(link: Connection[bytes, bytes], tasks: queue.SimpleQueue[bytes]) -> None:
    """Read tasks; end the process at once when the driver is gone."""
    try:
        while True:
            tasks.put(link.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    # Ctrl-C is for the driver, who then closes the link.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _descriptor = int(sys.argv[1])
    os.set_inheritable(_descriptor, False)
    try:
        serve(Connection(_descriptor))
    except (EOFError, OSError):
        sys.exit(0)
