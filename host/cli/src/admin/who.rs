//! `admin explain --who`: which principals may perform an operation on a resource, by the rules of the running server.

use mcp_host_server::admin_api::{WhoMay, WhoView};

use crate::error::CliError;
use crate::escape;
use crate::output::Output;
use crate::table::{Cell, Table};

/// Prints a row for each principal and group that the rules allow or deny the operation.
pub(super) fn print(found: &WhoView, output: &mut Output<'_>) -> Result<(), CliError> {
    let WhoView { uri, operation, served_at, allowed, denied, cut, .. } = found;
    output.line(&escape::line(&format!("{operation}  {uri}")))?;
    if let Some(uri) = served_at {
        output.prose(&format!("This spelling is not served; the resource is {}.", escape::line(uri)))?;
    }
    let rows = allowed.items.iter().map(|one| row(one, true)).chain(denied.items.iter().map(|one| row(one, false)));
    Table::without_headings().print(rows.collect(), output)?;
    let others = allowed.items.iter().any(|one| one.kind == "others");
    output.prose(match (allowed.total == 0, others) {
        (true, _) => "Nobody may: no rule allows it.",
        (false, true) => "Everyone may whom nothing denies it.",
        (false, false) => {
            "Everyone else is denied it, as no rule allows it. A rule that names a member of a group, or another group of the \
             member, may deny what the group is allowed."
        }
    })?;
    let shown = allowed.items.len().saturating_add(denied.items.len());
    let more = allowed.total.saturating_add(denied.total).saturating_sub(shown);
    if more > 0 {
        output.prose(&format!("{more} more are left out."))?;
    }
    if *cut {
        output.prose("The config names more principals and groups than were judged.")?;
    }
    Ok(())
}

fn row(who: &WhoMay, is_allowed: bool) -> [Cell; 3] {
    let verdict = if is_allowed { Cell::ok("allowed") } else { Cell::error("denied") };
    let name = who.name.as_deref().unwrap_or_default();
    let party = match who.kind.as_str() {
        "principal" => name.to_owned(),
        "group" => format!("group {name}"),
        _ => "all whom the config does not name".to_owned(),
    };
    let reason = match &who.rule {
        Some(rule) => {
            let line = rule.line.map(|line| format!(", line {line} of the config")).unwrap_or_default();
            format!("`{}` has `{}`{line}", rule.key, rule.glob)
        }
        None => "no rule denies it, and no rule allows `local` something by name".to_owned(),
    };
    [verdict, Cell::text(&party), Cell::verbatim(&reason)]
}
