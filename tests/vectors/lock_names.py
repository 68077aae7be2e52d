"""The names of locks, as zklock makes them. Copy this file; it needs nothing else.

    path(literal("orders/create"))             # /zklock/orders/create
    path(pattern("orders/", order, "/create"))

A name is a relative path. What you write is checked; a value in a pattern is escaped, so that it
never adds a path segment or leaves one.
"""

LONGEST = 1024
"""The longest name, in bytes of UTF-8 with its escapes."""


class InvalidName(ValueError):
    """The name breaks a rule: `empty`, `empty-segment`, `dots`, `refused`, `low-start`,
    `reserved` or `too-long`."""


def path(name, root="/zklock"):
    """Returns the path of the lock's node."""
    return root.rstrip("/") + "/" + name


def literal(name):
    """Returns a name that you wrote, having checked it."""
    return pattern(name)


def pattern(*parts):
    """Returns the name of text and values, which alternate: text, value, text, value …"""
    # Each segment is a list of (character or escape, whether it is an unescaped part of a value).
    segments = [[]]
    for index, part in enumerate(parts):
        if index % 2 == 1:
            segments[-1].extend(_of_value(str(part)))
            continue
        first, *others = part.split("/")
        segments[-1].extend((c, False) for c in first)
        segments.extend([(c, False) for c in other] for other in others)
        if any(_refused(c) for c in part):
            raise InvalidName("refused")
    if segments == [[]]:
        raise InvalidName("empty")
    name = "/".join(_segment(segment, at == 0) for at, segment in enumerate(segments))
    if len(name.encode()) > LONGEST:
        raise InvalidName("too-long")
    return name


def _of_value(text):
    if len(text) > LONGEST:
        raise InvalidName("too-long")
    if any("\ud800" <= c <= "\udfff" for c in text):
        # Half a character, which has no UTF-8 to escape.
        raise InvalidName("refused")
    for c in text:
        yield (_escape(c), False) if c in "/~" or _refused(c) else (c, True)


def _segment(pieces, first):
    flaw = _flaw("".join(piece for piece, _ in pieces), first)
    if flaw is not None:
        # What a value did wrong, escaping its first character puts right.
        values = [at for at, (_, of_value) in enumerate(pieces) if of_value]
        if not values or (flaw == "low-start" and values[0] > 0):
            raise InvalidName(flaw)
        pieces[values[0]] = (_escape(pieces[values[0]][0]), False)
        # Unless the text before it is wrong, too.
        flaw = _flaw("".join(piece for piece, _ in pieces), first)
        if flaw is not None:
            raise InvalidName(flaw)
    return "".join(piece for piece, _ in pieces)


def _flaw(segment, first):
    if not segment:
        return "empty-segment"
    if segment in (".", ".."):
        return "dots"
    if first:
        return None
    if segment[0] <= "0":
        return "low-start"
    return "reserved" if segment in ("locks", "leases") else None


def _refused(c):
    """Whether ZooKeeper refuses the character in a path."""
    return c <= "\x1f" or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\uf8ff" or c >= "\ufff0"


def _escape(c):
    return "".join(f"~{byte:02X}" for byte in c.encode())
