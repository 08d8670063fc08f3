"""What scripts that run other programs over a mount share: a disk in memory, mounts of namegate, and what a tree looks like."""
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time

# Programs of the tests see neither the configuration of the user nor a locale that is not UTF-8.
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "TZ": "UTC"}


def wait_until(what, condition, seconds=30):
    """Waits for a condition; the error says for which."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} after {seconds} s")
        time.sleep(0.02)


def run(*command, cwd=None, timeout=120, **environment):
    """Runs a program to its end, whatever its status. Its output is bytes, because names are."""
    return subprocess.run([os.fsencode(word) for word in command], cwd=cwd, timeout=timeout, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**ENVIRONMENT, **environment})


def must(*command, **arguments):
    """Runs a program that must succeed."""
    done = run(*command, **arguments)
    if done.returncode:
        raise RuntimeError(f"{command}: status {done.returncode}: {done.stdout.decode(errors='backslashreplace')}")
    return done


class Disk:
    """An ext4 in memory, which stores every name, with everything that a run makes; gone at the end."""

    def __init__(self, size="2G", options=()):
        self.dir = tempfile.mkdtemp(prefix="namegate-lab.", dir="/dev/shm")
        self.root = os.path.join(self.dir, "disk")
        self.mounts = []
        os.chmod(self.dir, 0o755)
        os.mkdir(self.root)
        image = os.path.join(self.dir, "image")
        must("truncate", "-s", size, image)
        must("mkfs.ext4", "-qF", *options, image)
        must("mount", "-o", "loop", image, self.root)

    def path(self, *names):
        """A path on the disk, whose directories exist."""
        path = os.path.join(self.root, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def new(self, *names):
        """A new directory on the disk, empty whatever was there."""
        path = self.path(*names)
        shutil.rmtree(os.fsencode(path), ignore_errors=True)
        os.makedirs(path)
        return path

    def mount(self, program, options, name="mount"):
        """A mount of a new directory."""
        return Mount(self, program, self.new(name, "source"), self.new(name, "mnt"), options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for mount in reversed(self.mounts):
            mount.close()
        # A server closes its descriptors a little after its mount is gone.
        for _ in range(100):
            if run("umount", self.root).returncode == 0:
                break
            time.sleep(0.1)
        else:
            run("umount", "-l", self.root)
        shutil.rmtree(self.dir, ignore_errors=True)


class Mount:
    """A directory, and a mount of it that is served until it is closed."""

    def __init__(self, disk, program, source, mnt, options):
        self.source, self.mnt, self.disk = source, mnt, disk
        self.log = open(os.path.join(disk.dir, "log-%d" % len(os.listdir(disk.dir))), "wb+")
        self.server = subprocess.Popen([program, "mount", source, mnt, *options], stdin=subprocess.DEVNULL, stdout=self.log,
                                       stderr=self.log, env={**ENVIRONMENT, "RUST_LOG": "warn"})
        disk.mounts.append(self)
        wait_until("mount", lambda: os.path.ismount(mnt) or self.server.poll() is not None)
        if self.server.poll() is not None:
            raise RuntimeError(f"no mount: {self.said()}")

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="backslashreplace").strip()

    def memory(self):
        """The anonymous memory of the server, in KiB."""
        with open(f"/proc/{self.server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

    def close(self):
        if self in self.disk.mounts:
            self.disk.mounts.remove(self)
            run("umount", "-l", self.mnt)
            try:
                self.server.wait(20)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def entries(top, ignored=()):
    """Each path below a directory, with its lstat, in the order of bytes. `ignored` are beginnings of names that belong to a program."""
    found, left = [], [b""]
    top = os.fsencode(top)
    while left:
        at = left.pop()
        for name in os.listdir(os.path.join(top, at)):
            if name.startswith(tuple(ignored)):
                continue
            path = os.path.join(at, name)
            meta = os.lstat(os.path.join(top, path))
            found.append((path, meta))
            if stat.S_ISDIR(meta.st_mode):
                left.append(path)
    return sorted(found)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tree(top, ignored=(), times=False):
    """What users see in a tree: path → kind, mode, and content or target; with `times` when it was changed, too."""
    seen = {}
    for path, meta in entries(top, ignored):
        full, mode = os.path.join(os.fsencode(top), path), stat.S_IMODE(meta.st_mode)
        if stat.S_ISLNK(meta.st_mode):
            seen[path] = ("link", 0, os.readlink(full), 0)
        elif stat.S_ISDIR(meta.st_mode):
            seen[path] = ("directory", mode, b"", 0)
        else:
            content = hashlib.sha256(read(full)).digest()
            seen[path] = ("file", mode, content, meta.st_mtime_ns if times else 0)
    return seen


def links(top, ignored=()):
    """Which paths are one file: sets of several paths."""
    groups = {}
    for path, meta in entries(top, ignored):
        if stat.S_ISREG(meta.st_mode) and meta.st_nlink > 1:
            groups.setdefault(meta.st_ino, set()).add(path)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def identities(top, ignored=()):
    """Inode and time of the last change of everything but directories: what was written again differs."""
    return {path: (meta.st_ino, meta.st_ctime_ns, meta.st_size) for path, meta in entries(top, ignored) if not stat.S_ISDIR(meta.st_mode)}


def differences(wanted, got):
    """Up to four sentences on how two trees differ."""
    said = [f"{path!r} is missing" for path in sorted(wanted.keys() - got.keys())]
    said += [f"{path!r} is new" for path in sorted(got.keys() - wanted.keys())]
    said += [f"{path!r} differs" for path in sorted(wanted.keys() & got.keys()) if wanted[path] != got[path]]
    return said[:4] + ([f"and {len(said) - 4} more"] if len(said) > 4 else [])


def table(rows):
    """Rows of cells as a table in Markdown; the first row is its head."""
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0])] + lines[1:])
