//! Warnings about a valid config.

mod admin_token;
mod anonymous_access;
mod certificate;
mod client_authorities;
mod files;
mod message;
mod permissions;
mod redundant_rules;
mod searches;
mod unlisted_globs;
mod unused_names;

use std::fmt;
use std::path::PathBuf;

pub use self::certificate::CertificateProblem;
pub use self::files::SensitiveFile;
pub use self::unlisted_globs::PlacedGlob;
use mcp_host_model::uri::{Mount, UriPattern};

use self::redundant_rules::Redundancy;
use super::exposure::ExposureError;
use super::http::HttpAddress;
use super::search::{self, SearchName};
use super::{Config, EndpointUrl, PluginName, PrincipalSelector, RuleLine, UriGlob};

/// A warning about a valid config. `Display` has the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The server may listen beyond loopback without authentication or without TLS: `http.insecure`.
    Insecure {
        /// The missing protections for the address of the server. `None` if `insecure` has no effect there.
        exposure: Option<ExposureError>,
    },
    /// The server listens at all addresses of the machine, and no host name is allowed as `Host` beyond loopback.
    NoHosts {
        /// The address.
        address: HttpAddress,
    },
    /// The administration listener has a port and no token, so no administrator can authenticate there.
    AdminWithoutToken {
        /// The address.
        address: HttpAddress,
        /// Whether clients may log in to the console: `admin.users`.
        users: bool,
    },
    /// A rule allows access without credentials, and other machines can reach the server.
    AnonymousAccess {
        /// The rule.
        rule: RuleRef,
        /// The name in the rule: `*`, `anonymous`, or a group with that member.
        name: String,
        /// A group for the access tokens of an issuer, as a replacement.
        token_group: Option<String>,
    },
    /// The server has an address, and no rule gives a client over HTTP access.
    NothingAllowed,
    /// No rule refers to a group of the config.
    UnusedGroup {
        /// The group's name.
        name: String,
    },
    /// No rule gives a principal of the config access.
    UnusedPrincipal {
        /// The principal's name.
        name: String,
    },
    /// Clients reject the certificate of the server, or will soon.
    Certificate {
        /// The problem.
        problem: CertificateProblem,
    },
    /// Client certificates of one authority chain to another one, too, so no client can authenticate with them.
    OverlappingClientAuthorities {
        /// The name of the authority.
        below: String,
        /// The name of the other.
        above: String,
    },
    /// `http.public-url` has another path than the endpoint, and no proxy is needed for TLS.
    PublicPath {
        /// The URL.
        url: EndpointUrl,
    },
    /// `search.embeddings` has no effect: the text of no plugin is sent.
    UnusedEmbeddings,
    /// Vectors are computed, but no search uses them: `search.embeddings.queries` is not set.
    EmbeddingsWithoutQueries,
    /// A glob of a plugin's `search` matches nothing below the plugin's mount.
    UnmatchedSearchGlob {
        /// The plugin.
        plugin: PluginName,
        /// `include` or `exclude`.
        key: &'static str,
        /// The glob as written.
        glob: String,
        /// The mount of the plugin.
        mount: String,
    },
    /// A saved search finds nothing below the URI in `within`: no mount serves it, or its plugin is not searched.
    UnsearchedPrefix {
        /// The name of the saved search.
        search: SearchName,
        /// The URI as written.
        within: String,
        /// The plugin that serves the URI and is not searched.
        plugin: Option<PluginName>,
        /// The most similar mount.
        nearest: Option<String>,
    },
    /// An argument of an upstream's program is a relative path of a file beside the config, but the program starts in
    /// `/`.
    RelativeArgument {
        /// The upstream.
        plugin: PluginName,
        /// The argument.
        argument: String,
        /// The file.
        file: PathBuf,
    },
    /// A plugin has read or write access to a sensitive file, or may replace a path of the config.
    GrantedFile {
        /// The plugin with the grant.
        plugin: PluginName,
        /// The file.
        file: PathBuf,
        /// The kind of the file.
        kind: SensitiveFile,
    },
    /// All users may write a file, or a directory in which they can replace it.
    WritableFile {
        /// The file or the directory.
        file: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// A file that holds a secret may be read by users other than its owner.
    ReadableSecret {
        /// The file: the config, or a file in the config.
        file: PathBuf,
        /// The permission bits.
        mode: u32,
        /// The argument of `chmod` that removes the permission.
        chmod: &'static str,
    },
    /// A rule is redundant: other rules have the same effect.
    RedundantRule {
        /// The rule.
        rule: RuleRef,
        /// One of the other rules.
        by: RuleRef,
    },
    /// Other rules deny everything that an `allow` glob matches.
    DeniedGlob {
        /// The rule.
        rule: RuleRef,
        /// The glob as written.
        glob: String,
        /// A rule that denies the glob.
        by: RuleRef,
        /// The glob of that rule.
        deny: String,
    },
    /// A rule or a group refers to a principal or a group of an issuer that is not in the config. An embedding
    /// application may authenticate it.
    UnknownIssuer {
        /// The rule or the group.
        by: String,
        /// The name of the principal or the group.
        name: String,
    },
    /// A glob of a rule has a slash, but the mount or resource that it probably means has `%2F`.
    EncodedSlash {
        /// The rule.
        rule: RuleRef,
        /// `allow` or `deny`.
        key: &'static str,
        /// The glob as written.
        glob: String,
        /// The mount, or the URI of the resource.
        found: String,
    },
    /// A glob of a rule matches nothing below any mount: the plugin may have been removed, or the mount misspelled.
    UnmatchedGlob {
        /// The rule.
        rule: RuleRef,
        /// `allow` or `deny`.
        key: &'static str,
        /// The glob as written.
        glob: String,
        /// The most similar mount.
        nearest: Option<String>,
    },
}

/// A `[[rule]]` in a warning: its number, counted from 1, and its line in the config file. `Display` gives
/// `rule 2 (line 14)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleRef {
    number: usize,
    line: RuleLine,
}

impl RuleRef {
    /// The rule with this index in the config.
    fn new(config: &Config, index: usize) -> Self {
        let line = config.rules.get(index).map(|rule| rule.line).unwrap_or_default();
        Self { number: index.saturating_add(1), line }
    }

    /// Returns the rule's number, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the rule's line in the config file, counted from 1; `None` for a rule that an application made.
    pub fn line(&self) -> Option<usize> {
        self.line.get()
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", self.number)?;
        match self.line() {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

/// A glob and its position.
#[derive(Clone, Copy)]
struct RuleGlob<'a> {
    /// The index of the rule.
    rule: usize,
    key: &'static str,
    glob: &'a UriGlob,
}

impl Config {
    /// Returns the warnings.
    pub fn warnings(&self) -> Vec<Warning> {
        self.warnings_beside(&[])
    }

    /// Returns the warnings for a host with further mounts.
    pub fn warnings_beside(&self, other_mounts: &[&Mount]) -> Vec<Warning> {
        let unknown = self.unknown_issuers().map(|(by, name)| Warning::UnknownIssuer { by, name: name.to_owned() });
        self.all_warnings(other_mounts).map(|warning| warning()).chain(unknown).collect()
    }

    /// Returns the first warnings, and the number of further ones, which are cheap to count.
    pub fn first_warnings(&self, limit: usize, other_mounts: &[&Mount]) -> (Vec<Warning>, usize) {
        let mut all = self.all_warnings(other_mounts);
        let first = all.by_ref().take(limit).map(|warning| warning()).collect();
        (first, all.count())
    }

    /// All warnings, computed lazily.
    fn all_warnings<'a>(
        &'a self,
        other_mounts: &'a [&Mount],
    ) -> impl Iterator<Item = Box<dyn FnOnce() -> Warning + 'a>> {
        let unmatched =
            self.unmatched_globs(other_mounts).map(move |glob| deferred(move || self.unmatched_glob(&glob)));
        let of_server =
            self.exposure_warnings().chain(self.anonymous_access_warnings()).chain(self.certificate_warnings());
        let of_server = of_server.chain(self.client_authority_warnings()).chain(self.admin_token_warning());
        let of_files = self.secret_warnings().chain(self.file_warnings());
        let of_rules = self.unused_name_warnings().chain(self.redundancy_warnings());
        let of_search = self.embedding_warnings().chain(self.search_glob_warnings());
        let of_search = of_search.chain(self.saved_search_warnings(other_mounts));
        let first = of_server.chain(of_search).chain(of_files).chain(self.argument_warnings()).chain(of_rules);
        first.map(|warning| deferred(move || warning)).chain(unmatched)
    }

    fn exposure_warnings(&self) -> impl Iterator<Item = Warning> {
        let exposure = self.server.http.and_then(|address| self.missing_protection(address));
        let insecure = self.http.insecure.then_some(Warning::Insecure { exposure });
        let beyond_loopback = self.server.http.filter(|address| !address.is_loopback());
        let unnamed = beyond_loopback.filter(|address| !self.has_public_host(*address));
        insecure.into_iter().chain(unnamed.map(|address| Warning::NoHosts { address }))
    }

    fn argument_warnings(&self) -> impl Iterator<Item = Warning> {
        let dir = self.file.as_deref().and_then(|file| std::path::absolute(file).ok()?.parent().map(PathBuf::from));
        dir.into_iter().flat_map(|dir| {
            self.programs().flat_map(move |(plugin, command)| {
                let relative: Vec<_> = command.relative_arguments(&dir).collect();
                relative.into_iter().map(|(argument, file)| Warning::RelativeArgument {
                    plugin: plugin.name.clone(),
                    argument: argument.to_owned(),
                    file,
                })
            })
        })
    }

    fn secret_warnings(&self) -> impl Iterator<Item = Warning> {
        self.secret_files.iter().filter_map(|file| {
            let permissions::Readable { mode, chmod } = permissions::readable_by_others(file)?;
            Some(Warning::ReadableSecret { file: file.clone(), mode, chmod })
        })
    }

    fn redundancy_warnings(&self) -> impl Iterator<Item = Warning> {
        redundant_rules::find(self).into_iter().map(|found| match found {
            Redundancy::Rule { rule, by } => {
                Warning::RedundantRule { rule: RuleRef::new(self, rule), by: RuleRef::new(self, by) }
            }
            Redundancy::Allow { rule, glob, by, deny } => {
                let [rule, by] = [rule, by].map(|index| RuleRef::new(self, index));
                Warning::DeniedGlob { rule, glob: glob.as_str().to_owned(), by, deny: deny.as_str().to_owned() }
            }
        })
    }

    /// The principals and groups with a slash in their names that no issuer and no client CA can authenticate.
    fn unknown_issuers(&self) -> impl Iterator<Item = (String, &str)> {
        let of_issuers = self.issuers.iter().map(|issuer| issuer.name.as_str());
        let known: Vec<_> = of_issuers.chain(self.http.client_ca.iter().map(|ca| ca.name.as_str())).collect();
        let is_unknown = move |name: &str| name.split_once('/').is_some_and(|(issuer, _)| !known.contains(&issuer));
        let of_rules = self.rules.iter().enumerate().flat_map(move |(index, rule)| {
            let principals = rule.principals.iter().map(PrincipalSelector::as_str);
            let names = principals.chain(rule.groups.iter().map(String::as_str));
            names.map(move |name| (RuleRef::new(self, index).to_string(), name))
        });
        let of_groups = self.groups.iter().flat_map(|group| {
            let names = group.principals.iter().chain(&group.groups);
            names.map(move |name| (format!("group `{}`", group.name), name.as_str()))
        });
        of_rules.chain(of_groups).filter(move |(_, name)| is_unknown(name))
    }

    /// The globs of all rules.
    fn rule_globs(&self) -> impl Iterator<Item = RuleGlob<'_>> {
        let rules = self.rules.iter().enumerate();
        rules.flat_map(|(rule, entry)| {
            let with = move |key| move |glob| RuleGlob { rule, key, glob };
            entry.allow.iter().map(with("allow")).chain(entry.deny.iter().map(with("deny")))
        })
    }

    /// Returns the globs that match nothing below any mount.
    fn unmatched_globs<'a>(&'a self, other_mounts: &'a [&Mount]) -> impl Iterator<Item = RuleGlob<'a>> {
        self.rule_globs().filter(|RuleGlob { glob, .. }| {
            let mut mounts = self.plugins.iter().map(|plugin| &plugin.mount).chain(other_mounts.iter().copied());
            let is_of_search = || search::SCHEMES.iter().any(|scheme| glob.normalized().starts_with(scheme));
            !(mounts.any(|mount| glob.reaches(&UriPattern::below(mount))) || (self.has_search() && is_of_search()))
        })
    }

    fn unmatched_glob(&self, &RuleGlob { rule, key, glob }: &RuleGlob<'_>) -> Warning {
        let (rule, text) = (RuleRef::new(self, rule), glob.as_str().to_owned());
        let mut mounts = self.plugins.iter().map(|plugin| &plugin.mount);
        match mounts.find(|mount| glob.reaches_decoded(mount)) {
            Some(mount) => Warning::EncodedSlash { rule, key, glob: text, found: mount.as_str().to_owned() },
            None => Warning::UnmatchedGlob { rule, key, glob: text, nearest: self.nearest_to(glob) },
        }
    }

    fn nearest_to(&self, glob: &UriGlob) -> Option<String> {
        self.nearest_mount(glob.normalized()).map(|mount| mount.as_str().to_owned())
    }
}

fn deferred<'a>(warning: impl FnOnce() -> Warning + 'a) -> Box<dyn FnOnce() -> Warning + 'a> {
    Box::new(warning)
}

#[cfg(test)]
mod tests {
    use super::super::{Plugin, PrincipalSelector, Rule};
    use super::*;

    #[test]
    fn a_glob_that_matches_below_no_mount_is_named_with_the_nearest() {
        let plugin = |name: &str, mount: &str| Plugin::new(name.parse().unwrap(), "a.wasm", mount.parse().unwrap());
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.allow = vec!["git://linux/**".parse().unwrap(), "**/.env".parse().unwrap()];
        rule.deny = vec!["gti://linux/secrets/**".parse().unwrap()];
        let config = Config::new().plugin(plugin("a", "git://linux/")).unwrap();
        let config = config.plugin(plugin("b", "notes:///")).unwrap().rule(Rule::new([])).rule(rule);
        let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            ["`deny` of rule 2 has `gti://linux/secrets/**`, which matches nothing below any mount; the \
              most similar mount is `git://linux/`"]
        );
        assert_eq!(config.first_warnings(1, &[]), (config.warnings(), 0));
        let native: Mount = "gti://linux/".parse().unwrap();
        assert_eq!(config.first_warnings(1, &[&native]), (Vec::new(), 0), "native plugins have mounts, too");
        assert_eq!(config.first_warnings(0, &[]), (Vec::new(), 1));
    }

    #[test]
    fn a_name_of_an_issuer_that_is_not_declared_is_warned_of() {
        let url: crate::EndpointUrl = "https://login.example.com".parse().unwrap();
        let jwks = crate::issuer::Jwks::Url(url.clone());
        let named = |name: &str| PrincipalSelector::Named(name.to_owned());
        let mut rule = Rule::new(["corp/ada", "crop/ada", "local"].map(named));
        rule.groups.push("users/staff".to_owned());
        let mut config = Config::new().rule(rule);
        config.issuers.push(crate::issuer::Issuer::new("corp".parse().unwrap(), url, jwks));
        let unknown: Vec<_> = config.unknown_issuers().map(|(_, name)| name.to_owned()).collect();
        assert_eq!(unknown, ["crop/ada", "users/staff"]);
        assert_eq!(config.warnings().len(), 2);
        assert_eq!(config.first_warnings(9, &[]).0, [], "the log does not warn of those of an application");
    }

    /// The warnings about a server at this address.
    fn warnings_at(address: &str, change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::new();
        config.server.http = Some(address.parse().unwrap());
        let mut rule = Rule::new([PrincipalSelector::Named("corp/ada".to_owned())]);
        rule.allow.push("**".parse().unwrap());
        config.rules.push(rule);
        config.plugins.add(Plugin::new("a".parse().unwrap(), "a.wasm", "a:///".parse().unwrap())).unwrap();
        let url: crate::EndpointUrl = "https://login.example.com".parse().unwrap();
        let jwks = crate::issuer::Jwks::Url(url.clone());
        config.issuers.push(crate::issuer::Issuer::new("corp".parse().unwrap(), url, jwks));
        change(&mut config);
        config.warnings().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_insecure_server_is_warned_of_with_what_it_lacks() {
        let insecure = warnings_at("192.168.1.2:80", |config| {
            config.http.insecure = true;
            config.issuers.clear();
        });
        assert_eq!(insecure.len(), 2, "and the rule names an issuer that is not there: {insecure:?}");
        assert!(
            insecure[0].contains("neither authentication nor TLS") && insecure[0].contains("`http.insecure` permits")
        );
        let idle = warnings_at("127.0.0.1:80", |config| config.http.insecure = true);
        assert_eq!(idle, ["`http.insecure` has no effect at the address of the config; remove it"]);
    }

    #[test]
    fn a_glob_with_a_slash_for_an_encoded_one_is_told_where_it_is_wrong() {
        let mut config = Config::new();
        let plugin = Plugin::new("a".parse().unwrap(), "a.wasm", "files://nas/a%2fb/".parse().unwrap());
        config.plugins.add(plugin).unwrap();
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.allow = vec!["files://nas/a%2fb/c/**".parse().unwrap(), "files://nas/a/b/**".parse().unwrap()];
        config.rules.push(rule);
        let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                "`allow` of rule 1 has `files://nas/a/b/**`, which matches nothing that is listed, and would match `files://nas/a%2Fb/` if \
              that had a slash for `%2F`: write `%2F` in the glob, too"
            ]
        );
    }

    #[test]
    fn a_wildcard_address_needs_a_name() {
        let unnamed = warnings_at("0.0.0.0:80", |_| {});
        assert!(unnamed[0].contains("`http.hosts`"), "{unnamed:?}");
        let named = warnings_at("0.0.0.0:80", |config| config.http.hosts = vec!["mcp.example.com".parse().unwrap()]);
        assert!(named.is_empty(), "{named:?}");
        assert!(warnings_at("192.168.1.2:80", |_| {}).is_empty(), "its address is a name");
    }
}
