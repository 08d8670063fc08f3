//! `mount -t namegate`, fstab, and the mount helper alone. The link in /sbin is created in a separate mount namespace.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::background::Unmounted;
use namegate_testkit::mounted::{can_mount, is_mounted, prepare};

/// Runs `script` with the links in /sbin that packages install; `$1` is a directory with `backing` and `mnt` in it. `None` if
/// that is not possible.
fn with_helper(dir: &Path, script: &str) -> Option<Output> {
    // A tmpfs with links to the programs covers /sbin, so that the system is not changed.
    let prelude = r#"
        set -eu
        sbin=$(readlink -f /sbin)
        mkdir "$1/sbin" && mount -t tmpfs none "$1/sbin" && mkdir "$1/sbin/before" "$1/sbin/after"
        mount --bind "$sbin" "$1/sbin/before"
        for program in "$1/sbin/before"/*; do ln -s "$program" "$1/sbin/after/"; done
        . "$2/scripts/lib/generate.sh"
        link_helpers "$0" "$1/sbin/after"
        mount --bind "$1/sbin/after" "$sbin"
        export LC_ALL=C
        "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{prelude}{script}"), env!("CARGO_BIN_EXE_namegate")]);
    match command.arg(dir).arg(env!("CARGO_MANIFEST_DIR")).env_remove("RUST_LOG").output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("SKIPPED: no unshare");
            None
        }
        output => Some(output.unwrap()),
    }
}

fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

#[test]
fn mount_accepts_the_type_and_shows_the_source() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let script = r#"
        mount -t namegate "$1/backing" "$1/mnt" -o ro,noexec,profile=strict:windows,x-ignored=1
        findmnt -n --nofsroot -o SOURCE,FSTYPE,OPTIONS "$1/mnt"
        umount "$1/mnt"
        mount -t namegate "$1/backing" "$1/mnt" -o profile=windows
        mkdir "$1/mnt/con" && exit 9
        mkdir "$1/mnt/good"
        umount "$1/mnt""#;
    let Some(output) = with_helper(dir.path(), script) else { return };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let backing = dir.path().join("backing");
    let expected = format!("{} fuse.namegate ro,nosuid,nodev,noexec,", backing.to_str().unwrap());
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("Invalid argument"), "{said}");
    assert!(backing.join("good").exists() && !backing.join("con").exists());
}

#[test]
fn a_line_in_fstab_is_sufficient() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let line = format!(
        "{0}/backing {0}/mnt namegate defaults,nofail,_netdev,noauto,x-systemd.automount,errno=EACCES,existing=hide,suid=true,dev=true 0 0\n",
        dir.path().to_str().unwrap()
    );
    fs::write(dir.path().join("fstab"), line).unwrap();
    let script = r#"
        mount -T "$1/fstab" "$1/mnt"
        mkdir "$1/mnt/$(printf '\200')" && exit 9
        findmnt -n -o FSTYPE,VFS-OPTIONS "$1/mnt"
        sed s/noauto,// "$1/fstab" >"$1/auto"
        mount -a -T "$1/auto"
        mount -a -T "$1/auto"
        umount "$1/mnt""#;
    let Some(output) = with_helper(dir.path(), script) else { return };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Permission denied") && said.contains("fuse.namegate"), "{said}");
    // mount(8) keeps the plain words to itself.
    assert!(!said.contains("nosuid") && !said.contains("nodev"), "{said}");
}

#[test]
fn a_remount_changes_flags_and_explains_how_to_change_other_settings() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let script = r#"
        mount -t namegate "$1/backing" "$1/mnt" -o profile=windows
        mkdir "$1/mnt/there"
        exec 3>"$1/mnt/open"
        mount -o remount,ro "$1/mnt" && exit 11
        exec 3>&-
        until mount -o remount,ro "$1/mnt" 2>/dev/null; do sleep 0.1; done
        mkdir "$1/mnt/other" && exit 12
        mkdir "$1/mnt/there" && exit 13
        findmnt -n -o OPTIONS,FS-OPTIONS "$1/mnt"
        mount -o remount,rw,noexec "$1/mnt"
        mkdir "$1/mnt/other"
        mkdir "$1/mnt/con" && exit 14
        findmnt -n -o VFS-OPTIONS "$1/mnt"
        mount -o remount,exec,errno=EACCES "$1/mnt"
        findmnt -n -o VFS-OPTIONS "$1/mnt"
        mount -o remount,profile=strict "$1/mnt" && exit 15
        mount -o remount,noatime "$1/mnt" && exit 16
        umount "$1/mnt"
        "$1/sbin/after/mount.namegate" "$1/backing" "$1/mnt" -o remount,ro && exit 17
        echo done"#;
    let Some(output) = with_helper(dir.path(), script) else { return };
    let said = text(&output);
    assert!(output.status.success() && said.contains("\ndone\n"), "{said}");
    for expected in [
        "cannot remount",
        "resource busy",
        "Read-only file system",
        "File exists",
        "ro,nosuid,nodev,relatime",
        "rw,nosuid,nodev,noexec,relatime\n",
        "rw,nosuid,nodev,relatime\n",
        "a remount does not change `errno`: change the mount configuration and run `namegate reload`",
        "a remount does not change `profile`",
        "`noatime` takes effect at the next mount",
        "namegate is not mounted there",
    ] {
        assert!(said.contains(expected), "{expected:?} in {said}");
    }
}

#[test]
fn mount_prints_the_reason_of_a_failure() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let script = r#"
        mount -t namegate "$1/backing" "$1/mnt" -o ro,profil=strict || echo "status $?"
        mount -t namegate "$1/missing" "$1/mnt" || echo "status $?""#;
    let Some(output) = with_helper(dir.path(), script) else { return };
    let said = text(&output);
    for expected in [
        "unknown mount option `profil`; did you mean `profile`?",
        "status 1\n",
        "cannot serve",
        "status 32\n",
    ] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}

#[test]
fn the_helper_follows_the_protocol_of_mount() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let program = dir.path().join("mount.namegate");
    symlink(env!("CARGO_BIN_EXE_namegate"), &program).unwrap();
    let (source, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    let _unmounted = Unmounted(&mnt);
    let helper = |args: &[&str]| {
        let output = Command::new(&program).args([&source, &mnt]).args(args).output().unwrap();
        (output.status.code().unwrap(), text(&output))
    };
    for (args, expected, status) in [
        (&["-o", "nonsense"][..], "unknown mount option `nonsense`", 1),
        (&["-o", "mode=nonsense", "-s"], "unknown mode `nonsense`", 1),
        (&["--nonsense"], "unexpected argument", 1),
        (&["-f", "-o", "config=/nonexistent"], "cannot be read", 32),
        (&["-o", "config=/nonexistent"], "cannot be read", 32),
        (&["-N", "/nonexistent"], "cannot enter the mount namespace", 32),
        (&["-f"], "", 0),
    ] {
        let (actual, said) = helper(args);
        assert!(actual == status && said.contains(expected), "{args:?}: {actual} {said}");
        assert!(!is_mounted(&mnt), "{args:?}");
    }
    let this = std::process::id().to_string();
    let all = ["-s", "-n", "-v", "-t", "namegate", "-N", &this, "-o", "rw,unheard_of,ro"];
    let (status, said) = helper(&all);
    assert_eq!(status, 0, "{said}");
    assert!(is_mounted(&mnt) && fs::write(mnt.join("file"), "").is_err());
    let (status, said) = helper(&[]);
    assert!(status == 0 && said.is_empty(), "the same again: {said}");
    let (status, said) = helper(&["-o", "fsname=other"]);
    assert!(status == 32 && said.contains("namegate is mounted there already"), "{said}");
    let output = Command::new(&program).args([dir.path().join("plain"), mnt.clone()]).output().unwrap();
    let said = text(&output);
    assert!(output.status.code() == Some(32) && said.contains("namegate is mounted there already"), "{said}");
}

#[test]
fn autofs_mounts_on_access_and_unmounts_when_idle_for_good() {
    if !can_mount() {
        return;
    }
    let is_missing = Command::new("automount").arg("--version").output().is_err();
    if is_missing || !fs::read_to_string("/proc/filesystems").unwrap().contains("autofs") {
        return println!("SKIPPED: no automount, or no autofs in this kernel");
    }
    let dir = prepare();
    let map = include_str!("../../docs/OPERATIONS.md").lines().find(|line| line.contains("-fstype=namegate"));
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let map =
        map.unwrap().replace("/srv/share", &place("mnt")).replace("/srv/disks/share", &place("backing"));
    fs::write(dir.path().join("map"), format!("{map}\n")).unwrap();
    fs::write(dir.path().join("master"), format!("/- {} --timeout=1\n", place("map"))).unwrap();
    // The automounter's own process group sees the bare directory.
    let script = r#"
        mount -t tmpfs none /run
        setsid automount --foreground --verbose --dont-check-daemon "$1/master" >"$1/log" 2>&1 & daemon=$!
        trap 'kill $daemon; wait $daemon' EXIT
        dir=$1 server="^[^ ]*namegate[^ ]* $1/backing"
        wait_until() { tries=0; until eval "$1"; do tries=$((tries + 1)); [ $tries -lt 600 ] || exit 97; sleep 0.1; done; }
        wait_until 'grep -q "mounted direct" "$dir/log"'
        mkdir "$1/mnt/first"
        pgrep -f "$server" >/dev/null
        wait_until 'grep -q "^expired" "$dir/log"'
        # The server has ended.
        wait_until '! pgrep -f "$server" >/dev/null'
        grep -c "^attempting to mount" "$1/log"
        mkdir "$1/mnt/second"
        grep -c "^attempting to mount" "$1/log"
        ! mkdir "$1/mnt/aux""#;
    let Some(output) = with_helper(dir.path(), script) else { return };
    let said = text(&output);
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(output.status.success() && said.starts_with("1\n2\n"), "{said}{log}");
    let backing = dir.path().join("backing");
    assert!(
        backing.join("first").exists() && backing.join("second").exists() && !backing.join("aux").exists()
    );
}
