//! Programs that copy to a mount, by themselves or as a service: rclone, Java and cron, as docs/SERVERS.md shows.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::clients::{Front, shown};
use super::{Server, are_installed, rclones, said};
use namegate_testkit::mounted::TestMount;
use namegate_testkit::{PATIENCE, wait_until};

/// Starts the server that the page shows, with more options.
fn serve(mounted: &TestMount, rclone: &OsStr, more: &[&str]) -> Server {
    let line = shown("rclone", mounted).lines().nth(1).unwrap().to_owned();
    Server::new(mounted, rclone, |dir, port| {
        let line = line.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
        let cache = format!("--cache-dir={}", dir.join("cache").display());
        let own = ["--config=/dev/null", &cache];
        let args = line.split(' ').skip(1).chain(own).chain(more.iter().copied());
        (String::new(), args.map(String::from).collect())
    })
}

/// Copies as the page shows, and then sends requests to the server.
const RCLONE: &str = r#"mkdir -p src "src/dir$BAD"; cp file "src/$BAD"; cp file "src/dir$BAD/in"; cp file src/März.txt
    export RCLONE_CONFIG=/dev/null
    COPY 2>log; code=$?
    LC_ALL=C sed -n 's/.*ERROR : .*: Failed to copy: \([a-z]*\) .*: /\1: /p' log | sort; echo "exit $code"; grep -ac Attempt log
    url=http://127.0.0.1:$PORT; try() { curl -s -o answer -w '%{http_code}\n' "$@"; }
    curl -s -X PROPFIND -H 'Depth: 1' "$url/" | grep -io 'old%e2%90%a6E9' | head -1 | tr A-Z a-z
    curl -s "$url/old%E2%90%A6E9"
    try -T file "$url/caf%E9"; try -X MKCOL "$url/caf%E9/"
    try -X MOVE -H "Destination: $url/caf%E9" "$url/M%C3%A4rz.txt" | sed 's/403/412/'
    try -X COPY -H "Destination: $url/caf%E9" "$url/M%C3%A4rz.txt""#;

#[test]
fn rclone_reports_each_refusal_and_its_clients_see_405() {
    let page = include_str!("../../../docs/SERVERS.md");
    let copy = page.lines().find(|line| line.starts_with("rclone copy")).expect("the page shows a copy");
    let copy = copy.replace("/srv/incoming", "src").replace("/mnt/share", "\"$MNT\"");
    for rclone in rclones() {
        let copy = copy.replacen("rclone", rclone.to_str().unwrap(), 1);
        let front = Front {
            programs: &["curl"],
            start: &|mounted| serve(mounted, &rclone, &[]),
            client: RCLONE.replace("COPY 2", &format!("{copy} 2")),
            prints: &[
                (
                    "EILSEQ",
                    &[
                        "mkdir: invalid or incomplete multibyte or wide character",
                        "open: invalid or incomplete multibyte or wide character",
                        "exit 1",
                        "1",
                        "old%e2%90%a6e9",
                        "old content",
                        "405",
                        "405",
                        "412",
                        "500",
                    ],
                ),
                (
                    "EACCES",
                    &[
                        "mkdir: permission denied",
                        "open: permission denied",
                        "exit 1",
                        "1",
                        "old%e2%90%a6e9",
                        "old content",
                        "405",
                        "405",
                        "412",
                        "500",
                    ],
                ),
            ],
        };
        front.check();
    }
}

#[test]
fn rclone_with_a_cache_accepts_what_the_mount_refuses_later() {
    if !are_installed(&["curl"]) {
        return;
    }
    for rclone in rclones() {
        let Some(mounted) = TestMount::new(&[]) else { return };
        let server = serve(&mounted, &rclone, &["--vfs-cache-mode=writes", "--vfs-write-back=10ms"]);
        fs::write(server.dir.join("file"), "content").unwrap();
        let url = format!("http://127.0.0.1:{}/caf%E9", server.port);
        let mut put = Command::new("curl");
        put.args(["-s", "-w", "%{http_code}", "-T", "file", &url]).current_dir(&server.dir);
        let answer = said(&put.output().unwrap());
        assert!(answer.ends_with("201"), "{answer}");
        let log = || String::from_utf8_lossy(&fs::read(server.dir.join("out")).unwrap()).into_owned();
        wait_until("a refusal in the log", || log().contains("will retry"));
        assert_eq!(fs::read_dir(mounted.backing()).unwrap().count(), 0, "{}", log());
    }
}

/// What the program of Java prints with this variable, and how many entries the mount has then.
fn java(mounted: &TestMount, variable: &str, options: &[&str]) -> (Vec<String>, usize) {
    fs::write(mounted.backing().join(OsStr::from_bytes(b"old\xE9")), "old").unwrap();
    let (name, value) = variable.split_once('=').unwrap();
    let output = Command::new("java")
        .args(options)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/servers/Names.java"))
        .arg(mounted.mnt())
        .env_remove("LC_ALL")
        .env(name, value)
        .output()
        .unwrap();
    let lines = said(&output).lines().map(String::from).collect();
    (lines, fs::read_dir(mounted.backing()).unwrap().count())
}

#[test]
fn java_needs_a_utf8_locale_and_sees_the_errno() {
    if !are_installed(&["java", "javac"]) {
        return;
    }
    const LONG: &str = "Invalid or incomplete multibyte or wide character";
    for (errno, io, nio) in [
        ("EILSEQ", format!("FileNotFoundException: {LONG}"), format!("FileSystemException: {LONG}")),
        ("EACCES", "FileNotFoundException: Permission denied".into(), "AccessDeniedException: ".into()),
    ] {
        let Some(mounted) = TestMount::new(&["--profile", "strict", "--errno", errno]) else { return };
        let block = shown("Java", &mounted);
        let variable = block.lines().find_map(|line| line.strip_prefix("Environment=")).unwrap();
        let (lines, entries) = java(&mounted, variable, &[]);
        let (io, nio) = (format!("io: {io}"), format!("nio: {nio}"));
        let expected = ["io: done", "nio: done", "io: done", "nio: done", &io, &nio, "3 of 3 can be read"];
        assert_eq!((lines, entries), (expected.map(String::from).to_vec(), 3));
    }
    for options in [&[][..], &["-Dsun.jnu.encoding=UTF-8", "-Dfile.encoding=UTF-8"]] {
        let Some(mounted) = TestMount::new(&["--profile", "strict"]) else { return };
        let (lines, entries) = java(&mounted, "LC_ALL=C", options);
        assert!(lines[0] == "io: done" && lines[2] == "io: done", "{lines:?}");
        assert!(lines[1].starts_with("nio: InvalidPathException"), "{lines:?}");
        let both = mounted.backing().join("??.txt");
        assert!(entries == 2 && both.exists(), "one overwrites the other: {lines:?}");
        assert_eq!(lines[6], "1 of 2 can be read");
        let Some(mounted) = TestMount::new(&["--profile", "windows"]) else { return };
        let (lines, entries) = java(&mounted, "LC_ALL=C", options);
        assert!(lines[0].starts_with("io: FileNotFoundException") && entries == 1, "{lines:?}");
    }
}

/// A cron that ends on drop.
struct Cron(Child);

impl Drop for Cron {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_job_of_cron_reports_refusals_on_standard_error_only() {
    // In a mount namespace of its own: crontabs and the cron of the machine are not touched.
    const CRON: &str = "mount -t tmpfs none /run && mount -t tmpfs none /etc/cron.d && mount --bind /dev/null /etc/crontab && \
        { [ ! -e /etc/default/locale ] || mount --bind /dev/null /etc/default/locale; } && mount -t tmpfs none /var/spool/cron && \
        cp shown bare /etc/cron.d && exec cron -f -L 0";
    if !are_installed(&["cron", "unshare"]) {
        return;
    }
    let Some(mounted) = TestMount::new(&["--errno", "EACCES"]) else { return };
    let dir = mounted.plain().with_file_name("cron");
    let (source, own) = (dir.join("incoming"), dir.display());
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join(OsStr::from_bytes(b"caf\xE9")), "").unwrap();
    fs::write(source.join("März.txt"), "").unwrap();
    let results = format!("{own}/log 2>&1; echo $? >{own}/exit; locale charmap >{own}/charmap");
    let block = shown("cron", &mounted)
        .replace("/srv/incoming", source.to_str().unwrap())
        .replace("/var/log/incoming.log 2>&1", &results);
    fs::write(dir.join("shown"), block).unwrap();
    fs::write(dir.join("bare"), format!("* * * * * root locale charmap >{own}/bare.charmap\n")).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", CRON]).current_dir(&dir).env_clear();
    let unshare = unshare.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stderr(Stdio::null());
    let cron = Cron(unshare.spawn().unwrap());
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    let begin = Instant::now();
    while read("charmap").is_empty() || read("bare.charmap").is_empty() {
        // Jobs start at the next full minute.
        assert!(begin.elapsed() < 2 * PATIENCE, "no job has ended: {}", read("log"));
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(cron);
    assert_eq!((read("charmap").trim(), read("bare.charmap").trim()), ("UTF-8", "ANSI_X3.4-1968"));
    let log = read("log");
    let is_refusal = |line: &str| {
        line.starts_with("cp: cannot create regular file") && line.ends_with(": Permission denied")
    };
    assert!(log.lines().count() == 1 && log.lines().all(is_refusal) && read("exit").trim() == "1", "{log}");
    assert!(mounted.backing().join("März.txt").exists());
}
