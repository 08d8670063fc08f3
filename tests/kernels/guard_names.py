"""guard_names.py DIR POLICY refuse|allow: every operation that makes a name, with names that POLICY refuses and names that it
allows. Prints a line for each deviation, and at the end the number of operations. Removes what it made."""

import ctypes
import errno
import os
import shutil
import socket
import sys

base, policy, expected = os.fsencode(sys.argv[1]), sys.argv[2], sys.argv[3]

NOT_UTF8 = [b"caf\xe9", b"\xff", b"a\xc0\xafb", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"]
CONTROL = [b"a\nb", b"\x7f", b"x\x1b[2J"]
WINDOWS = [b"con", b"AUX.h", b"nul.tar.gz", b"com1", b"a:b", b"what?", b"a*b", b'"', b"x ", b"x.", b"a\x01", b"<>", b"|"]
# Profiles warn of these, and a warning refuses nothing.
WARNED = ["a\u202egnp.exe".encode(), "x\u200by".encode()]
BAD = {
    "utf8": NOT_UTF8,
    "strict": NOT_UTF8 + CONTROL,
    "windows": NOT_UTF8 + WINDOWS,
    "security": NOT_UTF8,
}[policy]
GOOD = [b"report.txt", "\u00e9\u65e5\u672c".encode(), "\U0001f600".encode(), b"a" * 255, b".hidden", b"console", b"x y", b"-rf"]
if policy == "security":
    GOOD += WARNED

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def tmpfile_link(path):
    fd = os.open(base, os.O_TMPFILE | os.O_WRONLY)
    try:
        call(libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
    finally:
        os.close(fd)


def bind(path):
    # The path of a socket has at most 107 bytes: it is bound in the directory.
    os.chdir(os.path.dirname(path))
    name = os.path.basename(path)
    if len(name) > 100:
        create(path)
        return
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(name)


def from_old(act):
    def run(path):
        old = base + b"/.old"
        create(old)
        try:
            act(old, path)
        finally:
            if os.path.lexists(old):
                os.remove(old)

    return run


def rename_directory(path):
    old = base + b"/.old"
    os.mkdir(old)
    try:
        os.rename(old, path)
    finally:
        if os.path.isdir(old):
            os.rmdir(old)


def rename2(flags):
    return from_old(lambda old, path: call(libc.renameat2(AT_FDCWD, old, AT_FDCWD, path, flags)))


OPERATIONS = {
    "create": create,
    "openat": lambda path: os.close(os.open(os.path.basename(path), os.O_CREAT, dir_fd=os.open(os.path.dirname(path), 0))),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod": lambda path: os.mknod(path, 0o20600, os.makedev(1, 3)),
    "symlink": lambda path: os.symlink(b"target", path),
    "link": from_old(os.link),
    "rename": from_old(os.rename),
    "rename-directory": rename_directory,
    "rename-noreplace": rename2(1),
    "rename-whiteout": rename2(4),
    "tmpfile-link": tmpfile_link,
    "bind": bind,
}
# What a file system does not have, it refuses for every name; so does it where no guard is.
MISSING = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EISDIR}


def attempt(operation, path):
    try:
        OPERATIONS[operation](path)
        return 0
    except OSError as error:
        return error.errno


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


count = skipped = 0
os.makedirs(base, exist_ok=True)
for operation in OPERATIONS:
    here = base + b"/sub"
    os.makedirs(here, exist_ok=True)
    probe = attempt(operation, here + b"/probe")
    remove(here + b"/probe")
    if probe:
        if probe not in MISSING and operation not in ("rename-whiteout", "rename-noreplace", "mknod"):
            print(f"{operation}: a good name: {errno.errorcode.get(probe, probe)}")
        skipped += 1
        continue
    for names, want in ((BAD, errno.EINVAL if expected == "refuse" else 0), (GOOD, 0)):
        for name in names:
            path = here + b"/" + name
            got = attempt(operation, path)
            count += 1
            if got != want or os.path.lexists(path) != (want == 0):
                print(f"{operation} {name!r}: {errno.errorcode.get(got, got)} instead of {errno.errorcode.get(want, want)}")
            remove(path)
shutil.rmtree(base + b"/sub")
print(f"done {count} {skipped} {len(BAD)}")
