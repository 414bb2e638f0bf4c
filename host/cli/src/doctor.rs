//! `doctor`: checks that the tools for building a provider are installed.

use futures::future::join_all;
use mcp_host_devkit::language::Language;
use mcp_host_devkit::toolchain::{self, Finding, Status, Toolchain};
use serde::Serialize;

use super::context::Context;
use super::error::CliError;
use super::output::Output;
use super::table::{Cell, Table};

const EXAMPLES: &str = "\
The version of each tool is requested, for at most 10 s. Nothing is installed.

Exit codes: 0 all tools can be used, 1 some cannot, or did not answer.

Examples:
  mcp-host doctor               the tools of every language
  mcp-host doctor --lang go     the tools of one language";

/// Check whether this machine has the tools that build a provider, and print how to install them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The language; all by default
    #[arg(long, value_name = "LANG")]
    lang: Option<Language>,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

/// The JSON object.
#[derive(Serialize)]
struct JsonReport<'a> {
    ok: bool,
    languages: &'a [Toolchain],
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let languages = self.lang.map_or_else(|| Language::ALL.to_vec(), |language| vec![language]);
        let toolchains = join_all(languages.into_iter().map(toolchain::examine)).await;
        let mut output = context.output();
        if self.json {
            let report = JsonReport { ok: toolchains.iter().all(|toolchain| toolchain.ok), languages: &toolchains };
            output.json(&report)?;
        } else {
            print(&toolchains, &mut output)?;
        }
        output.flush()?;
        match wanting(&toolchains).len() {
            0 => Ok(()),
            count => Err(CliError::Tools { count }),
        }
    }
}

/// Returns the unusable tools, each once.
fn wanting(toolchains: &[Toolchain]) -> Vec<&Finding> {
    let mut wanting: Vec<&Finding> = Vec::new();
    for tool in toolchains.iter().flat_map(|toolchain| &toolchain.tools).filter(|tool| !tool.is_ok()) {
        if wanting.iter().all(|other| other.tool != tool.tool) {
            wanting.push(tool);
        }
    }
    wanting
}

/// Prints one line for each tool of each language, and below them the installation of the missing ones.
fn print(toolchains: &[Toolchain], output: &mut Output<'_>) -> Result<(), CliError> {
    let row = |language: Language, tool: &Finding| {
        let status = match tool.status {
            Status::Ok => Cell::ok("ok"),
            Status::Missing => Cell::error("missing"),
            Status::TooOld => Cell::error("too old"),
            Status::Failing => Cell::error("failing"),
            Status::NoAnswer => Cell::warning("no answer"),
        };
        let found = Cell::optional(tool.found.as_deref());
        [Cell::verbatim(language.as_str()), Cell::verbatim(tool.tool), Cell::verbatim(&tool.needed), found, status]
    };
    let rows = toolchains.iter().flat_map(|of| of.tools.iter().map(move |tool| row(of.language, tool)));
    Table::new(["LANGUAGE", "TOOL", "NEEDED", "FOUND", "STATUS"]).print(rows.collect(), output)?;
    for tool in wanting(toolchains) {
        output.line("")?;
        let text = describe(tool);
        let (problem, command) = text.split_once('\n').unwrap_or((&text, ""));
        output.prose(problem)?;
        if !command.is_empty() {
            output.text(command)?;
        }
    }
    Ok(())
}

/// Describes the problem of a tool, and its installation.
pub(super) fn describe(tool: &Finding) -> String {
    let Finding { tool: name, needed, found, .. } = tool;
    let problem = match (tool.status, found, &tool.reason) {
        (Status::TooOld, Some(found), _) => format!("{name} {found} is too old, {needed} is needed"),
        (Status::Failing, _, Some(reason)) => format!("{name} does not work: {reason}"),
        (Status::NoAnswer, _, Some(reason)) => {
            format!("{name} may work: {reason}, as on a busy machine. Its answer to this says whether it does:")
        }
        _ => format!("{name} is missing"),
    };
    match tool.check.as_ref().or(tool.install.as_ref()) {
        Some(command) => format!("{problem}\n  {command}"),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(tool: &'static str, status: Status) -> Finding {
        let found = (status == Status::TooOld).then(|| "1.19.8".to_owned());
        let install = (status != Status::Ok).then(|| format!("apt-get install {tool}"));
        Finding { tool, needed: "1.24 or newer".to_owned(), found, status, reason: None, check: None, install }
    }

    #[test]
    fn what_is_missing_is_said_with_what_installs_it() {
        assert_eq!(describe(&finding("make", Status::Missing)), "make is missing\n  apt-get install make");
        let too_old = describe(&finding("go", Status::TooOld));
        assert_eq!(too_old, "go 1.19.8 is too old, 1.24 or newer is needed\n  apt-get install go");
    }

    #[test]
    fn a_tool_that_did_not_answer_is_not_said_to_be_broken() {
        let reason = Some("it did not answer within 10 s".to_owned());
        let silent = finding("npm", Status::NoAnswer);
        let silent = Finding { reason, check: Some("npm --version".to_owned()), install: None, ..silent };
        assert_eq!(
            describe(&silent),
            "npm may work: it did not answer within 10 s, as on a busy machine. Its answer to this says whether it does:\n  \
             npm --version"
        );
    }

    #[test]
    fn a_tool_of_two_languages_counts_once() {
        let tools = || vec![finding("cc", Status::Ok), finding("mcp-host", Status::Missing)];
        let toolchains = [Language::C, Language::Go].map(|language| Toolchain { language, ok: false, tools: tools() });
        assert_eq!(wanting(&toolchains).len(), 1);
    }
}
