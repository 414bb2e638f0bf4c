//! `check`: would the config serve all that it names?
//!
//! Every plugin is loaded as `serve` would, and then tried: its component is read, compiled if need be, linked, asked to
//! describe itself and for the first page of its listing, with the plugin's grants and limits. What is kept for it and for the
//! host (the databases of buckets, the key for cursors) is opened where it exists. Nothing is served, and nothing is written but compiled components and what a provider itself writes to a bucket.

mod report;

use futures::future::join_all;

use self::report::Report;
use super::context::Context;
use super::failure::Failure;
use super::needs;
use super::output::Output;
use super::provider::release;
use super::table::{Cell, Table};
use crate::catalog::CursorKey;
use crate::config::{self, Config};
use crate::host::{Dirs, StartError};
use crate::plugin::{Compiler, Fault, LoadError, Plugin, Plugins};

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
    /// Take warnings for errors: a grant that is missing, or granted for nothing; a rule that matches no mount
    #[arg(long)]
    strict: bool,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        let config = context.config()?;
        let dirs = Dirs::of(&config.server);
        let state = dirs.state_for(&config)?;
        if config.server.cursor_key.is_none() {
            CursorKey::check(&dirs.state()?).map_err(StartError::from)?;
        }
        let limits = config.server.compile.clone();
        let plugins = Plugins::start(Compiler::default(), limits, &dirs.cache()?, state, context.progress())
            .map_err(StartError::from)?;
        let tried = config.plugins.iter().map(|plugin| Tried::of(plugin, &plugins, &config));
        let mut all = join_all(tried).await;
        all.sort_by_key(|one| one.plugin.name.as_str());
        let of_config: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        let mut output = context.output();
        if self.json {
            output.json(&Report::of(&all, &of_config))?;
        } else {
            print(&all, &of_config, &mut output)?;
        }
        output.flush()?;
        let broken = all.iter().filter(|one| one.error().is_some()).count();
        let warnings = all.iter().map(|one| one.warnings().len()).fold(of_config.len(), usize::saturating_add);
        match (broken, warnings) {
            (0, 0) => Ok(()),
            (0, _) if !self.strict => Ok(()),
            (0, warnings) => Err(Failure::Strict { warnings }),
            (broken, _) => Err(Failure::Check { broken, all: all.len() }),
        }
    }
}

/// A plugin of the config, and what came of trying it.
struct Tried<'a> {
    plugin: &'a config::Plugin,
    state: State,
}

/// What came of trying a plugin.
enum State {
    /// It is not loaded.
    NotLoaded(LoadError),
    /// It is loaded, and what it has kept cannot be used.
    NoStore(Box<Plugin>, String),
    /// It is loaded, and its listing fails.
    Fails(Box<Plugin>, Fault),
    /// It works: so many are on its first page.
    Works(Box<Plugin>, usize),
}

impl<'a> Tried<'a> {
    async fn of(plugin: &'a config::Plugin, plugins: &Plugins, config: &Config) -> Self {
        let page = u32::try_from(config.server.page_size.get()).unwrap_or(u32::MAX);
        let state = match plugins.load(plugin).await {
            Err(error) => State::NotLoaded(error),
            Ok(loaded) => Self::try_out(loaded, page).await,
        };
        Self { plugin, state }
    }

    async fn try_out(loaded: Plugin, page: u32) -> State {
        // First what lasts: a provider may go without it, or tell less of what is wrong.
        if let Err(reason) = loaded.check_stores().await {
            return State::NoStore(Box::new(loaded), reason);
        }
        match loaded.list(None, None, page, |_| false).await {
            Err(fault) => State::Fails(Box::new(loaded), fault),
            Ok(page) => State::Works(Box::new(loaded), page.size),
        }
    }

    fn loaded(&self) -> Option<&Plugin> {
        match &self.state {
            State::NotLoaded(_) => None,
            State::NoStore(loaded, _) | State::Fails(loaded, _) | State::Works(loaded, _) => Some(loaded),
        }
    }

    /// Why it does not work, if it does not.
    fn error(&self) -> Option<String> {
        match &self.state {
            State::NotLoaded(error) => Some(error.to_string()),
            State::NoStore(_, reason) => Some(format!("its key-value store cannot be used: {reason}")),
            State::Fails(_, fault) => Some(format!("its listing fails: {fault}")),
            State::Works(..) => None,
        }
    }

    /// What should be looked at, though it works.
    fn warnings(&self) -> Vec<String> {
        self.loaded().map(|loaded| loaded.needs().warnings().collect()).unwrap_or_default()
    }

    fn row(&self) -> [Cell; 4] {
        let provider = self.loaded().map(|loaded| release(loaded.info()));
        let state = match &self.state {
            State::NotLoaded(_) => Cell::bad("not loaded"),
            State::NoStore(..) | State::Fails(..) => Cell::bad("fails"),
            State::Works(loaded, _) => works(loaded.faults().into_values().sum()),
        };
        [
            Cell::whole(self.plugin.name.as_str()),
            Cell::whole(self.plugin.mount.as_str()),
            Cell::optional(provider.as_deref()),
            state,
        ]
    }
}

/// That it works, but for what its provider did wrong on the way.
fn works(faults: u64) -> Cell {
    match faults {
        0 => Cell::good("ok"),
        1 => Cell::doubtful("ok, 1 fault"),
        _ => Cell::doubtful(&format!("ok, {faults} faults")),
    }
}

fn print(all: &[Tried<'_>], of_config: &[String], output: &mut Output<'_>) -> Result<(), Failure> {
    Table::new(["PLUGIN", "MOUNT", "PROVIDER", "STATE"]).print(all.iter().map(Tried::row).collect(), output)?;
    let needs: Vec<_> = all.iter().flat_map(grants).collect();
    if !needs.is_empty() {
        output.line("")?;
        Table::new(["PLUGIN", "GRANT", "IMPORTS", "GRANTED", "STANDING"]).print(needs, output)?;
    }
    for one in all {
        for message in one.error().into_iter().chain(one.warnings()) {
            output.line("")?;
            output.text(&format!("{}: {message}", one.plugin.name))?;
        }
    }
    for message in of_config {
        output.line("")?;
        output.text(message)?;
    }
    Ok(())
}

/// What a plugin's component imports against what it is granted, of which only the first row has its name.
fn grants<'a>(one: &'a Tried<'_>) -> impl Iterator<Item = [Cell; 5]> + 'a {
    let names = std::iter::once(one.plugin.name.as_str()).chain(std::iter::repeat(""));
    let rows = one.loaded().into_iter().flat_map(|loaded| needs::rows(loaded.needs()));
    names
        .zip(rows)
        .map(|(name, [grant, imports, granted, standing])| [Cell::whole(name), grant, imports, granted, standing])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Destination;

    fn plugin() -> config::Plugin {
        let mount = "notes:///".parse().unwrap();
        config::Plugin::new("notes".parse().unwrap(), "/srv/plugins/notes.wasm", mount)
    }

    fn broken(plugin: &config::Plugin) -> Tried<'_> {
        let found = "it is empty".to_owned();
        let error = LoadError::NotAComponent { file: "/srv/plugins/notes.wasm".into(), found };
        Tried { plugin, state: State::NotLoaded(error) }
    }

    #[test]
    fn an_error_is_told_in_full_below_the_table() {
        let plugin = plugin();
        let mut written = Vec::new();
        print(&[broken(&plugin)], &["look here".to_owned()], &mut Output::to(&mut written, Destination::Pipe)).unwrap();
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
        let report = serde_json::to_value(Report::of(&[broken(&plugin)], &[])).unwrap();
        let line = &report["plugins"][0];
        assert_eq!((&line["name"], &line["state"]), (&"notes".into(), &"not-loaded".into()));
        for key in ["digest", "provider", "listed", "faults", "needs"] {
            assert_eq!(line.get(key), Some(&serde_json::Value::Null), "{key}");
        }
        assert!(line["error"].as_str().unwrap().ends_with("it is empty"));
    }
}
