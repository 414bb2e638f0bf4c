//! The progress of the plugins' preparations, and its changes.

use std::collections::BTreeMap;
use std::mem::discriminant;

use clap::builder::styling::AnsiColor;
use mcp_host_engine::plugin::{PreparationState, PreparationStatus};
use mcp_resource_host::host::PluginStatus;

use super::{BAD, GOOD, NEUTRAL, format_elapsed};

/// The last known preparations of the plugins.
#[derive(Default)]
pub(super) struct Preparations {
    seen: BTreeMap<String, PreparationStatus>,
}

impl Preparations {
    /// Compares the plugins with their last known state. Returns the changes, each a line with its color, and whether a
    /// preparation has finished.
    pub(super) fn look_at(&mut self, plugins: Vec<PluginStatus>) -> (Vec<(AnsiColor, String)>, bool) {
        let now: BTreeMap<_, _> =
            plugins.into_iter().filter_map(|plugin| Some((plugin.name, plugin.preparation?))).collect();
        let changed: Vec<_> = now.iter().filter(|(name, status)| is_news(self.seen.get(*name), status)).collect();
        let is_prepared = changed.iter().any(|(_, status)| status.state == PreparationState::Done);
        let lines = changed.into_iter().map(|(_, status)| line(status)).collect();
        self.seen = now;
        (lines, is_prepared)
    }

    /// The progress of a running preparation, in per cent if the provider reports it.
    pub(super) fn running(&self) -> Option<Option<u8>> {
        self.seen.values().find(|status| status.state == PreparationState::Running).map(|status| status.percent)
    }
}

/// Whether this is a new state worth a line.
fn is_news(before: Option<&PreparationStatus>, now: &PreparationStatus) -> bool {
    let is_other = |before: &PreparationStatus| {
        discriminant(&before.state) != discriminant(&now.state) || before.state.reason() != now.state.reason()
    };
    is_shown(&now.state, now.cpu_limit.is_some()) && before.is_none_or(is_other)
}

/// Whether a state is worth a line. `Waiting` and, with permission, `Off` are left out: they precede the start, and
/// another state follows in a moment.
fn is_shown(state: &PreparationState, is_permitted: bool) -> bool {
    match state {
        PreparationState::Off => !is_permitted,
        PreparationState::Waiting => false,
        _ => true,
    }
}

fn line(status: &PreparationStatus) -> (AnsiColor, String) {
    let PreparationStatus { state, message, calls, cpu, .. } = status;
    let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    match state {
        PreparationState::Off => {
            let add = "add `limits.prepare = { cpu = \"1m\", memory = \"64MiB\" }` to the plugin";
            (BAD, format!("the provider exports `prepare`, and is not called for it: {add}"))
        }
        PreparationState::Waiting | PreparationState::Running => (NEUTRAL, format!("running{message}")),
        PreparationState::Done => {
            let calls = if *calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
            (GOOD, format!("done in {calls} and {} of CPU time{message}", format_elapsed(*cpu)))
        }
        PreparationState::Failing(reason) => (BAD, format!("it fails, and is retried: {reason}")),
        PreparationState::Stopped(reason) => (BAD, format!("it has ended without being done: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nothing_is_prepared_is_said_without_permission_only_and_not_at_the_start() {
        assert!(is_shown(&PreparationState::Off, false));
        assert!(!is_shown(&PreparationState::Off, true));
        assert!(!is_shown(&PreparationState::Waiting, true));
        for state in [PreparationState::Running, PreparationState::Done, PreparationState::Stopped(String::new())] {
            assert!(is_shown(&state, true), "{state:?}");
        }
    }
}
