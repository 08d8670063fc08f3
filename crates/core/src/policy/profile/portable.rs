//! Names that work everywhere.

use super::filesystem::{NAME_BYTES, PATH_BYTES};
use super::macos::MACOS;
use super::windows::WINDOWS;
use super::{Profile, ProfileRule};

/// Names that Windows, macOS and Linux all allow and distinguish. The minimum lengths of POSIX are not required.
pub static PORTABLE: Profile = Profile {
    name: "portable",
    title: "names that work everywhere: the rules of windows and macos, and the lengths of Linux",
    includes: &[&WINDOWS, &MACOS],
    rules: &[
        ProfileRule::error(NAME_BYTES, "Linux include/uapi/linux/limits.h (NAME_MAX)"),
        ProfileRule::error(PATH_BYTES, "Linux include/uapi/linux/limits.h (PATH_MAX, 4096 with the NUL)"),
    ],
};
