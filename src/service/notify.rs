//! Messages to the service manager: the service is ready, its status, it is alive.
//!
//! A message is one datagram of `KEY=VALUE` lines, to the socket that the environment names. Without a service manager
//! nothing is sent. The address is read from the environment once. Sending waits only for a moment: a manager that does not
//! read its socket must not block a file server.
//!
//! Sources: sd_notify(3), with "Notes" on the address and the keys; sd_watchdog_enabled(3). The crate `sd-notify` supports
//! neither addresses in the abstract namespace, which container managers use, nor a limit on the time for sending a message.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use namegate_sys::socket::send_fds;
use nix::sys::socket::UnixAddr;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpid};

/// The variable with the address of the service manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The variables with the watchdog interval in microseconds, and the process that it is for.
const WATCHDOG: (&str, &str) = ("WATCHDOG_USEC", "WATCHDOG_PID");

/// The time limit for sending a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The service manager that started this process, if one did.
#[derive(Clone, Debug, Default)]
pub struct ServiceManager {
    line: Option<Arc<NotifySocket>>,
    watchdog: Option<Duration>,
    /// The main process of the service, if it is another one.
    main: Option<Pid>,
}

#[derive(Debug)]
struct NotifySocket {
    socket: UnixDatagram,
    address: UnixAddr,
}

/// The address that `NOTIFY_SOCKET` names: a path, or a name in the abstract namespace behind `@`.
fn address(value: &OsStr) -> io::Result<UnixAddr> {
    match value.as_bytes() {
        [b'@', name @ ..] => Ok(UnixAddr::new_abstract(name)?),
        [b'/', ..] => Ok(UnixAddr::new(value)?),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract name")),
    }
}

/// The watchdog interval for the process `pid`, by the two variables.
fn period(microseconds: Option<&str>, addressee: Option<&str>, pid: u32) -> Option<Duration> {
    let microseconds = microseconds?.parse().ok().filter(|&number: &u64| number > 0)?;
    let is_meant = addressee.is_none_or(|addressee| addressee.parse() == Ok(pid));
    is_meant.then(|| Duration::from_micros(microseconds))
}

impl ServiceManager {
    /// No service manager.
    pub fn none() -> Self {
        Self::default()
    }

    /// The service manager that the environment names.
    pub fn from_environment() -> Self {
        let Some(value) = env::var_os(SOCKET).filter(|value| !value.is_empty()) else { return Self::none() };
        let [microseconds, addressee] = [WATCHDOG.0, WATCHDOG.1].map(|name| env::var(name).ok());
        let watchdog = period(microseconds.as_deref(), addressee.as_deref(), process::id());
        Self::at(&value, watchdog).unwrap_or_else(|error| {
            log::warn!("cannot notify the service manager: {SOCKET}: {error}");
            Self::none()
        })
    }

    /// The service manager with the socket at `address` (a path, or `@` and an abstract name) and the watchdog interval
    /// `watchdog`.
    ///
    /// # Errors
    /// There is no such address, or no socket can be created.
    pub fn at(address: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = self::address(address)?;
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self { line: Some(Arc::new(NotifySocket { socket, address })), watchdog, main: None })
    }

    /// For a service whose main process is another one.
    #[must_use]
    pub(super) fn with_main_process(self, main: Option<Pid>) -> Self {
        Self { main, ..self }
    }

    /// Whether there is a service manager.
    pub fn is_there(&self) -> bool {
        self.line.is_some()
    }

    /// The watchdog interval: if [`ServiceManager::alive`] is not called in this time, the manager ends the service.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Reports that the service is ready, and which process is its main process.
    pub fn ready(&self) {
        let main = self.main.unwrap_or_else(getpid);
        self.tell(format_args!("READY=1\nMAINPID={main}"));
    }

    /// Reports that a reload has begun. [`ServiceManager::reloaded`] must follow, even if the reload fails.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        self.tell(format_args!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }

    /// Reports that the reload has ended.
    pub fn reloaded(&self) {
        self.tell(format_args!("READY=1"));
    }

    /// Reports that the service is ending.
    pub fn stopping(&self) {
        self.tell(format_args!("STOPPING=1"));
    }

    /// Reports that the service is alive.
    pub fn alive(&self) {
        self.tell(format_args!("WATCHDOG=1"));
    }

    /// Reports the status, in one line for people.
    pub fn status(&self, status: &str) {
        // Text after a line feed would be another message.
        let line: String = status.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.tell(format_args!("STATUS={line}"));
    }

    /// Sends a message with copies of descriptors.
    ///
    /// # Errors
    /// As sendmsg(2) says.
    pub(super) fn send(&self, message: &str, numbers: &[RawFd]) -> io::Result<()> {
        let Some(line) = &self.line else { return Ok(()) };
        Ok(send_fds(&line.socket, Some(&line.address), message.as_bytes(), numbers)?)
    }

    fn tell(&self, message: fmt::Arguments<'_>) {
        if let Err(error) = self.send(&message.to_string(), &[]) {
            log::debug!("the service manager was not told {message:?}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    /// The received messages, in order.
    fn received(socket: &UnixDatagram) -> String {
        let mut message = [0; 512];
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let len = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    }

    #[test]
    fn every_message_is_one_datagram_of_the_protocol_at_either_kind_of_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let abstract_name = format!("namegate-test-{}", process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (socket, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{abstract_name}")),
        ] {
            let manager = ServiceManager::at(OsStr::new(&address), None).unwrap();
            manager.ready();
            assert_eq!(received(&socket), format!("READY=1\nMAINPID={}", process::id()));
            manager.reloading();
            let reloading = received(&socket);
            let moment = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("both at once");
            assert!(moment.parse::<u64>().unwrap() > 0);
            type Telling = fn(&ServiceManager);
            let all: [(Telling, &str); 3] = [
                (ServiceManager::reloaded, "READY=1"),
                (ServiceManager::stopping, "STOPPING=1"),
                (ServiceManager::alive, "WATCHDOG=1"),
            ];
            for (tell, expected) in all {
                tell(&manager);
                assert_eq!(received(&socket), expected);
            }
            manager.status("serving /a\nMAINPID=1\u{1b}[2J");
            assert_eq!(received(&socket), "STATUS=serving /a MAINPID=1 [2J");
        }
    }

    #[test]
    fn the_watchdog_is_for_the_process_that_it_names_alone() {
        let seconds = |number| Some(Duration::from_secs(number));
        assert_eq!(period(Some("3000000"), Some("7"), 7), seconds(3));
        assert_eq!(period(Some("3000000"), None, 7), seconds(3));
        assert_eq!(period(Some("3000000"), Some("8"), 7), None);
        for nonsense in [None, Some("0"), Some(""), Some("-1"), Some("soon")] {
            assert_eq!(period(nonsense, None, 7), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_manager_that_takes_nothing_or_has_gone_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::at(path.as_os_str(), None).unwrap();
        let begin = std::time::Instant::now();
        socket.set_nonblocking(true).unwrap();
        // Fills the queue, which takes a few messages, and sends one more.
        while begin.elapsed() < SEND_TIMEOUT / 2 {
            manager.alive();
        }
        drop(socket);
        manager.alive();
        assert!(begin.elapsed() < 20 * SEND_TIMEOUT);
        assert!(ServiceManager::at(OsStr::new("relative"), None).is_err());
        ServiceManager::none().ready();
    }
}
