//! File servers that serve a mount: Samba, with its client, and NFS in user space (Ganesha, with the client of libnfs), with the
//! configuration that docs/SERVERS.md shows. Both run on the loopback interface with their own directories, and end with the test.
//! `scripts/test-servers` installs them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use namegate_testkit::metrics::free_port;
use namegate_testkit::mounted::TestMount;
use namegate_testkit::wait_until;

use clients::shown;

mod clients;
mod escaped;
mod programs;

/// A server that is stopped on drop.
struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        // A server that does not end would keep the mount busy.
        for _ in 0..300 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The programs of rclone to test: the installed one, and another version in `NAMEGATE_TEST_RCLONE`.
fn rclones() -> Vec<OsString> {
    let installed = are_installed(&["rclone"]).then(|| OsString::from("rclone"));
    let another = std::env::var_os("NAMEGATE_TEST_RCLONE");
    if another.is_none() {
        println!("SKIPPED: the newest rclone; scripts/test-servers finds one");
    }
    installed.into_iter().chain(another).collect()
}

fn are_installed(programs: &[&str]) -> bool {
    let is_there = |program: &&str| {
        let found = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status();
        found.is_ok_and(|status| status.success())
    };
    let missing: Vec<&str> = programs.iter().filter(|program| !is_there(program)).copied().collect();
    if !missing.is_empty() {
        println!("SKIPPED: {} not installed; scripts/test-servers installs it", missing.join(", "));
    }
    missing.is_empty()
}

impl Server {
    /// Starts `program`, after `write` has written its configuration into a new directory.
    fn new(
        mounted: &TestMount,
        program: impl AsRef<OsStr>,
        write: impl Fn(&Path, u16) -> (String, Vec<String>),
    ) -> Self {
        let (dir, port) = (mounted.plain().with_file_name("server"), free_port());
        fs::create_dir(&dir).unwrap();
        let (configuration, args) = write(&dir, port);
        fs::write(dir.join("conf"), configuration).unwrap();
        let log = File::create(dir.join("out")).unwrap();
        let child = Command::new(program)
            .args(args)
            // smbd sends SIGTERM to its group when it ends.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { child, port, dir };
        wait_until("the server", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        server
    }

    /// Serves the mount as `share`, and the source itself as `plain`.
    fn samba(mounted: &TestMount) -> Self {
        Self::new(mounted, "smbd", |dir, port| {
            let (own, plain) = (dir.display(), mounted.backing());
            let own_directories: String =
                ["private dir", "lock directory", "state directory", "cache directory", "pid directory"]
                    .map(|option| format!("{option} = {own}\n"))
                    .concat();
            let configuration = format!(
                "[global]\nserver role = standalone server\nsmb ports = {port}\ninterfaces = lo\nbind interfaces only = yes\n\
                 {own_directories}ncalrpc dir = {own}/ncalrpc\nlog file = {own}/log\npassdb backend = tdbsam:{own}/passdb.tdb\n\
                 map to guest = Bad User\nguest account = nobody\ndisable netbios = yes\nload printers = no\nprinting = bsd\n\
                 disable spoolss = yes\n{}guest ok = yes\n[plain]\npath = {}\nread only = no\nguest ok = yes\n",
                shown("Samba", mounted),
                plain.display()
            );
            let conf = format!("--configfile={own}/conf");
            (
                configuration,
                ["--foreground", "--no-process-group", &conf, "--debug-stdout", "-d0"]
                    .map(String::from)
                    .to_vec(),
            )
        })
    }

    /// The output of the Samba client for `command`.
    fn smb(&self, command: &str) -> String {
        self.smb_of("share", command)
    }

    fn smb_of(&self, share: &str, command: &str) -> String {
        let output = Command::new("smbclient")
            .args(["-N", "-p", &self.port.to_string(), &format!("//127.0.0.1/{share}"), "-c", command])
            .arg(format!("--configfile={}/conf", self.dir.display()))
            .current_dir(&self.dir)
            .output()
            .unwrap();
        said(&output)
    }

    /// A server of rclone for one protocol, such as `webdav`.
    fn rclone(mounted: &TestMount, rclone: &OsStr, protocol: &str) -> Self {
        let mnt = mounted.mnt();
        Self::new(mounted, rclone, |_, port| {
            let args = ["serve", protocol, "--config=/dev/null", &format!("--addr=127.0.0.1:{port}")];
            (String::new(), args.map(String::from).into_iter().chain([mnt.display().to_string()]).collect())
        })
    }

    fn ganesha(mounted: &TestMount) -> Self {
        Self::new(mounted, "ganesha.nfsd", |dir, port| {
            let own = dir.display();
            fs::create_dir(dir.join("recovery")).unwrap();
            let configuration = format!(
                "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false;\n\
                 Enable_RQUOTA = false; allow_set_io_flusher_fail = true; }}\n\
                 NFSv4 {{ Graceless = true; Minor_Versions = 0; RecoveryRoot = {own}/recovery; Only_Numeric_Owners = true; }}\n\
                 EXPORT_DEFAULTS {{ Squash = No_Root_Squash; }}\n{}",
                shown("NFS", mounted)
            );
            let args = [
                "-F",
                "-f",
                &format!("{own}/conf"),
                "-L",
                &format!("{own}/log"),
                "-p",
                &format!("{own}/pid"),
            ];
            (configuration, args.map(String::from).to_vec())
        })
    }

    /// The output of a libnfs client for a file of the export.
    fn nfs(&self, program: &str, before: &[&Path], name: &OsStr) -> String {
        let mut url = OsString::from("nfs://127.0.0.1/share/");
        url.push(name);
        url.push(format!("?nfsport={}&version=4&auto-traverse-mounts=0", self.port));
        said(&Command::new(program).args(before).arg(url).output().unwrap())
    }
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Names that the policy refuses but SMB allows, and one that the client sends escaped.
const REFUSED: [&str; 5] = ["aux.txt", "CON", "trailing.", "trailing ", "caf\u{2426}E9"];

#[test]
fn samba_refuses_bad_names_with_a_status_that_the_errno_decides() {
    if !are_installed(&["smbd", "smbclient"]) {
        return;
    }
    for (errno, create, mkdir) in [
        ("EILSEQ", "NT_STATUS_ACCESS_DENIED", "NT_STATUS_ACCESS_DENIED"),
        // When opening, the client takes an invalid parameter as a sign of an older protocol.
        ("EINVAL", "NT_STATUS_", "NT_STATUS_INVALID_PARAMETER"),
        ("by-rule", "NT_STATUS_", "NT_STATUS_INVALID_PARAMETER"),
        ("EACCES", "NT_STATUS_ACCESS_DENIED", "NT_STATUS_ACCESS_DENIED"),
    ] {
        let Some(mounted) = TestMount::new(&["--profile", "windows", "--errno", errno]) else { return };
        let server = Server::samba(&mounted);
        fs::write(server.dir.join("file"), "content").unwrap();
        let put =
            server.smb("put file good.txt; mkdir März; put file März/ok.txt; rename good.txt better.txt");
        assert!(!put.contains("NT_STATUS"), "{put}");
        assert_eq!(fs::read_to_string(mounted.backing().join("better.txt")).unwrap(), "content");
        assert!(mounted.backing().join("März/ok.txt").exists());
        let say = |command: &dyn Fn(&str) -> String| server.smb(&REFUSED.map(command).join("; "));
        let told = |said: &str, status: &str| said.matches(status).count();
        let said = say(&|name| format!("put file \"{name}\""));
        assert_eq!(told(&said, create), REFUSED.len(), "{errno}: {said}");
        for command in ["mkdir", "rename better.txt"] {
            let said = say(&|name| format!("{command} \"{name}\""));
            assert_eq!(told(&said, mkdir), REFUSED.len(), "{errno}, {command}: {said}");
        }
        let mut left: Vec<_> =
            fs::read_dir(mounted.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["März", "better.txt"], "{errno}: no other entries were created");
    }
}

#[test]
fn samba_shows_and_removes_existing_names() {
    if !are_installed(&["smbd", "smbclient"]) {
        return;
    }
    let Some(mounted) = TestMount::new(&["--profile", "windows"]) else { return };
    let old = mounted.backing().join(OsStr::from_bytes(b"caf\xE9"));
    fs::write(&old, "old").unwrap();
    fs::write(mounted.backing().join("com1.txt"), "old").unwrap();
    let server = Server::samba(&mounted);
    let list = server.smb("ls");
    assert!(list.contains("caf\u{2426}E9") && list.contains("com1.txt"), "{list}");
    let told = server.smb("get com1.txt got; del com1.txt; rename caf\u{2426}E9 café; ls");
    assert!(!told.contains("NT_STATUS"), "{told}");
    assert_eq!(fs::read_to_string(server.dir.join("got")).unwrap(), "old");
    assert!(mounted.backing().join("café").exists() && !old.exists());
    assert!(!mounted.backing().join("com1.txt").exists());
}

#[test]
fn samba_lists_through_the_mount_what_it_leaves_out_of_the_plain_directory() {
    if !are_installed(&["smbd", "smbclient"]) {
        return;
    }
    let Some(mounted) = TestMount::new(&[]) else { return };
    let dir = mounted.backing().join("dir");
    fs::create_dir(&dir).unwrap();
    for name in [&b"caf\xE9"[..], b"\xFF", b"a.txt", "März.txt".as_bytes()] {
        fs::write(dir.join(OsStr::from_bytes(name)), "").unwrap();
    }
    for place in [&dir, &mounted.backing()] {
        namegate_testkit::mounted::open_to_all(place);
    }
    let server = Server::samba(&mounted);
    let list = |share: &str| {
        let listed = server.smb_of(share, "ls dir/*");
        let names = listed.lines().filter_map(|line| line.split_once(" N ").map(|(name, _)| name.trim()));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(list("plain"), ["März.txt", "a.txt"]);
    assert_eq!(list("share"), ["März.txt", "a.txt", "caf\u{2426}E9", "\u{2426}FF"]);
    let said = server.smb_of("plain", "deltree dir");
    assert!(said.contains("NT_STATUS_DIRECTORY_NOT_EMPTY"), "{said}");
    let said = server.smb("deltree dir");
    assert!(!said.contains("NT_STATUS") && !dir.exists(), "{said}");
}

#[test]
fn nfs_refuses_bad_names_with_a_status_that_the_errno_decides() {
    if !are_installed(&["ganesha.nfsd", "nfs-cp", "nfs-ls", "nfs-cat"]) {
        return;
    }
    let in_kernel = fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.contains("nfsd"));
    if !in_kernel {
        println!("SKIPPED: this kernel has no NFS server; the one in user space is tried");
    }
    for (errno, status) in
        [("EILSEQ", "NFS4ERR_SERVERFAULT"), ("EINVAL", "NFS4ERR_INVAL"), ("EACCES", "NFS4ERR_ACCESS")]
    {
        let Some(mounted) = TestMount::new(&["--profile", "windows", "--errno", errno]) else { return };
        let old = mounted.backing().join(OsStr::from_bytes(b"old\xE9"));
        fs::write(&old, "old").unwrap();
        let server = Server::ganesha(&mounted);
        let file = server.dir.join("file");
        fs::write(&file, "content").unwrap();
        for name in ["good.txt", "März.txt"] {
            let told = server.nfs("nfs-cp", &[&file], OsStr::new(name));
            assert_eq!(fs::read_to_string(mounted.backing().join(name)).unwrap(), "content", "{told}");
            assert_eq!(server.nfs("nfs-cat", &[], OsStr::new(name)), "content");
        }
        let refused =
            ["aux.txt", "trailing.", "caf\u{2426}E9"].map(str::as_bytes).into_iter().chain([&b"caf\xE9"[..]]);
        for name in refused.map(OsStr::from_bytes) {
            let told = server.nfs("nfs-cp", &[&file], name);
            assert!(told.contains(status), "{errno}, {name:?}: {told}");
        }
        let list = server.nfs("nfs-ls", &[], OsStr::new(""));
        assert!(list.contains("old\u{2426}E9") && list.contains("good.txt"), "{list}");
        assert_eq!(server.nfs("nfs-cat", &[], OsStr::new("old\u{2426}E9")), "old");
        assert_eq!(fs::read_dir(mounted.backing()).unwrap().count(), 3, "no other entries were created");
    }
}
