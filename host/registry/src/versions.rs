//! Tags that are versions.

use mcp_host_config::registry::Selector;
use semver::Version;

/// The newest version among tags that a reference names, with its tag. `v1.4.2` is the version 1.4.2; where both are there, the tag
/// without the letter counts.
pub(crate) fn newest(selector: &Selector, tags: &[String]) -> Option<(Version, String)> {
    let of_selector = versions(tags).filter(|(version, ..)| selector.matches(version));
    of_selector.max().map(|(version, _, tag)| (version, tag.clone()))
}

/// The newest version among tags that is no pre-release.
pub(crate) fn newest_release(tags: &[String]) -> Option<Version> {
    versions(tags).map(|(version, ..)| version).filter(|version| version.pre.is_empty()).max()
}

/// The tags that are versions, each with whether it is without a letter.
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
}
