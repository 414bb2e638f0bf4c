//! `check`: would the config serve all that it names?
//!
//! Every plugin is loaded as `serve` would, and then tried: its component is read, compiled if need be, linked, asked to
//! describe itself and for the first page of its listing, with the plugin's grants and limits. What is kept for it and for the
//! host (the databases of buckets, the key for cursors) is opened where it exists. Nothing is served, and nothing is written but compiled components and what a provider itself writes to a bucket.

mod report;

use futures::future::join_all;

use self::report::CheckReport;
use super::context::Context;
use super::error::CliError;
use super::output::Output;
use super::provider::name_and_version;
use super::requirements;
use super::table::{Cell, Table};
use crate::catalog::CursorKey;
use crate::config::{self, Config};
use crate::engine::Compiler;
use crate::host::{DataDirs, StartError};
use crate::plugin::{Fault, LoadError, Plugin, PluginRuntime};

const EXAMPLES: &str = "\
Exit codes: 0 all plugins work, 1 some do not (with --strict: or there are warnings), 2 the config is wrong.

Examples:
  mcp-host check
  mcp-host check --strict --config team.toml
  mcp-host check --json | jq -r '.plugins[] | select(.state != \"ok\") | .name'";

/// Check the config, and try every plugin that it names
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Take warnings for errors: a grant that is missing, or granted but unused; a rule that matches no mount
    #[arg(long)]
    strict: bool,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        let dirs = DataDirs::from_config(&config.server);
        let state = dirs.state_for(&config)?;
        if config.server.cursor_key.is_none() {
            CursorKey::check(&dirs.state()?).map_err(StartError::from)?;
        }
        let limits = config.server.compile.clone();
        let plugins = PluginRuntime::start(Compiler::default(), limits, &dirs.cache()?, state, context.progress())
            .map_err(StartError::from)?;
        let checks = config.plugins.iter().map(|plugin| PluginCheck::run(plugin, &plugins, &config));
        let mut all = join_all(checks).await;
        all.sort_by_key(|one| one.plugin.name.as_str());
        let config_warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        let mut output = context.output();
        if self.json {
            output.json(&CheckReport::new(&all, &config_warnings))?;
        } else {
            print(&all, &config_warnings, &mut output)?;
        }
        output.flush()?;
        let failed = all.iter().filter(|one| one.error().is_some()).count();
        let warnings = all.iter().map(|one| one.warnings().len()).fold(config_warnings.len(), usize::saturating_add);
        match (failed, warnings) {
            (0, 0) => Ok(()),
            (0, _) if !self.strict => Ok(()),
            (0, warnings) => Err(CliError::Strict { warnings }),
            (failed, _) => Err(CliError::Check { failed, total: all.len() }),
        }
    }
}

/// A plugin of the config, and what came of trying it.
struct PluginCheck<'a> {
    plugin: &'a config::Plugin,
    state: CheckState,
}

/// What came of trying a plugin.
enum CheckState {
    /// It is not loaded.
    LoadFailed(LoadError),
    /// It is loaded, and what it has kept cannot be used.
    StoreFailed(Box<Plugin>, String),
    /// It is loaded, and its listing fails.
    ListingFailed(Box<Plugin>, Fault),
    /// It works: so many are on its first page.
    Ok(Box<Plugin>, usize),
}

impl<'a> PluginCheck<'a> {
    async fn run(plugin: &'a config::Plugin, plugins: &PluginRuntime, config: &Config) -> Self {
        let page = u32::try_from(config.server.page_size.get()).unwrap_or(u32::MAX);
        let state = match plugins.load(plugin).await {
            Err(error) => CheckState::LoadFailed(error),
            Ok(loaded) => Self::check_loaded(loaded, page).await,
        };
        Self { plugin, state }
    }

    async fn check_loaded(loaded: Plugin, page: u32) -> CheckState {
        // First what lasts: a provider may go without it, or tell less of what is wrong.
        if let Err(reason) = loaded.check_stores().await {
            return CheckState::StoreFailed(Box::new(loaded), reason);
        }
        match loaded.list(None, None, page, |_| false).await {
            Err(fault) => CheckState::ListingFailed(Box::new(loaded), fault),
            Ok(page) => CheckState::Ok(Box::new(loaded), page.size),
        }
    }

    fn loaded(&self) -> Option<&Plugin> {
        match &self.state {
            CheckState::LoadFailed(_) => None,
            CheckState::StoreFailed(loaded, _) | CheckState::ListingFailed(loaded, _) | CheckState::Ok(loaded, _) => {
                Some(loaded)
            }
        }
    }

    /// Why it does not work, if it does not.
    fn error(&self) -> Option<String> {
        match &self.state {
            CheckState::LoadFailed(error) => Some(error.to_string()),
            CheckState::StoreFailed(_, reason) => Some(format!("its key-value store cannot be used: {reason}")),
            CheckState::ListingFailed(_, fault) => Some(format!("its listing fails: {fault}")),
            CheckState::Ok(..) => None,
        }
    }

    /// What should be looked at, though it works.
    fn warnings(&self) -> Vec<String> {
        self.loaded().map(|loaded| loaded.requirements().warnings().collect()).unwrap_or_default()
    }

    fn row(&self) -> [Cell; 4] {
        let provider = self.loaded().map(|loaded| name_and_version(loaded.info()));
        let state = match &self.state {
            CheckState::LoadFailed(_) => Cell::error("not loaded"),
            CheckState::StoreFailed(..) | CheckState::ListingFailed(..) => Cell::error("failing"),
            CheckState::Ok(loaded, _) => ok_cell(loaded.faults().into_values().sum()),
        };
        [
            Cell::verbatim(self.plugin.name.as_str()),
            Cell::verbatim(self.plugin.mount.as_str()),
            Cell::optional(provider.as_deref()),
            state,
        ]
    }
}

/// That it works, but for what its provider did wrong on the way.
fn ok_cell(faults: u64) -> Cell {
    match faults {
        0 => Cell::ok("ok"),
        1 => Cell::warning("ok, 1 fault"),
        _ => Cell::warning(&format!("ok, {faults} faults")),
    }
}

fn print(all: &[PluginCheck<'_>], config_warnings: &[String], output: &mut Output<'_>) -> Result<(), CliError> {
    Table::new(["PLUGIN", "MOUNT", "PROVIDER", "STATE"]).print(all.iter().map(PluginCheck::row).collect(), output)?;
    let grants: Vec<_> = all.iter().flat_map(grant_rows).collect();
    if !grants.is_empty() {
        output.line("")?;
        Table::new(["PLUGIN", "GRANT", "IMPORTS", "GRANTED", "STATUS"]).print(grants, output)?;
    }
    for one in all {
        for message in one.error().into_iter().chain(one.warnings()) {
            output.line("")?;
            output.text(&format!("{}: {message}", one.plugin.name))?;
        }
    }
    for message in config_warnings {
        output.line("")?;
        output.text(message)?;
    }
    Ok(())
}

/// What a plugin's component imports against what it is granted, of which only the first row has its name.
fn grant_rows<'a>(one: &'a PluginCheck<'_>) -> impl Iterator<Item = [Cell; 5]> + 'a {
    let names = std::iter::once(one.plugin.name.as_str()).chain(std::iter::repeat(""));
    let rows = one.loaded().into_iter().flat_map(|loaded| requirements::rows(loaded.requirements()));
    names
        .zip(rows)
        .map(|(name, [grant, imports, granted, status])| [Cell::verbatim(name), grant, imports, granted, status])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Destination;
    use crate::engine::ComponentError;

    fn plugin() -> config::Plugin {
        let mount = "notes:///".parse().unwrap();
        config::Plugin::new("notes".parse().unwrap(), "/srv/plugins/notes.wasm", mount)
    }

    fn load_failed(plugin: &config::Plugin) -> PluginCheck<'_> {
        let found = "it is empty".to_owned();
        let error =
            LoadError::Component(ComponentError::NotAComponent { file: "/srv/plugins/notes.wasm".into(), found });
        PluginCheck { plugin, state: CheckState::LoadFailed(error) }
    }

    #[test]
    fn an_error_is_told_in_full_below_the_table() {
        let plugin = plugin();
        let mut written = Vec::new();
        print(&[load_failed(&plugin)], &["look here".to_owned()], &mut Output::to(&mut written, Destination::Pipe))
            .unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "notes  notes:///  -  not loaded\n\
             \n\
             notes: /srv/plugins/notes.wasm is not a WebAssembly component: it is empty\n\
             \n\
             look here\n"
        );
    }

    #[test]
    fn json_says_of_each_plugin_either_what_it_is_or_why_it_is_not() {
        let plugin = plugin();
        let report = serde_json::to_value(CheckReport::new(&[load_failed(&plugin)], &[])).unwrap();
        let line = &report["plugins"][0];
        assert_eq!((&line["name"], &line["state"]), (&"notes".into(), &"not-loaded".into()));
        for key in ["digest", "provider", "first_page_items", "faults", "requirements"] {
            assert_eq!(line.get(key), Some(&serde_json::Value::Null), "{key}");
        }
        assert!(line["error"].as_str().unwrap().ends_with("it is empty"));
    }
}
