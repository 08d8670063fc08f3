"""Checks the names below a directory with Python's codec and Unicode data, as an independent oracle for `namegate scan`.
Prints one line for each finding: the kind, a space, and the path in hexadecimal.

    oracle.py DIRECTORY
    oracle.py --count DIRECTORY

With --count it prints the number of names below the directory, and the number of findings of each kind.

Kinds: `utf8` (the codec refuses the name), `strict` (that, or a control character, a noncharacter or a line separator),
`macos` (another name of the directory is the same without regard to case and canonical equivalence). Python's Unicode
data may be older than namegate's, so the test trees contain only old characters.
"""

import collections
import os
import sys
import unicodedata


def text_of(name):
    try:
        return name.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return None


def is_plain(char):
    point = ord(char)
    is_noncharacter = 0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE
    return unicodedata.category(char) not in ("Cc", "Zl", "Zp") and not is_noncharacter


def key(text):
    nfd = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFD", nfd.casefold())


def findings(top):
    """Every name, as (None, path), and every finding. By descriptors: no path is too long."""
    for directory, directories, files, _ in os.fwalk(os.fsencode(top)):
        groups = collections.defaultdict(list)
        for name in directories + files:
            path, text = os.path.join(directory, name), text_of(name)
            yield None, path
            if text is None:
                yield "utf8", path
            else:
                groups[key(text)].append(path)
            if text is None or not all(map(is_plain, text)):
                yield "strict", path
        for paths in groups.values():
            for path in paths if len(paths) > 1 else []:
                yield "macos", path


def main():
    if sys.argv[1] == "--count":
        counts = collections.Counter(kind for kind, _ in findings(sys.argv[2]))
        print("names", counts[None])
        for kind in ("utf8", "strict", "macos"):
            print(kind, counts[kind])
    else:
        for kind, path in findings(sys.argv[1]):
            if kind:
                print(kind, path.hex())


main()
