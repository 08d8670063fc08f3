//! Creates directory trees to scan, the same in every run.
//!
//!     make_tree wide DIR [FILES [DIRECTORIES [BAD]]]   1,000,000 files in 20,000 directories; BAD of a million are not UTF-8
//!     make_tree flat DIR [FILES [BAD]]                 500,000 files in one directory; BAD of a million are not UTF-8
//!     make_tree deep DIR [LEVELS [FILES]]              60 levels of 200 bytes, deeper than PATH_MAX, 100 files in each
//!     make_tree bad DIR                                every kind of bad name, in good and in bad directories
//!
//! DIR must not exist. The shares of scripts are those of `benches/corpus`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};

use corpus::{Kind, Random, name};

#[path = "../benches/corpus/mod.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod corpus;

/// Number of subdirectories in a directory of a wide tree.
const FAN_OUT: usize = 20;

/// Names of every kind: not UTF-8, with terminal escapes, refused by a target, colliding.
const BAD: &[&[u8]] = &[
    b"latin\xE9",
    b"overlong2\xC0\xAF",
    b"overlong3\xE0\x80\xAF",
    b"overlong4\xF0\x80\x80\xAF",
    b"five\xF8\x88\x80\x80\x80",
    b"six\xFC\x84\x80\x80\x80\x80",
    b"surrogate\xED\xA0\x80",
    b"cesu\xED\xA0\xBD\xED\xB8\x80",
    b"above\xF4\x90\x80\x80",
    b"above\xF7\xBF\xBF\xBF",
    b"truncated\xE2\x82",
    b"lone\x80",
    b"octet\xFE",
    b"nul\xC0\x80",
    b"dot\xC0\xAE",
    b"tab\t",
    b"line\nfeed",
    b"esc\x1B[31m",
    b"delete\x7F",
    b"\xC2\x85next line",
    "separator\u{2028}".as_bytes(),
    "nonchar\u{FFFE}".as_bytes(),
    "nonchar\u{FDD0}".as_bytes(),
    "bom\u{FEFF}".as_bytes(),
    "gnp.\u{202E}exe".as_bytes(),
    "zero\u{200B}width".as_bytes(),
    "private\u{E000}".as_bytes(),
    "trailing ".as_bytes(),
    b"-rf",
    b"~tilde",
    b"dot.",
    b"CON.txt",
    b"what?",
    b"README",
    b"readme",
    "caf\u{E9}".as_bytes(),
    "cafe\u{301}".as_bytes(),
    "stra\u{DF}e".as_bytes(),
    "STRASSE".as_bytes(),
    "p\u{430}ypal".as_bytes(),
    b"paypal",
    "\u{212B}".as_bytes(),
    "\u{C5}".as_bytes(),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |arg| arg.parse());
    let made = match args.as_slice() {
        [kind, dir, ..] => {
            let dir = Path::new(dir);
            match (kind.as_str(), number(2, 0), number(3, 20_000), number(4, 0)) {
                (_, Err(error), ..) | (_, _, Err(error), _) | (.., Err(error)) => {
                    Err(io::Error::other(error))
                }
                ("wide", Ok(files), Ok(directories), Ok(bad)) => {
                    wide(dir, if args.len() > 2 { files } else { 1_000_000 }, directories, bad)
                }
                ("flat", Ok(files), Ok(bad), _) => {
                    let (files, bad) =
                        (if args.len() > 2 { files } else { 500_000 }, if args.len() > 3 { bad } else { 0 });
                    wide(dir, files, 1, bad)
                }
                ("deep", Ok(levels), Ok(files), _) => deep(
                    dir,
                    if args.len() > 2 { levels } else { 60 },
                    if args.len() > 3 { files } else { 100 },
                ),
                ("bad", ..) => bad(dir),
                _ => Err(io::Error::other("the kinds are wide, flat, deep and bad")),
            }
        }
        _ => Err(io::Error::other("give a kind and a directory")),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make_tree: {error}");
            ExitCode::FAILURE
        }
    }
}

fn kind_of(draw: u64) -> Kind {
    match draw % 1000 {
        0..100 => Kind::Latin,
        100..150 => Kind::Cyrillic,
        150..225 => Kind::Cjk,
        225..250 => Kind::Emoji,
        _ => Kind::Ascii,
    }
}

fn touch(dir: &Path, name: &[u8]) -> io::Result<()> {
    File::create(dir.join(OsStr::from_bytes(name))).map(drop)
}

/// Creates `files` files in `directories` nested directories.
pub fn wide(dir: &Path, files: usize, directories: usize, bad: usize) -> io::Result<()> {
    let mut random = Random(3);
    let mut made: Vec<PathBuf> = vec![dir.into()];
    fs::create_dir(dir)?;
    for number in 1..directories {
        let path = made[(number - 1) / FAN_OUT].join(format!("dir {number}"));
        fs::create_dir(&path)?;
        made.push(path);
    }
    for number in 0..files {
        let is_bad = (random.next() % 1_000_000) < bad as u64;
        let kind = if is_bad { Kind::Bad } else { kind_of(random.next()) };
        touch(&made[number % made.len()], &name(&mut random, kind, number))?;
    }
    Ok(())
}

/// Descends step by step, because the path would be too long.
pub fn deep(dir: &Path, levels: usize, files: usize) -> io::Result<()> {
    let mut random = Random(5);
    fs::create_dir(dir)?;
    let mut here: OwnedFd = File::open(dir)?.into();
    let touch = |dir: &OwnedFd, name: &[u8]| {
        openat(
            dir,
            OsStr::from_bytes(name),
            OFlag::O_CREAT | OFlag::O_CLOEXEC,
            Mode::from_bits_truncate(0o644),
        )
    };
    for level in 0..levels {
        for number in 0..files {
            let kind = if number == 0 { Kind::Bad } else { kind_of(random.next()) };
            touch(&here, &name(&mut random, kind, number))?;
        }
        let below = format!("{level:0200}");
        mkdirat(&here, below.as_str(), Mode::from_bits_truncate(0o755))?;
        here = openat(&here, below.as_str(), OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    }
    touch(&here, b"the end \xFF")?;
    Ok(())
}

/// Creates every kind of bad name.
pub fn bad(dir: &Path) -> io::Result<()> {
    for sub in [&b""[..], b"good", b"good/b\xE4d", b"good/b\xE4d/\xFF\n", b"AUX", b"aux"] {
        let sub = dir.join(OsStr::from_bytes(sub));
        fs::create_dir_all(&sub)?;
        for name in BAD {
            touch(&sub, name)?;
        }
    }
    Ok(())
}
