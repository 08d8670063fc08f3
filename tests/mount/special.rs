//! FIFOs, sockets and devices: created and used through the mount, and never opened by the server.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;

use namegate_testkit::mounted::TestMount;

/// The files that the server has open, except by `O_PATH`, according to proc_pid_fd(5).
fn opened_by(server: u32) -> Vec<String> {
    let flags_of = |name: &str| {
        let info = fs::read_to_string(format!("/proc/{server}/fdinfo/{name}")).unwrap_or_default();
        let line =
            info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default().trim().to_owned();
        i32::from_str_radix(&line, 8).unwrap_or(libc::O_PATH)
    };
    fs::read_dir(format!("/proc/{server}/fd"))
        .unwrap()
        .filter_map(|fd| {
            let fd = fd.unwrap();
            let held_only = flags_of(fd.file_name().to_str().unwrap()) & libc::O_PATH != 0;
            let target = fs::read_link(fd.path()).ok()?;
            (!held_only).then(|| target.to_string_lossy().into_owned())
        })
        .collect()
}

#[test]
fn a_fifo_connects_two_programs_and_not_the_server() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let path = mounted.mnt().join("fifo");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let alone = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap_err();
    assert_eq!(alone.raw_os_error(), Some(Errno::ENXIO as i32), "nobody reads, not even the server");
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read = String::new();
            File::open(&path).unwrap().read_to_string(&mut read).unwrap();
            read
        });
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"through").unwrap();
        let opened = opened_by(mounted.server());
        assert!(!opened.iter().any(|path| path.ends_with("fifo")), "{opened:?}");
        drop(writer);
        assert_eq!(reader.join().unwrap(), "through");
    });
    assert!(fs::symlink_metadata(mounted.backing().join("fifo")).unwrap().file_type().is_fifo());
    // The FIFO keeps working whatever happens to its name.
    fs::rename(&path, mounted.mnt().join("other")).unwrap();
    fs::remove_file(mounted.mnt().join("other")).unwrap();
}

#[test]
fn a_socket_is_bound_and_found() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let path = mounted.mnt().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"x").unwrap();
    let (mut served, _) = listener.accept().unwrap();
    let mut read = [0];
    served.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"x");
    assert!(fs::symlink_metadata(mounted.backing().join("socket")).unwrap().file_type().is_socket());
    fs::remove_file(&path).unwrap();
    assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_device_is_created_with_its_number_and_cannot_be_opened() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    for (name, kind, device) in
        [("near", SFlag::S_IFCHR, makedev(1, 3)), ("far", SFlag::S_IFBLK, makedev(0xABC, 0x12345))]
    {
        let path = mounted.mnt().join(name);
        mknod(&path, kind, Mode::S_IRWXU, device).unwrap();
        for path in [&path, &mounted.backing().join(name)] {
            let metadata = fs::symlink_metadata(path).unwrap();
            assert_eq!((metadata.rdev(), metadata.mode() & SFlag::S_IFMT.bits()), (device, kind.bits()));
        }
        assert_eq!(File::open(&path).unwrap_err().raw_os_error(), Some(Errno::EACCES as i32), "nodev");
    }
    let opened = opened_by(mounted.server());
    assert!(!opened.iter().any(|path| path.ends_with("near") || path.ends_with("far")), "{opened:?}");
}
