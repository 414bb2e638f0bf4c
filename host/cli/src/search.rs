//! `search`: the search results that a client gets.

use bytesize::ByteSize;
use mcp_host_config::search::ResultCount;
use mcp_host_model::resource::Notice;
use mcp_resource_host::host::Host;
use mcp_resource_host::search::{SearchHit, SearchRequest, SearchResults, Snippet, to_json};

use super::context::Context;
use super::error::CliError;
use super::hint;
use super::options::{PrincipalArgs, parse_uri};
use super::output::Output;
use super::search_index::wait_until_indexed;

const EXAMPLES: &str = "\
Examples:
  mcp-host search circuit breaker
  mcp-host search '\"exact phrase\"' --in git://linux/Documentation
  mcp-host search 検索 --kind text/markdown --limit 5
  mcp-host search budget --as anonymous                what may clients over HTTP find?
  mcp-host search TODO --json | jq -r '.results[].uri'";

/// Search the resources of the plugins that are indexed for search, as a client does
///
/// The index is updated first. A text in double quotes is a phrase; of the other words a result has at least one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The words
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,

    /// Search only this resource, and the resources below it
    #[arg(long = "in", value_name = "URI", value_parser = parse_uri)]
    within: Option<String>,

    /// Search only resources of this MIME type, or of its part before the slash
    #[arg(long, value_name = "TYPE")]
    kind: Option<String>,

    /// Search only texts in this language, such as `en`
    #[arg(long, value_name = "CODE")]
    lang: Option<String>,

    /// The maximum number of results
    #[arg(long, value_name = "COUNT", default_value_t = ResultCount::default().get(), value_parser = limit)]
    limit: usize,

    #[command(flatten)]
    principal_args: PrincipalArgs,

    /// Print the result as JSON, as the tool `search_resources` returns it
    #[arg(long)]
    json: bool,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=SearchRequest::MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("expected a number from 1 to {}", SearchRequest::MAX_LIMIT))
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let host = context.start_host().await?;
        let result = self.search(&host, context).await;
        context.shutdown(&host).await;
        result
    }

    async fn search(self, host: &Host, context: &Context) -> Result<(), CliError> {
        let principal = self.principal_args.principal(&host.config(), &context.messages)?;
        wait_until_indexed(host, context).await;
        let Self { within, kind, lang: language, limit, .. } = self;
        let words = self.words.join(" ");
        let request = SearchRequest { within: within.clone(), kind, language, limit, ..SearchRequest::new(words) };
        let hint = || within.as_deref().and_then(|uri| hint::for_search(host, &principal, uri));
        let results = host.search(&principal, request).await;
        let results = results.map_err(|error| CliError::Resource { hint: hint(), error })?;
        let hint = results.hits.is_empty().then(hint).flatten();
        let mut output = context.output();
        if self.json {
            output.line(&to_json(results).to_string())?;
        } else {
            print(&results, &mut output)?;
        }
        output.flush()?;
        if let Some(hint) = hint {
            context.messages.help(&hint);
        }
        Ok(())
    }
}

fn print(results: &SearchResults, output: &mut Output<'_>) -> Result<(), CliError> {
    for hit in &results.hits {
        print_hit(hit, output)?;
    }
    let shown = u64::try_from(results.hits.len()).unwrap_or(u64::MAX);
    output.line(&match results.total {
        0 => "nothing was found".to_owned(),
        total if total > shown => format!("{shown} of {total} results; --limit shows more"),
        1 => "1 result".to_owned(),
        total => format!("{total} results"),
    })?;
    if !results.incomplete.is_empty() {
        let plugins = results.incomplete.join(", ");
        output.line(&format!("there may be more results: not everything is indexed of {plugins}"))?;
    } else if results.is_partial {
        output.line("the search was cut short: there may be more results")?;
    }
    Ok(())
}

fn print_hit(hit: &SearchHit, output: &mut Output<'_>) -> Result<(), CliError> {
    let resource = &hit.resource;
    output.text(hit.lines_uri.as_ref().unwrap_or(&resource.uri).as_str())?;
    let title = resource.title.as_ref().unwrap_or(&resource.name);
    let size = resource.size.map_or_else(String::new, |size| format!(" ({})", ByteSize(size)));
    output.text(&format!("  {title}{size}"))?;
    for notice in Notice::all_in(&resource.meta) {
        output.text(&format!("  {notice}"))?;
    }
    if let Some(snippet) = &hit.snippet {
        output.text(&indented(snippet))?;
    }
    Ok(output.line("")?)
}

/// The text of a snippet, with line numbers where they are known.
fn indented(snippet: &Snippet) -> String {
    let numbered = snippet.text.lines().enumerate().map(|(index, line)| {
        let number = snippet.lines.0.saturating_add(index);
        format!("  {number:>6}  {line}\n")
    });
    numbered.collect()
}
