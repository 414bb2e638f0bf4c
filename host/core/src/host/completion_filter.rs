//! Which completions of a template's variables a principal may see, and whether the provider may be called for them at all.
//!
//! A value tells that a resource exists to which the template expands with it. So the template is expanded with each value and with the
//! variables that the client has given. The rules decide on that URI if it is whole, and else on all that it may become. Queries are no
//! part of it, as rules are matched without them.
//!
//! | in the path, the variables without a value stand | the value is offered if |
//! |---|---|
//! | nowhere | the principal may read the URI |
//! | before the value | the principal may read the URI whatever they are |
//! | after the value, in segments of their own | the principal may read the URI up to there (`blob/main/`), and some URI below it |
//! | after the value, in its segment | the principal may read the URI up to the end of that segment, whatever they are |
//!
//! A variable after the value narrows what is offered, and nothing else: the value has to be offered without its value, too. A
//! provider may not look at it, so that `.env` of `log/{rev}{/name}` with `name = "b"` tells of `log/.env`, although `log/.env/b` is
//! not denied.
//!
//! A variable that is in the query only, such as `path` of `log/{rev}{?path}`, may have the name of any resource as its value. So the
//! value is offered if, besides, the principal may read every URI below the mount that ends with it, as segments of their own: with
//! `deny = ["**/.env"]` `.env` is not offered, and with `deny = ["git://x/*/main/secret/**"]` no value is, as each may be in that folder.
//!
//! What these rules cannot decide is not offered, and neither is what leads to a URI with dot segments: with `path = "../x"` the URI of each
//! `rev` is that of `blob/x`. With `deny = ["**/.env"]` all branches are offered for `rev` of `blob/{rev}/{+path}`,
//! and `.env` is not offered for `path`, with `rev` or without it. With `allow = ["git://x/blob/main/**"]` only `main` is offered for
//! `rev`, and without `rev` nothing for `path`: the names may come from another branch. A rule that denies to complete a URI
//! counts like one that denies to read it.
//!
//! Unless the principal may read everything below the mount, the number of values is unknown, and there are more if there is no
//! room for more: what was filtered tells nothing.
//!
//! The provider gets what the client has given only if the principal may read some URI that the template could expand to; otherwise
//! nothing is offered, without a call. While it is not certain that the principal may read all of them, a failure of the provider
//! may be about one that it may not: that it is not found, denied or invalid is an answer without values, and the reason of
//! another failure is not passed on.

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

/// Bytes of a known value that are retained for the expansion of a template.
const MAX_VALUE_LEN: usize = 65_536;
/// The digits of the number of a gap in an expansion.
const GAP_DIGITS: usize = 2;
/// What a value that may be a path is encoded in.
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
    /// The values of `context` for variables that do not stand only after the variable to complete.
    leading_context: BTreeMap<String, String>,
    /// The number of variables without a value in the path before the last place of the variable to complete; none, if that is in the
    /// query only.
    leading: Option<usize>,
    /// Whether the principal may read everything below the mount.
    is_unrestricted: bool,
    /// Whether the principal may read everything that the template could expand to.
    tells_failures: bool,
}

/// A template that is expanded in part: texts, and the gaps of variables without a value.
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
    /// The filter for one request; none if nothing may be offered, so that the provider is not called.
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
        // A failure about a value of the query may name what the value does.
        filter.tells_failures = filter.leading.is_some()
            && filter.allows_all(&asked)
            && asked_without_trailing.is_some_and(|asked| filter.allows_all(&asked.pattern()));
        Some(filter)
    }

    /// Whether the principal may read everything below the mount, so that no value is hidden.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Returns what the principal may know of a failure of the provider.
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

    /// Whether the principal may read every URI below the mount that ends with that path.
    fn is_name_visible(&self, path: &str) -> bool {
        let mount = self.mount.as_str();
        let uri = format!("{mount}{}", utf8_percent_encode(path, NO_PATH_CHARACTERS));
        let Ok(routed) = self.generation.router.route(&uri) else { return false };
        let Some(path) = routed.uri.as_str().strip_prefix(mount) else { return false };
        let anywhere = UriPattern::text(mount).gap(Gap::Any).and_text("/").and_text(path);
        self.allows_all(&UriPattern::text(routed.uri.as_str())) && self.allows_all(&anywhere)
    }

    /// Decides on an expansion with a value, by the table above.
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
                // With a `{/name}` the URI without the slash may be what the value was found by.
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

    /// Expands the template with those variables and a value for the one to complete, or else with a value that begins with `typed`.
    /// None if it is no URI below its mount, or too long.
    fn expand(&self, context: &BTreeMap<String, String>, value: Option<&str>, typed: &str) -> Option<Partial> {
        let values = self.values(context, value);
        // A text that the expansion does not have, and that its normal form keeps, stands for the gaps.
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
        // A dot segment would take a part of the URI away that the provider has values for.
        let mut segments = expanded.split('?').next()?.split('/');
        if segments.any(|segment| matches!(segment, "." | "..")) {
            return None;
        }
        let routed = self.generation.router.route(&expanded).ok()?;
        let uri = routed.uri.as_str().split('?').next()?;
        Partial::parse(uri, &stem, &gaps)
    }
}

/// Returns a text of letters and digits that is not part of a lower-case text, in linear time: a client may write many candidates.
fn unused_stem(text: &str) -> Option<String> {
    let numbers = text.split("unset").skip(1).filter_map(|rest| rest.split_once('x')?.0.parse().ok());
    let used: BTreeSet<u32> = numbers.collect();
    let free = (0_u32..).find(|number| !used.contains(number))?;
    Some(format!("unset{free}x"))
}

/// The number of variables without a value in the path of a template before the last place of `variable`; none, if that is in the
/// query only.
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

/// The variables that stand in the path of a template after the last place of `variable`, and nowhere before; none, if it is in the query.
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
    /// Parses an expansion in which `stem` and a number stand for each gap.
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
