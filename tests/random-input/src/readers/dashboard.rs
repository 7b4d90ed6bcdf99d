//! Requests to the dashboard: whatever comes over a connection, the server answers it or ends it and goes on.
//!
//! The server works in this process, on loopback, beside a kept session. A panic in it would only end one connection, so
//! here it ends the process. An answer of 200 must not go to who names another host: a broken request is no way around
//! the checks.

use super::{Examples, Read, Reader, no_variables};
use anyhow::{Context, Result};
use apex_core::knobs::Knobs;
use apex_daemon::session::KeptSessions;
use apex_dashboard::{Dashboard, Places};
use apex_e2e::{Place, linked};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

pub(crate) const READER: Reader = Reader {
    name: "dashboard",
    gather,
    variables: no_variables,
    open,
    words: &[
        "GET ",
        "HTTP/1.1\r\n",
        "\r\n",
        "\r\n\r\n",
        "Host: localhost\r\n",
        "Host: evil.example\r\n",
        "Origin: http://evil.example\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 18446744073709551615\r\n",
        "Expect: 100-continue\r\n",
        "/api/sessions/SESSION/report",
        "/api/diff?before=SESSION&after=SESSION",
        "%2F",
        "%00",
        "../",
        "?token=",
        "&columns=18446744073709551615",
        "<script>",
    ],
    cases: u64::MAX,
};

/// What stands for the id of the kept session.
const SESSION: &str = "SESSION";
/// The session that every run keeps.
const KEPT: &str = "launch_forms";

fn gather(folder: &Path) -> Result<()> {
    let paths = [
        "/",
        "/app.js",
        "/style.css",
        "/metrics",
        "/api/live",
        "/api/sessions",
        "/api/sessions/SESSION/report",
        "/api/sessions/SESSION/advice",
        "/api/sessions/SESSION/export?format=csv",
        "/api/sessions/SESSION/export?format=chrome",
        "/api/sessions/SESSION/timeline?from=0&to=1000000&columns=100",
        "/api/diff?before=SESSION&after=SESSION",
        "/api/sessions/none/report",
    ];
    for (nth, path) in paths.iter().enumerate() {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nCookie: a=b\r\n\
             Authorization: Bearer x\r\nSec-Fetch-Site: same-origin\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        fs::write(folder.join(format!("request-{nth}")), request)?;
    }
    Ok(())
}

fn open(_: &Examples, folder: &Path) -> Result<Read> {
    let place = Place::new();
    let watched = place.watch(&linked(KEPT), &[]);
    let session = watched.summary().session;
    let knobs = Knobs { state: Some(place.state()), ..Knobs::default() };
    let places = Places {
        sessions: KeptSessions::of(&knobs, |_| None),
        rings: vec![folder.join("rings")],
        gate: folder.join("gate"),
    };
    let dashboard = Dashboard::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None, places)?;
    let address = dashboard.address();
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::abort();
    }));
    std::thread::Builder::new().name("dashboard".into()).spawn(move || dashboard.serve())?;
    answer(address, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .context("the dashboard does not answer")?;
    Ok(Box::new(move |_, bytes| {
        // The session lives as long as the reader.
        let _kept = &place;
        let request = replaced(bytes, session.as_bytes());
        let said = answer(address, &request).unwrap_or_default();
        let is_good = said.starts_with(b"HTTP/1.1 200");
        let names_another = |line: &[u8]| line.to_ascii_lowercase().starts_with(b"host: evil");
        let head = request.split(|&byte| byte == b'\n').take_while(|line| line.len() > 1);
        assert!(!(is_good && head.skip(1).any(names_another)), "another host was answered");
        is_good
    }))
}

/// The request with the id of the session in its places.
fn replaced(bytes: &[u8], id: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(SESSION.len()).position(|part| part == SESSION.as_bytes()) {
        whole.extend_from_slice(&rest[..at]);
        whole.extend_from_slice(id);
        rest = &rest[at + SESSION.len()..];
    }
    whole.extend_from_slice(rest);
    whole
}

/// The first bytes of what comes back. A stream of frames never ends, so nobody waits for an end.
fn answer(address: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    stream.write_all(request)?;
    stream.shutdown(Shutdown::Write)?;
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}
