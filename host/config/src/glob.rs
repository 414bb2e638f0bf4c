//! URI globs of access rules.
//!
//! A glob is normalized when it is parsed. So a request only has to match it, and a glob that could never match is an
//! error: a `deny` rule without effect is worse than a rejected config.

mod automaton;
mod error;
mod normalize;

use std::fmt;
use std::str::FromStr;

use globset::{Glob, GlobBuilder, GlobMatcher};
use mcp_host_model::uri::{Gap, Mount, UriPattern, canonical, composed};

pub use self::error::GlobError;

use self::error::no_scheme_help;
use self::normalize::normalize;
use super::reader::{FromNode, Node, Schema};

/// A pattern of URIs: `git://linux/**`, `**/.env`, `notes:///{公開,draft}/*.md`.
///
/// | glob | matches |
/// |---|---|
/// | `*` | any characters but `/`, or none |
/// | `?` | one character but `/` |
/// | `**` | as a whole segment: zero or more segments; at the end: the prefix itself, and everything below it; alone: everything |
/// | `NAME+**` | everything below the mount `NAME+`: the one place where `**` follows other characters |
/// | `{a,b}` | `a` or `b`; not nested |
///
/// A glob is matched against a whole URI in [normal form](mcp_host_model::uri#normal-form) without its query, and is
/// normalized in the same way: characters that a URI cannot contain are percent-encoded, so they can be written
/// literally; percent-encoding has its canonical form, so `%40` is `@`; scheme and host are in lower case. A glob that
/// cannot match a normalized URI is rejected: one without a scheme at its beginning, or with dot segments or a
/// fragment. Also rejected, because they mislead: a `**` within a segment, backslashes, the encoding of a character
/// with a meaning in globs (`%2A`, and `%2C` within braces), and `[…]`, which could match a slash or half of an encoded
/// character.
#[derive(Clone)]
pub struct UriGlob {
    source: String,
    /// The normalized glob.
    normalized: String,
    matcher: GlobMatcher,
    /// For `P/**`: the matcher of `P`.
    prefix: Option<PrefixMatcher>,
}

/// The matcher of `P` of a glob `P/**`.
#[derive(Clone, Debug)]
enum PrefixMatcher {
    /// A text without wildcards: cheap to compare, and the most frequent kind in rules.
    Literal(String),
    Pattern(GlobMatcher),
}

impl PrefixMatcher {
    fn new(normal: &str) -> Result<Self, GlobError> {
        if normal.contains(['*', '?', '{']) {
            matcher(normal).map(Self::Pattern)
        } else {
            Ok(Self::Literal(normal.to_owned()))
        }
    }

    fn matches(&self, uri: &str) -> bool {
        match self {
            Self::Literal(text) => text == uri,
            Self::Pattern(matcher) => matcher.is_match(uri),
        }
    }
}

/// A slash that is part of a segment, in normal form.
const ENCODED_SLASH: &str = "%2F";

/// The maximum number of a glob's alternatives that are compared with the canonical forms of an upstream.
const MAX_ALTERNATIVES: usize = 64;

/// The index key of a glob, for lookup among many globs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobLookup<'a> {
    /// The glob matches every URI.
    Everything,
    /// The glob matches this text without wildcards, and everything below it.
    Below(&'a str),
    /// The glob's patterns must be matched.
    Pattern,
}

/// A regular expression that matches every valid glob: the first segment is `**` or contains a colon.
const PATTERN: &str = r"^(([*][*]|[^/]*:[^/]*)(/[^\[\]\\#]*)?|[a-zA-Z][a-zA-Z0-9.-]*[+][*][*])$";

impl UriGlob {
    /// The maximum length of a glob in bytes, as written.
    const MAX_LEN: usize = 1024;

    /// Returns the glob as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Returns whether the glob matches a URI, which must be normalized and without a query.
    pub fn matches(&self, uri: &str) -> bool {
        self.matcher.is_match(uri) || self.prefix.as_ref().is_some_and(|above| above.matches(uri))
    }

    /// Returns the glob with its characters in canonical composition (NFC); `None` if they are already composed.
    pub fn composed(&self) -> Option<Self> {
        composed(&self.normalized)?.parse().ok()
    }

    /// Returns the normalized text.
    pub(super) fn normalized(&self) -> &str {
        &self.normalized
    }

    /// Returns the index key of the glob.
    pub fn lookup(&self) -> GlobLookup<'_> {
        match &self.prefix {
            _ if self.normalized == "**" => GlobLookup::Everything,
            Some(PrefixMatcher::Literal(prefix)) => GlobLookup::Below(prefix),
            _ => GlobLookup::Pattern,
        }
    }

    /// Returns the patterns of the glob: a URI matches the glob if it matches one of them. They can be compiled into a
    /// set with the patterns of other globs.
    pub fn patterns(&self) -> impl Iterator<Item = Glob> {
        let above = self.prefix.is_some().then(|| self.normalized.strip_suffix("/**")).flatten();
        let whole = everything_below_prefix(&self.normalized);
        let whole = whole.as_deref().unwrap_or(&self.normalized).to_owned();
        [Some(whole), above.map(str::to_owned)].into_iter().flatten().filter_map(|pattern| pattern_of(&pattern).ok())
    }

    /// Returns whether the glob matches all URIs of a pattern. False negatives are possible.
    pub fn covers(&self, pattern: &UriPattern) -> bool {
        automaton::covers(&self.normalized, pattern)
    }

    /// Returns whether the glob could match a URI of a pattern. False positives are possible.
    pub fn reaches(&self, pattern: &UriPattern) -> bool {
        automaton::reaches(&self.normalized, pattern)
    }

    /// Returns the text before a final `/**`, or the whole text, if it has no other wildcards. The glob matches this
    /// text and, with `/**`, everything below it.
    pub fn literal_prefix(&self) -> Option<&str> {
        let prefix = self.normalized.strip_suffix("/**").unwrap_or(&self.normalized);
        (!prefix.contains(['*', '?', '{'])).then_some(prefix)
    }

    /// Returns a glob for the canonical forms ([`canonical`]) of URIs below the mount of an upstream, if this glob
    /// matches only other forms of them. `prefix` is the upstream's prefix at the mount. The decision uses the text
    /// before the first wildcard.
    pub(super) fn canonical_below(&self, mount: &Mount, prefix: &str) -> Option<String> {
        let mount = mount.as_str();
        self.alternatives().into_iter().find_map(|glob| {
            let below = glob.strip_prefix(mount)?;
            let (text, rest) = below.split_at(below.find(['*', '?']).unwrap_or(below.len()));
            // The following text determines whether a slash is doubled, and where a host or its port ends.
            let followers: &[&str] = match rest {
                "" => &[""],
                _ if text.ends_with('/') => &["_"],
                _ => &["_", "/"],
            };
            let uri = [prefix, text].concat();
            let (form, follower) = followers.iter().find_map(|follower| {
                let form = canonical(&[&uri, *follower].concat()).into_owned();
                let is_matched = if rest.is_empty() { form == uri } else { form.starts_with(&uri) };
                (!is_matched).then_some((form, *follower))
            })?;
            let form = form.strip_suffix('_').filter(|_| follower == "_").unwrap_or(&form);
            Some([mount, form.strip_prefix(prefix).unwrap_or(form), rest].concat())
        })
    }

    /// The normalized text, expanded for the alternatives in braces: at most [`MAX_ALTERNATIVES`] texts.
    fn alternatives(&self) -> Vec<String> {
        let mut globs = vec![String::new()];
        let mut rest = self.normalized.as_str();
        while let Some((text, (choices, behind))) =
            rest.split_once('{').and_then(|(text, rest)| Some((text, rest.split_once('}')?)))
        {
            let choices = choices.split(',').map(|choice| [text, choice].concat());
            let with =
                |choice: String| globs.iter().map(move |glob| [glob, choice.as_str()].concat()).collect::<Vec<_>>();
            globs = choices.flat_map(with).take(MAX_ALTERNATIVES).collect();
            rest = behind;
        }
        globs.iter_mut().for_each(|glob| glob.push_str(rest));
        globs
    }

    /// Returns whether the glob could match a URI below this mount if `%2F` in the mount were a slash.
    pub(super) fn reaches_decoded(&self, mount: &Mount) -> bool {
        let decoded = |text: &str| text.replace(ENCODED_SLASH, "/");
        let pattern = || UriPattern::text(&decoded(mount.as_str())).gap(Gap::Any);
        mount.as_str().contains(ENCODED_SLASH) && automaton::reaches(&decoded(&self.normalized), &pattern())
    }
}

impl FromStr for UriGlob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        if text.len() > Self::MAX_LEN {
            return Err(GlobError::TooLong);
        }
        if let Some(pattern) = everything_below_prefix(text) {
            let normalized = text.to_ascii_lowercase();
            let matcher = matcher(&pattern)?;
            return Ok(Self { source: text.to_owned(), matcher, prefix: None, normalized });
        }
        let normalized = normalize(text)?;
        let prefix = normalized.strip_suffix("/**").map(PrefixMatcher::new).transpose()?;
        Ok(Self { source: text.to_owned(), matcher: matcher(&normalized)?, prefix, normalized })
    }
}

/// Returns the pattern of `NAME+**`, which matches everything below the mount, including URIs without a slash.
fn everything_below_prefix(glob: &str) -> Option<String> {
    let prefix = glob.strip_suffix("**")?;
    let mount: Mount = prefix.parse().ok().filter(Mount::is_prefix)?;
    Some(format!("{mount}{{*,*/**}}"))
}

fn matcher(normal: &str) -> Result<GlobMatcher, GlobError> {
    pattern_of(normal).map(|glob| glob.compile_matcher())
}

fn pattern_of(normal: &str) -> Result<Glob, GlobError> {
    let mut builder = GlobBuilder::new(normal);
    builder.literal_separator(true).backslash_escape(false).empty_alternates(true);
    builder.build().map_err(|_| GlobError::Braces)
}

impl fmt::Display for UriGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl fmt::Debug for UriGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UriGlob").field(&self.source).finish()
    }
}

impl PartialEq for UriGlob {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for UriGlob {}

impl FromNode for UriGlob {
    const TYPE_NAME: &'static str = "a glob";

    fn example() -> String {
        "\"git://linux/**\"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("minLength", 1).with("maxLength", Self::MAX_LEN).with("pattern", PATTERN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        let error = match written.parse() {
            Ok(glob) => return Some(glob),
            Err(error) => error,
        };
        // A suggestion with the example's mount would match nothing in this config.
        match (&error, node.context.declared.borrow().mounts.first()) {
            (GlobError::NoScheme(glob), Some(mount)) => {
                node.report_error(error.to_string(), no_scheme_help(glob, mount.as_str()));
            }
            _ => node.reject(&error),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_that_no_canonical_form_matches_is_told_with_one_that_it_does() {
        let canonical = |glob: &str, mount: &str, prefix| {
            glob.parse::<UriGlob>().unwrap().canonical_below(&mount.parse().unwrap(), prefix)
        };
        for (glob, expected) in [
            ("up+file:/s/**", "up+file:///s/**"),
            ("up+file://localhost/s/**", "up+file:///s/**"),
            ("up+file:////s/*.md", "up+file:///s/*.md"),
            ("up+http://h.example:80/s", "up+http://h.example/s"),
            ("up+https://h.example:443/**", "up+https://h.example/**"),
            ("up+http:h.example/s*", "up+http://h.example/s*"),
            ("up+http://h.example", "up+http://h.example/"),
            ("up+file://localhost*", "up+file:///*"),
            ("up+{file:///a,file:/s}/**", "up+file:///s/**"),
            ("up+x:a/{b,c}/{d,e}", ""),
        ] {
            assert_eq!(canonical(glob, "up+", "").unwrap_or_default(), expected, "{glob}");
        }
        let plain = [
            "up+**",
            "up+file:///s/**",
            "up+file:///s*",
            "up+file:///**",
            "up+http://h:8080/**",
            "up+repo://h//a",
            "**",
            "up+http://h/?/a",
            "other+file:/s/**",
            "up+file:*",
            "up+urn:a:*",
        ];
        for glob in plain {
            assert_eq!(canonical(glob, "up+", ""), None, "{glob}");
        }
        let exchanged = |glob| canonical(glob, "files://nas/", "file:///srv/");
        assert_eq!(exchanged("files://nas/a/**"), None);
        assert_eq!(exchanged("files://nas/a//b/**").as_deref(), Some("files://nas/a/b/**"));
    }

    fn matches(glob: &str, uri: &str) -> bool {
        glob.parse::<UriGlob>().unwrap().matches(uri)
    }

    #[test]
    fn a_star_stays_in_its_segment_and_two_stars_do_not() {
        assert!(matches("git://linux/*.rs", "git://linux/main.rs"));
        assert!(!matches("git://linux/*.rs", "git://linux/src/main.rs"));
        assert!(matches("git://linux/**/*.rs", "git://linux/src/main.rs"));
        assert!(matches("git://linux/**/*.rs", "git://linux/main.rs"));
        assert!(matches("git://linux/?.md", "git://linux/a.md"));
        assert!(!matches("git://linux/?", "git://linux//"));
    }

    #[test]
    fn two_stars_at_the_end_match_everything_below_and_what_it_is_below_of() {
        assert!(matches("git://linux/**", "git://linux/"));
        assert!(matches("git://linux/**", "git://linux/a/b"));
        assert!(!matches("git://linux/**", "git://linuxes/a"));
        assert!(matches("git://linux/src/**", "git://linux/src"));
        assert!(!matches("git://linux/src/**", "git://linux/src2"));
        assert!(matches("web://evil.example/**", "web://evil.example"));
        assert!(matches("git://linux/{src,doc}/**", "git://linux/doc"));
        assert!(matches("**/secrets/**", "git://linux/a/secrets"));
        assert!(matches("notes:///**", "notes:///a"));
        assert!(matches("**", "git://linux/"));
    }

    #[test]
    fn two_stars_behind_a_prefix_match_everything_below_it() {
        for uri in ["github+repo://x/y", "github+urn:isbn:1", "github+file:/a/b", "github+x://a/", "github+x:"] {
            assert!(matches("github+**", uri) && matches("GitHub+**", uri), "{uri}");
            let glob: UriGlob = "github+**".parse().unwrap();
            assert!(glob.patterns().any(|pattern| pattern.compile_matcher().is_match(uri)), "{uri}");
        }
        for uri in ["github://x", "githubx+a:b", "git+a:b", "x://github+a/"] {
            assert!(!matches("github+**", uri), "{uri}");
        }
        let glob: UriGlob = "github+**".parse().unwrap();
        assert!(glob.covers(&UriPattern::below(&"github+".parse().unwrap())));
        assert!(glob.reaches(&UriPattern::text("github+urn:a")) && !glob.reaches(&UriPattern::text("git://a")));
        assert!(
            matches("github+repo://x/**", "github+repo://x/y") && matches("github+urn:isbn:*", "github+urn:isbn:1")
        );
        for glob in ["github+***", "github+a**", "1+**", "github+**/a", "github+"] {
            assert!(glob.parse::<UriGlob>().is_err(), "{glob}");
        }
    }

    #[test]
    fn two_stars_at_the_beginning_match_any_mount() {
        for uri in ["git://linux/.env", "git://linux/a/b/.env", "notes:///.env"] {
            assert!(matches("**/.env", uri), "{uri}");
        }
        assert!(!matches("**/.env", "git://linux/a.env"));
        assert!(!matches("**/.env", "git://linux/.env/a"));
    }

    #[test]
    fn a_choice_matches_each_of_its_words() {
        for uri in ["git://a/x", "notes://a/x"] {
            assert!(matches("{git,notes}://a/*", uri), "{uri}");
        }
        assert!(matches("git://a/b{,.txt}", "git://a/b"));
        assert!(matches("git://a/b{,.txt}", "git://a/b.txt"));
        assert!(matches("git://a/x,y", "git://a/x,y"));
    }

    #[test]
    fn a_glob_is_normalised_like_the_uris_that_it_is_compared_with() {
        assert!(matches("notes:///{公開,draft}/*", "notes:///%E5%85%AC%E9%96%8B/a"));
        assert!(matches("notes:///my notes/*", "notes:///my%20notes/a"));
        assert!(matches("notes:///%e5%85%ac/%41", "notes:///%E5%85%AC/A"));
        assert!(matches("GIT://Linux%2dX/Src", "git://linux-x/Src"));
        assert!(matches("x://A%e3%8aB/", "x://a%E3%8Ab/"));
        assert!(matches("notes:///100%25", "notes:///100%25"));
        assert!(matches("notes:///me%40h%2c%3D/{a%3Ab,c}%2C", "notes:///me@h,=/a:b,"));
        assert!(matches("x://%40h/%40", "x://%40h/@"));
        assert!(matches("**/%28a%29", "x://h/(a)"));
    }

    #[test]
    fn what_could_match_nothing_or_mislead_is_refused() {
        for (text, error) in [
            ("", GlobError::NoScheme("".into())),
            ("*", GlobError::NoScheme("*".into())),
            ("*.env", GlobError::NoScheme("*.env".into())),
            ("/etc/**", GlobError::NoScheme("/etc/**".into())),
            ("git://a/b**", GlobError::PartialSegment),
            ("git://a/***", GlobError::PartialSegment),
            ("{**,a}/b:c", GlobError::PartialSegment),
            ("git://a/../b", GlobError::DotSegment),
            ("git://a/%2E%2e/b", GlobError::DotSegment),
            ("git://me@a/b", GlobError::UserInfo),
            ("git://a/b#c", GlobError::Fragment),
            ("git://a/[a-z]", GlobError::Class),
            ("git://a\\b", GlobError::Backslash),
            ("git://a/100%", GlobError::Percent),
            ("git://a/%é1", GlobError::Percent),
            ("git://a/%+1", GlobError::Percent),
            ("git://a/%2a", GlobError::Escaped('*')),
            ("git://a/{b%2Cc,d}", GlobError::Escaped(',')),
            ("git://a/{b", GlobError::Braces),
            ("git://a/b}", GlobError::Braces),
            ("git://a/{b,{c,d}}", GlobError::Braces),
            (&"a".repeat(1025), GlobError::TooLong),
        ] {
            assert_eq!(text.parse::<UriGlob>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn the_longest_globs_compile() {
        for piece in ["/**/a", "?", "*a", "{a,b}", "{", "あ", "a,", "/"] {
            let longest = format!("a:{}", piece.repeat(1022 / piece.len()));
            let _ = longest.parse::<UriGlob>();
        }
        let choice = format!("a:{{{}}}", "?*,".repeat(330));
        assert!(choice.parse::<UriGlob>().is_ok());
    }
}
