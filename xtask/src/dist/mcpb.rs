//! The bundle for clients that install a server by a double click: a zip file with a manifest of version 0.3, the program, and the
//! providers beside it. The tool `mcpb` validates the manifest. zip(1) packs it, as `mcpb pack` writes the time of the run.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::platforms::Platform;
use super::publication::{AUTHOR, DESCRIPTION, KEYWORDS, Publication};
use super::{Packaging, copy, recreate, set, tree, write};
use crate::cargo;

/// The file name of the bundle.
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
    step.at("zip");
    let file = file(&version.number, &platform);
    zip(tools.zip(), &work, &out.join(&file), version.epoch)?;
    step.done(&format!("wrote {file}"));
    Ok(())
}

/// The client asks for folders, and starts the server for them.
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

/// Writes a zip file of a directory, with one time for all files, and in the order of their names.
fn zip(mut zip: Command, directory: &Path, archive: &Path, epoch: u64) -> Result<()> {
    let files = super::files(directory)?;
    let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(epoch)).context("the time of all files")?;
    let mut names = String::new();
    for file in &files {
        fs::File::options().append(true).open(directory.join(file))?.set_modified(modified)?;
        names.push_str(&format!("{}\n", file.display()));
    }
    zip.args(["-9", "--no-extra", "--no-dir-entries", "--quiet", "--names-stdin"]).arg(archive);
    zip.current_dir(directory).env("TZ", "UTC").env_remove("ZIPOPT").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = zip.spawn().context("cannot run zip")?;
    child.stdin.take().context("zip has no standard input")?.write_all(names.as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "zip failed ({status})");
    Ok(())
}
