//! One connection: one request and its response, until the client disconnects.

use std::future::pending;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::reply::Body;
use super::{RecordedRequest, Reply, SharedState};

/// Counts a connection while it is open.
struct ConnectionGuard<'a>(&'a watch::Sender<usize>);

impl<'a> ConnectionGuard<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|open| *open += 1);
        Self(count)
    }
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

pub(super) async fn serve(stream: TcpStream, shared: Arc<SharedState>) {
    let _open = ConnectionGuard::new(&shared.open_connections);
    let tls = shared.tls.as_ref().map(|tls| tls.lock().expect("no test panics meanwhile").clone());
    match tls {
        None => handle(stream, &shared).await,
        // A client that does not trust the certificate disconnects during the handshake.
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => handle(stream, &shared).await,
            Err(_) => None,
        },
    };
}

/// Returns none if the client disconnected.
async fn handle(stream: impl AsyncRead + AsyncWrite, shared: &SharedState) -> Option<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(reader);
    let request = RecordedRequest::read(&mut reader).await?;
    shared.requests.send_modify(|requests| requests.push(request.clone()));
    let answer = {
        let handlers = shared.handlers.lock().expect("no test panics meanwhile");
        let any_query = request.path.split('?').next().map(|path| format!("{path}?*"));
        handlers.get(&request.path).or_else(|| handlers.get(&any_query?)).cloned()
    };
    let reply = answer.map_or(Reply::status(404), |answer| answer(&request)).for_request(&request);
    let mut rest = Vec::new();
    tokio::select! {
        sent = send(&mut writer, &reply, request.method == "HEAD") => sent.ok(),
        // The client sends nothing more, so a read returns at its end of stream.
        _ = reader.read_to_end(&mut rest) => None,
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), reply: &Reply, is_head: bool) -> io::Result<()> {
    if matches!(reply.body, Body::Silent) {
        return pending().await;
    }
    tokio::time::sleep(reply.delay).await;
    let mut head = format!("HTTP/1.1 {} {}\r\nConnection: close\r\n", reply.status, "Reason");
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Body::Full(body) | Body::Truncated(body, _) = &reply.body
        && reply.status != 304
        && reply.status != 204
    {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    if matches!(reply.body, Body::EndlessHeaders) {
        stream.write_all(head.as_bytes()).await?;
        loop {
            stream.write_all(b"X-More: and more and more and more\r\n").await?;
        }
    }
    head += "\r\n";
    stream.write_all(head.as_bytes()).await?;
    match &reply.body {
        _ if is_head => {}
        Body::Full(body) => stream.write_all(body).await?,
        Body::Truncated(body, bytes) => stream.write_all(&body[..*bytes]).await?,
        Body::Endless => loop {
            stream.write_all(&[b'x'; 4096]).await?;
        },
        Body::Drip(interval) => {
            let mut interval = tokio::time::interval(*interval);
            loop {
                interval.tick().await;
                stream.write_all(b"x").await?;
                stream.flush().await?;
            }
        }
        Body::Events(source) => source.write(stream).await?,
        Body::Silent | Body::EndlessHeaders => {}
    }
    // Over TLS, a cut is an end without `close_notify`.
    if matches!(reply.body, Body::Truncated(..)) { stream.flush().await } else { stream.shutdown().await }
}
