//! `outdated`: which locked components have newer versions.

use mcp_host_registry::Registries;
use serde_json::json;

use super::{NO_REFERENCES, Project, RegistryCommandError};
use crate::context::Context;
use crate::error::CliError;
use crate::table::{Cell, Table};

const EXAMPLES: &str = "\
Nothing is downloaded, verified or changed. `WITHIN` is the newest version within the range of the config, `NEWEST` the newest release.

Examples:
  mcp-host outdated
  mcp-host outdated --json | jq -r '.outdated[].source'";

/// List components from registries that have newer versions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let project = Project::load(context)?;
        let lock = project.open_lock()?.lock;
        let registries = Registries::new(&project.config);
        let (mut rows, mut objects, mut count) = (Vec::new(), Vec::new(), 0_usize);
        for reference in project.references() {
            let available = registries.available(&reference).await.map_err(RegistryCommandError::from)?;
            let locked = lock.get(&reference).and_then(|locked| locked.version.clone());
            count = count.saturating_add(1);
            let shown = |version: Option<&dyn ToString>| {
                Cell::verbatim(&version.map_or_else(|| "-".to_owned(), ToString::to_string))
            };
            if available.newest.as_ref() > locked.as_ref() || locked.is_none() {
                let within = available.within.as_ref().map(|version| version as &dyn ToString);
                let newest = available.newest.as_ref().map(|version| version as &dyn ToString);
                let locked = locked.as_ref().map(|version| version as &dyn ToString);
                let text = |version: Option<&dyn ToString>| version.map(ToString::to_string);
                objects.push(json!({
                    "source": reference.to_string(), "locked": text(locked), "within": text(within), "newest": text(newest),
                }));
                rows.push([Cell::verbatim(&reference.to_string()), shown(locked), shown(within), shown(newest)]);
            }
        }
        let mut output = context.output();
        if self.json {
            output.json(&json!({ "components": count, "outdated": objects }))?;
            return Ok(output.flush()?);
        }
        if rows.is_empty() {
            let newest = "all components from registries are the newest";
            context.messages.note(if count == 0 { NO_REFERENCES } else { newest });
            return Ok(());
        }
        Table::new(["COMPONENT", "LOCKED", "WITHIN", "NEWEST"]).print(rows, &mut output)?;
        Ok(output.flush()?)
    }
}
