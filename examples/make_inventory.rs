//! Writes an inventory of object keys, the same in every run.
//!
//!     make_inventory KEYS >FILE   each key followed by NUL
//!
//! About 30 keys in each directory, every tenth key in one directory, as logs are. 1 % of the names are bad: not UTF-8, refused by
//! Windows, or equal to another one but for case.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use corpus::{Kind, Random, name};

#[path = "../benches/corpus/mod.rs"]
#[allow(dead_code, reason = "the benches use the rest")]
mod corpus;

/// Keys in a row that have the same directory.
const TOGETHER: u64 = 30;

fn main() -> ExitCode {
    let written = match std::env::args().nth(1).map(|keys| keys.parse()) {
        Some(Ok(keys)) => inventory(keys, &mut BufWriter::new(io::stdout().lock())),
        _ => Err(io::Error::other("give the number of keys")),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make_inventory: {error}");
            ExitCode::FAILURE
        }
    }
}

fn inventory(keys: u64, out: &mut impl Write) -> io::Result<()> {
    let mut random = Random(7);
    for number in 0..keys {
        match number % 10 {
            9 => write!(out, "logs/all/")?,
            _ => {
                let dir = number / TOGETHER;
                write!(out, "tenant-{}/project {}/{dir:08}/", dir * 40 / keys.max(1), dir / 100)?;
            }
        }
        // A few collisions beside the bad bytes, without one name for each pair in memory.
        let mut name = match random.next() % 1000 {
            0..4 => name(&mut random, Kind::Bad, number as usize),
            4..7 => format!("what? {number}.txt").into_bytes(),
            7..10 => format!("readme-{}", number / TOGETHER).into_bytes(),
            10..110 => name(&mut random, Kind::Latin, number as usize),
            110..160 => name(&mut random, Kind::Cjk, number as usize),
            _ => name(&mut random, Kind::Ascii, number as usize),
        };
        if random.next().is_multiple_of(2) && name.starts_with(b"readme-") {
            name[0] = b'R';
        }
        out.write_all(&name)?;
        out.write_all(&[0])?;
    }
    out.flush()
}
