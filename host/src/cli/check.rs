//! `check`: would the config serve all that it names?
//!
//! Every plugin is loaded as `serve` would: its component is read, compiled if need be, linked, and asked to describe
//! itself with the plugin's grants and limits. Nothing is served, and nothing is written but compiled components.

use std::path::Path;

use futures::future::join_all;
use serde::Serialize;

use super::context::Context;
use super::failure::Failure;
use super::output::Output;
use super::provider::{Provider, release};
use super::table::{Cell, Table};
use crate::config;
use crate::host::{Dirs, StartError};
use crate::plugin::{Compiler, LoadError, Plugin, Plugins};

const EXAMPLES: &str = "\
Exit codes: 0 all plugins can be loaded, 1 some cannot, 2 the config is wrong.

Examples:
  mcp-host check
  mcp-host check --config team.toml
  mcp-host check --json | jq -r '.plugins[] | select(.error) | .name'";

/// Check the config, and load every plugin that it names
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let config = context.config()?;
        let cache = Dirs::of(&config.server).cache()?;
        let plugins = Plugins::start(Compiler::default(), &cache, context.progress()).map_err(StartError::from)?;
        let loaded = join_all(config.plugins.iter().map(|plugin| plugins.load(plugin))).await;
        let mut checked: Vec<_> =
            config.plugins.iter().zip(loaded).map(|(plugin, loaded)| Checked { plugin, loaded }).collect();
        checked.sort_by_key(|one| one.plugin.name.as_str());
        let mut output = context.output();
        if self.json {
            output.json(&Report { plugins: checked.iter().map(Line::of).collect() })?;
        } else {
            print(&checked, &mut output)?;
        }
        output.flush()?;
        match checked.iter().filter(|one| one.loaded.is_err()).count() {
            0 => Ok(()),
            broken => Err(Failure::Check { broken, all: checked.len() }),
        }
    }
}

/// A plugin of the config, and what came of loading it.
struct Checked<'a> {
    plugin: &'a config::Plugin,
    loaded: Result<Plugin, LoadError>,
}

fn print(checked: &[Checked<'_>], output: &mut Output<'_>) -> Result<(), Failure> {
    let here = std::env::current_dir().unwrap_or_default();
    let rows = checked.iter().map(|one| one.row(&here)).collect();
    Table::new(["PLUGIN", "MOUNT", "PROVIDER", "COMPONENT", "STATE"]).print(rows, output)?;
    for one in checked {
        if let Err(error) = &one.loaded {
            output.line("")?;
            output.text(&format!("{}: {error}", one.plugin.name))?;
        }
    }
    Ok(())
}

impl Checked<'_> {
    fn row(&self, here: &Path) -> [Cell; 5] {
        let component = &self.plugin.component;
        let component = component.strip_prefix(here).unwrap_or(component);
        let (provider, state) = match &self.loaded {
            Ok(loaded) => (Cell::text(&release(loaded.info())), Cell::good("ok")),
            Err(_) => (Cell::optional(None), Cell::bad("error")),
        };
        [
            Cell::whole(self.plugin.name.as_str()),
            Cell::whole(self.plugin.mount.as_str()),
            provider,
            Cell::whole(&component.to_string_lossy()),
            state,
        ]
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    plugins: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    mount: &'a str,
    component: &'a Path,
    /// Null if it could not be loaded.
    provider: Option<Provider<'a>>,
    /// Null if it could.
    error: Option<String>,
}

impl<'a> Line<'a> {
    fn of(checked: &'a Checked<'_>) -> Self {
        let loaded = checked.loaded.as_ref();
        Self {
            name: checked.plugin.name.as_str(),
            mount: checked.plugin.mount.as_str(),
            component: &checked.plugin.component,
            provider: loaded.ok().map(|plugin| plugin.info().into()),
            error: loaded.err().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Destination;

    fn plugin() -> config::Plugin {
        let mount = "notes:///".parse().unwrap();
        config::Plugin::new("notes".parse().unwrap(), "/srv/plugins/notes.wasm", mount)
    }

    fn broken(plugin: &config::Plugin) -> Checked<'_> {
        let found = "it is empty".to_owned();
        Checked { plugin, loaded: Err(LoadError::NotAComponent { file: "/srv/plugins/notes.wasm".into(), found }) }
    }

    #[test]
    fn an_error_is_told_in_full_below_the_table() {
        let plugin = plugin();
        let mut written = Vec::new();
        print(&[broken(&plugin)], &mut Output::to(&mut written, Destination::Pipe)).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "notes  notes:///  -  /srv/plugins/notes.wasm  error\n\
             \n\
             notes: /srv/plugins/notes.wasm is not a WebAssembly component: it is empty\n"
        );
    }

    #[test]
    fn a_component_below_the_working_directory_is_shown_as_it_would_be_written() {
        let plugin = plugin();
        let row = broken(&plugin).row(Path::new("/srv"));
        assert_eq!(row[3], Cell::whole("plugins/notes.wasm"));
    }

    #[test]
    fn json_says_of_each_plugin_either_what_it_is_or_why_it_is_not() {
        let plugin = plugin();
        let line = serde_json::to_value(Line::of(&broken(&plugin))).unwrap();
        assert_eq!(line["name"], "notes");
        assert_eq!(line["provider"], serde_json::Value::Null);
        assert!(line["error"].as_str().unwrap().ends_with("it is empty"));
    }
}
