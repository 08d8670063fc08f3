use std::fs;
use std::sync::Arc;

use namegate_core::gate::{Gate, Mode, Refusal};
use namegate_core::name::normalize::{Form, to_form};
use namegate_core::policy::{Normalization, OnMismatch, Policy, profile};
use namegate_settings::MountSettings;

use super::*;
use crate::alias::RenameLookups;
use crate::passthrough::{Caller, NewEntry, PassthroughSettings};

fn server(mode: Mode) -> (tempfile::TempDir, Server) {
    behind(Gate::new(Arc::new(Policy::from_profiles(&[&profile::STRICT])), mode))
}

fn behind(gate: Gate) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let source = fs::File::open(dir.path()).unwrap();
    let tree = Passthrough::new(
        source.into(),
        PassthroughSettings { cached_fds: 16, ..PassthroughSettings::default() },
    )
    .unwrap();
    (dir, Server::new(tree, config(gate)))
}

fn config(gate: Gate) -> ServeConfig {
    let settings = MountSettings { mode: Some(gate.mode()), ..MountSettings::default() };
    ServeConfig::new(gate, settings)
}

fn normalizing(on_mismatch: OnMismatch) -> (tempfile::TempDir, Server) {
    let normalization = Normalization { form: Form::Nfc, on_mismatch };
    let policy = Policy::builder().normalization(normalization).build().unwrap();
    behind(Gate::new(Arc::new(policy), Mode::Enforcing))
}

/// Of a client that has looked up no alias.
const NO_ALIAS: (RenameLookups, &dyn Fn([Option<NameHash>; 2])) =
    (RenameLookups { may_be_cached: false, from_alias: None, to_alias: None }, &|_| ());

fn caller() -> Caller {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id(), group: None, umask: 0, uses_alias: false }
}

const ROOT: NodeId = NodeId::ROOT;

#[test]
fn every_name_that_comes_in_passes_the_gate_before_the_tree_is_touched() {
    let (dir, server) = server(Mode::Enforcing);
    let c = caller();
    fs::write(dir.path().join("file"), "").unwrap();
    let file = server.for_request().lookup(ROOT, OsStr::new("file")).unwrap().0.node;
    for (bad, errno) in
        [(&b"caf\xE9"[..], Errno::EILSEQ), (b"a\x01", Errno::EINVAL), (b"\xC0\xAF", Errno::EILSEQ)]
    {
        let bad = OsStr::from_bytes(bad);
        let results = [
            ("create", server.for_request().create(&c, ROOT, bad, 0o600, libc::O_RDWR).map(drop)),
            (
                "mkdir",
                server.for_request().make(&c, ROOT, bad, NewEntry::Directory { mode: 0o700 }).map(drop),
            ),
            (
                "mknod",
                server
                    .for_request()
                    .make(&c, ROOT, bad, NewEntry::Node { mode: libc::S_IFIFO, rdev: 0 })
                    .map(drop),
            ),
            (
                "symlink",
                server.for_request().make(&c, ROOT, bad, NewEntry::Symlink(OsStr::new("x"))).map(drop),
            ),
            ("link", server.for_request().link(&c, file, ROOT, bad).map(drop)),
            ("rename", server.for_request().rename(&c, (ROOT, OsStr::new("file")), (ROOT, bad), 0, NO_ALIAS)),
        ];
        for (operation, result) in results {
            let failure = result.unwrap_err();
            assert!(
                matches!(failure, RequestFailure::Refused(Refusal::Violates(_))),
                "{operation}: {failure:?}"
            );
            assert_eq!(server.for_request().errno(failure), errno, "{operation}");
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
    assert!(server.for_request().lookup(ROOT, control).is_ok());
    let absent = server.for_request().lookup(ROOT, ill_formed).unwrap_err();
    assert_eq!(server.for_request().errno(absent), Errno::ENOENT);
    let (fh, _) = server.tree.opendir(ROOT, 0).unwrap();
    let mut shown = Vec::new();
    server
        .for_request()
        .readdir(fh, 0, |entry, name| {
            shown.push((entry.name.to_owned(), name.is_some()));
            ControlFlow::Continue(())
        })
        .unwrap();
    shown.sort();
    let escaped = OsStr::new("caf\u{2426}E9");
    assert_eq!(
        shown,
        [(".".into(), false), ("..".into(), false), (control.to_owned(), true), (escaped.to_owned(), true)]
    );
    assert!(server.for_request().lookup(ROOT, escaped).is_ok());
    let exchange = libc::RENAME_EXCHANGE;
    fs::write(dir.path().join("good"), "").unwrap();
    let good = (ROOT, OsStr::new("good"));
    server.for_request().rename(&caller(), good, (ROOT, control), exchange, NO_ALIAS).unwrap();
    let refused =
        server.for_request().rename(&caller(), good, (ROOT, ill_formed), exchange, NO_ALIAS).unwrap_err();
    assert_eq!(server.for_request().errno(refused), Errno::ENOENT);
    server.for_request().unlink(0, ROOT, control).unwrap();
    assert_eq!(
        server.for_request().unlink(0, ROOT, ill_formed).map_err(|f| server.for_request().errno(f)),
        Err(Errno::ENOENT)
    );
}

#[test]
fn a_permissive_gate_lets_everything_through_that_can_be_stored() {
    let (dir, server) = server(Mode::Permissive);
    let name = OsStr::from_bytes(b"caf\xE9\x01");
    let made = server.for_request().make(&caller(), ROOT, name, NewEntry::Directory { mode: 0o700 }).unwrap();
    assert!(dir.path().join(name).is_dir());
    assert_eq!(server.for_request().lookup(ROOT, name).unwrap().0.node, made.node);
    server.for_request().rmdir(0, ROOT, name).unwrap();
    let long = "x".repeat(256);
    let too_long = server
        .for_request()
        .make(&caller(), ROOT, OsStr::new(&long), NewEntry::Directory { mode: 0o700 })
        .unwrap_err();
    assert_eq!(server.for_request().errno(too_long), Errno::ENAMETOOLONG);
}

/// The names in `dir`.
fn stored(dir: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_operation_takes_every_spelling() {
    let spellings = ["\u{C5}", "\u{212B}", "A\u{30A}"];
    for on_mismatch in [OnMismatch::Convert, OnMismatch::Match] {
        let (dir, server) = normalizing(on_mismatch);
        let c = caller();
        let errno = |failure: RequestFailure| server.for_request().errno(failure);
        for there in spellings {
            for asked in spellings.map(OsStr::new) {
                fs::write(dir.path().join(there), "").unwrap();
                fs::write(dir.path().join("file"), "").unwrap();
                let file = server.for_request().lookup(ROOT, OsStr::new("file")).unwrap().0.node;
                let node = server.for_request().lookup(ROOT, OsStr::new(there)).unwrap().0.node;
                assert_eq!(server.for_request().lookup(ROOT, asked).unwrap().0.node, node);
                let exclusive = libc::O_RDWR | libc::O_EXCL;
                for (operation, result) in [
                    ("create", server.for_request().create(&c, ROOT, asked, 0o600, exclusive).map(drop)),
                    (
                        "mkdir",
                        server
                            .for_request()
                            .make(&c, ROOT, asked, NewEntry::Directory { mode: 0o700 })
                            .map(drop),
                    ),
                    (
                        "mknod",
                        server
                            .for_request()
                            .make(&c, ROOT, asked, NewEntry::Node { mode: libc::S_IFIFO, rdev: 0 })
                            .map(drop),
                    ),
                    (
                        "symlink",
                        server
                            .for_request()
                            .make(&c, ROOT, asked, NewEntry::Symlink(OsStr::new("x")))
                            .map(drop),
                    ),
                    ("link", server.for_request().link(&c, file, ROOT, asked).map(drop)),
                ] {
                    assert_eq!(result.map_err(errno), Err(Errno::EEXIST), "{operation} {there:?} {asked:?}");
                }
                let (entry, fh) = server.for_request().create(&c, ROOT, asked, 0o600, libc::O_RDWR).unwrap();
                assert_eq!(entry.node, node);
                server.tree.release(fh);

                let (from, to) = ((ROOT, OsStr::new("file")), (ROOT, asked));
                let once = |flags| server.for_request().rename(&c, from, to, flags, NO_ALIAS).map_err(errno);
                // The kernel looks the names up again.
                let rename =
                    |flags| once(flags).or_else(|e| if e == Errno::ESTALE { once(flags) } else { Err(e) });
                assert_eq!(rename(libc::RENAME_NOREPLACE), Err(Errno::EEXIST));
                assert_eq!(rename(libc::RENAME_EXCHANGE), Ok(()));
                assert_eq!(server.for_request().lookup(ROOT, asked).unwrap().0.node, file);
                assert_eq!(rename(0), Ok(()));
                assert_eq!(server.for_request().lookup(ROOT, asked).unwrap().0.node, node);
                assert_eq!(stored(&dir), [there], "replaced under the name that was there");
                server.for_request().rename(&c, to, (ROOT, OsStr::new("away")), 0, NO_ALIAS).unwrap();
                assert_eq!(
                    server.for_request().lookup(ROOT, OsStr::new(there)).unwrap_err(),
                    Errno::ENOENT.into()
                );
                server.for_request().unlink(0, ROOT, OsStr::new("away")).unwrap();
                fs::create_dir(dir.path().join(there)).unwrap();
                server.for_request().rmdir(0, ROOT, asked).unwrap();
                assert_eq!(stored(&dir), [""; 0]);
                let made =
                    server.for_request().make(&c, ROOT, asked, NewEntry::Directory { mode: 0o700 }).unwrap();
                assert_eq!(server.for_request().lookup(ROOT, OsStr::new(there)).unwrap().0.node, made.node);
                let expected =
                    if on_mismatch == OnMismatch::Convert { spellings[0] } else { asked.to_str().unwrap() };
                assert_eq!(stored(&dir), [expected]);
                server.for_request().rmdir(0, ROOT, OsStr::new(there)).unwrap();
            }
        }
    }
}

#[test]
fn the_kernel_keeps_no_name_that_another_spelling_may_outdate() {
    let (dir, server) = normalizing(OnMismatch::Match);
    for name in ["plain", "other", "é"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let [plain, other] = ["plain", "other"].map(OsStr::new);
    let [nfc, nfd] = ["é", "e\u{301}"].map(OsStr::new);
    assert!(server.for_request().may_be_kept(ROOT, plain) && server.for_request().may_be_kept(ROOT, other));
    // There is no kernel that could drop them.
    assert!(!server.for_request().may_be_kept(ROOT, nfc) && !server.for_request().may_be_kept(ROOT, nfd));
    let c = caller();
    let rename = |from, to, flags| {
        let renamed = server.for_request().rename(&c, (ROOT, from), (ROOT, to), flags, NO_ALIAS);
        renamed.map_err(|failure| server.for_request().errno(failure))
    };
    // The entry keeps its name. The rename would turn the cached `plain` into the other one, so the kernel must look it up again first.
    assert_eq!(rename(plain, nfd, 0), Err(Errno::ESTALE));
    assert_eq!(stored(&dir), ["other", "plain", "é"]);
    assert!(!server.for_request().may_be_kept(ROOT, plain));
    assert_eq!(rename(plain, nfd, 0), Ok(()));
    assert_eq!(stored(&dir), ["other", "é"]);
    assert_eq!(rename(nfd, other, libc::RENAME_EXCHANGE), Err(Errno::ESTALE));
    assert!(!server.for_request().may_be_kept(ROOT, other));
    assert_eq!(rename(nfd, other, libc::RENAME_EXCHANGE), Ok(()));
    assert_eq!(rename(nfd, OsStr::new("new"), 0), Ok(()), "from a name that is not kept");
    assert_eq!(rename(OsStr::new("new"), nfd, 0), Err(Errno::ESTALE), "to a name that is not kept");
    assert_eq!(rename(OsStr::new("new"), nfd, 0), Ok(()));
    assert_eq!(rename(nfd, nfc, 0), Ok(()), "to another spelling of its own");
    assert_eq!(stored(&dir), ["other", "é"]);

    for (_dir, server) in [normalizing(OnMismatch::Refuse), self::server(Mode::Enforcing)] {
        assert!(server.for_request().may_be_kept(ROOT, nfc), "it has one spelling");
    }
}

#[test]
fn the_target_of_a_link_is_judged_component_by_component_if_that_was_asked_for() {
    let target = OsStr::from_bytes(b"/srv/../caf\xE9/x");
    let (dir, plain) = server(Mode::Enforcing);
    let c = caller();
    assert!(plain.for_request().make(&c, ROOT, OsStr::new("link"), NewEntry::Symlink(target)).is_ok());
    assert_eq!(fs::read_link(dir.path().join("link")).unwrap().as_os_str(), target);
    for (mode, passes) in [(Mode::Enforcing, false), (Mode::Permissive, true)] {
        let (dir, strict) = server(mode);
        let before = strict.config();
        let settings = MountSettings { check_targets: Some(true), ..before.settings };
        strict.swap(ServeConfig::new(before.gate, settings));
        assert_eq!(
            strict.for_request().make(&c, ROOT, OsStr::new("link"), NewEntry::Symlink(target)).is_ok(),
            passes
        );
        assert_eq!(fs::symlink_metadata(dir.path().join("link")).is_ok(), passes);
        assert!(
            strict
                .for_request()
                .make(&c, ROOT, OsStr::new("good"), NewEntry::Symlink(OsStr::new("../a//.")))
                .is_ok()
        );
    }
}

/// There is no kernel in front of the server here that allows only one change of a directory at a time.
#[test]
fn requests_at_once_never_make_two_entries_of_one_name() {
    let (dir, server) = normalizing(OnMismatch::Match);
    let parents = ["0", "1"].map(|name| {
        server
            .for_request()
            .make(&caller(), ROOT, OsStr::new(name), NewEntry::Directory { mode: 0o700 })
            .unwrap()
            .node
    });
    let key = |name: &OsStr| to_form(name.to_str().unwrap(), Form::Nfc).into_owned();
    let client = &|number: usize| {
        const NAMES: [&str; 5] = ["é", "e\u{301}", "\u{C5}", "\u{212B}", "A\u{30A}"];
        let (mut state, mut worked) = (number, 0);
        let mut below = |bound: usize| {
            // The constants of Knuth's MMIX; the high bits are the most random ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for _ in 0..400 {
            let mut any = || (parents[below(2)], OsStr::new(NAMES[below(NAMES.len())]));
            let ((parent, name), to) = (any(), any());
            let done = match below(6) {
                0 => server
                    .for_request()
                    .make(&caller(), parent, name, NewEntry::Directory { mode: 0o700 })
                    .map(drop),
                1 => {
                    let made = server.for_request().create(&caller(), parent, name, 0o600, libc::O_RDWR);
                    made.map(|(_, fh)| server.tree.release(fh))
                }
                2 => server.for_request().unlink(0, parent, name),
                3 => server.for_request().rmdir(0, parent, name),
                _ => server.for_request().rename(&caller(), (parent, name), to, 0, NO_ALIAS),
            };
            worked += usize::from(done.is_ok());
            for parent in ["0", "1"] {
                let listed: Vec<_> =
                    fs::read_dir(dir.path().join(parent)).unwrap().map(|e| e.unwrap().file_name()).collect();
                let keys: std::collections::BTreeSet<_> = listed.iter().map(|name| key(name)).collect();
                assert_eq!(keys.len(), listed.len(), "{listed:?}");
            }
        }
        worked
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=4).map(|number| scope.spawn(move || client(number))).collect();
        for client in clients {
            let worked = client.join().unwrap();
            assert!(worked > 40, "only {worked} of 400 requests did anything");
        }
    });
}

fn matching(form: Form) -> Gate {
    let normalization = Normalization { form, on_mismatch: OnMismatch::Match };
    Gate::new(Arc::new(Policy::builder().normalization(normalization).build().unwrap()), Mode::Enforcing)
}

#[test]
fn new_terms_hold_from_the_next_request_on_for_names_spellings_and_errors() {
    let (dir, server) = server(Mode::Enforcing);
    let (control, ill_formed) = (OsStr::new("a\u{1}"), OsStr::from_bytes(b"caf\xE9"));
    let mkdir = |name| {
        server
            .for_request()
            .make(&caller(), ROOT, name, NewEntry::Directory { mode: 0o700 })
            .map(drop)
            .map_err(|f| server.for_request().errno(f))
    };
    let finds = |name: &str| server.for_request().lookup(ROOT, OsStr::new(name)).is_ok();
    assert_eq!(mkdir(control), Err(Errno::EINVAL));
    let utf8 = Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing);
    let settings = MountSettings { errno: Some(Some(Errno::EPERM)), ..MountSettings::default() };
    let old = server.swap(ServeConfig::new(utf8, settings));
    assert_eq!((mkdir(control), mkdir(ill_formed)), (Ok(()), Err(Errno::EPERM)));
    fs::write(dir.path().join("e\u{301}"), "").unwrap();
    assert!(!finds("é"));
    server.swap(config(matching(Form::Nfc)));
    assert!(finds("é") && !finds("\u{2126}"));
    // The index of the directory has NFC keys, so it does not contain the NFKC spelling of this entry.
    fs::write(dir.path().join("\u{fb01}"), "").unwrap();
    server.swap(config(matching(Form::Nfkc)));
    assert!(finds("é") && finds("fi"));
    server.swap(config(Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Permissive)));
    assert!(!finds("é") && !finds("fi") && mkdir(ill_formed) == Ok(()));
    server.swap(old);
    assert_eq!(mkdir(OsStr::new("b\u{1}")), Err(Errno::EINVAL));
}

#[test]
fn a_name_that_had_other_spellings_a_moment_ago_is_not_kept() {
    let (_dir, server) = normalizing(OnMismatch::Match);
    let request = server.for_request();
    assert!(request.may_be_kept(ROOT, OsStr::new("e")) && !request.may_be_kept(ROOT, OsStr::new("é")));
    server.swap(config(Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing)));
    assert!(!request.may_be_kept(ROOT, OsStr::new("e")) && !request.may_be_kept(ROOT, OsStr::new("é")));
    let request = server.for_request();
    assert!(request.may_be_kept(ROOT, OsStr::new("e")) && request.may_be_kept(ROOT, OsStr::new("é")));
}

#[test]
fn a_listing_is_not_the_same_once_entries_are_seen_otherwise() {
    use crate::passthrough::{ListedEntries, Listing};
    const SAME: Listing = Listing::Same(ListedEntries { all: 0, lasting: 0 });
    let (dir, server) = server(Mode::Enforcing);
    let listing = || {
        let (fh, listing) = server.tree.opendir(ROOT, 0).unwrap();
        server.tree.releasedir(fh);
        listing
    };
    let long_ago = std::time::Duration::from_millis(3200);
    std::thread::sleep(long_ago);
    assert_eq!([listing(), listing()], [Listing::New, SAME]);
    server.swap(config(Gate::new(Arc::new(Policy::from_profiles(&[&profile::STRICT])), Mode::Enforcing)));
    assert_eq!(listing(), SAME, "nothing is seen otherwise");
    let (open, _) = server.tree.opendir(ROOT, 0).unwrap();
    server.swap(config(Gate::new(Arc::new(Policy::from_profiles(&[&profile::STRICT])), Mode::Permissive)));
    assert_eq!(listing(), Listing::New);
    // It was opened before the change and closed after it, so it may have shown names of both views.
    server.tree.releasedir(open);
    assert_eq!([listing(), listing()], [Listing::New, SAME]);
    drop(dir);
}

/// Requests during a change of the configuration are served by the old one or by the new one.
#[test]
fn no_request_fails_while_the_terms_change_and_none_makes_two_entries_of_one_name() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (dir, server) = normalizing(OnMismatch::Match);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let forms = [Form::Nfc, Form::Nfd];
            for form in forms.iter().cycle().take(2000) {
                server.swap(config(matching(*form)));
            }
            done.store(true, Ordering::Relaxed);
        });
        for name in ["é", "e\u{301}"].map(OsStr::new) {
            let (server, done, dir) = (&server, &done, dir.path());
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let made = server
                        .for_request()
                        .make(&caller(), ROOT, name, NewEntry::Directory { mode: 0o700 })
                        .map(drop);
                    assert!(matches!(made, Ok(()) | Err(RequestFailure::Backing(Errno::EEXIST))), "{made:?}");
                    assert!(fs::read_dir(dir).unwrap().count() <= 1);
                    let gone = server.for_request().rmdir(0, ROOT, name);
                    assert!(matches!(gone, Ok(()) | Err(RequestFailure::Backing(Errno::ENOENT))), "{gone:?}");
                }
            });
        }
    });
}
