//! Entries of systemd's journal, by its native protocol: a datagram of fields or, if that is too long, a sealed
//! memory file.
//!
//! Sources: systemd's "Native Journal Protocol"; systemd.journal-fields(7). The crates for it wait for the journal without
//! limit; a thread that serves requests must not.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Record};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use nix::syslog::Severity;

pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Maximum time that a message may wait for a slow journal; the following messages do not wait.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// The number of a level, the same in syslog(3) and in the journal.
pub(super) fn severity(level: Level) -> Severity {
    match level {
        Level::Error => Severity::LOG_ERR,
        Level::Warn => Severity::LOG_WARNING,
        Level::Info => Severity::LOG_INFO,
        Level::Debug | Level::Trace => Severity::LOG_DEBUG,
    }
}

/// The result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendResult {
    /// The journal has received it.
    Done,
    /// It is lost: the journal did not accept it in time.
    Lost,
    /// There is no journal.
    NobodyListens,
}

#[derive(Debug)]
pub(super) struct JournalSocket {
    /// `None` if sockets cannot be created.
    socket: Option<UnixDatagram>,
    path: PathBuf,
    is_behind: AtomicBool,
    lost: AtomicU64,
}

impl JournalSocket {
    pub(super) fn new(path: &Path) -> Self {
        let socket = UnixDatagram::unbound()
            .and_then(|socket| socket.set_write_timeout(Some(SEND_TIMEOUT)).map(|()| socket))
            .ok();
        Self { socket, path: path.into(), is_behind: AtomicBool::new(false), lost: AtomicU64::new(0) }
    }

    pub(super) fn send(&self, record: &Record<'_>) -> SendResult {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let message = format!("{lost} messages are lost: the journal accepted nothing");
            if self.send_entry(&entry_of(Level::Warn, module_path!(), &message)) != SendResult::Done {
                self.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
        let mut entry = entry_of(record.level(), record.target(), &record.args().to_string());
        // It fails only if the visitor does.
        let _ = record.key_values().visit(&mut entry);
        let sent = self.send_entry(&entry);
        if sent == SendResult::Lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    /// Connects by path each time, because the journal may have been restarted.
    fn send_entry(&self, JournalEntry(bytes): &JournalEntry) -> SendResult {
        let sent = match self.send_datagram(bytes, &[]) {
            Err(Errno::EMSGSIZE | Errno::ENOBUFS) => sealed(bytes)
                .and_then(|file| self.send_datagram(&[], &[ControlMessage::ScmRights(&[file.as_raw_fd()])])),
            sent => sent,
        };
        self.is_behind.store(sent == Err(Errno::EAGAIN), Ordering::Relaxed);
        match sent {
            Ok(()) => SendResult::Done,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOMEM) => SendResult::Lost,
            Err(_) => SendResult::NobodyListens,
        }
    }

    fn send_datagram(&self, bytes: &[u8], with: &[ControlMessage<'_>]) -> nix::Result<()> {
        let socket = self.socket.as_ref().ok_or(Errno::ENOTSOCK)?;
        let waits = match self.is_behind.load(Ordering::Relaxed) {
            true => MsgFlags::MSG_DONTWAIT,
            false => MsgFlags::empty(),
        };
        let address = UnixAddr::new(&self.path)?;
        let flags = MsgFlags::MSG_NOSIGNAL | waits;
        sendmsg(socket.as_raw_fd(), &[IoSlice::new(bytes)], with, flags, Some(&address)).map(drop)
    }
}

/// Creates an immutable memory file, as the journal requires.
fn sealed(bytes: &[u8]) -> nix::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"namegate-log", flags)?);
    file.write_all(bytes).map_err(|_| Errno::ENOMEM)?;
    let seals =
        SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// The fields of an entry in the format of the protocol.
struct JournalEntry(Vec<u8>);

fn entry_of(level: Level, module: &str, message: &str) -> JournalEntry {
    let mut entry = JournalEntry(Vec::with_capacity(1024));
    entry.add("MESSAGE", message);
    entry.add("PRIORITY", &(severity(level) as u8).to_string());
    entry.add("SYSLOG_IDENTIFIER", "namegate");
    entry.add("NAMEGATE_MODULE", module);
    entry
}

impl JournalEntry {
    /// Adds a field; `name` is a field name of the journal. A value with a line feed is preceded by its length, so that the
    /// text after the line feed cannot be mistaken for a field.
    fn add(&mut self, name: &str, value: &str) {
        self.0.extend(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend((value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend(value.as_bytes());
        self.0.push(b'\n');
    }
}

impl<'kvs> VisitSource<'kvs> for JournalEntry {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        self.add(&field_name(key.as_str()), &value.to_string());
        Ok(())
    }
}

/// The name of a field in the journal: capital letters, digits and underscores, at most 64.
fn field_name(key: &str) -> String {
    if key == "message_id" {
        return "MESSAGE_ID".into();
    }
    let letters = key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    "NAMEGATE_".chars().chain(letters).take(64).collect()
}

#[cfg(test)]
mod tests;
