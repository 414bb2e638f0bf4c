//! `explain`: the rule that decides an operation, from the config alone. No plugin is loaded.

mod who;

use mcp_host_config::issuer::Scope;
use mcp_host_config::{Config, Operation, Rule, UriGlob};
use mcp_host_model::resource::Error;
use mcp_resource_host::access::{Access, Decision, Principal};
use mcp_resource_host::host::{Explanation, MountDecision, Served, WhoMay};
use serde_json::{Map, Value, json};

use super::context::Context;
use super::error::CliError;
use super::escape;
use super::hint;
use super::options::{PrincipalArgs, parse_uri};
use super::output::Output;

const EXAMPLES: &str = "\
Exit codes: 0 if the operation is allowed, 1 if it is denied; with `--who`, 0 if any principal is allowed.

Examples:
  mcp-host explain git://linux/blob/main/README
  mcp-host explain --as ci --op list git://linux/tree/main
  mcp-host explain --as corp/ada --group corp/engineering notes:///plan.md
  mcp-host explain --who notes:///plan.md      who may read it, and by which rule
  mcp-host explain --as ci                     all rules that apply to `ci`";

/// Explain which rule decides what a principal may do
///
/// Without a URI, prints the rules that apply to the principal. Only the config counts, not the state of a running
/// server, such as a plugin that is not loaded.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The resource
    #[arg(value_name = "URI", value_parser = parse_uri)]
    uri: Option<String>,

    /// The operation: list, templates, read, metadata, complete or subscribe
    #[arg(long = "op", value_name = "OPERATION", default_value = "read", value_parser = operation)]
    operation: Operation,

    /// List the principals, groups and others that the rules allow or deny the operation, each with the rule that
    /// decides
    #[arg(long, requires = "uri", conflicts_with_all = ["name", "groups"])]
    who: bool,

    #[command(flatten)]
    principal_args: PrincipalArgs,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the name of an operation.
pub(super) fn operation(name: &str) -> Result<Operation, String> {
    let found = Operation::ALL.into_iter().find(|operation| operation.name() == name);
    found.ok_or_else(|| format!("write one of {}", Operation::ALL.map(Operation::name).join(", ")))
}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config_without_secrets()?;
        if let Some(uri) = self.uri.as_ref().filter(|_| self.who) {
            let found =
                WhoMay::by_config(&config, self.operation, uri).map_err(|error| unmounted(&config, uri, error))?;
            let mut output = context.output();
            let file = context.config_file().display().to_string();
            who::print(&found, self.operation, &file, self.json, &mut output)?;
            output.flush()?;
            return if found.allowed.is_empty() { Err(CliError::NegativeAnswer) } else { Ok(()) };
        }
        let principal = self.principal_args.principal(&config, &context.messages)?;
        let mut output = context.output();
        let Some(uri) = &self.uri else {
            print_view(&config, &principal, self.json, &mut output)?;
            return Ok(output.flush()?);
        };
        if let Some((plugin, decision)) = Explanation::of_mount(&config, &principal, self.operation, uri) {
            print_mount(uri, &plugin, decision, &principal, self.operation, self.json, &mut output)?;
            output.flush()?;
            return if decision == MountDecision::None { Err(CliError::NegativeAnswer) } else { Ok(()) };
        }
        let explanation = Explanation::by_config(&config, &principal, self.operation, uri)
            .map_err(|error| unmounted(&config, uri, error))?;
        let file = context.config_file().display().to_string();
        if self.json {
            output.line(&to_json(&explanation, &principal, self.operation, &file).to_string())?;
        } else {
            print(&explanation, &principal, self.operation, &file, &mut output)?;
        }
        output.flush()?;
        if explanation.is_allowed() { Ok(()) } else { Err(CliError::NegativeAnswer) }
    }
}

/// The error for a URI that no rule decides, with a hint if no mount owns the URI.
fn unmounted(config: &Config, uri: &str, error: Error) -> CliError {
    let hint = hint::for_unroutable(config, uri, &error);
    CliError::Resource { error, hint }
}

/// Prints the decisions of the rules below a prefix mount (`NAME+`).
fn print_mount(
    mount: &str,
    plugin: &str,
    decision: MountDecision,
    principal: &Principal,
    operation: Operation,
    as_json: bool,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let (name, verdict) = match decision {
        MountDecision::All => ("all", "allowed: the rules allow all resources below it"),
        MountDecision::Some => {
            ("some", "it depends on the resource: the rules allow some below it, and may deny others")
        }
        MountDecision::None => ("none", "denied: the rules allow no resource below it"),
    };
    if as_json {
        let view = json!({
            "principal": principal.name(), "operation": operation.name(), "mount": mount, "plugin": plugin, "resources": name,
        });
        return Ok(output.line(&view.to_string())?);
    }
    output.line(verdict)?;
    output.line(&format!("principal  {}", escape::line(principal.name())))?;
    output.line(&format!("operation  {operation}"))?;
    output.line(&format!("mount      {}", escape::line(mount)))?;
    Ok(output.line(&format!("plugin     {plugin}"))?)
}

fn print(
    explanation: &Explanation,
    principal: &Principal,
    operation: Operation,
    file: &str,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let Explanation { uri, plugin, path, groups, scopes, decision, decided, line, served, .. } = explanation;
    let verdict = if decision.is_allowed() { "allowed" } else { "denied" };
    let reason = match decision {
        Decision::Allowed(glob) => format!("`allow` has `{}`{}", escape::line(&glob.glob), place(file, *line)),
        Decision::Denied(glob) => format!("`deny` has `{}`{}", escape::line(&glob.glob), place(file, *line)),
        Decision::AllowedByDefault => "no rule denies it, and no rule allows `local` something by name".to_owned(),
        _ => "no rule allows it".to_owned(),
    };
    let of_other = match decided == &operation {
        true => String::new(),
        false => format!(" (for `{decided}`, which `{operation}` requires, too)"),
    };
    match served {
        Served::At(uri) => {
            let uri = escape::line(uri.as_str());
            output
                .prose(&format!("not found: this spelling is not served; the resource is {uri}. The rules decide:"))?;
        }
        Served::Nowhere => {
            output.prose("not found: nothing outside of the prefix of the upstream is served. The rules decide:")?
        }
        _ => {}
    }
    output.line(&format!("{verdict}: {reason}{of_other}"))?;
    if *served == Served::OnlyIfListed {
        output.prose("It is found only if the upstream lists it: a server may take this for another resource.")?;
    }
    output.line(&format!("principal  {}", escape::line(principal.name())))?;
    if !groups.is_empty() {
        output.line(&format!("groups     {}", escape::line(&groups.join(", "))))?;
    }
    output.line(&format!("operation  {operation}"))?;
    if !scopes.is_empty() {
        output.line(&format!("scopes     {}, which the token needs beside", names(scopes).join(", ")))?;
    }
    output.line(&format!("URI        {}", escape::line(uri.as_str())))?;
    output.line(&format!("plugin     {plugin}"))?;
    output.line(&format!("path       {}", escape::line(path.as_str())))?;
    Ok(())
}

fn names(scopes: &[Scope]) -> Vec<&str> {
    scopes.iter().map(Scope::as_str).collect()
}

fn place(file: &str, line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", in the rule at {}:{line}", escape::line(file)))
}

fn to_json(explanation: &Explanation, principal: &Principal, operation: Operation, file: &str) -> Value {
    let Explanation { uri, plugin, path, groups, scopes, decision, decided, line, served, .. } = explanation;
    let mut members = Map::new();
    members.insert("allowed".to_owned(), explanation.is_allowed().into());
    members.insert("principal".to_owned(), principal.name().into());
    members.insert("groups".to_owned(), json!(groups));
    members.insert("operation".to_owned(), operation.name().into());
    members.insert("decided".to_owned(), decided.name().into());
    members.insert("scopes".to_owned(), json!(names(scopes)));
    members.insert("uri".to_owned(), uri.as_str().into());
    members.insert("served".to_owned(), served.name().into());
    if let Some(uri) = served.at() {
        members.insert("served_at".to_owned(), uri.as_str().into());
    }
    members.insert("plugin".to_owned(), plugin.as_str().into());
    members.insert("path".to_owned(), path.as_str().into());
    let rule = decision.glob().map(|glob| {
        let key = if decision.is_allowed() { "allow" } else { "deny" };
        json!({ "number": glob.rule.saturating_add(1), "file": file, "line": line, "key": key, "glob": &*glob.glob })
    });
    members.insert("rule".to_owned(), json!(rule));
    Value::Object(members)
}

/// Prints the rules that apply to a principal.
fn print_view(config: &Config, principal: &Principal, as_json: bool, output: &mut Output<'_>) -> Result<(), CliError> {
    let access = Access::new(config);
    let policy = access.policy(principal);
    let groups: Vec<_> = access.groups(principal).collect();
    let rules = policy.rules().filter_map(|index| Some((index, config.rules.get(index)?)));
    if as_json {
        let rules: Vec<_> = rules.map(|(index, rule)| rule_json(index, rule)).collect();
        let view = json!({
            "principal": principal.name(), "groups": groups, "rules": rules, "default": default_text(policy.allows_by_default()),
        });
        return Ok(output.line(&view.to_string())?);
    }
    output.line(&format!("principal  {}", escape::line(principal.name())))?;
    if !groups.is_empty() {
        output.line(&format!("groups     {}", escape::line(&groups.join(", "))))?;
    }
    for (index, rule) in rules {
        let number = index.saturating_add(1);
        let line = rule.line.get().map_or_else(String::new, |line| format!(", line {line}"));
        let all = rule.operations.len() == Operation::ALL.len();
        let names: Vec<_> = rule.operations.iter().map(|operation| operation.name()).collect();
        let operations = if all { "all operations".to_owned() } else { names.join(", ") };
        output.line(&format!("rule {number}{line}: {operations}"))?;
        for (key, globs) in [("allow", &rule.allow), ("deny", &rule.deny)] {
            for glob in globs {
                output.line(&format!("  {key:5}  {}", escape::line(glob.as_str())))?;
            }
        }
    }
    output.line(&format!("otherwise  {}", default_text(policy.allows_by_default())))?;
    Ok(())
}

fn default_text(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}

fn rule_json(index: usize, rule: &Rule) -> Value {
    let globs = |globs: &[UriGlob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect::<Vec<_>>();
    json!({
        "number": index.saturating_add(1),
        "line": rule.line.get(),
        "operations": rule.operations.iter().map(|operation| operation.name()).collect::<Vec<_>>(),
        "allow": globs(&rule.allow),
        "deny": globs(&rule.deny),
    })
}
