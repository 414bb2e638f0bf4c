//! `mcp-host componentize`: a component from the output of Go and clang.

use std::path::{Path, PathBuf};

use mcp_host_tests::{Folder, Output, WatProvider, run};

/// Imports of a program for WASI 0.1.
const FD_WRITE: &str =
    r#"(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))"#;

/// The description of a provider named `a` with version `1`, at address 2048.
const DESCRIPTION: &str =
    r#"(data (i32.const 2048) "\00\09\00\00\01\00\00\00\01\09\00\00\01\00\00\00") (data (i32.const 2304) "a1")"#;

fn write(folder: &Folder, name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder.path().join(name);
    std::fs::write(&file, bytes).unwrap();
    file
}

async fn componentize(core: &Path) -> Output {
    run(["componentize", core.to_str().unwrap()]).await
}

#[tokio::test]
async fn a_core_module_becomes_a_provider_that_loads() {
    let folder = Folder::with_files::<&str, &str>([]);
    // The adapter in the component forwards the program's standard output to the log.
    let describe = "(drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 0) (i32.const 512))) (i32.const 2048)";
    let provider = WatProvider::new().imports(FD_WRITE).function("describe", describe).module_fields(DESCRIPTION);
    let core = write(&folder, "tiny.core.wasm", &provider.core_module());
    let written = componentize(&core).await.success();
    assert!(written.text().is_empty() && written.stderr.contains("tiny.wasm"), "{}", written.stderr);
    let component = folder.path().join("tiny.wasm");
    let inspected = run(["inspect", "--json", component.to_str().unwrap()]).await.success().json();
    assert_eq!(inspected["provider"]["name"], "a");
    let imports = inspected["imports"].as_array().unwrap();
    assert!(imports.iter().any(|name| name.as_str().unwrap().starts_with("wasi:cli/stdout@0.2")), "{imports:?}");
    assert!(!imports.iter().any(|name| name.as_str().unwrap().starts_with("wasi:http")), "{imports:?}");
}

#[tokio::test]
async fn an_existing_component_is_replaced_and_left_alone_on_failure() {
    let folder = Folder::with_files([("out.wasm", "old")]);
    let out = folder.path().join("out.wasm");
    let into_out = async |core: &Path| run(["componentize", core.to_str().unwrap(), "-o", out.to_str().unwrap()]).await;
    let text = write(&folder, "main.c", b"int main(void) { return 0; }");
    assert_eq!(into_out(&text).await.code(), 1);
    assert_eq!(std::fs::read(&out).unwrap(), b"old");
    let core = write(&folder, "core.wasm", &WatProvider::new().core_module());
    into_out(&core).await.success();
    assert_eq!(std::fs::read(&out).unwrap()[..8], *b"\0asm\x0d\0\x01\0");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file is left");
}

#[tokio::test]
async fn what_cannot_become_a_component_is_told_with_what_to_do() {
    let folder = Folder::with_files::<&str, &str>([]);
    let module = |fields: &str| WatProvider::new().module_fields(fields).core_module();
    let component = std::fs::read(WatProvider::new().build().path()).unwrap();
    let imports_env = WatProvider::new().imports(r#"(import "env" "sqlite3_open" (func))"#).core_module();
    let cases: [(&[u8], &str, &str); 6] = [
        (b"", "it is empty", "name the output of the compiler"),
        (b"#include <stdio.h>", "magic number", "name the output of the compiler"),
        (&component, "it is a component already", "mcp-host inspect"),
        (b"\0asm\x01\0\0\0", "resource-provider@0.1.1#describe", "link the bindings"),
        (&module("(func (export \"_start\"))"), "is a command", "-mexec-model=reactor"),
        (&imports_env, "`env` `sqlite3_open`", "undefined at link time"),
    ];
    for (bytes, problem, advice) in cases {
        let core = write(&folder, "core.wasm", bytes);
        let failed = componentize(&core).await;
        assert_eq!(failed.code(), 1, "{}", failed.stderr);
        assert!(failed.stderr.contains(problem) && failed.stderr.contains(advice), "{}", failed.stderr);
        assert!(failed.stderr.contains("core.wasm"), "{}", failed.stderr);
    }
    let missing = componentize(&folder.path().join("missing.wasm")).await;
    assert!(missing.code() == 1 && missing.stderr.contains("missing.wasm"), "{}", missing.stderr);
}
