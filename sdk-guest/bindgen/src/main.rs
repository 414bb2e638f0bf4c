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
const GO_PACKAGE: &str = "mcp-host.example/provider/internal/bindings";

/// The copy of the bindings' runtime.
const GO_RUNTIME: &str = "mcp-host.example/provider/internal/wit";

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [wit, c, go] = arguments.as_slice() else {
        anyhow::bail!("expected: sdk-bindgen WIT_DIR C_DIR GO_DIR");
    };
    let bindings = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    write(wit, bindings.build(), c, |bytes| bytes)?;
    let bindings = wit_bindgen_go::Opts {
        format: wit_bindgen_go::Format::False,
        pkg_name: Some(GO_PACKAGE.to_owned()),
        quiet: true,
        ..Default::default()
    };
    write(wit, bindings.build(), go, with_own_runtime)
}

/// Replaces the module of the runtime by the copy of it.
fn with_own_runtime(bytes: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => text.replace("\"go.bytecodealliance.org/pkg/wit/", &format!("\"{GO_RUNTIME}/")).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

fn write(wit: &Path, mut generator: Box<dyn WorldGenerator>, into: &Path, edit: fn(Vec<u8>) -> Vec<u8>) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).with_context(|| format!("{} is no WIT package", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    for (name, bytes) in files.iter() {
        ensure!(!name.contains(".."), "the generator names a file outside: {name}");
        let file = into.join(name);
        fs::create_dir_all(file.parent().unwrap_or(into))?;
        fs::write(&file, edit(bytes.to_vec())).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
