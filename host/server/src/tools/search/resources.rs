//! The tool `search_resources`.

use mcp_host_config::search::LanguageCode;
use mcp_host_model::resource::{Footprint, Notice};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::search::{SearchHit, SearchRequest, SearchResults};
use serde_json::{Value, json};

use crate::json::Writer;
use crate::tools::arguments::Arguments;
use crate::tools::description::{Description, object, resource_properties, result};
use crate::tools::output::{Forms, Output, Part, Structured, ToolError, resource_members, summary};

/// Describes the tool.
pub(super) fn describe() -> Description {
    Description {
        title: "Search resources",
        text: "Searches the text, names and descriptions of resources for words. Returns the URIs of the best matches, with the \
               passages that match. Write the words that a relevant text would contain; put a phrase in double quotes. Lines at \
               the end say if more resources match, or if the search was incomplete: narrow it with `in`, `kind` or `lang`, or \
               raise `limit`.",
        input: input(),
        output: output(),
    }
}

fn input() -> Value {
    object(
        json!({
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": SearchRequest::MAX_QUERY_LEN,
                "description": "The words to search for.",
            },
            "in": { "type": "string", "description": "A URI: only this resource and the resources below it are searched." },
            "kind": {
                "type": "string",
                "description": "A MIME type, or its part before the slash, such as `text`: only resources of this type are searched.",
            },
            "lang": {
                "type": "string",
                "enum": LanguageCode::ALL,
                "description": "The code of a language, such as `en`: only texts in this language are searched.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": SearchRequest::MAX_LIMIT,
                "default": SearchRequest::DEFAULT_LIMIT,
                "description": "The maximum number of results.",
            },
        }),
        &["query"],
    )
}

fn output() -> Value {
    let mut properties = resource_properties();
    if let Some(members) = properties.as_object_mut() {
        members.insert(
            "snippet".to_owned(),
            json!({ "type": "string", "description": "The passage of the text that matches." }),
        );
        members.insert(
            "lines".to_owned(),
            json!({
                "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2,
                "description": "The first and the last line of the snippet.",
            }),
        );
        members
            .insert("linesUri".to_owned(), json!({ "type": "string", "description": "The URI of these lines alone." }));
    }
    let hit = result(properties, &["uri", "name"]);
    result(
        json!({
            "results": { "type": "array", "items": hit },
            "total": { "type": "integer", "description": "The number of resources that match." },
            "partial": {
                "type": "boolean",
                "description": "Whether there may be more results: the search was cut short, or not everything is indexed.",
            },
            "incomplete": { "type": "array", "items": { "type": "string" }, "description": "The plugins that are not completely indexed." },
        }),
        &["results", "total", "partial"],
    )
}

/// Calls the tool.
pub(super) async fn call(
    host: &Host,
    principal: &Principal,
    arguments: Option<&str>,
    forms: Forms,
) -> Result<Output, ToolError> {
    let arguments = Arguments::parse(arguments, &["query", "in", "kind", "lang", "limit"])?;
    let limit = arguments.integer("limit", 1..=SearchRequest::MAX_LIMIT)?;
    let request = SearchRequest {
        query: arguments.required_string("query")?,
        within: arguments.string("in")?,
        kind: arguments.string("kind")?,
        language: arguments.string("lang")?,
        limit: limit.unwrap_or(SearchRequest::DEFAULT_LIMIT),
    };
    let results = host.search(principal, request).await?;
    let mut text = String::new();
    for hit in &results.hits {
        text.push_str(&hit_text(hit));
    }
    if results.hits.is_empty() {
        text.push_str("Nothing was found.\n");
    } else if results.total > u64::try_from(results.hits.len()).unwrap_or(u64::MAX) {
        text.push_str(&format!("These are the best of {} resources that match.\n", results.total));
    }
    if !results.incomplete.is_empty() {
        let plugins = results.incomplete.join(", ");
        text.push_str(&format!("There may be more results: not everything is indexed of {plugins}.\n"));
    } else if results.is_partial {
        text.push_str("The search was cut short: there may be more results.\n");
    }
    let links: Vec<_> = match forms.links {
        true => results.hits.iter().map(|hit| Part::Link(Box::new(hit.resource.clone()))).collect(),
        false => Vec::new(),
    };
    let structured = forms.structured.then(|| structured(results));
    Ok(Output { content: std::iter::once(Part::Text(text)).chain(links).collect(), structured, ..Output::default() })
}

/// The result as JSON, with the members that `search:` resources have.
fn structured(results: SearchResults) -> Structured {
    let SearchResults { hits, total, is_partial, incomplete, is_hybrid: _, .. } = results;
    let hit = |hit: &SearchHit| {
        let snippet = hit.snippet.as_ref().map_or(0, |snippet| snippet.text.capacity());
        hit.resource.footprint().saturating_add(snippet)
    };
    let footprint = hits.iter().map(hit).chain(incomplete.iter().map(String::capacity)).fold(0, usize::saturating_add);
    Structured::new(footprint, move |writer| {
        writer.object(|members| {
            members.member("results").array(hits, write_hit);
            members.serialize("total", &total);
            members.serialize("partial", &is_partial);
            if !incomplete.is_empty() {
                members.member("incomplete").array(incomplete, |writer: &mut Writer<'_>, plugin| writer.text(plugin));
            }
        });
    })
}

fn write_hit(writer: &mut Writer<'_>, hit: SearchHit) {
    let SearchHit { resource, snippet, is_snippet_partial: _, lines_uri } = hit;
    writer.object(|members| {
        resource_members(members, resource, true);
        if let Some(snippet) = snippet {
            members.text("snippet", snippet.text);
            members.member("lines").array([snippet.lines.0, snippet.lines.1], |writer: &mut Writer<'_>, line| {
                writer.serialize(&line);
            });
        }
        members.optional_text("linesUri", lines_uri.map(String::from));
    });
}

fn hit_text(hit: &SearchHit) -> String {
    let mut text = format!("{}\n", summary(&hit.resource));
    for notice in Notice::all_in(&hit.resource.meta) {
        text.push_str(&format!("{notice}\n"));
    }
    if let Some(snippet) = &hit.snippet {
        let (first, last) = snippet.lines;
        let place = hit.lines_uri.as_ref().map_or_else(String::new, |uri| format!(" ({uri})"));
        text.push_str(&format!("lines {first}-{last}{place}:\n{}\n", snippet.text));
    }
    text.push('\n');
    text
}
