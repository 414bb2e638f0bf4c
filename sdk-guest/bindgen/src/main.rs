//! Generates the bindings that the C and Go SDKs have committed: `sdk-bindgen WIT_DIR C_DIR GO_DIR`.
//!
//! The generators of wit-bindgen are used as libraries, because their command line takes minutes to install. Files that are
//! there already are replaced; others are left as they are.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use wit_bindgen_core::{Files, WorldGenerator, wit_parser::Resolve};

/// The world of the SDKs. A component imports only what it uses of it.
const WORLD: &str = "provider";

/// The Go module of the bindings.
const GO_PACKAGE: &str = "mcp-host.dev/provider/internal/bindings";

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [wit, c, go] = arguments.as_slice() else {
        anyhow::bail!("expected: sdk-bindgen WIT_DIR C_DIR GO_DIR");
    };
    let bindings = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    write(wit, bindings.build(), c)?;
    let bindings = wit_bindgen_go::Opts { pkg_name: Some(GO_PACKAGE.to_owned()), quiet: true, ..Default::default() };
    write(wit, bindings.build(), go)
}

fn write(wit: &Path, mut generator: Box<dyn WorldGenerator>, into: &Path) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).with_context(|| format!("{} is no WIT package", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    for (name, bytes) in files.iter() {
        ensure!(!name.contains(".."), "the generator names a file outside: {name}");
        let file = into.join(name);
        fs::create_dir_all(file.parent().unwrap_or(into))?;
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
