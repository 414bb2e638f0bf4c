//! Requests to the endpoint: texts, and their vectors in the answer.
//!
//! The maximum size of the answer depends on the number of texts and dimensions. The answer is rejected as a whole
//! unless it has exactly one valid vector for each text.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use mcp_host_base::task;
use mcp_host_config::EndpointUrl;
use mcp_host_config::search::Embeddings;
use mcp_host_sandbox::outbound_http::{ExchangeBounds, ExchangeError, HttpsClient, retry_advice};
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use zeroize::Zeroizing;

use super::vector::Vector;

/// The maximum number of bytes in an answer for each component of a vector, and for everything else.
const MAX_COMPONENT_LEN: usize = 32;
const MAX_REST: usize = 64 << 10;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The reason why there are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    /// There is no answer, or its status is not a success.
    #[error("{}{}", .0, advice(.0))]
    Exchange(#[from] ExchangeError),
    /// The answer is not an object with `data`, a list of embeddings. The answer is not quoted, because it may repeat
    /// the request with the key.
    #[error("the answer is not a list of embeddings: {problem} at line {line}, column {column}")]
    Syntax {
        /// The problem.
        problem: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The answer has another number of vectors.
    #[error("the answer has {found} vectors for {expected} texts")]
    Count {
        /// The number of texts.
        expected: usize,
        /// The number of vectors.
        found: usize,
    },
    /// The answer has two vectors for one text, or a vector for a text that does not exist.
    #[error("the answer has the index {0} twice, or without a text")]
    Index(usize),
    /// A vector has another number of dimensions.
    #[error("a vector has {found} dimensions, and `search.embeddings.dimensions` is {expected}")]
    Dimensions {
        /// The number in the config.
        expected: usize,
        /// The number in the answer.
        found: usize,
    },
    /// A vector has a component that is not a finite number, or has only zeros.
    #[error("a vector has a component that is not a finite number, or zeros only")]
    NoDirection,
}

impl EndpointError {
    fn syntax(error: &serde_json::Error) -> Self {
        let problem = match error.classify() {
            Category::Syntax => "a syntax error",
            Category::Data => "a value of another type, or a member that is missing",
            Category::Eof | Category::Io => "its end",
        };
        Self::Syntax { problem, line: error.line(), column: error.column() }
    }

    /// Whether the endpoint rejects these texts only: it may accept others.
    pub(super) fn is_rejection(&self) -> bool {
        let rejections = [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];
        matches!(self, Self::Exchange(ExchangeError::Status { status, .. }) if rejections.contains(status))
    }

    /// The retry delay that the endpoint requests (`Retry-After`).
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Exchange(ExchangeError::Status { retry_after, .. }) => *retry_after,
            _ => None,
        }
    }
}

/// Advice on a status.
fn advice(error: &ExchangeError) -> String {
    let ExchangeError::Status { status, retry_after } = error else { return String::new() };
    let advice = match *status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "check `search.embeddings.key`".to_owned(),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            "check `url` and `model` of `search.embeddings`".to_owned()
        }
        status if status.is_redirection() => "write the URL that it redirects to".to_owned(),
        status => match retry_advice(status, *retry_after) {
            Some(advice) => advice,
            None => return String::new(),
        },
    };
    format!("; {advice}")
}

/// The body of a request.
#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_type: Option<&'a str>,
}

/// The body of an answer.
#[derive(Deserialize)]
struct ResponseBody {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    /// The index of the text. By default it is the index of the embedding in the list.
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// The form of a request for one kind of text: passages, or queries.
#[derive(Clone, Debug)]
pub(super) struct InputForm {
    /// The prefix of each text.
    pub(super) prefix: String,
    /// The name of the kind, if the endpoint distinguishes kinds.
    pub(super) input_type: Option<String>,
    /// The timeout of a request.
    pub(super) timeout: Duration,
}

impl InputForm {
    /// The form for passages.
    pub(super) fn of_passages(settings: &Embeddings) -> Self {
        let Embeddings { passage_prefix, passage_input_type, timeout, .. } = settings;
        let timeout = timeout.duration();
        Self { prefix: passage_prefix.clone(), input_type: passage_input_type.clone(), timeout }
    }

    /// The form for queries.
    pub(super) fn of_queries(settings: &Embeddings) -> Self {
        let Embeddings { query_prefix, query_input_type, query_timeout, .. } = settings;
        let timeout = query_timeout.duration();
        Self { prefix: query_prefix.clone(), input_type: query_input_type.clone(), timeout }
    }
}

/// The configured endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    url: EndpointUrl,
    model: String,
    dimensions: usize,
    shorten: bool,
    authorization: Option<HeaderValue>,
    client: HttpsClient,
}

impl Endpoint {
    /// Creates the endpoint of a config.
    pub(super) fn new(settings: &Embeddings) -> Self {
        let Embeddings { url, model, dimensions, shorten, .. } = settings;
        let authorization = settings.key.as_ref().and_then(|key| {
            let bearer = Zeroizing::new(format!("Bearer {}", key.expose().as_str()));
            let mut header = HeaderValue::from_str(&bearer).ok()?;
            header.set_sensitive(true);
            Some(header)
        });
        let authorities = settings.ca.as_ref().map(|ca| ca.certificates().to_vec()).unwrap_or_default();
        Self {
            url: url.clone(),
            model: model.clone(),
            dimensions: dimensions.get(),
            shorten: *shorten,
            authorization,
            client: HttpsClient::new(authorities),
        }
    }

    /// Returns a vector for each of the texts, in their order.
    pub(super) async fn embed(&self, texts: &[String], form: &InputForm) -> Result<Vec<Vector>, EndpointError> {
        let dimensions = self.shorten.then_some(self.dimensions);
        let input_type = form.input_type.as_deref();
        let body = RequestBody { model: &self.model, input: texts, dimensions, input_type };
        let body = serde_json::to_vec(&body).map_err(|error| ExchangeError::failed(&error))?;
        let mut request = Request::builder().method(Method::POST).uri(self.url.as_str()).header(CONTENT_TYPE, JSON);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.body(Full::from(body)).map_err(|error| ExchangeError::failed(&error))?;
        let components = texts.len().saturating_mul(self.dimensions);
        let max_body = components.saturating_mul(MAX_COMPONENT_LEN).saturating_add(MAX_REST);
        let answer = self.client.exchange(request, ExchangeBounds { timeout: form.timeout, max_body }).await?;
        let (expected, dimensions) = (texts.len(), self.dimensions);
        // The answer for many texts has megabytes.
        let parsing = task::spawn_blocking(move || parse(&answer, expected, dimensions));
        parsing.await.map_err(|error| ExchangeError::failed(&error))?
    }
}

/// The vectors of an answer.
fn parse(answer: &Bytes, expected: usize, dimensions: usize) -> Result<Vec<Vector>, EndpointError> {
    let ResponseBody { data } = serde_json::from_slice(answer).map_err(|error| EndpointError::syntax(&error))?;
    if data.len() != expected {
        return Err(EndpointError::Count { expected, found: data.len() });
    }
    let mut vectors: Vec<Option<Vector>> = vec![None; expected];
    for (place, Embedding { index, embedding }) in data.into_iter().enumerate() {
        let index = index.unwrap_or(place);
        if embedding.len() != dimensions {
            return Err(EndpointError::Dimensions { expected: dimensions, found: embedding.len() });
        }
        let vector = Vector::quantise(&embedding).ok_or(EndpointError::NoDirection)?;
        match vectors.get_mut(index) {
            Some(empty @ None) => *empty = Some(vector),
            _ => return Err(EndpointError::Index(index)),
        }
    }
    Ok(vectors.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(answer: &str) -> Result<Vec<Vector>, EndpointError> {
        parse(&Bytes::copy_from_slice(answer.as_bytes()), 2, 2)
    }

    #[test]
    fn vectors_are_in_the_order_of_the_texts() {
        let vector = |components: &[f32]| Vector::quantise(components).unwrap();
        let expected = Ok(vec![vector(&[1.0, 0.0]), vector(&[0.0, 1.0])]);
        assert_eq!(parsed(r#"{"data":[{"embedding":[1,0]},{"embedding":[0,2]}]}"#), expected);
        let swapped = r#"{"object":"list","data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1e-3,0]}]}"#;
        assert_eq!(parsed(swapped), expected);
    }

    #[test]
    fn an_answer_that_is_not_one_vector_for_each_text_is_rejected_as_a_whole() {
        let one = r#"{"embedding":[1,0]}"#;
        for (data, error) in [
            (one.to_owned(), EndpointError::Count { expected: 2, found: 1 }),
            (format!("{one},{one},{one}"), EndpointError::Count { expected: 2, found: 3 }),
            (format!(r#"{one},{{"embedding":[1]}}"#), EndpointError::Dimensions { expected: 2, found: 1 }),
            (format!(r#"{one},{{"embedding":[0,0]}}"#), EndpointError::NoDirection),
            (format!(r#"{one},{{"index":0,"embedding":[1,0]}}"#), EndpointError::Index(0)),
            (format!(r#"{one},{{"index":2,"embedding":[1,0]}}"#), EndpointError::Index(2)),
        ] {
            assert_eq!(parsed(&format!(r#"{{"data":[{data}]}}"#)), Err(error), "{data}");
        }
        for number in ["NaN", "null", "1e39", "1e999", "\"1\""] {
            let answer = format!(r#"{{"data":[{one},{{"embedding":[{number},0]}}]}}"#);
            assert!(matches!(parsed(&answer), Err(EndpointError::Syntax { .. })), "{number}");
        }
        for syntax in ["", "{}", "[]", "{\"data\":{}}"] {
            assert!(matches!(parsed(syntax), Err(EndpointError::Syntax { .. })), "{syntax}");
        }
    }

    #[test]
    fn an_answer_is_not_quoted() {
        let secret = "Bearer sk-hunter2";
        for answer in [
            format!(r#"{{"data":[{{"index":"{secret}","embedding":[]}}]}}"#),
            format!(r#"{{"data":"{secret}"}}"#),
            format!(r#"{{"data":[{{"embedding":["{secret}"]}}]}}"#),
            format!(r#""{secret}""#),
            secret.to_owned(),
        ] {
            let error = parsed(&answer).unwrap_err().to_string();
            assert!(error.starts_with("the answer is not a list of embeddings: a "), "{error}");
            assert!(error.contains(" at line 1, column ") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_message_says_what_to_do() {
        let status = |status| EndpointError::from(ExchangeError::Status { status, retry_after: None });
        assert_eq!(
            status(StatusCode::UNAUTHORIZED).to_string(),
            "the answer has the status 401 Unauthorized; check `search.embeddings.key`"
        );
        assert_eq!(
            status(StatusCode::BAD_GATEWAY).to_string(),
            "the answer has the status 502 Bad Gateway; it is busy or failing; try again later"
        );
        assert_eq!(status(StatusCode::CONFLICT).to_string(), "the answer has the status 409 Conflict");
        assert!(
            status(StatusCode::BAD_REQUEST).is_rejection() && !status(StatusCode::TOO_MANY_REQUESTS).is_rejection()
        );
    }
}
