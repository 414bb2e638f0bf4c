//! Completion of template variables from the server's names.

use crate::api::Client;
use crate::matchers::{escape_regex, is_label, quote, selector};
use crate::names::{Beginning, MAX_NAMES, label_names, list};
use mcp_provider::{Completion, Result};

/// Completes the name of a metric: with names that begin with the typed text; if there are none, with names that
/// contain it.
pub(crate) fn metric(client: &Client<'_>, typed: &str) -> Result<Completion> {
    let matching = |pattern: String| {
        let selector = format!("{{__name__=~{}}}", quote(&pattern));
        label_names(client, "__name__", Some(&selector), Completion::MAX_VALUES)
    };
    let typed = escape_regex(typed);
    if typed.is_empty() {
        return Ok(completion(label_names(client, "__name__", None, Completion::MAX_VALUES)?));
    }
    let names = matching(format!("{typed}.*"))?;
    Ok(completion(if names.items.is_empty() { matching(format!(".*{typed}.*"))? } else { names }))
}

/// Completes the name of a label.
pub(crate) fn label(client: &Client<'_>, metric: Option<&str>, typed: &str) -> Result<Completion> {
    let selector = metric.map(|metric| selector(metric, &[]));
    let parameters: Vec<_> = selector.iter().map(|selector| ("match[]", selector.as_str())).collect();
    let names = list::<String>(client, "labels", &parameters, MAX_NAMES)?;
    Ok(Completion::matching(names.items, typed))
}

/// Completes the last matcher of `match`: the name of its label, then its value.
pub(crate) fn matchers(client: &Client<'_>, metric: Option<&str>, typed: &str) -> Result<Completion> {
    let (before, last) = typed.rsplit_once(',').map_or(("", typed), |(before, last)| (before, last.trim_start()));
    let before = if before.is_empty() { String::new() } else { format!("{before},") };
    let Some((label, value)) = last.split_once('=') else {
        let mut labels = label(client, metric, last)?;
        labels.values.retain(|label| label != "__name__");
        labels.values.iter_mut().for_each(|label| *label = format!("{before}{label}=\""));
        return Ok(labels);
    };
    if !is_label(label) || value.starts_with('~') {
        return Ok(Completion::default());
    }
    let value = value.strip_prefix('"').unwrap_or(value);
    let name = metric.map_or_else(String::new, |metric| format!("__name__={},", quote(metric)));
    let pattern = if value.is_empty() { ".+".to_owned() } else { format!("{}.*", escape_regex(value)) };
    let selector = format!("{{{name}{label}=~{}}}", quote(&pattern));
    let mut values = completion(label_names(client, label, Some(&selector), Completion::MAX_VALUES)?);
    values.values.iter_mut().for_each(|value| *value = format!("{before}{label}={}", quote(value)));
    Ok(values)
}

/// Completes the name of a metric at the end of a query.
pub(crate) fn query(client: &Client<'_>, typed: &str) -> Result<Completion> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let start = typed.rfind(|c| !is_name(c)).map_or(0, |at| at.saturating_add(1));
    let (before, name) = typed.split_at_checked(start).unwrap_or((typed, ""));
    if name.is_empty() && !before.is_empty() {
        return Ok(Completion::default());
    }
    let mut names = metric(client, name)?;
    names.values.iter_mut().for_each(|name| *name = format!("{before}{name}"));
    Ok(names)
}

/// Completes a time with common values.
pub(crate) fn time(variable: &str, typed: &str) -> Completion {
    let values: &[&str] = match variable {
        "range" => &["15m", "1h", "6h", "1d", "7d", "30d"],
        "step" => &["15s", "1m", "5m", "1h", "1d"],
        "end" => &["now", "-1h", "-1d", "-7d"],
        _ => &[],
    };
    Completion::matching(values.iter().copied(), typed)
}

fn completion(names: Beginning<String>) -> Completion {
    let total = (!names.has_more).then(|| u32::try_from(names.items.len()).ok()).flatten();
    Completion { has_more: names.has_more, total, values: names.items }
}
