"""The requests that programs cause in a mount where nothing has changed: scripts/count-requests."""
import argparse
import collections
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

from mounts import ENVIRONMENT, Disk, Mount, must, run, table, wait_until
from smbd import Samba, enter_network_namespace

REST = 2.5
# Attributes of files that have changed within this time are not kept.
SETTLED = 50


def make_repository(top, count):
    """A repository of `count` files, 20 in a directory, and a package of cargo in it, which is built."""
    os.makedirs(top)
    must("git", "init", "-q", top)
    for key in ("gc.auto", "maintenance.auto"):
        must("git", "-C", top, "config", key, "0")
    for number in range(count):
        directory = os.path.join(top, f"{number // 400}", f"{number // 20}")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, f"file {number}"), "w") as file:
            file.write(f"{number}\n" * 20)
    if shutil.which("cargo"):
        package = os.path.join(top, "package")
        os.makedirs(os.path.join(package, "src"))
        with open(os.path.join(package, "Cargo.toml"), "w") as file:
            file.write('[package]\nname = "package"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n')
        modules = range(50)
        for number in modules:
            with open(os.path.join(package, "src", f"m{number}.rs"), "w") as file:
                file.write(f"pub fn f() -> u32 {{ {number} }}\n")
        with open(os.path.join(package, "src", "main.rs"), "w") as file:
            file.write("".join(f"mod m{number};\n" for number in modules) + "fn main() { println!(\"{}\", "
                       + " + ".join(f"m{number}::f()" for number in modules) + "); }\n")
    must("git", "-C", top, "add", "-A")
    must("git", "-C", top, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "all")


def workloads(top, own, conf):
    """Name → command, for the programs that are installed. `top` is in the mount, `own` is not."""
    package, build = os.path.join(top, "package"), os.path.join(top, "package", "target")
    repository = {kind: os.path.join(own, kind) for kind in ("restic", "borg")}
    copies = os.path.join(own, "copies")
    os.makedirs(copies, exist_ok=True)
    os.environ.update({"RESTIC_PASSWORD": "x", "BORG_BASE_DIR": os.path.join(own, "base"), "CARGO_TARGET_DIR": build,
                       "XDG_CACHE_HOME": os.path.join(own, "cache"), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
                       "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
    ENVIRONMENT.update(os.environ)
    cargo = ["cargo", "build", "--quiet", "--offline", "--manifest-path", os.path.join(package, "Cargo.toml")]
    if os.path.isdir(package):
        must(*cargo)
    for kind, command in (("restic", ["restic", "init", "-q", "-r"]), ("borg", ["borg", "init", "-e", "none"])):
        if shutil.which(kind):
            must(*command, repository[kind])
    again = "rm -rf " + copies + " && "
    found = {
        "ls -lR": ["ls", "-lR", top],
        "ls -R": ["ls", "-R", top],
        "du -s": ["du", "-s", top],
        "find -newer": ["find", top, "-newer", os.path.join(top, ".git", "HEAD")],
        "git status": ["git", "-C", top, "status", "--short"],
        "cargo build": cargo,
        "rsync -a --dry-run": ["rsync", "-a", "--dry-run", top + "/", copies + "/"],
        "rsync -aX --dry-run": ["rsync", "-aX", "--dry-run", top + "/", copies + "/"],
        "rsync -aA --dry-run": ["rsync", "-aA", "--dry-run", top + "/", copies + "/"],
        "tar": ["sh", "-c", f"tar -C '{top}' -cf - . | cat >/dev/null"],
        "tar --xattrs --acls": ["sh", "-c", f"tar -C '{top}' --xattrs --acls -cf - . | cat >/dev/null"],
        "cp -a": ["sh", "-c", again + f"cp -a '{top}' '{copies}'"],
        "restic backup": ["restic", "-q", "-r", repository["restic"], "backup", top],
        "borg create": ["borg", "create", repository["borg"] + "::{now:%s%f}", top],
    }
    if conf and shutil.which("smbclient"):
        found["Samba: ls"] = ["smbclient", "-N", f"--configfile={conf}", "//127.0.0.1/s", "-c", "recurse; ls"]
    return {name: command for name, command in found.items() if shutil.which(command[0])}


class Counter:
    """Requests that a mount has answered."""

    def __init__(self, port):
        self.port = port

    def read(self):
        counts = collections.Counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as reply:
            for line in reply.read().decode().splitlines():
                found = re.match(r'namegate_fuse_requests_total\{.*op="(\w+)",outcome="(\w+)"\} (\d+)', line)
                # The kernel sends FORGET when it needs memory.
                if found and found[1] != "forget":
                    counts[found[1] + ("" if found[2] == "ok" else f" ({found[2]})")] += int(found[3])
        return counts

    def settled(self):
        """The counts when the server has answered everything: it hears of a close(2) after that has returned."""
        last = self.read()
        while True:
            time.sleep(0.1)
            counts = self.read()
            if counts == last:
                return counts
            last = counts


def xattrs(command, user):
    """Which extended attributes a program asks for, and what it gets."""
    log = subprocess.run(["strace", "-f", "-qq", "-e", "trace=/xattr", "-o", "/dev/stdout", *command], user=user, env=ENVIRONMENT,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode(errors="replace")
    counts = collections.Counter()
    for line in log.splitlines():
        call = re.search(r'\b([lf]?(?:get|list|set|remove)xattr)\((?:"(?:[^"\\]|\\.)*"|\d+)(?:, "([a-z]+\.[\w.]+)")?', line)
        if call:
            result = re.search(r"= -1 (\w+)", line)
            counts[call[1].lstrip("lf") if call[1].startswith(("lg", "fg")) else call[1], call[2] or "", result[1] if result else "ok"] += 1
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("namegate")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--as", dest="user", type=int, default=0)
    parser.add_argument("--xattrs", action="store_true")
    words = sys.argv[1:] + ["--"]
    at = words.index("--")
    arguments = parser.parse_args(words[:at])
    # What follows is for the mount.
    options = words[at + 1:-1] or ["--cache=coherent"]
    enter_network_namespace()
    print(f"machine: {platform.system()} {platform.release()}, {os.cpu_count()} processors; load {os.getloadavg()[0]:.1f}", flush=True)
    with Disk("3G") as disk:
        source, mnt, own = disk.new("mount", "source"), disk.new("mount", "mnt"), disk.new("own")
        os.chmod(own, 0o777)
        make_repository(os.path.join(source, "repository"), arguments.files)
        with socket.create_server(("127.0.0.1", 0)) as any_port:
            port = any_port.getsockname()[1]
        with Mount(disk, arguments.namegate, source, mnt, [*options, f"--metrics-listen=127.0.0.1:{port}"]), \
                (Samba({"s": (mnt, {})}) if shutil.which("smbd") else open(os.devnull)) as samba:
            count(arguments, os.path.join(mnt, "repository"), own, getattr(samba, "conf", None), Counter(port))


def count(arguments, top, own, conf, counter):
    wanted = workloads(top, own, conf)
    chosen = [name for name in wanted if name.startswith(tuple(arguments.only.split(",")))]
    # The index of git has the times of the mount; its own change is over after some seconds, too.
    must("git", "-C", top, "update-index", "-q", "--refresh")
    time.sleep(SETTLED)
    entries = len(must("find", top).stdout.splitlines())
    kinds, rows = set(), []
    for name in chosen:
        runs = []
        for number in range(arguments.runs):
            time.sleep(REST)
            if number == 0:
                with open("/proc/sys/vm/drop_caches", "w") as file:
                    file.write("2")
            before = counter.settled()
            done = subprocess.run(wanted[name], user=arguments.user, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if done.returncode:
                print(f"{name}: status {done.returncode}: {done.stdout[-300:].decode(errors='backslashreplace')}")
            after = counter.settled()
            runs.append(after - before)
        print(f"{name}: " + "; ".join(", ".join(f"{kind} {times}" for kind, times in sorted(counts.items())) or "none" for counts in runs), flush=True)
        rows.append((name, [sum(counts.values()) for counts in runs], runs[-1]))
        kinds |= runs[-1].keys()
        if arguments.xattrs:
            for (call, attribute, result), times in sorted(xattrs(wanted[name], arguments.user).items()):
                print(f"    {call} {attribute} {result}: {times}")
    kinds = sorted(kinds)
    print(f"\n{entries} files and directories; requests of each run, {REST} s apart; then the last one by kind, and a file or directory\n")
    print(table([["", *(f"run {number + 1}" for number in range(arguments.runs)), *kinds, "an entry"],
                 *([name, *totals, *(last[kind] or "" for kind in kinds), f"{totals[-1] / entries:.2f}"] for name, totals, last in rows)]))


if __name__ == "__main__":
    sys.exit(main())
