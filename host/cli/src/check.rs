//! `check`: tests whether the config can be served. Loads and tries every plugin with
//! [`HostBuilder::check`](mcp_resource_host::HostBuilder::check).

mod report;

use mcp_host_engine::confinement::Confinement;
use mcp_resource_host::host::{CheckError, PluginCheck, Tried};

use self::report::JsonReport;
use super::confinement::ConfinementReport;
use super::context::Context;
use super::error::CliError;
use super::output::Output;
use super::provider::name_and_version;
use super::requirements;
use super::table::{Cell, Table};

const EXAMPLES: &str = "\
Exit codes: 0 all plugins work, 1 some do not (with --strict: or there are warnings), 2 the config is invalid.

Examples:
  mcp-host check
  mcp-host check --strict --config team.toml
  mcp-host check --json | jq -r '.plugins[] | select(.state != \"ok\") | .name'";

/// Validate the config, and load and try every plugin
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Treat warnings as errors: about grants, rules, principals, exposure, certificates and permissions of files
    #[arg(long)]
    strict: bool,

    /// Connect to no server: no upstream, no origin or database of a grant, no source of access tokens
    #[arg(long)]
    offline: bool,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) async fn run(self, confinement: &Confinement, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        let confinement = ConfinementReport::new(confinement, &config);
        let builder = context.builder(config);
        let report = if self.offline { builder.check_offline().await? } else { builder.check().await? };
        let mut config_warnings: Vec<_> = report.warnings.iter().map(ToString::to_string).collect();
        config_warnings.extend(confinement.warning());
        let mut output = context.output();
        if self.json {
            output.json(&JsonReport::new(&report.plugins, &config_warnings, &report.notes, &confinement))?;
        } else {
            print(&report.plugins, &config_warnings, &report.notes, &confinement, &mut output)?;
        }
        output.flush()?;
        let failed = report.plugins.iter().filter(|one| one.outcome.is_err()).count();
        let plugin_warnings = report.plugins.iter().map(|one| one.warnings().len());
        let warnings = plugin_warnings.fold(config_warnings.len(), usize::saturating_add);
        match (failed, warnings) {
            (0, 0) => Ok(()),
            (0, _) if !self.strict => Ok(()),
            (0, warnings) => Err(CliError::Strict { warnings }),
            (failed, _) => Err(CliError::Check { failed, total: report.plugins.len() }),
        }
    }
}

fn row(one: &PluginCheck) -> [Cell; 4] {
    let provider = one.provider.as_ref().map(|provider| name_and_version(&provider.info));
    let state = match &one.outcome {
        Err(CheckError::Load(_)) => Cell::error("not loaded"),
        Err(_) => Cell::error("failing"),
        Ok(Tried::Nothing) => Cell::warning("not asked"),
        Ok(Tried::Unprepared(_)) => Cell::warning("not prepared"),
        Ok(Tried::Listed(_)) => ok_cell(one.provider.iter().flat_map(|provider| provider.faults.values()).sum()),
    };
    [
        Cell::verbatim(one.plugin.name.as_str()),
        Cell::verbatim(one.plugin.mount.as_str()),
        Cell::optional(provider.as_deref()),
        state,
    ]
}

/// The state of a plugin that works, with the number of faults before that.
fn ok_cell(faults: u64) -> Cell {
    match faults {
        0 => Cell::ok("ok"),
        1 => Cell::warning("ok, 1 fault"),
        _ => Cell::warning(&format!("ok, {faults} faults")),
    }
}

fn print(
    all: &[PluginCheck],
    config_warnings: &[String],
    notes: &[String],
    confinement: &ConfinementReport,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    Table::new(["PLUGIN", "MOUNT", "PROVIDER", "STATE"]).print(all.iter().map(row).collect(), output)?;
    let grants: Vec<_> = all.iter().flat_map(grant_rows).collect();
    if !grants.is_empty() {
        output.line("")?;
        Table::new(["PLUGIN", "GRANT", "IMPORTS", "GRANTED", "STATUS"]).print(grants, output)?;
    }
    for one in all {
        if let Err(error) = &one.outcome {
            output.line("")?;
            output.prose(&format!("{}: {error}", one.plugin.name))?;
        }
        for message in one.warnings() {
            output.line("")?;
            output.prose(&format!("{}: warning: {message}", one.plugin.name))?;
        }
        if let Ok(Tried::Nothing) = one.outcome {
            output.line("")?;
            output.prose(&format!("{}: it was not asked: `--offline` connects to no upstream", one.plugin.name))?;
        }
        for note in one.notes() {
            output.line("")?;
            output.prose(&format!("{}: note: {note}", one.plugin.name))?;
        }
    }
    for message in config_warnings {
        output.line("")?;
        output.prose(&format!("warning: {message}"))?;
    }
    for note in notes {
        output.line("")?;
        output.prose(&format!("note: {note}"))?;
    }
    output.line("")?;
    Ok(output.prose(&confinement.to_string())?)
}

/// The imports of a plugin's component, compared with its grants. Only the first row has the plugin's name.
fn grant_rows(one: &PluginCheck) -> impl Iterator<Item = [Cell; 5]> + '_ {
    let names = std::iter::once(one.plugin.name.as_str()).chain(std::iter::repeat(""));
    let rows = one.provider.iter().flat_map(|provider| {
        let asked = provider.needs.as_ref().ok().and_then(Option::as_ref);
        requirements::rows(&provider.requirements, asked)
    });
    names
        .zip(rows)
        .map(|(name, [grant, imports, granted, status])| [Cell::verbatim(name), grant, imports, granted, status])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Destination;
    use mcp_host_config as config;
    use mcp_host_engine::ComponentError;
    use mcp_host_engine::plugin::LoadError;

    fn plugin() -> config::Plugin {
        let mount = "notes:///".parse().unwrap();
        config::Plugin::new("notes".parse().unwrap(), "/srv/plugins/notes.wasm", mount)
    }

    fn load_failed(plugin: config::Plugin) -> PluginCheck {
        let found = "it is empty".to_owned();
        let error =
            LoadError::Component(ComponentError::NotAComponent { file: "/srv/plugins/notes.wasm".into(), found });
        PluginCheck { plugin, provider: None, outcome: Err(error.into()), grant_warnings: Vec::new() }
    }

    #[test]
    fn an_error_is_told_in_full_below_the_table_and_warnings_and_notes_have_their_labels() {
        let mut written = Vec::new();
        let confinement = ConfinementReport::default();
        let mut output = Output::to(&mut written, Destination::Pipe);
        let one = PluginCheck { grant_warnings: vec!["take care".to_owned()], ..load_failed(plugin()) };
        print(&[one], &["look here".to_owned()], &["and there".to_owned()], &confinement, &mut output).unwrap();
        drop(output);
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "notes  notes:///  -  not loaded\n\
             \n\
             notes: /srv/plugins/notes.wasm is not a WebAssembly component: it is empty\n\
             \n\
             notes: warning: take care\n\
             \n\
             warning: look here\n\
             \n\
             note: and there\n\
             \n\
             confinement: no new privileges: no; seccomp: no; Landlock: no; compiler: none; server: none\n"
        );
    }

    #[test]
    fn json_says_of_each_plugin_either_what_it_is_or_why_it_is_not() {
        let report =
            serde_json::to_value(JsonReport::new(&[load_failed(plugin())], &[], &[], &ConfinementReport::default()))
                .unwrap();
        let line = &report["plugins"][0];
        assert_eq!((&line["name"], &line["state"]), (&"notes".into(), &"not-loaded".into()));
        for key in ["digest", "provider", "first_page_items", "faults", "requirements"] {
            assert_eq!(line.get(key), Some(&serde_json::Value::Null), "{key}");
        }
        assert!(line["error"].as_str().unwrap().ends_with("it is empty"));
    }
}
