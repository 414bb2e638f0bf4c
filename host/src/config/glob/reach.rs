//! Whether a glob could match a URI below a mount.
//!
//! Both are compared segment by segment: a mount has a fixed number of segments, and a glob that could match a URI
//! below it matches each of these and has at least one more segment, or a `**`. Choices are expanded first, up to
//! [`MAX_EXPANSIONS`]; a glob with more of them counts as one that could match.

/// The maximum number of globs that one glob is expanded to.
const MAX_EXPANSIONS: usize = 64;

/// Returns whether a normalized glob could match a URI below that mount.
pub(super) fn reaches(glob: &str, mount: &str) -> bool {
    expand_braces(glob).is_none_or(|globs| globs.iter().any(|glob| reaches_expanded(glob, mount)))
}

fn reaches_expanded(glob: &str, mount: &str) -> bool {
    let mut globs = glob.split('/');
    // The segment after the last slash of a mount is empty.
    let segments = mount.strip_suffix('/').unwrap_or(mount).split('/');
    for segment in segments {
        match globs.next() {
            Some("**") => return true,
            Some(glob) if matches(glob, segment) => {}
            _ => return false,
        }
    }
    globs.next().is_some()
}

/// Returns whether a glob of one segment matches the segment: `*` is any characters, `?` any one.
fn matches(glob: &str, segment: &str) -> bool {
    let (glob, segment): (Vec<_>, Vec<_>) = (glob.chars().collect(), segment.chars().collect());
    // The prefixes of the glob that match the text so far.
    let mut matched = vec![false; glob.len().saturating_add(1)];
    if let Some(first) = matched.first_mut() {
        *first = true;
    }
    epsilon_closure(&glob, &mut matched);
    for character in segment {
        let mut next = vec![false; matched.len()];
        for (index, (&pattern, _)) in glob.iter().zip(&matched).enumerate().filter(|(_, (_, matched))| **matched) {
            let to = if pattern == '*' { index } else { index.saturating_add(1) };
            if (pattern == '*' || pattern == '?' || pattern == character)
                && let Some(next) = next.get_mut(to)
            {
                *next = true;
            }
        }
        epsilon_closure(&glob, &mut next);
        matched = next;
    }
    matched.last().copied().unwrap_or_default()
}

/// A `*` also matches the empty text.
fn epsilon_closure(glob: &[char], matched: &mut [bool]) {
    for (index, _) in glob.iter().enumerate().filter(|(_, pattern)| **pattern == '*') {
        if matched.get(index).copied().unwrap_or_default()
            && let Some(next) = matched.get_mut(index.saturating_add(1))
        {
            *next = true;
        }
    }
}

/// Expands the choices of a glob; `None` if there are too many. Choices are not nested.
fn expand_braces(glob: &str) -> Option<Vec<String>> {
    let mut globs = vec![String::new()];
    let mut rest = glob;
    while let Some((before, behind)) = rest.split_once('{') {
        let (words, behind) = behind.split_once('}')?;
        rest = behind;
        let words: Vec<_> = words.split(',').collect();
        if globs.len().saturating_mul(words.len()) > MAX_EXPANSIONS {
            return None;
        }
        globs = globs.iter().flat_map(|glob| words.iter().map(move |word| [glob, before, word].concat())).collect();
    }
    globs.iter_mut().for_each(|glob| glob.push_str(rest));
    Some(globs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_reaches_a_mount_if_it_could_match_something_below_it() {
        for (glob, mount) in [
            ("**", "git://linux/"),
            ("**/.env", "git://linux/"),
            ("git://linux/**", "git://linux/"),
            ("git://*/**", "git://linux/"),
            ("git://l?n*x/a", "git://linux/"),
            ("git://**/a", "git://linux/"),
            ("{git,notes}://{linux,}/a", "notes:///"),
            ("{git://linux,notes://}/a", "notes:///"),
            ("web://evil.example/**", "web://"),
            ("web://evil.example", "web://"),
            ("files://nas/projects/", "files://nas/projects/"),
            ("files://nas/**", "files://nas/projects/"),
            (&format!("git://{}/", "{a,b}".repeat(60)), "git://linux/"),
        ] {
            assert!(reaches(glob, mount), "{glob} reaches {mount}");
        }
        for (glob, mount) in [
            ("gti://linux/**", "git://linux/"),
            ("git://linu/**", "git://linux/"),
            ("git://linux", "git://linux/"),
            ("git://lin*", "git://linux/"),
            ("git://{a,b}/**", "git://linux/"),
            ("files://nas/*", "files://nas/projects/"),
            ("notes://a/**", "notes:///"),
        ] {
            assert!(!reaches(glob, mount), "{glob} does not reach {mount}");
        }
    }
}
