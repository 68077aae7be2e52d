"""The names of locks, as zklock makes them. Copy this file; it needs nothing else.

    path(literal("orders/create"))             # /zklock/orders/create
    path(pattern("orders/", order, "/create"))

A name is a relative path. What you write is checked. In a value, what cannot be part of a path
segment is escaped, so that it never adds a segment or leaves one; all else stays as it is, so that
`"/zklock/orders/" + str(order)` is the same path for every order that can be a segment.
"""

import re

LONGEST = 1024
"""The longest name, in bytes of UTF-8 with its escapes."""


class InvalidName(ValueError):
    """The name breaks a rule: `empty`, `empty-segment`, `empty-value`, `dots`, `refused`,
    `reserved` or `too-long`."""


def path(name, root="/zklock"):
    """Returns the path of the lock's node."""
    return root.rstrip("/") + "/" + name


def literal(name):
    """Returns a name that you wrote, having checked it."""
    return pattern(name)


def pattern(*parts):
    """Returns the name of text and values, which alternate: text, value, text, value …"""
    # Each segment is a list of (character or escape, the number of its part); an escape has none.
    segments = [[]]
    for index, part in enumerate(parts):
        if index % 2 == 1:
            segments[-1].extend(_of_value(str(part), index))
            continue
        first, *others = part.split("/")
        segments[-1].extend((c, index) for c in first)
        segments.extend([(c, index) for c in other] for other in others)
        if any(_refused(c) for c in part):
            raise InvalidName("refused")
    if segments == [[]]:
        raise InvalidName("empty")
    name = "/".join(_segment(segment) for segment in segments)
    if len(name.encode()) > LONGEST:
        raise InvalidName("too-long")
    return name


def _of_value(text, index):
    if not text:
        raise InvalidName("empty-value")
    if len(text) > LONGEST:
        raise InvalidName("too-long")
    if any("\ud800" <= c <= "\udfff" for c in text):
        # Half a character, which has no UTF-8 to escape.
        raise InvalidName("refused")
    for c in text:
        yield (_escape(c), None) if c == "/" or _refused(c) else (c, index)


def _segment(pieces):
    text = "".join(piece for piece, _ in pieces)
    if not text:
        raise InvalidName("empty-segment")
    if text in (".", "..", "locks", "leases"):
        # What a value did wrong, escaping its first character puts right.
        values = [at for at, (_, index) in enumerate(pieces) if index % 2 == 1]
        if not values:
            raise InvalidName("dots" if text[0] == "." else "reserved")
        pieces[values[0]] = (_escape(pieces[values[0]][0]), None)
    for at in range(len(pieces) - 2):
        three = pieces[at : at + 3]
        parts = {index for _, index in three}
        if re.fullmatch("~[0-9A-F]{2}", "".join(piece for piece, _ in three)):
            # It looks like an escape; unless the programmer wrote it so, it is none.
            if len(parts) > 1 or parts.pop() % 2 == 1:
                pieces[at] = (_escape("~"), None)
    return "".join(piece for piece, _ in pieces)


def _refused(c):
    """Whether ZooKeeper refuses the character in a path."""
    return c <= "\x1f" or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\uf8ff" or c >= "\ufff0"


def _escape(c):
    return "".join(f"~{byte:02X}" for byte in c.encode())
