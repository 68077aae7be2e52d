"""Adds 1 to the number in a file, n times, each under a kazoo lock.

Without mutual exclusion updates get lost. Arguments: connect string, path of the lock, file, n.
"""

import sys
import time
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock

client = KazooClient(hosts=sys.argv[1])
client.start(timeout=30)
lock = Lock(client, sys.argv[2])
file = Path(sys.argv[3])
count = int(sys.argv[4])
for _ in range(count):
    with lock:
        value = int(file.read_text())
        time.sleep(0)
        file.write_text(str(value + 1))
client.stop()
print("done", count)
