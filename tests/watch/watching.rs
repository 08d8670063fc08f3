//! A running `namegate watch` that is killed on drop, and file systems to watch.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

use namegate_testkit::process::{are_all_threads, let_signals_end_programs};
use namegate_testkit::{PATIENCE, wait_until};

/// The engines, by their names on the command line.
pub const ENGINES: [&str; 3] = ["fanotify", "fanotify-dirs", "inotify"];

/// A name that is not UTF-8, different for each `tag`.
pub fn bad(tag: &str) -> OsString {
    let mut name = tag.as_bytes().to_vec();
    name.extend(b"caf\xE9");
    OsString::from_vec(name)
}

pub fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        println!("SKIPPED: watching whole file systems, and mounting some for it, needs root");
    }
    is_root
}

/// The fields of a finding that tests compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub operation: String,
    /// `None` if the directory is not known.
    pub path: Option<PathBuf>,
}

/// A watching process that writes JSON.
pub struct Watching {
    child: Child,
    out: Arc<Mutex<Vec<String>>>,
    log: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

/// The results of a watch that has ended.
pub struct Ended {
    pub status: Option<i32>,
    pub lines: Vec<String>,
    pub log: String,
}

impl Watching {
    /// Starts to watch `paths`, and waits until the watch is ready.
    pub fn new(paths: &[&Path], args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("watch").args(paths).args(["--format", "json"]).args(args);
        Self::spawn(command)
    }

    /// Starts `command`, and waits until the watch is ready.
    pub fn spawn(mut command: Command) -> Self {
        let_signals_end_programs();
        let mut child = command
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, first) = lines_of(child.stdout.take().unwrap());
        let (log, second) = lines_of(child.stderr.take().unwrap());
        let watching = Self { child, out, log, readers: vec![first, second] };
        wait_until("the watch", || watching.log().contains("namegate: watching") || watching.has_ended());
        watching
    }

    fn has_ended(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.child.id())).is_ok_and(|stat| stat.contains(") Z"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Stops the process while `work` runs.
    pub fn while_it_sleeps(&self, work: impl FnOnce()) {
        self.signal(Signal::SIGSTOP);
        wait_until("the stop", || are_all_threads(self.child.id(), "T"));
        work();
        self.signal(Signal::SIGCONT);
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    pub fn lines(&self) -> Vec<String> {
        self.out.lock().unwrap().clone()
    }

    pub fn wait_for(&self, count: usize) {
        let begin = Instant::now();
        while self.out.lock().unwrap().len() < count {
            let found = self.out.lock().unwrap().len();
            assert!(begin.elapsed() < PATIENCE, "{found} findings of {count}\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    /// Ends the process. Not by SIGINT, which is ignored if the tests run in the background of a shell.
    pub fn end(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait_for_end()
    }

    /// Waits until the process has ended.
    pub fn wait_for_end(mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(begin.elapsed() < PATIENCE, "it does not end\n{}", self.log()),
            }
            sleep(Duration::from_millis(5));
        };
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        Ended { status: status.code(), lines: self.lines(), log: self.log() }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The findings, sorted.
    pub fn found(&self) -> Vec<Found> {
        let mut found: Vec<Found> = self.lines.iter().map(|line| parse(line)).collect();
        found.sort();
        found
    }

    /// The names of the findings, as bytes.
    pub fn names(&self) -> Vec<Vec<u8>> {
        let records = self.lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records
            .map(|record| {
                data_encoding::HEXLOWER.decode(record["name_hex"].as_str().unwrap().as_bytes()).unwrap()
            })
            .collect()
    }

    /// The paths of the findings, sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.found().into_iter().filter_map(|found| found.path).collect();
        paths.sort();
        paths
    }
}

fn parse(line: &str) -> Found {
    let record: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&record["type"], &record["outcome"]), (&"appearance".into(), &"seen".into()), "{line}");
    let name = data_encoding::HEXLOWER.decode(record["name_hex"].as_str().unwrap().as_bytes()).unwrap();
    let parent = record["parent_base64"].as_str();
    let parent = parent.map(|parent| data_encoding::BASE64.decode(parent.as_bytes()).unwrap());
    let path = parent.map(|parent| PathBuf::from(OsString::from_vec(parent)).join(OsStr::from_bytes(&name)));
    Found { operation: record["operation"].as_str().unwrap().into(), path }
}

fn lines_of(pipe: impl std::io::Read + Send + 'static) -> (Arc<Mutex<Vec<String>>>, JoinHandle<()>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let reader = spawn(move || {
        for line in BufReader::new(pipe).lines() {
            kept.lock().unwrap().push(line.unwrap());
        }
    });
    (lines, reader)
}

/// A separate file system in a temporary directory.
pub struct TestFileSystem {
    dir: TempDir,
    is_mounted: bool,
}

impl TestFileSystem {
    /// The file system of the temporary directory.
    pub fn plain() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("top")).unwrap();
        Self { dir, is_mounted: false }
    }

    fn mounted(prepare: impl FnOnce(&Path, &Path) -> Result<(), String>) -> Option<Self> {
        let mut place = Self::plain();
        match prepare(place.dir.path(), &place.top()) {
            Ok(()) => place.is_mounted = true,
            Err(error) => {
                println!("SKIPPED: {error}");
                return None;
            }
        }
        Some(place)
    }

    pub fn tmpfs() -> Option<Self> {
        let kind = Some("tmpfs");
        Self::mounted(|_, top| {
            let mounted = mount(kind, top, kind, MsFlags::empty(), None::<&str>);
            mounted.map_err(|errno| format!("no tmpfs can be mounted: {errno}"))
        })
    }

    pub fn overlay() -> Option<Self> {
        Self::mounted(|dir, top| {
            for name in ["lower", "upper", "work"] {
                fs::create_dir(dir.join(name)).unwrap();
            }
            let layer = |option: &str, name: &str| format!("{option}={}", dir.join(name).display());
            let layers =
                [layer("lowerdir", "lower"), layer("upperdir", "upper"), layer("workdir", "work")].join(",");
            let kind = Some("overlay");
            let mounted = mount(kind, top, kind, MsFlags::empty(), Some(layers.as_str()));
            mounted.map_err(|errno| format!("no overlay can be mounted: {errno}"))
        })
    }

    /// ext4 in a file.
    pub fn ext4() -> Option<Self> {
        Self::mounted(|dir, top| {
            let image = dir.join("image");
            File::create(&image).unwrap().set_len(64 << 20).unwrap();
            let run = |program: &str, args: &[&OsStr]| match Command::new(program).args(args).output() {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
                Err(error) => Err(format!("{program}: {error}")),
            };
            let option = |word: &'static str| OsStr::new(word);
            run("mkfs.ext4", &[option("-q"), option("-N"), option("40000"), image.as_os_str()])?;
            run("mount", &[option("-o"), option("loop"), image.as_os_str(), top.as_os_str()])
        })
    }

    /// All file systems that can be mounted here.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let places: [(&str, fn() -> Option<Self>); 3] =
            [("ext4", Self::ext4), ("tmpfs", Self::tmpfs), ("overlay", Self::overlay)];
        places.into_iter().filter_map(|(name, make)| Some((name, make()?)))
    }

    /// The root of the file system.
    pub fn top(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("top")
    }

    /// A new directory in the file system.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.top().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// A new directory outside of the file system.
    pub fn beside(&self, name: &str) -> PathBuf {
        let dir = self.dir.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }
}

impl Drop for TestFileSystem {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = umount2(&self.top(), MntFlags::MNT_DETACH);
        }
    }
}
