//! What a mount needs: a kernel, its device, a program that mounts for users other than root, and file handles of the source.
//!
//! Sources: fuse(4), fusermount3(1), fuse.conf(5) as in mount.fuse3(8), fuse-passthrough.rst of the kernel,
//! name_to_handle_at(2), fanotify(7), capabilities(7).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use namegate_core::name::display::{display, shown};
use namegate_sys::{handle, release};
use nix::errno::Errno;

use super::{Diagnosis, Machine};

const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_SYS_ADMIN: u32 = 21;

pub(super) fn checks(machine: &Machine, sources: &[PathBuf]) -> Vec<Diagnosis> {
    let kernel = machine.text("proc/sys/kernel/osrelease").ok();
    let version = kernel.as_deref().and_then(version);
    let mut checks = vec![
        kernel_check(kernel.as_deref(), version),
        device(machine),
        helper(machine),
        allow_other(machine),
        passthrough(machine, kernel.as_deref(), version),
        io_uring(machine),
        fanotify(machine, version),
    ];
    checks.extend(sources.iter().map(|source| handles(machine, source)));
    checks
}

/// The first two numbers of a release such as `6.9.3-arch1`.
pub(super) fn version(release: &str) -> Option<(u32, u32)> {
    release::parse(release).map(|(major, minor, _)| (major, minor))
}

fn kernel_check(release: Option<&str>, version: Option<(u32, u32)>) -> Diagnosis {
    const ID: &str = "kernel";
    match (release, version) {
        (Some(release), Some(version)) if version >= (5, 6) => {
            Diagnosis::ok(ID, format!("Linux {}", display(release.as_bytes())))
        }
        (Some(release), Some(_)) => Diagnosis::fail(
            ID,
            format!("Linux {}, which has no openat2(2)", display(release.as_bytes())),
            "a mount needs Linux 5.6 or later; scans, checks and repairs run on any",
        ),
        _ => Diagnosis::unknown(ID, "/proc/sys/kernel/osrelease contains no version"),
    }
}

fn device(machine: &Machine) -> Diagnosis {
    const ID: &str = "fuse-device";
    match OpenOptions::new().read(true).write(true).open(machine.path("dev/fuse")) {
        Ok(_) => Diagnosis::ok(ID, "/dev/fuse can be opened"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Diagnosis::fail(
            ID,
            "/dev/fuse does not exist",
            "modprobe fuse; in a container, pass the device through (docker run --device /dev/fuse --cap-add SYS_ADMIN)",
        ),
        Err(error) => Diagnosis::fail(
            ID,
            format!("/dev/fuse cannot be opened: {error}"),
            "run as root, or let the user open it (mode 0666, as udev sets it)",
        ),
    }
}

fn helper(machine: &Machine) -> Diagnosis {
    const ID: &str = "fusermount3";
    let found = ["usr/bin", "bin", "usr/local/bin"].iter().find_map(|dir| {
        let path = machine.path(dir).join("fusermount3");
        fs::metadata(&path).ok().map(|meta| (format!("/{dir}/fusermount3"), meta))
    });
    match found {
        Some((path, meta)) if machine.is_root_user || (meta.mode() & 0o4000 != 0 && meta.uid() == 0) => {
            Diagnosis::ok(ID, path)
        }
        Some((path, _)) => Diagnosis::fail(
            ID,
            format!("{path} is not set-user-id root: only root can mount"),
            format!("chown root {path} && chmod 4755 {path}"),
        ),
        None if machine.is_root_user => Diagnosis::ok(ID, "not installed; root does not need it"),
        None => Diagnosis::fail(
            ID,
            "fusermount3 is not installed: only root can mount",
            "install it (Debian, Fedora: the package fuse3)",
        ),
    }
}

fn allow_other(machine: &Machine) -> Diagnosis {
    const ID: &str = "user-allow-other";
    let conf = machine.text("etc/fuse.conf").unwrap_or_default();
    let is_set = conf.lines().any(|line| line.trim() == "user_allow_other");
    match is_set || machine.is_root_user {
        true if is_set => Diagnosis::ok(ID, "/etc/fuse.conf has user_allow_other"),
        true => Diagnosis::ok(ID, "not set in /etc/fuse.conf; root does not need it"),
        false => Diagnosis::warn(
            ID,
            "/etc/fuse.conf has no user_allow_other: a user's mount is visible to that user only",
            "add the line `user_allow_other` to /etc/fuse.conf to let users share their mounts (-o allow_other)",
        ),
    }
}

fn passthrough(machine: &Machine, release: Option<&str>, version: Option<(u32, u32)>) -> Diagnosis {
    const ID: &str = "fuse-passthrough";
    let (Some(release), Some(version)) = (release, version) else {
        return Diagnosis::unknown(ID, "the kernel version is unknown");
    };
    if version < (6, 9) {
        let found = "file contents go through the server: the kernel is older than 6.9";
        return Diagnosis::warn(
            ID,
            found,
            "Linux 6.9 or later reads and writes file contents itself, at native speed",
        );
    }
    // The release comes from the kernel, and contains no `/`.
    let config = machine.text(&format!("boot/config-{release}"));
    if config.is_ok_and(|config| !config.lines().any(|line| line == "CONFIG_FUSE_PASSTHROUGH=y")) {
        let found =
            "file contents go through the server: the kernel was built without CONFIG_FUSE_PASSTHROUGH";
        return Diagnosis::warn(
            ID,
            found,
            "a kernel with CONFIG_FUSE_PASSTHROUGH=y reads and writes file contents itself",
        );
    }
    match capable(machine, CAP_SYS_ADMIN) {
        Some(true) => Diagnosis::ok(ID, "the kernel reads and writes file contents itself"),
        Some(false) => Diagnosis::warn(
            ID,
            "file contents go through the server: passthrough needs CAP_SYS_ADMIN",
            "mount as root where speed matters",
        ),
        None => Diagnosis::unknown(ID, "/proc/self/status shows no capabilities"),
    }
}

/// What root does to enable io_uring for new mounts.
pub(super) const ENABLE_URING: &str = "echo Y >/sys/module/fuse/parameters/enable_uring";

/// Whether root has enabled io_uring for FUSE; `None` on a kernel without it.
pub(super) fn uring_is_enabled(machine: &Machine) -> Option<bool> {
    let value = machine.text("sys/module/fuse/parameters/enable_uring").ok()?;
    Some(matches!(value.as_str(), "Y" | "1"))
}

fn io_uring(machine: &Machine) -> Diagnosis {
    let found = match uring_is_enabled(machine) {
        None => "requests go over /dev/fuse: this kernel has no io_uring for FUSE (Linux 6.14)".into(),
        Some(true) => "mounts with --transport auto use io_uring; those with --survive do not. `namegate doctor --measure` \
                       says what it brings"
            .into(),
        Some(false) => format!(
            "requests go over /dev/fuse. With io_uring, which root enables by `{ENABLE_URING}`, mounts with --transport auto \
             answer requests for metadata faster; they cannot survive their server"
        ),
    };
    Diagnosis::ok("fuse-io-uring", found)
}

/// Reports whether this process has a capability; `None` if unknown.
fn capable(machine: &Machine, capability: u32) -> Option<bool> {
    let status = machine.text("proc/self/status").ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    Some(u64::from_str_radix(set.trim(), 16).ok()? & (1 << capability) != 0)
}

fn fanotify(machine: &Machine, version: Option<(u32, u32)>) -> Diagnosis {
    const ID: &str = "fanotify";
    let watches = machine.text("proc/sys/fs/inotify/max_user_watches").unwrap_or_else(|_| "?".into());
    let by_directory = format!("`watch` must watch each directory separately, at most {watches} directories");
    let advice =
        "raise fs.inotify.max_user_watches (sysctl) above the number of directories, or watch as root";
    if !machine.path("proc/sys/fs/fanotify").exists() || version.is_some_and(|version| version < (5, 9)) {
        return Diagnosis::warn(
            ID,
            format!("the kernel does not report names by fanotify: {by_directory}"),
            advice,
        );
    }
    match capable(machine, CAP_SYS_ADMIN) {
        Some(true) => Diagnosis::ok(ID, "`watch` can watch whole file systems"),
        Some(false) => Diagnosis::warn(ID, format!("without CAP_SYS_ADMIN {by_directory}"), advice),
        None => Diagnosis::unknown(ID, "/proc/self/status shows no capabilities"),
    }
}

fn handles(machine: &Machine, source: &PathBuf) -> Diagnosis {
    const ID: &str = "file-handles";
    let shown = shown(source);
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(source);
    let dir = match opened {
        Ok(dir) => dir,
        Err(error) => {
            let advice = "name an existing directory that you may open";
            return Diagnosis::fail(ID, format!("{shown} cannot be opened: {error}"), advice);
        }
    };
    match handle::from_fd(&dir) {
        Ok(_) if capable(machine, CAP_DAC_READ_SEARCH) == Some(true) => {
            Diagnosis::ok(ID, format!("the file system of {shown} has file handles"))
        }
        Ok(_) => Diagnosis::warn(
            ID,
            format!(
                "{shown}: every file in use costs an open descriptor: opening by handle needs CAP_DAC_READ_SEARCH"
            ),
            "mount as root, or raise the limit of open files (ulimit -Hn) for large trees",
        ),
        Err(Errno::EOPNOTSUPP) => Diagnosis::warn(
            ID,
            format!(
                "{shown}: every file in use costs an open descriptor: its file system has no file handles"
            ),
            "mount overlayfs with nfs_export=on; otherwise raise the limit of open files (LimitNOFILE=)",
        ),
        Err(error) => Diagnosis::unknown(ID, format!("{shown}: {error}")),
    }
}
