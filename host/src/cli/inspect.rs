//! `inspect`: what a component file is and wants, found out without a config and without giving it anything.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytesize::ByteSize;
use serde::Serialize;

use super::context::Context;
use super::failure::Failure;
use super::output::Output;
use super::provider::{Provider, release};
use super::table::{Cell, Table};
use crate::config::{self, Server};
use crate::host::{Dirs, StartError};
use crate::plugin::{Compiler, Inspection, LoadError, Plugins};

const EXAMPLES: &str = "\
The component is compiled and asked to describe itself, in a sandbox with no grants.

Examples:
  mcp-host inspect plugins/git.wasm
  mcp-host inspect plugins/git.wasm --json | jq -r '.imports[]'";

/// Show what a component file is: its digest, what it says of itself, its imports and exports
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let cache = Dirs::of(&Server::default()).cache()?;
        let plugins = Plugins::start(Compiler::default(), &cache, context.progress()).map_err(StartError::from)?;
        let inspection = plugins.inspect(&alone(self.file)?).await?;
        let mut output = context.output();
        if self.json {
            output.json(&Report::of(&inspection))?;
        } else {
            print(&inspection, &mut output)?;
        }
        output.flush()?;
        inspection.info.map(|_| ()).map_err(|fault| LoadError::Describe(fault).into())
    }
}

/// The component as a plugin that has no config and no grants.
fn alone(file: PathBuf) -> anyhow::Result<config::Plugin> {
    Ok(config::Plugin::new("inspected".parse()?, file, "inspected:///".parse()?))
}

fn print(inspection: &Inspection, output: &mut Output<'_>) -> Result<(), Failure> {
    let mut rows = vec![
        [Cell::text("digest"), Cell::whole(&digest(inspection))],
        [Cell::text("size"), Cell::text(&format!("{} ({} bytes)", ByteSize(inspection.size), inspection.size))],
    ];
    if let Ok(info) = &inspection.info {
        rows.push([Cell::text("provider"), Cell::text(&release(info))]);
        rows.extend(info.title.iter().map(|title| [Cell::text("title"), Cell::text(title)]));
        rows.push([Cell::text("watches"), Cell::text(if info.watches { "yes" } else { "no" })]);
    }
    rows.extend(named("imports", &inspection.imports));
    rows.extend(named("exports", &inspection.exports));
    Table::without_headings().print(rows, output)?;
    if let Ok(info) = &inspection.info
        && let Some(description) = &info.description
    {
        output.line("")?;
        output.text(description)?;
    }
    Ok(())
}

/// Rows of which only the first has the label.
fn named<'a>(label: &'a str, interfaces: &'a BTreeSet<String>) -> impl Iterator<Item = [Cell; 2]> + 'a {
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(interfaces).map(|(label, interface)| [Cell::text(label), Cell::whole(interface)])
}

fn digest(inspection: &Inspection) -> String {
    format!("sha256:{}", inspection.digest)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    digest: String,
    size: u64,
    /// Null if it does not describe itself.
    provider: Option<Provider<'a>>,
    /// Null if it does.
    error: Option<String>,
    imports: &'a BTreeSet<String>,
    exports: &'a BTreeSet<String>,
}

impl<'a> Report<'a> {
    fn of(inspection: &'a Inspection) -> Self {
        let info = inspection.info.as_ref();
        Self {
            digest: digest(inspection),
            size: inspection.size,
            provider: info.ok().map(Into::into),
            error: info.err().map(ToString::to_string),
            imports: &inspection.imports,
            exports: &inspection.exports,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Destination;
    use crate::plugin::{Digest, Fault, Info};

    fn inspection(info: Result<Info, Fault>) -> Inspection {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Inspection {
            digest: Digest::of(b"component"),
            size: 2048,
            imports: set(&["wasi:clocks/wall-clock@0.2.6", "wasi:filesystem/types@0.2.6"]),
            exports: set(&["mcp-host:provider/resource-provider@0.1.0"]),
            info,
        }
    }

    fn printed(inspection: &Inspection) -> String {
        let mut written = Vec::new();
        print(inspection, &mut Output::to(&mut written, Destination::Pipe)).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_provider_is_shown_with_what_it_says_of_itself() {
        let info = Info {
            name: "notes".to_owned(),
            version: "1.2.3".to_owned(),
            description: Some("Notes.\nBy tag, too.".to_owned()),
            watches: true,
            ..Info::default()
        };
        let printed = printed(&inspection(Ok(info)));
        for line in [
            "size      2.0 KiB (2048 bytes)",
            "provider  notes 1.2.3",
            "watches   yes",
            "imports   wasi:clocks/wall-clock@0.2.6",
            "          wasi:filesystem/types@0.2.6",
            "exports   mcp-host:provider/resource-provider@0.1.0",
        ] {
            assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
        }
        assert!(printed.ends_with("\n\nNotes.\nBy tag, too.\n"), "{printed}");
    }

    #[test]
    fn a_component_that_cannot_describe_itself_is_still_shown() {
        let silent = inspection(Err(Fault::Trap("unreachable".to_owned())));
        assert!(printed(&silent).contains("exports"));
        let report = serde_json::to_value(Report::of(&silent)).unwrap();
        assert_eq!(report["provider"], serde_json::Value::Null);
        assert_eq!(report["error"], "trapped: unreachable");
        assert_eq!(report["imports"].as_array().unwrap().len(), 2);
    }
}
