//! Tags that are versions.

use mcp_host_config::registry::Selector;
use semver::Version;

/// The maximum number of versions that a message lists.
const MAX_SUGGESTIONS: usize = 5;

/// Returns the newest version that matches a reference, with its tag. `v1.4.2` is the version 1.4.2; if both tags
/// exist, the one without the letter is used.
pub(crate) fn newest(selector: &Selector, tags: &[String]) -> Option<(Version, String)> {
    let of_selector = versions(tags).filter(|(version, ..)| selector.matches(version));
    of_selector.max().map(|(version, _, tag)| (version, tag.clone()))
}

/// Returns the newest version among tags, without pre-releases.
pub(crate) fn newest_release(tags: &[String]) -> Option<Version> {
    versions(tags).map(|(version, ..)| version).filter(|version| version.pre.is_empty()).max()
}

/// Returns the suggestion for a reference that matches none of these tags.
pub(crate) fn suggestion(tags: &[String]) -> String {
    let mut all: Vec<Version> = versions(tags).map(|(version, ..)| version).collect();
    all.sort();
    all.dedup();
    let shown: Vec<_> = all.iter().rev().take(MAX_SUGGESTIONS).map(ToString::to_string).collect();
    let more = if all.len() > shown.len() { ", …" } else { "" };
    match (newest_release(tags), shown.as_slice()) {
        (_, []) => ": none of them is a version such as 1.4.2".to_owned(),
        (None, shown) => format!("; it has pre-releases only, which are written whole: {}{more}", shown.join(", ")),
        (Some(newest), shown) => {
            let major = newest.major;
            format!("; it has {}{more}: write `:{major}` for the newest release of {major}", shown.join(", "))
        }
    }
}

/// Returns the tags that are versions, each with a flag for a tag without the letter.
fn versions(tags: &[String]) -> impl Iterator<Item = (Version, bool, &String)> {
    tags.iter().filter_map(|tag| {
        let plain = tag.strip_prefix('v');
        let version: Version = plain.unwrap_or(tag).parse().ok()?;
        version.build.is_empty().then(|| (version, plain.is_none(), tag))
    })
}

#[cfg(test)]
mod tests {
    use mcp_host_config::registry::Reference;

    use super::*;

    #[test]
    fn the_newest_version_is_by_semantic_versioning_and_not_by_letters() {
        let tags: Vec<_> =
            ["1.4.9", "v1.4.10", "1.4.10", "1.4.11-rc.1", "1.40.0", "2.0.0", "latest", "1.4", "sha256-00.sig"]
                .map(str::to_owned)
                .into();
        let found = |version: &str| {
            let reference: Reference = format!("oci://a.example/b:{version}").parse().unwrap();
            newest(&reference.selector, &tags).map(|(_, tag)| tag)
        };
        assert_eq!(found("1.4").as_deref(), Some("1.4.10"));
        assert_eq!(found("1").as_deref(), Some("1.40.0"));
        assert_eq!(found("1.4.9").as_deref(), Some("1.4.9"));
        assert_eq!(found("1.4.11-rc.1").as_deref(), Some("1.4.11-rc.1"));
        assert_eq!(found("3"), None);
        assert_eq!(newest_release(&tags), Some(Version::new(2, 0, 0)));
    }

    #[test]
    fn versions_that_are_there_are_suggested() {
        let said = |tags: &[&str]| suggestion(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>());
        assert_eq!(said(&["1.0.0", "v2.1.0"]), "; it has 2.1.0, 1.0.0: write `:2` for the newest release of 2");
        assert!(said(&["1.0.0-rc.1"]).contains("pre-releases only, which are written whole: 1.0.0-rc.1"));
        assert!(said(&["latest", "\u{1b}[2J"]).contains("none of them is a version"));
        let many: Vec<_> = (0..9).map(|number| format!("1.{number}.0")).collect();
        assert!(suggestion(&many).contains("1.4.0, …"), "{}", suggestion(&many));
    }
}
