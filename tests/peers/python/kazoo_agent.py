"""kazoo's locks, driven over stdin and stdout.

Arguments: connect string, session timeout in ms. The protocol is in the README beside these
programs.
"""

import itertools
import logging
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError, LockTimeout, NoNodeError
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock

from kazoo_as_curator import CuratorLock

logging.basicConfig(level=logging.ERROR, stream=sys.stderr)

client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
stdout_lock = threading.Lock()
handles = itertools.count(1)
grants = {}
waiting = {}


def say(*words):
    with stdout_lock:
        print(*words, flush=True)


def make(kind, path):
    name, _, argument = kind.partition(":")
    if name == "lasting":
        return Lock(client, path)
    if name == "mutex":
        # An argument is a pattern of other clients' nodes to respect, `-lock-` for Curator's.
        return Lock(client, path, extra_lock_patterns=[argument] if argument else ())
    if name == "curators-mutex":
        return CuratorLock(client, path)
    if name == "read":
        return ReadLock(client, path)
    if name == "write":
        return WriteLock(client, path)
    if name == "semaphore":
        return Semaphore(client, path, max_leases=int(argument))
    raise ValueError("no such kind: " + kind)


def node_of(lock):
    if isinstance(lock, Semaphore):
        return lock.create_path
    return lock.path + "/" + lock.node


def hold(ident, lock, timeout_ms, ephemeral):
    """Acquires, waits for the release, and releases: all on one thread."""
    try:
        try:
            if not ephemeral:
                held = lock.acquire(ephemeral=False)
            elif timeout_ms == 0:
                held = lock.acquire(blocking=False)
            else:
                held = lock.acquire(timeout=None if timeout_ms < 0 else timeout_ms / 1000)
        except LockTimeout:
            held = False
        at = time.monotonic_ns()
        waiting.pop(ident, None)
        if not held:
            say(ident, "busy")
            return
        handle, released = str(next(handles)), threading.Event()
        grant = [released, None]
        grants[handle] = grant
        say(ident, "ok", handle, node_of(lock), at)
    except CancelledError:
        say(ident, "cancelled")
        return
    except Exception as err:
        say(ident, "error", repr(err).replace("\n", " "))
        return
    finally:
        waiting.pop(ident, None)
    released.wait()
    at = time.monotonic_ns()
    try:
        lock.release()
        say(grant[1], "ok", at)
    except Exception as err:
        say(grant[1], "error", repr(err).replace("\n", " "))


def participants(path):
    try:
        nodes = client.get_children(path)
    except NoNodeError:
        nodes = []
    nodes.sort(key=lambda node: node[-10:])
    return [path + "/" + node for node in nodes]


def serve(words):
    ident, command = words[0], words[1]
    if command == "acquire":
        lock = make(words[2], words[3])
        waiting[ident] = lock
        args = (ident, lock, int(words[4]), words[2] != "lasting")
        threading.Thread(target=hold, args=args, daemon=True).start()
    elif command == "release":
        grant = grants.pop(words[2], None)
        if grant is None:
            say(ident, "error no such handle")
            return
        grant[1] = ident
        grant[0].set()
    elif command == "cancel":
        lock = waiting.get(words[2])
        if lock is not None:
            lock.cancel()
        say(ident, "ok")
    elif command == "participants":
        say(ident, "ok", *participants(words[2]))
    else:
        say(ident, "error no such command")


def main():
    client.start(timeout=30)
    say("ready")
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        try:
            serve(words)
        except Exception as err:
            say(words[0], "error", repr(err).replace("\n", " "))
    client.stop()
    client.close()


main()
