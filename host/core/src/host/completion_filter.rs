//! The completions of a template's variable that a principal may see, and whether the provider may be called for them
//! at all.
//!
//! A value reveals that the resource exists to which the template expands with it. So the template is expanded with
//! each value and with the client's other variables. The rules decide on that URI if it is complete, else on all URIs
//! that it may become. Queries are omitted, because rules are matched without them.
//!
//! | in the path, the variables without a value stand | the value is offered if |
//! |---|---|
//! | nowhere | the principal may read the URI |
//! | before the value | the principal may read the URI whatever they are |
//! | after the value, in segments of their own | the principal may read the URI up to there (`blob/main/`), and some URI below it |
//! | after the value, in its segment | the principal may read the URI up to the end of that segment, whatever they are |
//!
//! A variable after the value can only narrow the offer: the value must also be offered without that variable's value.
//! A provider may ignore the variable, so `.env` of `log/{rev}{/name}` with `name = "b"` would reveal `log/.env`,
//! although `log/.env/b` is not denied.
//!
//! A variable in the query only, such as `path` of `log/{rev}{?path}`, may have the name of any resource as its value.
//! So the value is offered only if the principal may also read every URI below the mount that ends with it, in whole
//! segments: with `deny = ["**/.env"]`, `.env` is not offered, and with `deny = ["git://x/*/main/secret/**"]` no value
//! is offered, because each may be in that folder.
//!
//! A value is not offered if these rules cannot decide, or if its URI has dot segments: with `path = "../x"` the URI of
//! each `rev` is the URI of `blob/x`. With `deny = ["**/.env"]`, all branches are offered for `rev` of
//! `blob/{rev}/{+path}`, and `.env` is not offered for `path`, with `rev` or without it. With
//! `allow = ["git://x/blob/main/**"]` only `main` is offered for `rev`, and without `rev` nothing for `path`: the names
//! may come from another branch. A rule that denies completing a URI counts like a rule that denies reading it.
//!
//! Unless the principal may read everything below the mount, the response has no total. The hidden values are removed
//! before the others are truncated to a page, and `hasMore` depends on the visible values only, so hidden ones reveal
//! nothing. The exception is a completion with more values than a provider offers (`Completion::MAX_OFFERED`): visible
//! ones may be missing, and `hasMore` is true.
//!
//! The provider is called with the client's values only if the principal may read some URI that the template could
//! expand to. If not, the response has no values, and there is no call. Unless the principal may certainly read all of
//! these URIs, a failure of the provider may concern one that the principal may not read: the failures not found,
//! denied and invalid become a response without values, and the reason of any other failure is hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_host_base::text;
use mcp_host_config::Operation;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::resource::{Argument, Completion};
use mcp_host_model::uri::{Gap, Mount, UriPattern, UriTemplate};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::generation::Generation;
use crate::access::Policy;

/// The maximum length of a known value in the expansion of a template, in bytes.
const MAX_VALUE_LEN: usize = 65_536;
/// The number of digits in the number of a gap in an expansion.
const GAP_DIGITS: usize = 2;
/// The characters that are percent-encoded in a value that may be a path.
const NO_PATH_CHARACTERS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Filters the completion values of one variable of a template for one principal.
pub(super) struct CompletionFilter {
    generation: Arc<Generation>,
    policy: Arc<Policy>,
    mount: Mount,
    template: UriTemplate,
    /// The variable to complete.
    variable: String,
    /// The variables that have values.
    context: BTreeMap<String, String>,
    /// The values of `context` except for variables that only follow the variable to complete.
    leading_context: BTreeMap<String, String>,
    /// The number of variables without a value in the path before the last occurrence of the variable to complete; none
    /// if it occurs in the query only.
    leading: Option<usize>,
    /// Whether the principal may read everything below the mount.
    is_unrestricted: bool,
    /// Whether the principal may read everything that the template could expand to, so that failures are visible.
    tells_failures: bool,
}

/// A partially expanded template: texts, and gaps for variables without a value.
#[derive(Debug, Default)]
struct Partial {
    parts: Vec<PartialPart>,
}

#[derive(Clone, Debug)]
enum PartialPart {
    Text(String),
    Unset(UnsetGap),
}

/// The place of a variable without a value.
#[derive(Clone, Copy, Debug)]
struct UnsetGap {
    /// Its number in the template.
    index: usize,
    gap: Gap,
    begins_with_slash: bool,
}

impl CompletionFilter {
    /// Creates the filter for one request. None if nothing may be offered, so that the provider is not called.
    pub(super) fn new(
        generation: Arc<Generation>,
        policy: Arc<Policy>,
        mount: &Mount,
        template: &UriTemplate,
        argument: &Argument,
        context: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let is_unrestricted = policy.allows_all_below(Operation::Read, mount)
            && policy.denies_none(Operation::Complete, &UriPattern::below(mount));
        let context: BTreeMap<_, _> =
            context.iter().map(|(name, value)| (name.clone(), text::prefix(value, MAX_VALUE_LEN).to_owned())).collect();
        let (template, variable) = (template.clone(), argument.name.clone());
        let trailing = trailing_variables(&template, &variable);
        let leading_context = context.iter().filter(|(name, _)| !trailing.contains(*name));
        let mut filter = Self {
            generation,
            policy,
            mount: mount.clone(),
            leading: leading_gaps(&template, &variable, &context),
            leading_context: leading_context.map(|(name, value)| (name.clone(), value.clone())).collect(),
            template,
            variable,
            context,
            is_unrestricted,
            tells_failures: is_unrestricted,
        };
        if is_unrestricted {
            return Some(filter);
        }
        if !filter.template.variables().any(|variable| variable == filter.variable) {
            return None;
        }
        let asked = filter.expand(&filter.context, None, &argument.value)?.pattern();
        if !filter.policy.may_allow(Operation::Read, &asked) {
            return None;
        }
        let asked_without_trailing = filter.expand(&filter.leading_context, None, &argument.value);
        // A failure about a value in the query may name the resource that the value names.
        filter.tells_failures = filter.leading.is_some()
            && filter.allows_all(&asked)
            && asked_without_trailing.is_some_and(|asked| filter.allows_all(&asked.pattern()));
        Some(filter)
    }

    /// Whether the principal may read everything below the mount, so that no value is hidden.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Returns the part of a provider's failure that the principal may see.
    pub(super) fn visible_failure(tells_failures: bool, fault: Fault) -> Result<Completion, Fault> {
        match fault {
            fault if tells_failures => Err(fault),
            Fault::NotFound | Fault::InvalidRequest(_) | Fault::Denied(_) => Ok(Completion::default()),
            Fault::Unavailable { retry_after, .. } => {
                Err(Fault::Unavailable { reason: "it cannot complete this at the moment".to_owned(), retry_after })
            }
            fault => Err(fault),
        }
    }

    /// Whether the principal may know why the provider failed.
    pub(super) fn tells_failures(&self) -> bool {
        self.tells_failures
    }

    /// Returns whether the principal may see a value.
    pub(super) fn is_value_visible(&self, value: &str) -> bool {
        if self.is_unrestricted {
            return self.template.expand(self.values(&self.context, Some(value))).is_some();
        }
        let is_visible_with =
            |context| self.expand(context, Some(value), "").is_some_and(|partial| self.is_visible(&partial));
        let has_trailing = self.leading_context.len() < self.context.len();
        is_visible_with(&self.context)
            && (!has_trailing || is_visible_with(&self.leading_context))
            && (self.leading.is_some() || self.is_name_visible(value))
    }

    /// Returns whether the principal may read every URI below the mount that ends with this path.
    fn is_name_visible(&self, path: &str) -> bool {
        let mount = self.mount.as_str();
        let uri = format!("{mount}{}", utf8_percent_encode(path, NO_PATH_CHARACTERS));
        let Ok(routed) = self.generation.router.route(&uri) else { return false };
        let Some(path) = routed.uri.as_str().strip_prefix(mount) else { return false };
        let anywhere = UriPattern::text(mount).gap(Gap::Any).and_text("/").and_text(path);
        self.allows_all(&UriPattern::text(routed.uri.as_str())) && self.allows_all(&anywhere)
    }

    /// Decides on an expansion with a value, according to the table above.
    fn is_visible(&self, partial: &Partial) -> bool {
        let trailing = partial.parts.iter().position(|part| match part {
            PartialPart::Unset(unset) => self.leading.is_some_and(|leading| unset.index >= leading),
            PartialPart::Text(_) => false,
        });
        let Some((known, rest)) = trailing.and_then(|at| partial.parts.split_at_checked(at)) else {
            return self.allows_all(&partial.pattern());
        };
        let begins_with_slash = matches!(rest.first(), Some(PartialPart::Unset(unset)) if unset.begins_with_slash);
        match known.last() {
            Some(PartialPart::Text(text)) if begins_with_slash || text.ends_with('/') => {
                let with_slash =
                    to_pattern(known.iter().chain(&begins_with_slash.then(|| PartialPart::Text("/".into()))));
                let without = with_slash.clone().without_last_slash();
                // With `{/name}`, the provider may have found the value by the URI without the slash.
                let is_whole_allowed = match begins_with_slash {
                    true => self.allows_all(&without),
                    false => self.policy.denies_none(Operation::Read, &without),
                };
                is_whole_allowed
                    && self.allows_all(&with_slash)
                    && self.policy.may_allow(Operation::Read, &partial.pattern())
            }
            _ => self.allows_all(&to_pattern(known.iter().chain(&to_end_of_segment(rest)))),
        }
    }

    fn allows_all(&self, pattern: &UriPattern) -> bool {
        self.policy.allows_all(Operation::Read, pattern) && self.policy.denies_none(Operation::Complete, pattern)
    }

    fn values<'a>(
        &'a self,
        context: &'a BTreeMap<String, String>,
        value: Option<&'a str>,
    ) -> BTreeMap<&'a str, &'a str> {
        let known = context.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        known.chain(value.map(|value| (self.variable.as_str(), value))).collect()
    }

    /// Expands the template with these variables, and with a value for the variable to complete, or else with any value
    /// that begins with `typed`. None if the result is not a URI below the mount, or too long.
    fn expand(&self, context: &BTreeMap<String, String>, value: Option<&str>, typed: &str) -> Option<Partial> {
        let values = self.values(context, value);
        // A marker for the gaps: the expansion does not contain it, and the normal form keeps it.
        let plain = self.template.expand_with(&values, |unset| unset.beginning(typed).unwrap_or_default())?;
        let plain = plain.to_ascii_lowercase();
        let stem = unused_stem(&plain)?;
        let mut gaps = Vec::new();
        let expanded = self.template.expand_with(&values, |unset| {
            let is_argument = value.is_none() && unset.name == self.variable;
            let beginning = if is_argument { unset.beginning(typed).unwrap_or_default() } else { String::new() };
            let index = gaps.len();
            gaps.push(UnsetGap {
                index,
                gap: if unset.has_slashes() { Gap::Any } else { Gap::Segment },
                begins_with_slash: unset.begins_with_slash(),
            });
            format!("{beginning}{stem}{index:0GAP_DIGITS$}")
        })?;
        // A dot segment would remove a part of the URI that the provider has values for.
        let mut segments = expanded.split('?').next()?.split('/');
        if segments.any(|segment| matches!(segment, "." | "..")) {
            return None;
        }
        let routed = self.generation.router.route(&expanded).ok()?;
        let uri = routed.uri.as_str().split('?').next()?;
        Partial::parse(uri, &stem, &gaps)
    }
}

/// Returns a marker of letters and digits that a lower-case text does not contain, in linear time: a client may write
/// many candidates.
fn unused_stem(text: &str) -> Option<String> {
    let numbers = text.split("unset").skip(1).filter_map(|rest| rest.split_once('x')?.0.parse().ok());
    let used: BTreeSet<u32> = numbers.collect();
    let free = (0_u32..).find(|number| !used.contains(number))?;
    Some(format!("unset{free}x"))
}

/// The number of variables without a value in the path of a template before the last occurrence of `variable`; none if
/// it occurs in the query only.
fn leading_gaps(template: &UriTemplate, variable: &str, context: &BTreeMap<String, String>) -> Option<usize> {
    let values = context.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (mut count, mut leading) = (0_usize, None);
    let _ = template.expand_with(&values, |unset| {
        match unset.name == variable {
            true => leading = Some(count),
            false => count = count.saturating_add(1),
        }
        String::new()
    });
    leading
}

/// The variables that only occur in the path of a template after the last occurrence of `variable`; none if it occurs
/// in the query.
fn trailing_variables(template: &UriTemplate, variable: &str) -> BTreeSet<String> {
    let mut names = Vec::new();
    let _ = template.expand_with(&BTreeMap::new(), |unset| {
        names.push(unset.name.to_owned());
        String::new()
    });
    let Some(last) = names.iter().rposition(|name| name == variable) else { return BTreeSet::new() };
    let after = names.split_off(last);
    after.into_iter().filter(|name| name != variable && !names.contains(name)).collect()
}

impl Partial {
    /// Parses an expansion in which a gap is `stem` and a number.
    fn parse(uri: &str, stem: &str, gaps: &[UnsetGap]) -> Option<Self> {
        let mut parts = Vec::new();
        let mut pieces = uri.split(stem);
        parts.extend(pieces.next().map(|text| PartialPart::Text(text.to_owned())));
        for piece in pieces {
            let (number, text) = piece.split_at_checked(GAP_DIGITS)?;
            parts.push(PartialPart::Unset(*gaps.get(number.parse::<usize>().ok()?)?));
            parts.push(PartialPart::Text(text.to_owned()));
        }
        Some(Self { parts })
    }

    fn pattern(&self) -> UriPattern {
        to_pattern(&self.parts)
    }
}

fn to_pattern<'a>(parts: impl IntoIterator<Item = &'a PartialPart>) -> UriPattern {
    parts.into_iter().fold(UriPattern::default(), |pattern, part| match part {
        PartialPart::Text(text) => pattern.and_text(text),
        PartialPart::Unset(unset) => pattern.gap(unset.gap),
    })
}

/// The parts up to the end of the first segment.
fn to_end_of_segment(parts: &[PartialPart]) -> Vec<PartialPart> {
    let mut segment = Vec::new();
    for part in parts {
        match part {
            PartialPart::Text(text) => match text.split_once('/') {
                Some((before, _)) => {
                    segment.push(PartialPart::Text(format!("{before}/")));
                    return segment;
                }
                None => segment.push(part.clone()),
            },
            PartialPart::Unset(_) => segment.push(part.clone()),
        }
    }
    segment
}
