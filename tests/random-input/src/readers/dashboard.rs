//! Requests to the dashboard: whatever comes over a connection, the server answers it or ends it and goes on.
//!
//! Two servers work in this process beside a kept session whose command is markup: one on loopback, and one that asks for
//! a token. A panic in them would only end one connection, so here it ends the process. A broken request is no way around
//! the checks: whoever names another host or comes from another page gets nothing, nor does anybody without the token.
//! What is answered is never a page but the one that is part of the server, so names in it are text.

use super::{Examples, Read, Reader, no_variables};
use anyhow::{Context, Result};
use apex_core::knobs::Knobs;
use apex_daemon::session::KeptSessions;
use apex_dashboard::{Dashboard, Places};
use apex_e2e::{Place, linked};
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
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
        "Sec-Fetch-Site: cross-site\r\n",
        "Authorization: Bearer TOKEN\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 18446744073709551615\r\n",
        "Expect: 100-continue\r\n",
        "/api/sessions/SESSION/report",
        "/api/diff?before=SESSION&after=SESSION",
        "%2F",
        "%00",
        "../",
        "?token=",
        "?token=TOKEN",
        "&columns=18446744073709551615",
        "<script>",
    ],
    cases: u64::MAX,
};

/// What stands for the id of the kept session.
const SESSION: &str = "SESSION";
/// What stands for the token of the server that asks for one.
const TOKEN: &str = "TOKEN";
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
        "/api/sessions/<script>alert(1)</script>/report",
        "/?token=TOKEN",
    ];
    let callers = [
        "Host: localhost\r\nOrigin: http://localhost\r\nCookie: a=b\r\nAuthorization: Bearer x\r\n",
        "Host: localhost\r\nAuthorization: Bearer TOKEN\r\n",
        "Host: evil.example\r\nAuthorization: Bearer TOKEN\r\n",
        "Host: localhost\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n",
    ];
    for (nth, path) in paths.iter().enumerate() {
        for (caller, headers) in callers.iter().enumerate() {
            let request =
                format!("GET {path} HTTP/1.1\r\n{headers}Accept: */*\r\nConnection: close\r\n\r\n");
            fs::write(folder.join(format!("request-{nth}-{caller}")), request)?;
        }
    }
    Ok(())
}

fn open(_: &Examples, folder: &Path) -> Result<Read> {
    let place = Place::new();
    let watched = place.watch(&linked(KEPT), &["<img src=x onerror=alert(1)>"]);
    let session = watched.summary().session;
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::abort();
    }));
    let (open, _) = served([127, 0, 0, 1], &place, folder)?;
    let (guarded, token) = served([0, 0, 0, 0], &place, folder)?;
    let asked = answer(open, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    asked.context("the dashboard does not answer")?;
    Ok(Box::new(move |_, bytes| {
        // The session lives as long as the reader.
        let _kept = &place;
        let request = replaced(&replaced(bytes, SESSION, &session), TOKEN, &token);
        let is_good = looked_at(&request, &said(open, &request));
        let told = said(guarded, &request);
        let has_token = request.windows(token.len()).any(|part| part == token.as_bytes());
        assert!(has_token || !gives(&told), "somebody without the token was answered");
        looked_at(&request, &told);
        is_good
    }))
}

/// A dashboard at an address of this machine, with the token that it asks for; empty where it asks for none.
fn served(address: [u8; 4], place: &Place, folder: &Path) -> Result<(SocketAddr, String)> {
    let knobs = Knobs { state: Some(place.state()), ..Knobs::default() };
    let places = Places {
        sessions: KeptSessions::of(&knobs, |_| None),
        rings: vec![folder.join("rings")],
        gate: folder.join("gate"),
    };
    let dashboard = Dashboard::bind(SocketAddr::from((address, 0)), None, places)?;
    let port = dashboard.address().port();
    let link = dashboard.link();
    let token = link.split_once("token=").map_or("", |(_, token)| token).to_owned();
    std::thread::Builder::new().name("dashboard".into()).spawn(move || dashboard.serve())?;
    Ok((SocketAddr::from(([127, 0, 0, 1], port)), token))
}

/// Whether an answer gives what was asked for; one that is refused ends the reader.
fn looked_at(request: &[u8], answer: &[u8]) -> bool {
    let is_good = gives(answer);
    let mut head = request.split(|&byte| byte == b'\n').take_while(|line| line.len() > 1).skip(1);
    let starts = |line: &[u8], with: &str| line.to_ascii_lowercase().starts_with(with.as_bytes());
    let is_foreign =
        head.any(|line| starts(line, "host: evil") || starts(line, "origin: http://evil"));
    assert!(!(is_good && is_foreign), "another host or another page was answered");
    if is_good {
        let answer = String::from_utf8_lossy(answer).to_lowercase();
        for held in
            ["x-content-type-options: nosniff", "content-security-policy: default-src 'none'"]
        {
            assert!(answer.contains(held), "an answer came without {held}");
        }
        let is_page = answer.contains("content-type: text/html");
        assert!(!(is_page && answer.contains("onerror")), "a name became markup");
    }
    is_good
}

/// Whether an answer is more than a refusal.
fn gives(answer: &[u8]) -> bool {
    [&b"HTTP/1.1 2"[..], b"HTTP/1.1 3"].iter().any(|start| answer.starts_with(start))
}

/// The request with what is known only now in its places.
fn replaced(bytes: &[u8], word: &str, by: &str) -> Vec<u8> {
    let mut whole = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(word.len()).position(|part| part == word.as_bytes()) {
        whole.extend_from_slice(&rest[..at]);
        whole.extend_from_slice(by.as_bytes());
        rest = &rest[at + word.len()..];
    }
    whole.extend_from_slice(rest);
    whole
}

/// What comes back; nothing where the server ended the connection without a word.
fn said(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    match answer(address, request) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            panic!("nobody listens any more")
        }
        Err(_) => Vec::new(),
    }
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
