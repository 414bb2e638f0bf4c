//! Requests that the mock origin received.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// A request as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decoded if it is chunked.
    pub body: Vec<u8>,
}

impl RecordedRequest {
    /// Returns the value of a header, if there is one: the first, if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Reads a request; none if the client disconnects before its end.
    pub(super) async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Self> {
        let first = read_line(stream).await?;
        let mut words = first.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let line = read_line(stream).await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, headers, body: Vec::new() };
        if request.header("transfer-encoding") == Some("chunked") {
            request.body = read_chunked(stream).await?;
        } else if let Some(length) = request.header("content-length") {
            request.body = vec![0; length.parse().ok()?];
            stream.read_exact(&mut request.body).await.ok()?;
        }
        Some(request)
    }
}

async fn read_chunked(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(&read_line(stream).await?, 16).ok()?;
        let mut chunk = vec![0; size];
        stream.read_exact(&mut chunk).await.ok()?;
        read_line(stream).await?;
        if size == 0 {
            return Some(body);
        }
        body.append(&mut chunk);
    }
}

/// Reads a line, without its line break.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    Some(line.strip_suffix("\r\n")?.to_owned())
}
