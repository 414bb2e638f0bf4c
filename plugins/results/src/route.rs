//! The routes: the mapping from paths to resources.
//!
//! | path | resource |
//! |---|---|
//! | the empty path | the default listing |
//! | `latest` | the newest result |
//! | `by` | all keys |
//! | `by/{key}` | the newest result with a key |
//! | any other path | the result with this id |

use mcp_provider::{Result, path};

/// The templates.
pub(crate) const RESULT: &str = "{+id}";
pub(crate) const KEY: &str = "by/{key}";

/// The first segments that cannot be ids.
const RESERVED: [&str; 2] = ["latest", "by"];

/// The target of a path, whether or not the resource exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The newest result.
    Latest,
    /// All keys.
    Keys,
    /// The newest result with a key.
    Key(String),
    /// A result by its id.
    Result(String),
}

impl Route {
    /// Parses a path.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        match path.split_once('/') {
            None if path == "latest" => Ok(Self::Latest),
            None if path == "by" => Ok(Self::Keys),
            Some(("by", key)) => Ok(Self::Key(path::decode_segment(key)?)),
            _ => Ok(Self::Result(path::decode(path)?)),
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Latest => "latest".to_owned(),
            Self::Keys => "by".to_owned(),
            Self::Key(key) => format!("by/{}", path::encode_segment(key)),
            Self::Result(id) => path::encode(id),
        }
    }
}

/// Returns whether names cannot be an id, because their path has another meaning.
pub(crate) fn is_reserved(id: &str) -> bool {
    RESERVED.contains(&id.split('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_resource_has_its_path() {
        for (path, route) in [
            ("latest", Route::Latest),
            ("by", Route::Keys),
            ("by/a%2Fb", Route::Key("a/b".to_owned())),
            ("sales/2025-01", Route::Result("sales/2025-01".to_owned())),
            ("latest/x", Route::Result("latest/x".to_owned())),
        ] {
            assert_eq!(Route::parse(path), Ok(route.clone()), "{path}");
            assert_eq!(route.path(), path);
        }
        for path in ["by/a/b", "by/%zz", "a?x", "a//b"] {
            assert!(Route::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(path in ".{0,40}") {
            let _ = Route::parse(&path);
        }

        #[test]
        fn the_path_of_a_key_is_that_key(key in "[^\0]{0,12}") {
            let route = Route::Key(key);
            prop_assert_eq!(Route::parse(&route.path()), Ok(route));
        }
    }
}
