//! MCP servers over standard streams, in their usual form: for Node and for Python, with the files that they need.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mcp_host_child::Spec;
use tokio::io::AsyncWriteExt;

use crate::harness::{first_line, has_namespaces, program, system_program};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

const NODE: &str = r#"#!/usr/bin/env node
const { answer } = require("answers");
const readline = require("node:readline");
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
});
"#;

const NODE_MODULE: &str = r#"
exports.answer = ({ id, params }) => ({ jsonrpc: "2.0", id, result: {
  protocolVersion: params.protocolVersion, capabilities: { resources: {} }, serverInfo: { name: "node", version: "1" } } });
"#;

const PYTHON: &str = r#"
import asyncio, json, sys
async def main():
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    request = json.loads(await reader.readline())
    result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {}, "serverInfo": {"name": "python", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
asyncio.run(main())
"#;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts a server, and returns its response to `initialize`.
async fn initialize(spec: Spec) -> String {
    let mut child = program(spec).launch().await.unwrap();
    child.stdin.as_mut().unwrap().write_all(format!("{INITIALIZE}\n").as_bytes()).await.unwrap();
    let answered = first_line(&mut child);
    answered.await
}

/// A directory that other users can read.
fn installation() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[tokio::test]
async fn a_server_for_node_answers() {
    if !has_namespaces() || system_program("node").is_none() {
        return;
    }
    let dir = installation();
    write(&dir.path().join("node_modules/server/index.js"), NODE);
    write(&dir.path().join("node_modules/server/package.json"), "{}");
    write(&dir.path().join("node_modules/answers/index.js"), NODE_MODULE);
    fs::create_dir_all(dir.path().join("node_modules/.bin")).unwrap();
    let command = dir.path().join("node_modules/.bin/server");
    std::os::unix::fs::symlink("../server/index.js", &command).unwrap();
    let answer = initialize(Spec::new([command.to_str().unwrap()])).await;
    assert!(answer.contains(r#""name":"node""#), "{answer}");
}

#[tokio::test]
async fn a_server_for_python_answers() {
    let Some(python) = system_program("python3").filter(|_| has_namespaces()) else { return };
    let dir = installation();
    let script = dir.path().join("server.py");
    write(&script, PYTHON);
    let answer = initialize(Spec::new([python.as_str(), script.to_str().unwrap()])).await;
    assert!(answer.contains(r#""name": "python""#), "{answer}");
}
