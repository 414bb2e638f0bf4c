//! The paths of resources, and their parsed form.
//!
//! | path | resource |
//! |---|---|
//! | `blob/{rev}/{+path}` | a file, link or submodule |
//! | `tree/{rev}` and `tree/{rev}/{+path}` | a directory |
//! | `commit/{rev}` | a commit with its diff |
//! | `log/{rev}{?path,limit}` | the history of a revision, or the part that changed a path |
//! | `refs{?after}` | all branches and tags, or those after one |
//!
//! A revision is one segment, so slashes in branch names are percent-encoded; those in file paths are not.

use bstr::{BStr, BString, ByteSlice};
use mcp_provider::{Failure, Result, path};

/// The template of files. The other templates follow.
pub(crate) const BLOB: &str = "blob/{rev}/{+path}";
/// The template of directories.
pub(crate) const TREE: &str = "tree/{rev}/{+path}";
/// The template of commits.
pub(crate) const COMMIT: &str = "commit/{rev}";
/// The template of histories.
pub(crate) const LOG: &str = "log/{rev}{?path,limit}";

/// The number of commits in a log, by default.
const DEFAULT_LOG_LIMIT: usize = 50;

/// The maximum number of commits in a log.
const MAX_LOG_LIMIT: usize = 1000;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A file at a revision.
    Blob {
        /// The revision.
        rev: BString,
        /// The file's path.
        path: BString,
    },
    /// A directory at a revision.
    Tree {
        /// The revision.
        rev: BString,
        /// The directory's path; empty for the root.
        path: BString,
    },
    /// A commit.
    Commit {
        /// The revision.
        rev: BString,
    },
    /// The history of a revision.
    Log {
        /// The revision.
        rev: BString,
        /// The path whose changes are shown; `None` shows all commits.
        path: Option<BString>,
        /// The maximum number of commits.
        limit: usize,
    },
    /// All refs.
    Refs {
        /// Only those after this ref.
        after: Option<BString>,
    },
}

impl Address {
    /// Parses a path.
    pub(crate) fn parse(whole: &str) -> Result<Self> {
        let (location, query) = path::split_query(whole);
        let (family, rest) = location.split_once('/').unwrap_or((location, ""));
        let address = match family {
            "blob" | "tree" => {
                let (rev, names) = rest.split_once('/').unwrap_or((rest, ""));
                let rev = revision(rev)?;
                match family {
                    "blob" if names.is_empty() => {
                        return Err(Failure::invalid(format!("expected {BLOB}, found no path")));
                    }
                    "blob" => Self::Blob { rev, path: path::decode_bytes(names)?.into() },
                    // Expanding the template with an empty path leaves a trailing slash, and a directory may have one.
                    _ => Self::Tree { rev, path: path::decode_bytes(names.strip_suffix('/').unwrap_or(names))?.into() },
                }
            }
            "commit" => Self::Commit { rev: revision(rest)? },
            "log" => {
                let rev = revision(rest)?;
                let (path, limit) = log_query(query.unwrap_or_default())?;
                return Ok(Self::Log { rev, path, limit });
            }
            "refs" if rest.is_empty() && location == family => {
                let after = query.map(refs_query).transpose()?;
                return Ok(Self::Refs { after });
            }
            _ => return Err(Failure::invalid(format!("expected {BLOB}, {TREE}, {COMMIT}, {LOG} or refs"))),
        };
        match query {
            None => Ok(address),
            Some(_) => Err(Failure::invalid("expected a query with `log` only")),
        }
    }

    /// Returns the revision, if the path has one.
    pub(crate) fn rev(&self) -> Option<&BStr> {
        match self {
            Self::Blob { rev, .. } | Self::Tree { rev, .. } | Self::Commit { rev } | Self::Log { rev, .. } => {
                Some(rev.as_bstr())
            }
            Self::Refs { .. } => None,
        }
    }
}

/// Builds the path of a file.
pub(crate) fn blob(rev: &BStr, path: &BStr) -> String {
    format!("blob/{}/{}", path::encode_segment(rev), path::encode(path))
}

/// Builds the path of a directory.
pub(crate) fn tree(rev: &BStr, path: &BStr) -> String {
    let rev = path::encode_segment(rev);
    if path.is_empty() { format!("tree/{rev}") } else { format!("tree/{rev}/{}", path::encode(path)) }
}

fn revision(segment: &str) -> Result<BString> {
    if segment.is_empty() {
        return Err(Failure::invalid("expected a revision: a branch, a tag or a commit"));
    }
    if segment.contains('/') {
        return Err(Failure::invalid(
            "expected one segment as the revision, its slashes percent-encoded: `feature%2Fx`",
        ));
    }
    Ok(path::decode_segment_bytes(segment)?.into())
}

fn log_query(query: &str) -> Result<(Option<BString>, usize)> {
    let (mut path, mut limit) = (None, DEFAULT_LOG_LIMIT);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("path", "")) => {}
            Some(("path", value)) => path = Some(decode_query_path(value)?),
            Some(("limit", value)) => match value.parse() {
                Ok(number @ 1..=MAX_LOG_LIMIT) => limit = number,
                _ => {
                    return Err(Failure::invalid(format!(
                        "expected a limit from 1 to {MAX_LOG_LIMIT}, found {value:?}"
                    )));
                }
            },
            _ => return Err(Failure::invalid(format!("expected `path=` or `limit=` in the query, found {part:?}"))),
        }
    }
    Ok((path, limit))
}

/// Builds the path of the refs after one.
pub(crate) fn refs_after(name: &BStr) -> String {
    format!("refs?after={}", path::encode_segment(name).replace('&', "%26").replace('=', "%3D"))
}

fn refs_query(query: &str) -> Result<BString> {
    let after = query.strip_prefix("after=").filter(|after| !after.contains(['&', '=']));
    let after = after.ok_or_else(|| Failure::invalid("expected `after=` and the full name of a ref in the query"))?;
    Ok(path::decode_segment_bytes(&after.replace('/', "%2F"))?.into())
}

/// Decodes a path in a query, where slashes may be percent-encoded.
fn decode_query_path(value: &str) -> Result<BString> {
    let names = value.split('/').map(path::decode_segment_bytes).collect::<Result<Vec<_>>>()?.join(&b'/');
    let names = names.strip_suffix(b"/").unwrap_or(&names);
    if names.split_str("/").any(|name| matches!(name, b"" | b"." | b"..")) {
        return Err(Failure::invalid("expected a path without empty, `.` and `..` segments"));
    }
    Ok(names.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalid(path: &str) -> bool {
        matches!(Address::parse(path), Err(Failure::InvalidRequest(_)))
    }

    #[test]
    fn each_family_is_recognized() {
        let (rev, path) = (BString::from("feature/x"), BString::from("a b/c"));
        let parse = |path: &str| Address::parse(path).unwrap();
        assert_eq!(parse("blob/feature%2Fx/a%20b/c"), Address::Blob { rev: rev.clone(), path: path.clone() });
        assert_eq!(parse("tree/feature%2Fx/a%20b/c"), Address::Tree { rev: rev.clone(), path: path.clone() });
        assert_eq!(parse("commit/feature%2Fx"), Address::Commit { rev: rev.clone() });
        assert_eq!(parse("log/feature%2Fx"), Address::Log { rev: rev.clone(), path: None, limit: 50 });
        for path in ["log/feature%2Fx?path=a%20b%2Fc&limit=3", "log/feature%2Fx?limit=3&path=a%20b/c/"] {
            assert_eq!(parse(path), Address::Log { rev: rev.clone(), path: Some("a b/c".into()), limit: 3 }, "{path}");
        }
        assert_eq!(parse("refs"), Address::Refs { after: None });
        for path in ["refs?after=refs%2Fheads%2Fa%20b", "refs?after=refs/heads/a%20b"] {
            assert_eq!(parse(path), Address::Refs { after: Some("refs/heads/a b".into()) }, "{path}");
        }
        assert_eq!(parse(&refs_after("refs/heads/=&é".into())), Address::Refs { after: Some("refs/heads/=&é".into()) });
    }

    #[test]
    fn the_root_is_a_tree_with_and_without_a_slash() {
        for path in ["tree/main", "tree/main/"] {
            assert_eq!(Address::parse(path), Ok(Address::Tree { rev: "main".into(), path: "".into() }), "{path}");
        }
    }

    #[test]
    fn what_has_no_shape_of_ours_is_refused() {
        for path in
            ["", "blob", "blob/", "blob/main", "blob/main/", "tree", "tree/", "commit", "commit/", "log", "log/"]
        {
            assert!(invalid(path), "{path:?}");
        }
        for path in [
            "refs/",
            "refs/heads",
            "commit/feature/x",
            "log/feature/x",
            "blob//a",
            "tags/v1",
            "refs?x=1",
            "refs?",
            "refs?after=a&b=c",
        ] {
            assert!(invalid(path), "{path:?}");
        }
        for path in
            ["blob/main/a?x=1", "tree/main?limit=1", "log/main?skip=1", "log/main?limit=0", "log/main?limit=1001"]
        {
            assert!(invalid(path), "{path:?}");
        }
    }

    #[test]
    fn a_path_that_means_to_escape_is_refused() {
        for names in ["..", "a/../b", "%2e%2e/a", "a%2Fb", "a//b", "a/", "%00", "%zz", "."] {
            assert!(invalid(&format!("blob/main/{names}")), "{names:?}");
        }
        for names in ["..", "a%2F..%2Fb", "a//b", "%00", "."] {
            assert!(invalid(&format!("log/main?path={names}")), "{names:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_built_is_parsed_back(
            rev in proptest::collection::vec(1u8.., 1..20),
            path in proptest::collection::vec("[^/\0.][^/\0]{0,8}", 1..4),
        ) {
            let path: BString = path.join("/").into();
            let rev: BString = rev.into();
            let blob = Address::parse(&blob(rev.as_ref(), path.as_ref())).unwrap();
            let tree = Address::parse(&tree(rev.as_ref(), path.as_ref())).unwrap();
            proptest::prop_assert_eq!(blob, Address::Blob { rev: rev.clone(), path: path.clone() });
            proptest::prop_assert_eq!(tree, Address::Tree { rev, path });
        }

        #[test]
        fn no_path_makes_it_panic(path in ".*") {
            let _ = Address::parse(&path);
            let _ = Address::parse(&format!("log/{path}"));
            let _ = Address::parse(&format!("log/main?{path}"));
        }
    }
}
