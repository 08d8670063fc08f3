//! `namegate scan --archive`: tars about which programs disagree, against GNU tar, bsdtar and Python.

use std::collections::BTreeSet;

use crate::archive::{errors, file, header, padded, paths, pax_record, scan};

/// An extended header.
fn extended(kind: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let records = records.concat();
    [header(b"pax", kind, records.len() as u64), padded(&records)].concat()
}

#[test]
fn what_extended_headers_say_of_a_member_is_checked_whatever_a_value_contains() {
    let dir = tempfile::tempdir().unwrap();
    let paths_of = |tar: Vec<Vec<u8>>| {
        let (status, objects) =
            scan(&file(&dir, &[tar.concat(), vec![0; 1024]].concat()), &["--profile", "utf8"]);
        (status, paths(&objects))
    };
    let bad = |names: &[&[u8]]| (1, names.iter().map(|name| name.to_vec()).collect::<BTreeSet<_>>());
    let plain = || header(b"plain", b'0', 0);
    let path = |name: &[u8]| pax_record("path", name);
    let comment = pax_record("comment", b"two\nlines\n");
    assert_eq!(paths_of(vec![extended(b'x', &[comment, path(b"x\xFF")]), plain()]), bad(&[b"x\xFF"]));
    // All programs but libarchive read the path of all members.
    let global = extended(b'g', &[path(b"g\xFF")]);
    assert_eq!(
        paths_of(vec![global.clone(), plain(), header(b"s\xFE", b'0', 0)]),
        bad(&[b"g\xFF", b"s\xFE"])
    );
    assert_eq!(paths_of(vec![global, extended(b'x', &[path(b"own")]), plain()]), (0, BTreeSet::new()));
    // Each is the name for one of the programs.
    let long = [header(b"././@LongLink", b'L', 3), padded(b"l\xFE\0")].concat();
    let both = [extended(b'x', &[path(b"x\xFF")]), long];
    assert_eq!(paths_of(vec![both.concat(), plain()]), bad(&[b"x\xFF", b"l\xFE"]));
    assert_eq!(
        paths_of(vec![extended(b'x', &[path(b"1\xFF"), path(b"2\xFF")]), plain()]),
        bad(&[b"1\xFF", b"2\xFF"])
    );
    let sparse = pax_record("GNU.sparse.name", b"s\xFF");
    let artificial = path(b"./GNUSparseFile.17/s\xFF");
    assert_eq!(paths_of(vec![extended(b'x', &[artificial, sparse.clone()]), plain()]), bad(&[b"s\xFF"]));
    assert_eq!(
        paths_of(vec![extended(b'x', &[sparse, path(b"p\xFF")]), plain()]),
        bad(&[b"s\xFF", b"p\xFF"])
    );
}

#[test]
fn a_tar_that_programs_read_differently_is_reported_and_all_its_members_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = [header(b"hidden\xFF", b'0', 0), header(b"last\xFE", b'0', 0)].concat();
    let size = |text: &[u8]| pax_record("size", text);
    let with_size = |kind: u8| header(b"stored", kind, 512);
    let sparse_of_pax = {
        let mut block = header(b"stored", b'S', 0);
        block[482] = b'1';
        let sum: u32 = block
            .iter()
            .enumerate()
            .filter(|(at, _)| !(148..156).contains(at))
            .map(|(_, &b)| u32::from(b))
            .sum();
        block[148..156].copy_from_slice(format!("{:06o}\0 ", sum + 8 * 32).as_bytes());
        block
    };
    let disagree = "programs read another size of it";
    // Without an error: what the members are for one program is the rest of them for another.
    let cases: [(&str, Vec<u8>, &str); 13] = [
        ("junk", [extended(b'x', &[size(b"junk")]), header(b"stored", b'0', 0)].concat(), "is not a number"),
        (
            "a sign",
            [extended(b'x', &[size(b"+512")]), header(b"stored", b'0', 0)].concat(),
            "is not a number",
        ),
        (
            "huge",
            [extended(b'x', &[size(&b"9".repeat(30))]), header(b"stored", b'0', 0)].concat(),
            "is not a number",
        ),
        ("too far", [extended(b'x', &[size(b"99999999")]), header(b"stored", b'0', 0)].concat(), "cut short"),
        (
            "two",
            [extended(b'x', &[size(b"0"), size(b"512")]), header(b"stored", b'0', 0)].concat(),
            "two sizes",
        ),
        ("global", [extended(b'g', &[size(b"512")]), header(b"stored", b'0', 0)].concat(), disagree),
        ("a directory", with_size(b'5'), ""),
        ("the name of a directory", header(b"stored/", b'0', 512), disagree),
        ("a link", with_size(b'2'), ""),
        ("a directory over the end", [header(b"stored", b'5', 1024), vec![0; 1024]].concat(), disagree),
        (
            "malformed",
            [extended(b'x', &[b"99 path=x\n".to_vec()]), header(b"stored", b'0', 0)].concat(),
            "malformed",
        ),
        ("a damaged header", vec![b'z'; 512], "its header is damaged"),
        ("a map", sparse_of_pax, "sparse file in an unknown format"),
    ];
    for (what, bytes, error) in cases {
        let tar = [&header(b"first", b'0', 0)[..], &bytes, &hidden, &[0; 1024]].concat();
        let (status, objects) = scan(&file(&dir, &tar), &["--profile", "utf8"]);
        let all = errors(&objects);
        let is_told = all.iter().any(|message| message.contains(error));
        assert!(is_told || error.is_empty() && all.is_empty(), "{what}: {all:?}");
        let wanted = BTreeSet::from([b"hidden\xFF".to_vec(), b"last\xFE".to_vec()]);
        assert_eq!((status, paths(&objects)), (if error.is_empty() { 1 } else { 2 }, wanted), "{what}");
    }
}

#[test]
fn a_header_that_a_program_reads_without_what_comes_before_it_is_reported_with_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let stored = || header(b"own\xFF", b'0', 0);
    let long = |size, name: &[u8]| [header(b"././@LongLink", b'L', size), padded(name)].concat();
    let path = |name: &[u8]| extended(b'x', &[pax_record("path", name)]);
    let cases: [(&str, Vec<u8>, i32, &[u8]); 5] = [
        // The size leads one program behind the long name.
        (
            "a long name that is skipped",
            [
                extended(b'x', &[pax_record("size", b"1024")]),
                header(b"d", b'5', 0),
                long(5, b"long\0"),
                stored(),
            ]
            .concat(),
            2,
            b"own\xFF",
        ),
        // GNU tar finds no header behind the link, and looks for the next one.
        ("a path that is skipped", [header(b"l", b'2', 1), path(b"path"), stored()].concat(), 2, b"own\xFF"),
        (
            "content that is skipped",
            [header(b"l", b'2', 1024), header(b"f", b'0', 1024), vec![b'z'; 512], stored()].concat(),
            2,
            b"own\xFF",
        ),
        (
            "an extended header that replaces another",
            [path(b"path"), extended(b'x', &[pax_record("comment", b"c")]), stored()].concat(),
            2,
            b"own\xFF",
        ),
        (
            "a long name to its NUL",
            [long(3, b"long\xFF\0"), header(b"own", b'0', 0)].concat(),
            1,
            b"long\xFF",
        ),
    ];
    for (what, bytes, wanted, name) in cases {
        let (status, objects) = scan(&file(&dir, &[&bytes[..], &[0; 1024]].concat()), &["--profile", "utf8"]);
        assert_eq!(
            (status, paths(&objects)),
            (wanted, BTreeSet::from([name.to_vec()])),
            "{what}: {:?}",
            errors(&objects)
        );
    }
}
