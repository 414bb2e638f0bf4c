//! Checks of templates: they are valid, their variables can be completed, and they expand to readable resources.

use std::collections::HashSet;

use mcp_host_base::text::Excerpt;
use mcp_host_engine::function::{Complete, ListTemplates, Read, Stat};
use mcp_host_model::provider::{Template, TemplatePage};
use mcp_host_model::resource::{Argument, Completion};
use mcp_host_model::uri::{UriTemplate, is_path_delimiter};

use super::session::NoAnswer;
use super::{Check, Session, advice};

/// The maximum number of requested pages of templates.
const MAX_TEMPLATE_PAGES: usize = 100;
/// The maximum number of expanded templates.
const MAX_EXPANDED: usize = 20;
/// The maximum number of tried values of a variable.
const MAX_VALUES: usize = 5;
/// The maximum number of expansions of a template that are read.
const MAX_READ: usize = 20;
/// A template that no provider has.
const FOREIGN_TEMPLATE: &str = "mcp-host-test/{no-such-template}";
/// A variable that no template has.
const FOREIGN_VARIABLE: &str = "mcp_host_test_no_such_variable";

pub(super) async fn check(session: &mut Session<'_>) {
    let checks = [Check::Templates, Check::Completion];
    let templates = match list(session).await {
        Ok(templates) => templates,
        Err(ListingFailed) => {
            return session.report.skip_after(Check::ListingEnds, &checks, "the listing of templates fails");
        }
    };
    if templates.is_empty() {
        return checks.into_iter().for_each(|check| session.report.skip(check, "it has no templates"));
    }
    if templates.len() > MAX_EXPANDED {
        let message = format!("of {} templates, the first {MAX_EXPANDED} were checked", templates.len());
        session.report.note(Check::Templates, message);
    }
    let mut seen = HashSet::new();
    for template in &templates {
        if !seen.insert(template.path_template.as_str()) {
            let message = format!("the template `{}` is listed more than once", Excerpt(&template.path_template));
            session.report.problem_with(Check::ListingUnique, message, advice::DUPLICATE_TEMPLATE);
        }
    }
    for template in templates.iter().take(MAX_EXPANDED) {
        session.check_template(template);
        match session.mount().compose_template(&template.path_template) {
            Ok(composed) => expand(session, template, &composed).await,
            Err(error) => {
                let path = Excerpt(&template.path_template);
                let message = format!("the template `{path}`: {error}");
                session.report.problem_with(Check::Paths, message, advice::INVALID_TEMPLATE);
            }
        }
    }
    check_unknown(session, &templates).await;
}

/// The first page of templates is missing, which is reported.
struct ListingFailed;

/// Returns the templates of all pages, or of those before a page that fails.
async fn list(session: &mut Session<'_>) -> Result<Vec<Template>, ListingFailed> {
    let (mut templates, mut cursor, mut seen) = (Vec::new(), None::<String>, HashSet::new());
    for _ in 0..MAX_TEMPLATE_PAGES {
        let function = ListTemplates { cursor: cursor.as_deref().map(Into::into) };
        let page = session.call("list-templates", function).await;
        let TemplatePage { templates: more, next_cursor } = match page {
            Ok(page) => page,
            Err(none) => {
                none.report(session, Check::ListingEnds, "the listing of templates");
                return if templates.is_empty() { Err(ListingFailed) } else { Ok(templates) };
            }
        };
        templates.extend(more);
        let Some(next) = next_cursor else { return Ok(templates) };
        if !seen.insert(next.clone()) {
            let next = Excerpt(&next);
            let message = format!("the templates lead back to an earlier page: the cursor `{next}` comes twice");
            session.report.problem(Check::ListingEnds, message);
            return Ok(templates);
        }
        cursor = Some(next);
    }
    let message = format!("there are more than {MAX_TEMPLATE_PAGES} pages of templates");
    session.report.problem(Check::ListingEnds, message);
    Ok(templates)
}

/// Completes the variables in order, and reads expansions of the template.
async fn expand(session: &mut Session<'_>, template: &Template, composed: &UriTemplate) {
    let path_template = Excerpt(&template.path_template);
    // A value of each variable, and further ones of each.
    let (mut known, mut others) = (Vec::<Argument>::new(), Vec::<(usize, String)>::new());
    let mut without_values = Vec::new();
    for variable in composed.variables() {
        let completion = match complete(session, template, variable, "", &known).await {
            Ok(completion) => completion,
            Err(none) => {
                let what = format!("completing `{}` of `{path_template}`", Excerpt(variable));
                return none.report_with(session, Check::Completion, &what, advice::COMPLETION_REFUSED);
            }
        };
        check_bounds(session, template, variable, &completion);
        let telling = completion.values.iter().find(|value| value.contains(is_path_delimiter));
        match telling.or(completion.values.first()) {
            Some(value) => {
                let further = completion.values.iter().take(MAX_VALUES).filter(|other| *other != value);
                others.extend(further.map(|other| (known.len(), other.clone())));
                known.push(Argument::new(variable, value));
            }
            None if is_optional(&template.path_template, variable) => {}
            None => without_values.push(variable),
        }
    }
    if !without_values.is_empty() {
        let message =
            format!("`{path_template}` was not read: there are no completions for {}", without_values.join(", "));
        return session.report.note(Check::Templates, message);
    }
    let mut candidates: Vec<Vec<Argument>> = Vec::new();
    let required = known.iter().filter(|argument| !is_optional(&template.path_template, &argument.name));
    candidates.push(required.cloned().collect());
    candidates.push(known.clone());
    // The last variable comes first: its values fit the values of the others.
    for (variable, value) in others.into_iter().rev() {
        let mut values = known.clone();
        if let Some(other) = values.get_mut(variable) {
            other.value = value;
        }
        candidates.push(values);
    }
    candidates.dedup();
    candidates.truncate(MAX_READ);
    read(session, template, composed, &candidates).await;
}

/// Reads the expansions until one fails. One of them has to have contents: not each combination of values has.
async fn read(session: &mut Session<'_>, template: &Template, composed: &UriTemplate, candidates: &[Vec<Argument>]) {
    let (mut refused, mut is_read) = (None, false);
    for values in candidates {
        let pairs = values.iter().map(|argument| (argument.name.as_str(), argument.value.as_str()));
        let Some(uri) = composed.expand(pairs) else { continue };
        let Some(path) = uri.strip_prefix(session.mount().as_str()) else { continue };
        let Some(path) = session.check_path("a template's expansion", path) else { return };
        let what = format!("reading `{}`, to which `{}` expands", Excerpt(&path), Excerpt(&template.path_template));
        match session.call(&what, Read { path: path.as_str().into() }).await {
            Ok(contents) => {
                session.check_contents(&path, &contents, None);
                if !is_read {
                    check_entry(session, template, &path).await;
                }
                is_read = true;
            }
            Err(NoAnswer::Refused(fault)) => {
                refused.get_or_insert_with(|| format!("{what}: {fault}"));
            }
            Err(none) => return none.report(session, Check::Templates, &what),
        }
    }
    if let Some(first) = refused.filter(|_| !is_read) {
        session.report.problem(Check::Templates, format!("no completion can be read; {first}"));
    }
}

/// Checks that `stat` returns the entry of the expanded path: a host subscribes only to such paths.
async fn check_entry(session: &mut Session<'_>, template: &Template, path: &str) {
    let what = format!("`stat` of `{}`, to which `{}` expands", Excerpt(path), Excerpt(&template.path_template));
    match session.call(&what, Stat { path: path.into() }).await {
        Ok(entry) => {
            let found = session.check_path("the path of `stat`", &entry.path);
            if let Some(found) = found.filter(|found| found != path) {
                let found = Excerpt(&found);
                let message = format!("{what}, returns the entry of `{found}`: a client cannot subscribe to it");
                session.report.problem_with(Check::Templates, message, advice::STAT_OF_TEMPLATE);
            }
        }
        Err(none) => none.report_with(session, Check::Templates, &what, advice::STAT_OF_TEMPLATE),
    }
}

async fn complete(
    session: &mut Session<'_>,
    template: &Template,
    variable: &str,
    typed: &str,
    known: &[Argument],
) -> Result<Completion, NoAnswer> {
    let (template, argument) = (template.path_template.clone(), Argument::new(variable, typed));
    session.call("complete", Complete { template, argument, context: known.to_vec() }).await
}

fn check_bounds(session: &mut Session<'_>, template: &Template, variable: &str, completion: &Completion) {
    let (path, variable) = (Excerpt(&template.path_template), Excerpt(variable));
    let found = completion.values.len();
    if found > Completion::MAX_OFFERED {
        let max = Completion::MAX_OFFERED;
        session.report.problem(
            Check::Completion,
            format!("`{variable}` of `{path}` has {found} completions at once; the host expects at most {max}"),
        );
    }
    let mut seen = HashSet::new();
    if let Some(twice) = completion.values.iter().find(|value| !seen.insert(value.as_str())) {
        let message = format!("`{variable}` of `{path}` has the completion `{}` more than once", Excerpt(twice));
        session.report.problem_with(Check::Completion, message, advice::DUPLICATE_COMPLETION);
    }
    if let Some(total) = completion.total
        && usize::try_from(total).is_ok_and(|total| total < found)
    {
        session.report.problem_with(
            Check::Completion,
            format!("`{variable}` of `{path}` has a `total` of {total} and {found} values"),
            advice::COMPLETION_TOTAL,
        );
    }
}

/// Whether a variable occurs only in a query expression, `{?x}` or `{&x}`, so that it is optional.
fn is_optional(template: &str, variable: &str) -> bool {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let names = |expression: &str| -> Vec<String> {
        let list = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        list.split(',').map(|name| name.split([':', '*']).next().unwrap_or_default().to_owned()).collect()
    };
    let mut containing = expressions.filter(|expression| names(expression).iter().any(|name| name == variable));
    containing.all(|expression| expression.starts_with(['?', '&']))
}

async fn check_unknown(session: &mut Session<'_>, templates: &[Template]) {
    let unknown = Template::new(FOREIGN_TEMPLATE, "");
    let first = templates.first().unwrap_or(&unknown);
    for (what, template, variable) in
        [("template", &unknown, "no-such-template"), ("variable", first, FOREIGN_VARIABLE)]
    {
        let what = format!("completing an unknown {what}");
        match complete(session, template, variable, "", &[]).await {
            Err(NoAnswer::Refused(_) | NoAnswer::Limited) => {}
            Err(none) => none.report(session, Check::Completion, &what),
            Ok(_) => {
                let message = format!("{what} has an answer");
                session.report.problem_with(Check::Completion, message, advice::COMPLETION_UNKNOWN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_the_query_can_be_left_out() {
        let template = "{+file}/rows{?from,to:3}{&columns*}";
        for (variable, optional) in [("file", false), ("from", true), ("to", true), ("columns", true)] {
            assert_eq!(is_optional(template, variable), optional, "{variable}");
        }
        assert!(!is_optional("{x}{?x}", "x"));
    }
}
