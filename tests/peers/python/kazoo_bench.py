"""Measures acquire + release of kazoo's lock; the release is awaited.

Arguments: connect string, path, mode, n, seconds, optionally seconds of warm-up (2). Modes: `1x1`;
`tasks`, n threads on one client, each with a Lock object of its own; `sessions`, n clients with
one thread each; `locks`, n threads on one client, each with a lock of its own.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock

connect, path, mode = sys.argv[1:4]
n = 1 if mode == "1x1" else int(sys.argv[4])
seconds = float(sys.argv[5])
warm_up = float(sys.argv[6]) if len(sys.argv) > 6 else 2.0
measuring = False
running = True
times = [[] for _ in range(n)]


def work(lock, own_times):
    try:
        while running:
            start = time.monotonic_ns()
            lock.acquire()
            lock.release()
            if measuring:
                own_times.append(time.monotonic_ns() - start)
    except BaseException as err:
        print(repr(err), file=sys.stderr, flush=True)
        os._exit(1)


def lock_of(clients, index):
    if mode in ("1x1", "tasks"):
        return Lock(clients[0], path)
    if mode == "sessions":
        return Lock(clients[index], path)
    if mode == "locks":
        return Lock(clients[0], "%s/%d" % (path, 1000 + index))
    raise ValueError("no such mode: " + mode)


clients = [KazooClient(hosts=connect, timeout=30) for _ in range(n if mode == "sessions" else 1)]
for client in clients:
    client.start(timeout=30)
threads = [
    threading.Thread(target=work, args=(lock_of(clients, index), times[index]))
    for index in range(n)
]
for thread in threads:
    thread.start()
time.sleep(warm_up)
start = time.monotonic_ns()
measuring = True
time.sleep(seconds)
# A short run on a loaded machine: go on to the first cycle, and count that time too.
limit = time.monotonic() + 60
while not any(times) and time.monotonic() < limit:
    time.sleep(0.01)
measuring = False
took = (time.monotonic_ns() - start) / 1e9
running = False
for thread in threads:
    thread.join()
for client in clients:
    client.stop()
every = sorted(value for own in times for value in own)
count = len(every)
if not count:
    sys.exit("nothing was measured")
print(
    "locks_per_s=%.1f p50_us=%.1f p99_us=%.1f max_us=%.1f count=%d"
    % (
        count / took,
        every[count // 2] / 1e3,
        every[min(count - 1, count * 99 // 100)] / 1e3,
        every[-1] / 1e3,
        count,
    )
)
