//! `context`: the best selection for a question within a budget.

use mcp_host_model::resource::Notice;
use mcp_resource_host::host::Host;
use mcp_resource_host::search::ContextRequest;

use super::context::Context;
use super::error::CliError;
use super::options::PrincipalArgs;
use super::search_index::wait_until_indexed;

const EXAMPLES: &str = "\
Examples:
  mcp-host context how does the circuit breaker recover --budget 2000
  mcp-host context                                       the most important resources
  mcp-host context budget --as anonymous | llm 'Summarize this'";

/// Print the best passages for a question, within a budget of tokens
///
/// Each passage has its URI and lines in front. Tokens are estimated: a quarter of the ASCII bytes, and one for each
/// other character.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The question; without it, resources are chosen by their priority
    #[arg(value_name = "WORDS")]
    words: Vec<String>,

    /// The maximum number of tokens
    #[arg(long, value_name = "TOKENS", default_value_t = ContextRequest::DEFAULT_BUDGET, value_parser = budget)]
    budget: usize,

    #[command(flatten)]
    principal_args: PrincipalArgs,
}

fn budget(text: &str) -> Result<usize, String> {
    let budget = text.parse().ok().filter(|budget| (1..=ContextRequest::MAX_BUDGET).contains(budget));
    budget.ok_or_else(|| format!("expected a number from 1 to {}", ContextRequest::MAX_BUDGET))
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let host = context.start_host().await?;
        let result = self.print(&host, context).await;
        context.shutdown(&host).await;
        result
    }

    async fn print(self, host: &Host, context: &Context) -> Result<(), CliError> {
        let principal = self.principal_args.principal(&host.config(), &context.messages)?;
        wait_until_indexed(host, context).await;
        let query = (!self.words.is_empty()).then(|| self.words.join(" "));
        let selection = host.context(&principal, ContextRequest { query, ..ContextRequest::new(self.budget) }).await?;
        let mut output = context.output();
        for passage in &selection.passages {
            let uri = passage.lines_uri.as_ref().unwrap_or(&passage.resource.uri);
            let (first, last) = passage.lines;
            // Without a question, a resource without a priority has no reason.
            let reason = if passage.reason.is_empty() { String::new() } else { format!("; {}", passage.reason) };
            output.text(&format!("=== {uri} (lines {first}-{last}{reason})"))?;
            for notice in Notice::all_in(&passage.resource.meta) {
                output.text(&notice.to_string())?;
            }
            output.text(&passage.text)?;
            output.line("")?;
        }
        output.flush()?;
        let (count, tokens) = (selection.passages.len(), selection.tokens);
        let (over, copies) = (selection.over_budget, selection.near_copies);
        context.messages.note(&format!(
            "{count} passages, about {tokens} tokens; left out: {over} over the budget, {copies} near-copies"
        ));
        if !selection.incomplete.is_empty() {
            let plugins = selection.incomplete.join(", ");
            context.messages.note(&format!("not everything is indexed of {plugins}: there may be better passages"));
        } else if selection.is_partial {
            context.messages.note("the search was cut short: there may be better passages");
        }
        Ok(())
    }
}
