//! Names of plugins and hosts of URIs, derived from the names of directories.

/// The maximum length of a name. The name of a plugin adds a prefix and a number, and has at most 64 characters.
const MAX_LEN: usize = 40;

/// The name of a directory as the host of a URI: lower-case letters, digits and `-`.
pub(super) fn host_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let plain: String = name
        .chars()
        .take(MAX_LEN)
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .collect();
    let plain = plain.trim_matches('-');
    if plain.is_empty() { "project".to_owned() } else { plain.to_owned() }
}

/// Makes the names unique by appending numbers.
pub(super) fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut taken = Vec::new();
    for name in names {
        let numbered = (2_usize..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        taken.push(free.unwrap_or(name));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_as_a_host_whatever_the_directory_is_called() {
        for (directory, name) in
            [("linux", "linux"), ("My \"Notes\"", "my--notes"), ("..x", "x"), ("ノート", "project"), ("", "project")]
        {
            assert_eq!(host_name(directory), name);
        }
        assert_eq!(host_name(&"a".repeat(200)).len(), MAX_LEN);
    }

    #[test]
    fn names_that_are_the_same_are_numbered() {
        let names = ["a", "b", "a", "a-2", "a"].map(str::to_owned);
        assert_eq!(unique(names.into_iter()), ["a", "b", "a-2", "a-2-2", "a-3"]);
    }
}
