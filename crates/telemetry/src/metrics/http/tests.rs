use std::net::SocketAddr;

use super::super::Metrics;
use super::*;

fn server() -> (SocketAddr, HttpServer) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = Metrics::default().with_label("mountpoint", "/mnt");
    (address, start(listener, Arc::new(metrics)).unwrap())
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The reply to `request`, head and content.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, content) = reply.split_once("\r\n\r\n").unwrap();
    (head.into(), content.into())
}

#[test]
fn the_page_is_served_and_nothing_else() {
    let (address, _running) = server();
    let (head, content) = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}", content.len())), "{head}");
    assert!(content.contains("namegate_build_info{mountpoint=\"/mnt\",version=\""), "{content}");
    let (head, content) = ask(address, "HEAD /metrics?x=y HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && content.is_empty());
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n", "x".repeat(REQUEST));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS + 1));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "200"),
        ("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
        ("\u{1}\u{2} metrics\r\n\r\n", "400"),
        (&long, "431"),
        (&many, "431"),
    ] {
        let (head, _) = ask(address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {head}");
    }
}

#[test]
fn a_request_may_come_in_pieces() {
    let (address, _running) = server();
    let mut stream = connect(address);
    for piece in "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".as_bytes().chunks(5) {
        stream.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply:.80}");
}

#[test]
fn slow_and_silent_clients_keep_nobody_else_out_and_are_disconnected() {
    let (address, _running) = server();
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..4 * CONNECTIONS).map(|_| connect(address)).collect();
    for stream in &mut slow {
        // The first ones are cut off already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n");
    }
    for _ in 0..20 {
        let (head, _) = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
    assert!(begun.elapsed() < CONNECTION_DEADLINE, "they were not waited for");
    // A header field now and then does not move the deadline.
    let last = slow.last_mut().unwrap();
    while last.write_all(b"X: y\r\n").is_ok() {
        assert!(begun.elapsed() < 4 * CONNECTION_DEADLINE, "it is never cut off");
        thread::sleep(Duration::from_millis(100));
    }
    for mut stream in slow {
        let mut rest = Vec::new();
        // Cut off: by an end or by an error.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }
}

#[test]
fn a_client_that_reads_nothing_is_disconnected_and_dropping_the_server_ends_it() {
    let (address, running) = server();
    let deaf: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(address)).collect();
    for mut stream in &deaf {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    }
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 200"));
    drop(running);
    let begun = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
}
