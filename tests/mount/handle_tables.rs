//! Handles of sources whose files cannot be opened by inode numbers: the table in which they are recorded.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use namegate::sys::handle::KernelHandle;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::control::status;
use crate::handles::{ended, handle_of, open, path_of, prepare_for_handles};
use crate::mounted::{Mounted, open_to_all};

/// File systems that are mounted for a test, until this is dropped.
pub struct Layers {
    dir: PathBuf,
}

impl Layers {
    /// Mounts a file system of this kind on `backing` in `dir`: `tmpfs`, `overlay`, or `apart`, an overlay whose layers are on
    /// two file systems, so that its files have device numbers of their own. `None`, after a message, if there is none.
    pub fn mount(dir: &Path, kind: &str, options: &str) -> Option<Self> {
        let layers = Self { dir: dir.into() };
        layers.again(kind, options).map(|()| layers)
    }

    fn again(&self, kind: &str, options: &str) -> Option<()> {
        let at = |name: &str| self.dir.join(name);
        let attach = |kind: &str, on: &str, options: &str| {
            let done = mount(Some(kind), &at(on), Some(kind), MsFlags::empty(), Some(options));
            done.inspect_err(|errno| println!("SKIPPED: no {kind} with {options} can be mounted: {errno}"))
                .ok()
        };
        if kind == "tmpfs" {
            return attach(kind, "backing", "size=16m");
        }
        for (name, inner) in [("one", ["upper", "work"].as_slice()), ("two", &["lower"])] {
            let (image, disk) = (at(&format!("{name}.image")), at(name));
            if !image.exists() {
                File::create(&image).unwrap().set_len(32 << 20).unwrap();
                assert!(Command::new("mkfs.ext4").arg("-q").arg(&image).status().unwrap().success());
                fs::create_dir(&disk).unwrap();
            }
            assert!(
                Command::new("mount").args(["-o", "loop"]).arg(image).arg(&disk).status().unwrap().success()
            );
            for name in inner.iter().chain(&["near"]) {
                fs::create_dir_all(disk.join(name)).unwrap();
            }
        }
        let lower = if kind == "apart" { at("two/lower") } else { at("one/near") };
        fs::create_dir_all(lower.join("below")).unwrap();
        fs::write(lower.join("below/lower file"), "lower").unwrap();
        let xino = if kind == "apart" { ",xino=off" } else { "" };
        let (lower, upper, work) = (lower.display(), at("one/upper"), at("one/work"));
        let all = format!(
            "lowerdir={lower},upperdir={},workdir={}{xino},{options}",
            upper.display(),
            work.display()
        );
        attach("overlay", "backing", &all)?;
        open_to_all(&at("backing"));
        Some(())
    }

    fn unmount(&self) {
        for name in ["backing", "one", "two"] {
            let _ = umount2(&self.dir.join(name), MntFlags::MNT_DETACH);
        }
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        let _ = umount2(&self.dir.join("mnt"), MntFlags::MNT_DETACH);
        self.unmount();
    }
}

const WITH_HANDLES: &str = "index=on,nfs_export=on";

/// The directories for a mount whose source is of this kind.
fn source(kind: &str) -> Option<(TempDir, Layers)> {
    let dir = prepare_for_handles()?;
    let options = if kind == "tmpfs" { "" } else { WITH_HANDLES };
    let layers = Layers::mount(dir.path(), kind, options)?;
    open_to_all(&dir.path().join("backing"));
    Some((dir, layers))
}

fn exported(dir: TempDir, state: &Path, args: &[&str]) -> Mounted {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    let target = dir.path().join("mnt");
    command.arg("mount").arg(dir.path().join("backing")).arg(&target).arg("--export").args(args);
    command.env("XDG_STATE_HOME", state);
    Mounted::by(dir, &target, command)
}

fn drop_caches() {
    // Dentries and inodes.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
}

fn the_table(state: &Path) -> PathBuf {
    let mut tables = fs::read_dir(state.join("namegate/exports")).unwrap();
    let table = tables.next().unwrap().unwrap().path();
    assert!(tables.next().is_none());
    table
}

/// Checks that the handles of `names` lead to their files, and that the last one, of a removed file, leads nowhere.
fn check(served: &Mounted, names: &[&str], handles: &[KernelHandle], at: &str) {
    drop_caches();
    let mnt = served.mnt();
    for (name, handle) in names.iter().zip(handles) {
        let held = open(&mnt, handle, OFlag::O_PATH).unwrap_or_else(|errno| panic!("{at}: {name}: {errno}"));
        let stored = fs::symlink_metadata(served.backing().join(name)).unwrap();
        let found = held.metadata().unwrap();
        assert_eq!((found.len(), found.mode()), (stored.len(), stored.mode()), "{at}: {name}");
        if stored.is_dir() {
            assert_eq!(path_of(&held), mnt.join(name), "{at}");
        }
        drop(held);
        assert_eq!(handle_of(&mnt.join(name)), *handle, "{at}: {name}");
    }
    assert_eq!(
        open(&mnt, handles.last().unwrap(), OFlag::O_PATH).unwrap_err(),
        Errno::ESTALE,
        "{at}: removed"
    );
    let mut content = String::new();
    open(&mnt, &handles[0], OFlag::O_RDONLY).unwrap().read_to_string(&mut content).unwrap();
    assert!(content.starts_with("content"), "{at}: {content}");
}

#[test]
fn recorded_handles_lead_to_their_files_after_kills_upgrades_and_new_mounts() {
    for kind in ["tmpfs", "overlay", "apart"] {
        let Some((dir, layers)) = source(kind) else { continue };
        let state = tempfile::tempdir().unwrap();
        let mut served = exported(dir, state.path(), &["--survive"]);
        let mnt = served.mnt();
        fs::create_dir_all(mnt.join("deep/er")).unwrap();
        fs::write(mnt.join("deep/er/file"), "content").unwrap();
        symlink("nowhere", mnt.join("link")).unwrap();
        fs::write(mnt.join("removed"), "").unwrap();
        let mut names = vec!["deep/er/file", "deep/er", "deep", "link"];
        if kind != "tmpfs" {
            names.extend(["below/lower file", "below"]);
        }
        if kind == "apart" {
            // Without xino, directories of such an overlay have no lasting inode numbers.
            names.retain(|name| ["deep/er/file", "link", "below/lower file"].contains(name));
        }
        let mut handles: Vec<_> = names.iter().map(|name| handle_of(&mnt.join(name))).collect();
        handles.push(handle_of(&mnt.join("removed")));
        fs::remove_file(mnt.join("removed")).unwrap();
        check(&served, &names, &handles, &format!("{kind}, caches dropped"));
        for step in ["kill", "upgrade", "kill"] {
            if step == "kill" {
                let before = status(&served)["pid"].as_i64().unwrap();
                kill(Pid::from_raw(i32::try_from(before).unwrap()), Signal::SIGKILL).unwrap();
            } else {
                let mut upgrade = Command::new(env!("CARGO_BIN_EXE_namegate"));
                upgrade.arg("upgrade").arg(&mnt).env("NAMEGATE_RUNTIME_DIR", served.run_directory());
                assert!(upgrade.status().unwrap().success());
            }
            check(&served, &names, &handles, &format!("{kind}, {step}"));
        }
        if kind != "tmpfs" {
            // Copied to the upper layer, it is the same file.
            fs::write(mnt.join("below/lower file"), "upper now").unwrap();
        }
        served = exported(ended(served), state.path(), &[]);
        check(&served, &names, &handles, &format!("{kind}, a new mount"));
        if kind != "tmpfs" {
            let dir = ended(served);
            layers.unmount();
            layers.again(kind, WITH_HANDLES).unwrap();
            served = exported(dir, state.path(), &[]);
            check(&served, &names, &handles, &format!("{kind}, the source mounted again"));
        }
        let table = fs::metadata(the_table(state.path())).unwrap();
        assert_eq!(table.mode() & 0o7777, 0o600);
        drop(served);
    }
}

#[test]
fn a_handle_that_was_not_recorded_leads_nowhere() {
    let Some((dir, _layers)) = source("overlay") else { return };
    let state = tempfile::tempdir().unwrap();
    let served = exported(dir, state.path(), &[]);
    let mnt = served.mnt();
    for name in ["old", "moved"] {
        fs::write(mnt.join(name), name).unwrap();
    }
    let (old, ino) = (handle_of(&mnt.join("old")), fs::metadata(mnt.join("old")).unwrap().ino());
    // Another generation, and a file that no client has looked up.
    let forged = |number: u64, generation: u32| {
        let words = [(number >> 32) as u32, number as u32, generation];
        KernelHandle::from_parts(0x81, &words.map(u32::to_ne_bytes).concat()).unwrap()
    };
    fs::write(served.backing().join("hidden"), "").unwrap();
    let hidden = fs::metadata(served.backing().join("hidden")).unwrap().ino();
    for handle in [forged(ino, 0), forged(ino, 1), forged(hidden, 0)] {
        assert_eq!(open(&mnt, &handle, OFlag::O_PATH).unwrap_err(), Errno::ESTALE);
    }
    fs::remove_file(mnt.join("old")).unwrap();
    let served = exported(ended(served), state.path(), &[]);
    let next = (0..5000).map(|n| mnt.join(format!("next {n}"))).find(|path| {
        fs::write(path, "next").unwrap();
        fs::metadata(path).unwrap().ino() == ino
    });
    match &next {
        Some(next) => assert_ne!(handle_of(next), old),
        None => println!("SKIPPED: the file system does not use the number again"),
    }
    for _ in 0..2 {
        assert_eq!(open(&mnt, &old, OFlag::O_PATH).unwrap_err(), Errno::ESTALE);
        drop_caches();
    }
    if let Some(next) = next {
        assert!(open(&mnt, &handle_of(&next), OFlag::O_PATH).is_ok());
    }
    drop(served);
}

#[test]
fn a_damaged_table_and_a_full_disk_do_not_stop_a_mount() {
    let Some((dir, _layers)) = source("tmpfs") else { return };
    let state = tempfile::tempdir().unwrap();
    // Room for two pages of a table, and a directory.
    let (name, options) = (Some("tmpfs"), Some("size=12k,mode=700"));
    mount(name, state.path(), name, MsFlags::empty(), options).unwrap();
    let _unmounts = Unmounts(state.path().into());
    let served = exported(dir, state.path(), &[]);
    let mnt = served.mnt();
    let made = |name: &str| {
        fs::write(mnt.join(name), "").unwrap();
        handle_of(&mnt.join(name))
    };
    let is_found = |handle: &KernelHandle| {
        drop_caches();
        open(&mnt, handle, OFlag::O_PATH).is_ok()
    };
    let first = made("first");
    let second = made("second");
    let all: Vec<_> = (0..200).map(|number| made(&format!("file {number}"))).collect();
    assert!(is_found(&first) && is_found(&all[0]));
    assert!(!all.iter().all(&is_found), "the disk is full");
    let mut served = served;
    crate::mounted::unmount(&mnt);
    let (_, said) = served.ended();
    assert!(said.contains("cannot record file handles"), "{said}");
    let dir = served.into_dir();
    let table = the_table(state.path());
    let mut bytes = fs::read(&table).unwrap();
    bytes[64 + 20] ^= 1;
    fs::write(&table, bytes).unwrap();
    // There is no room for another table either.
    let mut served = exported(dir, state.path(), &[]);
    assert!(!is_found(&first) && is_found(&second));
    crate::mounted::unmount(&mnt);
    let (_, said) = served.ended();
    assert!(said.contains("the table of file handles is damaged"), "{said}");
}

/// Unmounts a directory on drop.
struct Unmounts(PathBuf);

impl Drop for Unmounts {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_table_that_others_could_write_is_refused() {
    let Some((dir, _layers)) = source("tmpfs") else { return };
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").args(["backing", "mnt"].map(|name| dir.path().join(name))).arg("--export");
    let output = command.env("XDG_STATE_HOME", state.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("others can replace it"), "{said}");
}
