"""Trees of git, made by hand and by mutation, and how git and dulwich read them."""
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zlib

ENVIRONMENT = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
FILE, TREE, LINK, SUBMODULE = b"100644", b"40000", b"120000", b"160000"


class Objects:
    """The objects of a repository, before they are written."""

    def __init__(self):
        self.objects = {}
        self.file = self.add(b"blob", b"content")

    def add(self, kind, content):
        data = kind + b" %d\0" % len(content) + content
        name = hashlib.sha1(data).digest()
        self.objects[name] = data
        return name

    def tree(self, *entries, cut=None, suffix=b""):
        content = b"".join(mode + b" " + name + b"\0" + of for mode, name, of in entries)
        return self.add(b"tree", content[:cut] + suffix)

    def commit(self, tree):
        who = b"A <a@example.org> 1700000000 +0000"
        self.top = self.add(b"commit", b"tree " + tree.hex().encode() + b"\nauthor " + who + b"\ncommitter " + who + b"\n\nx\n")
        return self

    def __repr__(self):
        return "\n".join(f"{name.hex()} {data!r}" for name, data in self.objects.items())


def case(make):
    objects = Objects()
    inner = objects.tree((FILE, b"inner-name", objects.file))
    return objects.commit(make(objects, inner, objects.file))


MODES = [b"0", b"00", b"1", b"4000", b"40000", b"040000", b"0040000", b"00040000", b"000040000", b"40755", b"0o40000", b"4x", b"+40000", b"-40000",
         b"0x4000", b"", b"\t40000", b"400000", b"1040000", b"200040000", b"100644", b"0100644", b"100600", b"100755", b"100777", b"10644", b"1100644", b"120000",
         b"120777", b"140000", b"160000", b"160755", b"20000", b"60000", b"170000", b"777777", b"7777777"]
NAMES = [b"", b".", b"..", b".git", b".GIT", b"a/b", b"/abs", b"a//b", b"../up", b"dir/", b"\n\n", b"a\nb", b"a\\b", b"git~1", b"\xFF\xFE", b"100644 x",
         b"n" * 255, b"n" * 300, b"n" * 5000, b"n" * 70000, b"." * 9, b" x", b"-x"]


def by_hand():
    for mode in MODES:
        for of in (0, 1):
            yield f"mode {mode} of {'a file' if of else 'a tree'}", case(lambda o, *objects: o.tree((mode, b"odd-mode", objects[of]), (FILE, b"after", o.file)))
    for name in NAMES:
        for mode, of in ((FILE, 1), (TREE, 0), (LINK, 1), (SUBMODULE, 1)):
            yield f"name {name[:20]} with {mode}", case(lambda o, *objects: o.tree((mode, name, objects[of]), (FILE, b"zz-after", o.file)))
    file, tree, other = (lambda name: lambda o, i, f: (FILE, name, f)), (lambda name: lambda o, i, f: (TREE, name, i)), (
        lambda name: lambda o, i, f: (TREE, name, o.tree((FILE, b"other-name", f))))
    orders = {"a file twice": (file(b"same"), file(b"same")), "a file and a tree": (file(b"same"), tree(b"same")), "a tree and a file": (tree(b"same"), file(b"same")),
              "two trees": (tree(b"same"), other(b"same")), "two trees in another order": (other(b"same"), tree(b"same")),
              "a file and a tree, and one between": (file(b"same"), file(b"same.x"), tree(b"same")), "not sorted": (file(b"zz"), tree(b"mm"), file(b"aa")),
              "a tree that is sorted as a file": (tree(b"dir"), file(b"dir.x")), "in another case": (file(b"NAME"), file(b"name"), tree(b"Name"))}
    for what, entries in orders.items():
        yield what, case(lambda o, i, f: o.tree(*[entry(o, i, f) for entry in entries]))
    pair = lambda o, i, f: ((FILE, b"first", f), (TREE, b"second", i))
    for cut in range(0, 70, 3):
        yield f"cut at byte {cut}", case(lambda o, i, f: o.tree(*pair(o, i, f), cut=cut))
    for suffix in (b"\0", b"100644", b"100644 rest", b"100644 rest\0", b"\n", b"x" * 40, b"100644 rest\0" + b"\0" * 20, b"40000 rest\0" + b"\0" * 20):
        yield f"more at the end: {suffix}", case(lambda o, i, f: o.tree(*pair(o, i, f), suffix=suffix))
    yield "an object that is missing", case(lambda o, i, f: o.tree((FILE, b"missing", b"\1" * 20), (SUBMODULE, b"module", b"\2" * 20), *pair(o, i, f)))
    yield "a tree that is missing", case(lambda o, i, f: o.tree((TREE, b"missing", b"\1" * 20), *pair(o, i, f)))
    yield "a tree that is a file", case(lambda o, i, f: o.tree((TREE, b"no-tree", f), *pair(o, i, f)))
    yield "a file that is a tree", case(lambda o, i, f: o.tree((FILE, b"no-file", i), *pair(o, i, f)))
    yield "a commit of a file", case(lambda o, i, f: f)
    yield "an empty tree", case(lambda o, i, f: o.tree())
    yield "an empty directory", case(lambda o, i, f: o.tree((TREE, b"empty", o.tree()), *pair(o, i, f)))
    yield "trees in trees", case(lambda o, i, f: o.tree((TREE, b"one", o.tree((TREE, b"two/", o.tree((TREE, b"", i), (FILE, b"x/y", f)))))))


def mutant(rng):
    def make(objects, inner, file):
        def tree(depth):
            entries = []
            for number in range(rng.randint(0, 5)):
                of = tree(depth - 1) if depth and rng.random() < 0.4 else rng.choice([inner, file])
                mode = rng.choice([FILE, TREE, LINK, SUBMODULE, rng.choice(MODES)]) if rng.random() < 0.5 else (FILE if of == file else TREE)
                entries.append((mode, rng.choice(NAMES + [b"name-%d" % number, b"same"] * 9), of))
            content = bytearray(b"".join(mode + b" " + name + b"\0" + of for mode, name, of in entries))
            if content and rng.random() < 0.3:
                at = rng.randrange(len(content))
                match rng.randrange(3):
                    case 0:
                        content[at] = rng.randrange(256)
                    case 1:
                        del content[at:at + rng.randint(1, 22)]
                    case _:
                        content[at:at] = rng.choice([b"\0", b" ", b"/", b"100644 mutant\0" + file])
            return objects.add(b"tree", bytes(content))

        return tree(2)

    return case(make)


def by_git(path):
    listed = subprocess.run(["git", "-C", path, "ls-tree", "-r", "-t", "-z", "--name-only", "HEAD"], capture_output=True, env=ENVIRONMENT).stdout
    return {plain(name) for name in listed.split(b"\0") if name}


def by_checkout(path):
    with tempfile.TemporaryDirectory() as directory:
        more = ["-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", "-c", "core.bare=false", "-c", "advice.detachedHead=false"]
        subprocess.run(["git", "--git-dir", path, "--work-tree", directory, *more, "checkout", "-q", "-f", "HEAD", "--", "."], capture_output=True, env=ENVIRONMENT)
        root = os.fsencode(directory)
        return {plain(os.path.relpath(os.path.join(above, name), root)) for above, dirs, names in os.walk(root) for name in dirs + names}


def by_dulwich(path):
    from dulwich.errors import ObjectFormatException, NotTreeError, ChecksumMismatch
    from dulwich.repo import Repo
    found = set()
    with Repo(path) as repository:
        try:
            waiting = [(b"", repository[repository.head()].tree, 0)]
        except (KeyError, ObjectFormatException):
            return found
        while waiting:
            above, of, depth = waiting.pop()
            try:
                for entry in repository[of].iteritems():
                    name = above + entry.path
                    found.add(plain(name))
                    if entry.mode & 0o170000 == 0o040000 and depth < 9:
                        waiting.append((name + b"/", entry.sha, depth + 1))
            except (KeyError, ObjectFormatException, NotTreeError, ChecksumMismatch, AttributeError, ValueError, AssertionError):
                pass
    return found


def peers():
    yield "git", {"git ls-tree": by_git, "git checkout": by_checkout} if shutil.which("git") else "git"
    try:
        import dulwich.repo  # noqa: F401
        yield "git", {"dulwich": by_dulwich}
    except ImportError:
        yield "git", "dulwich"


def by_hand_and_mutation(rng, mutants):
    yield from (("git", what, objects) for what, objects in by_hand())
    yield from (("git", f"mutant {number}", mutant(rng)) for number in mutants)


def write(objects, directory, _form):
    for below in ("refs/heads", "objects/pack"):
        os.makedirs(os.path.join(directory, below))
    files = {"HEAD": b"ref: refs/heads/main\n", "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
             "refs/heads/main": objects.top.hex().encode() + b"\n"}
    for name, data in objects.objects.items():
        below = f"objects/{name.hex()[:2]}"
        os.makedirs(os.path.join(directory, below), exist_ok=True)
        files[f"{below}/{name.hex()[2:]}"] = zlib.compress(data)
    for name, data in files.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)
    return directory, ["--git", directory]


def scans(_form):
    return [[]]


def plain(name):
    # A directory whose name ends with a slash, or that has none, is joined to what is in it by one.
    return re.sub(rb"/+", b"/", name).strip(b"/")


def known(checked):
    # A name with a slash makes directories when it is checked out.
    return checked | {b"/".join(name.split(b"/")[:depth]) for name in checked for depth in range(1, name.count(b"/") + 1)}


def is_name(_name):
    return True
