//! The character encoding of a locale, according to the C library.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// A locale, freed on drop.
struct Locale(libc::locale_t);

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: newlocale(3) created it, and nothing else uses it.
        unsafe { libc::freelocale(self.0) }
    }
}

/// Returns the character encoding of the locale `name`, as programs of this machine get it by `nl_langinfo(CODESET)`: `UTF-8`,
/// `ANSI_X3.4-1968`. `None` for a locale that is not installed: programs then use the locale `C`. See newlocale(3), nl_langinfo(3).
pub fn codeset(name: &[u8]) -> Option<String> {
    match cfg!(target_env = "musl").then(|| codeset_of_machine(name)).flatten() {
        Some(known) => known,
        None => codeset_of_library(name),
    }
}

/// The encoding according to locale(1). A program that is linked with musl has a C library of its own, which takes every name.
/// The outer `None` if locale(1) cannot be run.
fn codeset_of_machine(name: &[u8]) -> Option<Option<String>> {
    let output =
        Command::new("locale").arg("charmap").env("LC_ALL", OsStr::from_bytes(name)).output().ok()?;
    let charmap = str::from_utf8(output.stdout.trim_ascii()).unwrap_or_default();
    // For a locale that is not installed it prints the encoding of C, and a complaint.
    let is_installed = output.status.success() && output.stderr.is_empty() && !charmap.is_empty();
    Some(is_installed.then(|| charmap.to_owned()))
}

fn codeset_of_library(name: &[u8]) -> Option<String> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a NUL, and no locale is modified: the last argument is null.
    let locale = unsafe { libc::newlocale(libc::LC_CTYPE_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return None;
    }
    let locale = Locale(locale);
    // SAFETY: the locale is alive, and so is the returned string, until it is copied.
    let codeset = unsafe { CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, locale.0)) };
    Some(codeset.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_of_a_locale_is_that_of_the_c_library() {
        assert_eq!(codeset(b"C.UTF-8").as_deref(), Some("UTF-8"));
        assert!(codeset(b"C").is_some_and(|codeset| codeset != "UTF-8" || cfg!(target_env = "musl")));
        assert_eq!(codeset(b"xx_XX.NONE"), None);
        assert_eq!(codeset(b"C\0.UTF-8"), None);
        let Some(of_machine) = codeset_of_machine(b"C.UTF-8") else {
            return println!("SKIPPED: no locale(1)");
        };
        assert_eq!(of_machine.as_deref(), Some("UTF-8"));
        assert_eq!(codeset_of_machine(b"xx_XX.NONE"), Some(None));
        assert!(codeset_of_machine(b"C").flatten().is_some_and(|codeset| codeset != "UTF-8"));
    }
}
