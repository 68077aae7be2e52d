"""Prepares the pages for mdBook: what a link outside of the guide leads to is in the repository.

On GitHub every page is read where it is, and its links are paths in the repository. The guide also
contains pages from other folders (see SUMMARY.md). mdBook calls this program with the book as
JSON; see "Preprocessors" in its own guide.
"""

import json
import posixpath
import re
import sys

WEB = "https://github.com/zklock/zklock/blob/main/"


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    found = [one for one in chapters(book.get("items") or book["sections"]) if one["source_path"]]
    # Path in the repository -> path in the book.
    pages = {}
    for one in found:
        source = posixpath.normpath(posixpath.join("docs", one["source_path"]))
        pages[source] = one["path"] = re.sub(r"README\.md$", "index.md", source.removeprefix("docs/"))

    def mend(source, target):
        path, hash_, anchor = target.partition("#")
        if path.startswith(WEB):
            path = path.removeprefix(WEB)
        elif ":" in path or not path:
            return target
        else:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path in pages:
            here = posixpath.dirname(pages[source])
            return posixpath.relpath(pages[path], here or ".") + hash_ + anchor
        if path.startswith("docs/pictures/"):
            return target
        return WEB + path + hash_ + anchor

    for one in found:
        source = posixpath.normpath(posixpath.join("docs", one["source_path"]))
        parts = re.split(r"(^```.*?^```[^\n]*$)", one["content"], flags=re.S | re.M)
        for at in range(0, len(parts), 2):
            parts[at] = re.sub(r"(\]\()([^)\s]+)(\))", lambda m: m[1] + mend(source, m[2]) + m[3], parts[at])
            parts[at] = re.sub(r"^(\[[^\]]+\]: )(\S+)$", lambda m: m[1] + mend(source, m[2]), parts[at], flags=re.M)
        one["content"] = "".join(parts)
    json.dump(book, sys.stdout)


main()
