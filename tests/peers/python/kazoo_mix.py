"""Takes a lock n times and prints for each `MODE ENTERED LEFT`.

Times are nanoseconds of the machine's monotonic clock. Arguments: connect string, `rw`,
`rw-as-curator` or `semaphore:LIMIT`, path of the lock, n.
"""

import random
import sys
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import ReadLock, Semaphore, WriteLock

from kazoo_as_curator import CuratorReadLock, CuratorWriteLock

connect, kind, path, count = sys.argv[1:5]
client = KazooClient(hosts=connect)
client.start(timeout=30)
if kind.startswith("semaphore:"):
    locks = [("permit", Semaphore(client, path, max_leases=int(kind.partition(":")[2])))]
elif kind == "rw":
    locks = [("read", ReadLock(client, path)), ("write", WriteLock(client, path))]
else:
    locks = [("read", CuratorReadLock(client, path)), ("write", CuratorWriteLock(client, path))]
for _ in range(int(count)):
    mode, lock = random.choice(locks[:1] + locks)
    with lock:
        entered = time.monotonic_ns()
        time.sleep(random.uniform(0.001, 0.004))
        print(mode, entered, time.monotonic_ns())
client.stop()
