//! Access tokens from a token server on loopback, on a network where every name resolves to this server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, join_all};
use mcp_host_config::grants::OAuthClient;
use mcp_host_model::net::HostName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::*;

/// A network where every name resolves to one server.
struct OneServer(SocketAddr);

impl Network for OneServer {
    fn resolve(&self, _: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }

    fn connect(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(self.0))
    }
}

/// A token server with answers of the test.
struct TokenServer {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    /// Releases one answer.
    release: Arc<Notify>,
}

impl TokenServer {
    /// Starts a server with an answer for each number of a request, counted from 1. With `is_held`, each answer waits
    /// for its release.
    async fn start(is_held: bool, answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (requests, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let server =
            Self { address: listener.local_addr().unwrap(), requests: requests.clone(), release: release.clone() };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"grant_type=client_credentials&client_id=public") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
                if is_held {
                    release.notified().await;
                }
                let _ = stream.write_all(answer(number).as_bytes()).await;
            }
        });
        server
    }

    fn tokens(&self) -> Arc<AccessTokens> {
        let grant = AuthorizationGrant::ClientCredentials(OAuthClient::new("public", None));
        let config = OAuth::new(grant, "http://localhost/token".parse().unwrap());
        AccessTokens::new(&config, Arc::new(OneServer(self.address)), Arc::default())
    }

    fn request_count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn issued(token: &str, expires_in: u64) -> String {
    http("200 OK", &format!(r#"{{ "access_token": "{token}", "token_type": "Bearer", "expires_in": {expires_in} }}"#))
}

fn text(token: &Result<AccessToken, TokenError>) -> &str {
    token.as_ref().unwrap().authorization.to_str().unwrap()
}

#[tokio::test]
async fn requests_at_once_cause_one_request_for_a_token() {
    let server = TokenServer::start(true, |number| issued(&format!("t{number}"), 3600)).await;
    let tokens = server.tokens();
    let all = tokio::spawn(async move { join_all((0..20).map(|_| tokens.token())).await });
    server.release.notify_one();
    let all = all.await.unwrap();
    assert!(all.iter().all(|token| text(token) == "Bearer t1"));
    assert_eq!(all.iter().filter(|token| !token.as_ref().unwrap().is_cached).count(), 1);
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn a_request_for_a_token_outlives_the_call_that_needs_it() {
    let server = TokenServer::start(true, |number| issued(&format!("t{number}"), 3600)).await;
    let tokens = server.tokens();
    let call = tokio::spawn({
        let tokens = tokens.clone();
        async move { tokens.token().await }
    });
    while server.request_count() == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    server.release.notify_one();
    let token = tokens.token().await;
    assert_eq!((text(&token), token.as_ref().unwrap().is_cached, server.request_count()), ("Bearer t1", true, 1));
}

#[tokio::test]
async fn a_token_is_replaced_shortly_before_it_expires() {
    let server = TokenServer::start(false, |number| issued(&format!("t{number}"), 3600)).await;
    let tokens = server.tokens();
    assert_eq!(text(&tokens.token().await), "Bearer t1");
    tokens.cache.lock().await.current.as_mut().unwrap().usable_until = Instant::now();
    assert_eq!(text(&tokens.token().await), "Bearer t2");
    for (lifetime, used) in [(3600, 3540), (300, 240), (100, 80), (10, 8), (0, 0)] {
        assert_eq!(usable_time(Duration::from_secs(lifetime)).as_secs(), used, "{lifetime}");
    }
}

#[tokio::test]
async fn a_token_that_has_expired_when_it_arrives_causes_no_request_for_each_request() {
    let server = TokenServer::start(false, |number| issued(&format!("t{number}"), 0)).await;
    let tokens = server.tokens();
    let arrived = Instant::now();
    let all = join_all((0..20).map(|_| tokens.token())).await;
    assert!(all.iter().all(|token| text(token) == "Bearer t1"));
    assert_eq!(server.request_count(), 1);
    let usable_until = tokens.cache.lock().await.current.as_ref().unwrap().usable_until;
    assert!(usable_until >= arrived + MIN_USE);
    tokens.cache.lock().await.current.as_mut().unwrap().usable_until = Instant::now();
    assert_eq!((text(&tokens.token().await), server.request_count()), ("Bearer t2", 2));
}

#[test]
fn a_token_server_that_hangs_takes_less_than_the_time_of_a_request() {
    let default = mcp_host_config::limits::HttpLimits::default().timeout.duration();
    assert!(endpoint::TIMEOUT < default, "{default:?}");
}

#[tokio::test]
async fn a_rejected_token_is_replaced_once_in_a_while() {
    let server = TokenServer::start(false, |number| issued(&format!("t{number}"), 3600)).await;
    let tokens = server.tokens();
    let new = tokens.token().await.unwrap();
    assert!(!tokens.reject(&new).await, "a new token would not be accepted either");
    let cached = tokens.token().await.unwrap();
    assert!(tokens.reject(&cached).await);
    assert_eq!(text(&tokens.token().await), "Bearer t2");
    assert!(tokens.reject(&cached).await, "it was replaced already, so the other one may be accepted");
    let second = tokens.token().await.unwrap();
    assert!(!tokens.reject(&second).await, "the last replacement was a moment ago");
    assert_eq!((text(&tokens.token().await), server.request_count()), ("Bearer t2", 2));
}

#[tokio::test]
async fn a_token_server_that_fails_is_not_asked_again_at_once() {
    let server = TokenServer::start(false, |number| match number {
        1 => http("400 Bad Request", r#"{ "error": "invalid_scope" }"#),
        _ => issued("t", 3600),
    })
    .await;
    let tokens = server.tokens();
    for _ in 0..3 {
        let error = tokens.token().await.unwrap_err();
        assert_eq!(error.to_string(), "the token server answered 400 Bad Request, invalid_scope: check `scopes`");
    }
    assert_eq!(server.request_count(), 1);
    tokens.cache.lock().await.failure.as_mut().unwrap().retry_at = Instant::now();
    assert_eq!((text(&tokens.token().await), server.request_count()), ("Bearer t", 2));
    assert!(tokens.cache.lock().await.failure.is_none());
}

#[tokio::test]
async fn a_token_that_cannot_be_replaced_is_used_until_it_expires() {
    let server = TokenServer::start(false, |number| match number {
        1 => issued("t", 3600),
        _ => http("503 Service Unavailable", ""),
    })
    .await;
    let tokens = server.tokens();
    assert_eq!(text(&tokens.token().await), "Bearer t");
    tokens.cache.lock().await.current.as_mut().unwrap().usable_until = Instant::now();
    for _ in 0..2 {
        assert_eq!((text(&tokens.token().await), server.request_count()), ("Bearer t", 2));
    }
    tokens.cache.lock().await.current.as_mut().unwrap().expires_at = Instant::now();
    assert!(matches!(tokens.token().await, Err(TokenError::Refused { .. })));
}

#[test]
fn a_token_server_is_left_alone_as_long_as_it_asks_for_up_to_a_minute() {
    let refused = |seconds: Option<u64>| {
        let retry_after = seconds.map(Duration::from_secs);
        retry_after_of(TokenError::Refused { status: StatusCode::TOO_MANY_REQUESTS, code: None, retry_after })
    };
    assert_eq!([refused(None), refused(Some(30)), refused(Some(86_400))], [0, 30, 60]);
    assert_eq!(retry_after_of(TokenError::Timeout), 0);
}

fn retry_after_of(error: TokenError) -> u64 {
    retry_after(&error).as_secs()
}

#[tokio::test]
async fn an_answer_that_is_no_token_is_no_token() {
    let large = "x".repeat(1 << 20);
    for answer in [
        String::new(),
        "nonsense".repeat(1000),
        http("302 Found\r\nLocation: http://localhost/elsewhere", ""),
        http("200 OK", "<html>"),
        http("200 OK", &large),
        format!("HTTP/1.1 200 OK\r\nX-Large: {large}\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{ \"access_token\"".to_owned(),
    ] {
        let server = TokenServer::start(false, move |_| answer.clone()).await;
        assert!(server.tokens().token().await.is_err());
        assert_eq!(server.request_count(), 1);
    }
}

#[tokio::test]
async fn a_token_server_that_is_down_is_an_error_without_its_address() {
    // Bound without listening, so that connections are refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let server = TokenServer { address, requests: Arc::default(), release: Arc::default() };
    let error = server.tokens().token().await.unwrap_err();
    assert!(matches!(&error, TokenError::Unreachable(reason) if reason.contains("refused")), "{error}");
}
