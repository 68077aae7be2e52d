"""kazoo's locks with names that Curator's locks understand, and that understand Curator's.

One queue for Java, Python and Rust. The parents must be persistent: make them before.
"""

from kazoo.recipe.lock import Lock, ReadLock, WriteLock


class CuratorLock(Lock):
    """Excludes Curator's InterProcessMutex."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class CuratorReadLock(ReadLock):
    """The readers of Curator's InterProcessReadWriteLock."""

    _NODE_NAME = "-__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


class CuratorWriteLock(WriteLock):
    """Its writers."""

    _NODE_NAME = "-__WRIT__"
    _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]
