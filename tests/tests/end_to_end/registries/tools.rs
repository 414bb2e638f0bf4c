//! Other programs: skopeo copies published components, and its copies can be added; strace shows that serving opens no
//! connections.

use std::process::Stdio;

use mcp_host_tests::{Registry, RegistryProject, component};
use tokio::process::Command;

/// A program that `cargo xtask` installs.
fn tool(name: &str) -> Command {
    let mut command = Command::new(format!("/usr/bin/{name}"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test]
async fn skopeo_copies_a_component_and_its_copy_can_be_added() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    project.write("certs/ca.crt", registry.authority().pem());
    project.write("policy.json", r#"{"default": [{"type": "insecureAcceptAnything"}]}"#);
    let at = |name: &str| project.path(name).display().to_string();
    let copy = async |from: String, to: String| {
        let mut skopeo = tool("skopeo");
        skopeo.args(["--policy", &at("policy.json"), "copy", "--authfile", &at("docker/config.json")]);
        skopeo.args(["--src-cert-dir", &at("certs"), "--dest-cert-dir", &at("certs"), &from, &to]);
        let output = skopeo.output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
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
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let trace = project.path("trace");
    let mut strace = tool("strace");
    strace.args(["-f", "-e", "trace=socket,connect", "-o"]).arg(&trace).arg(mcp_host_tests::host_binary());
    let served = project.command(["serve", "--stdio"]);
    strace.args(served.as_std().get_args());
    strace.envs(served.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Standard input ends immediately, and with it the server.
    let output = strace.output().await.unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.contains("loaded=1"), "{log}");
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("exited with 0"), "it was traced: {trace}");
    assert!(!trace.contains("AF_INET") && !trace.contains("connect("), "{trace}");
}
