"""Makes archives as programs write them, and reads copies of them with other programs.

oracles.py make DIRECTORY    archives, and cases.json: for each the options, the expected exit status and the expected contents by name
oracles.py mutate DIRECTORY PROGRAM ROUNDS SEED   damages the archives and has PROGRAM copy them: the contents stay, or there is no copy
oracles.py check DIRECTORY   compares the copies NAME.out with what is expected; prints what differs, and SKIPPED for what is not installed
"""
import binascii, bz2, gzip, hashlib, io, json, lzma, os, shutil, struct, subprocess, sys, tarfile, tempfile, zipfile, zlib
from random import Random

ENV = {**os.environ, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC"}
GERMAN = ["Größe.txt", "Übersicht/Änderungen.txt", "Übersicht/Straße.doc", "Müller/Köln.txt", "plain.txt"]
CASES = []


def content(name):
    return f"contents of {name}\n".encode() * 40


def digest(data):
    return hashlib.sha256(data).hexdigest()


def case(file, data, expected, args=(), status=0, readers=None, why=""):
    with open(file, "wb") as out:
        out.write(data)
    CASES.append({"file": file, "expected": {name: digest(data) for name, data in expected.items()}, "args": list(args),
                  "status": status, "readers": readers, "why": why})


class Member:
    """A member of a zip, with all that programs write differently."""

    def __init__(self, name, data=b"", flags=0, made_by=0x0014, method=8, extra=b"", local_extra=None, comment=b"", descriptor=None, zip64=False,
                 attributes=0):
        self.name, self.data, self.flags, self.made_by, self.method = name, data, flags, made_by, method
        self.extra, self.local_extra, self.comment = extra, extra if local_extra is None else local_extra, comment
        self.descriptor, self.zip64, self.attributes = descriptor, zip64, attributes
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.packed = deflate.compress(data) + deflate.flush() if method == 8 else data
        self.crc = binascii.crc32(data)


def make_zip(members, prefix=b"", comment=b"", zip64_end=False, order=None, gap=b"", before_directory=b""):
    out, records = bytearray(prefix), {}
    for at in order or range(len(members)):
        m = members[at]
        offset, flags = len(out), m.flags | (8 if m.descriptor else 0)
        sizes = (0, 0, 0) if m.descriptor else (m.crc, len(m.packed), len(m.data))
        local_extra, extra = m.local_extra, m.extra
        if m.zip64:
            local_extra = struct.pack("<HHQQ", 1, 16, len(m.data), len(m.packed)) + local_extra
            extra = struct.pack("<HHQQQ", 1, 24, len(m.data), len(m.packed), offset) + extra
            sizes = (m.crc, 0xFFFFFFFF, 0xFFFFFFFF)
        out += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45 if m.zip64 else 20, flags, m.method, 0x6000, 0x5A21, *sizes, len(m.name), len(local_extra))
        out += m.name + local_extra + m.packed
        if m.descriptor:
            out += (b"PK\7\10" if m.descriptor == "signed" else b"") + struct.pack("<III", m.crc, len(m.packed), len(m.data))
        out += gap
        packed, size, where = (0xFFFFFFFF,) * 3 if m.zip64 else (len(m.packed), len(m.data), offset)
        records[at] = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", m.made_by, 45 if m.zip64 else 20, flags, m.method, 0x6000, 0x5A21, m.crc, packed,
                                  size, len(m.name), len(extra), len(m.comment), 0, 0, m.attributes, where) + m.name + extra + m.comment
    out += before_directory
    directory = b"".join(records[at] for at in range(len(members)))
    start, count = len(out), len(members)
    out += directory
    if zip64_end:
        end = len(out)
        out += struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start)
        out += struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
        out += struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, len(comment)) + comment
    else:
        out += struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), start, len(comment)) + comment
    return bytes(out)


def unicode_field(kind, stored, text):
    body = b"\1" + struct.pack("<I", binascii.crc32(stored)) + text
    return struct.pack("<HH", kind, len(body)) + body


def members_of(names, encoding, **options):
    return [Member(name.encode(encoding), content(name), **options) for name in names]


def contents_of(names):
    return {name: content(name) for name in names}


def make_zips():
    ntfs = struct.pack("<HHIHHQQQ", 0x000A, 32, 0, 1, 24, *[132223104000000000] * 3)
    stamps = b"UT\5\0\3\0\0\0\x60"
    for encoding in "cp437", "cp850", "cp1252":
        names = GERMAN if encoding != "cp437" else ["Größe.txt", "Übersicht/Änderungen.txt", "Müller/Köln.txt", "plain.txt"]
        case(f"explorer-{encoding}.zip", make_zip(members_of(names, encoding, extra=ntfs)), contents_of(names))
    russian = ["Привет.txt", "Отчёт/Январь.txt", "Отчёт/Февраль.txt", "Картинки/Море.jpg"]
    case("dos-cp866.zip", make_zip(members_of(russian, "cp866", made_by=0x000B, method=0)), contents_of(russian))
    case("dos-cp866-asked.zip", make_zip(members_of(russian[:1], "cp866", made_by=0x000B)), contents_of(russian[:1]), ["--encoding", "ibm866"])
    chinese = ["照片/雨中.jpg", "照片/童心.jpg", "拥抱艳阳天.txt", "文档/报告.doc"]
    case("gbk.zip", make_zip(members_of(chinese, "gbk")), contents_of(chinese), ["--encoding", "gbk"])
    japanese = ["写真/東京.jpg", "写真/表示.jpg", "テスト.txt", "ソフトウェア.txt"]
    case("shift-jis.zip", make_zip(members_of(japanese, "cp932")), contents_of(japanese))
    # ditto of macOS: UTF-8 in NFC here, no mark, sizes behind the contents, and its own directory.
    mac = ["Größe.txt", "日本語/テスト.txt", "__MACOSX/._Größe.txt"]
    case("ditto.zip", make_zip(members_of(mac, "utf-8", made_by=0x0315, descriptor="signed", extra=b"UX\4\0\0\0\0\x60")), contents_of(mac))
    java = [Member(name.encode("cp850"), content(name), descriptor="signed", extra=b"\xFE\xCA\0\0" if at == 0 else b"") for at, name in enumerate(GERMAN)]
    case("java.zip", make_zip(java), contents_of(GERMAN))
    case("descriptor-without-signature.zip", make_zip(members_of(GERMAN, "cp850", descriptor="bare")), contents_of(GERMAN))
    stored = [name.encode("cp850") for name in GERMAN]
    info_zip = [Member(raw, content(name), made_by=0x031E, extra=stamps + unicode_field(0x7075, raw, name.encode()) + b"ux\4\0\1\0\0\0",
                       local_extra=unicode_field(0x7075, raw, name.encode()) + stamps) for raw, name in zip(stored, GERMAN)]
    case("info-zip.zip", make_zip(info_zip), contents_of(GERMAN))
    seven = [Member(name.encode(), content(name), flags=0x800, made_by=0x033F, extra=ntfs) for name in GERMAN[:4]] + [Member(b"a?b.txt", content("?"))]
    case("7z.zip", make_zip(seven), {**contents_of(GERMAN[:4]), "a_b.txt": content("?")}, ["--profile", "windows"])
    case("comments.zip", make_zip([Member(raw, content(name), comment=f"Größe von {name}".encode("cp850")) for raw, name in zip(stored, GERMAN)],
                                  comment="Übersicht".encode("cp850")), contents_of(GERMAN))
    case("self-extracting.zip", make_zip(members_of(GERMAN, "cp850"), prefix=b"#!/bin/sh\nexit 0\n" + b"\0" * 3000), contents_of(GERMAN))
    unadjusted = b"MZ" + b"\0" * 5000 + make_zip(members_of(GERMAN, "cp850"))
    case("self-extracting-unadjusted.zip", unadjusted, contents_of(GERMAN), readers=["zipfile", "unzip", "bsdtar", "7z"])
    case("zip64.zip", make_zip(members_of(GERMAN, "cp850", zip64=True), zip64_end=True, comment=b"large"), contents_of(GERMAN))
    case("any-order.zip", make_zip(members_of(GERMAN, "cp850"), order=[3, 1, 4, 0, 2], gap=b"\0" * 7), contents_of(GERMAN))
    case("damaged-extra.zip", make_zip(members_of(GERMAN, "cp850", extra=b"\x75\x70\xFF\xFFdamaged")), contents_of(GERMAN), readers=["zipfile-names"])
    case("guess.zip", make_zip([Member(b"caf\x82.txt", content("café.txt"))]), {}, readers=["same"])
    case("guess-asked.zip", make_zip([Member(b"caf\x82.txt", content("café.txt"))]), contents_of(["café.txt"]), ["--at-least", "guess"])
    twins = [Member(raw, content(name)) for raw, name in zip(stored, GERMAN)] + [Member("Größe.txt".encode(), b"5", flags=0x800, made_by=0x0314)]
    case("twins.zip", make_zip(twins), {**contents_of(GERMAN[1:]), "Größe_2.txt": content("Größe.txt"), "Größe.txt": b"5"},
         readers=["zipfile", "7z", "bsdtar"])
    link = Member(b"link", "Größe.txt".encode("cp850"), method=0, made_by=0x0314, attributes=0o120777 << 16)
    case("link.zip", make_zip([*members_of(GERMAN, "cp850"), link]), {**contents_of(GERMAN), "link": link.data}, readers=["zipfile"], why="symbolic link")
    reserved = [Member(b"x" * 300, b"1"), Member(b"c.txt", b"2")]
    case("skipped.zip", make_zip(reserved), {}, ["--profile", "windows"], readers=["same"], why="no new name")
    case("ascii.zip", make_zip(members_of(["a.txt", "b/c.txt"], "ascii")), {}, readers=["same"])
    # Info-ZIP's own, encrypted.
    if shutil.which("zip"):
        with tempfile.TemporaryDirectory() as top:
            raw = [os.path.join(top.encode(), "Größe %d.txt".encode("latin-1") % at) for at in range(3)]
            for path in raw:
                with open(path, "wb") as out:
                    out.write(content("secret"))
            file = os.path.abspath("encrypted.zip")
            subprocess.run(["zip", "-qj", "-P", "secret", file, *raw], check=True, env={**ENV, "LC_ALL": "C"})
            with open(file, "rb") as archive:
                data = archive.read()
            names = [f"Größe {at}.txt" for at in range(3)]
            case("encrypted.zip", data, {name: content("secret") for name in names}, ["--at-least", "guess"])
    else:
        print("SKIPPED: zip is not installed")


def tar_header(name, size=0, kind=b"0", link=b"", magic=b"ustar\00000", prefix=b""):
    block = bytearray(512)
    for at, text in (0, name[:100]), (100, b"0000644\0"), (108, b"0000000\0"), (116, b"0000000\0"), (124, b"%011o\0" % size), (136, b"00000000000\0"), \
            (156, kind), (157, link[:100]), (257, magic), (345, prefix):
        block[at:at + len(text)] = text
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data):
    return data + b"\0" * (-len(data) % 512)


def tar_file(name, data, **options):
    return tar_header(name, len(data), **options) + padded(data)


def gnu_long(kind, name):
    return tar_file(b"././@LongLink", name + b"\0", kind=kind, magic=b"ustar  \0")


def pax_header(*records):
    body = b""
    for key, value in records:
        rest = len(key) + len(value) + 3
        size = rest + len(str(rest + len(str(rest))))
        body += b"%d %s=%s\n" % (size, key, value)
    return tar_file(b"PaxHeaders/x", body, kind=b"x")


END = b"\0" * 10240
LATIN = ["--encoding", "windows-1252"]


def make_tars():
    latin = [name.encode("latin-1") for name in GERMAN]
    ustar = b"".join(tar_file(raw, content(name)) for raw, name in zip(latin, GERMAN))
    gnu = b"".join(tar_file(raw, content(name), magic=b"ustar  \0") for raw, name in zip(latin, GERMAN))
    v7 = b"".join(tar_file(raw, content(name), magic=b"\0" * 8) for raw, name in zip(latin, GERMAN))
    for name, data in ("ustar", ustar), ("gnu", gnu), ("v7", v7):
        case(f"{name}.tar", data + END, contents_of(GERMAN))
    case("ustar.tar.gz", gzip.compress(ustar + END), contents_of(GERMAN))
    case("ustar.tar.bz2", bz2.compress(ustar + END), contents_of(GERMAN))
    case("ustar.tar.xz", lzma.compress(ustar + END), contents_of(GERMAN))
    if shutil.which("zstd"):
        packed = subprocess.run(["zstd", "-qc"], input=ustar + END, capture_output=True, check=True).stdout
        case("ustar.tar.zst", packed, contents_of(GERMAN), readers=["gnutar", "bsdtar"])
    else:
        print("SKIPPED: zstd is not installed")
    pax = b"".join(pax_header((b"mtime", b"1.5"), (b"path", raw), (b"comment", b"two\nlines")) + tar_file(b"short", content(name))
                   for raw, name in zip(latin, GERMAN))
    case("pax.tar", pax + END, contents_of(GERMAN))
    # Names that fit in no header once they are UTF-8, and some that did not fit before.
    long_names = ["ä" * 60 + "/" + "ö" * 90 + ".txt", "ü" * 99, "ß" * 110 + "/" + "Ä" * 70, "Köln/" + "x" * 90]
    raw = [name.encode("latin-1") for name in long_names]
    case("long-ustar.tar", b"".join(
        tar_file(path.rpartition(b"/")[2], content(name), prefix=path.rpartition(b"/")[0]) if len(path) > 100 else tar_file(path, content(name))
        for path, name in zip(raw, long_names)) + END, contents_of(long_names), LATIN)
    case("long-gnu.tar", b"".join(gnu_long(b"L", path) * (len(path) > 99) + tar_file(path, content(name), magic=b"ustar  \0")
                                  for path, name in zip(raw, long_names)) + END, contents_of(long_names), LATIN)
    case("long-pax.tar", b"".join(pax_header((b"path", path)) + tar_file(path[:100], content(name))
                                  for path, name in zip(raw, long_names)) + END, contents_of(long_names), LATIN)
    # Links to renamed members.
    target = "Größe.txt".encode("latin-1")
    links = ustar + tar_header(b"hard", kind=b"1", link=target) + tar_header(b"Verzeichnis/soft", kind=b"2", link=b"../" + target) \
        + tar_header(b"outside", kind=b"2", link=b"../../" + target) + tar_header(b"through", kind=b"2", link=b"Verzeichnis/../" + target)
    case("links.tar", links + END, {**contents_of(GERMAN), "hard": content("Größe.txt"), "Verzeichnis/soft": b"->../" + "Größe.txt".encode(),
                                    "outside": b"->../../" + target, "through": b"->Verzeichnis/../" + target}, readers=["tarfile"])
    links = ustar + tar_header(b"hard", kind=b"1", link=target) + tar_header(b"soft", kind=b"2", link=target)
    case("links-unpacked.tar", links + END, {**contents_of(GERMAN), "hard": content("Größe.txt"), "soft": content("Größe.txt")})
    # As `tar c .` and `tar cP` write them, and one that leads out.
    latin_1 = lambda name: name.encode("latin-1")
    mixed = tar_header(b"./", kind=b"5") + tar_header(latin_1("./Größe/"), kind=b"5") + tar_file(latin_1("./Größe/Übel.txt"), b"x") \
        + tar_file(latin_1("/abs/Köln/Straße"), b"y") + tar_file(b"../plain", b"z") + tar_header(latin_1("./hard"), kind=b"1", link=latin_1("./Größe/Übel.txt"))
    found = {"Größe/Übel.txt": b"x", "/abs/Köln/Straße": b"y", "../plain": b"z", "hard": b"x"}
    case("mixed.tar", mixed + END, found, status=1, readers=["tarfile"], why="`..`")
    again = b"".join(tar_file(latin_1(name), data) for name, data in (("Größe", b"1"), ("Köln", b"2"), ("Straße", b"3"), ("Größe", b"4")))
    case("appended.tar", again + END, {"Größe": b"4", "Köln": b"2", "Straße": b"3"})
    twins = again[:3072] + tar_file("Größe".encode(), b"5")
    case("twins.tar", twins + END, {"Größe_2": b"1", "Köln": b"2", "Straße": b"3", "Größe": b"5"})
    # Names of several encodings and kinds, for a comparison with a tree.
    raw = [b"K\xF6ln/Gr\xF6\xDFe.txt", b"K\xF6ln/Stra\xDFe: 2.txt", b"K\xF6ln/aux.h", b"K\xF6ln/M\xFCller", "Привет/мир.txt".encode("koi8-r"),
           "Привет/Отчёт.doc".encode("koi8-r"), "Привет/Море.jpg".encode("koi8-r"), b"one/caf\xE9", b"cut/na\xC3", "ok/Größe".encode(), b"ok/a?b", b"ok/A?B", b"ok/\xFF",
           "Köln.txt".encode("cp437"), "ok/Ã¼ber.txt".encode(), b"ok/end.", b"deep/" * 6 + b"\xC4rger"]
    case("names.tar", b"".join(tar_file(name, b"x") for name in raw) + END, {}, status=0, readers=["none"])
    # Sparse files, by GNU tar.
    with tempfile.TemporaryDirectory() as top:
        path = os.path.join(top.encode(), "Löcher".encode("latin-1"))
        with open(path, "wb") as out:
            for at in range(0, 40):
                out.seek(at * 200000)
                out.write(b"data %d" % at)
        other = [os.path.join(top.encode(), name.encode("latin-1")) for name in ("Größe", "Köln", "Straße")]
        for file in other:
            with open(file, "wb") as out:
                out.write(b"x")
        with open(path, "rb") as file:
            whole = file.read()
        for layout in ["gnu", "pax-0.0", "pax-0.1", "pax-1.0"]:
            options = [f"--format={layout[:3]}"] + ([f"--sparse-version={layout[4:]}"] if layout != "gnu" else [])
            packed = subprocess.run(["tar", *options, "-S", "-C", top, "-cf", "-", "."], capture_output=True, check=True, env=ENV).stdout
            assert len(packed) < 1000000, "a file system without holes"
            readers = ["gnutar", "bsdtar"] if layout != "gnu" else None
            case(f"sparse-{layout}.tar", packed, {"Löcher": whole, "Größe": b"x", "Köln": b"x", "Straße": b"x"}, readers=readers)
    with tempfile.TemporaryDirectory() as top:
        file = os.path.join(top, "pax.tar")
        with tarfile.open(file, "w", format=tarfile.PAX_FORMAT, encoding="latin-1", pax_headers={"comment": "global"}) as tar:
            for name in GERMAN:
                info = tarfile.TarInfo(name)
                info.size = len(content(name))
                tar.addfile(info, io.BytesIO(content(name)))
        with open(file, "rb") as packed:
            case("python-pax.tar", packed.read(), contents_of(GERMAN), readers=None)


def make_refused():
    refused = lambda file, data, why, *args: (case(file, data, {}, args, status=2), CASES[-1].update(why=why))
    members = members_of(GERMAN, "cp850")
    whole = make_zip(members)
    refused("truncated.zip", whole[:len(whole) // 2], "neither a tar nor a zip")
    refused("cut-directory.zip", whole[:-30], "")
    manifest = [Member(b"META-INF/MANIFEST.MF", b"x"), Member(b"META-INF/CERT.SF", b"x")]
    refused("signed.jar", make_zip(manifest + members), "signed")
    refused("signed.apk", make_zip(members, before_directory=b"\0" * 64 + b"APK Sig Block 42"), "signature")
    two_ends = whole + whole[whole.rindex(b"PK\5\6"):]
    refused("two-ends.zip", two_ends, "")
    at = whole.index(b"PK\1\2") + 46
    refused("names-differ.zip", whole[:at] + b"X" + whole[at + 1:], "another name in its local header")
    refused("nul.zip", make_zip(members + [Member(b"a\0b", b"x")]), "NUL")
    last = whole.rindex(b"PK\1\2")
    overlap = bytearray(whole)
    overlap[last + 42:last + 46] = struct.pack("<I", 0)
    refused("overlap.zip", bytes(overlap), "")
    end = whole.rindex(b"PK\5\6")
    refused("split.zip", whole[:end + 4] + b"\1\0\1\0" + whole[end + 8:], "")
    long_part = ("ä" * 100 + "/").encode("cp850")
    refused("grows-too-long.zip", make_zip(members + [Member(long_part * 400 + b"x", b"x")]), "components")
    masked = [Member(name.name, name.data, flags=1 << 13) for name in members]
    refused("masked.zip", make_zip(masked), "encrypted")
    latin = b"".join(tar_file(name.encode("latin-1"), content(name)) for name in GERMAN)
    refused("truncated.tar", latin[:len(latin) - 700], "")
    refused("bad-checksum.tar", latin[:148] + b"0000001\0" + latin[156:] + END, "")
    refused("incremental.tar", latin + tar_file(b"dir/", b"Yname\0\0", kind=b"D", magic=b"ustar  \0") + END, "incremental")
    refused("global-path.tar", tar_file(b"g", b"12 path=abc\n", kind=b"g") + latin + END, "global header")


def unpacked(command, file):
    with tempfile.TemporaryDirectory() as top:
        run = subprocess.run([part.format(top=top, file=os.path.abspath(file)) for part in command], capture_output=True, env=ENV, cwd=top, stdin=subprocess.DEVNULL)
        found = {}
        for at, _, files in os.walk(top.encode()):
            for name in files:
                path = os.path.join(at, name)
                relative = os.path.relpath(path, top.encode()).decode("utf-8", "surrogateescape")
                with open(path, "rb") as data:
                    found[relative] = data.read()
        if run.returncode and not found:
            return {"error": run.stderr + run.stdout}
        return found


def by_zipfile(file):
    with zipfile.ZipFile(file) as archive:
        archive.setpassword(b"secret")
        if file.startswith("comments.zip"):
            for info in archive.infolist():
                # The mark is about the comment, too.
                comment = info.comment.decode("utf-8" if info.flag_bits & 0x800 else "cp850")
                assert comment == f"Größe von {info.filename}", f"the comment of {info.filename} is {info.comment}"
            assert archive.comment == "Übersicht".encode("cp850"), "the comment of the archive changed"
        return {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}


def by_tarfile(file):
    found = {}
    with tarfile.open(file, "r:*", encoding="utf-8") as archive:
        for member in archive:
            if member.issym():
                found[member.name] = b"->" + member.linkname.encode("utf-8", "surrogateescape")
            elif member.isfile() or member.islnk():
                found[member.name] = archive.extractfile(member).read()
    return found


ZIP_READERS = {
    "zipfile": (None, by_zipfile),
    "unzip": ("unzip", lambda file: unpacked(["unzip", "-qq", "-P", "secret", "{file}"], file)),
    "7z": ("7z", lambda file: unpacked(["7z", "x", "-y", "-bd", "-psecret", "{file}"], file)),
    "bsdtar": ("bsdtar", lambda file: unpacked(["bsdtar", "--passphrase", "secret", "-xf", "{file}"], file)),
}
TAR_READERS = {
    "tarfile": (None, by_tarfile),
    "gnutar": ("tar", lambda file: unpacked(["tar", "-xf", "{file}"], file)),
    "bsdtar": ("bsdtar", lambda file: unpacked(["bsdtar", "-xf", "{file}"], file)),
    "7z": ("7z", lambda file: unpacked(["7z", "x", "-y", "-bd", "{file}"], file)),
}


def same_but_link(found):
    return {name.removeprefix("./"): digest(data) for name, data in found.items()}


def check():
    with open("cases.json") as cases:
        cases = json.load(cases)
    failures, checked, missing = 0, 0, set()
    for it in cases:
        file, expected, readers = it["file"], it["expected"], it["readers"]
        out = file + ".out"
        if it["status"] == 2:
            if os.path.exists(out):
                print(f"{file}: refused, and there is a copy")
                failures += 1
            continue
        if readers == ["same"]:
            with open(file, "rb") as old, open(out, "rb") as new:
                if old.read() != new.read():
                    print(f"{file}: nothing was to change")
                    failures += 1
            continue
        known = TAR_READERS if ".tar" in file else ZIP_READERS
        if readers == ["zipfile-names"]:
            known, readers = {"zipfile-names": (None, by_names)}, None
        for name, (command, read) in known.items():
            if readers and name not in readers:
                continue
            if command and not shutil.which(command):
                missing.add(command)
                continue
            if name == "7z" and file.count(".") > 1:
                continue
            try:
                found = same_but_link(read(out))
            except Exception as error:
                found = {"error": str(error)}
            wanted = expected
            # Python lists the target of a link, which others unpack.
            if name == "tarfile" and "soft" in wanted:
                wanted = {**wanted, "soft": digest(b"->" + "Größe.txt".encode())}
            checked += 1
            if found != wanted:
                failures += 1
                print(f"{file}: {name} reads {sorted(set(found.items()) - set(wanted.items()))} instead of {sorted(set(wanted.items()) - set(found.items()))}")
    for command in sorted(missing):
        print(f"SKIPPED: {command} is not installed")
    print(f"{checked} readings compared")
    return failures


def by_names(file):
    """Contents by the names of the central directory: the extra fields are damaged, which zipfile refuses."""
    with open(file, "rb") as archive:
        data = archive.read()
    found, at = {}, 0
    while (at := data.find(b"PK\1\2", at)) >= 0:
        flags, packed, length, offset = struct.unpack_from("<H", data, at + 8) + struct.unpack_from("<I", data, at + 20) + struct.unpack_from("<H", data, at + 28) + struct.unpack_from("<I", data, at + 42)
        name = data[at + 46:at + 46 + length]
        local, extra = struct.unpack_from("<HH", data, offset + 26)
        assert data[offset + 30:offset + 30 + local] == name, "the local header has another name"
        start = offset + 30 + local + extra
        found[name.decode()] = zlib.decompress(data[start:start + packed], -15)
        at += 46
    return found


def readable(file, read):
    """The contents of the members in their order, or what failed."""
    try:
        return [digest(data) for data in read(file).values()]
    except Exception as error:
        return type(error).__name__


def by_order(file):
    """What Python reads, without the names."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return {at: archive.read(info) for at, info in enumerate(archive.infolist())}
    with tarfile.open(file, "r:*") as archive:
        return {at: archive.extractfile(member).read() for at, member in enumerate(archive) if member.isfile()}


def mutate(program, rounds, seed):
    random, failures, copies = Random(seed), 0, 0
    with open("cases.json") as cases:
        files = sorted(it["file"] for it in json.load(cases) if it["status"] != 2 and not it["file"].startswith(("encrypted", "sparse")))
    for at in range(rounds):
        file = random.choice(files)
        with open(file, "rb") as archive:
            data = bytearray(archive.read())
        for _ in range(random.choice([1, 1, 2, 5])):
            where = random.randrange(len(data))
            match random.randrange(5):
                case 0: data[where] = random.randrange(256)
                case 1: data[where] ^= 1 << random.randrange(8)
                case 2: del data[where:where + random.choice([1, 2, 30, 512])]
                case 3: data[where:where] = data[where // 2:where // 2 + random.choice([1, 4, 46, 512])]
                case _: data[where:where + 4] = random.choice([b"\xFF" * 4, b"\0" * 4, b"PK\1\2", b"PK\5\6"])
            if not data:
                break
        with open("mutant", "wb") as out:
            out.write(data)
        if os.path.exists("mutant.out"):
            os.remove("mutant.out")
        run = subprocess.run([program, "fix", "archive", "mutant", "-o", "mutant.out", "--at-least", "guess"], capture_output=True)
        is_copied = os.path.exists("mutant.out")
        copies += is_copied
        before, after = readable("mutant", by_order), readable("mutant.out", by_order) if is_copied else None
        is_wrong = run.returncode not in (0, 1, 2) or is_copied != (run.returncode != 2)
        # A copy is an archive about which programs agree, as the archive was.
        is_wrong |= is_copied and subprocess.run([program, "fix", "archive", "mutant.out", "--dry-run"], capture_output=True).returncode == 2
        # What Python cannot read in the archive, it need not read in the copy.
        if is_wrong or is_copied and isinstance(before, list) and before != after:
            failures += 1
            shutil.copy("mutant", f"failed-{seed}-{at}")
            print(f"round {at} of seed {seed}, {file}: status {run.returncode}, {before} became {after}, {run.stderr[-400:]}")
    print(f"{copies} of {rounds} damaged archives copied")
    return failures


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    if sys.argv[1] == "make":
        make_zips()
        make_tars()
        make_refused()
        with open("cases.json", "w") as out:
            json.dump(CASES, out)
    elif sys.argv[1] == "mutate":
        sys.exit(1 if mutate(sys.argv[3], int(sys.argv[4]), int(sys.argv[5])) else 0)
    else:
        sys.exit(1 if check() else 0)
