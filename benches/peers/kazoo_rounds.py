"""kazoo's Lock, measured.

Reads `open SESSIONS THREADS LOCKS` and `run MILLISECONDS` from its input, answers `ready` and
`result ELAPSED_NS cycles NS:1 … waits NS:1 … handoffs NS:1 …`. It ends with its input.
"""

import sys
import threading
import time

from kazoo.client import KazooClient

now = time.perf_counter_ns
sessions = []


def cycle(lock, barrier, nanos, results):
    cycles, waits = [], []
    barrier.wait()
    start = asked = now()
    while True:
        lock.acquire()
        granted = now()
        lock.release()
        done = now()
        cycles.append(done - asked)
        waits.append(granted - asked)
        asked = done
        if done - start >= nanos:
            break
    results.append((done - start, cycles, waits))


def run(locks, nanos):
    barrier, results = threading.Barrier(len(locks)), []
    threads = [
        threading.Thread(target=cycle, args=(lock, barrier, nanos, results)) for lock in locks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) < len(locks):
        return "error a thread failed"

    def words(index):
        return " ".join(f"{value}:1" for result in results for value in result[index])

    elapsed = max(result[0] for result in results)
    return f"result {elapsed} cycles {words(1)} waits {words(2)} handoffs"


def main():
    locks = []
    for line in sys.stdin:
        words = line.split()
        if words[0] == "open":
            count, threads, names = map(int, words[1:])
            while len(sessions) < count:
                session = KazooClient(hosts=sys.argv[1], timeout=30)
                session.start()
                sessions.append(session)
            # A kazoo lock object belongs to one thread at a time.
            locks = [
                session.Lock(f"/kazoo/lock-{thread % names}", "bench")
                for session in sessions[:count]
                for thread in range(threads)
            ]
            print("ready", flush=True)
        else:
            print(run(locks, int(words[1]) * 1_000_000), flush=True)


main()
