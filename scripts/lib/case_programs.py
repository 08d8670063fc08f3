"""Programs over a file system that ignores case and keeps it: scripts/test-case. The same checks run over a mount with `--ignore-case`, and
over exFAT as another implementation; what FUSE or exFAT cannot have is marked."""
import argparse
import ctypes
import errno
import multiprocessing
import os
import shutil
import sys
import tarfile
import zipfile

import xfstests_casefold
from mounts import Disk, identities, must, read, run, table, tree, wait_until
from smbd import Samba, enter_network_namespace
from synchronizers import GIT

CHECKS = []


class Skipped(Exception):
    """A check that cannot run here, with the reason."""


def check(*needs):
    """A check: needs are programs, or `links` and `source` for what exFAT does not have."""
    def add(function):
        CHECKS.append((function.__name__.replace("_", " "), function, needs))
        return function
    return add


def write(*path, content="content"):
    with open(os.path.join(*path), "w") as file:
        file.write(content)


def names(*path):
    return sorted(os.listdir(os.path.join(*path)))


def equal(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"


def git(top, *words):
    return must(*GIT, *words, cwd=top).stdout.decode()


def repository(top, case_only=True):
    """A repository whose branches differ in the case of a file and of a directory."""
    os.mkdir(top)
    git(top, "init", "-q")
    write(top, "Readme.txt", content="one\n")
    os.mkdir(os.path.join(top, "Dir"))
    write(top, "Dir", "Inner", content="two\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    if case_only:
        git(top, "checkout", "-qb", "upper")
        git(top, "mv", "Readme.txt", "README.TXT")
        git(top, "mv", "Dir", "dir-between")
        git(top, "mv", "dir-between", "DIR")
        git(top, "commit", "-qm", "upper")
        git(top, "checkout", "-q", "main")


# git

@check("git")
def git_finds_that_case_is_ignored(at, _):
    os.mkdir(f"{at}/new")
    git(f"{at}/new", "init", "-q")
    equal(git(f"{at}/new", "config", "core.ignorecase").strip(), "true")


@check("git")
def git_clones_and_changes_to_branches_that_differ_in_case(at, disk):
    origin = disk.path("origin")
    shutil.rmtree(origin, ignore_errors=True)
    repository(origin)
    clone = f"{at}/clone"
    must(*GIT, "clone", "-q", origin, clone)
    for branch, wanted, inner in (("main", [".git", "Dir", "Readme.txt"], "Dir"), ("upper", [".git", "DIR", "README.TXT"], "DIR")) * 3:
        git(clone, "checkout", "-q", branch)
        equal(git(clone, "status", "--porcelain"), "")
        equal([sorted(names(clone)), names(clone, inner)], [sorted(wanted), ["Inner"]])
        equal(git(clone, "clean", "-fdn"), "")


@check("git")
def git_renames_in_case_only(at, _):
    repository(f"{at}/own", case_only=False)
    git(f"{at}/own", "mv", "Readme.txt", "README.txt")
    equal(git(f"{at}/own", "status", "--porcelain").strip(), "R  Readme.txt -> README.txt")
    equal(names(f"{at}/own"), [".git", "Dir", "README.txt"])
    git(f"{at}/own", "commit", "-qm", "renamed")
    equal(git(f"{at}/own", "status", "--porcelain"), "")


@check("git")
def git_says_that_twins_collide(at, disk):
    origin = disk.path("twins")
    shutil.rmtree(origin, ignore_errors=True)
    repository(origin, case_only=False)
    write(origin, "README.TXT", content="twin\n")
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "twins")
    said = must(*GIT, "clone", origin, f"{at}/clone").stdout.decode()
    assert "paths have collided" in said, said
    equal(len([name for name in names(f"{at}/clone") if name.lower() == "readme.txt"]), 1)


# Renames

def renamed(at, old, new, rename):
    rename(f"{at}/{old}", f"{at}/{new}")
    equal(names(at), [new])
    # Every spelling finds it, the old one too.
    for spelling in (old, new, old.upper(), new.lower()):
        assert os.path.lexists(f"{at}/{spelling}"), f"{spelling} is not found after {old} -> {new}"


@check()
def rename_of_a_file_without_a_lookup_before(at, _):
    write(at, "name.txt")
    renamed(at, "name.txt", "NAME.txt", os.rename)
    equal(read(f"{at}/name.TXT"), b"content")


@check()
def rename_of_a_file_after_both_spellings_were_looked_up(at, _):
    write(at, "name.txt")
    equal(os.stat(f"{at}/name.txt").st_ino, os.stat(f"{at}/NAME.txt").st_ino)
    renamed(at, "name.txt", "NAME.txt", os.rename)
    equal(read(f"{at}/name.TXT"), b"content")


@check()
def rename_of_a_file_that_is_open_by_both_spellings(at, _):
    write(at, "name.txt")
    with open(f"{at}/name.txt") as one, open(f"{at}/NAME.TXT") as two:
        renamed(at, "name.txt", "Name.Txt", os.rename)
        equal([one.read(), two.read()], ["content"] * 2)


@check()
def rename_of_a_directory_by_its_other_spelling(at, _):
    os.makedirs(f"{at}/dir/inner")
    renamed(at, "dir", "DIR", os.rename)
    os.stat(f"{at}/dir/inner"), os.stat(f"{at}/Dir/INNER")
    renamed(at, "DIR", "Dir", os.rename)
    equal(names(at, "dIR"), ["inner"])


@check()
def rename_of_a_directory_in_which_a_process_works(at, _):
    os.makedirs(f"{at}/dir/inner")
    before = os.open(f"{at}/DIR/Inner", os.O_PATH)
    renamed(at, "dir", "DIR", os.rename)
    write(f"/proc/self/fd/{before}", "file")
    os.close(before)
    equal(names(at, "DIR", "inner"), ["file"])


@check()
def rename_in_a_loop(at, _):
    write(at, "a.txt")
    spellings = ["a.txt", "A.txt", "a.TXT", "A.TXT"]
    for turn in range(400):
        os.rename(f"{at}/{spellings[turn % 4]}", f"{at}/{spellings[(turn + 1) % 4]}")
        if turn % 7 == 0:
            equal(names(at), [spellings[(turn + 1) % 4]])
    equal(names(at), ["a.txt"])


@check()
def rename_to_another_spelling_of_another_entry_replaces_it(at, _):
    write(at, "old", content="old"), write(at, "Target", content="target")
    os.rename(f"{at}/OLD", f"{at}/TARGET")
    equal(read(f"{at}/target"), b"old")
    equal(len(names(at)), 1)


@check()
def rename_that_must_not_replace(at, _):
    libc = ctypes.CDLL(None, use_errno=True)
    write(at, "old"), write(at, "Target")
    equal(libc.renameat2(-100, f"{at}/old".encode(), -100, f"{at}/TARGET".encode(), 1), -1)
    assert ctypes.get_errno() in (errno.EEXIST, errno.EINVAL), os.strerror(ctypes.get_errno())
    equal(names(at), ["Target", "old"])


def moved(at, old, new):
    """Debian's mv compares inode numbers, and refuses where all spellings have one, as on ext4 with casefold; then a name between helps."""
    done = run("mv", "-T", f"{at}/{old}", f"{at}/{new}")
    if done.returncode:
        assert b"are the same file" in done.stdout, done.stdout
        equal(names(at), [old])
        must("mv", "-T", f"{at}/{old.swapcase()}", f"{at}/between")
        must("mv", "-T", f"{at}/between", f"{at}/{new}")
    equal(names(at), [new])


@check()
def mv_of_a_file(at, _):
    write(at, "name.txt")
    moved(at, "name.txt", "NAME.txt")


@check()
def mv_of_a_directory(at, _):
    os.makedirs(f"{at}/dir/inner")
    moved(at, "dir", "DIR")
    equal(names(at, "dir"), ["inner"])


@check()
def directories_below_directories_by_new_spellings(at, _):
    os.makedirs(f"{at}/d1/d2/d3")
    assert os.path.isdir(f"{at}/D1/D2/D3")
    os.mkdir(f"{at}/new")
    os.makedirs(f"{at}/NEW/Below/It")
    write(f"{at}/nEW/BELOW/iT", "file")
    os.rename(f"{at}/neW/beloW", f"{at}/d1/D2/moved")
    equal([names(at, "D1", "d2"), read(f"{at}/d1/d2/MOVED/IT/FILE")], [["d3", "moved"], b"content"])


# Creation

@check()
def every_way_to_create_meets_the_entry(at, _):
    write(at, "Name")
    for way in (lambda path: open(path, "x"), os.mkdir, os.mknod, lambda path: os.link(f"{at}/Name", path), lambda path: os.symlink("x", path)):
        try:
            way(f"{at}/NAME")
            raise AssertionError("created twice")
        except OSError as error:
            # exFAT has neither links nor nodes.
            assert error.errno in (errno.EEXIST, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP), error
    write(at, "nAME", content="by another spelling")
    equal([names(at), read(f"{at}/Name")], [["Name"], b"by another spelling"])


@check()
def removed_by_another_spelling_and_created_anew(at, _):
    for turn in range(20):
        first, second = ("Name", "NAME") if turn % 2 else ("NAME", "name")
        write(at, first)
        equal(names(at), [first])
        os.unlink(f"{at}/{second}")
        assert not os.path.lexists(f"{at}/{first}")
        os.mkdir(f"{at}/{second}")
        equal(names(at), [second])
        os.rmdir(f"{at}/{first}")
        equal(names(at), [])


def create_all(at, spelling, rounds, barrier, won, me):
    for turn in range(rounds):
        barrier.wait()
        path = f"{at}/{turn}-{spelling}"
        try:
            if turn % 3 == 0:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            elif turn % 3 == 1:
                os.mkdir(path)
            else:
                write(at, f"{me}-temporary")
                if ctypes.CDLL(None).renameat2(-100, f"{at}/{me}-temporary".encode(), -100, path.encode(), 1):
                    continue
            won[turn * 2 + me] = 1
        except FileExistsError:
            pass


@check()
def two_clients_create_two_spellings_at_once(at, disk):
    rounds = 600
    barrier, won = multiprocessing.Barrier(2), multiprocessing.Array("b", 2 * rounds)
    clients = [multiprocessing.Process(target=create_all, args=(at, spelling, rounds, barrier, won, me)) for me, spelling in enumerate(("Name", "nAME"))]
    for client in clients:
        client.start()
    for client in clients:
        client.join(120)
        equal(client.exitcode, 0)
    # exFAT for FUSE renames over what must not be replaced: the kernel refuses that only where it has looked the name up.
    for turn in range(rounds):
        if turn % 3 < 2:
            equal((turn, won[2 * turn] + won[2 * turn + 1]), (turn, 1))
    listed = [name.lower() for name in names(at) if "temporary" not in name]
    equal(len(listed), len(set(listed)))
    equal(len(listed), rounds)


# Programs that copy

@check("rsync")
def rsync_copies_once(at, disk):
    source = disk.new("rsync")
    os.mkdir(f"{source}/Dir")
    for name in ("Readme.txt", "Dir/Inner", "ÄRGER", "straße"):
        write(source, name)
    must("rsync", "-r", "--times", "--delete", f"{source}/", f"{at}/copy/")
    before = identities(f"{at}/copy")
    must("rsync", "-r", "--times", "--delete", f"{source}/", f"{at}/copy/")
    equal(identities(f"{at}/copy"), before)
    equal(sorted(tree(source)), sorted(tree(f"{at}/copy")))


@check("tar")
def tar_with_twins(at, disk):
    archive = disk.path("twins.tar")
    with tarfile.open(archive, "w") as file:
        for name in ("A.txt", "a.txt"):
            write(disk.root, "member", content=name)
            file.add(f"{disk.root}/member", name)
    must("tar", "-xf", archive, "--no-same-owner", cwd=at)
    equal(len(names(at)), 1)
    equal(read(f"{at}/A.TXT"), b"a.txt")


@check("unzip")
def unzip_with_twins(at, disk):
    archive = disk.path("twins.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("Dir/A.txt", "dir/a.txt", "DIR/b.txt"):
            file.writestr(name, name)
    must("unzip", "-qo", archive, cwd=at)
    equal([names(at), len(names(at, "dir"))], [["Dir"], 2])
    equal(read(f"{at}/DIR/A.TXT"), b"dir/a.txt")


# Samba

def over_samba(at):
    os.chmod(at, 0o777)
    return Samba({"share": (at, {"case sensitive": "yes", "preserve case": "yes", "short preserve case": "yes"})})


def succeeds(server, commands):
    said = server.client("share", commands)
    assert "NT_STATUS" not in said, said
    return said


@check("smbd", "smbclient")
def samba_finds_creates_and_removes_by_every_spelling(at, _):
    write(at, "Readme.txt")
    with over_samba(at) as server:
        write(server.file("file"), content="new")
        succeeds(server, "get README.TXT got; mkdir Dir; put file dir/New.txt; put file DIR/NEW.TXT; ls dIR/nEW.TXT")
        equal(read(server.file("got")), b"content")
        equal([names(at), names(at, "Dir")], [["Dir", "Readme.txt"], ["New.txt"]])
        assert "COLLISION" in server.client("share", "mkdir DIR")
        succeeds(server, "put file readme.TXT; del DIR/new.txt; rmdir dir")
        equal([names(at), read(f"{at}/Readme.txt")], [["Readme.txt"], b"new"])
        assert "NT_STATUS" in server.client("share", "get absent.txt")


@check("smbd", "smbclient")
def samba_renames_in_case_only_by_a_name_between(at, _):
    write(at, "Readme.txt")
    os.makedirs(f"{at}/Dir/inner")
    with over_samba(at) as server:
        # Samba 4.17 asks for the new name first, and finds it: it refuses to replace, whatever `case sensitive` says.
        assert "COLLISION" in server.client("share", "rename Readme.txt README.TXT")
        succeeds(server, "rename readme.TXT between; rename between README.TXT; rename dir between; rename between DIR; ls readme.txt")
        equal([names(at), names(at, "dir")], [["DIR", "README.TXT"], ["inner"]])


# Twins that are there already

@check("source")
def twins_stay_two_entries(at, disk):
    for name in ("Twin", "twin", "other"):
        write(at.source, name, content=name)
    for name in ("Twin", "twin"):
        equal(read(f"{at}/{name}"), name.encode())
    equal(names(at), ["Twin", "other", "twin"])
    first = read(f"{at}/TWIN")
    assert first in (b"Twin", b"twin"), first
    os.unlink(f"{at}/TWIN")
    equal(names(at.source), sorted({"Twin", "twin", "other"} - {first.decode()}))


@check("source")
def a_change_below_is_seen_by_every_spelling(at, _):
    write(at.source, "one")
    equal([os.path.exists(f"{at}/{name}") for name in ("ONE", "TWO")], [True, False])
    os.rename(f"{at.source}/one", f"{at.source}/two")
    wait_until("the new name", lambda: os.path.exists(f"{at}/TWO") and not os.path.exists(f"{at}/ONE"), 10)


# Wine

@check("/usr/lib/wine/wine64")
def wine_finds_every_spelling(at, disk):
    write(at, "Readme.txt", content="by wine\r\n")
    prefix = disk.path("wine")
    environment = {"WINEPREFIX": prefix, "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=", "DISPLAY": ""}
    done = run("/usr/lib/wine/wine64", "cmd", "/c", "type README.TXT & echo new>NEW.txt & echo newer>new.TXT & mkdir Dir & mkdir DIR & del readme.TXT",
               cwd=str(at), timeout=240, **environment)
    run("/usr/lib/wine/wineserver64", "-w", timeout=60, **environment)
    said = done.stdout.decode(errors="backslashreplace")
    assert "by wine" in said, said
    equal([names(at), read(f"{at}/NEW.txt").strip()], [["Dir", "NEW.txt"], b"newer"])


class Place(str):
    """A directory for one check, and what is below the mount."""

    source = None


def run_checks(disk, kind, new_place, only, rows):
    failed = 0
    for name, function, needs in CHECKS:
        missing = [need for need in needs if need not in ("links", "source") and not shutil.which(need) and not os.path.exists(need)]
        if only not in name:
            continue
        said = "SKIPPED: not installed: " + ", ".join(missing) if missing else ""
        if kind == "exfat" and "source" in needs:
            said = "SKIPPED: exFAT has nothing below it"
        if not said:
            try:
                function(new_place(), disk)
                said = "PASS"
            except Skipped as reason:
                said = f"SKIPPED: {reason}"
            except Exception as error:  # The next check runs all the same.
                said = f"FAIL: {type(error).__name__}: {error}"
        failed |= said.startswith("FAIL") and kind != "exfat"
        print(f"{kind}: {name}: {said}", flush=True)
        rows.setdefault(name, {})[kind] = said.split(":")[0]
    return failed


def over_exfat(disk, arguments, rows):
    if not shutil.which("mount.exfat-fuse") or not shutil.which("mkfs.exfat"):
        print("SKIPPED: exFAT: exfat-fuse or exfatprogs is not installed")
        return
    image, mnt = disk.path("exfat.image"), disk.new("exfat")
    must("truncate", "-s", "200M", image)
    must("mkfs.exfat", image)
    loop = must("losetup", "-f", "--show", image).stdout.decode().strip()
    must("mount.exfat-fuse", loop, mnt)
    count = iter(range(1000))

    def place():
        path = Place(os.path.join(mnt, f"check-{next(count)}"))
        os.mkdir(path)
        return path
    try:
        run_checks(disk, "exfat", place, arguments.only, rows)
    finally:
        run("umount", "-l", mnt)
        run("losetup", "-d", loop)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("namegate")
    parser.add_argument("--only", default="", help="checks whose name has this in it")
    parser.add_argument("--over", choices=("all", "mount", "exfat"), default="all")
    parser.add_argument("--option", action="append", default=[], help="another option of the mount")
    arguments = parser.parse_args()
    enter_network_namespace()
    rows, failed = {}, 0
    with Disk() as disk:
        if arguments.over != "exfat":
            count = iter(range(1000))

            def place(*options, case="ntfs"):
                for mount in list(disk.mounts):
                    mount.close()
                mount = disk.mount(arguments.namegate, [f"--ignore-case={case}", *options, *arguments.option], f"mount-{next(count)}")
                path = Place(mount.mnt)
                path.source = mount.source
                return path
            failed |= run_checks(disk, "mount", place, arguments.only, rows)
            failed |= xfstests_casefold.run_all(place, arguments.only, rows)
        if arguments.over != "mount":
            over_exfat(disk, arguments, rows)
    print("\n" + table([["check", "`--ignore-case`", "exFAT by FUSE"], *([name, cells.get("mount", ""), cells.get("exfat", "")] for name, cells in rows.items())]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
