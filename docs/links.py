"""Checks the links of the book after `mdbook build docs`: python3 docs/links.py target/book

The tests check the links of the pages as they are in the repository. mdBook and repository.py write others: a
page has another name in the book, and a heading may have another anchor. Links to other sites are not followed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

WEB = "https://github.com/zklock/zklock/"


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        self.anchors |= {has.get("id"), has.get("name")}
        self.links += [has[key] for key in ("href", "src") if has.get(key)]


def leads_nowhere(pages, path, link):
    for kind in ("blob/main/", "tree/main/", "edit/main/"):
        if link.startswith(WEB + kind):
            return not (Path(__file__).parent.parent / urlsplit(link.removeprefix(WEB + kind)).path).exists()
    url = urlsplit(link)
    if url.scheme or url.netloc:
        return False
    to = (path.parent / unquote(url.path)).resolve() if url.path else path
    return not to.is_file() or to in pages and unquote(url.fragment) not in pages[to].anchors


book = Path(sys.argv[1]).resolve()
# It is shown in the place of any page, and so its links begin at the root of a site.
pages = {path: Page(path) for path in book.rglob("*.html") if path.name != "404.html"}
wrong = [f"{path.relative_to(book)}: {link}" for path, page in sorted(pages.items())
         for link in page.links if leads_nowhere(pages, path, link)]
sys.exit("\n".join(["links of the book that lead nowhere:", *wrong]) if wrong or len(pages) < 10 else 0)
