//! Host resources that a guest can allocate without a grant.

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::types::{Fields, Method, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::OutputStream;

/// All kinds of resources.
pub(crate) const KINDS: [&str; 9] =
    ["authorities", "bodies", "clones", "fields", "lists", "methods", "paths", "schemes", "timers"];

/// An allocated resource; `None` in place of one that the host denies.
#[allow(dead_code, reason = "held only to stay allocated")]
pub(crate) enum HostResource {
    Request(OutgoingRequest),
    Fields(Vec<Fields>),
    Body(OutgoingRequest, Option<OutputStream>, Option<OutgoingBody>),
    Timer(Pollable),
}

/// The maximum size of a header. A longer one ends the call.
const HEADER_SIZE: usize = 4 << 10;

impl HostResource {
    /// Allocates a resource of a kind and size.
    pub(crate) fn new(kind: &str, kib: usize) -> Self {
        let text = || "a".repeat(kib << 10);
        let request = || OutgoingRequest::new(Fields::new());
        match kind {
            "methods" => {
                let request = request();
                let _ = request.set_method(&Method::Other(text()));
                Self::Request(request)
            }
            "paths" => {
                let request = request();
                let _ = request.set_path_with_query(Some(&format!("/{}", text())));
                Self::Request(request)
            }
            "authorities" => {
                let request = request();
                let _ = request.set_authority(Some(&text()));
                Self::Request(request)
            }
            "schemes" => {
                let request = request();
                let _ = request.set_scheme(Some(&Scheme::Other(text())));
                Self::Request(request)
            }
            "fields" => {
                let fields = Fields::new();
                let _ = fields.append("x-kept", &[b'v'; HEADER_SIZE]);
                Self::Fields(vec![fields])
            }
            "lists" => {
                let entries: Vec<_> = (0..16).map(|n| (format!("x-{n}"), vec![b'v'; HEADER_SIZE / 16])).collect();
                Self::Fields(Fields::from_list(&entries).into_iter().collect())
            }
            "clones" => {
                let fields = Fields::new();
                let _ = fields.append("x-kept", &[b'v'; HEADER_SIZE]);
                let copy = fields.clone();
                let _ = copy.append("x-other", b"o");
                Self::Fields(vec![fields, copy])
            }
            "bodies" => {
                let request = request();
                let body = request.body().ok();
                let stream = body.as_ref().and_then(|body| body.write().ok());
                while let Some(stream) = &stream
                    && let Ok(room) = stream.check_write()
                    && room > 0
                    && stream.write(&vec![b'b'; usize::try_from(room).unwrap_or(0)]).is_ok()
                {}
                Self::Body(request, stream, body)
            }
            _ => Self::Timer(subscribe_duration(1 << 40)),
        }
    }
}
