"""Judges the names below a directory by Python's own codec and Unicode data, so that `namegate scan` can be held
against it. Prints one line for each finding: the kind, a space, and the path in hex.

    oracle.py DIRECTORY

Kinds: `utf8` (the codec refuses the name), `strict` (that, or a control character, a noncharacter or a line separator),
`macos` (another name of the directory is the same without regard to case and canonical equivalence). Python's Unicode
data may be older than namegate's; the trees that it judges hold old characters only.
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


def main():
    for directory, directories, files in os.walk(os.fsencode(sys.argv[1])):
        groups = collections.defaultdict(list)
        for name in directories + files:
            path, text = os.path.join(directory, name).hex(), text_of(name)
            if text is None:
                print("utf8", path)
            else:
                groups[key(text)].append(path)
            if text is None or not all(map(is_plain, text)):
                print("strict", path)
        for paths in groups.values():
            for path in paths if len(paths) > 1 else []:
                print("macos", path)


main()
