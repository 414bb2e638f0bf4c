//! The tool `resource_context`.

use mcp_host_model::resource::{Footprint, Notice};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::search::{ContextPassage, ContextRequest, ContextSelection};
use serde_json::{Value, json};

use crate::json::Writer;
use crate::tools::arguments::Arguments;
use crate::tools::description::{Description, object, resource_properties, result};
use crate::tools::output::{Forms, Output, Part, Structured, ToolError, resource_members};

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "Context for a question",
        text: "Returns the passages of all resources that are most relevant to a question, with their URIs, within a budget of \
               tokens. Without a question, returns the beginnings of the resources with the highest priority. Lines at the end \
               say if more passages were found, which need a larger `budget`, or if the search was incomplete.",
        input: object(
            json!({
                "query": {
                    "type": "string",
                    "maxLength": mcp_resource_host::search::SearchRequest::MAX_QUERY_LEN,
                    "description": "The question, or the words that a relevant text would contain.",
                },
                "budget": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": ContextRequest::MAX_BUDGET,
                    "default": ContextRequest::DEFAULT_BUDGET,
                    "description": "The maximum number of tokens of all passages together, by an estimate.",
                },
            }),
            &[],
        ),
        output: output(),
    }
}

fn output() -> Value {
    let mut properties = resource_properties();
    let more = json!({
        "text": { "type": "string" },
        "lines": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2 },
        "linesUri": { "type": "string", "description": "The URI of these lines alone." },
        "tokens": { "type": "integer" },
        "reason": { "type": "string", "description": "Why the passage was chosen." },
    });
    if let (Some(members), Value::Object(more)) = (properties.as_object_mut(), more) {
        members.extend(more);
    }
    let passage = result(properties, &["uri", "name", "text", "lines", "tokens", "reason"]);
    result(
        json!({
            "passages": { "type": "array", "items": passage },
            "tokens": { "type": "integer", "description": "The estimated number of tokens of all passages." },
            "overBudget": { "type": "integer", "description": "The number of found passages that do not fit the budget." },
            "nearCopies": { "type": "integer", "description": "The number of passages that were left out because they repeat chosen ones." },
            "partial": {
                "type": "boolean",
                "description": "Whether there may be better passages: the search was cut short, or not everything is indexed.",
            },
        }),
        &["passages", "tokens", "overBudget", "nearCopies", "partial"],
    )
}

/// Calls the tool.
pub(super) async fn call(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    forms: Forms,
) -> Result<Output, ToolError> {
    let arguments = Arguments::parse(arguments, &["query", "budget"])?;
    let budget = arguments.integer("budget", 1..=ContextRequest::MAX_BUDGET)?;
    let budget = budget.unwrap_or(ContextRequest::DEFAULT_BUDGET);
    let request = ContextRequest { query: arguments.string("query")?, ..ContextRequest::new(budget) };
    let selection = host.context(principal, request).await?;
    let mut text: String = selection.passages.iter().map(passage_text).collect();
    match (selection.passages.as_slice(), selection.over_budget) {
        ([], 0) if selection.is_partial => {}
        ([], 0) => text.push_str("Nothing was found.\n"),
        ([], found) => text.push_str(&format!(
            "No passage fits the budget of {budget} tokens, of {found} that were found: ask with a larger `budget`.\n"
        )),
        (_, 0) => {}
        (_, more) => text.push_str(&format!(
            "[cut: {more} more passages do not fit the budget of {budget} tokens: ask with a larger `budget`]\n"
        )),
    }
    if !selection.incomplete.is_empty() {
        let plugins = selection.incomplete.join(", ");
        text.push_str(&format!("There may be better passages: not everything is indexed of {plugins}.\n"));
    } else if selection.is_partial {
        text.push_str("The search was cut short: there may be better passages.\n");
    }
    let links: Vec<_> = match forms.links {
        true => selection.passages.iter().map(|passage| Part::Link(Box::new(passage.resource.clone()))).collect(),
        false => Vec::new(),
    };
    let structured = forms.structured.then(|| structured(selection));
    Ok(Output { content: std::iter::once(Part::Text(text)).chain(links).collect(), structured, ..Output::default() })
}

/// The selection as JSON.
fn structured(selection: ContextSelection) -> Structured {
    let ContextSelection { passages, tokens, over_budget, near_copies, is_partial, .. } = selection;
    let passage = |passage: &ContextPassage| {
        let texts = passage.text.capacity().saturating_add(passage.reason.capacity());
        passage.resource.footprint().saturating_add(texts)
    };
    let footprint = passages.iter().map(passage).fold(0, usize::saturating_add);
    Structured::new(footprint, move |writer| {
        writer.object(|members| {
            members.member("passages").array(passages, write_passage);
            members.serialize("tokens", &tokens);
            members.serialize("overBudget", &over_budget);
            members.serialize("nearCopies", &near_copies);
            members.serialize("partial", &is_partial);
        });
    })
}

fn passage_text(passage: &ContextPassage) -> String {
    let uri = passage.lines_uri.as_ref().unwrap_or(&passage.resource.uri);
    let (first, last) = passage.lines;
    let notices: String = Notice::all_in(&passage.resource.meta).iter().map(|notice| format!("{notice}\n")).collect();
    format!("{uri} (lines {first}-{last}):\n{notices}{}\n\n", passage.text.trim_end())
}

fn write_passage(writer: &mut Writer<'_>, passage: ContextPassage) {
    let ContextPassage { resource, lines_uri, text, lines, tokens, reason } = passage;
    writer.object(|members| {
        resource_members(members, resource, true);
        members.text("text", text);
        members.member("lines").array([lines.0, lines.1], |writer: &mut Writer<'_>, line| writer.serialize(&line));
        members.optional_text("linesUri", lines_uri.map(String::from));
        members.serialize("tokens", &tokens);
        members.text("reason", reason);
    });
}
