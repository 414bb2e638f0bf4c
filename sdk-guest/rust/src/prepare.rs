//! Work that takes longer than a call.

use std::fmt;
use std::time::Duration;

use crate::{Failure, Provider, Result, Retry};

/// The time after which a client should retry a request for data that is being prepared.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A provider that prepares its data: work that takes longer than a call, such as an index.
///
/// `export!(Type, prepare)` exports it. If the config has `limits.prepare`, the host calls [`prepare`](Self::prepare)
/// in the background, after it has loaded the provider and after changes that [`Provider::changes`] reports. The
/// provider must store results in a granted directory or in a [bucket](crate::keyvalue), because each call may get a
/// fresh instance.
///
/// ```
/// use mcp_provider::{Failure, Prepare, Progress, Provider, Result};
/// # use mcp_provider::{Config, Contents, Info, Page};
/// # struct Events(Vec<String>);
/// # impl Events { fn index(&self, _: usize) -> Result<()> { Ok(()) } }
/// # impl Provider for Events {
/// #     fn describe() -> Info { Info::new("events", "1.0.0") }
/// #     fn open(_: &Config) -> Result<Self> { Ok(Self(vec![String::new(); 2500])) }
/// #     fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> { Err(Failure::being_prepared()) }
/// #     fn read(&self, _: &str) -> Result<Vec<Contents>> { Err(Failure::being_prepared()) }
/// # }
///
/// impl Prepare for Events {
///     fn prepare(&self, token: Option<&str>) -> Result<Progress> {
///         let start: usize = token.and_then(|token| token.parse().ok()).unwrap_or(0);
///         let end = start.saturating_add(1000).min(self.0.len());
///         for event in start..end {
///             self.index(event)?;
///         }
///         Ok(Progress::of(end, self.0.len(), "events", end))
///     }
/// }
/// # let events = Events::open(&Config::default())?;
/// # let first = events.prepare(None)?;
/// # assert_eq!((first.next_token.as_deref(), first.percent), (Some("1000"), Some(40)));
/// # assert_eq!(events.prepare(Some("2000"))?.next_token, None);
/// # Ok::<(), Failure>(())
/// ```
pub trait Prepare: Provider {
    /// Prepares a part of the work: as much as fits well into one call, a few hundred milliseconds of it.
    ///
    /// `token` is the [`next_token`](Progress::next_token) of the call before; without one the preparation begins. For
    /// a token that it does not understand, it begins again. If the prepared results still match the data, it returns
    /// [`Progress::done`] at once.
    ///
    /// # Errors
    ///
    /// The host calls again with the same token, after a while. Administrators see the text.
    fn prepare(&self, token: Option<&str>) -> Result<Progress>;
}

/// How far a preparation is after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The token of the next call; none when everything is prepared. At most 64 KiB, and never the one of this call.
    pub next_token: Option<String>,
    /// The part that is prepared, in per cent.
    pub percent: Option<u8>,
    /// What has been done, for administrators. It is cut to 500 bytes.
    pub message: Option<String>,
    /// The time after which everything is to be prepared again, though no change is reported.
    pub again_after: Option<Duration>,
}

impl Progress {
    /// Everything is prepared.
    pub fn done() -> Self {
        Self { next_token: None, percent: Some(100), message: None, again_after: None }
    }

    /// There is more to do, from that token on.
    pub fn next(token: impl fmt::Display) -> Self {
        Self { next_token: Some(token.to_string()), percent: None, message: None, again_after: None }
    }

    /// Reports that `prepared` of `all` are prepared, with the percentage and a message: `3000 of 5000 events`. If some
    /// are left, the next call gets that token.
    pub fn of(prepared: usize, all: usize, what: &str, token: impl fmt::Display) -> Self {
        let progress = if prepared < all { Self::next(token) } else { Self::done() };
        let percent = prepared.saturating_mul(100).checked_div(all).unwrap_or(100);
        progress.percent(u8::try_from(percent).unwrap_or(100)).message(format!("{prepared} of {all} {what}"))
    }

    /// Sets the part that is prepared, in per cent: 100 at most.
    pub fn percent(mut self, percent: u8) -> Self {
        self.percent = Some(percent.min(100));
        self
    }

    /// Sets what has been done.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets the time after which everything is prepared again, though no change is reported.
    pub fn again_after(mut self, after: Duration) -> Self {
        self.again_after = Some(after);
        self
    }
}

impl Failure {
    /// The failure of a call that needs data that is not prepared yet: [`Failure::Unavailable`], with the progress and
    /// a time to retry, or with the message that the config does not allow preparation.
    pub fn being_prepared() -> Self {
        #[cfg(target_family = "wasm")]
        let (may_prepare, percent) = (
            crate::component::reserved("mcp-host/limits.prepare.cpu-ms").is_some(),
            crate::component::reserved("mcp-host/prepare.percent"),
        );
        #[cfg(not(target_family = "wasm"))]
        let (may_prepare, percent) = (true, None::<String>);
        if !may_prepare {
            return Self::unavailable("it has to be prepared, which the config of the host does not allow");
        }
        let percent = percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
        Retry::new(format!("it is being prepared{percent}")).after(RETRY_AFTER).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_counts_to_a_hundred_and_ends_there() {
        let progress = Progress::of(1, 3, "files", "t");
        assert_eq!((progress.next_token.as_deref(), progress.percent), (Some("t"), Some(33)));
        assert_eq!(progress.message.as_deref(), Some("1 of 3 files"));
        for (prepared, all) in [(3, 3), (0, 0), (4, 3)] {
            let done = Progress::of(prepared, all, "files", "t");
            assert_eq!((done.next_token, done.percent), (None, Some(100)), "{prepared} of {all}");
        }
        assert_eq!(Progress::next(7).percent(200).percent, Some(100));
    }

    #[test]
    fn what_is_being_prepared_has_a_time_to_retry() {
        assert!(matches!(Failure::being_prepared(), Failure::Unavailable(retry) if retry.after == Some(RETRY_AFTER)));
    }
}
