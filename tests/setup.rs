//! The scripts on a machine that has neither Rust nor a linker: all commands are stand-ins, and nothing is really
//! installed.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Commands that every Debian has and that the scripts use.
const ESSENTIAL: &[&str] = &[
    "bash", "sh", "env", "dirname", "sed", "cut", "sort", "head", "cat", "mktemp", "rm", "grep", "mkdir",
    "chmod",
];

/// A machine without Rust: a path with the essential commands, and an apt-get and a curl that record their arguments.
/// apt-get installs the packages in `can`; curl returns an installer that puts a cargo into the home directory.
fn bare_machine(dir: &Path, can: &str) {
    let path = std::env::var_os("PATH").unwrap();
    fs::create_dir_all(dir.join("bin")).unwrap();
    for name in ESSENTIAL {
        let program = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
        symlink(program.unwrap(), dir.join("bin").join(name)).unwrap();
    }
    script(dir, "bin/id", "echo 0");
    script(
        dir,
        "bin/apt-get",
        &format!(
            "echo \"apt-get $*\" >>$HOME/log\n\
             for word; do case \" {can} \" in *\" $word \"*) tool=$word; [ $word = gcc ] && tool=cc\n\
             printf '#!/bin/sh\\n' >{}/bin/$tool; chmod +x {0}/bin/$tool;; esac; done\n\
             for word; do case $word in -*|install|update|DPkg*) ;; *) case \" {can} \" in *\" $word \"*) ;; *) exit 100;; esac;; esac; done",
            dir.display()
        ),
    );
    script(
        dir,
        "bin/curl",
        "echo \"curl $*\" >>$HOME/log\n\
         echo 'echo \"rustup $*\" >>$HOME/log; mkdir -p $HOME/.cargo/bin'\n\
         echo 'printf \"#!/bin/sh\\n[ \\$1 = --version ] && echo cargo 1.99.0 && exit\\necho cargo \\$* >>$HOME/log; exit 7\\n\" >$HOME/.cargo/bin/cargo'\n\
         echo 'chmod +x $HOME/.cargo/bin/cargo'",
    );
}

fn script(dir: &Path, name: &str, text: &str) {
    let file = dir.join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn quickstart(dir: &Path, args: &[&str]) -> (Output, String) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/quickstart");
    let mut command = Command::new(program);
    command.args(args).env_clear().env("PATH", dir.join("bin")).env("HOME", dir).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output, fs::read_to_string(dir.join("log")).unwrap_or_default())
}

#[test]
fn nothing_is_installed_if_nobody_can_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    bare_machine(dir.path(), "gcc");
    let (output, log) = quickstart(dir.path(), &[]);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert_eq!(log, "", "{messages}");
    for part in ["packages, by apt-get: gcc", "Rust 1.", "by rustup", "NAMEGATE_YES=1", "--yes"] {
        assert!(messages.contains(part), "{part} in {messages}");
    }
}

#[test]
fn with_consent_a_bare_machine_gets_a_linker_and_rust_and_builds() {
    let dir = tempfile::tempdir().unwrap();
    bare_machine(dir.path(), "gcc libc6-dev ca-certificates");
    let (output, log) = quickstart(dir.path(), &["--yes"]);
    let messages = String::from_utf8_lossy(&output.stderr);
    let steps: Vec<&str> = log.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(steps, ["apt-get", "apt-get", "curl", "rustup", "cargo"], "{log}{messages}");
    assert!(log.contains("--no-install-recommends gcc"), "{log}");
    assert!(log.contains("rustup -y") && log.contains("--no-modify-path"), "{log}");
    assert!(log.contains("cargo build --release --locked"), "{log}");
    assert_eq!(output.status.code(), Some(7), "the build decides: {messages}");
}

#[test]
fn a_package_that_cannot_be_installed_ends_the_script_before_the_build() {
    let dir = tempfile::tempdir().unwrap();
    bare_machine(dir.path(), "nothing");
    let (output, log) = quickstart(dir.path(), &["--yes"]);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("Not installed (required): gcc"), "{messages}");
    assert!(!log.contains("cargo"), "{log}");
}

#[test]
fn the_package_has_a_link_for_each_name_that_mount_looks_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = ". scripts/lib/generate.sh; link_helpers x \"$0\"; ls \"$0\"";
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh").args(["-c", script]).arg(dir.path()).current_dir(root).output().unwrap();
    let made = String::from_utf8(output.stdout).unwrap();
    // The type that is asked for, and the one in the mount table: mount(8), "EXTERNAL HELPERS".
    assert_eq!(made, "mount.fuse.namegate\nmount.namegate\n");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for name in made.lines() {
        let asset = format!("[\"target/release/generated/sbin/{name}\", \"usr/sbin/{name}\", \"777\"]");
        assert!(manifest.contains(&asset), "{asset}");
    }
}
