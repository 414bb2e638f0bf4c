//! The families of the search index.

use std::fmt;

use mcp_host_base::metrics::Family;
use mcp_host_search::SearchStatus;
use prometheus_client::encoding::DescriptorEncoder;

use super::BuiltIns;

const DOCUMENTS: Family = Family::gauge("mcp_host_search_documents", &["plugin"], "Resources in the search index.");
const BYTES: Family = Family::gauge("mcp_host_search_bytes", &["plugin"], "Bytes of text in the search index.");
const MISSING: Family = Family::gauge(
    "mcp_host_search_missing",
    &["plugin"],
    "Resources whose text is not completely in the search index: it could not be read, is longer than `max-document`, or did not fit.",
);
const COMPLETE: Family = Family::gauge(
    "mcp_host_search_complete",
    &["plugin"],
    "1 if the search index of the plugin is complete, 0 while it is built, or if something is missing.",
);

impl BuiltIns {
    /// Encodes the metrics.
    pub(crate) fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let searched = self.search.status();
        let mut encode = |family: &Family, value: fn(&SearchStatus) -> u64| {
            family.encode(encoder, |samples| {
                searched.iter().try_for_each(|status| samples.integer(&[&status.plugin], value(status)))
            })
        };
        encode(&DOCUMENTS, |status| status.documents)?;
        encode(&BYTES, |status| status.bytes)?;
        encode(&MISSING, |status| status.omitted.saturating_add(status.failed).saturating_add(status.without_text))?;
        encode(&COMPLETE, |status| u64::from(status.has_everything()))
    }
}
