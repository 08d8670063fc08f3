//! `mount -o remount`: the flags of a mount are the kernel's, and change while it is served. What the server does is changed by
//! its configuration.
//!
//! mount(8) hands on all options that the mount is to have: those of the mount table, or of fstab(5), with what it was asked for
//! worked in. A flag that is missing there is off. A setting of namegate can come from fstab, and be in effect already.
//!
//! Sources: mount(2), mount(8), "FILESYSTEM-INDEPENDENT MOUNT OPTIONS", `remount`.

use std::path::Path;

use namegate_core::name::display::shown;
use namegate_mount::Options;
use namegate_settings::{MountOptions, Setting, SettingPlace, TABLE};
use namegate_sys::mounts::mounts;
use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::statvfs;

use crate::cli::{CliError, ExitStatus};

/// Gives the mount on `mountpoint` the flags that `options` ask for, or, with `fake` set, checks that this is possible.
pub(super) fn remount(mountpoint: &Path, options: &MountOptions, fake: bool) -> Result<ExitStatus, CliError> {
    let place = shown(mountpoint);
    let impossible = |why: &str| CliError::new(format!("cannot remount {place}: {why}"));
    let target = mountpoint.canonicalize().map_err(|error| impossible(&error.to_string()))?;
    let table = mounts().map_err(|error| impossible(&error.to_string()))?;
    // Of mounts on one place the last covers the others.
    let there = table.iter().rfind(|mount| mount.point == target);
    if there.is_none_or(|mount| mount.kind != "fuse.namegate") {
        return Err(impossible("namegate is not mounted there"));
    }
    let flags = TABLE.iter().filter_map(|setting| Some((setting, setting.kernel_flag?.0)));
    let all = flags.clone().fold(MsFlags::empty(), |all, (_, flag)| all | flag);
    // statvfs(3) shows a flag by the bit by which mount(2) sets it.
    let has = statvfs(&target).map_err(|errno| impossible(errno.desc()))?.flags();
    let current = MsFlags::from_bits_truncate(has.bits()) & all;
    // Whoever names both source and mount point has the options replaced: what is not named is as in a new mount.
    let before = if options.is_whole { MsFlags::empty() } else { Options::DEFAULT_FLAGS };
    let asked = options.settings.kernel_flags(before);
    let is_fixed = |(setting, flag): &(&Setting, MsFlags)| {
        !setting.may_stand(SettingPlace::Remount) && (asked ^ current).contains(*flag)
    };
    if let Some((setting, _)) = flags.clone().find(is_fixed) {
        let name = setting.name;
        return Err(impossible(&format!(
            "`{name}` takes effect at the next mount: unmount it and mount it again"
        )));
    }
    let fixed = TABLE.iter().filter(|setting| options.settings.get(setting).is_some() && is_config(setting));
    let fixed = fixed.map(|setting| format!("`{}`", setting.name)).collect::<Vec<_>>().join(", ");
    let how =
        "change the mount configuration and run `namegate reload`, or switch the mode by `namegate mode`";
    match (asked == current, fixed.is_empty()) {
        (true, false) => return Err(impossible(&format!("a remount does not change {fixed}: {how}"))),
        (false, false) => log::warn!("{place}: a remount does not change {fixed}: {how}"),
        (_, true) => {}
    }
    if !fake {
        // Without a word about times of access they stay as they are (mount(2)).
        let flags = MsFlags::MS_REMOUNT | (asked - MsFlags::MS_NOATIME);
        mount(None::<&str>, &target, None::<&str>, flags, None::<&str>)
            .map_err(|errno| impossible(errno.desc()))?;
    }
    Ok(ExitStatus::Clean)
}

/// Whether the server obeys the setting. mount(8) hands on `allow_other` in any case: the kernel shows it.
fn is_config(setting: &Setting) -> bool {
    setting.kernel_flag.is_none() && !matches!(setting.name, "allow-other" | "verbose" | "log-format")
}
