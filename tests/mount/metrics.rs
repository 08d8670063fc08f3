//! Metrics of a live mount, scraped over HTTP and read from the file, also by the Prometheus client library if it is installed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::signal::Signal;

use namegate_testkit::metrics::{free_port, samples, scraped};
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::{PATIENCE, wait_until};

fn bad() -> &'static OsStr {
    OsStr::from_bytes(b"caf\xE9")
}

#[test]
fn requests_are_counted_with_their_outcome() {
    let Some((mounted, port)) = scraped(&[]) else { return };
    let mnt = mounted.mnt();
    for i in 0..7 {
        fs::create_dir(mnt.join(format!("dir{i}"))).unwrap();
    }
    // Repeats would be counted as records a minute later.
    for number in b'0'..b'3' {
        assert!(fs::create_dir(mnt.join(OsStr::from_bytes(&[number, 0xE9]))).is_err());
    }
    assert!(fs::remove_file(mnt.join("absent")).is_err());
    assert!(fs::remove_dir(mnt.join("dir0")).is_ok());
    fs::create_dir(mnt.join("dir1/sub")).unwrap();
    assert!(fs::remove_dir(mnt.join("dir1")).is_err());
    let files: Vec<File> = (0..5).map(|i| File::create(mnt.join(format!("file{i}"))).unwrap()).collect();
    let value = |series: &str| mounted.metrics(port).get(series).copied();
    let counted = |op: &str, outcome: &str| {
        format!("namegate_fuse_requests_total{{op=\"{op}\",outcome=\"{outcome}\"}}")
    };
    let of_mkdir = |what: &str| format!("namegate_fuse_request_duration_seconds_{what}op=\"mkdir\"");
    mounted.wait_for_metrics(
        port,
        &[
            (&counted("create", "ok"), 5.0),
            (&counted("mkdir", "ok"), 8.0),
            (&counted("mkdir", "EILSEQ"), 3.0),
            (&counted("rmdir", "ok"), 1.0),
            (&counted("rmdir", "ENOTEMPTY"), 1.0),
            (&format!("{}}}", of_mkdir("count{")), 11.0),
            (&format!("{},le=\"+Inf\"}}", of_mkdir("bucket{")), 11.0),
            // A separate thread writes it.
            ("namegate_audit_records_total", 3.0),
        ],
    );
    assert_eq!(value(&counted("unlink", "ok")), Some(0.0), "the lookup answered it");
    assert!(value(&counted("lookup", "ENOENT")) >= Some(1.0));
    assert_eq!(value("namegate_refusals_total{op=\"mkdir\",rule=\"truncated\"}"), Some(3.0));
    assert_eq!(value("namegate_permissive"), Some(0.0));
    assert_eq!(value("namegate_open_files"), Some(5.0));
    // The root, six directories, one in one of them, five files; and inodes that the kernel has not forgotten yet.
    assert!(value("namegate_inodes") >= Some(13.0));
    match value("namegate_passthrough_available") {
        Some(1.0) => assert_eq!(
            (value("namegate_backing_ids"), value("namegate_passthrough_fallbacks_total")),
            (Some(5.0), Some(0.0))
        ),
        _ => assert_eq!(value("namegate_passthrough_fallbacks_total"), Some(5.0)),
    }
    let sum = value(&format!("{}}}", of_mkdir("sum{"))).unwrap();
    assert!(sum > 11.0 * 1e-6 && sum < 11.0 * PATIENCE.as_secs_f64(), "{sum}");
    drop(files);
    wait_until("the closing", || value("namegate_open_files") == Some(0.0));
    for i in 0..5 {
        fs::remove_file(mnt.join(format!("file{i}"))).unwrap();
    }
    wait_until("the forgetting", || value("namegate_backing_ids") == Some(0.0));
}

#[test]
fn files_served_by_the_server_are_counted() {
    if !can_mount() {
        return;
    }
    let port = free_port();
    // The kernel does not read and write files of a stacked file system by itself.
    let Some(mounted) = TestMount::of_overlay_with(&["--metrics-listen", &port.to_string()]) else { return };
    for i in 0..3 {
        fs::write(mounted.mnt().join(format!("file{i}")), "content").unwrap();
    }
    let metrics = mounted.metrics(port);
    assert_eq!(metrics["namegate_passthrough_fallbacks_total"], 3.0);
    assert_eq!(metrics["namegate_backing_ids"], 0.0);
}

#[test]
fn admitted_violations_are_counted_separately() {
    let Some((mounted, port)) = scraped(&["--mode", "permissive"]) else { return };
    File::create(mounted.mnt().join(bad())).unwrap();
    let metrics = mounted.metrics(port);
    assert_eq!(metrics["namegate_let_through_total{op=\"create\",rule=\"truncated\"}"], 1.0);
    assert_eq!(metrics["namegate_permissive"], 1.0);
    assert!(!metrics.keys().any(|series| series.starts_with("namegate_refusals_total")), "{metrics:?}");
}

#[test]
fn a_client_library_of_prometheus_scrapes_a_mount() {
    let Some((mounted, port)) = scraped(&[]) else { return };
    let script = "
import sys, urllib.request
# Debian keeps it here, which another python3 does not know.
sys.path.append('/usr/lib/python3/dist-packages')
try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)
with urllib.request.urlopen('http://127.0.0.1:%s/metrics' % sys.argv[1]) as reply:
    assert reply.headers['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8', reply.headers
    text = reply.read().decode()
for family in text_string_to_metric_families(text):
    for sample in family.samples:
        assert sample.labels.pop('mountpoint') == sys.argv[2]
        print(sample.name, family.type, sample.value, *sorted(sample.labels.values()))
";
    assert!(File::create(mounted.mnt().join(bad())).is_err());
    wait_until("the count", || {
        mounted.metrics(port).contains_key("namegate_fuse_requests_total{op=\"create\",outcome=\"EILSEQ\"}")
    });
    let mut command = Command::new("python3");
    command.args(["-c", script, &port.to_string()]).arg(mounted.mnt()).stderr(Stdio::inherit());
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return println!("SKIPPED: no python3"),
        output => output.unwrap(),
    };
    if output.status.code() == Some(77) {
        return println!("SKIPPED: python3 has no prometheus_client");
    }
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "namegate_fuse_requests_total counter 1.0 EILSEQ create",
        "namegate_refusals_total counter 1.0 create truncated",
        "namegate_fuse_request_duration_seconds_count histogram 1.0 create",
        "namegate_permissive gauge 0.0",
    ] {
        assert!(text.lines().any(|read| read == line), "{line}\n{text}");
    }
}

#[test]
fn the_file_for_node_exporter_is_updated_and_removed_with_the_mount() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let file = dir.path().join("share.prom");
    let args = ["--metrics-textfile", file.to_str().unwrap(), "--metrics-interval", "0.1"];
    let mut mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    fs::create_dir(mounted.mnt().join("dir")).unwrap();
    let mountpoint = mounted.mnt();
    wait_until("the count", || {
        let metrics = samples(&fs::read_to_string(&file).unwrap(), mountpoint.to_str().unwrap());
        metrics["namegate_fuse_requests_total{op=\"mkdir\",outcome=\"ok\"}"] == 1.0
            && metrics["namegate_inodes"] >= 2.0
    });
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(!file.exists());
}

#[test]
fn slow_scrapers_disturb_neither_the_mount_nor_other_scrapers() {
    let Some((mounted, port)) = scraped(&[]) else { return };
    let sockets = || {
        let all = fs::read_dir(format!("/proc/{}/fd", mounted.server())).unwrap();
        let links = all.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let (begun, before) = (Instant::now(), sockets());
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            // The first connections may have been closed.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX:");
            stream
        })
        .collect();
    for i in 0..100 {
        fs::create_dir(mounted.mnt().join(i.to_string())).unwrap();
    }
    wait_until("the count", || {
        mounted.metrics(port)["namegate_fuse_requests_total{op=\"mkdir\",outcome=\"ok\"}"] == 100.0
    });
    assert!(begun.elapsed() < PATIENCE);
    assert!(sockets() < before + 25, "descriptors are for files");
    drop(slow);
}
