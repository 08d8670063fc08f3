"""Tars and zips, made by hand and by mutation, and how GNU tar, bsdtar, unzip, 7z and Python read them."""
import base64
import io
import os
import random
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

BLOCK = 512
END = b"\0" * 2 * BLOCK
USTAR, GNU, V7 = b"ustar\x0000", b"ustar  \0", b"\0" * 8


def padded(content):
    return content + b"\0" * (-len(content) % BLOCK)


def header(name, kind=b"0", size=0, magic=USTAR, prefix=b"", size_field=None, link=b""):
    block = bytearray(BLOCK)
    fields = {0: name[:100], 100: b"0000644\0", 108: b"0000000\0", 116: b"0000000\0", 124: size_field or b"%011o\0" % size,
              136: b"00000000000\0", 148: b" " * 8, 156: kind, 157: link, 257: magic, 345: prefix}
    for at, value in fields.items():
        block[at:at + len(value)] = value
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def file(name, content=b"", **more):
    return header(name, size=len(content), **more) + padded(content)


def record(key, value):
    body = b" " + key + b"=" + value + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def pax(*records, kind=b"x"):
    content = b"".join(records)
    return header(b"pax", kind, len(content)) + padded(content)


def long_name(name, kind=b"L"):
    return header(b"././@LongLink", kind, len(name) + 1, GNU) + padded(name + b"\0")


def by_hand():
    """Archives about which programs disagree, or did."""
    inner, after = file(b"inner-name", b"content"), file(b"after-name")
    hidden = padded(inner)
    yield "a record behind a value with line feeds", pax(record(b"comment", b"a\nb"), record(b"path", b"of-pax")) + file(b"stored")
    yield "a global path", pax(record(b"path", b"of-all"), kind=b"g") + file(b"stored") + file(b"stored-2")
    for size in (b"0", b"512", b"1024", b"99999999", b"junk", b"+512", b" 512", b"5_12", b"-1", b"0x200", b"512.5", b"", b"9" * 30):
        for kind in (b"x", b"g"):
            yield f"a size {size} in {kind}", pax(record(b"size", size), kind=kind) + file(b"stored", hidden) + after
            yield f"a size {size} in {kind} of an empty file", pax(record(b"size", size), kind=kind) + file(b"stored") + inner + after
    for bad in (b"12 path=evi\n99 path=evil\n", b"13 path=evil\n", b"xx\n14 path=evil22\n", b" 12 path=evi\n", b"8 path=\n", b"12 pathevil1\n",
                b"12 path=evi\n\0\0", b"12 path=evi\n\0" + record(b"path", b"evil-2"), b"0 path=x\n", b"7 =evil\n"):
        yield f"records {bad}", pax(bad) + file(b"stored") + after
    one, two = pax(record(b"path", b"one")), pax(record(b"path", b"two"))
    yield "two paths in one header", pax(record(b"path", b"one"), record(b"path", b"two")) + file(b"stored")
    yield "two sizes in one header", pax(record(b"size", b"0"), record(b"size", b"1024")) + file(b"stored", hidden) + after
    yield "two extended headers", one + two + file(b"stored")
    yield "a long name, and a path", long_name(b"long") + one + file(b"stored")
    yield "a path, and a long name", one + long_name(b"long") + file(b"stored")
    yield "two long names", long_name(b"long-1") + long_name(b"long-2") + file(b"stored")
    yield "a global path and a local one", pax(record(b"path", b"all"), kind=b"g") + one + file(b"stored") + after
    yield "a global header in between", one + pax(record(b"comment", b"c"), kind=b"g") + file(b"stored")
    sparse = record(b"GNU.sparse.name", b"sparse")
    yield "a sparse name, then a path", pax(sparse, record(b"path", b"other")) + file(b"stored")
    yield "a path, then a sparse name", pax(record(b"path", b"other"), sparse) + file(b"stored")
    for magic in (USTAR, GNU, V7, b"ustarXYZ"):
        yield f"a prefix beside {magic}", header(b"name", prefix=b"prefix", magic=magic)
        for kind in b"0 1 2 3 4 5 6 7 S D V M N A Z".split() + [b"\0"]:
            for name in (b"stored", b"stored/"):
                yield f"type {kind} of {name} with a size, {magic}", header(name, kind, BLOCK, magic, link=b"t") + inner + after
        yield f"a directory whose size hides the end, {magic}", header(b"d", b"5", 2 * BLOCK, magic) + END + after
    for field in (b" " * 12, b"\0" * 12, b"00000001000x", b"\xFF" * 12, b"\x80" + b"\0" * 9 + b"\x02\0", b"\xC0" + b"\0" * 9 + b"\x02\0",
                  b"0o1000\0\0\0\0\0\0", b"1000\0\0\0\0\0\0\0\0", b"-1000\0\0\0\0\0\0\0", b"\x80" + b"\xFF" * 11):
        yield f"a size field {field}", header(b"stored", size_field=field) + inner + after
    yield "no name but a path", one + header(b"") + after
    yield "a block of NULs", file(b"stored") + b"\0" * BLOCK + after
    yield "a damaged header", file(b"stored") + b"z" * BLOCK + after
    yield "a long header", pax(record(b"comment", b"c" * (1 << 20)), record(b"path", b"one")) + file(b"stored") + after
    yield "a sparse file", header(b"sparse", b"S", 0, GNU) + after


def by_python(rng):
    """An archive of ordinary members in one of the formats that Python writes."""
    form = rng.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    with tempfile.TemporaryFile() as out:
        with tarfile.open(fileobj=out, mode="w", format=form, pax_headers={"comment": "c"} if rng.random() < 0.3 else None) as tar:
            for number in range(rng.randint(2, 6)):
                name = rng.choice(["name", "dir/sub/name", "n" * 120, "é" * 30, "d" * 90 + "/" + "n" * 90]) + str(number)
                info = tarfile.TarInfo(name)
                info.type = rng.choice([tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE])
                info.linkname = "target" * rng.choice([1, 30]) if info.type == tarfile.SYMTYPE else ""
                content = rng.randbytes(rng.choice([0, 5, 700])) if info.isreg() else b""
                info.size = len(content)
                try:
                    tar.addfile(info, io.BytesIO(content))
                except ValueError:
                    pass
        out.seek(0)
        return out.read()


def with_checksums(data):
    """Repairs the checksums of blocks that look like headers, so that a mutant is more than a damaged header."""
    data = bytearray(data)
    for at in range(0, len(data) - BLOCK + 1, BLOCK):
        if data[at + 257:at + 262] == b"ustar":
            data[at + 148:at + 156] = b" " * 8
            data[at + 148:at + 156] = b"%06o\0 " % sum(data[at:at + BLOCK])
    return bytes(data)


def mutant(rng):
    data = bytearray(by_python(rng))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) // BLOCK) * BLOCK
        match rng.randrange(6):
            case 0:
                data[at + 156:at + 157] = rng.choice(list(b"0 1 2 5 6 7 L K x g S V".split()))
            case 1:
                data[at + 124:at + 136] = rng.choice([b"%011o\0" % rng.choice([0, 1, 512, 1024, 4096]), b"0000000100x\0", b"\x80" + b"\0" * 10 + b"\x07"])
            case 2:
                data[at:at] = rng.choice([pax(record(b"size", b"%d" % rng.choice([0, 512, 1024]))), pax(record(b"path", b"mutant-path")),
                                          pax(record(b"path", b"mutant-all"), kind=b"g"), long_name(b"mutant-long"), b"\0" * BLOCK])
            case 3:
                del data[at:at + BLOCK]
            case 4:
                data[at + rng.randrange(BLOCK)] = rng.randrange(256)
            case _:
                data[at + 257:at + 265] = rng.choice([USTAR, GNU, V7])
    return with_checksums(data) if rng.random() < 0.8 else bytes(data)


UTF8_FLAG, SIZES_FOLLOW = 1 << 11, 1 << 3


def extra(field, content):
    return struct.pack("<HH", field, len(content)) + content


def unicode_path(name, of):
    return extra(0x7075, b"\1" + struct.pack("<I", zlib.crc32(of)) + name)


def stored(name, content=b"", flags=0, fields=b"", size=None, descriptor=b""):
    """A local header with its content."""
    size = len(content) if size is None else size
    return struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, flags, 0, 0, 33, zlib.crc32(content), size, size, len(name), len(fields)) \
        + name + fields + content + descriptor


def listed(name, at, content=b"", flags=0, fields=b"", size=None):
    """An entry of the central directory."""
    size = len(content) if size is None else size
    return struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 0x0314, 20, flags, 0, 0, 33, zlib.crc32(content), size, size, len(name), len(fields),
                       0, 0, 0, 0o100644 << 16, at) + name + fields


def end(entries, size, at, comment=b""):
    return struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, entries, entries, size, at, len(comment)) + comment


def zipped(*members, prefix=b"", before_directory=b"", comment=b"", suffix=b"", count=None, shift=0):
    """A zip; a member is its local header, and how the directory lists it at an offset."""
    data, directory = prefix, b""
    for local, entry in members:
        directory += entry(len(data) - shift)
        data += local
    data += before_directory
    return data + directory + end(len(members) if count is None else count, len(directory), len(data) - shift, comment) + suffix


def member(name, content=b"", **more):
    return stored(name, content, **more), lambda at: listed(name, at, content, **more)


def zips_by_hand():
    one, two, hidden = member(b"name-1", b"content"), member(b"name-2"), stored(b"hidden", b"x")
    yield "a plain zip", zipped(one, two)
    yield "another local name", zipped((stored(b"local-name"), lambda at: listed(b"directory-name", at)), two)
    yield "another local name of its length", zipped((stored(b"name-L"), lambda at: listed(b"name-D", at)), two)
    yield "a member before the first", zipped(one, two, prefix=hidden)
    yield "a member between", zipped((one[0] + hidden, one[1]), two)
    yield "a member before the directory", zipped(one, before_directory=hidden)
    yield "a member behind the end", zipped(one, suffix=hidden)
    yield "a member in the comment", zipped(one, comment=hidden)
    yield "a zip in the comment", zipped(one, comment=zipped(two))
    yield "a zip behind the end", zipped(one) + zipped(two)
    yield "a zip behind the end, offsets from the beginning", zipped(two, prefix=zipped(one))
    yield "a prefix", zipped(one, two, prefix=b"#!/bin/sh\n")
    yield "a prefix that offsets do not count", zipped(one, two, prefix=b"#!/bin/sh\n", shift=10)
    yield "fewer members announced", zipped(one, two, count=1)
    yield "more members announced", zipped(one, two, count=3)
    yield "members that overlap", zipped((stored(b"outer", hidden), lambda at: listed(b"outer", at, hidden)), (b"", lambda at: listed(b"hidden", at - len(hidden), b"x")))
    yield "one member twice", zipped(one, one)
    yield "one member listed twice", zipped(one, (b"", lambda at: listed(b"name-1", 0, b"content")))
    yield "one header with two names", zipped(one, (b"", lambda at: listed(b"other-name", 0, b"content")))
    yield "another size in the local header", zipped((stored(b"short", hidden, size=0), lambda at: listed(b"short", at, hidden)), two)
    sizes = b"PK\7\10" + struct.pack("<III", zlib.crc32(b"content"), 7, 7)
    for what, follow in (("sizes", sizes), ("sizes without a signature", sizes[4:]), ("no sizes", b""), ("other sizes", b"PK\7\10" + b"\1" * 12)):
        local = stored(b"streamed", b"content", flags=SIZES_FOLLOW, size=0, descriptor=follow)
        yield f"{what} that follow", zipped((local, lambda at: listed(b"streamed", at, b"content", flags=SIZES_FOLLOW)), two)
    for flags in (0, UTF8_FLAG):
        for name in (b"ascii", "é".encode(), b"caf\x82"):
            for path in (b"of-field", "ü".encode()):
                field = unicode_path(path, name)
                yield f"a field with {path} beside {name} {flags}", zipped(member(name, flags=flags, fields=field), two)
                yield f"a local field with {path} beside {name} {flags}", zipped((stored(name, flags=flags, fields=field), lambda at: listed(name, at, flags=flags)), two)
                yield f"a listed field with {path} beside {name} {flags}", zipped((stored(name, flags=flags), lambda at: listed(name, at, flags=flags, fields=field)), two)
                wrong = unicode_path(path, b"another")
                yield f"a field with {path} of another name beside {name} {flags}", zipped(member(name, flags=flags, fields=wrong), two)
    yield "a NUL in a name", zipped(member(b"name\0hidden"), two)
    yield "a name of NULs", zipped(member(b"\0\0"), two)
    yield "a backslash", zipped(member(b"dir\\name"), two)
    yield "a name twice", zipped(member(b"same", b"1"), member(b"same", b"2"))
    local, directory = stored(b"name-1"), listed(b"name-1", 0)
    other, others = stored(b"name-2"), listed(b"name-2", len(local))
    for entries, size, at in ((1, len(others), len(local + other + directory)), (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF), (1, len(directory), len(local + other))):
        data = local + other + directory + others
        large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(directory), len(local + other))
        locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(data), 1)
        yield f"two directories, zip64 and {entries, size, at}", data + large + locator + end(entries, size, at)
    tar = by_python(random.Random(1))
    yield "a tar and a zip", tar + zipped(one, two, prefix=tar)[len(tar):]
    yield "a tar whose first name begins a zip", file(b"PK\3\4name") + END + zipped(one)
    yield "a zip of which the first member is in a tar", file(b"in-tar", stored(b"name-1")) + END + listed(b"name-1", BLOCK) + end(1, len(listed(b"name-1", 0)), 3 * BLOCK + len(END))


def zip_by_python(rng):
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        for number in range(rng.randint(1, 5)):
            name = rng.choice(["name", "dir/sub/name", "n" * 120, "é" * 30, "dir/in-", "same"]) + ("" if rng.random() < 0.2 else str(number))
            content = rng.randbytes(rng.choice([0, 5, 700]))
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=rng.random() < 0.2) as to:
                to.write(content)
        archive.comment = rng.choice([b"", b"comment"])
    if rng.random() < 0.3:
        # Written to what cannot be read again, the sizes follow the contents.
        flow = io.BytesIO()
        flow.seek = lambda *_: (_ for _ in ()).throw(io.UnsupportedOperation())
        with zipfile.ZipFile(flow, "w") as archive:
            for number in range(3):
                archive.writestr(f"flow-{number}", b"content" * number)
        return flow.getvalue()
    return out.getvalue()


def zip_mutant(rng):
    data = bytearray(zip_by_python(rng))
    marks = [m.start() for m in re.finditer(rb"PK[\x01-\x07][\x02-\x08]", bytes(data))]
    for _ in range(rng.randint(1, 3)):
        at = min(rng.choice(marks), len(data) - 1)
        match rng.randrange(6):
            case 0:
                data[min(at + rng.randrange(60), len(data) - 1)] = rng.randrange(256)
            case 1:
                data[at:at] = stored(b"mutant-%d" % rng.randrange(9), rng.randbytes(rng.choice([0, 9])))
            case 2:
                del data[at:at + rng.randrange(1, 60)]
            case 3:
                field = at + rng.choice([6, 8, 18, 20, 24, 26, 28, 30, 42, 46])
                data[field:field + 2] = struct.pack("<H", rng.choice([0, 1, 8, 2048, 0xFFFF]))
            case 4:
                data += rng.choice([zip_by_python(rng), b"suffix", bytes(data[at:])])
            case _:
                data[:0] = rng.choice([b"prefix", stored(b"mutant-first"), zip_by_python(rng)])
    return bytes(data)


def plain(name):
    while name.startswith(b"./"):
        name = name[2:]
    return name.rstrip(b"/")


def unescaped(line):
    simple = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"\\": b"\\"}
    return re.sub(rb"\\([0-7]{3}|.)", lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else simple.get(m[1], m[0]), line)


def by_gnu(path):
    command = ["tar", "--quoting-style=escape", "-P", "-tf", path]
    lines = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C"}).stdout.split(b"\n")
    # The labels of volumes and of continued files are listed, but not unpacked.
    return {plain(unescaped(line)) for line in lines if line and not line.endswith((b"--Volume Header--", b"--Continued at byte 0--"))}


def unpacked(command, path):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([*command, "-xf", os.path.abspath(path), "-C", directory], capture_output=True)
        return below(directory)


def below(directory):
    """The paths of all files, and of directories in which there are none."""
    root = os.fsencode(directory)
    subprocess.run(["chmod", "-R", "u+rwX", root], capture_output=True)
    return {os.path.relpath(os.path.join(above, name), root) for above, dirs, names in os.walk(root) for name in dirs + names}


def by_bsdtar(path):
    lines = subprocess.run(["bsdtar", "-tf", path], capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout.split(b"\n")
    return {plain(unescaped(line)) for line in lines if line}


def by_tarfile(path):
    found = set()
    try:
        with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                found.add(plain(os.fsencode(member.name)))
    except (tarfile.TarError, ValueError, OSError, EOFError):
        pass
    return found


def by_bsdtar_from_a_pipe(path):
    with open(path, "rb") as archive, tempfile.TemporaryDirectory() as directory:
        subprocess.run(["bsdtar", "-xf", "-", "-C", directory], stdin=archive, capture_output=True)
        return below(directory)


def by_unzip(path):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["unzip", "-qq", "-o", os.path.abspath(path), "-d", directory], stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        return below(directory)


def by_7z(path):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["7z", "x", "-y", "-bd", "-o" + directory, path], stdin=subprocess.DEVNULL, capture_output=True)
        return below(directory)


def by_zipfile(path):
    try:
        with zipfile.ZipFile(path) as archive:
            # Names that are not marked are in the encoding that the format declares.
            return {plain(name.encode(errors="surrogateescape")) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError, struct.error):
        return set()


ZIP_PEERS = {"bsdtar": {"bsdtar -x": lambda path: unpacked(["bsdtar"], path), "bsdtar -x of a pipe": by_bsdtar_from_a_pipe},
             "unzip": {"unzip": by_unzip}, "7z": {"7z": by_7z}}
PEERS = {"tar": {"tar -t": by_gnu, "tar -x": lambda path: unpacked(["tar"], path)},
         "bsdtar": {"bsdtar -t": by_bsdtar, "bsdtar -x": lambda path: unpacked(["bsdtar"], path)}}


FORMS = {"tar": {"tarfile": by_tarfile}, "zip": {"zipfile": by_zipfile}}


def peers():
    """How programs read each form; None where a program is missing."""
    for form, ways, programs in (("tar", FORMS["tar"], PEERS), ("zip", FORMS["zip"], ZIP_PEERS)):
        yield form, ways
        for program, ways in programs.items():
            yield form, ways if shutil.which(program) else program


def by_hand_and_mutation(rng, mutants):
    yield from (("tar", what, data + END) for what, data in by_hand())
    yield from (("zip", what, data) for what, data in zips_by_hand())
    for number in mutants:
        yield ("tar", f"mutant {number}", mutant(rng)) if number % 2 == 0 else ("zip", f"mutant {number}", zip_mutant(rng))


def write(data, directory, form):
    path = os.path.join(directory, f"archive.{form}")
    Path(path).write_bytes(data)
    return path, ["--archive", path]


def scans(form):
    """More options for the scans whose names count together."""
    # The encoding of a name that is not marked is guessed, and the report names it; programs read such names as bytes or in cp437.
    return [[]] + [["--archive-encoding", encoding] for encoding in ("utf-8", "cp437") if form == "zip"]


def known(checked):
    """The names that count as checked."""
    # A directory that is no member is a name of its own. Some programs take a backslash for a separator.
    paths = checked | {name.replace(b"\\", b"/") for name in checked}
    return paths | {b"/".join(name.split(b"/")[:depth]) for name in paths for depth in range(1, name.count(b"/") + 1)}


def is_name(name):
    # 7z calls what has no name as the archive.
    return b"\0" not in name and name != b"archive"
