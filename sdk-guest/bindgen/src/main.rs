//! Generates bindings with the generators of wit-bindgen. They are used as libraries, because the command line takes
//! minutes to install.
//!
//! - `sdk-bindgen sdk WIT_DIR C_DIR GO_DIR`: the committed bindings of the C and Go SDKs, for the world `sdk.wit`.
//! - `sdk-bindgen prepare WIT_DIR C_DIR GO_DIR`: the same for `prepare`, which only some components export.
//! - `sdk-bindgen world WIT_DIR WORLD C_DIR GO_DIR`: bindings of a world of the contract, with stubs in Go, which the
//!   tests compile.
//!
//! Existing files are replaced; other files stay.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use wit_bindgen_core::{
    Files, WorldGenerator,
    wit_parser::{Resolve, WorldId},
};

/// The world of the SDKs.
const SDK_WORLD: &str = include_str!("sdk.wit");

/// The Go module of the bindings.
const GO_PACKAGE: &str = "mcp-host.example/provider/internal/bindings";

/// A world of which only `prepare` is taken, and its Go module.
const PREPARE_WORLD: &str = "package mcp-host:sdk; world preparing { export mcp-host:provider/prepare@0.1.1; }";
const GO_PREPARE_PACKAGE: &str = "mcp-host.example/provider/internal/prepare";

/// The copy of the bindings' runtime.
const GO_RUNTIME: &str = "mcp-host.example/provider/internal/wit";

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_prepare = arguments.first() == Some(&"prepare");
    let (mut resolve, world, c, go, has_stubs) = match arguments.as_slice() {
        ["sdk" | "prepare", wit, c, go] => {
            let mut resolve = Resolve::default();
            resolve.push_path(wit).with_context(|| format!("{wit} is no WIT package"))?;
            let package = resolve.push_str("sdk.wit", if is_prepare { PREPARE_WORLD } else { SDK_WORLD })?;
            let world = resolve.select_world(&[package], None)?;
            (resolve, world, c, go, false)
        }
        ["world", wit, world, c, go] => {
            let mut resolve = Resolve::default();
            let (package, _) = resolve.push_path(wit).with_context(|| format!("{wit} is no WIT package"))?;
            let world = resolve.select_world(&[package], Some(world))?;
            (resolve, world, c, go, true)
        }
        _ => bail!(
            "expected: sdk-bindgen sdk|prepare WIT_DIR C_DIR GO_DIR, or sdk-bindgen world WIT_DIR WORLD C_DIR GO_DIR"
        ),
    };
    let (name, go_package) = if is_prepare { ("prepare", GO_PREPARE_PACKAGE) } else { ("provider", GO_PACKAGE) };
    // The same prefix of all names, whatever the world.
    let bindings =
        wit_bindgen_c::Opts { no_object_file: true, rename_world: Some(name.to_owned()), ..Default::default() };
    write(&mut resolve.clone(), world, bindings.build(), Path::new(c), |bytes| bytes)?;
    let bindings = wit_bindgen_go::Opts {
        format: wit_bindgen_go::Format::False,
        generate_stubs: has_stubs,
        pkg_name: Some(go_package.to_owned()),
        quiet: true,
        ..Default::default()
    };
    write(&mut resolve, world, bindings.build(), Path::new(go), with_own_runtime)
}

/// Replaces the module of the bindings' runtime by our copy of it, and marks the calls of imports that return lists.
fn with_own_runtime(bytes: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => enclose_calls(&text.replace("\"go.bytecodealliance.org/pkg/wit/", &format!("\"{GO_RUNTIME}/"))),
        Err(error) => error.into_bytes(),
    }
}

/// Encloses each call of an import that returns through memory in `Enter` and `Leave`: the lists that the host
/// allocates during the call live until the function returns. Such a function has a `pinner`, which it unpins at its
/// end.
fn enclose_calls(text: &str) -> Vec<u8> {
    let is_call = |line: &str| line.trim().starts_with("wasm_import_") && line.trim().ends_with("returnArea)");
    let mut enclosed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if is_call(line) {
            enclosed += "witRuntime.Enter(pinner)\n";
            enclosed += line;
            enclosed += "witRuntime.Leave()\n";
        } else {
            enclosed += line;
        }
    }
    enclosed.into_bytes()
}

fn write(
    resolve: &mut Resolve,
    world: WorldId,
    mut generator: Box<dyn WorldGenerator>,
    into: &Path,
    edit: fn(Vec<u8>) -> Vec<u8>,
) -> Result<()> {
    let mut files = Files::default();
    generator.generate(resolve, world, &mut files)?;
    for (name, bytes) in files.iter() {
        ensure!(!name.contains(".."), "the generator names a file outside: {name}");
        let file: PathBuf = into.join(name);
        fs::create_dir_all(file.parent().unwrap_or(into))?;
        fs::write(&file, edit(bytes.to_vec())).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
