//! The character encoding of a locale, according to the C library.

use std::ffi::{CStr, CString};

/// A locale, freed on drop.
struct Locale(libc::locale_t);

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: newlocale(3) created it, and nothing else uses it.
        unsafe { libc::freelocale(self.0) }
    }
}

/// Returns the character encoding of the locale `name`, as programs get it by `nl_langinfo(CODESET)`: `UTF-8`, `ANSI_X3.4-1968`.
/// The empty name stands for the locale in the environment of this process. `None` for a locale that is not installed: programs
/// then use the locale `C`. See newlocale(3), nl_langinfo(3).
pub fn codeset(name: &[u8]) -> Option<String> {
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
    }
}
