//! The principals that may perform an operation on a resource, and the rules that decide.

use mcp_host_config::Operation;
use mcp_resource_host::host::{Judged, Party, WhoMay};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::escape;
use crate::output::Output;
use crate::table::{Cell, Table};

/// Prints a row for each principal.
pub(super) fn print(
    found: &WhoMay,
    operation: Operation,
    file: &str,
    as_json: bool,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let WhoMay { uri, plugin, served, allowed, denied, is_cut, .. } = found;
    if as_json {
        let all = |judged: &[Judged]| judged.iter().map(|one| to_json(one, file)).collect::<Vec<_>>();
        let view = json!({
            "uri": uri.as_str(), "plugin": plugin, "operation": operation.name(), "served": served.name(),
            "served_at": served.at().map(|uri| uri.as_str()), "allowed": all(allowed), "denied": all(denied), "cut": is_cut,
        });
        return Ok(output.line(&view.to_string())?);
    }
    output.line(&format!("{operation}  {}", escape::line(uri.as_str())))?;
    if let Some(uri) = served.at() {
        output.prose(&format!("This spelling is not served; the resource is {}.", escape::line(uri.as_str())))?;
    }
    let rows = allowed.iter().map(|one| row(one, file)).chain(denied.iter().map(|one| row(one, file)));
    Table::without_headings().print(rows.collect(), output)?;
    let others = allowed.iter().any(|one| one.party == Party::Others);
    output.prose(match (allowed.is_empty(), others) {
        (true, _) => "Nobody may: no rule allows it.",
        (false, true) => "Everyone may whom nothing denies it. A group is judged as somebody who is in it and in no other.",
        (false, false) => {
            "Everyone else is denied it, as no rule allows it. A rule that names a member of a group, or another group of the \
             member, may deny what the group is allowed."
        }
    })?;
    if *is_cut {
        output.prose("The config names more principals and groups than were judged.")?;
    }
    Ok(())
}

fn row(judged: &Judged, file: &str) -> [Cell; 3] {
    let Judged { party, decision, line, .. } = judged;
    let verdict = if decision.is_allowed() { Cell::ok("allowed") } else { Cell::error("denied") };
    let who = match party {
        Party::Principal(name) => name.clone(),
        Party::Group(name) => format!("group {name}"),
        _ => "all whom the config does not name".to_owned(),
    };
    let key = if decision.is_allowed() { "allow" } else { "deny" };
    let reason = match decision.glob() {
        Some(glob) => format!("`{key}` has `{}`{}", glob.glob, super::place(file, *line)),
        None => "no rule denies it, and no rule allows `local` something by name".to_owned(),
    };
    [verdict, Cell::text(&who), Cell::verbatim(&reason)]
}

fn to_json(judged: &Judged, file: &str) -> Value {
    let Judged { party, decision, decided, line, .. } = judged;
    let rule = decision.glob().map(|glob| {
        let key = if decision.is_allowed() { "allow" } else { "deny" };
        json!({ "number": glob.rule.saturating_add(1), "file": file, "line": line, "key": key, "glob": &*glob.glob })
    });
    json!({ "kind": party.kind(), "name": party.name(), "decided": decided.name(), "rule": rule })
}
