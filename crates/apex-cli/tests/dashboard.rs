//! The dashboard's server: what it answers, and whom it refuses. What the page does with the answers is seen in a real
//! browser (`tests/e2e/tests/dashboard.rs`).
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Apex, PROGRAM, WAIT_FOR, text};

#[test]
fn the_program() {
    support::program();
}

/// Only ends what hangs.
const PATIENCE: Duration = Duration::from_secs(240);

/// A dashboard that answers.
struct Server {
    child: Child,
    address: String,
    query: String,
}

/// An answer: status, headers, body.
struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Server {
    fn start(apex: &Apex, listen: &str) -> Server {
        Server::start_with(apex, &["--listen", listen])
    }

    fn start_with(apex: &Apex, options: &[&str]) -> Server {
        let mut child = apex
            .command(&[&["dashboard"], options].concat())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.map(Result::unwrap).find(|line| line.contains("://")).unwrap();
        let link = line.split_whitespace().find_map(|word| word.split_once("://")).unwrap().1;
        let (address, query) = link.split_once('/').unwrap();
        Server { child, address: address.into(), query: query.into() }
    }

    fn port(&self) -> &str {
        self.address.rsplit_once(':').unwrap().1
    }

    /// What comes back for these bytes, until the server closes.
    fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port().parse().unwrap())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut back = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            back.extend_from_slice(&piece[..length]);
        }
        back
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let back = text(&self.send((request + "\r\n").as_bytes()));
        let (headers, body) = back.split_once("\r\n\r\n").unwrap();
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, headers: headers.to_lowercase(), body: body.into() }
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    fn document(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_documents_are_those_of_the_commands() {
    let apex = Apex::with_shim();
    for _ in 0..2 {
        assert!(apex.run_program(&[]).status.success());
    }
    let server = Server::start(&apex, "127.0.0.1:0");
    let printed = |arguments: &[&str]| text(&apex.output(arguments).stdout);
    assert_eq!(server.get("/api/sessions").body, printed(&["sessions", "--json"]));
    let list = server.document("/api/sessions");
    let ids: Vec<&str> =
        list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let [before, after] = ids[..] else { panic!("{ids:?}") };
    let path = |what: &str| format!("/api/sessions/{after}/{what}");
    assert_eq!(server.get(&path("report")).body, printed(&["report", "--json", after]));
    for _ in 0..2 {
        let advice = server.get(&path("advice")).body;
        assert_eq!(advice, printed(&["report", "--advice", "--json", after]));
    }
    let mut difference = server.document(&format!("/api/diff?before={before}&after={after}"));
    let headline = difference.as_object_mut().unwrap().remove("headline").unwrap();
    let said = printed(&["diff", before, after]);
    assert_eq!(headline, said.lines().next().unwrap());
    let expected: Value =
        serde_json::from_str(&printed(&["diff", "--json", before, after])).unwrap();
    assert_eq!(difference, expected);
    for format in ["json", "ndjson", "csv", "chrome"] {
        let answer = server.get(&path(&format!("export?format={format}")));
        assert!(answer.headers.contains("content-disposition: attachment; filename=\"apex-"));
        let body = unchunked(&answer.body);
        assert_eq!(body, printed(&["export", "--format", format, after]), "{format}");
    }
}

/// The body of an answer whose length was not known at its beginning.
fn unchunked(body: &str) -> String {
    let (mut rest, mut whole) = (body, String::new());
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole += &more[..length];
        rest = &more[(length + 2).min(more.len())..];
    }
    whole
}

#[test]
fn what_is_not_there_is_said_in_one_sentence() {
    let apex = Apex::with_shim();
    assert!(apex.run_program(&[]).status.success());
    let server = Server::start(&apex, "127.0.0.1:0");
    let session = apex.root.path().display().to_string().replace('/', "%2F");
    for (path, status) in [
        ("/api/sessions/none/report", 404),
        ("/api/sessions/latest/report", 404),
        ("/api/sessions/..%2F..%2Fetc/report", 404),
        (&*format!("/api/sessions/{session}/report"), 404),
        ("/api/sessions/none/export?format=csv", 404),
        ("/api/sessions/none/export", 400),
        ("/api/sessions/none/export?format=exe", 400),
        ("/api/diff", 400),
        ("/api/diff?before=a", 400),
        ("/api/diff?before=a&after=b", 404),
        ("/../Cargo.toml", 404),
        ("/page/app.js", 404),
        ("/api", 404),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let document: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(!document["error"].as_str().unwrap().is_empty());
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"] {
        for path in ["/", "/api/sessions", "/api/live", "/metrics"] {
            let status = server.ask(method, path, &[]).status;
            assert!((400..500).contains(&status), "{method} {path}: {status}");
        }
    }
}

#[test]
fn every_answer_is_held_back_from_other_sites() {
    let apex = Apex::without_shim();
    let server = Server::start(&apex, "127.0.0.1:0");
    for path in ["/", "/app.js", "/style.css", "/api/sessions", "/metrics", "/none"] {
        let Answer { headers, .. } = server.get(path);
        assert!(headers.contains("content-security-policy: default-src 'none'"), "{headers}");
        assert!(headers.contains("x-content-type-options: nosniff"), "{headers}");
        assert!(headers.contains("cross-origin-resource-policy: same-origin"), "{headers}");
        assert!(!headers.contains("access-control-allow-origin"), "{headers}");
    }
    for host in ["evil.example", "evil.example:80", "10.0.0.1", ""] {
        let answer = server.ask("GET", "/api/sessions", &[("Host", host)]);
        assert_eq!(answer.status, 403, "{host}");
    }
    assert!(!server.send(b"GET / HTTP/1.0\r\n\r\n").starts_with(b"HTTP/1.0 200"));
    let foreign = [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")];
    for header in foreign {
        for path in ["/api/sessions", "/api/live", "/metrics"] {
            assert_eq!(server.ask("GET", path, &[header]).status, 403, "{header:?} {path}");
        }
    }
    let local = format!("localhost:{}", server.port());
    assert_eq!(server.ask("GET", "/", &[("Host", &local)]).status, 200);
}

#[test]
fn from_elsewhere_a_token_is_needed_and_a_cookie_carries_it() {
    let apex = Apex::without_shim();
    let server = Server::start(&apex, "0.0.0.0:0");
    let token = server.query.strip_prefix("?token=").unwrap();
    let host = ("Host", "127.0.0.1");
    for path in ["/", "/app.js", "/api/sessions", "/api/live", "/metrics", "/?token=", "/?token=0"]
    {
        assert_eq!(server.ask("GET", path, &[host]).status, 401, "{path}");
    }
    let answer = server.ask("GET", &format!("/?token={token}"), &[host]);
    assert_eq!(answer.status, 303);
    assert!(answer.headers.contains("httponly; samesite=strict"), "{}", answer.headers);
    let cookie = answer.headers.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(server.ask("GET", "/", &[host, ("Cookie", cookie)]).status, 200);
    let bearer = format!("Bearer {token}");
    assert_eq!(server.ask("GET", "/metrics", &[host, ("Authorization", &bearer)]).status, 200);
    let evil = [("Host", "evil.example"), ("Authorization", &*bearer)];
    assert_eq!(server.ask("GET", "/metrics", &evil).status, 403);
}

#[test]
fn connections_are_encrypted_with_the_users_certificate() {
    let apex = Apex::without_shim();
    let file = |name: &str| format!("{}/tests/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = (file("certificate"), file("key"));
    let listen = ["--listen", "0.0.0.0:0"];
    let with = |certificate| [&listen[..], &["--certificate", certificate, "--key", &key]].concat();
    let server = Server::start_with(&apex, &with(&certificate));
    // Who says nothing, or does not encrypt, keeps nobody waiting.
    let silent = TcpStream::connect(("127.0.0.1", server.port().parse().unwrap())).unwrap();
    assert!(!server.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with(b"HTTP"));
    let (address, token) =
        (format!("127.0.0.1:{}", server.port()), &server.query["?token=".len()..]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/ask_encrypted.py");
    let asked = Command::new("python3").arg(script).args([&certificate, &address, token]).output();
    let asked = asked.unwrap();
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    drop(silent);
    let wrong = apex.output(&[&["dashboard"], &with(&key)[..]].concat());
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("key.pem"), "{}", text(&wrong.stderr));
}

#[test]
fn what_runs_comes_as_frames_and_as_metrics() {
    let apex = Apex::with_shim();
    let go = apex.path("go");
    let exe = std::env::current_exe().unwrap();
    let mut arguments = vec!["run", "--", exe.to_str().unwrap()];
    arguments.extend(PROGRAM);
    let mut running = apex
        .command(&arguments)
        .env(WAIT_FOR, &go)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server::start(&apex, "127.0.0.1:0");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /api/live HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    stream.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let events = lines.filter_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    let mut events = events.map(|data| serde_json::from_str::<Value>(&data).unwrap());
    assert!(events.next().unwrap()["sessions"].is_object(), "the last minute comes first");
    // Another program of this user may run beside the test.
    let apex_pid = running.id();
    let own = |frame: Value| -> Option<Value> {
        let sessions = frame["sessions"].as_array().unwrap().iter();
        sessions.into_iter().find(|session| session["apex_pid"] == apex_pid).cloned()
    };
    let is_whole = |session: &Value| {
        let is_known = session["processes"][0]["command"] == "train --fast";
        is_known && session["kernels"][0]["calls"].as_u64().is_some()
    };
    let session = events.by_ref().filter_map(own).find(is_whole).unwrap();
    let metrics = server.get("/metrics").body;
    for part in ["program=\"train\"", "kernel=\"gemm\"", "hw_gpu_memory_limit_bytes"] {
        assert!(metrics.contains(part), "{part} in\n{metrics}");
    }
    let file = apex.path("metrics");
    std::fs::write(&file, &metrics).unwrap();
    let python = std::env::var("APEX_TEST_PYTHON")
        .expect("no Python with the foreign readers: run `cargo xtask test`, which makes one");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/read_metrics.py");
    let id = session["id"].as_str().unwrap();
    let read = Command::new(python).arg(script).arg(file).arg(id).output().unwrap();
    assert!(read.status.success(), "{metrics}\n{}", text(&read.stderr));
    // While somebody listens, news comes more often than twice a second.
    let mut moments = events.by_ref().filter_map(own).filter_map(|own| own["at_ns"].as_u64());
    let mut last = moments.next().unwrap();
    let mut between = |now: u64| now - std::mem::replace(&mut last, now);
    assert!(moments.any(|now| (1..300_000_000).contains(&between(now))));
    std::fs::write(&go, "").unwrap();
    assert!(running.wait().unwrap().success());
    assert!(events.any(|frame| own(frame).is_none()), "a session that has ended is gone");
}

#[test]
fn a_signal_ends_it_and_an_address_in_use_is_said() {
    let apex = Apex::without_shim();
    let server = Server::start(&apex, "127.0.0.1:0");
    let second = apex.output(&["dashboard", "--listen", &server.address]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("--listen names another address"),
        "{}",
        text(&second.stderr)
    );
    let pid = nix::unistd::Pid::from_raw(server.child.id().try_into().unwrap());
    // A page is open: it does not keep the dashboard.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let request = format!("GET /api/live HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    stream.write_all(request.as_bytes()).unwrap();
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let mut server = server;
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}
