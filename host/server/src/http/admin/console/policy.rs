//! The Content-Security-Policy of every answer of the listener: files of the console, data and errors.
//!
//! A page of this origin runs scripts and styles of this origin only, has no inline code, is in no frame, and builds
//! markup only from the output of the sanitizer. Other answers have the same policy, so a browser that is made to show
//! one as a page runs nothing.

use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

/// The policies, each of which is enforced. The second one narrows `require-trusted-types-for` of the first to the
/// sanitizer.
const POLICIES: [&str; 2] = [
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; frame-ancestors 'none'; \
     base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'",
    "trusted-types dompurify",
];

/// Adds the policies and the other security headers of browsers to an answer.
pub(in crate::http::admin) fn apply(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for policy in POLICIES {
        headers.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    let fields: [(HeaderName, &'static str); 6] = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fields {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
