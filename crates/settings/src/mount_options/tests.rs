use std::path::Path;

use namegate_core::gate::{Existing, Mode};
use nix::mount::MsFlags;

use super::*;

/// Those of a mount without options.
const DEFAULT_FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

fn read(list: &str) -> Result<MountOptions, String> {
    MountOptions::parse(&[list.into()], Strictness::Strict)
}

fn flags(options: &MountOptions) -> MsFlags {
    options.settings.kernel_flags(DEFAULT_FLAGS)
}

#[test]
fn the_later_word_holds_and_profiles_add_up() {
    let words =
        read("ro,suid,mode=permissive,profile=strict,rw,nosuid,mode=enforcing,profile=windows").unwrap();
    assert_eq!(flags(&words), DEFAULT_FLAGS);
    assert_eq!(words.settings.mode, Some(Mode::Enforcing));
    let both = read("profile=strict:windows").unwrap();
    assert_eq!(words.settings.profile.unwrap().len(), 2);
    assert_eq!(both.settings.profile.unwrap().len(), 2);
    let lists = ["ro,mode=permissive,nodev", "rw,mode=enforcing,existing=show,suid,dev"].map(OsString::from);
    let words = MountOptions::parse(&lists, Strictness::Strict).unwrap();
    assert_eq!(words.settings.existing, Some(Existing::Show));
    assert_eq!(words.settings.mode, Some(Mode::Enforcing));
    assert_eq!(flags(&words), MsFlags::empty());
}

#[test]
fn what_is_for_fstab_is_passed_over() {
    let list = "defaults,auto,noauto,user,nofail,_netdev,x-systemd.automount,x-systemd.requires=/srv,X-mount.mkdir,\
                comment=systemd.automount,user=peter,relatime,diratime,default_permissions,,";
    assert_eq!(format!("{:?}", read(list).unwrap()), format!("{:?}", MountOptions::default()));
}

#[test]
fn a_value_may_hold_a_comma_between_quotation_marks_and_any_bytes() {
    let words = read(r#"config="/etc/a,b.toml",ro"#).unwrap();
    let config = read(r"config=/etc/a%b.toml,ro").unwrap();
    let as_text = |words: &MountOptions| format!("{:?}", words.settings);
    assert_eq!(as_text(&words), as_text(&config).replace('%', ","));
    assert!(flags(&words).contains(MsFlags::MS_RDONLY));
    let words =
        MountOptions::parse(&[OsString::from_vec(b"audit=/\xFF".into())], Strictness::Strict).unwrap();
    assert_eq!(words.settings.audit.as_deref(), Some(Path::new(OsStr::from_bytes(b"/\xFF"))));
}

#[test]
fn a_mistake_is_named_with_what_was_probably_meant() {
    for (list, expected) in [
        ("ro,nosiud", "unknown mount option `nosiud`; did you mean `nosuid`?"),
        ("check_target", "unknown mount option `check_target`; did you mean `check_targets`?"),
        ("entry-timeuot=1", "did you mean `entry_timeout`?"),
        ("\u{1b}[2J", r"unknown mount option `\u{1B}[2J`"),
        ("ro=1", "mount option `ro=1`: it takes no value"),
        (
            "mode=permisive",
            "mount option `mode=permisive`: unknown mode `permisive`; did you mean `permissive`?",
        ),
        ("mode", "mount option `mode`: a value is required"),
        ("check_targets=yes", "mount option `check_targets=yes`: not `true` or `false`"),
        (
            "profile=strict:widnows",
            "mount option `profile=strict:widnows`: unknown profile `widnows`; did you mean `windows`?",
        ),
        ("entry_timeout=-1", "not a number of seconds, such as 0, 0.5 or 60"),
        ("attr_timeout=NaN", "not a number of seconds"),
        ("attr_timeout=1e99", "not a number of seconds"),
        ("audit_rate=0", "mount option `audit_rate=0`: not a whole number from 1 to 4294967295"),
        ("fsname=", "mount option `fsname=`: not a text without control characters"),
        ("fsname=a\nb", r"mount option `fsname=a\nb`: not a text without control characters"),
        ("fsname", "mount option `fsname`: a value is required"),
        ("config=\"/etc/a", "a quotation mark is not closed"),
        ("ro,sync", "mount option `sync`: it has no effect on FUSE"),
        ("dirsync", "mount option `dirsync`: it has no effect on FUSE"),
        ("strictatime", "mount option `strictatime`: it has no effect on FUSE"),
        ("nodiratime", "takes effect where the file system of the source is mounted with it"),
        ("norelatime", "it has no effect on FUSE"),
        ("lazytime", "it has no effect on FUSE"),
        (
            "nonempty",
            "`nonempty` is of other file systems: it is not needed, because a directory with entries",
        ),
        ("auto_unmount", "a mount whose server died stays"),
        ("big_writes", "it is not needed"),
        ("max_read=131072", "it is not needed"),
        ("uid=1000", "owners and permissions are those of the source"),
        ("context=system_u:object_r:samba_share_t:s0", "samba_share_fusefs"),
        ("remount,ro", "remounting is done by mount(8)"),
        (
            "profile=strict,windows",
            "unknown mount option `windows`; a comma ends an option, so `:` separates profiles",
        ),
        ("daemon", "`daemon` is not a mount option: a mount by mount(8) is always in the background"),
        ("source=/x", "`source=/x` is not a mount option: it is an argument"),
    ] {
        let mistake = read(list).unwrap_err();
        assert!(mistake.contains(expected), "{list}: {mistake}");
        assert!(!mistake.contains('\n') && !mistake.contains('\x1b'), "{mistake}");
    }
}

#[test]
fn whoever_mounts_sloppily_has_unknown_words_passed_over_and_no_other_mistake() {
    let sloppy = |list: &str| MountOptions::parse(&[list.into()], Strictness::Sloppy);
    assert!(flags(&sloppy("ro,cifs_thing=1,whatever").unwrap()).contains(MsFlags::MS_RDONLY));
    assert!(sloppy("mode=nonsense").is_err());
}

#[test]
fn options_of_others_are_no_options_here_and_have_one_answer() {
    let keys = || OF_OTHERS.iter().flat_map(|(keys, _)| *keys).chain(WITHOUT_EFFECT);
    for key in keys() {
        assert!(!IGNORED.contains(key) && !names().iter().any(|name| name == key), "{key}");
        assert_eq!(keys().filter(|other| *other == key).count(), 1, "{key}");
        assert!(read(key).is_err(), "{key}");
    }
}
