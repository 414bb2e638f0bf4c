//! The client of one registry: the parts of the OCI Distribution Specification 1.1 that components need.
//!
//! The crate `oci-client` has most of these requests, and is not used, because it does not have the bounds of this
//! crate: it reads manifests, tags, indexes of referrers, tokens and errors of any size into memory; reqwest follows
//! its redirects, to any address; addresses cannot be checked between name resolution and connection; and its TLS comes
//! with another cryptographic provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LINK, LOCATION, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use mcp_host_base::text::quote;
use mcp_host_config::registry::Repository;
use mcp_host_model::digest::Digest;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::auth::{self, Challenge};
use crate::http::{Answer, Call, HttpClient, HttpError, origin_of, resolve};
use crate::manifest::{INDEX, MANIFEST, MAX_MANIFEST_SIZE};
use crate::store::Store;

/// The maximum number of pages of a list of tags.
const MAX_TAG_PAGES: usize = 64;
/// The requested number of tags per page.
const PAGE_SIZE: usize = 1000;
/// The maximum size of a page of tags in bytes.
const MAX_TAG_PAGE: usize = 1 << 20;

/// The help if stored credentials are refused.
const NOT_ACCEPTED: &str = ": it does not accept the credentials that are stored for it; log in again with `docker login` or `podman login \
                            --authfile ~/.docker/config.json`";

/// Returns the tag of the index of referrers, for a registry without the referrers API.
pub(crate) fn fallback_tag(manifest: &Digest) -> String {
    format!("sha256-{}", manifest.digits())
}

/// The kind of access to a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// The client of all registries of a command.
#[derive(Debug)]
pub(crate) struct Client {
    http: Arc<HttpClient>,
    /// The header `Authorization` by repository, after a registry has required it.
    authorized: Mutex<BTreeMap<(Repository, Access), HeaderValue>>,
}

#[derive(Deserialize)]
struct Tags {
    tags: Option<Vec<String>>,
}

impl Client {
    pub(crate) fn new(http: HttpClient) -> Self {
        Self { http: Arc::new(http), authorized: Mutex::default() }
    }

    /// Returns the tags of a repository: at most 64 pages of 1000.
    pub(crate) async fn tags(&self, repository: &Repository) -> Result<Vec<String>, HttpError> {
        let mut url = self.url(repository, &format!("tags/list?n={PAGE_SIZE}"));
        let mut all = Vec::new();
        for _ in 0..MAX_TAG_PAGES {
            let answer = self.success(repository, Access::Pull, Call::get(url.clone())).await?;
            let next = answer.response.headers().get(LINK).and_then(|link| next_page(link.to_str().ok()?));
            let host = answer.host.clone();
            let page: Tags = serde_json::from_slice(&answer.body(MAX_TAG_PAGE).await?)
                .map_err(|_| HttpError::Broken { host: host.clone(), reason: "it is not a list of tags".to_owned() })?;
            all.extend(page.tags.unwrap_or_default());
            let Some(next) = next.and_then(|next| resolve(&url, &next)) else { return Ok(all) };
            if origin_of(&next)? != origin_of(&url)? {
                return Err(HttpError::Redirect { host, problem: "the next page to another host".to_owned() });
            }
            url = next;
        }
        Err(HttpError::TooLarge { host: repository.registry().to_owned(), max: (MAX_TAG_PAGES * PAGE_SIZE) as u64 })
    }

    /// Returns the bytes of a manifest or an index, by tag or by digest. If requested by digest, the bytes have that
    /// digest.
    pub(crate) async fn manifest(&self, repository: &Repository, name: &str) -> Result<Bytes, HttpError> {
        let mut call = Call::get(self.url(repository, &format!("manifests/{name}")));
        let accept = format!("{MANIFEST}, {INDEX}");
        call.headers.insert(ACCEPT, HeaderValue::from_str(&accept).unwrap_or(HeaderValue::from_static("*/*")));
        let answer = self.success(repository, Access::Pull, call).await?;
        let host = answer.host.clone();
        let bytes = answer.body(MAX_MANIFEST_SIZE).await?;
        match name.parse::<Digest>() {
            Ok(expected) if Digest::compute(&bytes) != expected => {
                let found = Digest::compute(&bytes);
                Err(HttpError::Broken {
                    host,
                    reason: format!("its manifest has the digest {found}, and {expected} was requested"),
                })
            }
            _ => Ok(bytes),
        }
    }

    /// Returns the bytes of a small blob with this digest.
    pub(crate) async fn small_blob(
        &self,
        repository: &Repository,
        digest: &Digest,
        max: usize,
    ) -> Result<Bytes, HttpError> {
        let call = Call::get(self.url(repository, &format!("blobs/{digest}")));
        let answer = self.success(repository, Access::Pull, call).await?;
        let host = answer.host.clone();
        let bytes = answer.body(max).await?;
        if Digest::compute(&bytes) == *digest {
            return Ok(bytes);
        }
        Err(HttpError::Broken { host, reason: format!("its content has another digest than {digest}") })
    }

    /// Streams a blob of this size into the store, and hashes it at the same time.
    pub(crate) async fn blob(
        &self,
        repository: &Repository,
        (digest, size): (&Digest, u64),
        store: &Store,
    ) -> Result<(), HttpError> {
        let call = Call::get(self.url(repository, &format!("blobs/{digest}")));
        let answer = self.success(repository, Access::Pull, call).await?;
        let stored = |error: crate::StoreError| HttpError::Store(error.to_string());
        let host = answer.host.clone();
        let mut incoming = store.begin(size).map_err(stored)?;
        let mut received = 0_u64;
        let receive = |piece: &[u8]| {
            received = received.saturating_add(piece.len() as u64);
            incoming.write(piece).map_err(stored)
        };
        answer.stream(size, receive).await?;
        if received != size {
            let reason = format!("the component has {received} bytes, and the manifest says {size}");
            return Err(HttpError::Broken { host, reason });
        }
        incoming.finish(digest).map_err(stored)
    }

    /// Returns the referrers of a manifest with this artifact type, from the referrers API; `None` if the registry does
    /// not have the API.
    pub(crate) async fn referrers(
        &self,
        repository: &Repository,
        digest: &Digest,
        artifact_type: &str,
        max: usize,
    ) -> Result<Option<Bytes>, HttpError> {
        let filter = percent_encoding::utf8_percent_encode(artifact_type, percent_encoding::NON_ALPHANUMERIC);
        let call = Call::get(self.url(repository, &format!("referrers/{digest}?artifactType={filter}")));
        let answer = self.send(repository, Access::Pull, call).await?;
        match answer.response.status() {
            StatusCode::OK => answer.body(max).await.map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.into_error().await),
        }
    }

    /// Returns whether the repository has a blob.
    pub(crate) async fn has_blob(&self, repository: &Repository, digest: &Digest) -> Result<bool, HttpError> {
        let call = Call { method: Method::HEAD, ..Call::get(self.url(repository, &format!("blobs/{digest}"))) };
        let answer = self.send(repository, Access::Push, call).await?;
        Ok(answer.response.status() == StatusCode::OK)
    }

    /// Uploads a blob in one piece.
    pub(crate) async fn upload(&self, repository: &Repository, bytes: Bytes) -> Result<Digest, HttpError> {
        let digest = Digest::compute(&bytes);
        if self.has_blob(repository, &digest).await? {
            return Ok(digest);
        }
        let url = self.url(repository, "blobs/uploads/");
        let begin = Call { method: Method::POST, ..Call::get(url.clone()) };
        let answer = self.send(repository, Access::Push, begin).await?;
        if answer.response.status() != StatusCode::ACCEPTED {
            return Err(answer.into_error().await);
        }
        let location =
            answer.response.headers().get(LOCATION).and_then(|location| resolve(&url, location.to_str().ok()?));
        let no_location = || HttpError::Broken {
            host: answer.host.clone(),
            reason: "it does not name an upload location".to_owned(),
        };
        let location = location.ok_or_else(no_location)?;
        if origin_of(&location)? != origin_of(&url)? {
            return Err(HttpError::Redirect { host: answer.host, problem: "an upload to another host".to_owned() });
        }
        let separator = if location.contains('?') { '&' } else { '?' };
        let mut call =
            Call { method: Method::PUT, body: bytes, ..Call::get(format!("{location}{separator}digest={digest}")) };
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let answer = self.send(repository, Access::Push, call).await?;
        if answer.response.status() == StatusCode::CREATED { Ok(digest) } else { Err(answer.into_error().await) }
    }

    /// Uploads a manifest or an index. Returns whether the registry has recorded its subject for the referrers API.
    pub(crate) async fn put_manifest(
        &self,
        repository: &Repository,
        name: &str,
        media_type: &'static str,
        bytes: Bytes,
    ) -> Result<bool, HttpError> {
        let url = self.url(repository, &format!("manifests/{name}"));
        let mut call = Call { method: Method::PUT, body: bytes, ..Call::get(url) };
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        let answer = self.send(repository, Access::Push, call).await?;
        match answer.response.status() {
            StatusCode::CREATED => Ok(answer.response.headers().contains_key("oci-subject")),
            _ => Err(answer.into_error().await),
        }
    }

    async fn success(&self, repository: &Repository, access: Access, call: Call) -> Result<Answer, HttpError> {
        let answer = self.send(repository, access, call).await?;
        if answer.response.status() == StatusCode::OK { Ok(answer) } else { Err(answer.into_error().await) }
    }

    /// Sends a request, and repeats it with credentials if the registry requires them.
    async fn send(&self, repository: &Repository, access: Access, mut call: Call) -> Result<Answer, HttpError> {
        let key = (repository.clone(), access);
        let known = self.authorized.lock().await.get(&key).cloned();
        let registry = repository.registry();
        if let Some(known) = known {
            call.headers.insert(AUTHORIZATION, known);
        }
        let answer = self.http.send(&call, registry).await?;
        if answer.response.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        // After a redirect the answer is not the registry's: its challenge could send the password to another server.
        if answer.host != origin_of(&call.url)?.authority() {
            return Err(answer.into_error().await);
        }
        let challenges = answer.response.headers().get_all(WWW_AUTHENTICATE);
        let challenge = challenges.iter().find_map(|challenge| Challenge::parse(challenge.to_str().ok()?));
        let (login, problem) = match auth::login(registry).await {
            Ok(login) => (login, None),
            Err(problem) => (None, Some(problem)),
        };
        let has_login = login.is_some();
        let denied = |detail: String| HttpError::Status { host: registry.to_owned(), status: 401, detail };
        let with_problem = |error: HttpError| match (&problem, error) {
            (Some(problem), error) => HttpError::Broken {
                host: registry.to_owned(),
                reason: format!("{problem}; without credentials: {error}"),
            },
            (None, HttpError::Status { status: 401, .. }) if has_login => denied(NOT_ACCEPTED.to_owned()),
            (None, error) => error,
        };
        let header = match challenge {
            Some(Challenge::Basic) => match login {
                Some(login) => login.header(),
                None => return Err(with_problem(answer.into_error().await)),
            },
            Some(Challenge::Bearer { realm, service }) => {
                let actions = if access == Access::Push { "pull,push" } else { "pull" };
                let scope = format!("repository:{}:{actions}", repository.path());
                let realm = (realm.as_str(), service.as_deref());
                let token = auth::token(&self.http, registry, realm, &scope, login.as_ref()).await;
                token.map_err(&with_problem)?
            }
            None => return Err(denied(": it requests an authentication scheme that is not supported".to_owned())),
        };
        call.headers.insert(AUTHORIZATION, header.clone());
        let answer = self.http.send(&call, registry).await?;
        if answer.response.status() == StatusCode::UNAUTHORIZED {
            return Err(with_problem(answer.into_error().await));
        }
        self.authorized.lock().await.insert(key, header);
        Ok(answer)
    }

    fn url(&self, repository: &Repository, rest: &str) -> String {
        format!("https://{}/v2/{}/{rest}", api_host(repository.registry()), repository.path())
    }
}

/// Returns the host with the API of a registry: Docker Hub has another one than its name.
fn api_host(registry: &str) -> &str {
    if auth::DOCKER_HUB.contains(&registry) { "registry-1.docker.io" } else { registry }
}

/// Returns the URL of the next page in a header `Link` (RFC 8288).
fn next_page(link: &str) -> Option<String> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = parameters.split(';').any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
    is_next.then(|| target.to_owned())
}

/// Returns the name of a repository in messages.
pub(crate) fn shown(repository: &Repository) -> String {
    quote(&repository.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_hub_is_requested_at_the_host_of_its_api() {
        assert_eq!(api_host("docker.io"), "registry-1.docker.io");
        assert_eq!(api_host("registry.example.com:5000"), "registry.example.com:5000");
    }

    #[test]
    fn the_next_page_is_the_one_that_says_so() {
        assert_eq!(
            next_page("</v2/a/tags/list?last=b&n=2>; rel=\"next\"").as_deref(),
            Some("/v2/a/tags/list?last=b&n=2")
        );
        assert_eq!(next_page("</v2/a>; rel=\"prev\""), None);
        assert_eq!(next_page("/v2/a"), None);
    }
}
