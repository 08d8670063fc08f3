//! The units in `systemd/`: checked by systemd itself if it is installed; their commands are run.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The units, each with the instance for the test.
const UNITS: [(&str, &str); 7] = [
    ("namegate@.service", "share"),
    ("namegate-watch@.service", "srv-share"),
    ("namegate-scan@.service", "srv-share"),
    ("namegate-scan@.timer", "srv-share"),
    ("namegate-guard@.service", "srv-share"),
    ("namegate-guard-events.service", ""),
    ("user/namegate-notify@.service", "mnt-share"),
];

/// The path of the installed program.
const INSTALLED: &str = "/usr/bin/namegate";

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd")
}

fn unit(name: &str) -> String {
    fs::read_to_string(units().join(name)).unwrap()
}

/// The values of a setting, in order, with line continuations joined.
fn values<'u>(unit: &'u str, setting: &'u str) -> impl Iterator<Item = &'u str> {
    unit.lines().filter_map(move |line| line.strip_prefix(setting)?.strip_prefix('='))
}

/// A directory with all units as instances that start the program that was built.
fn instances() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, instance) in UNITS {
        let text = unit(name).replace(INSTALLED, env!("CARGO_BIN_EXE_namegate"));
        let file = name.rsplit('/').next().unwrap().replace('@', &format!("@{instance}"));
        fs::write(dir.path().join(file), text).unwrap();
    }
    dir
}

fn analyze(args: &[&str], unit: &Path) -> Option<Output> {
    match Command::new("systemd-analyze").args(args).arg(unit).env("SYSTEMD_COLORS", "0").output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("SKIPPED: no systemd-analyze: {error}");
            None
        }
    }
}

fn all(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let dir = instances();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let Some(output) = analyze(&["verify", "--man=no"], &path) else { return };
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let messages = all(&output);
        // Messages about other units of this machine do not count.
        let ours: Vec<&str> = messages.lines().filter(|line| line.contains("namegate")).collect();
        assert!(output.status.success() && ours.is_empty(), "{name}: {messages}");
    }
}

#[test]
fn the_units_for_scan_and_watch_have_the_lowest_exposure_that_systemd_offers() {
    let dir = instances();
    // In tenths, up to ten.
    for (name, most) in [("namegate-scan@srv-share.service", 15), ("namegate-watch@srv-share.service", 25)] {
        let threshold = format!("--threshold={most}");
        let args = ["security", "--offline=true", &threshold];
        let Some(output) = analyze(&args, &dir.path().join(name)) else { return };
        let messages = all(&output);
        if messages.contains("unrecognized option") {
            return println!("SKIPPED: this systemd-analyze cannot verify files");
        }
        assert!(output.status.success(), "{name}: {messages}");
    }
}

/// Settings that give a unit a mount namespace of its own, by systemd.exec(5).
const WITH_NAMESPACE: &[&str] = &[
    "PrivateTmp",
    "PrivateDevices",
    "PrivateMounts",
    "PrivateIPC",
    "PrivateUsers",
    "PrivatePIDs",
    "ProtectSystem",
    "ProtectHome",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectProc",
    "ProcSubset",
    "ReadWritePaths",
    "ReadOnlyPaths",
    "InaccessiblePaths",
    "ExecPaths",
    "NoExecPaths",
    "TemporaryFileSystem",
    "BindPaths",
    "BindReadOnlyPaths",
    "RootDirectory",
    "RootImage",
    "MountImages",
    "ExtensionImages",
    "ExtensionDirectories",
    "MountFlags",
    "MountAPIVFS",
    "DynamicUser",
    "LogNamespace",
];

#[test]
fn units_for_a_mount_and_a_guard_have_no_mount_namespace_of_their_own() {
    let mounting = unit("namegate@.service");
    for setting in WITH_NAMESPACE {
        assert_eq!(values(&mounting, setting).count(), 0, "{setting}");
    }
    // What a guard pins, and its path, must be those of everybody.
    let guarding = unit("namegate-guard@.service");
    for setting in WITH_NAMESPACE {
        assert_eq!(values(&guarding, setting).count(), 0, "{setting}");
    }
    // And settings that would keep the server from acting for clients.
    for setting in ["RestrictSUIDSGID", "DevicePolicy", "User", "AmbientCapabilities", "UMask"] {
        assert_eq!(values(&mounting, setting).count(), 0, "{setting}");
    }
}

#[test]
fn the_unit_for_a_mount_allows_the_capabilities_of_the_server() {
    use namegate::service::confinement::FOR_SERVING;
    let mounting = unit("namegate@.service");
    let left: Vec<&str> =
        values(&mounting, "CapabilityBoundingSet").flat_map(str::split_whitespace).collect();
    let names = [
        (0, "CAP_CHOWN"),
        (1, "CAP_DAC_OVERRIDE"),
        (2, "CAP_DAC_READ_SEARCH"),
        (3, "CAP_FOWNER"),
        (4, "CAP_FSETID"),
        (6, "CAP_SETGID"),
        (7, "CAP_SETUID"),
        (9, "CAP_LINUX_IMMUTABLE"),
        (21, "CAP_SYS_ADMIN"),
        (27, "CAP_MKNOD"),
        (28, "CAP_LEASE"),
        (31, "CAP_SETFCAP"),
    ];
    let of_names: u64 = names.iter().map(|(number, _)| 1 << number).sum();
    assert_eq!(of_names, FOR_SERVING.0, "a capability that this test does not know");
    for (_, name) in names {
        assert!(left.contains(&name), "{name}");
    }
    let more: Vec<_> = left.iter().filter(|name| !names.iter().any(|(_, known)| known == *name)).collect();
    assert_eq!(
        more,
        [&"CAP_SETPCAP", &"CAP_SYS_PTRACE"],
        "what is given up at the beginning, or kept with hidepid"
    );
}

#[test]
fn the_command_of_the_scan_unit_scans_and_writes_a_report() {
    let scanning = unit("namegate-scan@.service");
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(place("state/namegate/scan")).unwrap();
    fs::create_dir(place("tree")).unwrap();
    fs::write(place("tree/a\u{1B}b"), "").unwrap();
    let options =
        values(&scanning, "Environment").find_map(|line| line.strip_prefix("NAMEGATE_SCAN_OPTIONS="));
    let line = values(&scanning, "ExecStart").next().unwrap();
    let line = line
        .replace(INSTALLED, env!("CARGO_BIN_EXE_namegate"))
        .replace("$NAMEGATE_SCAN_OPTIONS", options.unwrap())
        .replace("%S", &place("state"))
        .replace("%i", "tree")
        .replace("%f", &place("tree"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    // Findings, which are a success for the unit.
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert_eq!(values(&scanning, "SuccessExitStatus").collect::<Vec<_>>(), ["1"]);
    let report = fs::read_to_string(place("state/namegate/scan/tree.jsonl")).unwrap();
    assert!(report.contains("c0-control"), "{report}");
}

#[test]
fn the_example_configuration_is_valid() {
    use namegate_settings::MountFile;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/share.toml");
    let text = fs::read_to_string(path).unwrap();
    let whole = text.replace("# file = ", "file = ");
    for text in [&text, &whole] {
        let file = MountFile::parse(text).unwrap_or_else(|error| panic!("{error}"));
        file.check().unwrap();
        assert_eq!(file.settings.source, file.settings.mountpoint);
    }
}

#[test]
fn the_example_for_tmpfiles_enables_io_uring_where_the_kernel_has_it() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/io-uring.tmpfiles.conf");
    let dir = tempfile::tempdir().unwrap();
    let root = format!("--root={}", dir.path().display());
    let create = || Command::new("systemd-tmpfiles").args(["--create", &root]).arg(&example).output();
    let Ok(output) = create() else { return println!("SKIPPED: no systemd-tmpfiles") };
    assert!(output.status.success(), "{}", all(&output));
    let parameter = dir.path().join("sys/module/fuse/parameters/enable_uring");
    assert!(!parameter.exists(), "an older kernel");
    fs::create_dir_all(parameter.parent().unwrap()).unwrap();
    fs::write(&parameter, "N\n").unwrap();
    assert!(create().unwrap().status.success());
    assert_eq!(fs::read_to_string(&parameter).unwrap().trim(), "Y");
}

#[test]
fn systemd_generates_units_from_the_fstab_lines() {
    const GENERATOR: &str = "system-generators/systemd-fstab-generator";
    let generator = ["/usr/lib/systemd", "/lib/systemd"].map(|base| Path::new(base).join(GENERATOR));
    let Some(generator) = generator.iter().find(|path| path.exists()) else {
        return println!("SKIPPED: no systemd-fstab-generator");
    };
    let dir = tempfile::tempdir().unwrap();
    let generate = |text: &str| {
        let dir = tempfile::tempdir_in(dir.path()).unwrap().keep();
        let fstab = dir.join("fstab");
        fs::write(&fstab, text).unwrap();
        let made = ["normal", "early", "late"].map(|name| dir.join(name));
        made.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let output = Command::new(generator).args(&made).env("SYSTEMD_FSTAB", &fstab).output().unwrap();
        (made[0].clone(), all(&output))
    };
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OPERATIONS.md")).unwrap();
    let blocks: Vec<_> =
        page.split("```fstab\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let (made, said) = generate(block);
        for line in block.lines() {
            let place = line.split_whitespace().nth(1).unwrap();
            let unit = made.join(format!("{}.mount", place[1..].replace('/', "-")));
            let text = fs::read_to_string(&unit).unwrap_or_else(|_| panic!("{line}: {said}"));
            let what = line.split_whitespace().next().unwrap();
            assert!(text.lines().any(|found| found == format!("What={what}")), "{line}: {text} {said}");
        }
        assert!(!said.contains("uplicate"), "{said}");
    }
    let (made, said) = generate(
        "/srv/share /mnt/share namegate profile=strict:windows,nofail,_netdev,x-systemd.requires-mounts-for=/srv/share 0 0\n\
         /srv/other /mnt/other namegate ro,noauto,x-systemd.automount,x-systemd.idle-timeout=60 0 0\n",
    );
    let read = |name: &str| fs::read_to_string(made.join(name)).unwrap_or_else(|_| panic!("{name}: {said}"));
    let mounting = read("mnt-share.mount");
    for line in ["What=/srv/share", "Where=/mnt/share", "Type=namegate", "RequiresMountsFor=/srv/share"] {
        assert!(mounting.lines().any(|found| found == line), "{line} in {mounting}");
    }
    assert!(made.join("remote-fs.target.wants/mnt-share.mount").is_symlink(), "wanted, not required: nofail");
    assert!(read("mnt-other.automount").contains("TimeoutIdleSec="));
    // The helper accepts all options that systemd passes on.
    let options = mounting.lines().find_map(|line| line.strip_prefix("Options=")).unwrap();
    let helper = dir.path().join("mount.namegate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_namegate"), &helper).unwrap();
    let places = [dir.path().join("source"), dir.path().join("mountpoint")];
    let output = Command::new(helper).args(places).args(["-f", "-o", options]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}
