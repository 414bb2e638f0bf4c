//! Other programs: skopeo copies published components, and its copies can be added; strace shows that serving opens no
//! connections.

use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{Registry, RegistryProject, TIMEOUT};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::registry_with_hello;

/// A program that `cargo xtask` installs.
pub(super) fn tool(name: &str) -> Command {
    let mut command = Command::new(format!("/usr/bin/{name}"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A command of `mcp-host` below strace, with these expressions (`-e`). The trace is written to a file.
pub(super) fn traced(command: &Command, trace: &Path, expressions: &[&str]) -> Command {
    let mut strace = tool("strace");
    strace.arg("-f").args(expressions.iter().flat_map(|expression| ["-e", *expression])).arg("-o").arg(trace);
    strace.arg(mcp_host_tests::host_binary()).args(command.as_std().get_args());
    strace.envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace
}

/// Copies an artifact between the registry of the project and directories, by skopeo.
pub(super) async fn copy(registry: &Registry, project: &RegistryProject, from: &str, to: &str) {
    project.write("certs/ca.crt", registry.authority().pem());
    let policy = project.write("policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
    let (login, certificates) = (project.path("docker/config.json"), project.path("certs"));
    let mut skopeo = tool("skopeo");
    skopeo.arg("--policy").arg(policy).args(["copy", "--authfile"]).arg(login);
    skopeo.arg("--src-cert-dir").arg(&certificates).arg("--dest-cert-dir").arg(&certificates).args([from, to]);
    let output = skopeo.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn skopeo_copies_a_component_and_its_copy_can_be_added() {
    let (registry, project) = registry_with_hello().await;
    let at = |name: &str| project.path(name).display().to_string();
    let copy = async |from: String, to: String| copy(&registry, &project, &from, &to).await;
    let image = |name: &str| format!("docker://{}/{name}:1.0.0", registry.name());
    copy(image("acme/hello"), format!("oci:{}:1.0.0", at("layout"))).await;
    copy(format!("oci:{}:1.0.0", at("layout")), image("copied/hello")).await;

    let reference = format!("oci://{}/copied/hello:1", registry.name());
    let added = project.run(["add", "hello", &reference]).await;
    assert!(added.stderr.contains("has no signature"), "skopeo leaves signatures behind: {}", added.stderr);
    project.trust("unsigned = true");
    let added = project.run(["add", "hello", &reference]).await.success();
    let published = std::fs::read_to_string(project.path("layout/index.json")).unwrap();
    let manifest =
        added.text().lines().find_map(|line| line.strip_prefix("manifest").map(|line| line.trim().to_owned()));
    assert!(published.contains(&manifest.unwrap()), "the same manifest: {published}");

    let archive = project.path("all.tar");
    project.run(["store".as_ref(), "export".as_ref(), archive.as_os_str()]).await.success();
    let name = format!("{}/copied/hello:1.0.0", registry.name());
    copy(format!("oci-archive:{}:{name}", archive.display()), format!("oci:{}:again", at("layout"))).await;
}

#[tokio::test]
async fn serving_what_is_locked_makes_no_connection() {
    let (registry, project) = registry_with_hello().await;
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let trace = project.path("trace");
    let mut strace = traced(&project.command(["serve", "--stdio"]), &trace, &["trace=socket,connect"]);
    strace.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = strace.spawn().unwrap();
    // The server ends when its standard input does.
    let (input, errors) = (server.stdin.take(), server.stderr.take().unwrap());
    let (mut lines, mut log) = (BufReader::new(errors).lines(), String::new());
    while !log.contains("finished loading") {
        let line = timeout(TIMEOUT, lines.next_line()).await.expect("in time").unwrap();
        log.push_str(&line.unwrap_or_else(|| panic!("it has ended: {log}")));
    }
    drop(input);
    let status = timeout(TIMEOUT, server.wait()).await.expect("in time").unwrap();
    assert!(status.success() && log.contains("loaded=1"), "{log}");
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("exited with 0"), "it was traced: {trace}");
    assert!(!trace.contains("AF_INET") && !trace.contains("connect("), "{trace}");
}
