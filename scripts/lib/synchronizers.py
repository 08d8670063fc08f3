"""Programs that synchronize and copy, over a mount, compared with the same programs over a plain directory: scripts/test-synchronizers."""
import argparse
import os
import re
import shutil
import sys
import unicodedata
from collections import Counter

import nasty
from mounts import Disk, differences, identities, links, must, run, table, tree
from nextcloud import Nextcloud
from syncthing import Syncthing

GIT = ("git", "-c", "core.protectNTFS=false", "-c", "core.quotePath=false", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "safe.directory=*",
       "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always")


class Program:
    """One-way, by a command with the source and the target behind it."""

    two_way = False     # changes in the target go to the source, too
    deletes = True      # what is gone from the source is removed from the target
    times = True        # times of files are kept
    ignored = ()        # names that belong to the program
    avoided = b"$^"     # names that the program cannot handle anywhere, as an expression
    leftover = b"$^"    # temporary names that it leaves behind when a rename is refused
    whole = False       # it copies all or nothing

    def __init__(self, name, *command, contents=False, **facts):
        self.name, self.command, self.contents = name, command, contents
        self.__dict__.update(facts)

    def prepare(self, source):
        """Called after each change of the source."""

    def copy(self, source, target, state):
        """Brings the target to what the source is. Returns the status and what it said that counts."""
        slash = "/" if self.contents else ""
        done = run(*self.command, source + slash, target + slash, UNISON=state)
        return done.returncode, b"", done.stdout

    def back(self, source, target, state):
        """The same from what was the target to a plain directory."""
        return self.copy(source, target, state)


class Shell(Program):
    """A line of shell with $source and $target."""

    deletes = False

    def copy(self, source, target, state):
        done = run("bash", "-c", "set -o pipefail; " + self.command[0], source=source, target=target)
        return done.returncode, b"", done.stdout


class Bisync(Program):
    two_way = True

    def copy(self, source, target, state):
        first = [] if os.listdir(state) else ["--resync"]
        done = run(*self.command, "--workdir", state, *first, source, target)
        return done.returncode, b"", done.stdout


class Unison(Program):
    two_way, leftover = True, rb"\.unison\.tmp$"

    def copy(self, source, target, state):
        roots = [source, target]
        done = run(*self.command, *(reversed(roots) if self.reverse else roots), UNISON=state)
        return done.returncode, b"", done.stdout


class Git(Program):
    """A clone in the target, then fetch, checkout, status and clean; the way back is a commit in the target."""

    # One name that cannot be stored ends the checkout before anything is written.
    ignored, times, whole = (b".git",), False, True

    def prepare(self, source):
        must(*GIT, "init", "-q", cwd=source)
        must(*GIT, "add", "-A", cwd=source)
        must(*GIT, "commit", "-q", "--allow-empty", "-m", "change", cwd=source)

    def copy(self, source, target, state):
        if not os.path.exists(os.path.join(target, ".git")):
            done = [run(*GIT, "clone", "-q", source, target)]
        else:
            done = [run(*GIT, *line.split(), cwd=target) for line in
                    ("fetch -q", "status --porcelain", "clean -fd", "checkout -q -B main origin/main", "status --porcelain", "clean -fd")]
        status = max(step.returncode for step in done)
        return status, b"".join(step.stdout for step in done[1:]), b"".join(step.stdout for step in done)

    def back(self, source, target, state):
        self.prepare(source)
        return self.copy(source, target, state)


def programs():
    yield Program("rsync -a --delete", "rsync", "-aH", "--delete", contents=True)
    for when in ("before", "during", "delay", "after"):
        yield Program(f"rsync -a --delete-{when}", "rsync", "-aH", f"--delete-{when}", contents=True)
    for option in ("--fuzzy", "-c", "--inplace"):
        yield Program(f"rsync -a --delete-after {option}", "rsync", "-aH", "--delete-after", option, contents=True)
    for rclone in filter(None, ("rclone", os.environ.get("NAMEGATE_TEST_RCLONE"))):
        if shutil.which(rclone):
            version = re.sub(r"[^0-9.].*", "", run(rclone, "version").stdout.decode().split("v", 1)[1])
            options = (rclone, "--config", "/dev/null", "-l", "--retries", "1")
            # It reads its quote as part of a substitute, and takes NFC and NFD for one name.
            quote = "‛|\u0301".encode()
            yield Program(f"rclone sync {version}", *options, "sync", "--create-empty-src-dirs", avoided=quote)
            yield Bisync(f"rclone bisync {version}", *options, "bisync", "--force", avoided=quote)
    unison = ("unison", "-batch", "-auto", "-ui", "text", "-times", "-confirmbigdel=false", "-logfile", "/dev/null")
    yield Unison("unison", *unison, reverse=False)
    yield Unison("unison, roots the other way", *unison, reverse=True)
    yield Git("git clone, status, clean, checkout", "git")
    yield Shell("tar", 'tar -C "$source" -cf - . | tar -C "$target" -xpf -')
    yield Shell("cp -a", 'cp -a "$source/." "$target"')
    yield Syncthing("Syncthing", "syncthing")
    yield Nextcloud("nextcloudcmd", "nextcloudcmd")


def run_of(program, source, target, state):
    """One run, and what is there after it."""
    before = identities(target, program.ignored)
    status, said, output = program.copy(source, target, state)
    after = identities(target, program.ignored)
    written = sorted(path for path in after if before.get(path) != after[path])
    return {"status": status, "said": said, "output": output, "target": tree(target, program.ignored, program.times),
            "source": tree(source, program.ignored, program.times), "links": links(target, program.ignored), "written": written}


def sequence(program, disk, target, make, edit, edit_again):
    """All runs over one target: two in a row, two after a change, and one from the target to a plain directory."""
    source, state, home = disk.new("source"), disk.new("state"), disk.new("home")
    make(source, program.avoided)
    program.prepare(source)
    runs = {}
    for name in ("run 1", "run 2", "changed", "idle"):
        if name == "changed":
            edit(source)
            program.prepare(source)
        runs[name] = run_of(program, source, target, state)
    if program.two_way:
        edit_again(target)
        runs["other way"] = run_of(program, source, target, state)
        runs["other way, idle"] = run_of(program, source, target, state)
    status, said, output = program.back(target, home, disk.new("state-back"))
    runs["back"] = {"status": status, "said": said, "output": output, "target": tree(home, program.ignored, program.times),
                    "source": tree(target, program.ignored, program.times), "links": links(home, program.ignored), "written": []}
    return runs


def files(seen):
    return {path: (kind, content) for path, (kind, _, content, _) in seen.items() if kind != "directory"}


def check_plain(program, runs):
    """A comparison with a plain directory says nothing if the program fails there already."""
    for name, one in runs.items():
        if one["status"]:
            return f"{name}: status {one['status']}: {one['output'][-300:].decode(errors='backslashreplace')}"
        # What does not delete has more in the target after a change.
        missing = differences(files(one["source"]), files(one["target"]))
        if missing and (program.deletes or name in ("run 1", "run 2")):
            return f"{name}: {'; '.join(missing)}"
        if name in ("run 2", "idle") and program.deletes and one["written"]:
            return f"{name}: writes {one['written'][:3]} again"
    return ""


def compare(plain, runs):
    """What is not as over a plain directory, by run."""
    found = {}
    for name, wanted in plain.items():
        got, said = runs[name], []
        if got["status"] != wanted["status"]:
            said.append(f"status {got['status']}: {got['output'][-200:].decode(errors='backslashreplace')}")
        for what in ("target", "source"):
            said += [f"{what}: {line}" for line in differences(wanted[what], got[what])]
        if got["links"] != wanted["links"]:
            said.append("other hard links")
        if got["written"] != wanted["written"]:
            said.append(f"writes again: {sorted(set(got['written']) - set(wanted['written']))[:3]}")
        if got["said"] != wanted["said"]:
            said.append(f"says {got['said'][:200]!r}")
        if said:
            found[name] = said
    return found


def verdict(plain, got):
    """What is worst about a run: contents that are nowhere any more, names, or something else."""
    contents = [Counter(content for kind, content in files(one[what]).values() if kind == "file") for one in (plain, got) for what in ("target", "source")]
    lost = max(sum((contents[at] - contents[at + 2]).values()) for at in (0, 1))
    if lost:
        return f"**LOSES {lost} of {sum(contents[0].values())}**"
    return "**OTHER NAMES**" if any(plain[what].keys() != got[what].keys() for what in ("target", "source")) else "**FAILS**"


def refused(program, disk, target):
    """Names that no table can store: every run reports an error, the others arrive, and nothing is lost."""
    source, state = disk.new("source"), disk.new("state")
    nasty.make_refused(source)
    program.prepare(source)
    before, said = tree(source, program.ignored), []
    good = {path: seen for path, seen in files(before).items() if path not in nasty.REFUSED and path not in nasty.LIMIT}
    for name in ("run 1", "run 2"):
        status, words, output = program.copy(source, target, state)
        if status == 0 and not words:
            said.append(f"{name}: status 0")
        if tree(source, program.ignored) != before:
            said.append(f"{name}: source: {'; '.join(differences(before, tree(source, program.ignored)))}")
        got = files(tree(target, program.ignored))
        left = {path for path in got if re.search(program.leftover, path)}
        got = {path: got[path] for path in got.keys() - set(nasty.LIMIT) - left}
        if got or not program.whole:
            said += [f"{name}: {line}" for line in differences(good, got)]
    return said, "reported, copies nothing" if not got else "reported, leaves temporary files" if left else "reported"


def composed(seen):
    return {unicodedata.normalize("NFC", os.fsdecode(path)): what for path, what in files(seen).items()}


def judge_normalized(plain, runs):
    """How a program gets on with a mount that has one name for NFC and NFD, in a few words."""
    said, most = {}, 0
    for name, wanted in plain.items():
        got = runs[name]
        for what in ("target", "source") if name != "back" else ("target",):
            lost = len(composed(wanted[what]).keys() - composed(got[what]).keys())
            most = max(lost, most)
            if lost:
                said.setdefault(f"**loses files in the {what}**", []).append(name)
            elif len(files(got[what])) > len(files(wanted[what])):
                said.setdefault(f"files twice in the {what}", []).append(name)
        if got["status"] and not wanted["status"]:
            said.setdefault("error", []).append(name)
        if set(map(nfc, got["written"])) - set(map(nfc, wanted["written"])):
            said.setdefault("copies again", []).append(name)
        if got["said"] != wanted["said"]:
            said.setdefault("reports changes", []).append(name)
    if said:
        return "; ".join(f"{what} ({', '.join(names)})" for what, names in sorted(said.items())) + (f"; up to {most} of {len(files(plain['run 1']['target']))}" if most else "")
    return "as a plain directory" if all(files(runs[name]["target"]) == files(plain[name]["target"]) for name in plain) else "keeps all, under the names in NFC"


def nfc(path):
    return unicodedata.normalize("NFC", os.fsdecode(path))


class Matrix:
    def __init__(self, disk, arguments):
        self.disk, self.arguments, self.failed = disk, arguments, 0
        self.head = ["program"]
        self.rows = []

    def over_mount(self, options, measure):
        with self.disk.mount(self.arguments.namegate, options) as mount:
            return measure(mount.mnt)

    def row(self, program):
        disk, cells = self.disk, [program.name]
        work = nasty.make, nasty.edit, nasty.edit_again
        plain = sequence(program, disk, disk.new("plain"), *work)
        wrong = check_plain(program, plain)
        if wrong:
            self.report("FAIL", program, "plain directory", [wrong])
        for table_name in self.arguments.substitutes:
            options = [*self.arguments.options, *(["--substitutes", table_name] if table_name else [])]
            runs = self.over_mount(options, lambda mnt: sequence(program, disk, mnt, *work))
            found = compare(plain, runs)
            for name in ("run 1", "run 2", "changed", "idle", "back"):
                others = [key for key in found if key.startswith(name) or (name == "idle" and key.startswith("other"))]
                cells.append(max((verdict(plain[key], runs[key]) for key in others), key=len, default="same"))
            for name, said in found.items():
                self.report("FAIL", program, name, said)
        said, cell = self.over_mount(self.arguments.options, lambda mnt: refused(program, disk, mnt))
        cells.append("**FAILS**" if said else cell)
        if said:
            self.report("FAIL", program, "refused names", said)
        if not found and not said:
            self.report("PASS", program, "", [])
        return cells

    def normalized_row(self, program):
        work = nasty.make_decomposed, nasty.edit_decomposed, nasty.edit_decomposed_again
        plain = sequence(program, self.disk, self.disk.new("plain"), *work)
        cells = [program.name]
        if check_plain(program, plain):
            return [*cells, *["changes such names over a plain directory, too"] * 2]
        for way in ("convert", "match"):
            options = ["--normalize", "nfc", "--on-mismatch", way]
            runs = self.over_mount(options, lambda mnt: sequence(program, self.disk, mnt, *work))
            cells.append(judge_normalized(plain, runs))
        print(" | ".join(cells), flush=True)
        return cells

    def report(self, verdict, program, where, said):
        self.failed |= verdict == "FAIL"
        print(f"{verdict}: {program.name}{': ' + where if where else ''}" + "".join(f"\n    {line}" for line in said), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("namegate")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--mode", default="encode")
    parser.add_argument("--substitutes", default="", help="tables, with commas")
    parser.add_argument("--part", choices=("all", "names", "normalize"), default="all")
    arguments = parser.parse_args()
    arguments.substitutes = arguments.substitutes.split(",")
    arguments.options = ["--profile", "windows", "--mode", arguments.mode]
    chosen = []
    for program in programs():
        if arguments.only not in program.name:
            continue
        if shutil.which(program.command[0]) or isinstance(program, Shell):
            chosen.append(program)
        else:
            print(f"SKIPPED: {program.name}: not installed")
    with Disk() as disk:
        matrix = Matrix(disk, arguments)
        if arguments.part != "normalize":
            rows = [matrix.row(program) for program in chosen]
            print("\n" + table([["program", "run 1", "run 2", "after changes", "idle", "back to plain", "refused names"], *rows]) + "\n")
        if arguments.part != "names":
            rows = [matrix.normalized_row(program) for program in chosen]
            print("\n" + table([["program", "`--on-mismatch convert`", "`--on-mismatch match`"], *rows]))
    return matrix.failed


if __name__ == "__main__":
    sys.exit(main())
