//! Dialling a WebSocket, with a reason for every failure.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use hyper::{HeaderMap, Uri};
use rustls::pki_types::ServerName;
use tokio::{
    net::{TcpStream, lookup_host},
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    client_async_with_config,
    tungstenite::{self, client::IntoClientRequest, handshake::client::Request},
};

use crate::{
    DialError, Limits, Link, RawSocket, Refusal, no_delay, socket::config, stream::Stream, tls,
};

/// Time for one whole dial (session.md 1, "connect timeout").
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence after which the next address of a name is tried as well (RFC 8305 section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Decides whether a host may be contacted: the outbound policy of session.md 9.4. Given the host without
/// brackets, and the port.
pub type Policy = Arc<dyn Fn(&str, u16) -> bool + Send + Sync>;

/// How to dial.
#[derive(Clone)]
pub struct DialOptions {
    /// Time for the whole attempt: name lookup, TCP, TLS, upgrade. 10 s by default.
    pub timeout: Duration,
    /// Headers added to the upgrade request, for example `authorization`.
    pub headers: HeaderMap,
    /// Bounds of the connection. [`Limits::direct`] by default.
    pub limits: Limits,
    /// The host's outbound policy, if it has one.
    pub policy: Option<Policy>,
    /// TLS for `wss`; [`tls::client_config`] if absent.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

impl Default for DialOptions {
    fn default() -> Self {
        Self {
            timeout: DIAL_TIMEOUT,
            headers: HeaderMap::new(),
            limits: Limits::direct(),
            policy: None,
            tls: None,
        }
    }
}

impl DialOptions {
    /// The defaults with the bounds of relay frames.
    pub fn rendezvous() -> Self {
        Self {
            limits: Limits::rendezvous(),
            ..Self::default()
        }
    }
}

/// Dials a direct link: one JSON-RPC message per WebSocket message.
pub async fn dial(url: &str, options: &DialOptions) -> Result<Link, DialError> {
    dial_raw(url, options).await.map(Link::from)
}

/// Dials a WebSocket whose messages the caller interprets.
///
/// No sub-protocol, no extension and no `Origin` is ever sent; redirects are not followed.
pub async fn dial_raw(url: &str, options: &DialOptions) -> Result<RawSocket, DialError> {
    match timeout(options.timeout, attempt(url, options)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(DialError::Timeout(options.timeout)),
    }
}

async fn attempt(url: &str, options: &DialOptions) -> Result<RawSocket, DialError> {
    let target = Target::parse(url)?;
    if let Some(policy) = &options.policy
        && !policy(&target.host, target.port)
    {
        return Err(DialError::Denied { host: target.host });
    }
    let mut request = target.request()?;
    for (name, value) in &options.headers {
        request.headers_mut().append(name, value.clone());
    }

    let tcp = connect(&target.host, target.port)
        .await
        .map_err(DialError::Io)?;
    let stream = if target.secure {
        Stream::Tls(Box::new(secure(tcp, target.host, options).await?))
    } else {
        Stream::Tcp(tcp)
    };
    let config = config(&options.limits);
    let (inner, _response) = client_async_with_config(request, stream, Some(config))
        .await
        .map_err(refused)?;
    Ok(RawSocket::from_inner(inner, options.limits))
}

/// Connects to the first address that answers. The next one is tried as soon as one failed, and after
/// [`NEXT_ADDRESS`] of silence: an address that leads nowhere must not eat the whole budget (RFC 8305).
pub(crate) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    connect_any(lookup_host((host, port)).await?).await
}

async fn connect_any(mut addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "name has no address");
    loop {
        let more = match addresses.next() {
            Some(address) => {
                attempts.push(TcpStream::connect(address));
                true
            }
            None if attempts.is_empty() => return Err(failure),
            None => false,
        };
        tokio::select! {
            Some(outcome) = attempts.next() => match outcome {
                Ok(tcp) => {
                    no_delay(&tcp)?;
                    return Ok(tcp);
                }
                Err(error) => failure = error,
            },
            () = sleep(NEXT_ADDRESS), if more => {}
        }
    }
}

async fn secure(
    tcp: TcpStream,
    host: String,
    options: &DialOptions,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialError> {
    let config = match &options.tls {
        Some(config) => config.clone(),
        None => tls::client_config().map_err(|error| DialError::Tls(error.to_string()))?,
    };
    let name = ServerName::try_from(host).map_err(|_| DialError::Url("host is not a TLS name"))?;
    TlsConnector::from(config)
        .connect(name, tcp)
        .await
        .map_err(|error| match error.kind() {
            // What rustls itself refuses comes as InvalidData; the rest is the socket's.
            io::ErrorKind::InvalidData => DialError::Tls(error.to_string()),
            _ => DialError::Io(error),
        })
}

fn refused(error: tungstenite::Error) -> DialError {
    match error {
        tungstenite::Error::Http(response) => DialError::Refused(Refusal::from_parts(
            response.status().as_u16(),
            response.headers(),
        )),
        tungstenite::Error::Io(error) => DialError::Io(error),
        tungstenite::Error::Protocol(
            tungstenite::error::ProtocolError::HandshakeIncomplete
            | tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => DialError::Io(io::ErrorKind::UnexpectedEof.into()),
        other => DialError::Protocol(other.to_string()),
    }
}

struct Target {
    uri: Uri,
    secure: bool,
    host: String,
    port: u16,
}

impl Target {
    fn parse(url: &str) -> Result<Self, DialError> {
        let uri: Uri = url
            .trim()
            .parse()
            .map_err(|_| DialError::Url("not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            Some(_) => return Err(DialError::Url("scheme is neither ws nor wss")),
            None => return Err(DialError::Url("no scheme")),
        };
        let authority = uri.authority().ok_or(DialError::Url("no host"))?;
        if authority.as_str().contains('@') {
            return Err(DialError::Url("user information is not supported"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        if host.is_empty() {
            return Err(DialError::Url("no host"));
        }
        let port = match (authority.port_u16(), authority.as_str().rsplit_once(']')) {
            (Some(0), _) => return Err(DialError::Url("port 0")),
            (Some(port), _) => port,
            (None, _) if has_port(authority.as_str()) => return Err(DialError::Url("bad port")),
            (None, _) => {
                if secure {
                    443
                } else {
                    80
                }
            }
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            secure,
            uri,
        })
    }

    fn request(&self) -> Result<Request, DialError> {
        self.uri
            .clone()
            .into_client_request()
            .map_err(|_| DialError::Url("not a URL"))
    }
}

/// Whether the authority ends in `:something`, an IPv6 literal aside.
fn has_port(authority: &str) -> bool {
    let tail = authority
        .rsplit_once(']')
        .map_or(authority, |(_, tail)| tail);
    tail.contains(':')
}

impl fmt::Debug for DialOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Header values are credentials.
        f.debug_struct("DialOptions")
            .field("timeout", &self.timeout)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        net::{TcpListener, TcpSocket},
        time::{Instant, pause},
    };

    use super::*;

    /// A listener whose backlog is full: a connection to it neither succeeds nor fails.
    async fn leading_nowhere() -> (SocketAddr, impl Sized) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(1).unwrap();
        let mut waiting = Vec::new();
        loop {
            match timeout(NEXT_ADDRESS, TcpStream::connect(address)).await {
                Ok(connected) => waiting.push(connected.unwrap()),
                Err(_) => return (address, (listener, waiting)),
            }
        }
    }

    #[tokio::test]
    async fn an_address_that_leads_nowhere_delays_the_next_by_a_quarter_of_a_second() {
        pause();
        let (nowhere, _full) = leading_nowhere().await;
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started = Instant::now();
        let addresses = [nowhere, good.local_addr().unwrap()];
        let tcp = connect_any(addresses.into_iter()).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), addresses[1]);
        assert!((NEXT_ADDRESS..NEXT_ADDRESS * 2).contains(&started.elapsed()));
    }

    #[tokio::test]
    async fn a_refused_address_delays_nothing_and_the_last_failure_is_told() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let good = TcpListener::bind("127.0.0.1:0").await.unwrap();
        pause();
        let started = Instant::now();
        let addresses = [refusing, good.local_addr().unwrap()];
        connect_any(addresses.into_iter()).await.unwrap();
        assert!(started.elapsed() < NEXT_ADDRESS);
        let error = connect_any([refusing, refusing].into_iter()).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let error = connect_any(std::iter::empty()).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
