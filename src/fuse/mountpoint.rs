//! The place of a mount: what may be there, and what has to go.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::statfs::statfs;

/// Takes away what a server that was killed has left on `mountpoint`.
///
/// # Errors
/// There is such a thing, and it cannot be taken away.
pub(super) fn detach_dead(mountpoint: &Path) -> io::Result<()> {
    // Attributes may still be cached; statfs(2) always asks the server.
    match statfs(mountpoint) {
        Err(Errno::ENOTCONN) => {
            log::warn!("the mount that was here has lost its server and is replaced");
            detach(mountpoint)
        }
        _ => Ok(()),
    }
}

/// Detaches a mount; whoever is not root does it by fusermount3(1).
///
/// # Errors
/// As umount2(2) says, or what fusermount3 says.
pub(super) fn detach(mountpoint: &Path) -> io::Result<()> {
    match umount2(mountpoint, MntFlags::MNT_DETACH) {
        Err(Errno::EPERM) => {}
        done => return Ok(done?),
    }
    let helper = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mountpoint).output();
    let output = helper.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Errno::EPERM.into(),
        _ => error,
    })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The source of the mount of namegate on `mountpoint`, if there is one and it can be reached, in the words of the mount
/// table. The path has to be canonical.
pub(super) fn source_of(mountpoint: &Path) -> Option<Vec<u8>> {
    source_in(&fs::read("/proc/self/mountinfo").ok()?, mountpoint.as_os_str())
}

/// The same in a table as proc_pid_mountinfo(5) describes it. Of mounts on one place the last covers the others.
fn source_in(table: &[u8], mountpoint: &OsStr) -> Option<Vec<u8>> {
    let covering = table.split(|&byte| byte == b'\n').rfind(|line| {
        line.split(|&byte| byte == b' ').nth(4).is_some_and(|place| unescaped(place) == mountpoint.as_bytes())
    })?;
    let mut behind_options = covering.split(|&byte| byte == b' ').skip_while(|&field| field != b"-").skip(1);
    let (kind, source) = (behind_options.next()?, behind_options.next()?);
    (kind == b"fuse.namegate").then(|| unescaped(source))
}

/// A field of the table: space, tab, line feed and backslash are written in octal.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            digits.iter().try_fold(0u8, |value, digit| match digit {
                b'0'..=b'7' => value.checked_mul(8)?.checked_add(digit - b'0'),
                _ => None,
            })
        });
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_place_unless_another_covers_it() {
        let table = br"22 1 8:1 / / rw - ext4 /dev/sda1 rw
40 22 0:40 / /mnt/a\040b rw,nosuid - fuse.namegate /srv/a\134b rw,user_id=0
41 22 0:41 / /mnt/other rw shared:7 - fuse.namegate /srv/other rw
42 41 0:42 / /mnt/other rw - tmpfs none rw
43 22 0:43 / /mnt/ssh rw - fuse.sshfs host: rw
";
        let source = |place: &str| source_in(table, OsStr::new(place));
        assert_eq!(source("/mnt/a b").as_deref(), Some(&br"/srv/a\b"[..]));
        for place in ["/mnt/other", "/mnt/ssh", "/", "/mnt", r"/mnt/a\040b"] {
            assert_eq!(source(place), None, "{place}");
        }
        assert_eq!(unescaped(br"\40 \777\08\134"), br"\40 \777\08\");
    }
}
