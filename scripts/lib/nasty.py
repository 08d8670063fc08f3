"""Trees of names that Linux allows and others do not."""
import os
import re

# Legal on Linux; the profile `windows` refuses some, and a table can store all of them.
GOOD = [
    b"plain.txt", b"a:b", b"q?*.txt", b"Icon\r", b"dot.", b"space ", b"dots...", b". .", b"<a>|\"b\"", b"back\\slash", b"tab\there", b"new\nline", b"\x01\x1f",
    b"del\x7f", b"-dash", b" lead", b"~tmp~", b".hidden:", b"#a:b#", b"a:b~", b"%41", b"'quote'", b"$HOME `id`", b"Twin", b"twin",
    # What the tables write, and their quote, as names of their own; beside names that would become them.
    "a：b".encode(), "‛".encode(), "‛a:b".encode(), "‛：".encode(), "‛‛:".encode(), "‛a：b".encode(), "x\uf022y".encode(), "x:y".encode(), "\uf03a".encode(),
    "␦".encode(), "␠".encode(), "␍".encode(), "Icon␍".encode(), "dot．".encode(), "space␠".encode(), "a÷b".encode(), "¿".encode(),
    # Letters.
    "😀:😀".encode(), "März:".encode(), "é.txt".encode(), "e\u0301.txt".encode(), "日本:語?".encode(), "שלום:".encode(), "\u202e:evil".encode(),
    # Long ones: 255 bytes, with letters of several bytes, with an end that is refused, and one that grows to 180 bytes.
    b"l" * 255, "日".encode() * 85, b"m" * 200 + b".", b":" * 60,
]
# Directories; each gets files of these names and a directory.
DIRECTORIES = [b"dir", b"d:1", b"d?/*:*", "d：1".encode(), b"end.", b"end./ .", b"deep:/a:/b:/c:/d:"]
# No table can store these, or they look like the escape of another name.
REFUSED = [b"con", b"aux.txt", b"caf\xe9", b"\xff", "caf␦E9".encode(), "␦3A".encode(), b"n:" * 100]
# Stored, unless a program needs a longer temporary name.
LIMIT = [b"?" * 84, b":" * 80]


def write(top, path, content=None, at=1_700_000_000):
    path = os.path.join(os.fsencode(top), path)
    with open(path, "wb") as file:
        file.write(path[-20:] + b" content\n" if content is None else content)
    # Whole seconds, as every program keeps them.
    os.utime(path, (at, at))


def make(top, avoided=b"$^"):
    """A tree with all good names but those that a program cannot handle anywhere, links of both kinds, and an empty directory."""
    wanted = lambda path: not re.search(avoided, path)
    for name in filter(wanted, GOOD):
        write(top, name, name + b" content\n")
    for at in filter(wanted, DIRECTORIES):
        os.makedirs(os.path.join(os.fsencode(top), at))
        for name in (b"a:b", b"plain", b"end.", "a：b".encode()):
            write(top, os.path.join(at, name), at + b"/" + name)
    os.mkdir(os.path.join(os.fsencode(top), b"empty:"))
    write(top, b"hard:1", b"two names\n")
    os.link(os.path.join(os.fsencode(top), b"hard:1"), os.path.join(os.fsencode(top), b"dir/hard?2"))
    for name, target in ((b"link:", b"a:b"), (b"dangling?", b"no:where/<x>"), (b"dir/up.", b"../a:b")):
        if wanted(name):
            os.symlink(target, os.path.join(os.fsencode(top), name))


def change(top, removed, renamed, written):
    """What is not there was avoided."""
    top = os.fsencode(top)
    for name in removed:
        if os.path.lexists(os.path.join(top, name)):
            os.unlink(os.path.join(top, name))
    for old, new in renamed:
        if os.path.lexists(os.path.join(top, old)):
            os.rename(os.path.join(top, old), os.path.join(top, new))
    for name in written:
        write(top, name, b"written later, and longer than before\n" * 3 + name, at=1_700_000_100)


def edit(top):
    """Removes, renames, changes and adds files and directories."""
    renamed = [(b"d:1", b"d:2"), (b"dot.", b"dot:."), (b"<a>|\"b\"", b"no longer reserved"), (b"plain.txt", b"now:reserved.")]
    change(top, [b"a:b", "‛：".encode()], renamed, [b"q?*.txt", b"deep:/a:/new?"])


def edit_again(top):
    change(top, ["x:y".encode()], [(b"d?", b"d!*")], ["日本:語?".encode(), b"new? again"])


def make_refused(top):
    for name in (b"plain.txt", b"a:b", b"zz.", *REFUSED, *LIMIT):
        write(top, name, name[:9] + b" content\n")


DECOMPOSED = [name.encode() for name in ("e\u0301.txt", "a\u0308rger.txt", "plain.txt", "\u00fc.txt", "\ud55c", "\u1112\u1161\u11ab.txt")]


def make_decomposed(top, avoided=b""):
    """Names as macOS wrote them, none twice."""
    for at in (b"", "o\u0308/".encode(), "o\u0308/a\u030a/".encode()):
        os.makedirs(os.path.join(os.fsencode(top), at), exist_ok=True)
        for name in DECOMPOSED:
            write(top, at + name, at + name)


def edit_decomposed(top):
    change(top, ["o\u0308/a\u0308rger.txt".encode()], [("a\u0308rger.txt".encode(), "a\u0308rger 2.txt".encode())], ["e\u0301.txt".encode(), "n\u0303ew".encode()])


def edit_decomposed_again(top):
    change(top, [], [], ["again e\u0301".encode()])
