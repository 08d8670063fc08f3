//! Finds the service of a process by its control group. Pure.
//!
//! systemd puts every unit into a control group with the unit's name, below the groups of its slices. systemd chooses the
//! path only down to the first unit: below it the unit can choose any names, and a user's own service manager creates groups
//! for the user's units.
//!
//! Sources: cgroups(7), "/proc/[pid]/cgroup"; systemd's "The New Control Group Interfaces" on names; systemd.unit(5).

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units<'p> {
    /// Unit of the system manager.
    pub(super) system: Option<&'p [u8]>,
    /// Unit of the user's own manager, if there is one in between.
    pub(super) user: Option<&'p [u8]>,
}

impl<'p> Units<'p> {
    /// The most specific unit.
    pub(super) fn nearest(&self) -> Option<&'p [u8]> {
        self.user.or(self.system)
    }
}

/// The path in a file of /proc/PID/cgroup: of the unified hierarchy or, if that is not in use and has only its root, of
/// systemd's own hierarchy.
pub(super) fn path_in(table: &[u8]) -> Option<&[u8]> {
    let (mut unified, mut of_systemd) = (None, None);
    for line in table.split(|&byte| byte == b'\n') {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        match (fields.next(), fields.next(), fields.next()) {
            (Some(b"0"), Some(b""), Some(path)) => unified = Some(path),
            (_, Some(b"name=systemd"), Some(path)) => of_systemd = Some(path),
            _ => {}
        }
    }
    unified.filter(|&path| path != b"/").or(of_systemd).or(unified)
}

/// Finds the units in the path of a control group.
pub(super) fn units(path: &[u8]) -> Units<'_> {
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(unescaped);
    let mut next = || names.find(|name| !name.ends_with(b".slice")).filter(|name| is_unit(name));
    let system = next();
    let is_manager = |unit: &[u8]| {
        unit.starts_with(b"user@") && unit.ends_with(b".service") && unit.len() > b"user@.service".len()
    };
    let user = if system.is_some_and(is_manager) { next() } else { None };
    Units { system, user }
}

/// If a name could be mistaken for a file of the control group, systemd writes a `_` before it.
fn unescaped(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"_").unwrap_or(name)
}

fn is_unit(name: &[u8]) -> bool {
    const KINDS: [&[u8]; 5] = [b".service", b".scope", b".socket", b".mount", b".swap"];
    KINDS.iter().any(|kind| name.len() > kind.len() && name.ends_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_found_by_the_path_of_the_control_group() {
        for (path, system, user) in [
            ("/system.slice/smbd.service", "smbd.service", ""),
            ("/system.slice/system-namegate.slice/namegate@share.service", "namegate@share.service", ""),
            ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope", ""),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope/b",
                "user@1000.service",
                "a.scope",
            ),
            ("/user.slice/user-1000.slice/user@1000.service/init.scope", "user@1000.service", "init.scope"),
            ("/system.slice/docker-4f.scope/system.slice/nginx.service", "docker-4f.scope", ""),
            ("/system.slice/_cpu.service", "cpu.service", ""),
            ("/init.scope", "init.scope", ""),
            ("/lxc/web/system.slice/nginx.service", "", ""),
            ("/../../x", "", ""),
            ("/.service", "", ""),
            ("/", "", ""),
            ("", "", ""),
        ] {
            let expected = |unit: &'static str| Some(unit.as_bytes()).filter(|unit| !unit.is_empty());
            assert_eq!(
                units(path.as_bytes()),
                Units { system: expected(system), user: expected(user) },
                "{path}"
            );
        }
    }

    #[test]
    fn the_path_is_that_of_the_unified_hierarchy_or_of_systemds_own() {
        assert_eq!(path_in(b"0::/system.slice/a.service\n"), Some(&b"/system.slice/a.service"[..]));
        assert_eq!(path_in(b"12:cpu,cpuacct:/x\n1:name=systemd:/a:b\n0::/c\n"), Some(&b"/c"[..]));
        assert_eq!(path_in(b"12:cpu,cpuacct:/x\n1:name=systemd:/a:b\n"), Some(&b"/a:b"[..]));
        assert_eq!(path_in(b"1:name=systemd:/a.service\n0::/\n"), Some(&b"/a.service"[..]));
        assert_eq!(path_in(b"12:cpu:/x\n0::/\n"), Some(&b"/"[..]));
        assert_eq!(path_in(b"12:cpu:/x\n"), None);
        assert_eq!(path_in(b"\n:\n0\n0:"), None);
    }
}
