//! The revisions of MCP, and the differences between them.
//!
//! A member is sent only in revisions that define it:
//!
//! | member | since |
//! |---|---|
//! | `completions` among the capabilities; `annotations` of tools | 2025-03-26 |
//! | `title`; `_meta` of resources, templates and contents; `annotations.lastModified`; `outputSchema` of tools, `structuredContent` and links in their results | 2025-06-18 |
//! | `icons` | 2025-11-25 |
//! | `resultType`, `ttlMs` and `cacheScope` of results; `extensions` among the capabilities | 2026-07-28 |
//!
//! Sessions, log messages to clients with the capability `logging`, and a separate code for "not found" end with
//! 2025-11-25. Only 2025-03-26 has JSON-RPC batches.

/// A revision of MCP, by its date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05: the first.
    V2024_11_05,
    /// 2025-03-26: streamable HTTP, batches.
    V2025_03_26,
    /// 2025-06-18: titles.
    V2025_06_18,
    /// 2025-11-25: icons.
    V2025_11_25,
    /// 2026-07-28: stateless, without sessions.
    V2026_07_28,
}

impl Revision {
    /// All revisions, the oldest first.
    pub(crate) const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The latest revision.
    pub(crate) const LATEST: Self = Self::V2026_07_28;

    /// The latest revision with sessions, whose results have no cache hints.
    pub const LATEST_WITH_SESSIONS: Self = Self::V2025_11_25;

    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision with that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Returns whether clients open a session with `initialize`.
    pub(crate) fn has_sessions(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Returns whether a JSON array of messages is a batch.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Returns whether clients can request log messages.
    pub(crate) fn has_logging(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Returns whether there is a capability `completions`.
    pub(crate) fn has_completions_capability(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Returns whether tools have annotations.
    pub(crate) fn has_tool_annotations(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Returns whether objects have `title`, `_meta` and `lastModified`.
    pub(crate) fn has_titles(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Returns whether objects have icons.
    pub(crate) fn has_icons(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Returns whether the capabilities list extensions, with their settings.
    pub(crate) fn has_extensions(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Returns whether "not found" has a separate code, -32002.
    pub(crate) fn has_code_for_not_found(self) -> bool {
        self < Self::V2026_07_28
    }

    /// Returns whether results have cache hints: a TTL and a scope.
    pub(crate) fn has_cache_hints(self) -> bool {
        self >= Self::V2026_07_28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_revision_is_known_by_its_date() {
        assert!(Revision::ALL.is_sorted_by_key(|revision| revision.name()));
        for revision in Revision::ALL {
            assert_eq!(Revision::from_name(revision.name()), Some(revision));
        }
        assert_eq!(Revision::from_name("1999-12-31"), None);
    }
}
