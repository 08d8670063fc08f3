"""coherent_changes.py SOURCE MOUNT STATUS: changes SOURCE directly, and says for each kind of change when MOUNT showed it. Names and attributes
were cached before, with timeouts of an hour. STATUS is the JSON of `namegate status`: it says which kind of cache the mount has, which has to be
the one that this kernel allows. Prints lines `PASS|FAIL TEST REASON`."""

import json
import os
import sys
import time

source, mount, facts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
cache = (facts[0] if isinstance(facts, list) else facts)["cache"]
release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
# Longer than anything takes on an emulated processor, and much less than the timeouts.
SOON = 20
# Without events a change must not show within this time, or something else than the timeout has dropped the cache.
LATER = 4


def look(path):
    """What a client sees of an entry; `None` if there is none."""
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mode, stat.st_size, stat.st_nlink if not os.path.isdir(path) else 0


def seen(name):
    return look(f"{mount}/{name}"), name in os.listdir(mount)


def true(name):
    return look(f"{source}/{name}"), name in os.listdir(source)


def write(name, text):
    with open(f"{source}/{name}", "w", encoding="utf-8") as file:
        file.write(text)


def append(name):
    with open(f"{source}/{name}", "a", encoding="utf-8") as file:
        file.write("more")


CHANGES = [
    ("create", ["new"], lambda: write("new", "content")),
    ("mkdir", ["dir"], lambda: os.mkdir(f"{source}/dir")),
    ("chmod", ["mode"], lambda: os.chmod(f"{source}/mode", 0o640)),
    ("write", ["grown"], lambda: append("grown")),
    ("truncate", ["cut"], lambda: os.truncate(f"{source}/cut", 1)),
    ("link", ["first", "second"], lambda: os.link(f"{source}/first", f"{source}/second")),
    ("rename", ["before", "after"], lambda: os.rename(f"{source}/before", f"{source}/after")),
    ("rename-over", ["over", "victim"], lambda: os.rename(f"{source}/over", f"{source}/victim")),
    ("remove", ["gone"], lambda: os.unlink(f"{source}/gone")),
]
# What is there before; absent names are asked for too, because these are cached as well.
for name in ("mode", "grown", "cut", "first", "before", "over", "victim", "gone"):
    write(name, f"the content of {name}")


def ask(names):
    return [seen(name) for name in names]


def told(word, test, reason):
    print(word, test, reason)


may = release >= (6, 2)
is_coherent = cache["kind"] == "coherent"
why_not = cache.get("why_not") or ""
told("PASS" if is_coherent == may and (may or "older than Linux 6.2" in why_not) else "FAIL", "status",
     f"{cache['kind']} {why_not}".strip())
slowest = 0.0
for test, names, change in CHANGES:
    time.sleep(1.5)
    before = ask(names)
    if before != [true(name) for name in names]:
        told("FAIL", test, f"before the change: {before}")
    change()
    done = time.monotonic()
    right = [true(name) for name in names]
    while time.monotonic() - done < (SOON if is_coherent else LATER) and (now := ask(names)) != right:
        time.sleep(0.001)
    took = time.monotonic() - done
    slowest = max(slowest, took)
    if is_coherent:
        told("PASS" if now == right else "FAIL", test, f"seen after {took * 1000:.1f} ms" if now == right else f"{now}, not {right}")
    else:
        # Listings and absent names are asked again, and the reply has the attributes; other attributes and present names are not.
        stale = now != right
        told("PASS" if stale or test in ("create", "mkdir", "link") else "FAIL", test, "outdated, as the timeout says" if stale else f"seen after {took * 1000:.1f} ms")
