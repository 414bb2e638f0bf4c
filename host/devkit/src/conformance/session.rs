//! The calls of a test, and its report so far.

use std::time::Duration;

use mcp_host_engine::function::Function;
use mcp_host_engine::plugin::{Fault, Plugin, PreparationState, PreparationStatus};
use mcp_host_model::uri::Mount;

use super::{Check, Report, advice};

/// The maximum total wait for rate limits.
const MAX_RATE_WAIT: Duration = Duration::from_secs(30);
/// The reason to skip checks of data that could not be prepared, which [`Check::Prepare`] reports.
const NOT_PREPARED: &str = "its data could not be prepared";

/// A running test.
pub(super) struct Session<'p> {
    plugin: &'p Plugin,
    pub(super) report: Report,
    rate_wait: Duration,
    /// Whether its data are prepared, if the provider exports `prepare`.
    prepared: Option<Prepared>,
}

/// Whether the data of a provider are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prepared {
    /// They are.
    Yes,
    /// They are not, for this reason.
    No(&'static str),
}

/// The outcome of a call without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// A failure that the contract defines for requests: not found, or invalid.
    Refused(Fault),
    /// The provider is temporarily unable to answer, or its data source denies access: the check is impossible.
    Unavailable(Fault),
    /// The provider is at fault: a trap, `internal`, an answer that cannot be lifted.
    Broken(Fault),
    /// A limit was exceeded, which [`Check::Limits`] reports.
    Limited,
}

impl NoAnswer {
    /// Reports the outcome as a problem of a check, unless another check reports it.
    pub(super) fn report(&self, session: &mut Session<'_>, check: Check, what: &str) {
        self.report_with(session, check, what, check.advice());
    }

    /// Reports the outcome with specific advice for a refusal.
    pub(super) fn report_with(&self, session: &mut Session<'_>, check: Check, what: &str, advice: &'static str) {
        match self {
            Self::Limited => {}
            Self::Unavailable(fault) => match session.unprepared(fault) {
                Some(reason) => session.report.skip(check, reason),
                None => session.report.note(check, format!("{what} could not be tested: {fault}")),
            },
            Self::Refused(fault) | Self::Broken(fault) => {
                let message = format!("{what}: {fault}");
                if matches!(fault, Fault::Internal(_) | Fault::Trap(_) | Fault::Panicked(_)) {
                    session.report.provider_failure(check, message);
                } else {
                    session.report.problem_with(check, message, advice);
                }
            }
        }
    }
}

impl<'p> Session<'p> {
    pub(super) fn new(plugin: &'p Plugin, report: Report) -> Self {
        Self { plugin, report, rate_wait: Duration::ZERO, prepared: None }
    }

    pub(super) fn plugin(&self) -> &'p Plugin {
        self.plugin
    }

    pub(super) fn mount(&self) -> &'p Mount {
        self.plugin.mount()
    }

    pub(super) fn watches(&self) -> bool {
        self.plugin.info().watches
    }

    /// Prepares the data to the end, if the provider exports `prepare`, as a host does after a start and after an edit.
    /// Returns the progress at the end.
    pub(super) async fn prepare(&mut self) -> Option<PreparationStatus> {
        let status = self.plugin.prepare_once().await?;
        let calls = usize::try_from(status.calls).unwrap_or(usize::MAX);
        self.report.calls = self.report.calls.saturating_add(calls);
        self.prepared = Some(match status.state {
            PreparationState::Done => Prepared::Yes,
            PreparationState::Off => Prepared::No(advice::MUST_BE_PREPARED),
            _ => Prepared::No(NOT_PREPARED),
        });
        Some(status)
    }

    /// Returns whether the data have been prepared, and can be prepared again after an edit.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared == Some(Prepared::Yes)
    }

    /// Returns why a failure with `unavailable` is not the provider's fault: its data are not prepared.
    pub(super) fn unprepared(&self, fault: &Fault) -> Option<&'static str> {
        match (fault, self.prepared) {
            (Fault::Unavailable { .. }, Some(Prepared::No(reason))) => Some(reason),
            _ => None,
        }
    }

    pub(super) fn into_report(self) -> Report {
        self.report
    }

    /// Calls the provider, in a fresh instance.
    pub(super) async fn call<F: Function + Clone>(&mut self, what: &str, function: F) -> Result<F::Answer, NoAnswer> {
        self.call_in(self.plugin, what, function).await
    }

    /// Calls the provider of this plugin.
    pub(super) async fn call_in<F: Function + Clone>(
        &mut self,
        plugin: &Plugin,
        what: &str,
        function: F,
    ) -> Result<F::Answer, NoAnswer> {
        loop {
            self.report.calls = self.report.calls.saturating_add(1);
            plugin.take_last_errors();
            let fault = match plugin.call_unvalidated(function.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(Fault::RateLimited(wait)) if self.rate_wait.saturating_add(wait) <= MAX_RATE_WAIT => {
                    self.rate_wait = self.rate_wait.saturating_add(wait);
                    tokio::time::sleep(wait).await;
                    continue;
                }
                Err(fault) => fault,
            };
            return Err(match fault {
                Fault::NotFound | Fault::InvalidRequest(_) => NoAnswer::Refused(fault),
                Fault::Denied(_) | Fault::Unavailable { .. } => NoAnswer::Unavailable(fault),
                Fault::Deadline(_)
                | Fault::Delayed(_)
                | Fault::Cpu(_)
                | Fault::Memory(_)
                | Fault::MemoryInUse(_)
                | Fault::ResponseSize(_)
                | Fault::ResponseItems { .. }
                | Fault::ListingItems(_)
                | Fault::Handles(_)
                | Fault::RandomBytes(_)
                | Fault::RateLimited(_) => {
                    self.report.problem_with(Check::Limits, format!("{what}: {fault}"), of_limit(&fault));
                    NoAnswer::Limited
                }
                Fault::Trap(message) => {
                    NoAnswer::Broken(Fault::Trap(with_last_errors(message, &plugin.take_last_errors())))
                }
                fault => NoAnswer::Broken(fault),
            });
        }
    }
}

/// The advice for an exceeded limit.
fn of_limit(fault: &Fault) -> &'static str {
    match fault {
        Fault::Deadline(_) | Fault::Delayed(_) | Fault::Cpu(_) => advice::TIME_LIMIT,
        Fault::Memory(_) | Fault::MemoryInUse(_) => advice::MEMORY_LIMIT,
        Fault::Handles(_) => advice::HANDLE_LIMIT,
        Fault::RateLimited(_) => advice::RATE_LIMIT,
        Fault::ResponseSize(_) | Fault::ResponseItems { .. } | Fault::ListingItems(_) => advice::SIZE_LIMIT,
        _ => Check::Limits.advice(),
    }
}

/// Adds the guest's last output to the message of a trap: for a panic in Rust, the message and its place.
fn with_last_errors(trap: String, lines: &[String]) -> String {
    // The hint about this variable is useless for a sandboxed guest.
    let lines: Vec<_> =
        lines.iter().map(|line| line.trim()).filter(|line| !line.contains("`RUST_BACKTRACE=1`")).collect();
    if lines.is_empty() { trap } else { format!("{trap}; before, it wrote: {}", lines.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_is_added_to_its_trap() {
        assert_eq!(with_last_errors("unreachable".to_owned(), &[]), "unreachable");
        let lines = [
            "thread '<unnamed>' panicked at src/lib.rs:60:88:",
            "oops 0",
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
        ];
        assert_eq!(
            with_last_errors("unreachable".to_owned(), &lines.map(str::to_owned)),
            "unreachable; before, it wrote: thread '<unnamed>' panicked at src/lib.rs:60:88: oops 0"
        );
    }
}
