//! Who may ask: every request is judged by its headers before anything else of it is looked at.
//!
//! A page of another site must not read this one through the user's browser. Such a page can send requests here, so
//! what it says of itself is checked: `Host`, because a name that an attacker owns may lead to this machine (DNS
//! rebinding); `Origin` and `Sec-Fetch-Site`, because they name the page that asks. An address in digits cannot be
//! rebound, so it is as good as `localhost`. From elsewhere a token is needed too: it comes once, in the link that is
//! printed, and stays in a cookie that no script reads and no other site sends.

use crate::answer::{self, FORBIDDEN, UNAUTHORIZED};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// What a request must show.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// None on loopback: who can ask there is on this machine.
    token: Option<String>,
    own_name: String,
    /// Browsers keep the cookies of a host together, whatever the port.
    cookie: String,
    is_encrypted: bool,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// It came with the token in its link: from here on the cookie carries it.
    TokenTaken,
    Refused(StatusCode, &'static str),
}

impl Access {
    pub(crate) fn for_address(address: SocketAddr, is_encrypted: bool) -> io::Result<Access> {
        let token = if address.ip().is_loopback() { None } else { Some(new_token()?) };
        let cookie = format!("apex-dashboard-{}", address.port());
        Ok(Access { token, own_name: host_name(), cookie, is_encrypted })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    fn judge(&self, headers: &HeaderMap, query: &str) -> Verdict {
        // A header that comes twice is judged each time.
        let texts = |name: &HeaderName| -> Vec<&str> {
            headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("")).collect()
        };
        let [host] = texts(&HOST)[..] else {
            return Verdict::Refused(FORBIDDEN, "a request must name the host that it wants");
        };
        if !self.is_own(host) {
            return Verdict::Refused(
                FORBIDDEN,
                "the host is not this machine; use its address in digits, or localhost",
            );
        }
        let is_own = |origin: &&str| origin.split_once("://").map(|it| it.1) == Some(host);
        if !texts(&ORIGIN).iter().all(is_own) {
            return Verdict::Refused(FORBIDDEN, "a page of another site asks");
        }
        // A link on another page may lead here, but nothing else of that page may.
        let is_foreign = texts(&SITE).iter().any(|site| !["same-origin", "none"].contains(site));
        if is_foreign && texts(&MODE) != ["navigate"] {
            return Verdict::Refused(FORBIDDEN, "a page of another site asks");
        }
        self.judge_token(headers, query)
    }

    fn judge_token(&self, headers: &HeaderMap, query: &str) -> Verdict {
        let Some(token) = &self.token else { return Verdict::Allowed };
        let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let cookies = texts(COOKIE)
            .flat_map(|line| line.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(&self.cookie)?.strip_prefix('='));
        let bearers = texts(AUTHORIZATION).filter_map(|line| line.strip_prefix("Bearer "));
        if cookies.chain(bearers).any(|said| is_equal(said, token)) {
            return Verdict::Allowed;
        }
        let mut in_link = query.split('&').filter_map(|part| part.strip_prefix("token="));
        if in_link.any(|said| is_equal(said, token)) {
            return Verdict::TokenTaken;
        }
        Verdict::Refused(
            UNAUTHORIZED,
            "open the link that apex dashboard printed: it has the token",
        )
    }

    /// Whether a `Host` names this machine and nothing that could be rebound.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let is_local = name.eq_ignore_ascii_case("localhost");
        match name.parse::<IpAddr>() {
            Ok(address) => self.token.is_some() || address.is_loopback(),
            Err(_) => {
                is_local || (self.token.is_some() && name.eq_ignore_ascii_case(&self.own_name))
            }
        }
    }
}

/// Judges a request, and lets it on or answers it.
pub(crate) async fn guard(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let mut answer = match access.judge(request.headers(), query) {
        Verdict::Allowed => next.run(request).await,
        Verdict::TokenTaken => {
            let token = access.token().unwrap_or_default();
            let secure = if access.is_encrypted { "; Secure" } else { "" };
            let cookie =
                format!("{}={token}; HttpOnly; SameSite=Strict; Path=/{secure}", access.cookie);
            let headers = [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Verdict::Refused(status, why) => answer::refuse(status, why),
    };
    for (name, value) in EVERY_ANSWER {
        let name = HeaderName::from_static(name);
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

/// On every answer: nothing is taken from elsewhere, nothing is taken for what it is not, nothing is framed, kept or
/// told to others.
const EVERY_ANSWER: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// The name that this machine gives itself.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default()
}

/// 256 bits that nobody can guess.
fn new_token() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not tell how much of it is right.
fn is_equal(said: &str, token: &str) -> bool {
    let differing = said.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    said.len() == token.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(access: &Access, headers: &[(&'static str, &str)], query: &str) -> Verdict {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        access.judge(&map, query)
    }

    fn local() -> Access {
        Access { token: None, ..remote() }
    }

    fn remote() -> Access {
        Access {
            token: Some("secret".into()),
            own_name: "machine".into(),
            cookie: "apex-dashboard".into(),
            is_encrypted: false,
        }
    }

    #[track_caller]
    fn check(access: &Access, headers: &[(&'static str, &str)], expected: Option<StatusCode>) {
        let refused = match judged(access, headers, "") {
            Verdict::Refused(status, _) => Some(status),
            _ => None,
        };
        assert_eq!(refused, expected, "{headers:?}");
    }

    #[test]
    fn a_host_is_this_machine_and_cannot_be_rebound() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8377", "127.9.9.9", "[::1]:8377"] {
            check(&local(), &[("host", host)], None);
        }
        let others = [
            "evil.example",
            "evil.example:8377",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "machine",
            "10.0.0.1",
            "[::2]",
            "[::1",
            "",
            ":80",
            "\u{e9}",
        ];
        for host in others {
            check(&local(), &[("host", host)], Some(FORBIDDEN));
        }
        check(&local(), &[], Some(FORBIDDEN));
        check(&local(), &[("host", "localhost"), ("host", "localhost")], Some(FORBIDDEN));
    }

    #[test]
    fn another_sites_page_is_refused_and_its_link_is_not() {
        let host = ("host", "localhost:1");
        check(&local(), &[host, ("origin", "http://localhost:1")], None);
        for origin in ["http://evil.example", "null", "http://localhost:2", "", "localhost:1"] {
            check(&local(), &[host, ("origin", origin)], Some(FORBIDDEN));
        }
        let twice = [host, ("origin", "http://localhost:1"), ("origin", "http://evil.example")];
        check(&local(), &twice, Some(FORBIDDEN));
        let site = |site| ("sec-fetch-site", site);
        check(&local(), &[host, site("same-origin")], None);
        check(&local(), &[host, site("cross-site")], Some(FORBIDDEN));
        check(&local(), &[host, site("same-site"), ("sec-fetch-mode", "no-cors")], Some(FORBIDDEN));
        check(&local(), &[host, site("cross-site"), ("sec-fetch-mode", "navigate")], None);
        check(&local(), &[host, site("same-origin"), site("cross-site")], Some(FORBIDDEN));
    }

    #[test]
    fn elsewhere_a_token_is_needed() {
        let host = ("host", "machine:1");
        check(&remote(), &[host], Some(UNAUTHORIZED));
        for said in ["", "s", "secre", "secret2", "SECRET"] {
            check(
                &remote(),
                &[host, ("authorization", &format!("Bearer {said}"))],
                Some(UNAUTHORIZED),
            );
            let cookie = format!("a=b; apex-dashboard={said}");
            check(&remote(), &[host, ("cookie", &cookie)], Some(UNAUTHORIZED));
        }
        check(&remote(), &[host, ("authorization", "Bearer secret")], None);
        check(&remote(), &[("host", "10.0.0.1"), ("cookie", "a=b; apex-dashboard=secret")], None);
        check(
            &remote(),
            &[("host", "evil.example"), ("authorization", "Bearer secret")],
            Some(FORBIDDEN),
        );
        assert_eq!(judged(&remote(), &[host], "x=1&token=secret"), Verdict::TokenTaken);
        assert!(matches!(judged(&remote(), &[host], "token=wrong"), Verdict::Refused(..)));
    }

    #[test]
    fn a_token_is_needed_where_others_can_ask() {
        let of = |address: &str| Access::for_address(address.parse().unwrap(), false).unwrap();
        assert!(of("127.0.0.1:1").token().is_none() && of("[::1]:1").token().is_none());
        let (one, other) = (of("0.0.0.0:1"), of("0.0.0.0:1"));
        assert_eq!(one.token().unwrap().len(), 64);
        assert_ne!(one.token(), other.token());
    }
}
