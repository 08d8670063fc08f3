//! What the clients of each server see when the mount refuses a name, and that they reach entries with escaped names. The servers run
//! with the configuration that docs/SERVERS.md shows.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{Server, are_installed, said};
use namegate_testkit::mounted::TestMount;

const PAGE: &str = include_str!("../../../docs/SERVERS.md");

/// The configuration in the section `heading` of the page, for this mount.
pub(super) fn shown(heading: &str, mounted: &TestMount) -> String {
    let section = PAGE.split("\n## ").find(|section| section.lines().next() == Some(heading));
    let block = section.expect("the page has the section").split("```").nth(1).expect("it has a block");
    let (_, configuration) = block.split_once('\n').unwrap();
    configuration.replace("/mnt/share", mounted.mnt().to_str().unwrap())
}

fn strings<const N: usize>(args: [&str; N]) -> Vec<String> {
    args.map(String::from).to_vec()
}

/// A server, and a client that puts `März.txt`, and then tries to put, to create a directory and to rename to `$BAD`.
pub(super) struct Front<'f> {
    pub(super) programs: &'static [&'static str],
    pub(super) start: &'f dyn Fn(&TestMount) -> Server,
    pub(super) client: String,
    /// What the client prints for each `--errno`.
    pub(super) prints: &'static [(&'static str, &'static [&'static str])],
}

impl Front<'_> {
    pub(super) fn check(&self) {
        if !are_installed(self.programs) {
            return;
        }
        for (errno, prints) in self.prints {
            let Some(mounted) = TestMount::new(&["--errno", errno]) else { return };
            let old = mounted.backing().join(OsStr::from_bytes(b"old\xE9"));
            fs::write(&old, "old content\n").unwrap();
            let server = (self.start)(&mounted);
            fs::write(server.dir.join("file"), "content").unwrap();
            let output = Command::new("bash")
                .args(["-c", &self.client])
                .current_dir(&server.dir)
                .env("LC_ALL", "C.UTF-8")
                .env("BAD", OsStr::from_bytes(b"caf\xE9"))
                .env("MNT", mounted.mnt())
                .env("PORT", server.port.to_string())
                .output()
                .unwrap();
            let printed = said(&output);
            let log = || fs::read_to_string(server.dir.join("out")).unwrap_or_default();
            assert_eq!(printed.lines().collect::<Vec<_>>(), *prints, "{errno}: {}", log());
            let content = fs::read_to_string(mounted.backing().join("März.txt"));
            assert_eq!(content.unwrap(), "content", "{errno}");
            let mut left: Vec<OsString> =
                fs::read_dir(mounted.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            assert_eq!(
                left,
                [OsStr::new("März.txt"), old.file_name().unwrap()],
                "{errno}: nothing else is left"
            );
        }
    }
}

fn sshd(mounted: &TestMount) -> Server {
    fs::create_dir_all("/run/sshd").unwrap();
    Server::new(mounted, "/usr/sbin/sshd", |dir, port| {
        let own = dir.display();
        for key in ["host", "user"] {
            let make = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.join(key))
                .status();
            assert!(make.unwrap().success());
        }
        let configuration = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {own}/host\nAuthorizedKeysFile {own}/user.pub\nStrictModes no\n\
             UsePAM no\nPidFile none\nPermitRootLogin yes\n{}",
            shown("OpenSSH sftp", mounted)
        );
        (configuration, strings(["-D", "-e", "-f", &format!("{own}/conf")]))
    })
}

#[test]
fn sftp_says_permission_denied_only_for_eacces() {
    let front = Front {
        programs: &["/usr/sbin/sshd", "sftp", "ssh-keygen"],
        start: &sshd,
        client: r#"printf '%s\n' 'put file März.txt' "-put file \"$BAD\"" "-mkdir \"$BAD\"" "-rename März.txt \"$BAD\"" \
                     'get old␦E9 got' |
                   sftp -q -b - -P "$PORT" -i user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
                     -o LogLevel=ERROR root@127.0.0.1 2>&1 >/dev/null | sed 's/.*: //'; cat got"#
            .into(),
        prints: &[
            ("EILSEQ", &["Failure", "Failure", "Failure", "old content"]),
            ("EINVAL", &["Bad message", "Bad message", "Bad message", "old content"]),
            ("EACCES", &["Permission denied", "Permission denied", "Permission denied", "old content"]),
        ],
    };
    front.check();
}

/// What curl prints of the replies of an FTP server that refuse, after an upload that it accepts.
const FTP: &str = r#"refusals() { LC_ALL=C sed -n 's/^< \([45][0-9][0-9] .*\)\r$/\1/p' | cat -v; }
    url=ftp://127.0.0.1:$PORT
    curl -sv -T file "$url/${in-}M%C3%A4rz.txt" 2>&1 | refusals
    curl -sv -T file "$url/${in-}caf%E9" 2>&1 | refusals
    curl -sv "$url/" -Q "MKD ${in-}$BAD" 2>&1 | refusals
    curl -sv "$url/" -Q "RNFR ${in-}März.txt" -Q "RNTO ${in-}$BAD" 2>&1 | refusals
    curl -s "$url/${in-}" -l | grep old; curl -s "$url/${in-}old%E2%90%A6E9""#;

#[test]
fn vsftpd_says_no_reason() {
    const PRINTS: &[&str] = &[
        "553 Could not create file.",
        "550 Create directory operation failed.",
        "550 Rename failed.",
        "old\u{2426}E9",
        "old content",
    ];
    let front = Front {
        programs: &["vsftpd", "curl"],
        start: &|mounted| {
            Server::new(mounted, "vsftpd", |dir, port| {
                let (empty, above) = (dir.join("empty"), dir.parent().unwrap());
                fs::create_dir(&empty).unwrap();
                // vsftpd refuses a root that its user can write to.
                fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
                let configuration = format!(
                    "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nsecure_chroot_dir={}\n{}",
                    empty.display(),
                    shown("FTP: vsftpd", mounted).replace("=/mnt\n", &format!("={}\n", above.display()))
                );
                (configuration, vec![format!("{}/conf", dir.display())])
            })
        },
        client: format!("in=mnt/; {FTP}"),
        prints: &[("EILSEQ", PRINTS), ("EACCES", PRINTS)],
    };
    front.check();
}

#[test]
fn proftpd_says_the_message_of_the_errno() {
    let installed = std::env::var("NAMEGATE_TEST_PROFTPD").unwrap_or_else(|_| "proftpd".into());
    if !are_installed(&[&installed]) {
        return;
    }
    let front = Front {
        programs: &["curl"],
        start: &|mounted| {
            let program = std::env::var("NAMEGATE_TEST_PROFTPD").unwrap_or_else(|_| "proftpd".into());
            Server::new(mounted, program, |dir, port| {
                let own = dir.display();
                let configuration = format!(
                    "ServerType standalone\nDefaultServer on\nPort {port}\nDefaultAddress 127.0.0.1\nSocketBindTight on\nUseIPv6 off\n\
                     User nobody\nGroup nogroup\nPidFile {own}/pid\nScoreboardFile {own}/score\nDelayEngine off\nTransferLog NONE\n\
                     WtmpLog off\n{}",
                    shown("FTP: proftpd", mounted)
                );
                (configuration, strings(["-n", "-c", &format!("{own}/conf")]))
            })
        },
        client: FTP.into(),
        prints: &[
            (
                "EILSEQ",
                &[
                    "550 cafM-i: Invalid or incomplete multibyte or wide character",
                    "550 cafM-i: Invalid or incomplete multibyte or wide character",
                    "550 cafM-i: Invalid or incomplete multibyte or wide character",
                    "old\u{2426}E9",
                    "old content",
                ],
            ),
            (
                "EACCES",
                &[
                    "550 cafM-i: Permission denied",
                    "550 cafM-i: Permission denied",
                    "550 cafM-i: Permission denied",
                    "old\u{2426}E9",
                    "old content",
                ],
            ),
        ],
    };
    front.check();
}

#[test]
fn the_rsync_daemon_reports_each_refusal_and_iconv_avoids_it() {
    const CLIENT: &str = r#"url=rsync://127.0.0.1:$PORT/share; mkdir src iconv; cp file src/März.txt; cp file "src/$BAD"; mkdir "src/dir$BAD"
        cp file "src/dir$BAD/in"; rsync -r src/ "$url/" 2>&1 | sed 's/\.[A-Za-z0-9]\{6\}"/.XXXXXX"/; s/ (code.*//'
        echo "exit ${PIPESTATUS[0]}"; rsync -r "$url/old␦E9" got; cat got
        rm -r src; mkdir src; cp file "src/M$(printf '\344')rz.txt"; rsync -r --iconv=ISO-8859-1,UTF-8 src/ "$url/" && echo converted"#;
    let front = Front {
        programs: &["rsync"],
        start: &|mounted| {
            Server::new(mounted, "rsync", |dir, port| {
                let configuration = format!(
                    "port = {port}\naddress = 127.0.0.1\npid file = {}/pid\n{}",
                    dir.display(),
                    shown("rsync daemon", mounted)
                );
                (
                    configuration,
                    strings(["--daemon", "--no-detach", &format!("--config={}/conf", dir.display())]),
                )
            })
        },
        client: CLIENT.into(),
        prints: &[
            (
                "EILSEQ",
                &[
                    r#"rsync: [generator] recv_generator: mkdir "/dircaf\#351" (in share) failed: Invalid or incomplete multibyte or wide character (84)"#,
                    "*** Skipping any contents from this failed directory ***",
                    r#"rsync: [receiver] mkstemp "/.caf\#351.XXXXXX" (in share) failed: Invalid or incomplete multibyte or wide character (84)"#,
                    "rsync error: some files/attrs were not transferred (see previous errors)",
                    "exit 23",
                    "old content",
                    "converted",
                ],
            ),
            (
                "EACCES",
                &[
                    r#"rsync: [generator] recv_generator: mkdir "/dircaf\#351" (in share) failed: Permission denied (13)"#,
                    "*** Skipping any contents from this failed directory ***",
                    r#"rsync: [receiver] mkstemp "/.caf\#351.XXXXXX" (in share) failed: Permission denied (13)"#,
                    "rsync error: some files/attrs were not transferred (see previous errors)",
                    "exit 23",
                    "old content",
                    "converted",
                ],
            ),
        ],
    };
    front.check();
}

/// What curl prints of each request to a DAV server: put, put a bad name, and create a directory, move and copy to one.
const DAV: &str = r#"url=http://127.0.0.1:$PORT
    try() { curl -s -o answer -w '%{http_code}\n' "$@"; }
    try -T file "$url/M%C3%A4rz.txt"
    try -T file "$url/caf%E9"
    try -X MKCOL "$url/caf%E9/"
    try -X MOVE -H "Destination: $url/caf%E9" "$url/M%C3%A4rz.txt"
    try -X COPY -H "Destination: $url/caf%E9" "$url/M%C3%A4rz.txt"
    curl -s -X PROPFIND -H 'Depth: 1' "$url/" | grep -io 'old%e2%90%a6E9' | head -1 | tr A-Z a-z; curl -s "$url/old%E2%90%A6E9""#;

#[test]
fn apache_answers_500_or_403() {
    const PRINTS: &[&str] = &["201", "500", "403", "500", "500", "old%e2%90%a6e9", "old content"];
    let front = Front {
        programs: &["apache2", "curl"],
        start: &|mounted| {
            Server::new(mounted, "apache2", |dir, port| {
                let own = dir.display();
                // DavLockDB is a database that the processes of the server create.
                namegate_testkit::mounted::open_to_all(dir);
                let modules: String = ["mpm_event", "authz_core", "dav", "dav_fs"]
                    .map(|module| {
                        format!("LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so\n")
                    })
                    .concat();
                let configuration = format!(
                    "ServerName localhost\nListen 127.0.0.1:{port}\nPidFile {own}/pid\nMutex file:{own}\nErrorLog {own}/error\n\
                     User nobody\nGroup nogroup\n{modules}DavLockDB {own}/lock\nDocumentRoot {}\n{}",
                    mounted.mnt().display(),
                    shown("DAV: Apache", mounted)
                );
                (configuration, strings(["-DFOREGROUND", "-f", &format!("{own}/conf")]))
            })
        },
        client: DAV.into(),
        prints: &[("EILSEQ", PRINTS), ("EACCES", PRINTS)],
    };
    front.check();
}

#[test]
fn nginx_answers_500_except_for_a_directory() {
    let front = Front {
        programs: &["nginx", "curl"],
        start: &|mounted| {
            Server::new(mounted, "nginx", |dir, port| {
                let own = dir.display();
                let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|kind| format!("{kind}_temp_path {own}/{kind};\n"))
                    .concat();
                let configuration = format!(
                    "load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;\ndaemon off;\nuser nobody nogroup;\n\
                     pid {own}/pid;\nerror_log {own}/error;\nevents {{}}\nhttp {{ access_log off;\n{temporary}\
                     server {{ listen 127.0.0.1:{port};\n{}\n}} }}",
                    shown("DAV: nginx", mounted)
                );
                (configuration, strings(["-c", &format!("{own}/conf")]))
            })
        },
        client: DAV.into(),
        prints: &[
            ("EILSEQ", &["201", "500", "500", "500", "500", "old%e2%90%a6e9", "old content"]),
            ("EACCES", &["201", "500", "403", "500", "500", "old%e2%90%a6e9", "old content"]),
        ],
    };
    front.check();
}
