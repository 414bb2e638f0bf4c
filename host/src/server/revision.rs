//! The revisions of MCP, and what differs between them that this server has to mind.
//!
//! The table says in which revisions a member exists; in others it is not sent.
//!
//! | member | since |
//! |---|---|
//! | `completions` among the capabilities | 2025-03-26 |
//! | `title`; `_meta` of resources, templates and contents; `annotations.lastModified` | 2025-06-18 |
//! | `icons` | 2025-11-25 |
//! | `resultType`, `ttlMs` and `cacheScope` of results; `extensions` among the capabilities | 2026-07-28 |
//!
//! Log messages to clients, and their capability `logging`, end with 2025-11-25, as do sessions and a code of its own for "not
//! found". JSON-RPC batches are of
//! 2025-03-26 alone.

use rmcp::model::ProtocolVersion;

/// A revision of MCP, by its date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    /// 2024-11-05: the first.
    V2024_11_05,
    /// 2025-03-26: streamable HTTP, batches.
    V2025_03_26,
    /// 2025-06-18: titles.
    V2025_06_18,
    /// 2025-11-25: icons.
    V2025_11_25,
    /// 2026-07-28: no sessions any more.
    V2026_07_28,
}

impl Revision {
    /// All of them, the oldest first.
    pub(crate) const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest.
    pub(crate) const LATEST: Self = Self::V2026_07_28;

    /// The newest whose results are not wrapped in what is for caches.
    pub(crate) const LATEST_WITH_SESSIONS: Self = Self::V2025_11_25;

    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// The revision that was agreed on; the oldest while nothing is.
    pub(super) fn negotiated(version: Option<&ProtocolVersion>) -> Self {
        version.and_then(|version| Self::from_name(version.as_str())).unwrap_or(Self::V2024_11_05)
    }

    /// Whether clients begin with `initialize`, which opens a session.
    pub(crate) fn has_sessions(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Whether several messages may come as one JSON array.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether clients can ask for log messages.
    pub(crate) fn has_logging(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Whether completion has a capability of its own.
    pub(crate) fn has_completions_capability(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether objects have titles, `_meta` and the time of their last change.
    pub(crate) fn has_titles(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether objects have icons.
    pub(crate) fn has_icons(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether capabilities name extensions, with their settings.
    pub(crate) fn has_extensions(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether "not found" has a code of its own, -32002.
    pub(crate) fn has_code_for_not_found(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Whether results say for how long, and for whom, they may be kept.
    pub(crate) fn has_cache_hints(self) -> bool {
        self >= Self::V2026_07_28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_revision_that_is_negotiated_is_known_by_its_date() {
        let negotiated: Vec<_> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
        assert_eq!(negotiated, Revision::ALL.map(Revision::name));
        assert!(Revision::ALL.is_sorted_by_key(|revision| revision.name()));
        for revision in Revision::ALL {
            assert_eq!(Revision::from_name(revision.name()), Some(revision));
        }
        assert_eq!(Revision::from_name("1999-12-31"), None);
    }
}
