use std::fs;
use std::sync::Arc;

use super::*;
use crate::gate::{Mode, Refusal};
use crate::passthrough::Settings;
use crate::policy::{Policy, profile};

fn server(mode: Mode) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let source = fs::File::open(dir.path()).unwrap();
    let tree = Passthrough::new(source.into(), Settings { cached_fds: 16 }).unwrap();
    let gate = Gate::new(Arc::new(Policy::of(&[&profile::STRICT])), mode);
    (dir, Server::new(tree, gate, Errno::EILSEQ))
}

fn caller() -> Caller {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id(), umask: 0 }
}

const ROOT: NodeId = NodeId::ROOT;

#[test]
fn every_name_that_comes_in_passes_the_gate_before_the_tree_is_touched() {
    let (dir, server) = server(Mode::Enforcing);
    let c = caller();
    fs::write(dir.path().join("file"), "").unwrap();
    let file = server.do_lookup(ROOT, OsStr::new("file")).unwrap().node;
    for bad in [&b"caf\xE9"[..], b"a\x01", b"\xC0\xAF"] {
        let bad = OsStr::from_bytes(bad);
        let results = [
            ("create", server.do_create(&c, ROOT, bad, 0o600, libc::O_RDWR).map(drop)),
            ("mkdir", server.do_mkdir(&c, ROOT, bad, 0o700).map(drop)),
            ("mknod", server.do_mknod(&c, ROOT, bad, libc::S_IFIFO, 0).map(drop)),
            ("symlink", server.do_symlink(&c, ROOT, bad, OsStr::new("x")).map(drop)),
            ("link", server.do_link(&c, file, ROOT, bad).map(drop)),
            ("rename", server.do_rename(&c, (ROOT, OsStr::new("file")), (ROOT, bad), 0)),
        ];
        for (operation, result) in results {
            let failure = result.unwrap_err();
            assert!(matches!(failure, Failure::Refused(Refusal::Violates(_))), "{operation}: {failure:?}");
            assert_eq!(server.errno(failure), Errno::EILSEQ, "{operation}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_name_that_is_only_named_need_not_please_the_policy() {
    let (dir, server) = server(Mode::Enforcing);
    let (control, ill_formed) = (OsStr::new("a\u{1}"), OsStr::from_bytes(b"caf\xE9"));
    for name in [control, ill_formed] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    assert!(server.do_lookup(ROOT, control).is_ok());
    let absent = server.do_lookup(ROOT, ill_formed).unwrap_err();
    assert_eq!(server.errno(absent), Errno::ENOENT);
    let fh = server.tree.opendir(ROOT).unwrap();
    let mut shown = Vec::new();
    server
        .do_readdir(fh, 0, |entry, name| {
            shown.push((entry.name.to_owned(), name.is_some()));
            Room::Left
        })
        .unwrap();
    shown.sort();
    let escaped = OsStr::new("caf\u{201b}E9");
    assert_eq!(
        shown,
        [(".".into(), false), ("..".into(), false), (control.to_owned(), true), (escaped.to_owned(), true)]
    );
    assert!(server.do_lookup(ROOT, escaped).is_ok());
    let exchange = libc::RENAME_EXCHANGE;
    fs::write(dir.path().join("good"), "").unwrap();
    let good = (ROOT, OsStr::new("good"));
    server.do_rename(&caller(), good, (ROOT, control), exchange).unwrap();
    let refused = server.do_rename(&caller(), good, (ROOT, ill_formed), exchange).unwrap_err();
    assert_eq!(server.errno(refused), Errno::ENOENT);
    server.do_unlink(ROOT, control).unwrap();
    assert_eq!(server.do_unlink(ROOT, ill_formed).map_err(|f| server.errno(f)), Err(Errno::ENOENT));
}

#[test]
fn a_permissive_gate_lets_everything_through_that_can_be_stored() {
    let (dir, server) = server(Mode::Permissive);
    let name = OsStr::from_bytes(b"caf\xE9\x01");
    let made = server.do_mkdir(&caller(), ROOT, name, 0o700).unwrap();
    assert!(dir.path().join(name).is_dir());
    assert_eq!(server.do_lookup(ROOT, name).unwrap().node, made.node);
    server.do_rmdir(ROOT, name).unwrap();
    let long = "x".repeat(256);
    let too_long = server.do_mkdir(&caller(), ROOT, OsStr::new(&long), 0o700).unwrap_err();
    assert_eq!(server.errno(too_long), Errno::ENAMETOOLONG);
}
