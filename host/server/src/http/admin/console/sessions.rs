//! Sessions of the console, and the codes that are exchanged for one.
//!
//! Cookies, keys and codes are stored as digests, and tokens of clients as text that is zeroized. A session ends after
//! [`SESSION_TIME`], at logout, when a reload changes the token of `[admin]`, and with the process. The session of a
//! client also ends when `/mcp` no longer accepts the client's token. There are at most [`MAX_SESSIONS`], and
//! [`MAX_OF_CLIENT`] of one client. A further session of a client ends the client's oldest one; beyond the overall
//! maximum it ends the oldest one of the client with the most sessions. A client's session never replaces an
//! administrator's.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_config::TokenDigest;
use mcp_host_config::admin::AdminToken;
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::SESSION_TIME;

/// The maximum number of sessions, and of codes.
const MAX_SESSIONS: usize = 64;
/// The maximum number of sessions of one client.
const MAX_OF_CLIENT: usize = 8;
/// The time for which a code can be exchanged.
pub(in super::super) const CODE_TIME: Duration = Duration::from_secs(60);

/// The codes that can be exchanged for a session of the console: each once, within 60 s.
#[derive(Clone, Default)]
pub struct LoginCodes(Arc<Mutex<Vec<(TokenDigest, Instant)>>>);

impl LoginCodes {
    /// Makes a code. None if the system supplies no randomness.
    pub fn issue(&self) -> Option<String> {
        let code = random()?;
        let mut codes = self.0.lock();
        if codes.len() >= MAX_SESSIONS {
            codes.remove(0);
        }
        codes.push((TokenDigest::of(&code), Instant::now()));
        Some(code)
    }

    /// Returns whether a text is a valid code, and invalidates the code.
    pub(super) fn take(&self, text: &str) -> bool {
        self.take_at(text, Instant::now())
    }

    fn take_at(&self, text: &str, now: Instant) -> bool {
        let (digest, mut codes) = (TokenDigest::of(text), self.0.lock());
        codes.retain(|(_, issued)| now.saturating_duration_since(*issued) < CODE_TIME);
        let found = codes.iter().position(|(code, _)| code.matches(&digest));
        found.map(|at| codes.remove(at)).is_some()
    }
}

impl fmt::Debug for LoginCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginCodes").finish_non_exhaustive()
    }
}

/// The owner of a session.
#[derive(Clone)]
pub(super) enum Identity {
    /// An administrator of that name, while `[admin]` has that token.
    Administrator(&'static str, Option<AdminToken>),
    /// The client with that bearer token, while `/mcp` accepts it.
    User {
        /// The name of the client's principal.
        principal: String,
        token: Zeroizing<String>,
    },
}

/// A session.
struct Session {
    cookie: TokenDigest,
    key: TokenDigest,
    identity: Identity,
    began: Instant,
}

/// The secrets of a session.
pub(super) struct Login {
    pub(super) cookie: String,
    pub(super) key: String,
}

/// The sessions of a listener.
#[derive(Default)]
pub(super) struct Sessions {
    /// The oldest first.
    open: Mutex<Vec<Session>>,
    /// Changes whenever a session ends before its time.
    ended: watch::Sender<()>,
}

impl Sessions {
    /// Begins a session. None if the system supplies no randomness, or if an administrator holds every session and the
    /// new one is a client's.
    pub(super) fn begin(&self, identity: Identity) -> Option<Login> {
        let login = Login { cookie: random()?, key: random()? };
        let [cookie, key] = [&login.cookie, &login.key].map(|secret| TokenDigest::of(secret));
        let mut sessions = self.open.lock();
        sessions.retain(|session| session.began.elapsed() < SESSION_TIME);
        if let Some(replaced) = replaced_by(&identity, &sessions)? {
            sessions.remove(replaced);
            self.ended.send_replace(());
        }
        sessions.push(Session { cookie, key, identity, began: Instant::now() });
        Some(login)
    }

    /// Returns the owner of a session.
    pub(super) fn find(&self, cookie: &str, key: &str) -> Option<Identity> {
        let [cookie, key] = [cookie, key].map(TokenDigest::of);
        let mut sessions = self.open.lock();
        sessions.retain(|session| session.began.elapsed() < SESSION_TIME);
        let session = sessions.iter().find(|session| session.cookie.matches(&cookie) && session.key.matches(&key))?;
        Some(session.identity.clone())
    }

    /// Ends a session, if there is one.
    pub(super) fn end(&self, cookie: &str) {
        let cookie = TokenDigest::of(cookie);
        self.open.lock().retain(|session| !session.cookie.matches(&cookie));
        self.ended.send_replace(());
    }

    /// Notifies when a session ends before its time.
    pub(super) fn ended(&self) -> watch::Receiver<()> {
        self.ended.subscribe()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Session {
    /// The principal's name if it is a client's session.
    fn client(&self) -> Option<&str> {
        match &self.identity {
            Identity::User { principal, .. } => Some(principal),
            Identity::Administrator(..) => None,
        }
    }
}

/// Returns the position of the session that a new one replaces, if it replaces one. None if there is no room for a
/// client's session.
fn replaced_by(identity: &Identity, sessions: &[Session]) -> Option<Option<usize>> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for client in sessions.iter().filter_map(Session::client) {
        let count = counts.entry(client).or_default();
        *count = count.saturating_add(1);
    }
    if let Identity::User { principal, .. } = identity
        && counts.get(principal.as_str()).is_some_and(|count| *count >= MAX_OF_CLIENT)
    {
        return Some(sessions.iter().position(|session| session.client() == Some(principal)));
    }
    if sessions.len() < MAX_SESSIONS {
        return Some(None);
    }
    let most = counts.values().copied().max();
    let has_most = |session: &Session| session.client().is_some_and(|client| counts.get(client).copied() == most);
    match sessions.iter().position(has_most) {
        Some(oldest) => Some(Some(oldest)),
        None => matches!(identity, Identity::Administrator(..)).then_some(Some(0)),
    }
}

/// Returns 256 random bits in hexadecimal digits; none if the system supplies no randomness.
fn random() -> Option<String> {
    use std::fmt::Write as _;

    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing into a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_exchanged_once_within_its_time() {
        let codes = LoginCodes::default();
        let (code, late) = (codes.issue().unwrap(), codes.issue().unwrap());
        assert!(!codes.take("") && !codes.take(&format!("{code}0")));
        assert!(codes.take(&code) && !codes.take(&code));
        let now = Instant::now();
        assert!(!codes.take_at(&late, now + CODE_TIME));
        assert!(!codes.take_at(&late, now), "it was forgotten");
    }

    #[test]
    fn the_oldest_session_ends_when_there_are_too_many() {
        let sessions = Sessions::default();
        let logins: Vec<_> =
            (0..=MAX_SESSIONS).map(|_| sessions.begin(Identity::Administrator("admin/x", None)).unwrap()).collect();
        let goes_on = |login: &Login| sessions.find(&login.cookie, &login.key).is_some();
        assert_eq!(logins.iter().map(goes_on).collect::<Vec<_>>(), [vec![false], vec![true; MAX_SESSIONS]].concat());
        assert!(sessions.begin(user("a")).is_none(), "all are of administrators");
    }

    fn user(name: &str) -> Identity {
        Identity::User { principal: name.to_owned(), token: String::new().into() }
    }

    #[test]
    fn a_client_that_logs_in_again_and_again_ends_sessions_of_its_own() {
        let sessions = Sessions::default();
        let goes_on = |login: &Login| sessions.find(&login.cookie, &login.key).is_some();
        let [admin, b] = [Identity::Administrator("admin/x", None), user("b")].map(|who| sessions.begin(who).unwrap());
        let of_a: Vec<_> = (0..MAX_SESSIONS * 2).map(|_| sessions.begin(user("a")).unwrap()).collect();
        assert!(goes_on(&admin) && goes_on(&b));
        let (ended, left) = of_a.split_at(of_a.len() - MAX_OF_CLIENT);
        assert!(!ended.iter().any(goes_on) && left.iter().all(goes_on));
        // Many clients: the client with the most sessions loses one.
        let others: Vec<_> = (0..MAX_SESSIONS).map(|n| sessions.begin(user(&n.to_string())).unwrap()).collect();
        assert!(goes_on(&admin) && others.iter().rev().take(MAX_SESSIONS - 2 - MAX_OF_CLIENT).all(goes_on));
        assert!(of_a.iter().filter(|login| goes_on(login)).count() <= 1);
    }
}
