//! The audit log: a file of JSON Lines. Log rotation may move it away, and its disk may be full.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use namegate_core::name::display::shown;
use namegate_files::json::{self, FORMAT_VERSION};
use namegate_files::output::append;
use namegate_files::time::timestamp;
use nix::unistd::Gid;
use serde::Serialize;

use super::bounded::BoundedRecord;
use super::record::AuditRecord;

/// A line for records that were not written.
#[derive(Serialize)]
pub(super) struct DroppedLine {
    r#type: &'static str,
    version: u32,
    time: String,
    count: u64,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
}

impl DroppedLine {
    /// `count` records until now, of one user or of all others.
    pub(super) fn new(count: u64, reason: &'static str, uid: Option<u32>) -> Self {
        Self {
            r#type: "dropped",
            version: FORMAT_VERSION,
            time: timestamp(SystemTime::now()),
            count,
            reason,
            uid,
        }
    }
}

/// A line for directories in which a watch may have missed names.
#[derive(Serialize)]
pub struct UncoveredNote {
    r#type: &'static str,
    version: u32,
    time: String,
    directories: u64,
}

impl UncoveredNote {
    /// This many directories or more, until now.
    pub fn now(directories: u64) -> Self {
        Self { r#type: "uncovered", version: FORMAT_VERSION, time: timestamp(SystemTime::now()), directories }
    }
}

/// A file with the path for reopening it.
#[derive(Clone)]
struct AuditFile {
    path: PathBuf,
    group: Option<Gid>,
}

impl AuditFile {
    fn open(&self) -> io::Result<File> {
        let file = append(&self.path, 0o640)?;
        match self.group.map(Gid::as_raw) {
            Some(group) if file.metadata()?.gid() != group => fchown(&file, None, Some(group))?,
            _ => {}
        }
        Ok(file)
    }
}

/// An audit log: records as JSON Lines.
pub struct AuditLog {
    out: Box<dyn Write + Send>,
    /// The path of the file, if it can be reopened.
    file: Option<AuditFile>,
    /// Number of records that could not be written since the last success.
    missing: u64,
    /// Whether the last line was written only in part.
    is_cut: bool,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Opens the file at `path` for appending. A missing file is created, with mode 0640 minus the umask.
    ///
    /// # Errors
    /// As open(2) says.
    pub fn append(path: &Path) -> io::Result<Self> {
        Self::at(AuditFile { path: path.into(), group: None })
    }

    /// Like [`AuditLog::append`]; the file gets the group `group`, so that its members can read it.
    ///
    /// # Errors
    /// As open(2) and chown(2) say.
    pub fn append_for(path: &Path, group: Gid) -> io::Result<Self> {
        Self::at(AuditFile { path: path.into(), group: Some(group) })
    }

    fn at(file: AuditFile) -> io::Result<Self> {
        Ok(Self { file: Some(file.clone()), ..Self::to(file.open()?) })
    }

    /// Writes each record to `out` by one call of `write`.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self { out: Box::new(out), file: None, missing: 0, is_cut: false }
    }

    /// Reopens the file by its path, because it may have been moved away. If it cannot be opened, the old file stays in use.
    pub fn reopen(&mut self) {
        let Some(file) = &self.file else { return };
        match file.open() {
            Ok(opened) => (self.out, self.is_cut) = (Box::new(opened), false),
            Err(error) => log::error!(
                "cannot open the audit log {} again, and go on in the old file: {error}",
                shown(&file.path)
            ),
        }
    }

    /// Writes one record. The log reports a failure, and the audit log counts the missing records.
    pub fn keep(&mut self, record: &AuditRecord) {
        self.put(&BoundedRecord::new(record).line, 1);
    }

    /// Writes a line about directories that were not read.
    pub fn note(&mut self, uncovered: &UncoveredNote) {
        self.put(uncovered, 0);
    }

    /// Writes a line that stands for `records` records; reports whether it was written.
    pub(super) fn put(&mut self, line: &impl Serialize, records: u64) -> bool {
        let was_failing = self.missing > 0;
        match self.write(line) {
            Ok(()) => {
                if was_failing {
                    self.report_missing();
                }
                true
            }
            Err(error) => {
                self.missing += records;
                if !was_failing {
                    log::error!("cannot write the audit log: {error}");
                }
                false
            }
        }
    }

    fn report_missing(&mut self) {
        let count = std::mem::take(&mut self.missing);
        log::warn!("the audit log is written again; records missing in it: {count}");
        if self.write(&DroppedLine::new(count, "disk", None)).is_err() {
            self.missing = count;
        }
    }

    /// Logs how many records are missing at the end.
    pub(super) fn finish(&self) {
        if self.missing > 0 {
            log::warn!(
                "the audit log could not be written to its end; records missing there: {}",
                self.missing
            );
        }
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(512);
        if self.is_cut {
            bytes.push(b'\n');
        }
        json::write_line(&mut bytes, line)?;
        let written = self.out.write(&bytes)?;
        self.out.flush()?;
        self.is_cut = written < bytes.len() && (self.is_cut || written > 0);
        match written == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::StorageFull, "there is no room for a whole line")),
        }
    }
}
