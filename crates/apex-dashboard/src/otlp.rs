//! Pushes the metrics to a collector of OpenTelemetry, as JSON over HTTP (OTLP 1.x, `/v1/metrics`).
//!
//! Everything counts from the start of its session, so a push that fails loses nothing: the next one says it all. There is
//! no queue and nothing is sent twice. One thread sends, one connection at a time, in plain HTTP: a collector stands on
//! this machine or in its network, and encrypts what goes further. A collector that does not answer is told of once.

mod document;

use crate::metrics::families;
use apex_daemon::live::snapshots;
use apex_daemon::speech::say;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The port of collectors, and where they take metrics.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";
/// How long a collector may take for each step.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read.
const ANSWER: u64 = 64 << 10;

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    host: String,
    port: u16,
    path: String,
}

impl std::str::FromStr for Collector {
    type Err = String;

    /// Reads `http://HOST[:PORT][/PATH]`.
    fn from_str(url: &str) -> Result<Collector, String> {
        let rest = url.strip_prefix("http://").ok_or(
            "write http://HOST[:PORT][/PATH]; a collector on this machine encrypts what goes further",
        )?;
        let (place, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| "the port is no number")?)
            }
            _ => (place, PORT),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !is_plain(host) || !is_plain(path) || host.contains('@') {
            return Err("the host is missing, or has letters that no host has".into());
        }
        let path = if path.trim_end_matches('/').is_empty() { PATH } else { path };
        Ok(Collector { host: host.into(), port, path: path.into() })
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Where metrics are pushed, and how often.
#[derive(Clone, Debug)]
pub struct Push {
    /// To whom.
    pub collector: Collector,
    /// Between two pushes.
    pub every: Duration,
}

impl Push {
    /// Pushes for as long as this process lives what runs in these places.
    pub(crate) fn start(self, rings: Arc<[PathBuf]>) -> io::Result<()> {
        let pushes = move || {
            let mut reached = true;
            loop {
                let said = self.once(&rings);
                match (&said, reached) {
                    (Err(why), true) => {
                        say(&format!("metrics do not reach {}: {why}", self.collector))
                    }
                    (Ok(()), false) => say(&format!("metrics reach {} again", self.collector)),
                    _ => {}
                }
                reached = said.is_ok();
                std::thread::sleep(self.every);
            }
        };
        std::thread::Builder::new().name("apex-otlp".into()).spawn(pushes).map(drop)
    }

    fn once(&self, rings: &[PathBuf]) -> Result<(), String> {
        let families = families(&snapshots(rings));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let document = document::of(&families, now_ns, &crate::access::host_name());
        let (status, body) = self.collector.post(&document).map_err(|error| error.to_string())?;
        match status {
            200..300 => rejected(&body).map_or(Ok(()), Err),
            _ => Err(format!("it answered {status}")),
        }
    }
}

impl Collector {
    /// Sends a document; the status of the answer, and what is in it.
    fn post(&self, document: &str) -> io::Result<(u16, String)> {
        let name = self.host.trim_matches(['[', ']']);
        let mut addresses = (name, self.port).to_socket_addrs()?;
        let address =
            addresses.next().ok_or_else(|| io::Error::other("the host has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}:{}\r\nUser-Agent: apex\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.host,
            self.port,
            document.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(document.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("what it answers is not HTTP"))?;
        Ok((status, body.to_owned()))
    }
}

/// What a collector says that it did not take, if it says so.
fn rejected(body: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(body).ok()?;
    let partial = &document["partialSuccess"];
    let count = &partial["rejectedDataPoints"];
    // Numbers of 64 bits are text in this form.
    let count =
        count.as_u64().or_else(|| count.as_str()?.parse().ok()).filter(|count| *count > 0)?;
    Some(format!(
        "it did not take {count} numbers: {}",
        partial["errorMessage"].as_str().unwrap_or("")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_plain_address() {
        let shown = |url: &str| url.parse::<Collector>().map(|found| found.to_string());
        assert_eq!(shown("http://localhost").unwrap(), "http://localhost:4318/v1/metrics");
        assert_eq!(shown("http://10.0.0.1:9/").unwrap(), "http://10.0.0.1:9/v1/metrics");
        assert_eq!(shown("http://[::1]:9/a/b").unwrap(), "http://[::1]:9/a/b");
        assert_eq!(shown("http://[::1]").unwrap(), "http://[::1]:4318/v1/metrics");
        for wrong in [
            "localhost:4318",
            "https://localhost",
            "http://",
            "http://a b",
            "http://a:b",
            "http://u@h",
            "http://h/\r\nX: y",
        ] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_not_taken_is_told() {
        assert_eq!(rejected(""), None);
        assert_eq!(rejected(r#"{"partialSuccess":{}}"#), None);
        let body = r#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}"#;
        assert_eq!(rejected(body).unwrap(), "it did not take 3 numbers: too old");
    }
}
