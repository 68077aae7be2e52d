"""Adds 1 to the number in a file, n times, each under a kazoo lock.

Without mutual exclusion updates get lost, or the file beside it that marks the section is there
already. Arguments: connect string, path of the lock, file, n, and `as-curator` for nodes that
Curator understands.
"""

import sys
import time
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock

from kazoo_as_curator import CuratorLock

client = KazooClient(hosts=sys.argv[1])
client.start(timeout=30)
make = CuratorLock if sys.argv[5:] == ["as-curator"] else Lock
lock = make(client, sys.argv[2])
file = Path(sys.argv[3])
inside = Path(sys.argv[3] + ".inside")
count = int(sys.argv[4])
for _ in range(count):
    with lock:
        inside.touch(exist_ok=False)
        value = int(file.read_text())
        time.sleep(0)
        file.write_text(str(value + 1))
        inside.unlink()
client.stop()
print("done", count)
