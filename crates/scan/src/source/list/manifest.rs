//! S3 Inventory: a manifest, and the files with keys that it names.
//!
//! Format: Amazon S3 User Guide, "Locating your inventory list" and "Amazon S3 inventory list". The keys of a CSV are encoded as in
//! HTML forms; the files are packed with gzip.

use std::fs::File;
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_files::signature::{self, TextKind};
use namegate_findings::decode::Decoding;
use serde::Deserialize;

use super::fields::{self, Column, Field, ListFormat, Missing};

/// The maximum size of a manifest in bytes. It has some 200 bytes for each file, and a file has about a million keys.
const MAX_MANIFEST: u64 = 64 << 20;

/// The parts of `manifest.json` that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    file_format: String,
    file_schema: String,
    files: Vec<ManifestFile>,
}

#[derive(Debug, Deserialize)]
struct ManifestFile {
    /// Where the file was delivered in the bucket.
    key: String,
    size: u64,
}

/// Hands each key of an inventory, with its number from 1, to `visit`.
///
/// # Errors
/// The manifest or a file cannot be read, or has another format.
pub fn read(
    manifest: &Path,
    jobs: NonZeroUsize,
    visit: &mut dyn FnMut(u64, Field) -> io::Result<()>,
) -> io::Result<()> {
    let text = io::Read::take(File::open(manifest)?, MAX_MANIFEST);
    let text = signature::skip(BufReader::new(text), TextKind::Syntax, &shown(manifest))?;
    let inventory: Manifest = serde_json::from_reader(text).map_err(|error| {
        io::Error::other(format!("it is not the manifest.json of an S3 Inventory: {error}"))
    })?;
    let mut last = 0;
    for file in &inventory.files {
        let path = find(manifest, &file.key)?;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", shown(&path)));
        let len = path.metadata().map_err(named)?.len();
        if len != file.size {
            let message = format!("it has {len} bytes, and {} by the manifest; copy it again", file.size);
            return Err(named(io::Error::other(message)));
        }
        let before = last;
        let mut count = |number: u64, field: Field| {
            last = last.max(before + number);
            visit(before + number, field)
        };
        read_file(&inventory, &path, jobs, &mut count).map_err(named)?;
    }
    Ok(())
}

fn read_file(
    inventory: &Manifest,
    path: &Path,
    jobs: NonZeroUsize,
    visit: &mut dyn FnMut(u64, Field) -> io::Result<()>,
) -> io::Result<()> {
    match inventory.file_format.as_str() {
        "CSV" => {
            let at = inventory.file_schema.split(',').position(|column| column.trim() == "Key");
            let at = at.ok_or_else(|| {
                io::Error::other(format!("the manifest has no column `Key`, but: {}", inventory.file_schema))
            })?;
            let mut number = 0;
            let mut decode = |field: Field| {
                number += 1;
                let key = field.and_then(|text| {
                    Decoding::Form.decode(text.into()).map(Into::into).ok_or(Missing::NotEncoded)
                });
                visit(number, key)
            };
            let format = ListFormat::Csv(Column::Number(at + 1));
            fields::read(&format, unpacked(path)?, b'\n', &mut decode)
        }
        #[cfg(feature = "parquet")]
        "Parquet" => super::parquet_list::read(path, "key", jobs, visit),
        other => {
            let _ = jobs;
            let ways = if cfg!(feature = "parquet") { "CSV or Parquet" } else { "CSV" };
            Err(io::Error::other(format!(
                "the inventory has the format {other}; have it delivered as {ways}"
            )))
        }
    }
}

#[cfg(feature = "archive")]
fn unpacked(path: &Path) -> io::Result<impl io::BufRead> {
    let file = BufReader::with_capacity(super::BUFFER, File::open(path)?);
    Ok(BufReader::with_capacity(super::BUFFER, flate2::bufread::MultiGzDecoder::new(file)))
}

#[cfg(not(feature = "archive"))]
fn unpacked(_path: &Path) -> io::Result<io::Empty> {
    Err(io::Error::other("this program was built without the feature `archive`, which unpacks gzip"))
}

/// The local copy of a file: `key` or an end of it, below the directory of the manifest or one above. A copy of the whole bucket has
/// all of the key; one of the inventory alone has the end of it.
fn find(manifest: &Path, key: &str) -> io::Result<PathBuf> {
    let parts: Vec<&str> = key.split('/').collect();
    // The manifest comes from elsewhere: it must not name any file of this machine.
    let is_plain = |part: &&str| {
        let mut components = Path::new(part).components();
        matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
    };
    if !parts.iter().all(is_plain) {
        return Err(io::Error::other(format!(
            "the manifest names a file by an invalid key: {}",
            shown(Path::new(key))
        )));
    }
    let above = manifest.ancestors().skip(1);
    let mut candidates = above
        .flat_map(|dir| (0..parts.len()).map(|from| dir.join(parts[from..].join("/"))).collect::<Vec<_>>());
    candidates.find(|path| path.is_file()).ok_or_else(|| {
        let key = shown(Path::new(key));
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{key}: not found beside the manifest; copy it there"),
        )
    })
}
