//! A response, as JSON.

use serde_json::{Value, json};
use wasip2::http::types::{FutureIncomingResponse, IncomingResponse};
use wasip2::io::streams::StreamError;

/// The maximum number of body bytes in the JSON.
const MAX_SHOWN: usize = 1000;

/// Waits for a response, and reads all of it.
pub(crate) fn to_json(request: Result<FutureIncomingResponse, String>) -> Value {
    match request.and_then(wait) {
        Ok(response) => read(&response),
        Err(error) => json!({ "error": error }),
    }
}

fn wait(answer: FutureIncomingResponse) -> Result<IncomingResponse, String> {
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(response))) => Ok(response),
        Some(Ok(Err(error))) => Err(format!("{error:?}")),
        Some(Err(())) | None => Err("no answer".to_owned()),
    }
}

fn read(response: &IncomingResponse) -> Value {
    let headers = response.headers().entries();
    let headers: Vec<_> =
        headers.into_iter().map(|(name, value)| json!([name, String::from_utf8_lossy(&value)])).collect();
    let (mut length, mut shown, mut ended) = (0_usize, Vec::new(), Value::Null);
    if let Ok(body) = response.consume()
        && let Ok(stream) = body.stream()
    {
        loop {
            match stream.blocking_read(64 << 10) {
                Ok(bytes) => {
                    length = length.saturating_add(bytes.len());
                    shown.extend(bytes.into_iter().take(MAX_SHOWN.saturating_sub(shown.len())));
                }
                Err(StreamError::Closed) => break,
                Err(StreamError::LastOperationFailed(error)) => {
                    ended = error.to_debug_string().into();
                    break;
                }
            }
        }
    }
    let body = String::from_utf8_lossy(&shown);
    json!({ "status": response.status(), "headers": headers, "length": length, "body": body, "ended": ended })
}
