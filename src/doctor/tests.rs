//! Simulated machines, made of files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::Condition::{Fail, Ok, Unknown, Warn};
use super::*;

/// A machine that consists of these files.
fn machine(files: &[(&str, &str)], is_root_user: bool) -> (TempDir, Machine) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let machine = Machine { root: dir.path().into(), is_root_user };
    (dir, machine)
}

/// The results of a check: condition, finding, advice.
fn found(machine: &Machine, id: &str) -> Vec<(Condition, String, String)> {
    let checks = machine.examine(&[]).into_iter().filter(|check| check.id == id);
    checks.map(|check| (check.condition, check.found, check.advice.unwrap_or_default())).collect()
}

/// The only result of a check.
fn condition(files: &[(&str, &str)], is_root_user: bool, id: &str) -> Condition {
    let (_dir, machine) = machine(files, is_root_user);
    let found = found(&machine, id);
    assert_eq!(found.len(), 1, "{id}: {found:?}");
    let (condition, text, advice) = &found[0];
    assert_eq!(
        advice.is_empty(),
        matches!(condition, Ok | Unknown),
        "{id}: {text}: advice comes with warnings and failures only"
    );
    *condition
}

const RELEASE: &str = "proc/sys/kernel/osrelease";
const STATUS: &str = "proc/self/status";
const ALL_RIGHTS: &str = "Name:\tx\nCapEff:\t000001ffffffffff\n";
const NO_RIGHTS: &str = "CapEff:\t0000000000000000\n";

#[test]
fn an_old_kernel_is_reported() {
    for (release, kernel, passthrough) in [
        ("6.18.5-amd64\n", Ok, Ok),
        ("6.9.0", Ok, Ok),
        ("6.8.12", Ok, Warn),
        ("5.6", Ok, Warn),
        ("5.5.19", Fail, Warn),
        ("10.0", Ok, Ok),
        ("nonsense", Unknown, Unknown),
    ] {
        let files = [(RELEASE, release), (STATUS, ALL_RIGHTS)];
        assert_eq!(condition(&files, true, "kernel"), kernel, "{release}");
        assert_eq!(condition(&files, true, "fuse-passthrough"), passthrough, "{release}");
    }
    let config = ("boot/config-6.12.1", "CONFIG_FUSE_FS=m\n# CONFIG_FUSE_PASSTHROUGH is not set\n");
    let files = [(RELEASE, "6.12.1\n"), (STATUS, ALL_RIGHTS), config];
    assert_eq!(condition(&files, true, "fuse-passthrough"), Warn);
    assert_eq!(condition(&[(RELEASE, "6.12.1"), (STATUS, NO_RIGHTS)], false, "fuse-passthrough"), Warn);
    assert_eq!(condition(&[(RELEASE, "6.12.1")], false, "fuse-passthrough"), Unknown);
}

#[test]
fn io_uring_is_reported_with_the_way_to_enable_it() {
    const PARAMETER: &str = "sys/module/fuse/parameters/enable_uring";
    for (files, part) in
        [(&[][..], "no io_uring"), (&[(PARAMETER, "N\n")], PARAMETER), (&[(PARAMETER, "Y\n")], "auto use")]
    {
        let (_dir, machine) = machine(files, true);
        let found = found(&machine, "fuse-io-uring");
        assert!(matches!(&found[..], [(Ok, text, _)] if text.contains(part)), "{found:?}");
        // Where it is enabled, something would be mounted.
        if part != "auto use" {
            let measured = machine.measure_transports();
            let expected = if files.is_empty() { Ok } else { Unknown };
            assert!(measured.condition == expected && measured.found.contains(part), "{measured:?}");
        }
    }
}

#[test]
fn requirements_of_users_are_checked_only_for_users() {
    for (is_root, helper, other) in [(true, Ok, Ok), (false, Fail, Warn)] {
        assert_eq!(condition(&[], is_root, "fusermount3"), helper);
        assert_eq!(
            condition(&[("etc/fuse.conf", "# user_allow_other\n")], is_root, "user-allow-other"),
            other
        );
    }
    assert_eq!(condition(&[("etc/fuse.conf", "user_allow_other\n")], false, "user-allow-other"), Ok);
    let (dir, machine) = machine(&[("usr/bin/fusermount3", "")], false);
    assert!(found(&machine, "fusermount3")[0].1.contains("not set-user-id"));
    let helper = dir.path().join("usr/bin/fusermount3");
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o4755)).unwrap();
    match nix::unistd::geteuid().is_root() {
        true => assert_eq!(found(&machine, "fusermount3")[0].0, Ok),
        false => println!("SKIPPED: only root can make a file of root"),
    }
}

#[test]
fn a_missing_device_is_reported_and_an_existing_one_is_opened() {
    assert_eq!(condition(&[], true, "fuse-device"), Fail);
    assert_eq!(condition(&[("dev/fuse", "")], true, "fuse-device"), Ok);
    let fanotify = ("proc/sys/fs/fanotify/max_user_marks", "1");
    assert_eq!(condition(&[fanotify, (STATUS, ALL_RIGHTS), (RELEASE, "5.9")], true, "fanotify"), Ok);
    assert_eq!(condition(&[fanotify, (STATUS, NO_RIGHTS), (RELEASE, "5.9")], true, "fanotify"), Warn);
    assert_eq!(condition(&[fanotify, (STATUS, ALL_RIGHTS), (RELEASE, "5.8")], true, "fanotify"), Warn);
    assert_eq!(condition(&[(STATUS, ALL_RIGHTS)], true, "fanotify"), Warn);
}

#[test]
fn mounts_in_another_encoding_are_reported_with_the_option_that_helps() {
    let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        23 22 8:2 / /mnt/ok rw - vfat /dev/sdb rw,codepage=437,iocharset=iso8859-1,utf8\n\
        24 22 8:3 / /mnt/usb\\040stick rw - vfat /dev/sdc rw,codepage=437,iocharset=iso8859-1\n\
        25 22 8:4 / /mnt/nas rw - cifs //nas/x rw,vers=3.1.1,iocharset=UTF-8\n\
        26 22 8:5 / /mnt/mac rw - hfsplus /dev/sdd rw,nls=koi8-r\n\
        27 22 8:6 / /mnt/cd ro - iso9660 /dev/sr0 ro,iocharset=cp850\n";
    let (_dir, machine) = machine(&[("proc/self/mountinfo", table)], true);
    let found = found(&machine, "name-encodings");
    let told: Vec<(&str, &str)> =
        found.iter().map(|(_, found, advice)| (found.as_str(), advice.as_str())).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].0.contains("/mnt/usb stick (vfat)") && told[0].1.contains("-o utf8:"), "{told:?}");
    assert!(told[1].0.contains("koi8-r") && told[1].1.contains("-o nls=utf8:"), "{told:?}");
    assert!(told[2].0.contains("cp850") && told[2].1.contains("-o iocharset=utf8:"), "{told:?}");
    assert_eq!(condition(&[("proc/self/mountinfo", "")], true, "name-encodings"), Ok);
    assert_eq!(condition(&[], true, "mounts"), Unknown);
}

#[test]
fn servers_that_store_names_in_another_encoding_are_named_with_the_setting() {
    for (file, bad, good) in [
        (
            "etc/proftpd/proftpd.conf",
            "UseEncoding ISO-8859-1 UTF-8\n",
            "# UseEncoding latin1\nUseEncoding UTF-8 UTF-8\n",
        ),
        ("etc/vsftpd.conf", "utf8_filesystem=NO\n", "utf8_filesystem=YES\n"),
        ("etc/rsyncd.conf", "[share]\n  charset = latin1\n", "[share]\n  charset = utf-8\n"),
    ] {
        let (_dir, machine_with_bad) = machine(&[(file, bad)], true);
        let told = found(&machine_with_bad, "server-encoding");
        assert!(
            matches!(&told[..], [(Warn, text, advice)] if text.contains(file) && advice.contains(file)),
            "{told:?}"
        );
        let (_dir, machine_with_good) = machine(&[(file, good)], true);
        assert!(found(&machine_with_good, "server-encoding").is_empty(), "{file}");
    }
    // proftpd 1.3.8 ends with "UseEncoding: expected Boolean parameter".
    let (_dir, alone) = machine(&[("etc/proftpd/proftpd.conf", "UseEncoding UTF-8\n")], true);
    let told = found(&alone, "server-encoding");
    assert!(matches!(&told[..], [(Fail, text, _)] if text.contains("does not start")), "{told:?}");
    for switch in ["on", "Off", "yes"] {
        let setting = format!("UseEncoding {switch}\n");
        let (_dir, machine) = machine(&[("etc/proftpd/proftpd.conf", setting.as_str())], true);
        assert!(found(&machine, "server-encoding").is_empty(), "{switch}");
    }
}

#[test]
fn a_title_that_replaced_the_environment_tells_no_locale() {
    let services = |environment: &'static str| {
        let files = [
            ("proc/7/cmdline", "sshd: x\0"),
            ("proc/7/cgroup", "0::/system.slice/ssh.service\n"),
            ("proc/7/environ", environment),
        ];
        let (_dir, machine) = machine(&files, true);
        found(&machine, "locale-services").remove(0)
    };
    for title in
        ["", "\0\0\0\0", "sshd: /usr/sbin/sshd -D [listener]\0\0", "0 of 10-100 startups\0PATH=/bin\0"]
    {
        assert_eq!(services(title).0, Unknown, "{title:?}");
    }
    let (condition, text, advice) = services("PATH=/bin\0LC_CTYPE=C.UTF-8\0LC_ALL=C\0");
    assert!(condition == Warn && text.contains("LC_ALL=C") && text.contains("AcceptEnv"), "{text}");
    assert!(advice.ends_with("UnsetEnvironment=LC_ALL"), "{advice}");
    let (_, _, advice) = services("PATH=/bin\0LANG=C\0LC_CTYPE=C\0");
    assert!(advice.contains("UnsetEnvironment=LC_CTYPE, Environment=LANG="), "{advice}");
    assert_eq!(services("LANG=C.UTF-8\0").0, Ok);
}

#[test]
fn the_locale_of_the_system_is_read_from_its_configuration() {
    let check = |files: &[(&str, &str)]| condition(files, true, "locale-system");
    assert_eq!(check(&[("etc/locale.conf", "LANG=\"C.UTF-8\"\n")]), Ok);
    assert_eq!(check(&[("etc/default/locale", "# x\n LANG=C.UTF-8\n")]), Ok);
    assert_eq!(check(&[("etc/locale.conf", "LANG=C.UTF-8\nLC_ALL=C\n")]), Warn);
    for (text, expected) in [
        ("#LC_ALL=C\nLANG=C.UTF-8\n", Ok),
        ("; LC_ALL=C\nLANG='C.UTF-8'\n", Ok),
        ("LANG=C.UTF-8 # was LANG=C\n", Ok),
        ("LANG=\"C.UTF-8\" # \"C\"\n", Ok),
        ("export LANG=C.UTF-8\n", Ok),
        ("LANG=C\nLANG=C.UTF-8\n", Ok),
        ("LANG=C.UTF-8\nLANG=C\n", Warn),
        ("#LANG=C.UTF-8\n", Warn),
        ("# LANG=C.UTF-8\nLANG=C # LC_ALL=C.UTF-8\n", Warn),
        ("LC_CTYPE=C\nLANG=C.UTF-8\n", Warn),
        ("LC_CTYPE=C.UTF-8\nLANG=C\n", Ok),
        ("LC_ALL=\nLC_CTYPE=\nLANG=C.UTF-8\n", Ok),
        ("XLC_ALL=C\nLANG=C.UTF-8\n", Ok),
    ] {
        for file in ["etc/locale.conf", "etc/default/locale"] {
            assert_eq!(check(&[(file, text)]), expected, "{file}: {text:?}");
        }
    }
    assert_eq!(check(&[("etc/locale.conf", "LANG=xx_XX.UTF-8\n")]), Warn, "not installed");
    assert_eq!(check(&[("etc/locale.conf", "\n")]), Warn);
    assert_eq!(check(&[]), Unknown);
    let systemd = ("proc/1/comm", "systemd\n");
    let file = ("etc/locale.conf", "LANG=C.UTF-8\n");
    assert_eq!(
        check(&[systemd, ("proc/1/environ", "PATH=/bin\0LANG=C\0"), file]),
        Warn,
        "the running manager comes first"
    );
    assert_eq!(
        check(&[systemd, ("proc/1/environ", "LANG=C.UTF-8\0LC_CTYPE=\0"), ("etc/locale.conf", "LANG=C")]),
        Ok
    );
}

#[test]
fn the_advice_on_a_locale_names_the_variable_that_is_in_effect() {
    let (_dir, locale_conf) = machine(&[("etc/locale.conf", "LANG=C.UTF-8\nLC_ALL=C\n")], true);
    let (_dir, manager) =
        machine(&[("proc/1/comm", "systemd\n"), ("proc/1/environ", "LANG=C.UTF-8\0LC_CTYPE=xx_XX\0")], true);
    let (_dir, only_lang) = machine(&[("etc/default/locale", "LANG=C\n")], true);
    for (machine, variable, found_part, place) in [
        (locale_conf, Some("LC_ALL"), "LC_ALL=C: names are ", "/etc/locale.conf"),
        (manager, Some("LC_CTYPE"), "LC_CTYPE=xx_XX: not installed", "systemd"),
        (only_lang, None, "LANG=C: names are ", "/etc/default/locale"),
    ] {
        let [(_, found, advice)] = &found(&machine, "locale-system")[..] else { panic!("one result") };
        assert!(found.contains(found_part) && advice.contains(place), "{found}: {advice}");
        let overrides = advice.contains("overrides LANG");
        assert!(overrides == variable.is_some() && advice.contains(variable.unwrap_or("LANG=")), "{advice}");
    }
}

#[test]
fn services_without_a_utf8_locale_are_named_once_each() {
    let stat =
        |pid: &str, name: &str, terminal: &str| format!("{pid} ({name}) S 1 {pid} {pid} {terminal} -1 0\n");
    let process = |pid: &str, group: &str, environment: &str, stat: String| {
        let file = |name: &str, text: &str| (format!("proc/{pid}/{name}"), text.to_owned());
        [file("cmdline", "x\0"), file("cgroup", group), file("environ", environment), file("stat", &stat)]
    };
    let unit = "0::/system.slice/system-smb.slice/smbd.service\n";
    let files: Vec<(String, String)> = [
        process("10", unit, "LANG=C\0", stat("10", "smbd", "0")),
        process("11", unit, "LANG=C\0", stat("11", "smbd", "0")),
        process("12", "0::/system.slice/good.service", "LANG=C\0LC_ALL=C.UTF-8\0", stat("12", "good", "0")),
        process(
            "13",
            "0::/user.slice/user-0.slice/user@0.service/x.service",
            "LANG=C\0",
            stat("13", "mine", "34816"),
        ),
        // A name that tries to look like several fields, and contains a terminal escape.
        process("14", "0::/", "A=1\0", stat("14", "evil) S 1 1 1 1\u{1b}[2J", "0")),
        process("15", "0::/", "LANG=C\0", stat("15", "bash", "34816")),
    ]
    .concat();
    let borrowed: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (_dir, machine) = machine(&borrowed, true);
    let [(told, found, _)] = &found(&machine, "locale-services")[..] else { panic!("one result") };
    assert_eq!(*told, Warn);
    assert_eq!(found.matches("smbd.service (LANG=C: names are ").count(), 1, "{found}");
    assert!(!found.contains("good") && !found.contains("mine") && !found.contains("bash"), "{found}");
    assert!(found.contains(r"evil) S 1 1 1 1\u{1B}[2J"), "{found}");
    assert!(!found.contains('\u{1b}'));
    assert_eq!(condition(&[], true, "locale-services"), Ok);
}

#[test]
fn processes_that_run_a_replaced_program_are_named() {
    let (dir, machine) = machine(&[], true);
    for (pid, program, words) in [
        ("7", "/usr/bin/namegate (deleted)", "/usr/bin/namegate\0mount\0--config\0x\0"),
        ("8", "/usr/bin/namegate", "/usr/bin/namegate\0watch\0/srv\0"),
        ("9", "/usr/bin/other (deleted)", "other\0"),
        ("10", "/usr/bin/namegate (deleted)", "/sbin/mount.namegate\0/a\0/b\0"),
        ("11", "/usr/local/bin/namegate (deleted)", "namegate\0wa\u{1b}tch\0"),
        ("self", "/usr/bin/namegate (deleted)", "namegate\0doctor\0"),
    ] {
        let process = dir.path().join("proc").join(pid);
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("cmdline"), words).unwrap();
        std::os::unix::fs::symlink(program, process.join("exe")).unwrap();
    }
    let [(condition, text, advice)] = &found(&machine, "programs")[..] else { panic!("one result") };
    assert_eq!(*condition, Warn);
    assert!(text.ends_with("process 7 (mount), process 10 (mount), process 11 (wa\\u{1B}tch)"), "{text}");
    assert!(advice.contains("namegate upgrade"), "{advice}");
}

#[test]
fn settings_of_samba_that_change_names_are_reported() {
    let check = |conf: &str| {
        let (_dir, machine) = machine(&[("etc/samba/smb.conf", conf)], true);
        found(&machine, "samba").into_iter().map(|(c, found, _)| (c, found)).collect::<Vec<_>>()
    };
    let good =
        "[global]\n  Unix  Charset = UTF-8\n# unix charset = KOI8-R\n; mangled names = yes\n[a]\npath=/x\n";
    assert_eq!(check(good), [(Ok, "smb.conf stores names in UTF-8 and unchanged".into())]);
    let bad = "[global]\nunix charset = ISO8859-15\nmangled names = yes\n[mac \u{1b}]\nvfs objects = acl_xattr \\\n  fruit streams_xattr\n\
        [cat]\nvfs objects = catia\ncatia:mappings = 0x22:0xa8\npreserve case = no\n";
    let told = check(bad);
    assert_eq!(told.len(), 5, "{told:?}");
    // What is advised is no warning.
    let conditions: Vec<_> = told.iter().map(|(condition, _)| *condition).collect();
    assert_eq!(conditions, [Warn, Warn, Ok, Warn, Warn], "{told:?}");
    assert!(told.iter().all(|(_, text)| !text.contains('\u{1b}')), "{told:?}");
    assert!(told[2].1.contains("fruit:encoding = private") && told[3].1.contains("0x22:0xa8"), "{told:?}");
    let native = "[x]\nvfs objects = fruit\nfruit:encoding = native\n";
    assert_eq!(check(native)[0].0, Ok);
}

#[test]
fn an_export_of_a_mount_needs_an_fsid() {
    let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        40 22 0:40 / /mnt/a\\040b rw - fuse.namegate /srv rw\n";
    let check = |exports: &str| {
        let files = [("proc/self/mountinfo", table), ("etc/exports.d/x.exports", exports)];
        let (_dir, machine) = machine(&files, true);
        found(&machine, "nfs-exports").into_iter().map(|(condition, ..)| condition).collect::<Vec<_>>()
    };
    assert_eq!(check("\"/mnt/a b\" *(rw)\n"), [Fail]);
    assert_eq!(check("/mnt/a\\040b/sub host(rw, \\\n fsid=7)\n"), [Ok]);
    assert_eq!(check("# /mnt/a\\040b *(rw)\n/srv *(rw)\n"), []);
}

#[test]
fn the_first_obstacle_to_a_guard_is_reported() {
    const LSM: &str = "sys/kernel/security/lsm";
    const TYPES: (&str, &str) = ("sys/kernel/btf/vmlinux", "");
    let check = |release: &str, files: &[(&str, &str)]| {
        condition(&[files, &[(RELEASE, release)]].concat(), true, "guard")
    };
    let with_bpf = (LSM, "lockdown,capability,apparmor,bpf\n");
    let (new, old) = if cfg!(target_arch = "aarch64") { ("6.4.0", "6.3.9") } else { ("6.1.0", "6.0.9") };
    assert_eq!(check(new, &[with_bpf, TYPES]), Ok);
    assert_eq!(check(old, &[with_bpf, TYPES]), Warn);
    assert_eq!(check(new, &[TYPES]), Unknown, "no securityfs");
    assert_eq!(check(new, &[(LSM, "capability,bpfx"), TYPES]), Warn);
    assert_eq!(check(new, &[with_bpf]), Warn, "no types");
    let locked = ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    assert_eq!(check(new, &[with_bpf, TYPES, locked]), Warn);
    assert_eq!(condition(&[], true, "guard"), Unknown);
    let (_dir, machine) = machine(&[(RELEASE, new), (LSM, "capability,yama")], true);
    let (_, _, advice) = &found(&machine, "guard")[0];
    assert!(advice.contains("lsm=capability,yama,bpf"), "{advice}");
}

#[test]
fn this_machine_is_examined_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let checks = Machine::this().examine(&[dir.path().into(), "/nowhere".into()]);
    let of = |id: &str| {
        checks.iter().filter(|check| check.id == id).map(|check| check.condition).collect::<Vec<_>>()
    };
    assert_eq!(of("kernel"), [Ok]);
    assert_eq!(of("file-handles")[1], Fail, "a missing directory cannot be mounted");
    assert!(!of("locale-caller").is_empty());
}
