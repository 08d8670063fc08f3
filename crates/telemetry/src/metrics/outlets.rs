//! Outlets of the metrics: a file that is rewritten regularly, and a port.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namegate_core::name::display::shown;
use namegate_files::output::{Output, remove};

use super::http;

/// Default for the time between two writes of the file.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(15);

/// What the outlets show: text for Prometheus, made anew for each reader.
pub trait MetricsSource: std::fmt::Debug + Send + Sync {
    /// The metrics as text, of the type `CONTENT_TYPE`.
    fn render(&self) -> String {
        self.render_until(None)
    }

    /// The same, with the time at which the text is outdated, in seconds since 1970.
    fn render_until(&self, expires: Option<u64>) -> String;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutletSettings {
    /// A file for node_exporter's textfile collector.
    pub file: Option<PathBuf>,
    /// Time between two writes of the file.
    pub interval: Duration,
    /// Address and port for Prometheus.
    pub listen: Option<SocketAddr>,
}

impl Default for OutletSettings {
    /// No outlets; a file would be written every 15 seconds.
    fn default() -> Self {
        Self { file: None, interval: WRITE_INTERVAL, listen: None }
    }
}

/// Outlets that are open, but not served yet.
#[derive(Debug)]
pub struct MetricsOutlets {
    file: Option<MetricsFile>,
    interval: Duration,
    metrics: Arc<dyn MetricsSource>,
    listener: Option<TcpListener>,
}

/// A file that is removed on drop: outdated metrics would be mistaken for current ones.
#[derive(Debug)]
struct MetricsFile(PathBuf);

impl Drop for MetricsFile {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            log::warn!("cannot remove the metrics in {}: {error}", shown(&self.0));
        }
    }
}

/// Outlets that are served until this is dropped, which also removes the file.
#[derive(Debug)]
pub struct RunningOutlets {
    file: Option<(SyncSender<()>, JoinHandle<()>)>,
    _port: Option<http::HttpServer>,
}

/// Why an outlet cannot be used: the attempted action, and the error.
#[derive(Debug)]
pub struct OutletError(String, io::Error);

impl std::fmt::Display for OutletError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

impl std::error::Error for OutletError {}

impl MetricsOutlets {
    /// Opens the port, and writes the file for the first time. Starts no thread.
    ///
    /// # Errors
    /// The first outlet that cannot be opened.
    pub fn open(wanted: OutletSettings, metrics: Arc<dyn MetricsSource>) -> Result<Self, OutletError> {
        let OutletSettings { file, interval, listen } = wanted;
        if let Some(file) = &file {
            if file.extension().is_none_or(|extension| extension != "prom") {
                log::warn!("node_exporter reads files that end in .prom; {} does not", shown(file));
            }
            write(file, interval, &*metrics).map_err(|error| {
                OutletError(format!("cannot write the metrics to {}", shown(file)), error)
            })?;
        }
        let file = file.map(MetricsFile);
        let bind = |address: SocketAddr| {
            let unavailable = |error| OutletError(format!("cannot serve the metrics on {address}"), error);
            let listener = TcpListener::bind(address).map_err(unavailable)?;
            if !address.ip().is_loopback() {
                log::warn!(
                    "everyone who can reach {address} can read the metrics: there is no password and no encryption"
                );
            }
            Ok(listener)
        };
        let listener = listen.map(bind).transpose()?;
        Ok(Self { file, interval, metrics, listener })
    }

    /// Starts to serve the outlets.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(self) -> Result<RunningOutlets, OutletError> {
        let Self { file, interval, metrics, listener } = self;
        let failed = |error| OutletError("cannot serve the metrics".into(), error);
        let port =
            listener.map(|listener| http::start(listener, metrics.clone())).transpose().map_err(failed)?;
        let file = file.map(|file| keep_up(file, interval, metrics)).transpose().map_err(failed)?;
        Ok(RunningOutlets { file, _port: port })
    }
}

impl Drop for RunningOutlets {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.file.take() {
            drop(ends);
            // The thread has already logged its errors.
            let _ = thread.join();
        }
    }
}

/// Rewrites the file regularly, until the other end of the channel is dropped.
fn keep_up(
    file: MetricsFile,
    interval: Duration,
    metrics: Arc<dyn MetricsSource>,
) -> io::Result<(SyncSender<()>, JoinHandle<()>)> {
    let (sender, ends) = sync_channel(0);
    let work = move || {
        let mut fails = false;
        while ends.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            match write(&file.0, interval, &*metrics) {
                Ok(()) => fails = false,
                Err(error) if !fails => {
                    fails = true;
                    log::error!("cannot write the metrics to {}: {error}", shown(&file.0));
                }
                Err(_) => {}
            }
        }
    };
    Ok((sender, thread::Builder::new().name("metrics-file".into()).spawn(work)?))
}

/// Replaces the file in one step; everybody can read it. It is outdated when it was not replaced for two intervals.
fn write(file: &Path, interval: Duration, metrics: &dyn MetricsSource) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires = now.saturating_add(interval.saturating_mul(2)).as_secs() + 1;
    let mut new = Output::with_mode(file, 0o644)?;
    new.write_all(metrics.render_until(Some(expires)).as_bytes())?;
    new.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use super::super::Metrics;
    use super::*;

    fn wait_until(what: impl Fn() -> bool) {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_metrics_file_is_always_complete_and_current_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namegate.prom");
        let metrics = Arc::<Metrics>::default();
        let wanted =
            OutletSettings { file: Some(file.clone()), interval: Duration::from_millis(1), listen: None };
        let outlets = MetricsOutlets::open(wanted, metrics.clone()).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        let running = outlets.start().unwrap();
        let reloads = |text: &str| text.contains("namegate_reloads_total{outcome=\"ok\"} 1");
        metrics.reloaded(true);
        wait_until(|| {
            let text = fs::read_to_string(&file).unwrap();
            assert!(
                text.starts_with("# HELP")
                    && text.ends_with('\n')
                    && text.contains("namegate_audit_dropped_total{")
            );
            reloads(&text)
        });
        drop(running);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_outlet_that_cannot_be_opened_is_reported_before_any_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("none").join("x.prom");
        let wanted = OutletSettings { file: Some(file), ..OutletSettings::default() };
        let said = MetricsOutlets::open(wanted, Arc::<Metrics>::default()).unwrap_err().to_string();
        assert!(said.contains("cannot write the metrics to ") && said.contains("none/x.prom"), "{said}");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let file = Some(dir.path().join("x.prom"));
        let wanted =
            OutletSettings { file, listen: Some(taken.local_addr().unwrap()), ..OutletSettings::default() };
        let said = MetricsOutlets::open(wanted, Arc::<Metrics>::default()).unwrap_err().to_string();
        assert!(said.contains("cannot serve the metrics on 127.0.0.1:") && said.contains("in use"), "{said}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "what is not served is not there");
    }
}
