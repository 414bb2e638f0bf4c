//! Embeddings for search: `[search.embeddings]`.
//!
//! An endpoint with the OpenAI-compatible form `POST …/v1/embeddings` computes a vector for each passage. The text of a
//! plugin is sent only if its table `search` has `embeddings = true`, and queries are sent only with `queries = true`.
//!
//! ```
//! use mcp_host_config::search::{Embeddings, Search};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "http://127.0.0.1:8080/v1/embeddings".parse()?;
//! let mut embeddings = Embeddings::new(url, "multilingual-e5-small", 384.try_into()?);
//! embeddings.queries = true;
//! embeddings.tokens = "200000/h".parse()?;
//! let mut search = Search::default();
//! search.embeddings = Some(embeddings);
//! # Ok(())
//! # }
//! ```

use crate::count::Count;
use crate::declare::{one_line, table, written_as};
use crate::duration::{BoundedDuration, MINUTE, SECOND};
use crate::endpoint_url::EndpointUrl;
use crate::grants::{CaBundle, CredentialValue};
use crate::rate::Rate;
use crate::reader::{FromNode, Node, Schema};
use crate::secret::{Secret, SecretSource};
use crate::size::{GIB, MIB, Size, TIB};

/// The number of dimensions of a vector.
pub type Dimensions = Count<1, 384, 8192>;
/// The rate limit of the sent text, in estimated tokens.
pub type TokenRate = Rate<1_000_000, 1_000_000_000, 3600>;
/// The rate limit of sent queries.
pub type QueryRate = Rate<10, 10_000, 1>;
/// The number of texts per request.
pub type BatchSize = Count<1, 32, 256>;
/// The maximum number of passages per resource that are embedded.
pub type EmbeddedPassages = Count<1, 16, 1024>;
/// The memory of the approximate index of vectors.
pub type VectorMemory = Size<MIB, { GIB }, { TIB }>;
/// The timeout of a request with texts.
pub type EmbeddingTimeout = BoundedDuration<SECOND, { 30 * SECOND }, { 5 * MINUTE }>;
/// The timeout of a request with a query.
pub type QueryTimeout = BoundedDuration<10, 300, { 10 * SECOND }>;

/// The maximum length of a prefix, in bytes.
const MAX_PREFIX_LEN: usize = 1024;

table! {
    /// The endpoint that computes embeddings: `[search.embeddings]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Embeddings as "a table with `url`, `model` and `dimensions`",
    such as "{ url = \"https://api.openai.com/v1/embeddings\", model = \"text-embedding-3-small\", dimensions = 1536 }" {
        /// The URL that requests are sent to (`POST`), such as `https://api.openai.com/v1/embeddings`. `http://` is for
        /// this machine only.
        #[required]
        #[read(RequestUrl)]
        pub url: EndpointUrl,
        /// A PEM file of certificate authorities that are trusted for the URL, in addition to the machine's own.
        pub ca: Option<CaBundle>,
        /// The key that requests are authenticated with (`Authorization: Bearer`): from a variable or a file. None
        /// unless set.
        #[read(Key)]
        pub key: Option<Secret<CredentialValue>>,
        /// The name of the model.
        #[required]
        #[read(Model)]
        pub model: String,
        /// The number of dimensions of the model's vectors. Vectors with another number are rejected. 1 to 8192.
        #[required]
        pub dimensions: Dimensions,
        /// Whether requests have the member `dimensions`, for models that can shorten their vectors. `false` unless
        /// set.
        pub shorten: bool,
        /// Whether queries are sent as well. Otherwise nothing is ranked by vectors. `false` unless set.
        pub queries: bool,
        /// The text before each query, for models that require one: `query: `. Empty unless set.
        #[read(Prefix)]
        pub query_prefix: String,
        /// The text before each passage, for models that require one: `passage: `. Empty unless set.
        #[read(Prefix)]
        pub passage_prefix: String,
        /// The member `input_type` of requests with a query, for endpoints that have one: `query`. None unless set.
        #[read(InputType)]
        pub query_input_type: Option<String>,
        /// The member `input_type` of requests with passages, for endpoints that have one: `passage`, `document`. None
        /// unless set.
        #[read(InputType)]
        pub passage_input_type: Option<String>,
        /// The rate limit of the resource text that is sent, in estimated tokens: a quarter of the ASCII bytes, and one
        /// for each other character. 1000000/h unless set; 1/h to 1000000000/h.
        pub tokens: TokenRate,
        /// The rate limit of queries that are sent. Queries beyond it have lexical results. 10/s unless set; 1/h to
        /// 10000/s.
        pub query_rate: QueryRate,
        /// The maximum number of texts in a request. 32 unless set; 1 to 256.
        pub batch: BatchSize,
        /// The maximum number of passages of a resource that get vectors: the first ones. 16 unless set; 1 to 1024.
        pub passages: EmbeddedPassages,
        /// The memory of the approximate index, which is used for more than 64 MiB of vectors. Resources whose vectors
        /// do not fit are found by their words. 1GiB unless set; 1MiB to 1TiB.
        pub memory: VectorMemory,
        /// The timeout of a request with texts of resources. 30 s unless set; 1 s to 5 min.
        pub timeout: EmbeddingTimeout,
        /// The timeout of a request with a query, which can delay a search by this time. Without an answer the results
        /// are lexical. 300 ms unless set; 10 ms to 10 s.
        pub query_timeout: QueryTimeout,
    }
}

impl Embeddings {
    /// The endpoint at this URL, with defaults.
    pub fn new(url: EndpointUrl, model: impl Into<String>, dimensions: Dimensions) -> Self {
        Self::with_defaults(url, model.into(), dimensions)
    }
}

/// The URL of the endpoint, with a path: a base URL is not enough.
struct RequestUrl(EndpointUrl);

written_as! {
    RequestUrl as EndpointUrl, such as "\"https://api.openai.com/v1/embeddings\"", |node| {
        let url = EndpointUrl::from_node(node)?;
        if matches!(url.path(), "" | "/" | "/v1" | "/v1/") {
            let help = format!("write the URL that requests are sent to: `url = \"{}/v1/embeddings\"`", url.origin());
            node.report_error(format!("`{}` is not the URL of an endpoint of embeddings", url.as_written()), help);
            return None;
        }
        Some(Self(url))
    }
}

one_line! {
    /// The name of a model.
    struct Model, "\"text-embedding-3-small\"";
    /// The kind of a text, in the endpoint's terms.
    struct InputType, "\"query\"";
}

/// A prefix of texts.
struct Prefix(String);

impl FromNode for Prefix {
    const TYPE_NAME: &'static str = "a string";

    fn example() -> String {
        "\"query: \"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("maxLength", MAX_PREFIX_LEN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let text = node.string::<Self>()?;
        if text.len() > MAX_PREFIX_LEN {
            let message = format!("the prefix has {} bytes, more than {MAX_PREFIX_LEN}", text.len());
            node.report_error(message, "write what the documentation of the model says, such as `query: `");
            return None;
        }
        Some(Self(text.to_owned()))
    }
}

/// A key that can be the value of a header.
struct Key(Secret<CredentialValue>);

written_as! {
    Key as SecretSource, such as "{ env = \"EMBEDDINGS_KEY\" }", |node| {
        match SecretSource::from_node(node)?.0.parse() {
            Ok(key) => Some(Self(Secret::new(key))),
            Err(error) => {
                node.reject(&error);
                None
            }
        }
    }
}
