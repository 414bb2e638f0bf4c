//! The families of subscriptions, and of the polls that detect changes.

use std::fmt;

use mcp_host_base::metrics::Family;
use prometheus_client::encoding::DescriptorEncoder;

use super::to_u64;
use crate::host::Host;
use crate::watch::WatchStats;

const SUBSCRIBERS: Family =
    Family::gauge("mcp_host_subscribers", &[], "Sessions and streams that may have subscriptions.");
const WATCHED_RESOURCES: Family =
    Family::gauge("mcp_host_watched_resources", &[], "Resources that clients are subscribed to.");
const POLLED_PLUGINS: Family = Family::gauge("mcp_host_polled_plugins", &[], "Plugins that are polled for changes.");
const POLLS: Family = Family::counter(
    "mcp_host_polls_total",
    &["cause", "outcome"],
    "Polls for changes by cause (interval, subscription, event of a granted directory, notification of a granted database, another replica) and outcome (ok, failed).",
);
const POLL_LAG: Family = Family::histogram(
    "mcp_host_poll_lag_seconds",
    &["cause"],
    "Durations from the moment when the cause of a poll was noticed until subscribers were notified of the changes.",
);
const POLL_DEBOUNCE: Family = Family::histogram(
    "mcp_host_poll_debounce_seconds",
    &["cause"],
    "Durations from the first event or notification of a burst until the start of the poll that covers the burst.",
);
const UPDATES: Family = Family::counter(
    "mcp_host_updates_total",
    &["kind"],
    "Change notifications that sessions and streams accepted for sending, by kind: of a resource, of the listing.",
);

/// Writes the families.
pub(super) fn encode(host: &Host, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let WatchStats { subscribers, resources, plugins } = host.watch_stats();
    SUBSCRIBERS.encode_one(encoder, to_u64(subscribers))?;
    WATCHED_RESOURCES.encode_one(encoder, to_u64(resources))?;
    POLLED_PLUGINS.encode_one(encoder, to_u64(plugins))?;
    let polls = host.poll_metrics();
    POLLS.encode(encoder, |samples| {
        polls.by_cause().try_for_each(|(cause, counted)| {
            samples.integer(&[cause.name(), "ok"], counted.succeeded.get())?;
            samples.integer(&[cause.name(), "failed"], counted.failed.get())
        })
    })?;
    POLL_LAG.encode(encoder, |samples| {
        polls.by_cause().try_for_each(|(cause, counted)| samples.histogram(&[cause.name()], &counted.lags))
    })?;
    POLL_DEBOUNCE.encode(encoder, |samples| {
        let mut causes = polls.by_cause().filter(|(cause, _)| cause.is_event());
        causes.try_for_each(|(cause, counted)| samples.histogram(&[cause.name()], &counted.debounces))
    })?;
    let (of_resources, of_listing) = host.updates_taken();
    UPDATES.encode(encoder, |samples| {
        samples.integer(&["resource"], of_resources)?;
        samples.integer(&["listing"], of_listing)
    })
}
