//! `namegate scan --archive`: against Python and the programs that make archives, and on archives made octet by octet.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use data_encoding::BASE64;
use namegate_testkit::program::{namegate, status, stdout};
use serde_json::Value;

pub fn scan(file: &Path, more: &[&str]) -> (i32, Vec<Value>) {
    let mut command = namegate();
    let output =
        command.args(["scan", "--format", "json", "--archive"]).arg(file).args(more).output().unwrap();
    (status(&output), stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Path, member and rules of each finding.
fn found(objects: &[Value]) -> BTreeSet<(Vec<u8>, u64, String)> {
    let findings = objects.iter().filter(|object| object["type"] == "finding");
    findings
        .map(|f| {
            let path = BASE64.decode(f["path_base64"].as_str().unwrap().as_bytes()).unwrap();
            let rules = f["violations"].as_array().unwrap().iter().map(|v| v["rule"].as_str().unwrap());
            (path, f["member"].as_u64().unwrap(), rules.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

pub fn paths(objects: &[Value]) -> BTreeSet<Vec<u8>> {
    found(objects).into_iter().map(|(path, ..)| path).collect()
}

pub fn errors(objects: &[Value]) -> Vec<&str> {
    objects.iter().filter(|o| o["type"] == "error").map(|o| o["message"].as_str().unwrap()).collect()
}

/// Whether the command could be run; where it could not, that is said.
pub fn ran(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        other => {
            println!("SKIPPED: {:?} does not run: {other:?}", command.get_program());
            false
        }
    }
}

fn python(dir: &Path, script: &str) -> bool {
    ran(Command::new("python3").args(["-c", script]).current_dir(dir))
}

fn is_ill_formed(path: &[u8]) -> bool {
    std::str::from_utf8(path.rsplit(|&b| b == b'/').next().unwrap()).is_err()
}

/// The ill-formed names of paths, and all names on their way.
fn expected(list: &[u8]) -> (BTreeSet<Vec<u8>>, u64) {
    let mut all = BTreeSet::new();
    for path in list.split(|&b| b == 0).filter(|path| !path.is_empty()) {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).chain([path.len()]);
        all.extend(ends.map(|end| path[..end].to_vec()));
    }
    let count = all.len() as u64;
    (all.into_iter().filter(|path| is_ill_formed(path)).collect(), count)
}

#[test]
fn tars_of_every_format_and_compression_hold_the_names_that_python_reads() {
    let dir = tempfile::tempdir().unwrap();
    let made = python(
        dir.path(),
        r#"
import tarfile, io, os
names = [b"ok", b"caf\xe9", b"d/" + b"long" * 40 + b"\xff/" + b"x" * 90, b"e/" * 70 + b"f\x80", b"g" * 99 + b"\xfe",
         "é/ü".encode(), b"link\xc0"]
for how, form in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
    for packing in ("", "gz", "bz2", "xz"):
        file = f"{how}.{packing or 'tar'}"
        with tarfile.open(file, f"w:{packing}", format=form, encoding="utf-8", errors="surrogateescape") as tar:
            for name in names:
                info = tarfile.TarInfo(os.fsdecode(name))
                data = b"content" * 300
                info.size = len(data)
                if name.startswith(b"link"):
                    info.type, info.linkname, info.size = tarfile.SYMTYPE, "target" * 30 if how != "ustar" else "t", 0
                try:
                    tar.addfile(info, io.BytesIO(data))
                except ValueError:
                    assert how == "ustar"
        with tarfile.open(file, encoding="utf-8", errors="surrogateescape") as tar:
            open(file + ".list", "wb").write(b"\0".join(os.fsencode(n) for n in tar.getnames()))
"#,
    );
    if !made {
        return;
    }
    let mut compared = 0;
    for format in ["ustar", "gnu", "pax"] {
        for packing in ["tar", "gz", "bz2", "xz"] {
            let file = dir.path().join(format!("{format}.{packing}"));
            let (bad, count) = expected(&fs::read(format!("{}.list", file.display())).unwrap());
            let (status, objects) = scan(&file, &["--profile", "utf8"]);
            assert_eq!((status, paths(&objects)), (1, bad), "{file:?} {:?}", errors(&objects));
            assert_eq!(objects.last().unwrap()["names"], count, "{file:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 12);
    let plain = dir.path().join("pax.tar");
    let packed = dir.path().join("pax.zst");
    if ran(Command::new("zstd").arg("-q").arg(&plain).arg("-o").arg(&packed)) {
        // Two frames and one that is to be skipped, as pzstd writes them.
        let half = fs::read(&plain).unwrap();
        let (first, second) = half.split_at(half.len() / 1024 * 512);
        let mut frames = b"\x50\x2A\x4D\x18\x03\0\0\0abc".to_vec();
        for (n, part) in [first, second].iter().enumerate() {
            let part_file = dir.path().join(format!("part{n}"));
            fs::write(&part_file, part).unwrap();
            frames.extend(Command::new("zstd").arg("-qc").arg(part_file).output().unwrap().stdout);
        }
        let many = dir.path().join("many.zst");
        fs::write(&many, frames).unwrap();
        for file in [packed, many] {
            assert_eq!(
                paths(&scan(&file, &["--profile", "utf8"]).1),
                paths(&scan(&plain, &["--profile", "utf8"]).1)
            );
        }
    }
}

/// What comes of an archive whose octets come one by one at first.
fn scan_pipe(bytes: &[u8]) -> (i32, Vec<Value>) {
    let args = ["scan", "--format", "json", "--profile", "utf8", "--archive", "-"];
    let mut child = namegate().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let (slow, rest) = bytes.split_at(bytes.len().min(600));
    // A reader that has seen enough closes the pipe.
    let _ = slow.iter().try_for_each(|byte| pipe.write_all(&[*byte])).and_then(|()| pipe.write_all(rest));
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    (status(&output), stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn a_tar_can_come_through_a_pipe_and_a_zip_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let size = 100_000;
    let content = vec![b'x'; size as usize];
    let members =
        [&b"a/caf\xE9"[..], b"ok", b"\xFF"].map(|name| [header(name, b'0', size), padded(&content)].concat());
    let tar = [members.concat(), vec![0; 1024]].concat();
    let (_, expected) = scan(&file(&dir, &tar), &["--profile", "utf8"]);
    assert_eq!(paths(&expected).len(), 2);
    let mut packed = vec![tar.clone()];
    if let Ok(gzip) = Command::new("gzip").arg("-c").arg(file(&dir, &tar)).output() {
        packed.push(gzip.stdout);
    }
    for bytes in &packed {
        let (status, objects) = scan_pipe(bytes);
        assert_eq!((status, paths(&objects)), (1, paths(&expected)));
    }
    let (status, objects) = scan_pipe(&tar[..tar.len() / 2]);
    assert_eq!((status, paths(&objects).len()), (2, 1), "{:?}", errors(&objects));
    let (status, objects) = scan_pipe(&zip(&[]));
    assert!(
        status == 2 && errors(&objects)[0].contains("save the archive to a file first"),
        "{:?}",
        errors(&objects)
    );
    assert_eq!(scan_pipe(b"").0, 2);
}

#[test]
fn what_tar_makes_of_a_tree_is_found_as_in_the_tree_itself() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let long = [&b"l".repeat(200)[..], b"\xFE"].concat();
    for name in [&b"ok"[..], b"caf\xE9", b"d\xFF/e\x80", b"sub/README", b"sub/Readme", b"line\nfeed", &long] {
        let path = tree.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"x").unwrap();
    }
    // Holes enough for a map that goes on behind the header.
    let holes = fs::File::create(tree.join(OsStr::from_bytes(b"holes\xE9"))).unwrap();
    for at in 0..40_u64 {
        std::os::unix::fs::FileExt::write_all_at(&holes, b"data", at << 17).unwrap();
    }
    let below = |path: Vec<u8>| path[tree.as_os_str().len() + 1..].to_vec();
    let mut command = namegate();
    let output =
        command.args(["scan", "--format", "json", "--profile", "windows"]).arg(&tree).output().unwrap();
    let of_tree: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = |f: &Value| BASE64.decode(f["path_base64"].as_str().unwrap().as_bytes()).unwrap();
    let wanted: BTreeSet<_> =
        of_tree.iter().filter(|o| o["type"] == "finding").map(|f| below(path(f))).collect();
    assert_eq!(wanted.len(), 8);
    for format in ["gnu", "oldgnu", "pax", "ustar"] {
        let file = dir.path().join(format);
        let mut tar = Command::new("tar");
        // The other formats cannot hold so long a name.
        let more = if format == "ustar" { "--exclude=llll*" } else { "-S" };
        if !ran(tar
            .arg(format!("--format={format}"))
            .arg(more)
            .arg("-cf")
            .arg(&file)
            .arg("-C")
            .arg(&tree)
            .arg("."))
        {
            return;
        }
        let (status, objects) = scan(&file, &["--profile", "windows"]);
        let wanted: BTreeSet<_> =
            wanted.iter().filter(|path| format != "ustar" || **path != long).cloned().collect();
        assert_eq!((status, paths(&objects)), (1, wanted), "{format}: {:?}", errors(&objects));
    }
}

/// A central directory entry of a zip, without contents.
#[derive(Clone)]
pub struct Entry {
    pub name: Vec<u8>,
    pub flags: u16,
    pub extra: Vec<u8>,
}

impl Entry {
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self { name: name.as_ref().to_vec(), flags: 0, extra: Vec::new() }
    }
}

/// The flag of names in UTF-8.
pub const UTF8_FLAG: u16 = 1 << 11;

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Info-ZIP's field for the name in UTF-8.
pub fn unicode_path(stored: &[u8], name: &[u8]) -> Vec<u8> {
    let len = u16::try_from(name.len() + 5).unwrap();
    [&0x7075_u16.to_le_bytes()[..], &len.to_le_bytes(), &[1], &crc32(stored).to_le_bytes(), name].concat()
}

pub fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for Entry { name, flags, extra } in entries {
        let offset = u32::try_from(bytes.len()).unwrap();
        let head = |out: &mut Vec<u8>| {
            out.extend([20, 0]);
            out.extend(flags.to_le_bytes());
            out.extend([0; 18]);
            out.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        };
        bytes.extend(b"PK\x03\x04");
        head(&mut bytes);
        bytes.extend([0, 0]);
        bytes.extend(name);
        directory.extend(b"PK\x01\x02\x14\0");
        head(&mut directory);
        directory.extend(u16::try_from(extra.len()).unwrap().to_le_bytes());
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name);
        directory.extend(extra);
    }
    let start = u32::try_from(bytes.len()).unwrap();
    let (count, len) = (u16::try_from(entries.len()).unwrap(), u32::try_from(directory.len()).unwrap());
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([len.to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0, 0]);
    bytes
}

pub fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("archive");
    fs::write(&path, bytes).unwrap();
    path
}

/// The names that are checked, by a policy that objects to every letter é, and to nothing of ASCII.
fn names_of_zip(bytes: &[u8], more: &[&str]) -> BTreeSet<(Vec<u8>, String)> {
    let dir = tempfile::tempdir().unwrap();
    let (_, objects) =
        scan(&file(&dir, bytes), &[&["--profile", "utf8", "--normalize", "nfd"], more].concat());
    found(&objects).into_iter().map(|(path, _, rules)| (path, rules)).collect()
}

#[test]
fn names_of_a_zip_are_what_it_declares_them_to_be() {
    let utf8 = Entry { flags: UTF8_FLAG, ..Entry::new("é1".as_bytes()) };
    let lie = Entry { flags: UTF8_FLAG, ..Entry::new(b"\x822") };
    let oem = Entry::new(b"\x823");
    let field = Entry { extra: unicode_path(b"?4", "é4".as_bytes()), ..Entry::new(b"?4") };
    let stale = Entry { extra: unicode_path(b"other", "é5".as_bytes()), ..Entry::new(b"?5") };
    let bytes = zip(&[utf8, lie, oem, field, stale]);
    let of = |pairs: &[(&[u8], &str)]| {
        pairs.iter().map(|&(name, rule)| (name.to_vec(), rule.to_owned())).collect::<BTreeSet<_>>()
    };
    let common = [
        ("é1".as_bytes(), "not-in-form"),
        (b"\x822", "unexpected-continuation"),
        ("é4".as_bytes(), "not-in-form"),
    ];
    let oem = of(&[&common[..], &[("é3".as_bytes(), "not-in-form")]].concat());
    assert_eq!(names_of_zip(&bytes, &["--archive-encoding", "cp437"]), oem);
    let raw = [&common[..], &[(b"\x823", "unexpected-continuation")]].concat();
    assert_eq!(names_of_zip(&bytes, &["--archive-encoding", "utf-8"]), of(&raw));
    assert_eq!(names_of_zip(&bytes, &["--archive-encoding", "cp866"]), of(&common), "В has no other form");
}

#[test]
fn members_of_a_zip_that_only_some_programs_read_are_damage_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let plain = zip(&[Entry::new("name")]);
    let hidden = &zip(&[Entry::new(b"hidden\xFF")])[..37];
    let mut renamed = plain.clone();
    renamed[33] = 0xFF;
    let cases = [
        ("another local name", renamed, "another name in its local header", &b"nam\xFF"[..]),
        (
            "a member before the first",
            [hidden, &plain].concat(),
            "members that its directory does not have",
            b"hidden\xFF",
        ),
        (
            "a member behind the end",
            [&plain[..], hidden].concat(),
            "members that its directory does not have",
            b"hidden\xFF",
        ),
        (
            "a zip behind a zip",
            [zip(&[Entry::new(b"hidden\xFF")]), plain.clone()].concat(),
            "two ends",
            b"hidden\xFF",
        ),
    ];
    for (what, bytes, message, name) in cases {
        let (status, objects) =
            scan(&file(&dir, &bytes), &["--profile", "utf8", "--archive-encoding", "utf-8"]);
        let all = errors(&objects);
        assert!(
            all.iter().any(|error| error.contains(message)) || what == "a zip behind a zip",
            "{what}: {all:?}"
        );
        assert_eq!((status, paths(&objects)), (2, BTreeSet::from([name.to_vec()])), "{what}: {all:?}");
    }
    let (status, objects) = scan(&file(&dir, &[b"#!/bin/sh\n", &plain[..]].concat()), &[]);
    assert_eq!((status, errors(&objects)), (0, vec![]), "a program that unpacks itself");
}

#[test]
fn a_file_that_is_a_tar_and_a_zip_has_the_names_of_both() {
    let dir = tempfile::tempdir().unwrap();
    let tar = |name: &[u8]| [header(name, b'0', 0), vec![0; 1024]].concat();
    for (of_tar, of_zip) in
        [(&b"t\xFF"[..], &b"name"[..]), (b"name", b"z\xFF"), (b"PK\x03\x04t\xFF", b"z\xFE")]
    {
        let both = [tar(of_tar), zip(&[Entry { flags: UTF8_FLAG, ..Entry::new(of_zip) }])].concat();
        let (status, objects) = scan(&file(&dir, &both), &["--profile", "utf8"]);
        let bad =
            [of_tar, of_zip].into_iter().filter(|name| name.ends_with(b"\xFF") || name.ends_with(b"\xFE"));
        let found = paths(&objects);
        assert!(status > 0 && bad.clone().all(|name| found.contains(name)), "{found:?}");
    }
}

#[test]
fn what_an_archive_unpacks_to_has_a_limit_that_can_be_raised() {
    let dir = tempfile::tempdir().unwrap();
    let tar =
        [header(b"zeros", b'0', 64 << 20), vec![0; 64 << 20], header(b"bad\xFF", b'0', 0), vec![0; 1024]]
            .concat();
    for program in ["gzip", "bzip2", "xz", "zstd"] {
        fs::write(dir.path().join("archive"), &tar).unwrap();
        let packed = dir.path().join("packed");
        let mut command = Command::new(program);
        if !ran(command.arg("-c").arg(dir.path().join("archive")).stdin(Stdio::null())) {
            continue;
        }
        fs::write(&packed, command.output().unwrap().stdout).unwrap();
        let (status, objects) = scan(&packed, &["--archive-limit", "0", "--profile", "utf8"]);
        let all = errors(&objects);
        assert!(
            status == 2 && all.iter().any(|error| error.contains("--archive-limit")),
            "{program}: {all:?}"
        );
        let (status, objects) = scan(&packed, &["--profile", "utf8"]);
        assert_eq!((status, paths(&objects)), (1, BTreeSet::from([b"bad\xFF".to_vec()])), "{program}");
    }
}

#[test]
fn zips_hold_the_names_that_python_reads() {
    let dir = tempfile::tempdir().unwrap();
    let made = python(
        dir.path(),
        r#"
import zipfile
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for name in ("ok", "dir/", "dir/café", "日本/CON.txt", "dir/aux", "same", "x" * 300, "deep/" * 30 + "end."):
        z.writestr(name, "content")
raw = open("a.zip", "rb").read()
open("list", "wb").write(b"\0".join(n.rstrip("/").encode() for n in zipfile.ZipFile("a.zip").namelist()))
open("prefixed.zip", "wb").write(b"MZ self-extracting" + raw)
"#,
    );
    if !made {
        return;
    }
    let (_, count) = expected(&fs::read(dir.path().join("list")).unwrap());
    for name in ["a.zip", "prefixed.zip"] {
        let (status, objects) = scan(&dir.path().join(name), &["--profile", "windows"]);
        let wanted =
            ["dir/aux".to_owned(), "日本/CON.txt".into(), "x".repeat(300), "deep/".repeat(30) + "end."];
        assert_eq!(
            paths(&objects),
            wanted.into_iter().map(String::into_bytes).collect(),
            "{:?}",
            errors(&objects)
        );
        assert_eq!((status, &objects.last().unwrap()["names"]), (1, &count.into()));
    }
}

/// A header of an old tar, with its checksum.
pub fn header(name: &[u8], kind: u8, size: u64) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name);
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[148..156].fill(b' ');
    block[156] = kind;
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

pub fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let len = (1..).find(|len: &usize| len.to_string().len() + rest.len() == *len).unwrap();
    [len.to_string().as_bytes(), &rest].concat()
}

#[test]
fn paths_that_lead_elsewhere_are_found() {
    let names: [&'static [u8]; 6] = [b"/etc/passwd", b"../../x", b"a//b", b"c/./d", b"e\\f", b"./g/"];
    let mut expected = vec![
        (b"".to_vec(), 1, "empty-name"),
        (b"..".to_vec(), 2, "dot-name"),
        (b"../..".to_vec(), 2, "dot-name"),
        (b"a/".to_vec(), 3, "empty-name"),
        (b"c/.".to_vec(), 4, "dot-name"),
        (b"e\\f".to_vec(), 5, "reserved-character"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let tar: Vec<u8> = names.iter().flat_map(|name| header(name, b'0', 0)).chain([0; 1024]).collect();
    let of = |expected: &[(Vec<u8>, u64, &str)]| {
        expected.iter().map(|(path, n, rule)| (path.clone(), *n, (*rule).to_owned())).collect::<BTreeSet<_>>()
    };
    let (status, objects) = scan(&file(&dir, &tar), &["--profile", "utf8"]);
    assert_eq!((status, found(&objects)), (1, of(&expected)), "{:?}", errors(&objects));
    expected[5].2 = "separator-smuggling";
    let zip = zip(&names.map(Entry::new));
    assert_eq!(found(&scan(&file(&dir, &zip), &["--profile", "utf8"]).1), of(&expected));
    let absolute = objects.iter().find(|o| o["member"] == 1).unwrap();
    assert!(absolute["violations"][0]["message"].as_str().unwrap().contains("the path is absolute"));
}

#[test]
fn a_nul_in_a_name_is_found_and_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pax = pax_record("path", b"evil.txt\0.png");
    let tar =
        [header(b"pax", b'x', pax.len() as u64), padded(&pax), header(b"harmless", b'0', 0), vec![0; 1024]]
            .concat();
    let smuggled = |path: &[u8]| BTreeSet::from([(path.to_vec(), 1, "nul-smuggling".to_owned())]);
    assert_eq!(found(&scan(&file(&dir, &tar), &["--profile", "utf8"]).1), smuggled(b"evil.txt\0.png"));
    let zip = zip(&[Entry::new(b"evil.txt\0.png")]);
    assert_eq!(found(&scan(&file(&dir, &zip), &["--profile", "utf8"]).1), smuggled(b"evil.txt\0.png"));
}

#[test]
fn names_of_a_tar_are_bytes_whatever_pax_says_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let record = |bytes: &[u8]| [header(b"pax", b'x', bytes.len() as u64), padded(bytes)].concat();
    let name = b"caf\xE9.txt";
    let binary = [pax_record("hdrcharset", b"BINARY"), pax_record("path", name)].concat();
    let ways = [
        header(name, b'0', 0),
        [record(&binary), header(b"x", b'0', 0)].concat(),
        [record(&pax_record("path", name)), header(b"x", b'0', 0)].concat(),
    ];
    for tar in ways {
        let (_, objects) = scan(&file(&dir, &[tar, vec![0; 1024]].concat()), &["--profile", "utf8"]);
        assert_eq!(found(&objects), BTreeSet::from([(name.to_vec(), 1, "truncated".to_owned())]));
        assert_eq!(
            (&objects[0]["repair"], &objects[0]["repair_confidence"]),
            (&"café.txt".into(), &"guess".into())
        );
    }
}

#[test]
fn a_member_below_a_file_is_found_and_one_below_a_directory_is_not() {
    let dir = tempfile::tempdir().unwrap();
    // The directory `good` has no `/`, as some programs write it; `link` would lead elsewhere.
    let members = [
        header(b"something", b'0', 0),
        header(b"good", b'5', 0),
        header(b"good/a", b'0', 0),
        header(b"link", b'2', 0),
        header(b"something/page.html", b'0', 0),
        header(b"link/passwd", b'0', 0),
        vec![0; 1024],
    ];
    let both = |name: &str, member| (name.as_bytes().to_vec(), member, "collision-kind".to_owned());
    let (status, objects) = scan(&file(&dir, &members.concat()), &[]);
    assert_eq!((status, found(&objects)), (1, BTreeSet::from([both("something", 1), both("link", 4)])));
    let message = &objects[1]["violations"][0]["message"];
    assert!(
        message.as_str().unwrap().contains("a file (member 1) and of a directory (member 5)"),
        "{message}"
    );
    let names = ["something", "good/", "good/a", "something/page.html"];
    let zip = zip(&names.map(Entry::new));
    assert_eq!(found(&scan(&file(&dir, &zip), &[]).1), BTreeSet::from([both("something", 1)]));
}

#[test]
fn limits_of_paths_are_those_of_files_or_of_directories() {
    let dir = tempfile::tempdir().unwrap();
    let path = |len: usize| format!("{}/{}", "p".repeat(120), "q".repeat(len - 121));
    let (file_path, directory) = (path(250), path(248));
    let of = |bytes: &[u8]| {
        let (_, objects) = scan(&file(&dir, bytes), &["--target", "windows"]);
        let findings = objects.iter().filter(|o| o["type"] == "finding");
        let of = |o: &Value| {
            (o["path"].as_str().unwrap().len(), o["violations"][0]["certain"].as_bool().unwrap_or(true))
        };
        findings.map(of).collect::<Vec<_>>()
    };
    let named = |name: &str, kind: u8| {
        let long = [name.as_bytes(), b"\0"].concat();
        [header(b"././@LongLink", b'L', long.len() as u64), padded(&long), header(b"x", kind, 0)].concat()
    };
    for kind in [b'0', b'1', b'2', b'6'] {
        assert_eq!(of(&[named(&file_path, kind), vec![0; 1024]].concat()), [], "{}", kind.escape_ascii());
    }
    assert_eq!(of(&[named(&directory, b'5'), vec![0; 1024]].concat()), [(248, true)], "a tar says so");
    assert_eq!(of(&zip(&[Entry::new(&file_path)])), []);
    assert_eq!(of(&zip(&[Entry::new(format!("{directory}/"))])), [(248, true)]);
}

#[test]
fn damaged_archives_are_trouble_and_what_came_before_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let good = [header(b"bad\xFF", b'0', 3), padded(b"abc")].concat();
    let pax = pax_record("size", b"99999999999999999999");
    let mut wrong_sum = header(b"x", b'0', 0);
    wrong_sum[0] = b'y';
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("header", [&good[..], &wrong_sum].concat(), "after member 1: its header is damaged"),
        ("noise", [&good[..], &[b'z'; 512]].concat(), "its header is damaged"),
        ("cut in a header", [&good[..], &header(b"x", b'0', 0)[..100]].concat(), "cut short in a header"),
        (
            "cut in contents",
            [&good[..], &header(b"x", b'0', 1 << 30)].concat(),
            "after member 2: it is cut short",
        ),
        (
            "impossible size",
            [&good[..], &{
                let mut big = header(b"x", b'0', 0);
                big[124..136].copy_from_slice(b"\x80\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
                big[148..156].fill(b' ');
                let sum: u32 = big.iter().map(|&b| u32::from(b)).sum();
                big[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
                big
            }]
            .concat(),
            "its size is impossible",
        ),
        (
            "endless pax",
            [&good[..], &header(b"p", b'x', 1 << 32)].concat(),
            "its extended header has more than",
        ),
        (
            "endless name",
            [&good[..], &header(b"p", b'L', 1 << 32)].concat(),
            "its extended header has more than",
        ),
        (
            "pax size",
            [&good[..], &header(b"p", b'x', pax.len() as u64), &padded(&pax), &header(b"x", b'0', 5)]
                .concat(),
            "is not a number",
        ),
    ];
    for (what, bytes, message) in &cases {
        let (status, objects) = scan(&file(&dir, bytes), &["--profile", "utf8"]);
        let told = errors(&objects);
        assert!(told.len() == 1 && told[0].contains(message), "{what}: {told:?}");
        assert_eq!((status, paths(&objects)), (2, BTreeSet::from([b"bad\xFF".to_vec()])), "{what}");
    }
    let whole = zip(&[
        Entry { flags: UTF8_FLAG, ..Entry::new(b"bad\xFF") },
        Entry::new(b"second"),
        Entry::new(b"third"),
    ]);
    let at = whole.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap();
    let mut broken = whole.clone();
    broken[at] = b'Q';
    let (status, objects) = scan(&file(&dir, &broken), &["--profile", "utf8"]);
    assert_eq!(
        (status, paths(&objects), errors(&objects).len()),
        (2, BTreeSet::from([b"bad\xFF".to_vec()]), 1)
    );
    for bytes in
        [&b""[..], b"text", &whole[..at], &[0x1F, 0x8B, 8, 0], b"\xFD7zXZ\0\0", b"\x28\xB5\x2F\xFD\0"]
    {
        let (status, objects) = scan(&file(&dir, bytes), &[]);
        assert_eq!((status, errors(&objects).len(), paths(&objects).len()), (2, 1, 0), "{bytes:?}");
    }
    let (status, objects) = scan(dir.path(), &[]);
    assert_eq!((status, errors(&objects).len()), (2, 1), "a directory is no archive");
}

#[test]
fn names_without_measure_are_refused_and_the_next_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let member =
        |name: &[u8]| [header(b"n", b'L', name.len() as u64), padded(name), header(b"n", b'0', 0)].concat();
    let tar = [member(&b"x".repeat(70_000)), member(&b"d/".repeat(2000)), member(b"bad\xFF"), vec![0; 1024]]
        .concat();
    let (status, objects) = scan(&file(&dir, &tar), &["--profile", "utf8"]);
    let told = errors(&objects);
    assert_eq!((status, paths(&objects)), (2, BTreeSet::from([b"bad\xFF".to_vec()])));
    assert!(told[0].contains("member 1: its name has more than 65536 bytes"), "{told:?}");
    assert!(told[1].contains("member 2: its name has more than 1024 components"), "{told:?}");
}
