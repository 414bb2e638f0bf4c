//! The checks: their names and descriptions.

/// A check of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// The provider describes itself, without any grant.
    Describe,
    /// Its data are prepared within the limits of a preparation.
    Prepare,
    /// The listing ends.
    ListingEnds,
    /// Two listings in a row are equal.
    ListingStable,
    /// No path is listed twice.
    ListingUnique,
    /// A listing can be resumed from any of its cursors.
    CursorResume,
    /// A cursor that the provider did not issue does no harm.
    BadCursor,
    /// Listable entries have children, and other entries have none.
    Children,
    /// Every listed entry can be read.
    Readable,
    /// `stat` agrees with the listing.
    StatAgrees,
    /// An unknown path is not found.
    NotFound,
    /// Paths and templates are valid and stay below the mount.
    Paths,
    /// Annotations, MIME types, icons and metadata are valid.
    Hints,
    /// Text is UTF-8.
    Utf8,
    /// Sizes match the contents.
    Sizes,
    /// Templates expand to resources that can be read.
    Templates,
    /// Completions are bounded and refer to known templates.
    Completion,
    /// No change is reported while nothing changes.
    ChangesQuiet,
    /// A change is reported.
    ChangesReported,
    /// The provider accepts the token of each answer.
    Token,
    /// After a token that the provider did not issue, everything is reported as changed.
    BadToken,
    /// No answer depends on earlier calls to the same instance.
    Stateless,
    /// No call exceeds a limit.
    Limits,
    /// The provider imports nothing useless.
    Imports,
}

impl Check {
    /// All checks, in the order of reports.
    pub const ALL: [Self; 24] = [
        Self::Describe,
        Self::Prepare,
        Self::ListingEnds,
        Self::ListingStable,
        Self::ListingUnique,
        Self::CursorResume,
        Self::BadCursor,
        Self::Children,
        Self::Readable,
        Self::StatAgrees,
        Self::NotFound,
        Self::Paths,
        Self::Hints,
        Self::Utf8,
        Self::Sizes,
        Self::Templates,
        Self::Completion,
        Self::ChangesQuiet,
        Self::ChangesReported,
        Self::Token,
        Self::BadToken,
        Self::Stateless,
        Self::Limits,
        Self::Imports,
    ];

    /// The check's name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Prepare => "prepare",
            Self::ListingEnds => "listing-ends",
            Self::ListingStable => "listing-stable",
            Self::ListingUnique => "listing-unique",
            Self::CursorResume => "cursor-resume",
            Self::BadCursor => "bad-cursor",
            Self::Children => "children",
            Self::Readable => "readable",
            Self::StatAgrees => "stat-agrees",
            Self::NotFound => "not-found",
            Self::Paths => "paths",
            Self::Hints => "hints",
            Self::Utf8 => "utf-8",
            Self::Sizes => "sizes",
            Self::Templates => "templates",
            Self::Completion => "completion",
            Self::ChangesQuiet => "changes-quiet",
            Self::ChangesReported => "changes-reported",
            Self::Token => "token",
            Self::BadToken => "bad-token",
            Self::Stateless => "stateless",
            Self::Limits => "limits",
            Self::Imports => "imports",
        }
    }

    /// The subject of the check, in a sentence for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Describe => "it describes itself, without any grant",
            Self::Prepare => "its data are prepared within `limits.prepare`",
            Self::ListingEnds => "the listing ends",
            Self::ListingStable => "two listings in a row are equal",
            Self::ListingUnique => "no path is listed twice",
            Self::CursorResume => "a listing can be resumed from any of its cursors",
            Self::BadCursor => "a foreign cursor does no harm",
            Self::Children => "listable entries can be listed, and nothing else",
            Self::Readable => "every listed entry can be read",
            Self::StatAgrees => "`stat` agrees with the listing",
            Self::NotFound => "an unknown path is not found",
            Self::Paths => "paths and templates are valid and stay below the mount",
            Self::Hints => "annotations, MIME types, icons and metadata are valid",
            Self::Utf8 => "text is UTF-8",
            Self::Sizes => "sizes are those of the contents",
            Self::Templates => "templates expand to resources that can be read",
            Self::Completion => "completions are bounded and refer to known templates",
            Self::ChangesQuiet => "no change is reported while nothing changes",
            Self::ChangesReported => "a change is reported",
            Self::Token => "the token of each answer is understood",
            Self::BadToken => "a foreign token means that everything changed",
            Self::Stateless => "no answer depends on earlier calls to the same instance",
            Self::Limits => "no call exceeds a limit",
            Self::Imports => "every import is of use",
        }
    }

    /// The advice for a failure.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Describe => {
                "`describe` returns constants: a name, a version and the capabilities. It runs without directories, network and \
                 config, so open those in the other functions"
            }
            Self::Prepare => {
                "do a part of the work in each call of `prepare`, for a few hundred milliseconds, return a token until everything is \
                 prepared, and request the CPU time that all calls take (`prepare.cpu` in the requirements of the provider)"
            }
            Self::ListingEnds => {
                "return no `next-cursor` on the last page, and on each page before it a cursor that was not returned before"
            }
            Self::ListingStable => {
                "sort the entries by something that does not change from call to call, such as the path"
            }
            Self::ListingUnique => "list each path once, percent-encoded in one way",
            Self::CursorResume => {
                "put into the cursor where to continue, such as the last path of the page: the next page may be requested from \
                 another instance, with another limit"
            }
            Self::BadCursor => "parse the cursor, and fail with `invalid-request` when this provider did not make it",
            Self::Children => {
                "answer `list-entries` with the path of a listable entry as `parent` by its children; fail with `not-found` for \
                 an unknown parent and with `invalid-request` for one that is not listable"
            }
            Self::Readable => "list only what `read` can return; fail with `unavailable` when it cannot be read now",
            Self::StatAgrees => {
                "build the entry of a path in one function, and use it in `list-entries`, `stat` and `read`"
            }
            Self::NotFound => {
                "fail with `not-found` when there is no such resource, and with `invalid-request` when the path has another form"
            }
            Self::Paths => "percent-encode each segment of a path; begin with no `/`, and use no `.` and `..` segments",
            Self::Hints => "leave out a hint rather than return an invalid one: the host drops it",
            Self::Utf8 => "return what is not UTF-8 as `blob`",
            Self::Sizes => "set `size` to the number of bytes of the body, before any encoding, or leave it out",
            Self::Templates => {
                "offer as completions what can be read when it is put into the template, and return the entry of the path that was \
                 requested: decode the values, and encode them by the functions of the SDK"
            }
            Self::Completion => {
                "return at most 1000 values, best first, and `has-more` when there are others; fail with `invalid-request` for an \
                 unknown template or variable"
            }
            Self::ChangesQuiet => {
                "compare the state of the token with the present state of the data, not with the state of an instance"
            }
            Self::ChangesReported => {
                "let the token stand for the content of the data: times of change, lengths or a digest"
            }
            Self::Token => "understand each token that `changes` returned, also an older one, in any instance",
            Self::BadToken => "report all watched paths and the listing as changed when `since` is not understood",
            Self::Stateless => {
                "keep nothing in memory from call to call but caches: what must last belongs in a directory, a bucket, a cursor \
                 or a token"
            }
            Self::Limits => {
                "answer in smaller pages, read in parts, or ask for a higher limit in the requirements of the provider (`limits`)"
            }
            Self::Imports => {
                "use the world of `wit/` with only the used imports, or grant what is imported: `--http`, `--keyvalue`, `--sql`"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_check_has_a_name_of_its_own_and_stands_in_the_list_once() {
        let names: BTreeSet<_> = Check::ALL.iter().map(|check| check.name()).collect();
        assert_eq!(names.len(), Check::ALL.len());
        assert!(Check::ALL.is_sorted());
    }
}
