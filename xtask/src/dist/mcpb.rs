//! The bundle for clients that install a server by a double click: a zip file with a manifest of version 0.3, the
//! program and the providers. The tool `mcpb` validates the manifest. `packaging/mcpb/pack.py` packs the bundle,
//! because `mcpb pack` writes the time of the run.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::platforms::Platform;
use super::publication::{AUTHOR, DESCRIPTION, KEYWORDS, Publication};
use super::{Packaging, copy, recreate, set, tree, write};
use crate::{cargo, install};

/// Returns the file name of the bundle.
pub(super) fn file(version: &str, platform: &Platform) -> String {
    format!("mcp-host-{version}-{}.mcpb", platform.name())
}

/// Writes the bundle.
pub(super) fn package(tree: &Path, packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, publication, tools, out, progress } = packaging;
    let mut step = progress.step("writing the bundle for desktop clients");
    let work = sources.target().join("mcpb");
    recreate(&work)?;
    tree::copy_program(tree, &work, "server/mcp-host", "server/plugins")?;
    copy(&sources.root().join("LICENSE"), &work.join("LICENSE"))?;
    let platform = Platform::of(&version.target)?;
    let manifest = manifest(&version.number, &platform, publication);
    write(&work.join("manifest.json"), format!("{manifest:#}\n").as_bytes())?;
    step.at("mcpb validate");
    cargo::capture(tools.mcpb().arg("validate").arg(work.join("manifest.json")))?;
    step.at("zip file");
    let file = file(&version.number, &platform);
    let pack = sources.root().join("packaging/mcpb/pack.py");
    let mut python = Command::new(install::venv_program(tools.python(), "python"));
    python.arg(pack).arg(&work).arg(out.join(&file)).arg(version.epoch.to_string());
    cargo::capture(&mut python)?;
    step.done(&format!("wrote {file}"));
    Ok(())
}

/// Returns the manifest: the client prompts for folders, and starts the server for them.
fn manifest(version: &str, platform: &Platform, publication: &Publication) -> Value {
    let mut manifest = json!({
        "manifest_version": "0.3",
        "name": "mcp-host",
        "display_name": "Folders and repositories (mcp-host)",
        "version": version,
        "description": "Your folders, git repositories and SQLite databases as MCP resources, read-only, from sandboxed plugins",
        "long_description": format!("{DESCRIPTION}. It serves the folders that you choose, with search: a git repository as its commits and files, a folder with Markdown files as notes, any other as files. Each is read by a plugin that may read exactly that. Files with the names of environment variables and private keys are denied."),
        "author": { "name": AUTHOR },
        "server": {
            "type": "binary",
            "entry_point": "server/mcp-host",
            "mcp_config": {
                "command": "${__dirname}/server/mcp-host",
                "args": ["serve", "--stdio", "${user_config.folders}"],
                "env": {},
            },
        },
        "user_config": {
            "folders": {
                "type": "directory",
                "title": "Folders",
                "description": "What the server may read, and serves: folders and git repositories. They are never written.",
                "multiple": true,
                "required": true,
            },
        },
        "tools_generated": true,
        "keywords": KEYWORDS,
        "license": env!("CARGO_PKG_LICENSE"),
        "compatibility": { "platforms": [platform.os] },
    });
    if let Some(repository) = publication.repository() {
        set(&mut manifest, "repository", json!({ "type": "git", "url": repository }));
        set(&mut manifest, "homepage", json!(repository));
    }
    manifest
}
