"""Tries a lock for each id, with nodes that Curator understands, prints `busy` or `held` and the path,
and holds what it has got until the end of input.

Arguments: connect string, path above, a file with a line for each id: `plain` or `escaped`, and its
UTF-8 in hex. The path of a plain id is what stands before it and the id. Paths are printed in hex.
"""

import sys
from pathlib import Path

from kazoo.client import KazooClient

from kazoo_as_curator import CuratorLock

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).parent.parent.parent / "vectors"))
import lock_names  # noqa: E402

connect, above, ids = sys.argv[1:]
client = KazooClient(hosts=connect)
client.start(timeout=30)
taken = []
for line in Path(ids).read_text().splitlines():
    kind, digits = line.split()
    name = bytes.fromhex(digits).decode()
    path = f"{above}/orders/{name}"
    if kind == "escaped":
        path = lock_names.path(lock_names.pattern("orders/", name), above)
    lock = CuratorLock(client, path)
    held = lock.acquire(blocking=False)
    if held:
        taken.append(lock)
    print("held" if held else "busy", path.encode().hex())
sys.stdout.flush()
sys.stdin.read()
for lock in taken:
    lock.release()
client.stop()
