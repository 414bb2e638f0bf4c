//! The SDK for C.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{component, files, folder, host_program};
use crate::cargo;
use crate::install::Stamp;
use crate::progress::Progress;
use crate::toolchain::apt::{self, Release};
use crate::toolchain::wasi_libc;
use crate::workspace::Workspace;

/// The compiler.
pub(super) const CLANG: &str = "clang-19";

/// The examples.
const EXAMPLES: [&str; 2] = ["csv", "folder"];

/// The packages with the compiler, the linker and the compiler's own library.
const PACKAGES: [&str; 3] = ["clang-19", "lld-19", "libclang-rt-19-dev-wasm32"];

pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let sdk = workspace.root().join("sdk-guest/c");
    let examples = EXAMPLES.map(|name| workspace.root().join("examples").join(name).join("c"));
    let outputs = ["csv-c", "folder-c", "granted-c", "preparing-c"].map(|name| component(workspace, name));
    let [csv, folder_of_files, granted, preparing] = &outputs;
    let out = folder(workspace, "c-build");
    let mut inputs = files(&[sdk.clone(), workspace.root().join("wit")])?;
    inputs.extend(files(&examples)?);
    let stamp = Stamp::new(&out, &inputs, "")?;
    if stamp.is_current() && outputs.iter().all(|output| output.is_file()) {
        return Ok(());
    }
    install_compiler(progress)?;
    let sysroot = sysroot(workspace, progress)?;
    let host = host_program(workspace, progress)?;
    let mut step = progress.step("building the SDK for C");
    stamp.clear()?;
    let make = |example: &Path, out: &Path, target: Option<&str>| {
        let mut make = Command::new("make");
        make.args(target).current_dir(example).arg(format!("OUT={}", out.display()));
        make.arg(format!("CLANG={CLANG}")).arg(format!("SYSROOT={}", sysroot.display()));
        cargo::capture(make.arg(format!("MCP_HOST={}", host.display())))
    };
    step.at("unit tests");
    test_natively(&sdk, &out)?;
    for ((name, example), output) in EXAMPLES.iter().zip(&examples).zip([csv, folder_of_files]) {
        let out = out.join(name);
        step.at(format!("{}", workspace.display(output)));
        make(example, &out, Some("test"))?;
        make(example, &out, None)?;
        let made = out.join(name).with_extension("wasm");
        std::fs::copy(made, output).with_context(|| format!("cannot write {}", output.display()))?;
    }
    let of_sdk = [sdk.join("bindings"), sdk.join("src")];
    let of_prepare = [of_sdk.as_slice(), &[sdk.join("prepare")]].concat();
    for (folders, source, output) in
        [(of_sdk.as_slice(), "granted.c", granted), (of_prepare.as_slice(), "preparing.c", preparing)]
    {
        step.at(format!("{}", workspace.display(output)));
        let mut sources = files(folders)?;
        sources.retain(|file| file.extension().is_some_and(|kind| kind == "c") && !file.ends_with("mcp_native.c"));
        sources.push(sdk.join("test").join(source));
        let core = out.join(source).with_extension("core.wasm");
        compile(&sysroot, &sources, &["-Wall", "-Wextra", "-Werror"], &sdk.join("include"), &core)?;
        cargo::capture(Command::new(&host).arg("componentize").arg(&core).arg("--output").arg(output))?;
    }
    stamp.set()?;
    step.done("built the SDK for C, and its providers in target/plugins/fixtures");
    Ok(())
}

/// Compiles the unit tests of the SDK for this machine, and runs them.
fn test_natively(sdk: &Path, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let shared = ["mcp_provider.c", "mcp_helpers.c", "mcp_native.c"];
    for (test, sources) in
        [("functions", ["mcp_functions.c"].as_slice()), ("values", &["mcp_json.c", "mcp_sql_values.c"])]
    {
        let program = out.join(format!("{test}-test"));
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-D_DEFAULT_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-Wpedantic"]);
        compiler.arg("-I").arg(sdk.join("include"));
        compiler.args(shared.iter().chain(sources).map(|source| sdk.join("src").join(source)));
        compiler.arg(sdk.join("test").join(test).with_extension("c"));
        cargo::capture(compiler.arg("-o").arg(&program))?;
        cargo::capture(&mut Command::new(program))?;
    }
    Ok(())
}

/// Compiles sources to a core module.
pub(super) fn compile(
    sysroot: &Path,
    sources: &[PathBuf],
    flags: &[&str],
    include: &Path,
    output: &Path,
) -> Result<()> {
    let mut clang = Command::new(CLANG);
    clang.args(["--target=wasm32-wasi", "-mexec-model=reactor", "-Os", "-std=c11", "-gline-tables-only"]);
    clang.args(["-fsanitize=null", "-fsanitize-trap=null"]);
    clang.arg(format!("--sysroot={}", sysroot.display())).args(flags).arg("-I").arg(include).args(sources);
    cargo::capture(clang.arg("-o").arg(output))?;
    Ok(())
}

/// Installs the distribution's compiler if it is missing.
fn install_compiler(progress: &Progress) -> Result<()> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success());
    if has(CLANG) && has("wasm-ld-19") {
        return Ok(());
    }
    apt::install(&PACKAGES, "the compiler for providers in C", progress)
}

/// Returns the folder of the C library for `wasm32-wasi`, unpacked from Debian's package.
pub(super) fn sysroot(workspace: &Workspace, progress: &Progress) -> Result<PathBuf> {
    let unpacked = folder(workspace, "wasi-libc");
    let sysroot = unpacked.join("unpacked/usr");
    if !sysroot.join("lib/wasm32-wasi/libc.a").is_file() {
        let mut step = progress.step("unpacking the C library (package wasi-libc, not installed)");
        wasi_libc::unpack(&Release::current()?, &unpacked, &mut step)?;
        step.done("unpacked the C library into target/languages/wasi-libc");
    }
    Ok(sysroot)
}
