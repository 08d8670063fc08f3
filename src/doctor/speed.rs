//! What io_uring brings to mounts on this machine: the same lookups by both transports, in turns. Unlike the other checks, this one
//! mounts something, and runs only if asked for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libc::{O_DIRECTORY, O_PATH};
use namegate_core::name::display::display;
use namegate_mount::detach;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::fstatat;
use nix::unistd::Pid;

use super::fuse::{ENABLE_URING, uring_is_enabled};
use super::{Diagnosis, Machine};

/// All of it, with the mounts.
const LONGEST: Duration = Duration::from_secs(4);

/// Names of each kind that are looked up in one turn.
const NAMES: usize = 100;

/// Measures both transports, if this kernel has both and root has enabled io_uring.
pub(super) fn measure(machine: &Machine) -> Diagnosis {
    const ID: &str = "transport-speed";
    match uring_is_enabled(machine) {
        None => Diagnosis::ok(ID, "nothing to compare: this kernel has no io_uring for FUSE (Linux 6.14)"),
        Some(false) => {
            let found = format!("io_uring cannot be measured until root enables it by `{ENABLE_URING}`");
            Diagnosis::unknown(ID, found)
        }
        Some(true) => match compare() {
            Ok(found) => Diagnosis::ok(ID, found),
            Err(error) => {
                Diagnosis::unknown(ID, format!("not measured: {}", display(error.to_string().as_bytes())))
            }
        },
    }
}

fn compare() -> io::Result<String> {
    let until = Instant::now() + LONGEST;
    let dir = tempfile::Builder::new().prefix("namegate-doctor-").tempdir()?;
    let source = dir.path().join("source");
    fs::create_dir(&source)?;
    let kinds = ["there", "absent"].map(|kind| (0..NAMES).map(|i| format!("{kind} {i}")).collect::<Vec<_>>());
    for name in &kinds[0] {
        File::create(source.join(name))?;
    }
    let native = directory(&source)?;
    let dev = PrivateMount::new(dir.path(), "dev", until)?;
    let uring = PrivateMount::new(dir.path(), "uring", until)?;
    let mut times: [[Vec<Duration>; 2]; 3] = Default::default();
    while times[0][0].is_empty() || Instant::now() < until {
        for (root, times) in
            [Some(&native), dev.root.as_ref(), uring.root.as_ref()].into_iter().flatten().zip(&mut times)
        {
            for (kind, times) in times.iter_mut().enumerate() {
                times.push(look_up(root, &kinds[kind], kind == 0)?);
            }
        }
    }
    let turns = times[0][0].len();
    let [native, dev, uring] = times.map(|kinds| {
        kinds.map(|mut times| {
            times.sort_unstable();
            times[turns / 2].as_secs_f64() * 1e6 / NAMES as f64
        })
    });
    Ok(format!(
        "a lookup of an existing and of an absent name takes {:.1} and {:.1} µs over /dev/fuse, {:.1} and {:.1} µs over io_uring \
         ({:.1} and {:.1} times as fast), {:.1} and {:.1} µs without a mount; medians of {turns} turns",
        dev[0],
        dev[1],
        uring[0],
        uring[1],
        dev[0] / uring[0],
        dev[1] / uring[1],
        native[0],
        native[1]
    ))
}

/// How long it takes to look up these names, none of which the kernel keeps.
fn look_up(root: &File, names: &[String], exist: bool) -> io::Result<Duration> {
    let expected = if exist { Ok(()) } else { Err(Errno::ENOENT) };
    let begun = Instant::now();
    for name in names {
        let found = fstatat(root, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW).map(drop);
        if found != expected {
            return Err(found.err().unwrap_or(Errno::EEXIST).into());
        }
    }
    Ok(begun.elapsed())
}

fn directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(O_PATH | O_DIRECTORY).open(path)
}

/// A mount that only this process reaches: it is detached from its mount point, so that it ends with this process, however that ends.
struct PrivateMount {
    root: Option<File>,
    server: Child,
}

impl PrivateMount {
    /// Mounts `source` in `dir`; the kernel keeps no names of it.
    fn new(dir: &Path, transport: &str, until: Instant) -> io::Result<Self> {
        let target = dir.join(transport);
        fs::create_dir(&target)?;
        // This program, even if its file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.arg("mount").arg(dir.join("source")).arg(&target).args(["--transport", transport]);
        command
            .args(["--cache", "timeout", "--entry-timeout", "0"])
            .env("NAMEGATE_RUNTIME_DIR", dir.join("run"));
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut mount = Self { root: None, server };
        let outside = fs::metadata(dir)?.dev();
        while fs::metadata(&target)?.dev() == outside {
            if mount.server.try_wait()?.is_some() || Instant::now() > until {
                return Err(mount.failure());
            }
            sleep(Duration::from_millis(5));
        }
        mount.root = Some(directory(&target)?);
        detach(&target)?;
        Ok(mount)
    }

    /// Ends the server, which unmounts what is still there.
    fn stop(&mut self) {
        if let Ok(None) = self.server.try_wait() {
            let _ = kill(Pid::from_raw(self.server.id().cast_signed()), Signal::SIGTERM);
            let _ = self.server.wait();
        }
    }

    /// Why there is no mount.
    fn failure(&mut self) -> io::Error {
        self.stop();
        let mut said = String::new();
        if let Some(stderr) = &mut self.server.stderr {
            let _ = stderr.read_to_string(&mut said);
        }
        io::Error::other(said.lines().last().unwrap_or("the mount takes too long").to_owned())
    }
}

impl Drop for PrivateMount {
    fn drop(&mut self) {
        self.root = None;
        self.stop();
    }
}
