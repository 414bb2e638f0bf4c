//! `inspect`: the digest, exports, imports, description and needs of a component file. The component is granted
//! nothing.

pub(crate) mod plugin_table;

use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use mcp_host_config::{self as config, Config, PluginName};
use mcp_host_engine::plugin::{Inspection, Needs, NeedsError, preparation_note};
use mcp_host_model::digest::Digest;
use serde::Serialize;

use super::context::Context;
use super::error::CliError;
use super::output::Output;
use super::provider::{Provider, name_and_version};
use super::requirements::{self, RequirementReport};
use super::table::{Cell, Table};

const EXAMPLES: &str = "\
The component is compiled and its description requested, in a sandbox without grants.

A name is looked up in the directories of installed providers only: without `--plugin` no config is read, and \
`server.plugin-path` is not used. Write the path of a file in another directory: `mcp-host inspect DIR/git.wasm`.

Exit codes: 0 it is a provider, 1 it is not, or cannot describe itself, 2 the config is invalid or has no such plugin.

Examples:
  mcp-host inspect plugins/git.wasm
  mcp-host inspect git                              the installed provider
  mcp-host inspect plugins/git.wasm --json | jq -r .digest
  mcp-host inspect new/git.wasm --plugin linux      compare it with the grants of that plugin";

/// The maximum length of a shown description, in characters.
const MAX_DESCRIPTION: usize = 4000;

/// Show a component file: its digest, description, imports and needs, and the grants for the imports
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The component: a file, or the name of an installed provider
    #[arg(value_name = "FILE.wasm|NAME")]
    file: PathBuf,

    /// Compare with the grants of this plugin in the config
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let (config, plugin) = match &self.plugin {
            None => (Config::new(), standalone_plugin(Context::component(&self.file, None)?)?),
            Some(name) => {
                let config = context.config()?;
                let configured = config.plugins.iter().find(|plugin| plugin.name.as_str() == name);
                let configured = configured
                    .ok_or_else(|| CliError::NoPlugin { name: name.clone(), known: plugin_names(&config) })?;
                let component = Context::component(&self.file, Some(&config))?;
                let plugin = config::Plugin { component, ..configured.clone() };
                (config, plugin)
            }
        };
        let pinned = plugin.digest;
        let plugin = config::Plugin { digest: None, ..plugin };
        let inspection = context.builder(config).inspect(&plugin).await?;
        let compared = self.plugin.is_some().then_some(ComparedPlugin { name: &plugin.name, pinned });
        let mut output = context.output();
        if self.json {
            output.json(&InspectReport::new(&inspection, &plugin, compared))?;
        } else {
            print(&inspection, &plugin, compared, &mut output)?;
        }
        output.flush()?;
        inspection.info.map(|_| ()).map_err(CliError::from)
    }
}

/// A plugin with this component, without config and grants.
fn standalone_plugin(file: PathBuf) -> anyhow::Result<config::Plugin> {
    Ok(config::Plugin::new("inspected".parse()?, file, "inspected:///".parse()?))
}

fn plugin_names(config: &Config) -> Vec<String> {
    config.plugins.iter().map(|plugin| plugin.name.to_string()).collect()
}

/// The plugin with which the component is compared.
#[derive(Clone, Copy)]
struct ComparedPlugin<'a> {
    name: &'a PluginName,
    pinned: Option<Digest>,
}

impl ComparedPlugin<'_> {
    /// The warnings for this plugin with the inspected component.
    fn warnings(self, inspection: &Inspection) -> Vec<String> {
        let pinned = self.pinned.filter(|pinned| *pinned != inspection.digest);
        let other = pinned.map(|pinned| format!("`digest` pins another component, {pinned}"));
        inspection.requirements.warnings().chain(other).collect()
    }
}

/// The needs that the provider declares, if they are valid.
fn needs(inspection: &Inspection) -> Option<&Needs> {
    inspection.needs.as_ref().ok()?.as_ref()
}

/// A name for a plugin of this provider: the provider's name, or the name of its file.
fn suggested_name(inspection: &Inspection, file: &Path) -> String {
    let own = inspection.info.as_ref().ok().map(|info| info.name.clone());
    own.unwrap_or_else(|| file.file_stem().unwrap_or_default().to_string_lossy().into_owned())
}

fn print(
    inspection: &Inspection,
    plugin: &config::Plugin,
    compared: Option<ComparedPlugin<'_>>,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut rows = vec![
        [Cell::text("digest"), Cell::verbatim(&inspection.digest.to_string())],
        [Cell::text("size"), Cell::text(&format!("{} ({} bytes)", ByteSize(inspection.size), inspection.size))],
    ];
    if let Ok(info) = &inspection.info {
        rows.push([Cell::text("provider"), Cell::text(&name_and_version(info))]);
        rows.extend(info.title.iter().map(|title| [Cell::text("title"), Cell::text(title)]));
        rows.push([Cell::text("watches"), Cell::text(if info.watches { "yes" } else { "no" })]);
    }
    let labels = std::iter::once("exports").chain(std::iter::repeat(""));
    rows.extend(labels.zip(&inspection.exports).map(|(label, name)| [Cell::text(label), Cell::verbatim(name)]));
    Table::without_headings().print(rows, output)?;
    print_imports(inspection, output)?;
    if let Some(compared) = compared {
        output.line("")?;
        let rows = requirements::rows(&inspection.requirements, needs(inspection)).collect();
        Table::new(["GRANT", "IMPORTS", "GRANTED", "STATUS"]).print(rows, output)?;
        for warning in compared.warnings(inspection) {
            output.line("")?;
            output.text(&format!("{}: {warning}", compared.name))?;
        }
        for note in needs(inspection).map(|needs| needs.notes(plugin)).unwrap_or_default() {
            output.line("")?;
            output.text(&format!("{}: note: {note}", compared.name))?;
        }
    }
    if let Some(note) = preparation_note(inspection.prepares, plugin, needs(inspection)) {
        output.line("")?;
        output.prose(&format!("note: {note}"))?;
    }
    if let Ok(info) = &inspection.info
        && let Some(description) = &info.description
    {
        let shown: String = description.chars().take(MAX_DESCRIPTION).collect();
        output.line("")?;
        output.prose(&if shown.len() < description.len() { shown + "…" } else { shown })?;
    }
    match &inspection.needs {
        Ok(Some(needs)) => {
            let name = suggested_name(inspection, &plugin.component);
            output.line("")?;
            output.line(plugin_table::render(&name, &plugin.component, inspection.digest, needs).trim_end())?;
        }
        Ok(None) => {}
        Err(error) => {
            output.line("")?;
            output.text(&format!("warning: {}", error.warning()))?;
        }
    }
    Ok(())
}

/// The imports, each with the key of a `[[plugin]]` that grants it.
fn print_imports(inspection: &Inspection, output: &mut Output<'_>) -> Result<(), CliError> {
    let rows: Vec<_> = inspection
        .requirements
        .iter()
        .flat_map(|need| need.imports.iter().map(move |import| (need, import)))
        .map(|(need, import)| {
            let by = need.capability.key().unwrap_or(need.status.name());
            [Cell::verbatim(import), Cell::text(by)]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    output.line("")?;
    Ok(Table::new(["IMPORTS", "GRANT"]).print(rows, output)?)
}

/// The output of `--json`.
#[derive(Serialize)]
struct InspectReport<'a> {
    digest: String,
    size: u64,
    /// Null if the component cannot describe itself.
    provider: Option<Provider<'a>>,
    /// Null if the component can describe itself.
    error: Option<String>,
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
    requirements: Vec<RequirementReport<'a>>,
    /// The needs of the provider. Null if none or invalid ones are declared.
    needs: Option<&'a Needs>,
    /// The needs as an entry `[[plugin]]` of a config.
    plugin_table: Option<String>,
    /// Without `--plugin`: only the warnings about the needs.
    warnings: Vec<String>,
    /// A note that the provider prepares data; with `--plugin` also the needs that the plugin is not granted.
    notes: Vec<String>,
}

impl<'a> InspectReport<'a> {
    fn new(inspection: &'a Inspection, plugin: &config::Plugin, compared: Option<ComparedPlugin<'_>>) -> Self {
        let needs = needs(inspection);
        let name = suggested_name(inspection, &plugin.component);
        let invalid_needs = inspection.needs.as_ref().err().map(NeedsError::warning);
        let of_grants = compared.map(|compared| compared.warnings(inspection)).unwrap_or_default();
        let notes = needs.filter(|_| compared.is_some()).map(|needs| needs.notes(plugin)).unwrap_or_default();
        let of_preparation = preparation_note(inspection.prepares, plugin, needs);
        let info = inspection.info.as_ref();
        Self {
            digest: inspection.digest.to_string(),
            size: inspection.size,
            provider: info.ok().map(Into::into),
            error: info.err().map(ToString::to_string),
            imports: inspection.imports.iter().map(String::as_str).collect(),
            exports: inspection.exports.iter().map(String::as_str).collect(),
            requirements: requirements::report(&inspection.requirements),
            needs,
            plugin_table: needs.map(|needs| plugin_table::render(&name, &plugin.component, inspection.digest, needs)),
            warnings: of_grants.into_iter().chain(invalid_needs).collect(),
            notes: notes.into_iter().chain(of_preparation).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Destination;
    use mcp_host_engine::plugin::{Fault, LoadError, Requirements};
    use mcp_host_model::provider::ProviderInfo;

    const IMPORTS: [&str; 3] =
        ["wasi:clocks/wall-clock@0.2.6", "wasi:filesystem/types@0.2.6", "wasi:sockets/tcp@0.2.6"];

    fn inspection(info: Result<ProviderInfo, LoadError>) -> Inspection {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let mut plugin = standalone_plugin("notes.wasm".into()).unwrap();
        plugin.config.insert("language".to_owned(), "ja".to_owned());
        Inspection {
            prepares: false,
            digest: Digest::compute(b"component"),
            size: 2048,
            imports: set(&IMPORTS),
            exports: set(&["mcp-host:provider/resource-provider@0.1.1"]),
            requirements: Requirements::new(IMPORTS.into_iter(), &plugin),
            needs: Ok(None),
            info,
        }
    }

    fn notes() -> ProviderInfo {
        ProviderInfo {
            name: "notes".to_owned(),
            version: "1.2.3".to_owned(),
            description: Some("Notes.\nBy tag, too.".to_owned()),
            watches: true,
            ..ProviderInfo::default()
        }
    }

    fn printed(inspection: &Inspection, compared: Option<ComparedPlugin<'_>>) -> String {
        let mut written = Vec::new();
        let plugin = standalone_plugin("notes.wasm".into()).unwrap();
        print(inspection, &plugin, compared, &mut Output::to(&mut written, Destination::Pipe)).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_provider_is_shown_with_what_it_says_of_itself_and_what_grants_its_imports() {
        let expected = format!(
            "digest    {}\n\
             size      2.0 KiB (2048 bytes)\n\
             provider  notes 1.2.3\n\
             watches   yes\n\
             exports   mcp-host:provider/resource-provider@0.1.1\n\
             \n\
             wasi:filesystem/types@0.2.6   grants.dirs\n\
             wasi:sockets/tcp@0.2.6        unsupported\n\
             wasi:clocks/wall-clock@0.2.6  not required\n\
             \n\
             Notes.\n\
             By tag, too.\n",
            Digest::compute(b"component")
        );
        assert_eq!(printed(&inspection(Ok(notes())), None), expected);
    }

    #[test]
    fn in_the_place_of_a_plugin_it_is_compared_with_its_grants_and_its_digest() {
        let name = "diary".parse().unwrap();
        let compared = ComparedPlugin { name: &name, pinned: Some(Digest::compute(b"another")) };
        let printed = printed(&inspection(Ok(notes())), Some(compared));
        for line in [
            "grants.dirs  wasi:filesystem  -         not granted",
            "config       -                language  unused",
            "sockets      wasi:sockets     -         unsupported",
            "diary: `config` is granted but unused: it does not import `wasi:config`",
            &format!("diary: `digest` pins another component, {}", Digest::compute(b"another")),
        ] {
            assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
        }
    }

    #[test]
    fn a_component_that_cannot_describe_itself_is_still_shown() {
        let silent = inspection(Err(LoadError::Describe(Fault::Trap("unreachable".to_owned()))));
        assert!(printed(&silent, None).contains("exports"));
        let report =
            serde_json::to_value(InspectReport::new(&silent, &standalone_plugin("notes.wasm".into()).unwrap(), None))
                .unwrap();
        assert_eq!(report["provider"], serde_json::Value::Null);
        assert_eq!(report["error"], "the provider cannot describe itself: trapped: unreachable");
        assert_eq!(report["imports"].as_array().unwrap().len(), 3);
        assert_eq!(report["warnings"], serde_json::json!([]));
    }

    #[test]
    fn a_description_without_end_is_cut() {
        let endless = ProviderInfo { description: Some("a".repeat(1 << 20)), ..notes() };
        assert!(printed(&inspection(Ok(endless)), None).len() < 2 * MAX_DESCRIPTION);
    }
}
