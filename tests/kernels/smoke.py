"""smoke.py DIR: performs operations in DIR and prints a line with the result of each. Two directories in which the same works
print the same lines."""

import errno
import fcntl
import mmap
import os
import stat
import sys

os.chdir(sys.argv[1])
os.umask(0o022)


def outcome(name, work):
    try:
        value = work()
        print(f"{name}: {'ok' if value is None else value}")
    except OSError as error:
        print(f"{name}: {errno.errorcode.get(error.errno, error.errno)}")


def write(name, data=b"x" * 5000, mode=0o644):
    fd = os.open(name, os.O_CREAT | os.O_RDWR, mode)
    os.write(fd, data)
    os.close(fd)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def attributes(name):
    found = os.lstat(name)
    size = found.st_size if stat.S_ISREG(found.st_mode) else "-"
    return f"{stat.filemode(found.st_mode)} {found.st_uid} {found.st_gid} {size}"


def unlinked():
    fd = os.open("unlinked", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"hello")
    os.unlink("unlinked")
    os.lseek(fd, 0, 0)
    data = os.read(fd, 10)
    os.ftruncate(fd, 2)
    size = os.fstat(fd).st_size
    os.close(fd)
    return f"{data} {size} {os.path.exists('unlinked')}"


def replaced():
    write("old", b"old")
    write("new", b"new")
    fd = os.open("old", os.O_RDONLY)
    os.rename("new", "old")
    data = os.read(fd, 10)
    os.close(fd)
    return f"{data} {read('old')} {os.path.exists('new')}"


def mapped():
    fd = os.open("mapped", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 8192)
    memory = mmap.mmap(fd, 8192)
    memory[0:5] = b"HELLO"
    memory.flush()
    memory.close()
    os.close(fd)
    return read("mapped")[:6]


def appended():
    with open("mapped", "ab") as file:
        file.write(b"zz")
    return os.stat("mapped").st_size


def many():
    os.mkdir("many")
    for i in range(200):
        write(f"many/f{i}", b"1")
    for i in range(0, 200, 2):
        os.rename(f"many/f{i}", f"many/g{i}")
    found = sorted(os.listdir("many"))
    for name in found:
        os.unlink(f"many/{name}")
    os.rmdir("many")
    return f"{len(found)} {found[0]} {found[-1]}"


def locked():
    with open("d/b", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def times():
    os.utime("d/b", ns=(10**18, 10**18 + 10**9))
    found = os.stat("d/b")
    return f"{found.st_atime_ns} {found.st_mtime_ns}"


def allocated():
    fd = os.open("allocated", os.O_CREAT | os.O_RDWR)
    try:
        os.posix_fallocate(fd, 0, 100000)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def sparse():
    fd = os.open("sparse", os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, b"end", 1 << 20)
    data = os.pread(fd, 3, 1 << 20)
    os.close(fd)
    return f"{data} {os.stat('sparse').st_size}"


def copied():
    source, target = os.open("d/b", os.O_RDONLY), os.open("copied", os.O_CREAT | os.O_RDWR)
    try:
        return os.copy_file_range(source, target, 5000)
    finally:
        os.close(source)
        os.close(target)


def direct():
    fd = os.open("d/b", os.O_RDONLY | os.O_DIRECT)
    try:
        memory = mmap.mmap(-1, 4096)
        return os.preadv(fd, [memory], 0)
    finally:
        os.close(fd)


write("a")
outcome("attributes", lambda: attributes("a"))
outcome("read", lambda: read("a") == b"x" * 5000)
outcome("exclusive", lambda: os.open("a", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
outcome("utf8", lambda: write("é資料"))
outcome("listed", lambda: "é資料" in os.listdir("."))
outcome("case", lambda: (write("Case"), os.path.exists("CASE"))[1])
outcome("mkdir", lambda: os.mkdir("d", 0o750))
outcome("directory", lambda: attributes("d"))
outcome("rename into", lambda: os.rename("a", "d/b"))
outcome("rename over", lambda: (write("c"), os.rename("c", "d/b"))[1])
outcome("rename directory", lambda: (os.mkdir("e"), os.rename("e", "f"), os.rename("f", "d/f"))[1])
outcome("rename into itself", lambda: os.rename("d", "d/f/g"))
outcome("rmdir full", lambda: os.rmdir("d"))
outcome("unlink directory", lambda: os.unlink("d/f"))
outcome("rmdir", lambda: os.rmdir("d/f"))
outcome("unlinked", unlinked)
outcome("replaced", replaced)
outcome("mapped", mapped)
outcome("truncate", lambda: os.truncate("mapped", 100))
outcome("append", appended)
outcome("link", lambda: os.link("mapped", "linked"))
outcome("links", lambda: os.stat("mapped").st_nlink)
outcome("symlink", lambda: os.symlink("mapped", "symlink"))
outcome("readlink", lambda: os.readlink("symlink"))
outcome("through symlink", lambda: os.stat("symlink").st_size)
outcome("fifo", lambda: os.mkfifo("fifo"))
outcome("device", lambda: os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3)))
outcome("chmod", lambda: os.chmod("d/b", 0o600))
outcome("after chmod", lambda: attributes("d/b"))
outcome("chmod 4755", lambda: os.chmod("d/b", 0o4755))
outcome("after chmod 4755", lambda: attributes("d/b"))
outcome("chown", lambda: os.chown("d/b", 1, 1))
outcome("after chown", lambda: attributes("d/b"))
outcome("chown back", lambda: os.chown("d/b", os.getuid(), os.getgid()))
outcome("times", times)
outcome("set xattr", lambda: os.setxattr("d/b", "user.lab", b"1"))
outcome("get xattr", lambda: os.getxattr("d/b", "user.lab"))
outcome("list xattr", lambda: [name for name in os.listxattr("d/b") if name.startswith("user.")])
outcome("remove xattr", lambda: os.removexattr("d/b", "user.lab"))
outcome("many", many)
outcome("lock", locked)
outcome("allocate", allocated)
outcome("sparse", sparse)
outcome("copy_file_range", copied)
outcome("direct", direct)
outcome("longest name", lambda: (write("n" * 255), os.unlink("n" * 255))[1])
outcome("too long", lambda: write("n" * 256))
outcome("free space", lambda: os.statvfs(".").f_blocks > 0)
outcome("fsync", lambda: os.fsync(os.open("d", os.O_RDONLY)))
print("entries:", sorted(os.listdir(".")))
for name in os.listdir("."):
    if name != "d":
        os.unlink(name)
os.unlink("d/b")
outcome("rmdir at last", lambda: os.rmdir("d"))
print("left:", os.listdir("."))
print("done")
