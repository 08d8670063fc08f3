//! The metrics of a live mount, scraped over HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::mounted::TestMount;

/// A free port that the kernel assigns to no program that asks for any port: a connection at it has just been closed
/// (TIME_WAIT). A program that asks for this port gets it.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    // The side that closes first gets TIME_WAIT: the listener.
    drop(listener.accept().unwrap());
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    address.port()
}

/// A mount, and the port at which it serves metrics.
pub fn scraped(args: &[&str]) -> Option<(TestMount, u16)> {
    let port = free_port();
    let listen = port.to_string();
    Some((TestMount::new(&[args, &["--metrics-listen", &listen]].concat())?, port))
}

/// What a scrape of the port gets.
fn get(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, text) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    text.into()
}

/// The samples by name and labels, without the label of the mount point.
pub fn samples(text: &str, mountpoint: &str) -> BTreeMap<String, f64> {
    let own = format!("mountpoint=\"{mountpoint}\"");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.contains(&own), "{series}");
            let series = series.replace(&format!("{own},"), "").replace(&format!("{{{own}}}"), "");
            (series, value.parse().unwrap())
        })
        .collect()
}

impl TestMount {
    /// The samples that the mount serves at this port.
    pub fn metrics(&self, port: u16) -> BTreeMap<String, f64> {
        samples(&get(port), self.mnt().to_str().unwrap())
    }

    /// Waits until the samples have these values. A request is counted after its reply was sent, by a thread that may have
    /// to wait for a processor in between.
    pub fn wait_for_metrics(&self, port: u16, expected: &[(&str, f64)]) {
        let mut found = BTreeMap::new();
        let begun = Instant::now();
        while expected.iter().any(|(series, value)| found.get(*series) != Some(value)) {
            assert!(begun.elapsed() < PATIENCE, "{expected:?} in {found:#?}");
            found = self.metrics(port);
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the server has so many files open and no more: it hears of a close(2) when that is over.
    pub fn wait_for_open_files(&self, port: u16, count: usize) {
        self.wait_for_metrics(port, &[("namegate_open_files", count as f64)]);
    }
}
