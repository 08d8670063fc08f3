use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::*;
use crate::fuse::Options;
use crate::gate::{Existing, Mode};

fn read(list: &str) -> Result<Words, String> {
    Words::default().add(OsStr::new(list), Strictness::Strict)
}

#[test]
fn every_word_says_what_its_long_option_says() {
    let words = read(
        "ro,noexec,noatime,async,allow_other,fsname=share,verbose,mode=permissive,existing=hide,errno=EACCES,\
         check_targets,entry_timeout=0,attr_timeout=2.5,audit=/var/log/a,audit_group=adm,audit_log=off,audit_rate=7,audit_bytes=9999,log_format=json,\
         metrics_textfile=/x.prom,metrics_interval=5,metrics_listen=9630,no_sandbox,profile=strict:windows,\
         config=/etc/p.toml,normalize=nfc,on_mismatch=refuse",
    )
    .unwrap();
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOEXEC | MsFlags::MS_NOATIME;
    assert_eq!(words.flags(Options::DEFAULT_FLAGS), flags | Options::DEFAULT_FLAGS);
    assert!(words.allow_other && words.verbose && words.fsname.as_deref() == Some("share"));
    assert_eq!(words.log_format, Some(LogFormat::Json));
    let said = [
        "--mode=permissive",
        "--existing=hide",
        "--errno=eacces",
        "--check-targets",
        "--entry-timeout=0",
        "--attr-timeout=2.5",
        "--audit=/var/log/a",
        "--audit-group=adm",
        "--audit-log=off",
        "--audit-rate=7",
        "--audit-bytes=9999",
        "--metrics-textfile=/x.prom",
        "--metrics-interval=5",
        "--metrics-listen=127.0.0.1:9630",
        "--no-sandbox",
        "--profile=strict,windows",
        "--config=/etc/p.toml",
        "--normalize=nfc",
        "--on-mismatch=refuse",
    ];
    let mut of_word: Vec<String> =
        said.iter().map(|option| option[2..].split('=').next().unwrap().replace('-', "_")).collect();
    let mut all = settings();
    all.sort();
    of_word.sort();
    assert_eq!(all, of_word, "a setting is missing above");
    let matches = definitions().try_get_matches_from(said).unwrap();
    let expected = Settings::from_arg_matches(&matches).unwrap();
    assert_eq!(format!("{:?}", words.settings), format!("{expected:?}"));
    assert_eq!((expected.mode, expected.errno), (Some(Mode::Permissive), Some(Some(Errno::EACCES))));
    assert_eq!(expected.attr_timeout, Some(Duration::from_millis(2500)));
}

#[test]
fn the_later_word_holds_and_profiles_add_up() {
    let words =
        read("ro,suid,mode=permissive,profile=strict,rw,nosuid,mode=enforcing,profile=windows").unwrap();
    assert_eq!(words.flags(Options::DEFAULT_FLAGS), Options::DEFAULT_FLAGS);
    assert_eq!(words.settings.mode, Some(Mode::Enforcing));
    let both = read("profile=strict:windows").unwrap();
    assert_eq!(format!("{:?}", words.settings.policy), format!("{:?}", both.settings.policy));
    let words = words.add(OsStr::new("existing=show,dev"), Strictness::Strict).unwrap();
    assert_eq!(words.settings.existing, Some(Existing::Show));
    assert_eq!(words.settings.mode, Some(Mode::Enforcing));
    assert_eq!(words.flags(Options::DEFAULT_FLAGS), MsFlags::MS_NOSUID);
}

#[test]
fn what_is_for_fstab_is_passed_over() {
    let list = "defaults,auto,noauto,user,nofail,_netdev,x-systemd.automount,x-systemd.requires=/srv,X-mount.mkdir,\
                comment=systemd.automount,user=peter,relatime,nodiratime,default_permissions,,";
    assert_eq!(format!("{:?}", read(list).unwrap()), format!("{:?}", Words::default()));
}

#[test]
fn a_value_may_hold_a_comma_between_quotation_marks_and_any_bytes() {
    let words = read(r#"config="/etc/a,b.toml",ro"#).unwrap();
    let config = read(r"config=/etc/a%b.toml").unwrap();
    let as_text = |words: &Words| format!("{:?}", words.settings.policy);
    assert_eq!(as_text(&words), as_text(&config).replace('%', ","));
    assert!(words.flags(Options::DEFAULT_FLAGS).contains(MsFlags::MS_RDONLY));
    let words = Words::default().add(OsStr::from_bytes(b"audit=/\xFF"), Strictness::Strict).unwrap();
    assert_eq!(words.settings.audit.as_deref(), Some(Path::new(OsStr::from_bytes(b"/\xFF"))));
}

#[test]
fn a_mistake_is_named_with_what_was_probably_meant() {
    for (list, expected) in [
        ("ro,nosiud", "unknown mount option `nosiud`; did you mean `nosuid`?"),
        ("check_target", "unknown mount option `check_target`; did you mean `check_targets`?"),
        ("entry-timeuot=1", "did you mean `entry_timeout`?"),
        ("\u{1b}[2J", r"unknown mount option `\u{1b}[2J`"),
        ("ro=1", "unknown mount option `ro`"),
        ("mode=permisive", "mount option `mode=permisive`: invalid value 'permisive'"),
        ("mode", "a value is required"),
        ("check_targets=yes", "mount option `check_targets=yes`: unexpected value 'yes'"),
        ("profile=strict:widnows", "mount option `profile=strict:widnows`: invalid value 'widnows'"),
        ("entry_timeout=-1", "not a number of seconds, such as 0, 0.5 or 60"),
        ("attr_timeout=NaN", "not a number of seconds"),
        ("attr_timeout=1e99", "not a number of seconds"),
        ("audit_rate=0", "mount option `audit_rate=0`: invalid value '0'"),
        ("fsname=", "not a name to show"),
        ("fsname=a\nb", r"mount option `fsname=a\nb`: not a name to show"),
        ("fsname", "needs a name"),
        ("config=\"/etc/a", "a quotation mark is not closed"),
        ("ro,sync", "mount option `sync`: it has no effect on FUSE"),
        ("dirsync", "mount option `dirsync`: it has no effect on FUSE"),
        ("remount,ro", "remounting is done by mount(8)"),
    ] {
        let mistake = read(list).unwrap_err();
        assert!(mistake.contains(expected), "{list}: {mistake}");
        assert!(!mistake.contains('\n') && !mistake.contains('\x1b'), "{mistake}");
    }
}

#[test]
fn whoever_mounts_sloppily_has_unknown_words_passed_over_and_no_other_mistake() {
    let sloppy = |list: &str| Words::default().add(OsStr::new(list), Strictness::Sloppy);
    assert!(
        sloppy("ro,cifs_thing=1,whatever")
            .unwrap()
            .flags(Options::DEFAULT_FLAGS)
            .contains(MsFlags::MS_RDONLY)
    );
    assert!(sloppy("mode=nonsense").is_err());
}
