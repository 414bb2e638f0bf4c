//! The head of a request: only the header fields that the server uses are retained.
//!
//! With HTTP/2 a client can repeat an earlier field by an index of one or two bytes (HPACK), and the buffer of a parsed
//! value stays in memory as long as the value. So unused fields are dropped immediately, and the others are copied out
//! of the buffer, up to [`MAX_COPIED_BYTES`] bytes in total: copies of a value that was sent once and repeated many
//! times by index would be far larger than the request. Longer values, such as a long `Mcp-Name`, stay shared.
//!
//! A head is limited in fields, and in bytes: `http.limits.headers`. hyper's own limits are coarser: for HTTP/1.1 it
//! parses whatever arrives in one read, and for HTTP/2 it resets the stream after its response, which hides the
//! response from some clients.
//!
//! A body is JSON in UTF-8 without a content coding: [`check_json_body`].

use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION,
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, ORIGIN, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

/// The maximum number of fields of a head. hyper enforces the same by default for HTTP/1.1.
pub(super) const MAX_HEADER_FIELDS: usize = 100;
/// The maximum number of retained fields. There are 19 names, most of which must not be repeated.
const MAX_RETAINED_FIELDS: usize = 32;
/// The maximum number of value bytes that are copied.
const MAX_COPIED_BYTES: usize = 1 << 10;

/// The fields that are used.
static RETAINED_HEADERS: [HeaderName; 19] = [
    HOST,
    ORIGIN,
    AUTHORIZATION,
    ACCEPT,
    ACCEPT_ENCODING,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    EXPECT,
    ACCESS_CONTROL_REQUEST_METHOD,
    ACCESS_CONTROL_REQUEST_HEADERS,
    HeaderName::from_static("access-control-request-private-network"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("traceparent"),
];

/// The bytes of a field on the wire besides its name and value: `: ` and the end of the line.
const FIELD_OVERHEAD: usize = 4;

/// The reason for rejecting the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadRejection {
    /// The head has too many fields.
    TooManyFields,
    /// The head has more than this number of bytes.
    TooLarge(usize),
}

impl IntoResponse for HeadRejection {
    fn into_response(self) -> Response {
        let text = match self {
            Self::TooManyFields => {
                format!("the request has more than {MAX_HEADER_FIELDS} header fields, or some of them far too often\n")
            }
            Self::TooLarge(most) => {
                format!("the header fields of the request have more than {most} bytes (`http.limits.headers`)\n")
            }
        };
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response()
    }
}

/// The reason why the body of a request cannot be read. The answer is 415 (RFC 9110, section 15.5.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRejection {
    /// The media type is not JSON.
    Type,
    /// The body has a content coding, such as `gzip`.
    Encoding,
}

impl BodyRejection {
    /// The reason in one line.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Type => "Unsupported Media Type: Content-Type must be application/json",
            Self::Encoding => "Unsupported Media Type: the body must have no Content-Encoding; send it uncompressed",
        }
    }
}

impl IntoResponse for BodyRejection {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::UNSUPPORTED_MEDIA_TYPE, self.text()).into_response();
        if self == Self::Encoding {
            // The accepted codings of a request, which section 12.5.3 allows in a response.
            response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response
    }
}

/// Checks that the body of a request is declared as JSON without a content coding.
pub(super) fn check_json_body(headers: &HeaderMap) -> Result<(), BodyRejection> {
    let is_identity = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_identity) {
        return Err(BodyRejection::Encoding);
    }
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    match essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        true => Ok(()),
        false => Err(BodyRejection::Type),
    }
}

/// Checks that a head has at most `most` bytes, and drops unused header fields.
pub(super) fn strip_unused<B>(request: &mut Request<B>, most: u64) -> Result<(), HeadRejection> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let fields = request.headers().iter();
    let sizes =
        fields.map(|(name, value)| name.as_str().len().saturating_add(value.len()).saturating_add(FIELD_OVERHEAD));
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if sizes.fold(path, usize::saturating_add) > most {
        return Err(HeadRejection::TooLarge(most));
    }
    *request.headers_mut() = retain_used(request.headers())?;
    if let Some(uri) = copy_uri(request.uri()) {
        *request.uri_mut() = uri;
    }
    Ok(())
}

/// Returns the used fields, with their repetitions.
fn retain_used(headers: &HeaderMap) -> Result<HeaderMap, HeadRejection> {
    if headers.len() > MAX_HEADER_FIELDS {
        return Err(HeadRejection::TooManyFields);
    }
    let mut room = MAX_COPIED_BYTES;
    // One allocation suffices for a usual request.
    let mut kept = HeaderMap::with_capacity(headers.len().min(MAX_RETAINED_FIELDS));
    for (name, value) in headers {
        // The static name is retained, because the request's own name may be a part of the buffer, too.
        let Some(name) = RETAINED_HEADERS.iter().find(|retained| *retained == name) else { continue };
        if kept.len() >= MAX_RETAINED_FIELDS {
            return Err(HeadRejection::TooManyFields);
        }
        let mut value = copy_value(value, &mut room);
        // `Debug` output hides the value.
        value.set_sensitive(*name == AUTHORIZATION);
        kept.append(name.clone(), value);
    }
    Ok(kept)
}

/// Copies a value while there is room.
fn copy_value(value: &HeaderValue, room: &mut usize) -> HeaderValue {
    let Some(left) = room.checked_sub(value.len()) else { return value.clone() };
    let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) else { return value.clone() };
    *room = left;
    copy
}

/// Copies a short request target.
fn copy_uri(uri: &Uri) -> Option<Uri> {
    let target = uri.to_string();
    (target.len() <= MAX_COPIED_BYTES).then(|| target.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_is_kept_as_often_as_it_is_there() {
        let long = "x".repeat(2 * MAX_COPIED_BYTES);
        let request = Request::builder().uri("http://localhost:80/mcp").header("host", "a").header("x-other", "1");
        let request = request.header("Host", "b").header("mcp-name", &long).header("cookie", "c").header("accept", "");
        let mut request = request.body(()).unwrap();
        strip_unused(&mut request, 32 << 10).unwrap();
        let mut kept: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        kept.sort_unstable();
        assert_eq!(kept, [("accept", ""), ("host", "a"), ("host", "b"), ("mcp-name", long.as_str())]);
        assert_eq!(request.uri().to_string(), "http://localhost:80/mcp");
    }

    #[test]
    fn a_body_is_json_without_a_coding() {
        let check = |fields: &[(&'static str, &'static str)]| {
            let fields =
                fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            check_json_body(&fields.collect())
        };
        let json = ("content-type", "Application/JSON; charset=utf-8");
        assert_eq!(check(&[json]), Ok(()));
        assert_eq!(check(&[json, ("content-encoding", "Identity")]), Ok(()));
        for coding in ["gzip", "identity, gzip", "br", ""] {
            assert_eq!(check(&[json, ("content-encoding", coding)]), Err(BodyRejection::Encoding), "{coding}");
        }
        for other in ["text/plain", "application/jsonl", ""] {
            assert_eq!(check(&[("content-type", other)]), Err(BodyRejection::Type), "{other}");
        }
        assert_eq!(check(&[]), Err(BodyRejection::Type));
    }

    #[test]
    fn credentials_are_not_shown() {
        let headers = [(AUTHORIZATION, "Bearer hunter2"), (HOST, "localhost")];
        let headers = headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
        let shown = format!("{:?}", retain_used(&headers).unwrap());
        assert!(shown.contains("localhost") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn targets_of_every_form_stay_as_they_are() {
        for target in ["/mcp", "/mcp?a=b", "*", "localhost:80", "http://localhost/mcp", "http://user:@localhost/mcp"] {
            let uri: Uri = target.parse().unwrap();
            assert_eq!(copy_uri(&uri), Some(uri), "{target}");
        }
    }

    #[test]
    fn a_head_has_so_many_bytes() {
        let request = |length: usize| {
            Request::builder().uri("http://localhost/mcp").header("x-other", "x".repeat(length)).body(()).unwrap()
        };
        assert_eq!(strip_unused(&mut request(1000), 1015), Ok(()));
        assert_eq!(strip_unused(&mut request(1001), 1015), Err(HeadRejection::TooLarge(1015)));
    }

    #[test]
    fn a_head_has_so_many_fields() {
        let mut headers = HeaderMap::new();
        for _ in 0..MAX_HEADER_FIELDS {
            headers.append("x-other", "1".parse().unwrap());
        }
        assert_eq!(retain_used(&headers), Ok(HeaderMap::new()));
        headers.append("x-other", "1".parse().unwrap());
        assert_eq!(retain_used(&headers), Err(HeadRejection::TooManyFields));
        let mut headers = HeaderMap::new();
        for _ in 0..=MAX_RETAINED_FIELDS {
            headers.append(ACCEPT, "*/*".parse().unwrap());
        }
        assert_eq!(retain_used(&headers), Err(HeadRejection::TooManyFields));
    }
}
