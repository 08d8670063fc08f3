"""guard_names.py native DIR RECORD: tries every operation that makes a name, with all names, and records what the file system does.
guard_names.py refuse|allow DIR RECORD POLICY: the same with the names that POLICY refuses and names that it allows. What a guard does
not refuse has to be as recorded. Prints a line for each deviation, and at the end the numbers of calls, of operations that this
file system does not have, of calls that only the guard refused, and of bad names that the file system refuses too, and the errors
of the refusals. Removes what it made.

With a further argument SERVER, DIR is an SMB client's view of SERVER, in which a name may arrive as another one: with characters
from the private use area instead of reserved ones, or with question marks instead of what is not UTF-8. What counts is what
arrives there; the protocol may translate the error of a refusal."""

import ctypes
import errno
import json
import mmap
import os
import shutil
import socket
import struct
import sys

mode, base, record = sys.argv[1], os.fsencode(sys.argv[2]), os.path.abspath(sys.argv[3])
more = sys.argv[4:]
policy = None if mode == "native" else more.pop(0)
server = os.fsencode(more[0]) if more else None

# As in scripts/compare-peers.
NOT_UTF8 = [b"latin\xe9", b"overlong2\xc0\xaf", b"overlong3\xe0\x80\xaf", b"overlong4\xf0\x80\x80\xaf", b"surrogate\xed\xa0\x80",
            b"cesu\xed\xa0\xbd\xed\xb8\x80", b"above\xf4\x90\x80\x80", b"above\xf7\xbf\xbf\xbf", b"truncated\xe2\x82", b"lone\x80",
            b"octet\xfe"]
CONTROL = [b"a\nb", b"\x7f", b"x\x1b[2J"]
WINDOWS = [b"con", b"AUX.h", b"nul.tar.gz", b"com1", b"a:b", b"what?", b"a*b", b'"', b"x ", b"x.", b"a\x01", b"<>", b"|"]
# Profiles warn of these, and a warning refuses nothing.
WARNED = ["a\u202egnp.exe".encode(), "x\u200by".encode()]
BAD = {
    "utf8": NOT_UTF8,
    "strict": NOT_UTF8 + CONTROL,
    "windows": NOT_UTF8 + WINDOWS,
    "security": NOT_UTF8,
}
GOOD = [b"report.txt", "\u00e9\u65e5\u672c".encode(), "\U0001f600".encode(), b"a" * 255, b".hidden", b"console", b"x y", b"-rf"]

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


class Ring:
    """An io_uring, for one request at a time. Offsets and numbers are those of <linux/io_uring.h> on x86-64."""

    OPENAT, RENAMEAT, MKDIRAT, SYMLINKAT, LINKAT = 18, 35, 37, 38, 39
    SETUP, ENTER = 425, 426

    def __init__(self):
        params = ctypes.create_string_buffer(120)
        self.fd = call(libc.syscall(self.SETUP, 4, params))
        numbers = struct.unpack("30I", params.raw)
        entries, (self.sq, self.cq) = numbers[0], (numbers[10:20], numbers[20:30])
        self.submissions = mmap.mmap(self.fd, self.sq[6] + 4 * entries, offset=0)
        self.completions = mmap.mmap(self.fd, self.cq[5] + 16 * numbers[1], offset=0x8000000)
        self.requests = mmap.mmap(self.fd, 64 * entries, offset=0x10000000)

    def submit(self, operation, directory, path, other=None, length=0, flags=0):
        paths = [ctypes.create_string_buffer(p) if p is not None else None for p in (path, other)]
        first, second = (ctypes.addressof(p) if p is not None else 0 for p in paths)
        struct.pack_into("=BBHiQQII32x", self.requests, 0, operation, 0, 0, directory, second, first, length & 0xFFFFFFFF, flags)
        tail = struct.unpack_from("I", self.submissions, self.sq[1])[0]
        mask = struct.unpack_from("I", self.submissions, self.sq[2])[0]
        struct.pack_into("I", self.submissions, self.sq[6] + 4 * (tail & mask), 0)
        struct.pack_into("I", self.submissions, self.sq[1], tail + 1)
        call(libc.syscall(self.ENTER, self.fd, 1, 1, 1, None, 0))
        head = struct.unpack_from("I", self.completions, self.cq[0])[0]
        mask = struct.unpack_from("I", self.completions, self.cq[2])[0]
        result = struct.unpack_from("i", self.completions, self.cq[5] + 16 * (head & mask) + 8)[0]
        struct.pack_into("I", self.completions, self.cq[0], head + 1)
        if result < 0:
            raise OSError(-result, "")
        return result


ring = None


def uring(*request, **options):
    global ring
    if ring is None:
        ring = Ring()
    return ring.submit(*request, **options)


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def openat(path):
    directory = os.open(os.path.dirname(path), os.O_DIRECTORY)
    try:
        os.close(os.open(os.path.basename(path), os.O_CREAT, dir_fd=directory))
    finally:
        os.close(directory)


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
    "openat": openat,
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
    "uring-openat": lambda path: os.close(uring(Ring.OPENAT, AT_FDCWD, path, length=0o600, flags=os.O_CREAT | os.O_WRONLY)),
    "uring-mkdirat": lambda path: uring(Ring.MKDIRAT, AT_FDCWD, path, length=0o700),
    "uring-symlinkat": lambda path: uring(Ring.SYMLINKAT, AT_FDCWD, b"target", path),
    "uring-linkat": from_old(lambda old, path: uring(Ring.LINKAT, AT_FDCWD, old, path, length=AT_FDCWD)),
    "uring-renameat": from_old(lambda old, path: uring(Ring.RENAMEAT, AT_FDCWD, old, path, length=AT_FDCWD)),
}


def attempt(operation, name):
    try:
        OPERATIONS[operation](here + b"/" + name)
    except OSError as error:
        return error.errno
    # Or what was made under another name, in hexadecimal digits.
    return 0 if os.path.lexists(there + b"/" + name) else b"/".join(os.listdir(there)).hex()


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def clean_up(name):
    try:
        remove(here + b"/" + name)
    except OSError:
        if server is None:
            raise
    for rest in os.listdir(there):
        remove(there + b"/" + rest)


def said(number):
    return errno.errorcode.get(number, number)


here, there = base + b"/sub", (server or base) + b"/sub"
os.makedirs(here, exist_ok=True)
if mode == "native":
    found = {}
    for operation in OPERATIONS:
        results = found[operation] = {}
        for name in GOOD + NOT_UTF8 + CONTROL + WINDOWS + WARNED:
            results[name.hex()] = attempt(operation, name)
            clean_up(name)
        if results[GOOD[0].hex()]:
            print(f"{operation} is not in this file system: {said(results[GOOD[0].hex()])}", file=sys.stderr)
    with open(record, "w", encoding="ascii") as file:
        json.dump(found, file)
    shutil.rmtree(there)
    sys.exit()

with open(record, encoding="ascii") as file:
    native = json.load(file)
good = GOOD + WARNED if policy == "security" else GOOD
count = missing = refused = twice = 0
errors = set()
for operation, results in native.items():
    if results[GOOD[0].hex()]:
        missing += 1
        continue
    for name in BAD[policy] + good:
        own = results[name.hex()]
        got = attempt(operation, name)
        count += 1
        is_changed = isinstance(own, str)
        # The guard sees the name that arrives.
        is_bad = b"?" in bytes.fromhex(own) if is_changed else name in BAD[policy]
        is_refused, is_made = mode == "refuse" and is_bad, is_changed or own == 0
        refused += is_refused and is_made
        twice += is_refused and not is_made
        if is_refused:
            errors.add(said(got))
            wanted = {errno.EINVAL, own} if not is_made else {errno.EINVAL}
            is_wanted = got in wanted or (server is not None and isinstance(got, int) and got > 0)
        else:
            wanted = {own}
            is_wanted = got == own
        if not is_wanted or bool(os.listdir(there)) != (is_made and not is_refused):
            print(f"{operation} {name!r}: {said(got)} instead of {[said(number) for number in wanted]}")
        clean_up(name)
shutil.rmtree(there)
print(f"done {count} {missing} {refused} {twice} {','.join(map(str, sorted(errors, key=str))) or 'none'}")
