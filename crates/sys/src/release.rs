//! The version of a kernel. Source: uname(2).

use nix::sys::utsname::uname;

/// Parses the numbers of a release such as `6.9.3-arch1`; the third one is 0 if there is none.
pub fn parse(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((major, minor, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

/// The version of the running kernel.
pub fn running() -> Option<(u32, u32, u32)> {
    parse(uname().ok()?.release().to_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_release_are_parsed() {
        for (release, version) in [
            ("6.9.3-arch1", Some((6, 9, 3))),
            ("6.12.117+deb13-amd64", Some((6, 12, 117))),
            ("7.3", Some((7, 3, 0))),
            ("6.19-rc1", Some((6, 19, 0))),
            ("6", None),
            ("six.1", None),
            ("99999999999.1.1", None),
        ] {
            assert_eq!(parse(release), version, "{release}");
        }
        assert!(running().is_some());
    }
}
