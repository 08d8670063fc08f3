//! The options that say where metrics are to be had.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::CliError;
use crate::telemetry::metrics::{Metrics, MetricsOutlets, OutletSettings};

/// All of it can be left unsaid.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct MetricsArgs {
    /// Write metrics to this file again and again, for node_exporter's textfile collector: NAME.prom.
    #[arg(long, value_name = "FILE")]
    pub metrics_textfile: Option<PathBuf>,
    /// How often [default: 15].
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub metrics_interval: Option<Duration>,
    /// Serve metrics by HTTP, to be scraped by Prometheus; a port alone is one of 127.0.0.1.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub metrics_listen: Option<SocketAddr>,
}

impl MetricsArgs {
    /// These, and what they leave unsaid as in `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            metrics_textfile: self.metrics_textfile.or(other.metrics_textfile),
            metrics_interval: self.metrics_interval.or(other.metrics_interval),
            metrics_listen: self.metrics_listen.or(other.metrics_listen),
        }
    }

    /// Opens what is asked for.
    pub fn outlets(&self, metrics: Arc<Metrics>) -> Result<MetricsOutlets, CliError> {
        let file = self.metrics_textfile.as_deref().map(path::absolute).transpose();
        let wanted = OutletSettings {
            file: file.map_err(|error| CliError::new(format!("--metrics-textfile: {error}")))?,
            interval: self.metrics_interval.unwrap_or(OutletSettings::default().interval),
            listen: self.metrics_listen,
        };
        MetricsOutlets::open(wanted, metrics).map_err(CliError::new)
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let port_alone = || Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), text.parse().ok()?));
    text.parse()
        .ok()
        .or_else(port_alone)
        .ok_or("not an address with a port, such as 127.0.0.1:9630 or [::1]:9630")
}

fn interval(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| *seconds >= Duration::from_millis(100))
        .ok_or("not a number of seconds of at least 0.1, such as 15")
}
