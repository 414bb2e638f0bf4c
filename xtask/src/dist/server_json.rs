//! `server.json`, the description of a release for the MCP registry: the npm and PyPI packages, the bundle, and the
//! image.
//!
//! [`validate`] checks it against the schema of 2025-12-11.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::platforms::Platform;
use super::publication::{DESCRIPTION, NAME, Publication};
use super::{Packaging, mcpb, set, sha256, write};

/// The name of the file.
pub(super) const FILE: &str = "server.json";

const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// The maximum number of characters of a title or a description.
const MAX_TEXT: usize = 100;

/// The maximum number of characters of a version.
const MAX_VERSION: usize = 255;

/// Writes `server.json`.
pub(super) fn package(packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { version, publication, out, progress, .. } = packaging;
    let step = progress.step("writing server.json");
    let bundle = mcpb::file(&version.number, &Platform::of(&version.target)?);
    let digest = sha256(&out.join(&bundle))?;
    let server = server(&version.number, publication, &bundle, &digest);
    validate(&server)?;
    write(&out.join(FILE), format!("{server:#}\n").as_bytes())?;
    step.done(&format!("wrote {FILE}"));
    Ok(())
}

fn server(version: &str, publication: &Publication, bundle: &str, digest: &str) -> Value {
    let stdio = json!({ "type": "stdio" });
    let arguments = json!([
        { "type": "positional", "value": "serve" },
        { "type": "named", "name": "--stdio" },
        {
            "type": "positional", "valueHint": "folder", "description": "A folder, a git repository or a database of SQLite, served read-only",
            "format": "filepath", "isRequired": true, "isRepeated": true,
        },
    ]);
    let mut packages = vec![
        json!({
            "registryType": "npm", "identifier": NAME, "version": version, "transport": stdio, "runtimeHint": "npx",
            "packageArguments": arguments,
        }),
        json!({
            "registryType": "pypi", "identifier": NAME, "version": version, "transport": stdio, "runtimeHint": "uvx",
            // The program and the package have different names.
            "runtimeArguments": [
                { "type": "named", "name": "--from", "value": format!("{NAME}=={version}") },
                { "type": "positional", "value": "mcp-host" },
            ],
            "packageArguments": arguments,
        }),
        json!({
            "registryType": "mcpb", "identifier": publication.file(version, bundle), "version": version, "fileSha256": digest,
            "transport": stdio,
        }),
    ];
    if let Some(image) = publication.image(version) {
        let folder = json!({ "description": "A folder to serve, read-only", "format": "filepath", "isRequired": true });
        packages.push(json!({
            "registryType": "oci", "identifier": image, "transport": stdio, "runtimeHint": "docker",
            "runtimeArguments": [{
                "type": "named", "name": "--volume", "value": "{folder}:/data:ro", "isRequired": true, "variables": { "folder": folder },
            }],
            "packageArguments": [
                { "type": "positional", "value": "serve" },
                { "type": "named", "name": "--stdio" },
                { "type": "positional", "value": "/data" },
            ],
        }));
    }
    let mut server = json!({
        "$schema": SCHEMA,
        "name": publication.server_name(),
        "title": "mcp-host",
        "description": DESCRIPTION,
        "version": version,
        "packages": packages,
    });
    if let Some(repository) = publication.repository() {
        set(&mut server, "websiteUrl", json!(repository));
        if publication.github_organization().is_some() {
            set(&mut server, "repository", json!({ "url": repository, "source": "github" }));
        }
    }
    server
}

/// Returns a JSON object after checking that it has all required keys, and no keys other than the required and the
/// optional ones.
fn object<'a>(value: &'a Value, what: &str, required: &[&str], optional: &[&str]) -> Result<&'a Map<String, Value>> {
    let object = value.as_object().with_context(|| format!("{what} is an object"))?;
    for key in required {
        ensure!(object.contains_key(*key), "{what} has no `{key}`");
    }
    let is_known = |key: &&String| required.contains(&key.as_str()) || optional.contains(&key.as_str());
    match object.keys().find(|key| !is_known(key)) {
        Some(unknown) => bail!("{what} has the unknown key `{unknown}`"),
        None => Ok(object),
    }
}

fn text<'a>(object: &'a Map<String, Value>, key: &str, maximum: usize) -> Result<&'a str> {
    let Some(value) = object.get(key) else { return Ok("") };
    let text = value.as_str().with_context(|| format!("`{key}` is a text"))?;
    let length = text.chars().count();
    ensure!((1..=maximum).contains(&length), "`{key}` has {length} characters; it may have 1 to {maximum}");
    Ok(text)
}

fn list<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a [Value]> {
    let Some(value) = object.get(key) else { return Ok(&[]) };
    Ok(value.as_array().with_context(|| format!("`{key}` is a list"))?)
}

/// Checks `server.json` against the rules of the schema.
pub(super) fn validate(server: &Value) -> Result<()> {
    let optional = ["$schema", "title", "websiteUrl", "repository", "icons", "packages", "remotes", "_meta"];
    let server = object(server, "server.json", &["name", "description", "version"], &optional)?;
    let name = text(server, "name", 200)?;
    let is_part = |part: &str, others: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let is_name = name.split_once('/').is_some_and(|(space, name)| is_part(space, ".-") && is_part(name, "._-"));
    ensure!(is_name, "`name` is {name:?}: expected a reversed domain, a slash and a name");
    text(server, "description", MAX_TEXT)?;
    text(server, "title", MAX_TEXT)?;
    version(server)?;
    if let Some(repository) = server.get("repository") {
        object(repository, "`repository`", &["url", "source"], &["id", "subfolder"])?;
    }
    list(server, "packages")?.iter().try_for_each(package_entry)
}

fn version(object: &Map<String, Value>) -> Result<()> {
    let version = text(object, "version", MAX_VERSION)?;
    let is_range = version == "latest" || version.contains(['^', '~', '>', '<', '=', '*', ' ']);
    ensure!(!is_range, "`version` is {version:?}: expected one version");
    Ok(())
}

fn package_entry(package: &Value) -> Result<()> {
    let optional = [
        "version",
        "registryBaseUrl",
        "fileSha256",
        "runtimeHint",
        "runtimeArguments",
        "packageArguments",
        "environmentVariables",
    ];
    let package = object(package, "a package", &["registryType", "identifier", "transport"], &optional)?;
    let kind = text(package, "registryType", MAX_TEXT)?;
    let identifier = text(package, "identifier", MAX_VERSION)?;
    version(package)?;
    let transport = package.get("transport").and_then(|transport| transport.get("type")).and_then(Value::as_str);
    ensure!(matches!(transport, Some("stdio" | "streamable-http" | "sse")), "`transport` has the type {transport:?}");
    let digest = package.get("fileSha256").and_then(Value::as_str);
    let is_digest = |digest: &str| digest.len() == 64 && digest.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    ensure!(digest.is_none_or(is_digest), "`fileSha256` is {digest:?}: expected 64 hexadecimal digits");
    if kind == "mcpb" {
        ensure!(digest.is_some(), "a bundle has no `fileSha256`");
        ensure!(identifier.starts_with("https://") && identifier.contains("mcp"), "a bundle is at {identifier:?}");
    }
    ensure!(
        !package.contains_key("runtimeArguments") || package.contains_key("runtimeHint"),
        "a package has `runtimeArguments`, and no `runtimeHint`"
    );
    for key in ["runtimeArguments", "packageArguments"] {
        list(package, key)?.iter().try_for_each(argument)?;
    }
    Ok(())
}

fn argument(argument: &Value) -> Result<()> {
    let optional = [
        "name",
        "value",
        "valueHint",
        "description",
        "default",
        "placeholder",
        "choices",
        "format",
        "isRequired",
        "isRepeated",
        "isSecret",
        "variables",
    ];
    let argument = object(argument, "an argument", &["type"], &optional)?;
    match argument.get("type").and_then(Value::as_str) {
        Some("named") => ensure!(argument.contains_key("name"), "a named argument has no `name`"),
        Some("positional") => ensure!(
            argument.contains_key("value") || argument.contains_key("valueHint"),
            "a positional argument has neither `value` nor `valueHint`"
        ),
        other => bail!("an argument has the type {other:?}"),
    }
    let format = argument.get("format").and_then(Value::as_str);
    ensure!(matches!(format, None | Some("string" | "number" | "boolean" | "filepath")), "a format is {format:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn valid() -> Value {
        let publication = Publication::of(&Workspace::find().unwrap()).unwrap();
        server("1.2.3", &publication, "mcp-host-1.2.3-linux-x64.mcpb", &"0".repeat(64))
    }

    #[test]
    fn it_keeps_the_rules_of_the_registry() {
        validate(&valid()).unwrap();
    }

    #[test]
    fn what_the_registry_refuses_is_refused() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 8] = [
            ("reversed domain", |server| server["name"] = json!("mcp host")),
            ("101 characters", |server| server["description"] = json!("x".repeat(101))),
            ("expected one version", |server| server["version"] = json!("^1.2.3")),
            ("expected one version", |server| server["packages"][0]["version"] = json!("latest")),
            ("unknown key `licence`", |server| server["licence"] = json!("MIT")),
            ("64 hexadecimal", |server| server["packages"][2]["fileSha256"] = json!("0")),
            ("neither `value`", |server| {
                server["packages"][0]["packageArguments"][0] = json!({ "type": "positional" })
            }),
            ("type None", |server| server["packages"][1]["transport"] = json!({})),
        ];
        for (expected, change) in cases {
            let mut server = valid();
            change(&mut server);
            let error = validate(&server).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}: expected {expected}");
        }
    }
}
