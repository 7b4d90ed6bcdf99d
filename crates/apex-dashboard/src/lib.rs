//! The dashboard: a page of what runs on this machine under apex, and of what ran.
//!
//! A server for browsers and for Prometheus, on loopback unless the user names another address. It only answers
//! questions: there is no request that starts, stops or changes anything, and every request is judged before it is
//! read ([`access`]). What runs comes from [`apex_daemon::watch`], which `apex top` follows too; what ran comes from the
//! kept sessions, in the same documents that the commands print. The page ([`assets`]) is part of the binary and asks
//! nobody else for anything.
#![forbid(unsafe_code)]

mod access;
mod answer;
mod assets;
mod encrypted;
mod frame;
mod kept;
mod live;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;

pub use encrypted::Certificate;
#[cfg(feature = "otlp")]
pub use otlp::{Collector, Push};

use access::Access;
use apex_daemon::session::KeptSessions;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use encrypted::{Encrypted, acceptor};
use kept::Kept;
use live::Live;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// Where the dashboard finds what it shows.
#[derive(Clone, Debug)]
pub struct Places {
    /// The kept sessions.
    pub sessions: KeptSessions,
    /// Where rings of running sessions may lie.
    pub rings: Vec<PathBuf>,
    /// Where programs that share a GPU meet.
    pub gate: PathBuf,
}

/// A dashboard that has its address and answers nobody yet.
pub struct Dashboard {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    places: Places,
    tls: Option<TlsAcceptor>,
    #[cfg(feature = "otlp")]
    push: Option<Push>,
    stop: Stop,
}

/// Ends a dashboard from another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// Ends it now, or as soon as it begins.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// What every answer may need.
#[derive(Clone)]
struct Shared {
    kept: Arc<Kept>,
    live: Arc<Live>,
    rings: Arc<[PathBuf]>,
}

impl Dashboard {
    /// Takes an address. Whoever is not on this machine needs a token, which [`Dashboard::link`] carries.
    ///
    /// # Errors
    ///
    /// When the address cannot be had, the certificate cannot be used, or no token can be made.
    pub fn bind(
        listen: SocketAddr,
        certificate: Option<&Certificate>,
        places: Places,
    ) -> io::Result<Dashboard> {
        let tls = certificate.map(acceptor).transpose()?;
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let access = Access::for_address(address, tls.is_some())?;
        Ok(Dashboard {
            listener,
            address,
            access,
            places,
            tls,
            #[cfg(feature = "otlp")]
            push: None,
            stop: Stop::default(),
        })
    }

    /// Pushes the metrics too, from the moment that it serves.
    #[cfg(feature = "otlp")]
    pub fn push(&mut self, push: Push) {
        self.push = Some(push);
    }

    /// Where a browser finds it, with the token where one is needed.
    #[must_use]
    pub fn link(&self) -> String {
        let address = if self.address.ip().is_unspecified() {
            format!("{}:{}", access::host_name(), self.address.port())
        } else {
            self.address.to_string()
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.access.token() {
            Some(token) => format!("{scheme}://{address}/?token={token}"),
            None => format!("{scheme}://{address}/"),
        }
    }

    /// The address that it took.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What ends it.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Answers until it is told to stop.
    ///
    /// # Errors
    ///
    /// When the threads that it needs cannot be had.
    pub fn serve(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Reports and exports are made here; two at a time work, the others wait.
            .max_blocking_threads(4)
            .build()?;
        let live = Live::start(&self.places)?;
        let shared = Shared {
            kept: Arc::new(Kept::of(self.places.sessions)),
            live,
            rings: self.places.rings.into(),
        };
        #[cfg(feature = "otlp")]
        if let Some(push) = self.push {
            push.start(Arc::clone(&shared.rings))?;
        }
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let routes = routes(shared, self.access);
            let server = async {
                match self.tls {
                    None => axum::serve(listener, routes).await,
                    Some(acceptor) => {
                        axum::serve(Encrypted::over(listener, acceptor)?, routes).await
                    }
                }
            };
            tokio::select! {
                ended = server => ended,
                // Live streams never end by themselves, so nobody is waited for.
                () = self.stop.0.notified() => Ok(()),
            }
        })?;
        runtime.shutdown_background();
        Ok(())
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dashboard").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Every question that is answered. All are read-only, so `get` is the only method there is.
fn routes(shared: Shared, access: Access) -> Router {
    let mut router = Router::new()
        .route("/api/live", get(live::stream))
        .route("/api/sessions", get(kept::list))
        .route("/api/sessions/{id}/report", get(kept::report))
        .route("/api/sessions/{id}/advice", get(kept::advice))
        .route("/api/sessions/{id}/timeline", get(kept::timeline))
        .route("/api/sessions/{id}/export", get(kept::export))
        .route("/api/diff", get(kept::diff))
        .route("/metrics", get(metrics::page));
    for asset in assets::ASSETS {
        router = router.route(asset.path, get(|| async { assets::answer(asset) }));
    }
    router
        .fallback(|| async {
            answer::refuse(answer::NOT_FOUND, "there is nothing at this address")
        })
        .with_state(shared)
        .layer(from_fn_with_state(Arc::new(access), access::guard))
}
