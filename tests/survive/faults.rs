//! The server dies at a chosen moment of a chosen operation: after it has read the request, before and after it has made a change, before
//! and after it has sent the reply. Debug builds do so by the file that `NAMEGATE_TEST_FAULT` names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use namegate_sys::rename::renameat2;
use namegate_sys::xattr;
use namegate_wire::abi::opcode;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, fallocate};
use nix::sys::stat::{Mode, SFlag, mknod};

use crate::server_of;
use namegate_testkit::mounted::{TestMount, can_mount, prepare, transport};
use namegate_testkit::wait_until;

/// An operation: its name and number, what is done before, and the operation itself, which checks its result.
type Operation = (&'static str, u32, fn(&Path), fn(&Path));

fn ok<T>(result: io::Result<T>) -> T {
    result.unwrap()
}

#[track_caller]
fn fails<T>(result: io::Result<T>, errno: Errno) {
    assert_eq!(result.map(drop).map_err(|error| error.raw_os_error()), Err(Some(errno as i32)));
}

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, libc::RENAME_EXCHANGE)?)
}

fn set(path: &Path, flags: i32) -> io::Result<()> {
    Ok(xattr::set(&ok(File::open(path)), "user.a".as_ref(), b"value", flags)?)
}

const OPERATIONS: &[Operation] = &[
    (
        "mkdir",
        opcode::MKDIR,
        |_| {},
        |at| {
            ok(fs::create_dir(at.join("new")));
            fails(fs::create_dir(at.join("new")), Errno::EEXIST);
        },
    ),
    (
        "mknod",
        opcode::MKNOD,
        |_| {},
        |at| {
            let make = || Ok(mknod(&at.join("new"), SFlag::S_IFIFO, Mode::S_IRUSR, 0)?);
            ok(make());
            fails(make(), Errno::EEXIST);
        },
    ),
    (
        "symlink",
        opcode::SYMLINK,
        |_| {},
        |at| {
            ok(symlink("target", at.join("new")));
            assert_eq!(ok(fs::read_link(at.join("new"))), Path::new("target"));
        },
    ),
    (
        "link",
        opcode::LINK,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            ok(fs::hard_link(at.join("file"), at.join("new")));
            assert_eq!(ok(fs::metadata(at.join("new"))).nlink(), 2);
        },
    ),
    (
        "create",
        opcode::CREATE,
        |_| {},
        |at| {
            // Nobody could open it again by its mode.
            let how = || OpenOptions::new().write(true).create_new(true).mode(0o000).open(at.join("new"));
            let mut file = ok(how());
            ok(file.write_all(b"content"));
            fails(how(), Errno::EEXIST);
            assert_eq!(ok(fs::metadata(at.join("new"))).len(), 7);
        },
    ),
    (
        "tmpfile",
        opcode::TMPFILE,
        |_| {},
        |at| {
            let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(at);
            assert_eq!(ok(ok(file).metadata()).nlink(), 0);
        },
    ),
    (
        "unlink",
        opcode::UNLINK,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            let mut file = ok(File::open(at.join("file")));
            ok(fs::remove_file(at.join("file")));
            fails(fs::remove_file(at.join("file")), Errno::ENOENT);
            let mut content = String::new();
            ok(file.read_to_string(&mut content));
            assert_eq!((content.as_str(), ok(file.metadata()).nlink()), ("content", 0));
        },
    ),
    (
        "rmdir",
        opcode::RMDIR,
        |at| ok(fs::create_dir(at.join("dir"))),
        |at| {
            ok(fs::remove_dir(at.join("dir")));
            fails(fs::remove_dir(at.join("dir")), Errno::ENOENT);
        },
    ),
    (
        "rename",
        opcode::RENAME,
        |at| {
            ok(fs::write(at.join("one"), "1"));
            ok(fs::write(at.join("other"), "2"));
        },
        |at| {
            let mut replaced = ok(File::open(at.join("other")));
            ok(fs::rename(at.join("one"), at.join("other")));
            fails(fs::rename(at.join("one"), at.join("other")), Errno::ENOENT);
            assert_eq!(ok(fs::read_to_string(at.join("other"))), "1");
            let mut content = String::new();
            ok(replaced.read_to_string(&mut content));
            assert_eq!(content, "2");
        },
    ),
    (
        "exchange",
        opcode::RENAME2,
        |at| {
            ok(fs::write(at.join("one"), "1"));
            ok(fs::write(at.join("other"), "2"));
        },
        |at| {
            ok(exchange(&at.join("one"), &at.join("other")));
            assert_eq!(
                ok(fs::read_to_string(at.join("one"))) + &ok(fs::read_to_string(at.join("other"))),
                "21"
            );
        },
    ),
    (
        "setxattr",
        opcode::SETXATTR,
        |at| ok(fs::write(at.join("file"), "")),
        |at| {
            ok(set(&at.join("file"), libc::XATTR_CREATE));
            fails(set(&at.join("file"), libc::XATTR_CREATE), Errno::EEXIST);
        },
    ),
    (
        "a setxattr that fails",
        opcode::SETXATTR,
        |at| {
            ok(fs::write(at.join("file"), ""));
            ok(set(&at.join("file"), 0));
        },
        |at| fails(set(&at.join("file"), libc::XATTR_CREATE), Errno::EEXIST),
    ),
    (
        "removexattr",
        opcode::REMOVEXATTR,
        |at| {
            ok(fs::write(at.join("file"), ""));
            ok(set(&at.join("file"), 0));
        },
        |at| {
            let remove = || Ok(xattr::remove(&ok(File::open(at.join("file"))), "user.a".as_ref())?);
            ok(remove());
            fails(remove(), Errno::ENODATA);
        },
    ),
    (
        "truncate",
        opcode::SETATTR,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            ok(ok(OpenOptions::new().write(true).open(at.join("file"))).set_len(3));
            assert_eq!(ok(fs::read_to_string(at.join("file"))), "con");
        },
    ),
    (
        "chmod",
        opcode::SETATTR,
        |at| ok(fs::write(at.join("file"), "")),
        |at| {
            ok(fs::set_permissions(at.join("file"), fs::Permissions::from_mode(0o640)));
            assert_eq!(ok(fs::metadata(at.join("file"))).mode() & 0o7777, 0o640);
        },
    ),
    (
        "append",
        opcode::WRITE,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            let mut file = ok(OpenOptions::new().append(true).open(at.join("file")));
            assert_eq!(ok(file.write(b" and more")), 9);
            assert_eq!(ok(fs::read_to_string(at.join("file"))), "content and more");
        },
    ),
    (
        "allocate",
        opcode::FALLOCATE,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            let file = ok(OpenOptions::new().write(true).open(at.join("file")));
            fallocate(&file, FallocateFlags::empty(), 0, 1000).unwrap();
            assert_eq!(ok(file.metadata()).len(), 1000);
        },
    ),
    (
        "open",
        opcode::OPEN,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            assert_eq!(ok(fs::read_to_string(at.join("file"))), "content");
        },
    ),
    (
        "read",
        opcode::READ,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            assert_eq!(ok(fs::read_to_string(at.join("file"))), "content");
        },
    ),
    (
        "list",
        opcode::READDIRPLUS,
        |at| (0..50).for_each(|n| ok(fs::write(at.join(n.to_string()), ""))),
        |at| {
            assert_eq!(ok(fs::read_dir(at)).map(ok).count(), 50);
        },
    ),
    ("opendir", opcode::OPENDIR, |_| {}, |at| assert_eq!(ok(fs::read_dir(at)).count(), 0)),
    (
        "release",
        opcode::RELEASE,
        |at| ok(fs::write(at.join("file"), "content")),
        |at| {
            drop(ok(File::open(at.join("file"))));
            assert_eq!(ok(fs::read_to_string(at.join("file"))), "content");
        },
    ),
];

/// Moments that every operation passes, and those that only some pass.
const ALWAYS: &[&str] = &["read", "changed", "recorded", "sent", "finished"];
const SOMETIMES: &[&str] = &["started", "copied"];

/// A mount, and the file that says when its server dies.
fn with_faults() -> (TestMount, PathBuf) {
    let dir = prepare();
    let fault = dir.path().join("fault");
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").arg(dir.path().join("backing")).arg(dir.path().join("mnt"));
    command.args(["--survive", "--no-passthrough"]).env("NAMEGATE_TEST_FAULT", &fault);
    let target = dir.path().join("mnt");
    let mounted = TestMount::by(dir, &target, command);
    (mounted, fault)
}

#[test]
fn whenever_a_server_dies_each_operation_is_done_once() {
    if !can_mount() || transport() != "dev" {
        return println!("SKIPPED: mounts survive over the transport dev alone");
    }
    let (mounted, fault) = with_faults();
    let (mut deaths, mut rare) = (0, 0);
    for (number, (name, opcode, prepare, act)) in OPERATIONS.iter().enumerate() {
        for moment in ALWAYS.iter().chain(SOMETIMES) {
            let at = mounted.mnt().join(format!("{number}-{moment}"));
            fs::create_dir(&at).unwrap();
            prepare(&at);
            let before = server_of(&mounted);
            fs::write(&fault, format!("{moment} {opcode}")).unwrap();
            println!("{name}: the server dies when it has {moment} it");
            act(&at);
            // A reply that nobody waits for may still be on its way.
            let is_due =
                ALWAYS.contains(moment) && !matches!((*name, *moment), ("list" | "read", "recorded"));
            if is_due {
                wait_until(name, || !fault.exists());
            }
            match fs::remove_file(&fault) {
                Ok(()) => {}
                Err(_) => {
                    // It dies after it has removed the file.
                    wait_until("the start of another server", || server_of(&mounted) != before);
                    deaths += 1;
                    rare += usize::from(SOMETIMES.contains(moment));
                }
            }
        }
    }
    println!("{deaths} deaths");
    assert!(deaths >= OPERATIONS.len() * (ALWAYS.len() - 1) && rare >= 12, "{deaths} {rare}");
}

#[test]
fn a_request_of_which_servers_die_fails_in_the_end_and_the_mount_goes_on() {
    if !can_mount() || transport() != "dev" {
        return println!("SKIPPED: mounts survive over the transport dev alone");
    }
    let (mounted, fault) = with_faults();
    // A server that is killed is to blame less than one that crashes: 128 of them, and the one that says so.
    let death = format!("changed {}", opcode::MKDIR);
    fs::write(&fault, vec![death; 129].join("\n")).unwrap();
    fails(fs::create_dir(mounted.mnt().join("one")), Errno::EIO);
    assert!(!fault.exists());
    ok(fs::create_dir(mounted.mnt().join("other")));
}
