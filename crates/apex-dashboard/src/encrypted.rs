//! Connections that are encrypted with the user's own certificate.
//!
//! Each handshake goes on by itself and has ten seconds: whoever connects and says nothing keeps nobody waiting.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes at once.
const AT_ONCE: usize = 64;

/// The files of a certificate, as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate, and those that it is signed by.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What encrypts connections.
pub(crate) fn acceptor(certificate: &Certificate) -> io::Result<TlsAcceptor> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        io::Error::other(format!("{} is no PEM file that can be used: {why}", path.display()))
    };
    let of_chain = |error| wrong(&certificate.chain, &error);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&certificate.chain)
        .and_then(Iterator::collect)
        .map_err(of_chain)?;
    let key = PrivateKeyDer::from_pem_file(&certificate.key)
        .map_err(|error| wrong(&certificate.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&tokio_rustls::rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&certificate.chain, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Hands out connections whose handshake is done.
#[derive(Debug)]
pub(crate) struct Encrypted {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Encrypted {
    pub(crate) fn over(listener: TcpListener, acceptor: TlsAcceptor) -> io::Result<Encrypted> {
        let address = listener.local_addr()?;
        let (done, ready) = mpsc::channel(AT_ONCE);
        tokio::spawn(accept(listener, acceptor, done));
        Ok(Encrypted { ready, address })
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    done: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
        let Ok((stream, from)) = listener.accept().await else {
            // Without descriptors there is nothing to do but wait for some.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (acceptor, done) = (acceptor.clone(), done.clone());
        tokio::spawn(async move {
            let _turn = turn;
            if let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await {
                let _ = done.send((stream, from)).await;
            }
        });
    }
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // Nobody accepts any more: the runtime ends.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
