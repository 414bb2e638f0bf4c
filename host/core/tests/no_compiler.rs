//! A program that a host starts as its compiler, but whose `main` does not begin with `run_compiler`: this program. Its
//! name selects what it does.
#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and a program prints"
)]

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use mcp_resource_host::config::{Config, Plugin};
use mcp_resource_host::engine::{Compiler, Engine, EngineOptions};
use mcp_resource_host::{Host, PluginState};

/// The name of a link to this program that never ends.
const HANGS: &str = "hangs";
/// The name of a link to this program that ends immediately.
const ENDS: &str = "ends";

fn main() {
    let name = std::env::args_os().next().unwrap();
    match Path::new(&name).file_name().and_then(OsStr::to_str) {
        Some(HANGS) => loop {
            std::thread::park();
        },
        Some(ENDS) => println!("not machine code"),
        _ => {
            // As in every host, the engine is created first. Nothing else here ends the child.
            let engine = Engine::new(EngineOptions::new().max_instances(4)).unwrap();
            tokio::runtime::Runtime::new().unwrap().block_on(test(&engine));
        }
    }
}

async fn test(engine: &Arc<Engine>) {
    let dir = tempfile::tempdir().unwrap();
    let link = |name| {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        Compiler::Program(link)
    };
    for (compiler, deadline, wanted) in [
        (Compiler::CurrentExe, "1m", "exit status: 4"),
        (link(ENDS), "1m", "exit status: 0"),
        (link(HANGS), "1s", "terminated after 1s (`server.compile.deadline`)"),
    ] {
        let error = load_error(engine, dir.path(), compiler.clone(), deadline).await;
        assert!(error.contains("`mcp_resource_host::engine::run_compiler()`"), "{compiler:?}: {error}");
        assert!(error.contains(wanted), "{compiler:?}: {error}");
    }
}

/// Starts a host with this compiler, and returns why its plugin is not loaded.
async fn load_error(engine: &Arc<Engine>, dir: &Path, compiler: Compiler, deadline: &str) -> String {
    let component = dir.join("empty.wasm");
    std::fs::write(&component, wat::parse_str("(component)").unwrap()).unwrap();
    let plugin = Plugin::new("empty".parse().unwrap(), component, "empty:///".parse().unwrap());
    let mut config = Config::new().plugin(plugin).unwrap();
    config.server.compile.deadline = deadline.parse().unwrap();
    let builder = Host::builder(config).engine(engine.clone()).compiler(compiler);
    let host = builder.state_dir(dir.join("state")).cache_dir(dir.join("cache")).start().await.unwrap();
    match host.plugins().into_iter().next().unwrap().state {
        PluginState::LoadFailed(error) => error.to_string(),
        state => panic!("expected an error, found {state:?}"),
    }
}
