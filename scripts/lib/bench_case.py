"""What a mount that ignores case costs, beside a mount that does not, ext4 with casefold, and Samba's search: scripts/bench-case."""
import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

from mounts import Disk, must, run, table
from smbd import Samba, enter_network_namespace

LIB = os.path.dirname(os.path.abspath(__file__))
KINDS = ("exact", "other case", "missing")


def name_of(number):
    """A name of 20 to 30 bytes; a tenth has letters beyond ASCII."""
    return f"Bericht Müller {number:07}.txt" if number % 10 == 0 else f"Report-{number:07}-Final.txt"


def spell(number, kind):
    name = name_of(number)
    if kind == "exact":
        return name
    # SMB clients and namegate fold `ü`, as ext4 does.
    return name.swapcase() if kind == "other case" else "Absent " + name


def fill(directory, count):
    os.makedirs(directory, exist_ok=True)
    at = os.open(directory, os.O_PATH)
    for number in range(count):
        os.mknod(name_of(number), dir_fd=at)
    os.close(at)


def drop_caches():
    """Drops dentries and inodes, everywhere."""
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("2")


def numbers(count, wanted, turn):
    """Numbers spread over the directory, others in each turn."""
    step = max(count // wanted, 1)
    return [(at * step + turn * 7919) % count for at in range(wanted)]


def stat(path):
    try:
        os.stat(path)
    except FileNotFoundError:
        pass


def open_close(path):
    try:
        os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError:
        pass


def microseconds(work, paths):
    taken = []
    for path in paths:
        begun = time.perf_counter_ns()
        work(path)
        taken.append(time.perf_counter_ns() - begun)
    return statistics.median(taken) / 1000


def of(values, digits=2):
    return f"{statistics.median(values):.{digits}f}" if values else ""


class Bench:
    def __init__(self, disk, arguments):
        self.disk, self.arguments = disk, arguments
        self.places = {}
        self.count = arguments.files

    def add_casefold(self):
        """ext4 with casefold, where the kernel has it."""
        if not os.path.exists("/sys/fs/ext4/features/casefold"):
            print("SKIPPED: ext4 with casefold: this kernel has no CONFIG_UNICODE")
            return
        image, mnt = os.path.join(self.disk.dir, "casefold.image"), os.path.join(self.disk.dir, "casefold")
        os.mkdir(mnt)
        must("truncate", "-s", "1G", image)
        must("mkfs.ext4", "-qF", "-O", "casefold", "-E", "encoding=utf8", "-N", str(self.count + 10000), image)
        must("mount", "-o", "loop", image, mnt)
        os.mkdir(os.path.join(mnt, "big"))
        must("chattr", "+F", os.path.join(mnt, "big"))
        fill(os.path.join(mnt, "big"), self.count)
        self.places["ext4 casefold"] = os.path.join(mnt, "big")

    def set_up(self):
        program = self.arguments.namegate
        source = self.disk.new("files")
        fill(os.path.join(source, "big"), self.count)
        self.places["native"] = os.path.join(source, "big")
        self.mounts = {}
        against = [("against", self.arguments.against, [])] if self.arguments.against else []
        for name, built, options in (("mount", program, []), *against, ("--ignore-case", program, ["--ignore-case"])):
            mount = self.disk.mount(built, options, f"mount-{len(self.mounts)}")
            # All mounts have the same source.
            mount.close()
            mount.__init__(self.disk, built, source, mount.mnt, options)
            self.mounts[name] = mount
            self.places[name] = os.path.join(mount.mnt, "big")
        self.add_casefold()

    def local(self):
        """stat, and open with close, of names whose dentries are cold."""
        wanted, taken = self.arguments.names, {}
        for turn in range(self.arguments.rounds):
            for work in (stat, open_close):
                for kind in KINDS:
                    for place, directory in self.places.items():
                        drop_caches()
                        paths = [os.path.join(directory, spell(number, kind)) for number in numbers(self.count, wanted, turn)]
                        if turn == 0:
                            # The first lookup reads the directory, where there is an index.
                            work(os.path.join(directory, spell(1, kind)))
                        taken.setdefault((work.__name__, kind), {}).setdefault(place, []).append(microseconds(work, paths))
        rows = [["µs", *self.places, "`--ignore-case` ÷ mount"]]
        for (work, kind), by_place in taken.items():
            ratios = [new / old for new, old in zip(by_place["--ignore-case"], by_place["mount"])]
            # Without a file system that ignores case, another spelling is a missing name.
            rows.append([f"{work.replace('_', ' and ')}, {kind}", *(of(values) for values in by_place.values()), of(ratios)])
        print(f"\n{self.count:,} files in a directory, no Samba; cold dentries, medians of {self.arguments.rounds} rounds of {wanted} names\n\n" + table(rows), flush=True)

    def samba(self):
        """Opens through smbd: its own search, and what is below it ignoring case."""
        sensitive = {"preserve case": "yes", "short preserve case": "yes", "case sensitive": "yes"}
        ways = {"Samba's search, plain directory": (self.places["native"], {**sensitive, "case sensitive": "no"}),
                "`case sensitive = yes`, plain directory": (self.places["native"], sensitive),
                "Samba's search, over a mount without the option": (self.places["mount"], {**sensitive, "case sensitive": "no"}),
                "Samba's search, over `--ignore-case`": (self.places["--ignore-case"], {**sensitive, "case sensitive": "no"}),
                "`case sensitive = yes`, over `--ignore-case`": (self.places["--ignore-case"], sensitive)}
        if "ext4 casefold" in self.places:
            ways["`case sensitive = yes`, ext4 casefold"] = (self.places["ext4 casefold"], sensitive)
        shares = {f"s{at}": (os.path.dirname(path), options) for at, (path, options) in enumerate(ways.values())}
        taken, found = {}, {}
        with Samba(shares) as server:
            for turn in range(self.arguments.rounds):
                for kind in KINDS:
                    for at, way in enumerate(ways):
                        slow = way.startswith("Samba") and kind != "exact"
                        wanted = self.arguments.searches if slow else self.arguments.names
                        asked = [spell(number, kind) for number in numbers(self.count, wanted, turn)]
                        done = subprocess.run(["/usr/bin/python3", os.path.join(LIB, "smb_opens.py"), server.conf, f"s{at}", "big"], cwd="/",
                                              input="\n".join(asked).encode(), stdout=subprocess.PIPE, check=True)
                        lines = [line.split() for line in done.stdout.decode().splitlines()]
                        # The first open connects to the share.
                        taken.setdefault((way, kind), []).append(statistics.median(int(ns) for ns, _ in lines[1:]) / 1000)
                        found[way, kind] = sum(said == "opened" for _, said in lines) / len(lines)
        rows = [["µs, open and close through smbd", *KINDS, "other case found"]]
        for way in ways:
            rows.append([way, *(of(taken[way, kind], 0) for kind in KINDS), "yes" if found[way, "other case"] == 1 else "no"])
        print(f"\n{self.count:,} files in a directory, through smbd {run('smbd', '--version').stdout.decode().split()[-1]}\n\n" + table(rows))
        search, own = (statistics.median(taken[way, "missing"]) for way in (list(ways)[0], "`case sensitive = yes`, over `--ignore-case`"))
        print(f"\na missing name: Samba's search takes {search / own:.0f} × as long as `--ignore-case` below it (goal: 50)", flush=True)

    def first(self, count):
        """The first lookup that is not of an exact name, and the memory that it leaves."""
        mount = self.disk.mount(self.arguments.namegate, ["--ignore-case"], "first")
        fill(os.path.join(mount.source, "big"), count)
        big = os.path.join(mount.mnt, "big")
        stat(os.path.join(big, name_of(0)))
        before, times = mount.memory(), []
        for number in (1, 2, 3):
            begun = time.perf_counter()
            stat(os.path.join(big, spell(number, "missing")))
            times.append(time.perf_counter() - begun)
        after = mount.memory()
        mount.close()
        drop_caches()
        begun = time.perf_counter()
        listed = sum(1 for _ in os.scandir(os.path.join(mount.source, "big")))
        read = time.perf_counter() - begun
        shutil.rmtree(mount.source)
        return [f"{count:,}", f"{times[0] * 1000:.1f} ms", f"{read * 1000:.1f} ms", f"{min(times[1:]) * 1e6:.0f} µs", f"{before:,} KiB", f"{after:,} KiB",
                f"{(after - before) * 1024 / listed:.1f}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("namegate")
    parser.add_argument("--against", help="another build of namegate, mounted without the option")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--no-samba", action="store_true")
    arguments = parser.parse_args()
    arguments.rounds, arguments.names, arguments.searches = (3, 1000, 20) if arguments.quick else (9, 3000, 60)
    enter_network_namespace()
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    print(f"machine: {model}, {os.cpu_count()} processors, {platform.system()} {platform.release()}; load {os.getloadavg()[0]:.1f}", flush=True)
    with Disk("4G", ("-N", "1500000")) as disk:
        bench = Bench(disk, arguments)
        bench.set_up()
        bench.local()
        if not arguments.no_samba and shutil.which("smbd"):
            bench.samba()
        else:
            print("SKIPPED: Samba")
        rows = [bench.first(count) for count in (100_000, 1_000_000)]
        print("\n" + table([["files", "first miss", "reading the directory natively", "next", "memory before", "after", "bytes a name"], *rows]))
        run("umount", os.path.join(disk.dir, "casefold"))


if __name__ == "__main__":
    sys.exit(main())
