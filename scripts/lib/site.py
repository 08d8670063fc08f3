#!/usr/bin/env python3
"""Makes the source of the site of the pages, and checks what mdBook has made of it. Called by scripts/site.

site.py stage DIR    writes a book to DIR: book.toml, and src with all pages, in the folders of the repository
site.py check DIR    fails if a link, an anchor or a picture below DIR leads nowhere, or anything is loaded from another host
"""

import html.parser
import pathlib
import re
import shutil
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = pathlib.Path("docs/README.md")
FRONT = pathlib.Path("README.md")
# Files that browsers show as they are; others get `.txt` at the end.
SHOWN = {".svg", ".png", ".json", ".yml", ".yaml", ".toml", ".txt"}

# A link that is called like its file gets the title of the page.
NAMED = re.compile(r"\[[A-Za-z/-]+\.md\]\(([^)]+)\)")
LINK = re.compile(r"(\]\(|\b(?:src|srcset|href)=\")([^)\"\s]+)")
FENCE = re.compile(r"^```.*?^```$|^(?: {4}[^\n]*\n?)+", re.S | re.M)


def repository():
    """The address of the repository, which stands in one place."""
    return re.search(r'^repository = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def outside_code(text, change):
    """The text with `change` applied to all of it but fenced and indented blocks."""
    parts, at = [], 0
    for block in FENCE.finditer(text):
        parts += [change(text[at : block.start()]), block.group()]
        at = block.end()
    return "".join(parts + [change(text[at:])])


def resolve(page, target):
    """The file of the repository that a link leads to, and its anchor; None for an address."""
    path, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not path:
        return None
    file = (ROOT / page.parent / urllib.parse.unquote(path)).resolve()
    return file.relative_to(ROOT), anchor


def in_book(file):
    """The path of a file in the book: mdBook calls the page of a folder index."""
    if file.name == "README.md":
        return file.with_name("index.md")
    if file.suffix == ".md" or file.suffix in SHOWN:
        return file
    return file.with_name(file.name + ".txt")


def links(page):
    """The files of the repository that a page links to, in its order."""
    found = []
    outside_code((ROOT / page).read_text(), lambda text: found.extend(LINK.findall(text)) or text)
    targets = [resolve(page, target) for _, target in found]
    files = [target[0] for target in targets if target]
    return [file / "README.md" if (ROOT / file / "README.md").is_file() else file for file in files]


def rewritten(page):
    """The text of a page with links to where the files are in the book."""

    def one(match):
        before, target = match.groups()
        found = resolve(page, target)
        if not found:
            return match.group()
        file, anchor = found
        if (ROOT / file / "README.md").is_file():
            file /= "README.md"
        elif (ROOT / file).is_dir():
            return f"{before}{repository()}/tree/HEAD/{file}"
        up = "../" * (len(page.parts) - 1)
        return before + up + str(in_book(file)) + ("#" + anchor if anchor else "")

    def titled(match):
        return f"[{title(resolve(page, match.group(1))[0])}]({match.group(1)})"

    return outside_code((ROOT / page).read_text(), lambda text: LINK.sub(one, NAMED.sub(titled, text)))


def title(page):
    """The first heading of a page."""
    return re.search(r"^# (.*)$", (ROOT / page).read_text(), re.M).group(1)


def summary(pages):
    """The table of contents: the groups of the index with their pages; below a page those of the folder of its name."""
    lines, listed = ["# Summary\n", f"[namegate]({in_book(FRONT)})", f"[All pages]({in_book(INDEX)})"], {FRONT, INDEX}

    def add(page, indent=""):
        if page in listed or page.suffix != ".md":
            return
        listed.add(page)
        lines.append(f"{indent}- [{title(page)}]({in_book(page)})")
        for below in links(page):
            if below.parent == page.parent / page.stem.lower():
                add(below, indent + "  ")

    for row in (ROOT / INDEX).read_text().splitlines():
        if group := re.match(r"\| \*\*(.*?)\*\*", row):
            lines.append(f"\n# {group.group(1)}\n")
        elif row.startswith("| ") and "](" in row:
            for _, target in LINK.findall(row.split(" | ")[-1]):
                found = resolve(INDEX, target)
                if found:
                    add(found[0])
    if missing := sorted(str(page) for page in pages - listed if page.parts[0] == "docs"):
        sys.exit(f"{INDEX} does not lead to {', '.join(missing)}")
    lines.append("\n# The project\n")
    for page in sorted(pages - listed):
        add(page)
    return "\n".join(lines) + "\n"


def stage(book):
    shutil.rmtree(book, ignore_errors=True)
    pages = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    files, waiting = set(), [FRONT, *pages]
    while waiting:
        page = waiting.pop()
        pages.add(page)
        for file in links(page):
            if not (ROOT / file).exists():
                sys.exit(f"{page}: {file}: no such file")
            if file.suffix == ".md":
                waiting += [file] if file not in pages else []
            elif (ROOT / file).is_file():
                files.add(file)
    for file in pages | files:
        place = book / "src" / in_book(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file in pages:
            place.write_text(rewritten(file))
        else:
            shutil.copyfile(ROOT / file, place)
    (book / "src" / "SUMMARY.md").write_text(summary(pages))
    settings = ROOT / "scripts/lib/site"
    for file in settings.iterdir():
        shutil.copyfile(file, book / file.name)
    text = (settings / "book.toml").read_text()
    (book / "book.toml").write_text(text.replace("[output.html]\n", f'[output.html]\ngit-repository-url = "{repository()}"\n'))
    print(f"{len(pages)} pages, {len(files)} other files")


class Page(html.parser.HTMLParser):
    """The ids of a page, where it leads, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.leads, self.loads = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name == "href" and tag == "a":
                self.leads.append(value)
            elif name in ("src", "href", "poster", "data") and value:
                self.loads.append(value)
            elif name == "srcset":
                self.loads += [one.split()[0] for one in value.split(",")]


def problems(site):
    """What is wrong in the pages and style sheets of the site."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        shown = path.relative_to(site)
        for target in page.leads + page.loads:
            address = urllib.parse.urlsplit(target)
            if address.scheme == "data":
                continue
            if address.scheme or address.netloc:
                if target in page.loads:
                    yield f"{shown} loads {target}"
                continue
            # A page in a folder has links from there.
            file = path if not address.path else (path.parent / urllib.parse.unquote(address.path)).resolve()
            if file.is_dir():
                file /= "index.html"
            if not file.is_file():
                yield f"{shown}: {target}: no such file"
            elif address.fragment and file in pages and urllib.parse.unquote(address.fragment) not in pages[file].ids:
                yield f"{shown}: {target}: no such anchor"
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(r"url\(['\"]?([^)'\"]+)|@import ['\"]([^'\"]+)", path.read_text()):
            target = "".join(target)
            if not target.startswith("data:") and not (path.parent / target.split("?")[0].split("#")[0]).is_file():
                yield f"{path.relative_to(site)} loads {target}"


def check(site):
    found = list(problems(site.resolve()))
    if found:
        sys.exit("\n".join(found))
    print(f"{len(list(site.rglob('*.html')))} pages: all links, anchors and pictures are there, and nothing is loaded from another host")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stage", book]:
            stage(pathlib.Path(book))
        case ["check", site]:
            check(pathlib.Path(site))
        case _:
            sys.exit(__doc__)
