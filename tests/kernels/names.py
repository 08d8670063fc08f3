"""names.py SOURCE MOUNT ERRNO: through a mount with the default policy, names that are not UTF-8 are refused with ERRNO by every
call that creates one, and leave nothing behind. Valid names are stored unchanged, if the source itself accepts them. Prints all
errors, then a line with counts."""

import errno
import os
import sys

source, mount = map(os.fsencode, sys.argv[1:3])
expected_errno = sys.argv[3]
INVALID = [
    b"caf\xe9",
    b"\xff",
    b"a\x80b",
    b"\xc0\xaf",
    b"\xc3",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"ok\xfe.txt",
    b"n" * 200 + b"\xe9",
]
VALID = [
    "é",
    "e\u0301",
    "資料.txt",
    "Ünïcode",
    "😀",
    "a b",
    "x" * 200,
    "ﬁ",
    "ß",
    "name.with.dots",
    "ıİ",
]
wrong = []
refused = taken = 0
good = os.path.join(mount, b"good")
os.close(os.open(good, os.O_CREAT | os.O_WRONLY, 0o644))


def attempt(work, *arguments):
    try:
        value = work(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    if work is os.open:
        os.close(value)
    return "ok"


for name in INVALID:
    path = os.path.join(mount, name)
    calls = {
        "create": (os.open, path, os.O_CREAT | os.O_WRONLY, 0o644),
        "mkdir": (os.mkdir, path),
        "mkfifo": (os.mkfifo, path),
        "symlink": (os.symlink, b"x", path),
        "link": (os.link, good, path),
        "rename": (os.rename, good, path),
    }
    for call, arguments in calls.items():
        found = attempt(*arguments)
        if found != expected_errno:
            wrong.append(f"{call} of {name!r}: {found}")
        else:
            refused += 1
    if attempt(os.lstat, path) == "ok":
        wrong.append(f"{name!r} is there")
if sorted(os.listdir(source)) != [b"good"]:
    wrong.append(f"the source holds {os.listdir(source)}")

skipped = 0
for name in map(os.fsencode, VALID):
    native = os.path.join(source, name)
    if attempt(os.open, native, os.O_CREAT | os.O_WRONLY, 0o644) != "ok":
        skipped += 1
        continue
    expected = sorted(os.listdir(source))
    os.unlink(native)
    path = os.path.join(mount, name)
    found = attempt(os.open, path, os.O_CREAT | os.O_WRONLY, 0o644)
    listed = sorted(os.listdir(mount))
    if found != "ok" or listed != expected or attempt(os.lstat, path) != "ok":
        wrong.append(f"{name!r}: {found}, listed as {listed}")
    else:
        taken += 1
    if attempt(os.unlink, path) != "ok":
        wrong.append(f"{name!r} cannot be removed")
os.unlink(good)
for line in wrong:
    print(line)
print(f"{refused} refusals, {taken} valid names, {skipped} names that the file system refuses")
sys.exit(bool(wrong))
