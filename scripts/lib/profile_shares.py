"""Parts of scripts/profile-mount.

profile_shares.py call KIND DIRECTORY SECONDS: makes the system call again and again, and prints how long it takes.
profile_shares.py shares PID: reads what `perf script -F comm,pid,ip,sym` prints, and prints where the time of the client and of the server went.
"""

import collections
import os
import re
import sys
import time

# The first that fits any function of a stack, from the one that runs to its callers.
KINDS = [
    ("filter of system calls", re.compile(r"seccomp|syscall_trace_enter")),
    ("waking and switching threads", re.compile(r"^(__)?schedule|try_to_wake_up|^__wake_up|^finish_task_switch|^ttwu|^wake_up_q")),
    ("transport: io_uring", re.compile(r"^(__do_sys_io_uring_enter|(__)?io_|fuse_uring)")),
    ("transport: /dev/fuse", re.compile(r"^fuse_(dev|copy|set_nowrite)")),
]
CLIENT = "client"


def call(kind: str, directory: str, seconds: float) -> None:
    os.chdir(directory)
    with open("/proc/self/comm", "w", encoding="ascii") as name:
        name.write(CLIENT)
    done, spent, end = 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        if kind == "absent":
            for number in range(2000):
                os.path.lexists(f"absent{number}")
        elif kind == "stat":
            for number in range(2000):
                os.stat(f"f{number}")
        elif kind == "open":
            for number in range(2000):
                os.close(os.open(f"f{number}", os.O_RDONLY))
        else:
            for number in range(2000):
                os.close(os.open(f"new{done + number}", os.O_CREAT | os.O_WRONLY))
        spent, done = spent + time.perf_counter() - begun, done + 2000
        if kind == "stat":
            # Dentries and inodes are dropped, and everything is asked again.
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
                caches.write("2")
    print(f"\n{kind}: {done:,} calls, {spent / done * 1e6:.1f} µs each")


def kind_of(stack: list[str], is_client: bool) -> str:
    for name, pattern in KINDS:
        if any(pattern.search(function) for function in stack):
            return name
    in_kernel = any("SYSCALL_64" in function or "syscall_64" in function or function.startswith("el0") for function in stack)
    if not in_kernel:
        return "its own code"
    if not is_client:
        return "system calls on the source"
    return "FUSE" if any(function.startswith("fuse") for function in stack) else "the rest of the kernel"


def shares(server: int) -> None:
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for sample in sys.stdin.read().split("\n\n"):
        head, *frames = sample.strip().split("\n")
        found = re.match(r"(.+?)\s+(\d+)\s*$", head.strip())
        if not found or not frames:
            continue
        is_client = found[1] == CLIENT
        if not is_client and int(found[2]) != server:
            continue
        stack = [" ".join(frame.split()[1:]) for frame in frames]
        counts["client" if is_client else "server", kind_of(stack, is_client)] += 1
    total = sum(counts.values())
    for (who, kind), count in counts.most_common():
        print(f"{count / total:7.1%}  {who}: {kind}")


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        shares(int(sys.argv[2]))
