//! The OCI image, made by umoci without a daemon and without root: one layer, with only the files that the program
//! needs.
//!
//! The image has no shell. Its user is [`USER`], who owns the directories of state, cache and administration socket;
//! all other files belong to root, and the root file system may be read-only. The config is mounted. OCI has no health
//! check; `mcp-host status --probe` can serve as one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::archive::{self, Owner};
use super::{Packaging, copy, recreate, write};
use crate::cargo;

/// The user and group that the program runs as.
pub(super) const USER: u32 = 65532;

/// The name of the image in its layout.
pub(super) const TAG: &str = "mcp-host";

/// The directories that the user owns: state, cache, and the administration socket.
const OWNED: [&str; 3] = ["var/lib/mcp-host", "var/cache/mcp-host", "run/mcp-host"];

/// The environment variables for the paths of state, cache and config.
const ENVIRONMENT: [&str; 3] = [
    "STATE_DIRECTORY=/var/lib/mcp-host",
    "CACHE_DIRECTORY=/var/cache/mcp-host",
    "MCP_HOST_CONFIG=/etc/mcp-host/mcp-host.toml",
];

/// The path where a config is mounted.
pub(super) const CONFIG: &str = "/etc/mcp-host/mcp-host.toml";

/// The root certificates of `ca-certificates`, and the file from which programs read them.
const CERTIFICATES: &str = "usr/share/ca-certificates";
const CERTIFICATE_BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// Writes the image with the files of `tree`.
pub(super) fn package(tree: &Path, packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, tools, out, progress, .. } = packaging;
    let mut step = progress.step("writing the image");
    let work = sources.target().join("image");
    recreate(&work)?;
    let root = work.join("root");
    fill(&root, tree, &tools.debian)?;

    let layer = work.join("layer.tar");
    archive::create(&layer, &root, &["."], version.epoch)?;
    for directory in OWNED {
        make(&root.join(directory))?;
    }
    archive::append(&layer, &root, &OWNED, Owner(USER), version.epoch)?;

    step.at("umoci");
    let layout = work.join("layout");
    let created = cargo::capture(
        Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ"]).arg(format!("--date=@{}", version.epoch)),
    )?;
    let created = created.trim();
    let image = format!("{}:{TAG}", layout.display());
    let umoci = |arguments: &[&str]| cargo::capture(tools.umoci().args(arguments));
    umoci(&["init", "--layout", &layout.display().to_string()])?;
    umoci(&["new", "--image", &image])?;
    let history = format!("--history.created={created}");
    umoci(&["raw", "add-layer", &history, "--image", &image, &layer.display().to_string()])?;
    let mut config = tools.umoci();
    config.args(["config", "--no-history", "--image", &image, "--created", created, "--os", "linux"]);
    config.args(["--architecture", version.architecture(), "--config.user", &format!("{USER}:{USER}")]);
    config.args(["--config.entrypoint", "/usr/bin/mcp-host", "--config.cmd", "serve"]);
    config.args(ENVIRONMENT.map(|variable| format!("--config.env={variable}")));
    for (key, value) in [("version", version.number.as_str()), ("licenses", env!("CARGO_PKG_LICENSE"))] {
        config.arg(format!("--config.label=org.opencontainers.image.{key}={value}"));
    }
    cargo::capture(&mut config)?;
    umoci(&["gc", "--layout", &layout.display().to_string()])?;
    archive::create(&out.join(version.image()), &layout, &["."], version.epoch)?;
    step.done(&format!("wrote {}", version.image()));
    Ok(())
}

/// Fills the root file system.
fn fill(root: &Path, tree: &Path, debian: &Path) -> Result<()> {
    make(&root.join("usr/bin"))?;
    make(&root.join("tmp"))?;
    make(&root.join("etc/mcp-host"))?;
    for (from, to) in
        [("bin/mcp-host", "usr/bin/mcp-host"), ("share/doc/mcp-host/LICENSE", "usr/share/doc/mcp-host/copyright")]
    {
        copy(&tree.join(from), &root.join(to))?;
    }
    let plugins = tree.join("lib/mcp-host/plugins");
    for plugin in super::files(&plugins)? {
        copy(&plugins.join(&plugin), &root.join("usr/lib/mcp-host/plugins").join(&plugin))?;
    }
    libraries(&tree.join("bin/mcp-host"), root, debian)?;
    for package in ["libc6", "libgcc-s1", "ca-certificates"] {
        let copyright = format!("usr/share/doc/{package}/copyright");
        // The documents of a package may be a link to another package's.
        if debian.join(&copyright).is_file() {
            copy(&debian.join(&copyright), &root.join(&copyright))?;
        }
    }
    let mut bundle = Vec::new();
    for certificate in super::files(&debian.join(CERTIFICATES))? {
        bundle.extend(fs::read(debian.join(CERTIFICATES).join(certificate))?);
    }
    write(&root.join(CERTIFICATE_BUNDLE), &bundle)?;
    write(
        &root.join("etc/passwd"),
        format!("root:x:0:0:root:/:/sbin/nologin\nmcp-host:x:{USER}:{USER}::/:/sbin/nologin\n").as_bytes(),
    )?;
    write(&root.join("etc/group"), format!("root:x:0:\nmcp-host:x:{USER}:\n").as_bytes())?;
    write(&root.join("etc/nsswitch.conf"), b"hosts: files dns\n")
}

/// Copies the shared libraries that a program needs, directly or indirectly, to their paths in the packages.
fn libraries(program: &Path, root: &Path, debian: &Path) -> Result<()> {
    let available = super::files(debian)?;
    let mut copied = BTreeSet::new();
    let mut programs = vec![program.to_owned()];
    while let Some(program) = programs.pop() {
        for name in needed(&program)? {
            if !copied.insert(name.clone()) {
                continue;
            }
            let is_library = |path: &&PathBuf| path.file_name().is_some_and(|file| file == name.as_str());
            // Several paths may have the name of a library: the loader may have a link.
            for path in available.iter().filter(is_library) {
                let library = resolve(debian, path);
                copy(&library, &root.join(path))?;
                programs.push(library);
            }
            ensure!(available.iter().any(|path| is_library(&path)), "no unpacked package has the library {name}");
        }
    }
    Ok(())
}

/// Returns the file that a path of the packages leads to. An absolute link is resolved from the directory of the
/// unpacked packages.
fn resolve(debian: &Path, path: &Path) -> PathBuf {
    match fs::read_link(debian.join(path)) {
        Ok(target) => {
            let beside = path.parent().unwrap_or(path).join(&target);
            debian.join(target.strip_prefix("/").unwrap_or(&beside))
        }
        Err(_) => debian.join(path),
    }
}

/// Returns the names of the shared libraries that a program requires.
fn needed(program: &Path) -> Result<Vec<String>> {
    let dynamic =
        cargo::capture(Command::new("readelf").arg("--dynamic").arg("--wide").arg(program).env("LC_ALL", "C"))?;
    Ok(needed_in(&dynamic))
}

fn needed_in(dynamic: &str) -> Vec<String> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_those_that_readelf_names() {
        let dynamic = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n 0x000000000000000c (INIT)               0x1000\n";
        assert_eq!(needed_in(dynamic), ["libc.so.6"]);
    }
}
