//! A mount in use for a long time: `soak NAMEGATE MINUTES [DIRECTORY] [SEED]`, or `scripts/soak MINUTES [DIRECTORY]`.
//!
//! Several clients, each another user, work in a mount at once and at random, each in a directory of its own and all in one
//! that they share. Each keeps a model of what it believes to be there. An error that is not an expected refusal ends the
//! run; at the end the backing tree is compared with the beliefs, byte for byte; and the server's memory and descriptors,
//! once it is warm, must not grow.

mod client;
mod model;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use client::Client;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CLIENTS: u32 = 6;
/// Clients are users of their own, from this one on.
const FIRST_USER: u32 = 20_000;
const BETWEEN_SAMPLES: Duration = Duration::from_secs(2);

/// What is counted while the clients work.
#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    refused: AtomicU64,
    is_over: AtomicBool,
}

impl Counts {
    fn shown(&self) -> String {
        let [done, refused] = [&self.done, &self.refused].map(|count| count.load(Ordering::Relaxed));
        format!("{done} operations, {refused} of them refused as they should be")
    }
}

/// What the server used at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Sample {
    fn of(server: u32) -> Outcome<Self> {
        let status = fs::read_to_string(format!("/proc/{server}/status"))?;
        let number = |field: &str| -> Outcome<u64> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(field)).ok_or("a zombie has no memory")?;
            Ok(line.trim_start_matches(':').split_whitespace().next().ok_or("a number")?.parse()?)
        };
        let descriptors = fs::read_dir(format!("/proc/{server}/fd"))?.count() as u64;
        Ok(Self { kib: number("VmRSS")?, descriptors, threads: number("Threads")? })
    }

    fn greatest(samples: &[Self]) -> Self {
        let most = |of: fn(&Self) -> u64| samples.iter().map(of).max().unwrap_or_default();
        Self { kib: most(|s| s.kib), descriptors: most(|s| s.descriptors), threads: most(|s| s.threads) }
    }
}

/// The first third of the samples is the time in which caches fill. After it memory may be a tenth and 4 MiB more than the
/// most before, and descriptors a tenth and 64 more.
fn is_flat(samples: &[Sample]) -> bool {
    let (warming, warm) = samples.split_at(samples.len() / 3);
    let (before, after) = (Sample::greatest(warming), Sample::greatest(warm));
    println!(
        "memory: at most {} KiB in the first third, {} KiB afterwards; descriptors: {}, {}; threads: {}, {}",
        before.kib, after.kib, before.descriptors, after.descriptors, before.threads, after.threads
    );
    after.kib <= before.kib + before.kib / 10 + 4096
        && after.descriptors <= before.descriptors + before.descriptors / 10 + 64
        && after.threads <= before.threads
}

/// A mount that goes with its end.
struct Mount {
    server: Child,
    at: PathBuf,
}

impl Mount {
    fn new(namegate: &Path, source: &Path, at: PathBuf) -> Outcome<Self> {
        let server = Command::new(namegate)
            .arg("mount")
            .arg(source)
            .arg(&at)
            .env("RUST_LOG", "warn,namegate_telemetry::audit=off")
            .spawn()?;
        let mut mount = Self { server, at };
        let begin = Instant::now();
        while !fs::read_to_string("/proc/self/mountinfo")?.contains(&format!(" {} ", mount.at.display())) {
            if mount.server.try_wait()?.is_some() || begin.elapsed() > Duration::from_secs(10) {
                return Err("there is no mount".into());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(mount)
    }

    fn ends_well(mut self) -> Outcome<()> {
        kill(Pid::from_raw(i32::try_from(self.server.id())?), Signal::SIGTERM)?;
        let status = self.server.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = umount2(&self.at, MntFlags::MNT_DETACH);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn directory(path: &Path, owner: u32) -> Outcome<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(chown(path, Some(owner), Some(owner))?)
}

fn soak(namegate: &Path, minutes: u64, place: &Path, seed: u64) -> Outcome<bool> {
    let dir = tempfile::Builder::new().prefix("soak.").tempdir_in(place)?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    let (backing, mnt) = (dir.path().join("backing"), dir.path().join("mnt"));
    directory(&backing, 0)?;
    directory(&mnt, 0)?;
    directory(&backing.join("shared"), 0)?;
    for number in 0..CLIENTS {
        directory(&backing.join(number.to_string()), FIRST_USER + number)?;
    }
    let mount = Mount::new(namegate, &backing, mnt.clone())?;
    let server = mount.server.id();
    println!("seed {seed}, {CLIENTS} clients, {minutes} minutes, in {}", dir.path().display());

    let (counts, begin) = (Counts::default(), Instant::now());
    let end = begin + Duration::from_secs(60 * minutes);
    let mut samples = Vec::new();
    let clients: Outcome<Vec<Client>> = thread::scope(|scope| {
        let working: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (mnt, counts) = (&mnt, &counts);
                scope.spawn(move || {
                    let mut client = Client::new(mnt, number, FIRST_USER + number, seed)?;
                    let result = client.work_until(end, counts);
                    // One that fails ends the run for all.
                    counts.is_over.fetch_or(result.is_err(), Ordering::Relaxed);
                    result.map(|()| client)
                })
            })
            .collect();
        let mut minute = 0;
        while Instant::now() < end && !counts.is_over.load(Ordering::Relaxed) {
            sleep(BETWEEN_SAMPLES);
            let sample = Sample::of(server)?;
            samples.push(sample);
            if begin.elapsed().as_secs() / 60 > minute {
                minute += 1;
                let Sample { kib, descriptors, .. } = sample;
                println!("minute {minute}: {}; {kib} KiB, {descriptors} descriptors", counts.shown());
            }
        }
        working.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?).collect()
    });
    let clients = clients?;
    println!("{}", counts.shown());
    let mut entries = 0;
    for client in &clients {
        entries += client.compare(&backing)?;
    }
    client::compare_shared(&mnt, &backing)?;
    println!("{entries} entries are in the backing tree as their clients believe");
    let is_flat = is_flat(&samples);
    mount.ends_well()?;
    Ok(is_flat)
}

fn main() -> ExitCode {
    if !geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: mounting needs root and /dev/fuse");
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [namegate, minutes, rest @ ..] = &arguments[..] else {
        eprintln!("soak NAMEGATE MINUTES [DIRECTORY] [SEED]");
        return ExitCode::from(2);
    };
    let Ok(minutes) = minutes.parse() else {
        eprintln!("`{minutes}` is no number of minutes");
        return ExitCode::from(2);
    };
    let place = rest.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let seed = rest.get(1).and_then(|seed| seed.parse().ok()).unwrap_or(u64::from(std::process::id()));
    match soak(Path::new(namegate), minutes, &place, seed) {
        Ok(true) => {
            println!("passed");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            println!("FAILED: the server grew");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}
