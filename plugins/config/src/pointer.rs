//! JSON pointers (RFC 6901).

use mcp_provider::{Failure, Result};

/// Checks that a text is a JSON pointer.
///
/// # Errors
///
/// [`Failure::InvalidRequest`] if it is not.
pub(crate) fn check(pointer: &str) -> Result<()> {
    let is_escaped = |part: &str| part.starts_with(['0', '1']);
    if (pointer.is_empty() || pointer.starts_with('/')) && pointer.split('~').skip(1).all(is_escaped) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "expected a JSON pointer such as `/server/port`, with `~0` for `~` and `~1` for `/` in keys, found {pointer:?}"
    )))
}

/// Returns the pointer of a key in the value of another pointer.
pub(crate) fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Returns the keys of a pointer, outermost first.
pub(crate) fn keys(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_pointer_is_refused() {
        for pointer in ["a", "a/b", "/a~", "/a~2", "~0"] {
            assert!(check(pointer).is_err(), "{pointer}");
        }
        for pointer in ["", "/", "/a//b", "/a~1b~0c"] {
            assert_eq!(check(pointer), Ok(()), "{pointer}");
        }
    }

    proptest! {
        #[test]
        fn a_pointer_of_keys_is_valid_and_has_these_keys(parts in proptest::collection::vec(".{0,8}", 0..5)) {
            let pointer = parts.iter().fold(String::new(), |parent, key| join(&parent, key));
            prop_assert_eq!(check(&pointer), Ok(()));
            prop_assert_eq!(keys(&pointer).collect::<Vec<_>>(), parts);
        }
    }
}
