//! Programs that copy, serve and change the escaped entries of a mount: none takes the escape for a mapping of its own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Server, are_installed, rclones, said};
use namegate_testkit::mounted::TestMount;

/// A mount of a tree with names that are not UTF-8, one of them too long for its escape.
fn mounted() -> Option<TestMount> {
    let mounted = TestMount::new(&[])?;
    let backing = mounted.backing();
    for (name, content) in [
        (&b"caf\xE9.txt"[..], "old"),
        (b"d\xFCr/inner", "inner"),
        (b"d\xFCr/\xFF", "deep"),
        (b"\x80\x81", "c1"),
        (&[0xE9; 200], "long"),
        ("\u{2426} alone.txt".as_bytes(), "plain"),
    ] {
        let path = backing.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Some(mounted)
}

/// The contents of the files below `root`, by path.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => drop(found.insert(
                    entry.path().strip_prefix(root).unwrap().to_path_buf(),
                    fs::read(entry.path()).unwrap(),
                )),
            }
        }
    }
    found
}

/// The output of a shell script that finds the mount in `$MNT`, an empty directory in `$OUT` and `$RCLONE`.
fn run(mounted: &TestMount, script: &str, rclone: &OsStr) -> String {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(mounted.plain().parent().unwrap())
        .env("LC_ALL", "C.UTF-8")
        .env("RCLONE_CONFIG", "/dev/null")
        .envs([("MNT", mounted.mnt()), ("OUT", mounted.plain())])
        .env("RCLONE", rclone)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", said(&output));
    said(&output)
}

/// What copies a tree: programs that it needs, and the script.
const COPIES: [(&[&str], &str); 9] = [
    (&["cp"], r#"cp -a "$MNT/." "$OUT""#),
    (&["rsync"], r#"rsync -a "$MNT/" "$OUT"; test -z "$(rsync -anic "$MNT/" "$OUT")""#),
    (&["tar"], r#"tar -C "$MNT" -c . | tar -C "$OUT" -x"#),
    (&["bsdtar"], r#"bsdtar -C "$MNT" --format pax -cf - . | bsdtar -C "$OUT" -xf -"#),
    (&["zip", "unzip"], r#"(cd "$MNT"; zip -qr ../zipped.zip .); cd "$OUT"; unzip -q ../zipped.zip"#),
    (&["7z"], r#"(cd "$MNT"; 7z a ../packed.7z . >/dev/null); cd "$OUT"; 7z x ../packed.7z >/dev/null"#),
    (
        &["git"],
        r#"export GIT_DIR="$PWD/git"; git init -q; export GIT_WORK_TREE="$MNT"; cd "$MNT"; git add -A
           git -c user.name=x -c user.email=x@x commit -qm all; export GIT_WORK_TREE="$OUT"; cd "$OUT"; git checkout -qf HEAD -- ."#,
    ),
    (
        &["sftp", "/usr/lib/openssh/sftp-server"],
        r#"echo "get -r $MNT/* $OUT" | sftp -q -b - -D /usr/lib/openssh/sftp-server"#,
    ),
    (
        &[],
        r#""$RCLONE" sync "$MNT" "$OUT"; "$RCLONE" check "$MNT" "$OUT"; rm -r "$OUT"/*
           "$RCLONE" copy "$MNT" "$OUT"; test "$("$RCLONE" lsf -R --files-only "$MNT" | wc -l)" = 6"#,
    ),
];

#[test]
fn programs_that_copy_keep_escaped_names() {
    let Some(mounted) = mounted() else { return };
    let expected = files(&mounted.mnt());
    assert_eq!(expected.len(), 6);
    assert!(expected.contains_key(Path::new("d\u{2426}FCr/\u{2426}FF")), "{expected:?}");
    for (programs, script) in COPIES {
        let rclones = if programs.is_empty() { rclones() } else { vec![OsString::new()] };
        for rclone in rclones.iter().filter(|_| are_installed(programs)) {
            run(&mounted, script, rclone);
            assert_eq!(files(&mounted.plain()), expected, "{rclone:?} {script}");
            fs::remove_dir_all(mounted.plain()).unwrap();
            fs::create_dir(mounted.plain()).unwrap();
        }
    }
}

/// What overwrites, renames and removes an escaped entry each.
const CHANGES: [(&[&str], &str); 4] = [
    (&["mv"], r#"printf new >"$MNT/caf␦E9.txt"; mv "$MNT/d␦FCr" "$MNT/dür"; rm "$MNT/␦80␦81""#),
    // The temporary name of rsync without --inplace would be a new name with an escape.
    (
        &["rsync"],
        r#"printf new >"$OUT/caf␦E9.txt"; rsync -I --inplace "$OUT/caf␦E9.txt" "$MNT"; mv "$MNT/d␦FCr" "$MNT/dür"
           mkdir -p "$OUT/none"; rsync -r --delete --include='*80*' --exclude='*' "$OUT/none/" "$MNT/""#,
    ),
    (
        &["sftp", "/usr/lib/openssh/sftp-server"],
        r#"printf new >file; printf '%s\n' "put file \"$MNT/caf␦E9.txt\"" "rename \"$MNT/d␦FCr\" \"$MNT/dür\"" \
           "rm \"$MNT/␦80␦81\"" | sftp -q -b - -D /usr/lib/openssh/sftp-server"#,
    ),
    (
        &[],
        r#"printf new >file; if "$RCLONE" copyto --help | grep -q -e --inplace; then inplace=--inplace; fi
           "$RCLONE" copyto $inplace file "$MNT/caf␦E9.txt"; "$RCLONE" moveto "$MNT/d␦FCr" "$MNT/dür"
           "$RCLONE" deletefile "$MNT/␦80␦81""#,
    ),
];

fn assert_changed(mounted: &TestMount, by: &str) {
    let backing = mounted.backing();
    let of = |name: &[u8]| backing.join(OsStr::from_bytes(name));
    assert_eq!(fs::read_to_string(of(b"caf\xE9.txt")).unwrap(), "new", "{by}");
    assert_eq!(fs::read_to_string(backing.join("dür/inner")).unwrap(), "inner", "{by}");
    assert!(!of(b"d\xFCr").exists() && !of(b"\x80\x81").exists(), "{by}");
    assert_eq!(fs::read_dir(&backing).unwrap().count(), 4, "{by}");
}

#[test]
fn programs_overwrite_rename_and_remove_escaped_entries() {
    for (programs, script) in CHANGES {
        let rclones = if programs.is_empty() { rclones() } else { vec![OsString::new()] };
        for rclone in rclones.iter().filter(|_| are_installed(programs)) {
            let Some(mounted) = mounted() else { return };
            run(&mounted, script, rclone);
            assert_changed(&mounted, script);
        }
    }
}

#[test]
fn rclone_serves_escaped_entries() {
    for rclone in rclones() {
        let Some(mounted) = mounted() else { return };
        let server = Server::rclone(&mounted, &rclone, "webdav");
        let url = format!("URL=http://127.0.0.1:{}", server.port);
        let copied = format!(
            r#"{url}; "$RCLONE" sync ":webdav,url='$URL':" "$OUT"; "$RCLONE" check --download ":webdav,url='$URL':" "$OUT""#
        );
        run(&mounted, &copied, &rclone);
        assert_eq!(files(&mounted.plain()), files(&mounted.mnt()), "{rclone:?}");
        let changed = format!(
            r#"{url}; printf new | curl -sf -T - "$URL/caf␦E9.txt"; curl -sf -X MOVE -H "Destination: $URL/d%C3%BCr" "$URL/d␦FCr"
               curl -sf -X DELETE "$URL/␦80␦81""#
        );
        run(&mounted, &changed, &rclone);
        assert_changed(&mounted, "rclone serve webdav");
    }
}
