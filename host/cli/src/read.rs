//! `read`: a resource's content as a client gets it.
//!
//! The output depends on its destination ([`OutputMode`] decides):
//!
//! | | a terminal | a pipe, or `--output FILE` |
//! |---|---|---|
//! | text | shown, with control characters escaped | the bytes unchanged |
//! | binary | rejected | the bytes unchanged |
//! | several formats of one resource | all text, each under its URI and type | the first, which is the preferred one |
//! | contents of several resources below it | the same | rejected, because only one can be written |
//!
//! "One resource" is the requested one, or the only one in the response: a collection may return its newest resource.
//!
//! With `--json` the output is the MCP result object for all destinations.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytesize::ByteSize;
use mcp_host_model::resource::{Notice, ResourceBody, ResourceContents};
use mcp_host_server::{Revision, wire};
use mcp_resource_host::host::Host;

use super::context::Context;
use super::diagnostics::timing::{self, Encoding};
use super::error::CliError;
use super::escape;
use super::hint;
use super::observation::ObservationArgs;
use super::options::{PrincipalArgs, parse_uri};
use super::output::{Destination, Output};
use super::search_index::wait_until_indexed;

const EXAMPLES: &str = "\
Examples:
  mcp-host read notes:///welcome.md
  mcp-host read git://linux/blob/main/logo.png --output logo.png
  mcp-host read git://linux/blob/main/logo.png | file -
  mcp-host read notes:///welcome.md --as anonymous     may clients over HTTP read it?
  mcp-host read notes:///welcome.md --json
  mcp-host read notes:///welcome.md --timing           what does it cost?";

/// Read a resource as a client does
///
/// Text goes to standard output. Binary content goes to a file or a pipe, never to a terminal. Of a resource in several
/// formats, a file or a pipe gets the preferred one. Before a search or a selection is read, the index is updated.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The resource
    #[arg(value_name = "URI", value_parser = parse_uri)]
    uri: String,

    /// Write the content to this file
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,

    #[command(flatten)]
    principal_args: PrincipalArgs,

    /// Print the MCP result object, with all contents
    #[arg(long)]
    json: bool,

    /// Print the cost of the call on standard error: times, host calls, memory; with `--json`, a JSON object
    #[arg(long)]
    timing: bool,

    #[command(flatten)]
    observation: ObservationArgs,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        context.observe(&self.observation)?;
        context.record_only(&self.uri);
        let host = context.start_host().await?;
        let result = self.read(&host, context).await;
        context.shutdown(&host).await;
        result
    }

    async fn read(self, host: &Host, context: &Context) -> Result<(), CliError> {
        let principal = &self.principal_args.principal(&host.config(), &context.messages)?;
        if host.is_built_in(&self.uri) {
            wait_until_indexed(host, context).await;
        }
        // Discards the calls from loading the plugins.
        drop(context.calls().map(|calls| calls.take_calls()));
        let read = host.read(principal, &self.uri).await;
        if self.timing {
            print_timing(context, read.as_ref().ok(), self.json)?;
        }
        let contents = match read {
            Ok(contents) => contents,
            Err(error) => {
                let hint = hint::for_read(host, principal, &self.uri, &error).await;
                return Err(CliError::Resource { error, hint });
            }
        };
        let mut output = context.output();
        if self.json {
            print_json(contents, &mut output)?;
            return Ok(output.flush()?);
        }
        let requested_uri = host.normalize(&self.uri).map_or_else(|| self.uri.clone(), String::from);
        let destination = if self.output.is_some() { Destination::Pipe } else { output.destination() };
        match (OutputMode::select(&contents, &requested_uri, destination)?, self.output) {
            (OutputMode::Raw(one), Some(file)) => {
                let written = tokio::fs::write(&file, one.body.as_bytes()).await;
                written.map_err(|source| CliError::Save { file, source })?;
                print_notices(std::slice::from_ref(one), false, context);
            }
            (OutputMode::Raw(one), None) => {
                output.bytes(one.body.as_bytes())?;
                output.flush()?;
                print_notices(std::slice::from_ref(one), false, context);
            }
            (OutputMode::Rendered(contents), _) => {
                let (shown, others) = preferred(contents);
                print_rendered(&shown, &mut output)?;
                output.flush()?;
                print_notices(contents, true, context);
                if let Some(note) = other_formats(&others) {
                    context.messages.note(&note);
                }
            }
        }
        Ok(())
    }
}

/// Prints the cost of the call, and of encoding the contents for a client.
fn print_timing(context: &Context, contents: Option<&Vec<ResourceContents>>, is_json: bool) -> Result<(), CliError> {
    let encoding = contents.map(|contents| {
        let contents = contents.clone();
        Encoding::measure(|| wire::read_result(contents, Revision::LATEST_WITH_SESSIONS, false).into_vec().len())
    });
    let calls = context.calls().map(|calls| calls.take_calls()).unwrap_or_default();
    timing::print(&context.messages, &calls, encoding, is_json)
}

/// The form of the output.
#[derive(Debug, PartialEq)]
enum OutputMode<'a> {
    /// The text is shown to a person, with one format of each resource.
    Rendered(&'a [ResourceContents]),
    /// One content is written unchanged.
    Raw(&'a ResourceContents),
}

impl<'a> OutputMode<'a> {
    fn select(
        contents: &'a [ResourceContents],
        requested_uri: &str,
        destination: Destination,
    ) -> Result<Self, CliError> {
        match destination {
            Destination::Terminal => {
                let only_binary = contents.iter().all(|one| matches!(one.body, ResourceBody::Blob(_)));
                match contents.first().filter(|_| only_binary) {
                    Some(one) => {
                        Err(CliError::Binary { uri: one.entry.uri.to_string(), kind_and_size: kind_and_size(one) })
                    }
                    None => Ok(Self::Rendered(contents)),
                }
            }
            Destination::Pipe => {
                let children: BTreeSet<_> = contents.iter().map(|one| one.entry.uri.as_str()).collect();
                let is_written = |uri: &str| uri == requested_uri || children.len() == 1;
                let one = contents.iter().find(|one| is_written(one.entry.uri.as_str()));
                one.map(Self::Raw).ok_or_else(|| CliError::Collection {
                    uri: requested_uri.to_owned(),
                    children: children.into_iter().map(str::to_owned).collect(),
                })
            }
        }
    }
}

/// Prints the notices about the contents to standard error: a pipe gets the content unchanged. Formats of one resource
/// have the same notices. Notices that the shown text repeats are left out.
fn print_notices(contents: &[ResourceContents], is_text_shown: bool, context: &Context) {
    let notices = contents.iter().flat_map(|one| Notice::all_in(&one.entry.meta).into_iter());
    let notices = notices.filter(|notice| !(is_text_shown && notice.in_text));
    let mut lines: Vec<_> = notices.map(|notice| notice.to_string()).collect();
    lines.dedup();
    lines.iter().for_each(|line| context.messages.note(line));
}

/// Splits the contents into one format per resource and the other formats. The first text of a resource is kept;
/// without text, its first format.
fn preferred(contents: &[ResourceContents]) -> (Vec<&ResourceContents>, Vec<&ResourceContents>) {
    let is_text = |one: &ResourceContents| matches!(one.body, ResourceBody::Text(_));
    let is_kept = |one: &&ResourceContents| {
        let formats = || contents.iter().filter(|other| other.entry.uri == one.entry.uri);
        let best = formats().find(|other| is_text(other)).or_else(|| formats().next());
        best.is_some_and(|best| std::ptr::eq(best, *one))
    };
    contents.iter().partition(is_kept)
}

/// Lists the other formats of the resources; `None` without any.
fn other_formats(others: &[&ResourceContents]) -> Option<String> {
    let formats: Vec<_> = others.iter().map(|one| escape::line(&kind_and_size(one)).into_owned()).collect();
    (!formats.is_empty()).then(|| format!("also there as {}; `--json` prints all", formats.join("; ")))
}

fn print_rendered(contents: &[&ResourceContents], output: &mut Output<'_>) -> std::io::Result<()> {
    let are_several = contents.len() > 1;
    for (index, one) in contents.iter().enumerate() {
        if are_several {
            if index > 0 {
                output.line("")?;
            }
            output.line(&format!("==> {} ({}) <==", one.entry.uri, escape::line(&kind_and_size(one))))?;
        }
        match &one.body {
            ResourceBody::Text(text) => output.text(text)?,
            ResourceBody::Blob(_) => output.line("binary: not shown")?,
        }
    }
    Ok(())
}

fn kind_and_size(contents: &ResourceContents) -> String {
    let size = ByteSize(contents.body.as_bytes().len() as u64);
    match &contents.entry.mime_type {
        Some(mime_type) => format!("{mime_type}, {size}"),
        None => size.to_string(),
    }
}

fn print_json(contents: Vec<ResourceContents>, output: &mut Output<'_>) -> std::io::Result<()> {
    output.document(wire::read_result(contents, Revision::LATEST_WITH_SESSIONS, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::resource::{Annotations, Meta, Resource};
    use mcp_host_model::uri::Mount;

    const REQUESTED: &str = "notes:///a.md";

    fn contents(path: &str, mime_type: &str, body: ResourceBody) -> ResourceContents {
        let mount: Mount = "notes:///".parse().unwrap();
        let entry = Resource {
            uri: mount.compose(path).unwrap().uri,
            name: path.to_owned(),
            title: None,
            description: None,
            mime_type: Some(mime_type.to_owned()),
            size: None,
            annotations: Annotations::default(),
            icons: Vec::new(),
            listable: false,
            subscribable: false,
            ttl: None,
            meta: Meta::new(),
        };
        ResourceContents { entry, body }
    }

    fn text(path: &str, text: &str) -> ResourceContents {
        contents(path, "text/markdown", ResourceBody::Text(text.to_owned()))
    }

    fn blob(path: &str) -> ResourceContents {
        contents(path, "image/png", ResourceBody::Blob(vec![0; 2048]))
    }

    fn rendered(contents: &[ResourceContents]) -> String {
        let mut written = Vec::new();
        print_rendered(&preferred(contents).0, &mut Output::to(&mut written, Destination::Terminal)).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn binary_content_never_goes_to_a_terminal() {
        let contents = [blob("a.md")];
        let refused = OutputMode::select(&contents, REQUESTED, Destination::Terminal).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "notes:///a.md is binary (image/png, 2.0 KiB) and standard output is a terminal"
        );
        assert_eq!(OutputMode::select(&contents, REQUESTED, Destination::Pipe).unwrap(), OutputMode::Raw(&contents[0]));
    }

    #[test]
    fn a_pipe_gets_the_preferred_format_of_the_resource_that_was_asked_for() {
        let contents = [text("child.md", "c"), text("a.md", "preferred"), blob("a.md")];
        assert_eq!(OutputMode::select(&contents, REQUESTED, Destination::Pipe).unwrap(), OutputMode::Raw(&contents[1]));
    }

    #[test]
    fn a_pipe_gets_nothing_that_was_not_asked_for() {
        let contents = [text("x.md", "x"), text("y.md", "y")];
        let refused = OutputMode::select(&contents, REQUESTED, Destination::Pipe).unwrap_err();
        assert!(
            matches!(refused, CliError::Collection { children, .. } if children == ["notes:///x.md", "notes:///y.md"])
        );
    }

    #[test]
    fn a_pipe_gets_the_only_resource_of_a_collection_in_its_preferred_format() {
        let contents = [text("newest.md", "preferred"), blob("newest.md")];
        assert_eq!(OutputMode::select(&contents, REQUESTED, Destination::Pipe).unwrap(), OutputMode::Raw(&contents[0]));
    }

    #[test]
    fn a_terminal_is_shown_each_resource_under_its_name_in_its_preferred_text() {
        let contents = [blob("a.md"), text("a.md", "# A"), text("a.md", "A, again"), blob("b.md")];
        assert_eq!(
            OutputMode::select(&contents, REQUESTED, Destination::Terminal).unwrap(),
            OutputMode::Rendered(&contents)
        );
        assert_eq!(
            rendered(&contents),
            "==> notes:///a.md (text/markdown, 3 B) <==\n\
             # A\n\
             \n\
             ==> notes:///b.md (image/png, 2.0 KiB) <==\n\
             binary: not shown\n"
        );
        assert_eq!(
            other_formats(&preferred(&contents).1).unwrap(),
            "also there as image/png, 2.0 KiB; text/markdown, 8 B; `--json` prints all"
        );
        assert_eq!(rendered(&[text("a.md", "| a |"), text("a.md", "[1]")]), "| a |\n", "a row comes once");
    }

    #[test]
    fn one_text_is_shown_without_ceremony_and_does_not_drive_the_terminal() {
        assert_eq!(rendered(&[text("a.md", "a\n\u{1b}[2Jb")]), "a\n\\u{1b}[2Jb\n");
    }

    #[test]
    fn json_is_the_result_object_of_the_protocol() {
        let mut written = Vec::new();
        print_json(vec![text("a.md", "# A")], &mut Output::to(&mut written, Destination::Pipe)).unwrap();
        let result: serde_json::Value = serde_json::from_slice(&written).unwrap();
        let content = serde_json::json!({ "uri": REQUESTED, "mimeType": "text/markdown", "text": "# A" });
        assert_eq!(result, serde_json::json!({ "contents": [content] }));
    }
}
