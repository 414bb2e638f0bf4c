//! The routes: the mapping from paths to resources.
//!
//! | path | resource |
//! |---|---|
//! | the empty path | the default listing's parts |
//! | `effective`, `effective?pointer=/a/b` | the merged layers |
//! | `env` | all variables |
//! | `env/{name}` | one variable |
//! | `file`, `file/{+path}` | a directory, or the values of a file |
//! | `file/{+path}?pointer=/a/b` | one value of a file |

use crate::pointer;
use mcp_provider::{Failure, Result, path};

/// The templates.
pub(crate) const EFFECTIVE: &str = "effective{?pointer}";
pub(crate) const VARIABLE: &str = "env/{name}";
pub(crate) const FILE: &str = "file/{+path}";
pub(crate) const POINTER: &str = "file/{+path}{?pointer}";

/// The target of a path, whether or not the resource exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The merged layers, or the part at a pointer.
    Effective(Option<String>),
    /// All variables.
    Variables,
    /// One variable.
    Variable(String),
    /// A file or directory by its names, or the value at a pointer in a file.
    File(String, Option<String>),
}

impl Route {
    /// Parses a path.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let (path, query) = path::split_query(path);
        let pointer = query.filter(|query| !query.is_empty()).map(pointer_of).transpose()?;
        let route = match path.split_once('/').unwrap_or((path, "")) {
            ("effective", "") => return Ok(Self::Effective(pointer)),
            ("file", _) if path == "file" => return Ok(Self::File(String::new(), pointer)),
            ("file", names) => return Ok(Self::File(path::decode(names)?, pointer)),
            ("env", _) if path == "env" => Self::Variables,
            ("env", name) => Self::Variable(path::decode_segment(name)?),
            _ => return Err(Failure::NotFound),
        };
        match pointer {
            None => Ok(route),
            Some(_) => Err(Failure::invalid("expected `pointer` only for `effective` and `file/…`")),
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Effective(pointer) => with_pointer("effective".to_owned(), pointer.as_deref()),
            Self::Variables => "env".to_owned(),
            Self::Variable(name) => format!("env/{}", path::encode_segment(name)),
            Self::File(names, pointer) => {
                let slash = if names.is_empty() { "" } else { "/" };
                with_pointer(format!("file{slash}{}", path::encode(names)), pointer.as_deref())
            }
        }
    }
}

fn pointer_of(query: &str) -> Result<String> {
    let Some(encoded) = query.strip_prefix("pointer=").filter(|value| !value.contains('&')) else {
        return Err(Failure::invalid(format!("expected `pointer=/a/b` in the query, found {query:?}")));
    };
    // In a query, a slash is an ordinary character (RFC 3986, section 3.4), encoded or not.
    let pointer = encoded.split('/').map(path::decode_segment).collect::<Result<Vec<_>>>()?.join("/");
    pointer::check(&pointer)?;
    Ok(pointer)
}

fn with_pointer(path: String, pointer: Option<&str>) -> String {
    match pointer {
        // Characters that are not allowed in a query, or that separate its parts, are encoded.
        Some(pointer) => format!("{path}?pointer={}", path::encode(pointer).replace('&', "%26").replace('+', "%2B")),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_resource_has_its_path() {
        let file = |names: &str, pointer: Option<&str>| Route::File(names.to_owned(), pointer.map(str::to_owned));
        for (path, route) in [
            ("effective", Route::Effective(None)),
            ("effective?pointer=/a", Route::Effective(Some("/a".to_owned()))),
            ("env", Route::Variables),
            ("env/PATH", Route::Variable("PATH".to_owned())),
            ("file", file("", None)),
            ("file/a/b.toml", file("a/b.toml", None)),
            ("file/a.toml?pointer=/x/y", file("a.toml", Some("/x/y"))),
            ("file/a.toml?pointer=", file("a.toml", Some(""))),
        ] {
            assert_eq!(Route::parse(path), Ok(route.clone()), "{path}");
            assert_eq!(route.path(), path);
        }
        assert_eq!(Route::parse("file/a.toml?pointer=%2Fx~1y"), Ok(file("a.toml", Some("/x~1y"))));
    }

    #[test]
    fn a_query_that_is_no_pointer_is_refused() {
        for path in [
            "file/a.toml?pointer=x",
            "file/a.toml?p=/x",
            "file/a.toml?pointer=/x&pointer=/y",
            "file/a.toml?pointer=/~",
            "file/a.toml?pointer=%zz",
            "env?pointer=/x",
            "env/A?pointer=/x",
        ] {
            assert!(matches!(Route::parse(path), Err(Failure::InvalidRequest(_))), "{path}");
        }
        for path in ["", "other", "effective/x"] {
            assert_eq!(Route::parse(path), Err(Failure::NotFound), "{path}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(path in ".{0,40}") {
            let _ = Route::parse(&path);
        }

        #[test]
        fn the_path_of_a_route_is_that_route(names in "[^/\0.][^/\0]{0,8}", key in "[^\0]{0,8}") {
            let route = Route::File(names, Some(pointer::join("", &key)));
            prop_assert_eq!(Route::parse(&route.path()), Ok(route));
        }
    }
}
