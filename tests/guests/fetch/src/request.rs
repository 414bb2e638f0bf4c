//! A request, parsed from a path.

use percent_encoding::percent_decode_str;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};

/// The parameters of a request.
#[derive(Default)]
pub(crate) struct FetchRequest {
    url: String,
    pub(crate) count: usize,
    method: Option<String>,
    headers: Vec<(String, String)>,
    fill: usize,
    connect: Option<u64>,
    first_byte: Option<u64>,
    between_bytes: Option<u64>,
}

impl FetchRequest {
    /// Parses a query; `None` if it is invalid.
    pub(crate) fn parse(query: &str) -> Option<Self> {
        let mut request = Self::default();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=')?;
            let value = percent_decode_str(value).decode_utf8().ok()?.into_owned();
            match key {
                "url" => request.url = value,
                "count" => request.count = value.parse().ok()?,
                "method" => request.method = Some(value),
                "header" => {
                    let (name, value) = value.split_once(':')?;
                    request.headers.push((name.to_owned(), value.to_owned()));
                }
                "fill" => request.fill = value.parse().ok()?,
                "connect" => request.connect = Some(nanoseconds(&value)?),
                "first-byte" => request.first_byte = Some(nanoseconds(&value)?),
                "pause" => request.between_bytes = Some(nanoseconds(&value)?),
                _ => return None,
            }
        }
        request.url.contains("://").then_some(request)
    }

    /// Sends the request. If it cannot be sent, returns the error's name.
    pub(crate) fn send(&self) -> Result<FutureIncomingResponse, String> {
        let headers = Fields::new();
        for (name, value) in &self.headers {
            headers.append(name, value.as_bytes()).map_err(|error| format!("{error:?}"))?;
        }
        let request = OutgoingRequest::new(headers);
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let method = self.method.as_deref().map_or(Method::Get, |method| match method {
            "CONNECT" => Method::Connect,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "TRACE" => Method::Trace,
            other => Method::Other(other.to_owned()),
        });
        request.set_method(&method).map_err(|()| "method")?;
        request.set_scheme(Some(&scheme)).map_err(|()| "scheme")?;
        request.set_authority(Some(authority)).map_err(|()| "authority")?;
        request.set_path_with_query(Some(path)).map_err(|()| "path")?;
        let options = RequestOptions::new();
        options.set_connect_timeout(self.connect).map_err(|()| "connect")?;
        options.set_first_byte_timeout(self.first_byte).map_err(|()| "first-byte")?;
        options.set_between_bytes_timeout(self.between_bytes).map_err(|()| "pause")?;
        let body = if self.fill > 0 { Some(request.body().map_err(|()| "body")?) } else { None };
        let answer = handle(request, Some(options)).map_err(|error| format!("{error:?}"))?;
        if let Some(body) = body {
            self.send_body(body);
        }
        Ok(answer)
    }

    /// Sends the body until it is complete or rejected.
    fn send_body(&self, body: OutgoingBody) {
        if let Ok(stream) = body.write() {
            let bytes = vec![b'x'; self.fill];
            let _ = bytes.chunks(4096).try_for_each(|chunk| stream.blocking_write_and_flush(chunk));
        }
        let _ = OutgoingBody::finish(body, None);
    }
}

fn nanoseconds(milliseconds: &str) -> Option<u64> {
    milliseconds.parse::<u64>().ok()?.checked_mul(1_000_000)
}
