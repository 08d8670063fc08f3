//! Clients use up descriptors of the server, whose number is limited.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fstat};

use namegate_testkit::mounted::{TestMount, can_mount, has_no_passthrough, prepare};

/// A directory with `files` files, in directories of 100.
fn fill(dir: &Path, files: usize) {
    for i in 0..files {
        if i % 100 == 0 {
            fs::create_dir(dir.join((i / 100).to_string())).unwrap();
        }
        fs::write(dir.join(format!("{}/{i}", i / 100)), "").unwrap();
    }
}

/// Walks the tree, reads the attributes of all files, and returns their number.
fn walk(dir: &Path) -> usize {
    let mut seen = 0;
    for sub in fs::read_dir(dir).unwrap() {
        for entry in fs::read_dir(sub.unwrap().path()).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().is_file());
            seen += 1;
        }
    }
    seen
}

#[test]
fn open_files_of_clients_take_precedence_over_cached_descriptors() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    mounted.limit_descriptors(128);
    let mut opened = Vec::new();
    let refused = loop {
        let dir = mounted.mnt().join(opened.len().to_string());
        fs::create_dir(&dir).unwrap();
        match File::open(&dir) {
            Ok(file) => opened.push(file),
            Err(error) => break error,
        }
    };
    // Half of the descriptors that are not reserved.
    assert_eq!((refused.raw_os_error(), opened.len()), (Some(Errno::ENFILE as i32), 56));
    // More files are opened on top of that, one after the other, if their contents do not cost the user another descriptor.
    let expected = has_no_passthrough().then_some(Errno::ENFILE as i32);
    for (i, dir) in opened.iter().enumerate() {
        assert!(dir.metadata().unwrap().is_dir());
        let written = fs::write(mounted.mnt().join(format!("{i}/file")), "content");
        assert_eq!(written.err().and_then(|error| error.raw_os_error()), expected);
    }
}

#[test]
fn walking_many_files_stays_within_the_limit_of_descriptors() {
    const FILES: usize = 5000;
    if !can_mount() {
        return;
    }
    let dir = prepare();
    fill(&dir.path().join("backing"), FILES);
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    mounted.limit_descriptors(128);
    assert_eq!(walk(&mounted.mnt()), FILES);
}

#[test]
fn without_file_handles_the_kernel_forgets_unused_inodes() {
    const FILES: usize = 6_000;
    let Some(mounted) = TestMount::of_overlay() else { return };
    mounted.limit_descriptors(1024);
    let mnt = mounted.mnt();
    fill(&mounted.backing(), FILES);
    let content = |file: &File| {
        let mut content = [0; 7];
        file.read_exact_at(&mut content, 0).unwrap();
        content
    };
    // These stay in use: an open file, a removed file, a working directory with a file in it, and a file held by O_PATH.
    fs::create_dir(mnt.join("in use")).unwrap();
    let make = |name: &str| {
        let path = mnt.join("in use").join(name);
        fs::write(&path, "content").unwrap();
        path
    };
    let (open_file, removed) = (File::open(make("open")).unwrap(), File::open(make("removed")).unwrap());
    fs::remove_file(mnt.join("in use/removed")).unwrap();
    let only_path = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(make("path")).unwrap();
    let within =
        open(&mnt.join("in use"), OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .unwrap();
    let mut waiting = Command::new("sh")
        .args(["-c", "read _ && cat path"])
        .current_dir(mnt.join("in use"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let mut most = 0;
    for round in 0..3 {
        // `ls -lR` in between, which walks in another order.
        match round % 2 {
            0 => assert_eq!(walk(&mnt), FILES + 2, "round {round}"),
            _ => assert!(Command::new("ls").arg("-lR").arg(&mnt).output().unwrap().status.success()),
        }
        most = most.max(mounted.descriptors());
    }
    assert!(most < 700, "{most} descriptors for {FILES} files");
    println!("{} files walked three times with at most {most} descriptors between the walks", FILES + 2);

    assert_eq!((content(&open_file), content(&removed)), (*b"content", *b"content"));
    assert_eq!(fstat(&only_path).unwrap().st_size, 7);
    assert_eq!(
        content(&File::from(
            openat(&within, "path", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).unwrap()
        )),
        *b"content"
    );
    waiting.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(waiting.wait_with_output().unwrap().stdout, b"content");
}

#[test]
fn a_removed_big_file_frees_its_blocks_when_it_is_closed() {
    const BIG: usize = 8 << 20;
    for mounted in TestMount::both_ways() {
        let path = mounted.mnt().join("file");
        let free = || {
            let stat = nix::sys::statvfs::statvfs(&mounted.mnt()).unwrap();
            stat.blocks_free() * stat.fragment_size()
        };
        // Other tests fill and empty the same file system at the same time, so try several times.
        let is_given_back = || {
            fs::write(&path, vec![b'x'; BIG]).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            let full = free();
            fs::remove_file(&path).unwrap();
            let begun = Instant::now();
            std::iter::repeat_with(free)
                .take_while(|_| begun.elapsed() < Duration::from_secs(3))
                .any(|free| free >= full + BIG as u64 / 2)
        };
        assert!((0..20).any(|_| is_given_back()));
    }
}
