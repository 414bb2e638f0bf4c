//! `mcp-host dev`: build on save, reload, and the output.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mcp_host_tests::{DevOnTerminal, DevProject, DevServer, Folder, fixture, run};
use rustix::process::{Pid, Signal, test_kill_process_group};

/// The prefix of the line that reports a loaded listing.
const RELOADED: &str = "reload: ";

async fn wait_a_moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Waits until no process of the last build remains.
async fn wait_until_build_is_gone(project: &DevProject) {
    wait_until_gone(project.build_group().and_then(Pid::from_raw).unwrap()).await;
}

/// Waits until no process of the group remains, not even a zombie.
async fn wait_until_gone(group: Pid) {
    while test_kill_process_group(group).is_ok() {
        wait_a_moment().await;
    }
}

/// Waits for a build in a new process group.
async fn wait_for_build(project: &DevProject, before: Option<i32>) {
    while project.build_group().is_none() || project.build_group() == before {
        wait_a_moment().await;
    }
}

#[tokio::test]
async fn a_project_is_built_and_served_and_what_a_save_changes_is_shown() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("build: finished in ").await;
    assert_eq!(dev.line(RELOADED).await, "reload: 1 resource, 0 templates");
    assert_eq!(dev.line("  + ").await, "  + x:///world  text/plain  world");
    let client = dev.client().await;
    assert_eq!(client.text("x:///world").await, "Hello, world!");

    project.folder().write("choice", "sample");
    assert!(dev.line("choice changed").await.starts_with("build: choice changed: "));
    dev.line("  - x:///world").await;
    let text = dev.text();
    assert!(text.contains(" after the change: ") && text.contains(" added, 1 removed"), "{text}");
    assert!(text.contains("  + x:///plain"), "{text}");
    // The client was not disconnected.
    assert_eq!(client.text("x:///plain").await, "Plain.\n");
    drop(client);
    dev.end().await;
}

/// A directory for the cache of `dev`, and its environment.
fn private_cache() -> (tempfile::TempDir, [(&'static str, String); 2]) {
    let cache = tempfile::tempdir().unwrap();
    let path = cache.path().display().to_string();
    (cache, [("XDG_CACHE_HOME", path), ("PATH", std::env::var("PATH").unwrap())])
}

/// The complete files in a cache that have this ending, with their sizes. A file may be renamed meanwhile.
fn cached(cache: &tempfile::TempDir, ending: &str) -> Vec<(String, u64)> {
    let files = fs::read_dir(cache.path().join("mcp-host")).unwrap().map(|file| file.unwrap());
    let sized = files.filter_map(|file| Some((file.file_name().into_string().ok()?, file.metadata().ok()?.len())));
    sized.filter(|(name, _)| name.ends_with(ending) && !name.contains(".next.")).collect()
}

#[tokio::test]
async fn the_functions_of_a_component_are_kept_for_the_next_one_of_its_file() {
    let (project, (cache, environment)) = (DevProject::new(), private_cache());
    let dev = DevServer::start_in(project.folder().path().to_owned(), environment).await;
    // The component is compiled to optimized code in the background.
    let kept_unlike = async |before: u64| loop {
        if let [(name, size @ 1000..)] = &cached(&cache, ".functions")[..]
            && *size != before
        {
            return (name.clone(), *size);
        }
        wait_a_moment().await;
    };
    dev.line("  + x:///world").await;
    let of_hello = kept_unlike(0).await;
    project.folder().write("choice", "sample");
    dev.line("  + x:///plain").await;
    let of_sample = kept_unlike(of_hello.1).await;
    assert_eq!(of_sample.0, of_hello.0);
    dev.end().await;
}

#[tokio::test]
async fn code_of_the_baseline_compiler_is_served_first_and_optimized_code_is_kept_for_other_commands() {
    let (project, (cache, environment)) = (DevProject::new(), private_cache());
    let folder = project.folder().path().to_owned();
    let dev = DevServer::start_in(folder.clone(), environment.clone()).await;
    dev.line("  + x:///world").await;
    let compiled = || cached(&cache, ".cwasm").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    while compiled().len() < 2 {
        wait_a_moment().await;
    }
    let both = compiled();
    let digests: std::collections::BTreeSet<_> = both.iter().map(|name| name.split('-').next().unwrap()).collect();
    assert_eq!((digests.len(), both.len()), (1, 2), "{both:?}");
    assert_eq!(dev.client().await.text("x:///world").await, "Hello, world!");
    dev.end().await;

    let mut read = mcp_host_tests::host_command();
    read.args(["read", "x:///world"]).current_dir(folder).envs(environment);
    let read = read.output().await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
    assert!(stdout.starts_with("Hello, world!") && !stderr.contains("compiling"), "{stdout} {stderr}");
}

#[tokio::test]
async fn a_component_that_is_pinned_is_compiled_once_to_optimized_code() {
    let (project, (cache, environment)) = (DevProject::new(), private_cache());
    let folder = project.folder().path().to_owned();
    let inspected = run([Path::new("inspect"), &folder.join(".components/sample.wasm"), Path::new("--json")]).await;
    let digest = inspected.success().json()["digest"].as_str().unwrap().to_owned();
    let file = folder.join("mcp-host.toml");
    let pinned = format!(
        "[[plugin]]\nname = 'y'\ncomponent = '.components/sample.wasm'\nmount = 'y:///'\ndigest = '{digest}'\n\n[dev]"
    );
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("[dev]", &pinned)).unwrap();
    let dev = DevServer::start_in(folder.clone(), environment.clone()).await;
    dev.line("  + x:///world").await;
    dev.line("  + y:///plain").await;
    let digits = digest.strip_prefix("sha256:").unwrap();
    let compiled = || cached(&cache, ".cwasm").into_iter().partition::<Vec<_>, _>(|(name, _)| name.starts_with(digits));
    // The other component is compiled twice.
    while compiled().1.len() < 2 {
        wait_a_moment().await;
    }
    assert_eq!(compiled().0.len(), 1);
    dev.end().await;

    let mut read = mcp_host_tests::host_command();
    read.args(["read", "y:///plain"]).current_dir(folder).envs(environment);
    let read = read.output().await.unwrap();
    let stderr = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success() && !stderr.contains("compiling"), "{stderr}");
}

#[tokio::test]
async fn a_build_that_fails_is_shown_and_the_last_component_is_served_until_one_succeeds() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    project.folder().write("choice", "missing");
    dev.line("missing.wasm").await;
    let line = dev.line("error: the build failed after ").await;
    assert!(line.ends_with("exit status: 1; the last component is still served"), "{line}");
    let client = dev.client().await;
    assert_eq!(client.text("x:///world").await, "Hello, world!");
    drop(client);
    project.folder().write("choice", "hello");
    dev.line("the component is the same").await;
    project.folder().write("choice", "sample");
    dev.line("  + x:///plain").await;
    dev.end().await;
}

#[tokio::test]
async fn a_first_build_that_fails_leaves_the_server_up_for_the_next_one() {
    let project = DevProject::new();
    project.folder().write("choice", "missing");
    let dev = DevServer::start(&project).await;
    let line = dev.line("error: the build failed after ").await;
    assert!(line.ends_with("nothing is served yet"), "{line}");
    project.folder().write("choice", "hello");
    dev.line("  + x:///world").await;
    dev.end().await;
}

#[tokio::test]
async fn a_component_that_does_not_load_is_shown_and_the_last_one_is_served() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    project.folder().write(".components/broken.wasm", "no component");
    project.folder().write("choice", "broken");
    dev.line("reload failed").await;
    let client = dev.client().await;
    assert_eq!(client.text("x:///world").await, "Hello, world!");
    drop(client);
    dev.end().await;
}

#[tokio::test]
async fn a_listing_that_fails_is_called_once_by_a_reload() {
    let project = DevProject::new();
    project.folder().write(".components/bad.wasm", fs::read(fixture("misbehaving")).unwrap());
    let file = project.folder().path().join("mcp-host.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("[dev]", "config = { list = 'panic' }\n\n[dev]")).unwrap();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    project.folder().write("choice", "bad");
    dev.line("listing: it failed; the last one is kept").await;
    project.folder().write("choice", "sample");
    dev.line("  + x:///plain").await;
    let text = dev.end().await.log;
    assert_eq!(text.matches("function=\"list-entries\"").count(), 1, "{text}");
}

#[tokio::test]
async fn a_newer_save_ends_the_build_with_all_its_processes() {
    let project = DevProject::new();
    project.folder().write("slow", "");
    let dev = DevServer::start(&project).await;
    wait_for_build(&project, None).await;
    let slow = project.build_group().and_then(Pid::from_raw).unwrap();
    fs::remove_file(project.folder().path().join("slow")).unwrap();
    dev.line("build: slow changed during the build: ").await;
    dev.line("  + x:///world").await;
    wait_until_gone(slow).await;
    dev.end().await;
}

#[tokio::test]
async fn another_build_command_in_the_config_is_used_at_once_and_a_mistake_changes_nothing() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    let file = project.folder().path().join("mcp-host.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{config}\nwacth = ['src']\n")).unwrap();
    dev.line("did you mean `watch`?").await;
    let plugin = config.split("[dev]").next().unwrap();
    fs::write(&file, format!("{plugin}[dev]\nbuild = 'cp .components/sample.wasm provider.wasm'\n")).unwrap();
    dev.line("build: the config changed: cp .components/sample.wasm provider.wasm").await;
    dev.line("  + x:///plain").await;
    dev.end().await;
}

#[tokio::test]
async fn what_the_build_prints_does_not_drive_the_terminal() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    assert_eq!(dev.line("building hello").await, "building hello ");
    dev.line("  + x:///world").await;
    let text = dev.end().await.log;
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[tokio::test]
async fn keys_read_list_test_and_quit_and_leave_the_terminal_as_it_was() {
    let project = DevProject::new();
    let mut dev = DevOnTerminal::start(&project);
    dev.wait_for("+ x:///world").await;
    dev.wait_for("ready │ r read").await;
    assert!(!dev.is_terminal_cooked());
    dev.press("r");
    dev.wait_for("1  x:///world").await;
    dev.wait_for("read: █").await;
    dev.press("1\r");
    dev.wait_for("==> x:///world (text/plain, 13 B, ").await;
    dev.wait_for("Hello, world!").await;
    // Enter alone repeats the command.
    dev.press("r\r");
    dev.wait_for("Hello, world!").await;
    dev.press("rnobody\r");
    dev.wait_for("error: there is no resource x:///nobody").await;
    dev.press("r99\r");
    dev.wait_for("error: there is no resource 99; the numbers are 1 to 1").await;
    dev.press("t");
    dev.wait_for("test: x: ").await;
    dev.wait_for(" passed, 0 failed, ").await;
    project.folder().write("choice", "sample");
    dev.wait_for("+ x:///plain").await;
    dev.press("rbinary\r");
    dev.wait_for("==> x:///binary (").await;
    dev.wait_for("binary: not shown").await;
    dev.press("?");
    dev.wait_for("Clients connect at http://127.0.0.1:").await;
    dev.press("b");
    dev.wait_for("the component is the same").await;
    dev.press("q");
    assert_eq!(dev.wait_exit().await, (Some(0), true), "{}", dev.text());
}

#[tokio::test]
async fn while_the_new_component_is_compiled_and_if_it_does_not_load_answers_are_said_to_be_of_the_last_one() {
    let project = DevProject::new();
    // A custom section makes it a different component, which takes the host a second to compile.
    let mut component = fs::read(fixture("sample")).unwrap();
    let section = format!("x{:?}", std::time::SystemTime::now());
    component.extend([0, u8::try_from(section.len() + 1).unwrap(), 1]);
    component.extend(section.as_bytes());
    project.folder().write(".components/slow.wasm", component);
    project.folder().write(".components/broken.wasm", "no component");
    let mut dev = DevOnTerminal::start_with(&project, &["--optimize"]);
    dev.wait_for("+ x:///world").await;
    project.folder().write("choice", "broken");
    dev.wait_for("reload failed").await;
    dev.press("rworld\r");
    dev.wait_for("note: the new component is not loaded; this is of the last one").await;
    dev.wait_for("Hello, world!").await;
    project.folder().write("choice", "slow");
    dev.wait_for("compiling, ").await;
    dev.press("l");
    dev.wait_for("note: the new component is being compiled; this is of the last one").await;
    dev.wait_for("+ x:///plain").await;
    dev.wait_for("ready │ r read").await;
    dev.press("rplain\r");
    dev.wait_for("==> x:///plain").await;
    dev.press("q");
    assert_eq!(dev.wait_exit().await, (Some(0), true));
    assert!(!dev.text().rsplit_once("+ x:///plain").unwrap().1.contains("of the last one"), "{}", dev.text());
}

#[tokio::test]
async fn after_it_was_stopped_keys_are_read_as_before() {
    let project = DevProject::new();
    let mut dev = DevOnTerminal::start(&project);
    dev.wait_for("+ x:///world").await;
    dev.stop_and_continue();
    while dev.is_terminal_cooked() {
        wait_a_moment().await;
    }
    dev.press("q");
    assert_eq!(dev.wait_exit().await, (Some(0), true));
}

#[tokio::test]
async fn the_test_at_a_key_shows_what_fails_and_what_to_do() {
    let project = DevProject::new();
    project.folder().write(".components/bad.wasm", fs::read(fixture("raw")).unwrap());
    let file = project.folder().path().join("mcp-host.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("[dev]", "config = { fault = 'sizes' }\n\n[dev]")).unwrap();
    project.folder().write("choice", "bad");
    let mut dev = DevOnTerminal::start(&project);
    dev.wait_for(RELOADED).await;
    dev.press("t");
    dev.wait_for(" 1 failed, ").await;
    dev.wait_for("sizes: ").await;
    dev.wait_for("to fix: ").await;
    dev.press("q");
    assert_eq!(dev.wait_exit().await, (Some(0), true));
}

#[tokio::test]
async fn a_signal_restores_the_terminal_and_ends_the_build() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let project = DevProject::new();
        project.folder().write("slow", "");
        let mut dev = DevOnTerminal::start(&project);
        wait_for_build(&project, None).await;
        dev.wait_for("building, ").await;
        assert!(!dev.is_terminal_cooked());
        dev.signal(signal);
        assert_eq!(dev.wait_exit().await, (Some(0), true), "{signal:?}: {}", dev.text());
        wait_until_build_is_gone(&project).await;
    }
}

/// The manifest of a standalone provider that uses this repository's SDK.
fn manifest(repo: &Path) -> String {
    format!(
        "[package]\nname = 'greeting'\nversion = '0.1.0'\nedition = '2024'\n\n[lib]\ncrate-type = ['cdylib']\n\n\
         [dependencies]\nmcp-provider = {{ path = '{}' }}\n\n[workspace]\n",
        repo.join("sdk-guest/rust").display()
    )
}

/// Returns the environment variables with which cargo behaves as in this test.
fn cargo_environment(target: &Path) -> Vec<(&'static str, String)> {
    let kept = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    let kept = kept.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    kept.chain([("CARGO_NET_OFFLINE", "true".to_owned()), ("CARGO_TARGET_DIR", target.display().to_string())]).collect()
}

#[tokio::test]
async fn a_provider_in_rust_is_built_by_cargo_and_what_was_edited_is_shown() {
    let repo = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    // The target directory is kept, because the dependencies take a minute to compile.
    let target = repo.join("target/dev-provider/target");
    let component = target.join("wasm32-wasip2/debug/greeting.wasm");
    let source = fs::read_to_string(repo.join("examples/hello-rust/src/lib.rs")).unwrap();
    let config = format!("[[plugin]]\nname = 'hello'\ncomponent = '{}'\nmount = 'hello:///'\n", component.display());
    let folder = Folder::with_files([
        ("Cargo.toml", manifest(repo)),
        ("Cargo.lock", fs::read_to_string(repo.join("plugins/Cargo.lock")).unwrap()),
        ("rust-toolchain.toml", fs::read_to_string(repo.join("rust-toolchain.toml")).unwrap()),
        ("src/lib.rs", source.clone()),
        ("mcp-host.toml", config),
    ]);
    let environment = cargo_environment(&target);
    let mut cargo = std::process::Command::new("cargo");
    cargo.args(["build", "--target", "wasm32-wasip2"]).current_dir(folder.path()).env_clear().envs(environment.clone());
    let built = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    if said.contains("E0463") {
        return eprintln!("not tested: this machine has no target `wasm32-wasip2` for cargo");
    }
    assert!(built.status.success(), "{said}");

    let dev = DevServer::start_in(folder.path().to_owned(), environment).await;
    assert_eq!(dev.line("build: cargo").await, "build: cargo build --target wasm32-wasip2");
    dev.line("  + hello:///world  text/plain  world").await;
    folder.write("src/lib.rs", source.replace(".mime_type(", ".title(format!(\"Greeting of {name}\")).mime_type("));
    dev.line("  ~ hello:///world  title: none → \"Greeting of world\"").await;
    assert!(dev.line(" after the change: ").await.ends_with("1 changed"));
    folder.write("src/lib.rs", "mistake");
    dev.line("error: could not compile `greeting`").await;
    dev.line("the last component is still served").await;
    dev.end().await;
}

#[tokio::test]
async fn a_project_that_is_not_built_yet_is_said_to_be_built_by_its_command() {
    let config = "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\n\n[dev]\nbuild = 'make all'\n";
    let folder = Folder::with_files([("mcp-host.toml", config)]);
    let file = folder.path().join("mcp-host.toml");
    for command in ["list", "check"] {
        let output = run([command, "--config", file.to_str().unwrap()]).await;
        assert_eq!(output.code(), 2);
        assert!(output.stderr.contains("build it: `make all`, or `mcp-host dev`"), "{command}: {}", output.stderr);
    }
}

#[tokio::test]
async fn without_a_project_or_a_build_command_it_says_what_to_write() {
    let folder = Folder::with_files([("notes.md", "")]);
    let dir = folder.path().to_str().unwrap();
    for dir in [dir, "/nonexistent"] {
        let output = run(["dev", dir]).await;
        assert_eq!(output.code(), 2);
        assert!(output.stderr.contains(dir) && output.stderr.contains("`mcp-host new NAME`"), "{}", output.stderr);
        assert!(!output.stderr.contains("[[plugin]]"), "there is nothing to build: {}", output.stderr);
    }
    folder.write("pyproject.toml", "");
    let output = run(["dev", dir]).await;
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("is no provider project: there is no "), "{}", output.stderr);
    assert!(output.stderr.contains("mcp-host.toml") && output.stderr.contains("[[plugin]]"), "{}", output.stderr);
    folder.write("mcp-host.toml", "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\n");
    let output = run(["dev", dir]).await;
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("nothing says how to build the project"), "{}", output.stderr);
    assert!(output.stderr.contains("[dev]\nbuild = \".venv/bin/mcp-host-provider build"), "{}", output.stderr);
}
