//! Components that are hostile to their loader: too large, too many parts, too expensive to compile. Each is rejected
//! within bounds, and a good plugin is served.

use std::fs::File;
use std::path::Path;

use mcp_host_tests::{ConfigFile, Folder, Plugin, StdioServer, fixture, run, run_on_terminal};

use crate::support::wasm_fixtures;

/// A component that takes a compiler minutes.
fn slow_to_compile() -> Vec<u8> {
    wasm_fixtures::hard_to_compile(1000, 300)
}

/// A component that takes a compiler gigabytes.
fn memory_hungry() -> Vec<u8> {
    wasm_fixtures::hard_to_compile(3000, 1000)
}

/// Returns the log about a component under limits of the compiler, while a good component is served.
async fn load_log(component: &[u8], limits: &[(&str, &str)]) -> String {
    let folder = Folder::with_files([("heavy.wasm", component)]);
    let compile: toml::Table = limits.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let good = Plugin::new("good", &fixture("raw"), "raw://good/");
    // The good component is in the cache, so the compiler's limits do not affect it.
    StdioServer::start(&ConfigFile::new().plugin(good.clone()).write()).await.end().await;
    let config = ConfigFile::new()
        .server("compile", compile)
        .plugin(Plugin::new("heavy", &folder.path().join("heavy.wasm"), "heavy:///"))
        .plugin(good)
        .write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("raw://good/good").await, "good");
    let refused = server.client().read_error("heavy:///x").await;
    assert!(refused.message.contains("heavy"), "{}", refused.message);
    server.end().await.log
}

async fn inspect_error(file: &Path) -> String {
    let inspected = run(["inspect".as_ref(), file.as_os_str()]).await;
    assert_eq!(inspected.code(), 1, "{}", inspected.stderr);
    inspected.stderr
}

#[tokio::test]
async fn a_component_that_takes_minutes_to_compile_is_given_up() {
    let log = load_log(&slow_to_compile(), &[("deadline", "1s")]).await;
    assert!(log.contains("the compiler was terminated after 1s (`server.compile.deadline`)"), "{log}");
}

#[tokio::test]
async fn a_compiler_has_so_much_cpu_time_and_no_more() {
    let log = load_log(&slow_to_compile(), &[("cpu", "1s"), ("deadline", "10m")]).await;
    assert!(log.contains("the compiler was terminated after 1s of CPU time (`server.compile.cpu`)"), "{log}");
}

#[tokio::test]
async fn a_compiler_has_so_much_memory_and_no_more() {
    let log = load_log(&memory_hungry(), &[("memory", "512MiB"), ("deadline", "10m")]).await;
    assert!(log.contains("the compiler exceeded 512.0 MiB of memory (`server.compile.memory`)"), "{log}");
}

#[tokio::test]
async fn a_component_of_200_mb_is_served_without_ever_being_in_memory() {
    let folder = Folder::with_files([(
        "large.wasm",
        wasm_fixtures::with_padding(std::fs::read(fixture("raw")).unwrap(), &vec![0; 200_000_000]),
    )]);
    let config =
        ConfigFile::new().plugin(Plugin::new("large", &folder.path().join("large.wasm"), "raw://large/")).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("raw://large/good").await, "good");
    let peak = server.peak_rss();
    assert!(peak < 100_000_000, "{peak} bytes");
    server.end().await;
}

#[tokio::test]
async fn a_component_beyond_256_mib_is_refused_unread() {
    let folder = Folder::with_files([("huge.wasm", b"\0asm\x0d\0\x01\0")]);
    let file = folder.path().join("huge.wasm");
    File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
    let error = inspect_error(&file).await;
    assert!(error.contains("is too large for a component: it has more than 256.0 MiB"), "{error}");
}

#[tokio::test]
async fn components_of_too_many_parts_are_refused() {
    let imports = (0..100_000).map(|index| format!("acme:many/i{index}"));
    for (component, said) in [
        (wasm_fixtures::component_with_imports(imports), "instances count exceeds limit"),
        (wasm_fixtures::component_with_exports(100_000), "it has 100000 exports, more than 1000"),
    ] {
        let folder = Folder::with_files([("many.wasm", component)]);
        let error = inspect_error(&folder.path().join("many.wasm")).await;
        assert!(error.contains(said) && error.len() < 1000, "{error}");
    }
}

#[tokio::test]
async fn a_long_list_of_what_is_missing_is_cut() {
    let imports = (0..900).map(|index| format!("acme:many/i{index}"));
    let folder = Folder::with_files([("many.wasm", wasm_fixtures::component_with_imports(imports))]);
    let error = inspect_error(&folder.path().join("many.wasm")).await;
    assert!(error.contains("`acme:many/i0`") && error.contains("and 880 more") && error.len() < 1500, "{error}");
}

#[tokio::test]
async fn components_in_components_end_somewhere() {
    for depth in [10, 2000] {
        let folder = Folder::with_files([("deep.wasm", wasm_fixtures::nested_components(depth))]);
        inspect_error(&folder.path().join("deep.wasm")).await;
    }
}

#[tokio::test]
async fn a_provider_that_is_cut_off_anywhere_is_refused() {
    let whole = std::fs::read(fixture("raw")).unwrap();
    let folder = Folder::with_files((1..8).map(|part| (format!("{part}.wasm"), &whole[..whole.len() * part / 8])));
    let config = (1..8).fold(ConfigFile::new(), |config, part| {
        let file = folder.path().join(format!("{part}.wasm"));
        config.plugin(Plugin::new(&format!("p{part}"), &file, &format!("p{part}:///")))
    });
    let checked = run(["check", "--json", "--config", config.write().path().to_str().unwrap()]).await;
    assert_eq!(checked.code(), 1);
    for plugin in checked.json()["plugins"].as_array().unwrap() {
        assert_eq!(plugin["state"], "not-loaded");
        let error = plugin["error"].as_str().unwrap();
        assert!(error.contains("cannot compile"), "{error}");
    }
}

#[tokio::test]
async fn names_in_a_component_do_not_drive_the_terminal() {
    let folder = Folder::with_files([(
        "names.wasm",
        wasm_fixtures::component_with_imports(["url=<a\u{1b}]0;owned\u{7}\nerror: b>"]),
    )]);
    let file = folder.path().join("names.wasm");
    let shown = run_on_terminal(["inspect".as_ref(), file.as_os_str()]).await;
    for text in [shown.text(), shown.stderr] {
        assert!(text.contains(r"url=<a\u{1b}]0;owned\u{7}\nerror: b>"), "{text}");
    }
    let config = ConfigFile::new().plugin(Plugin::new("names", &file, "names:///")).write();
    let served = StdioServer::start(&config).await;
    let log = served.end().await.log;
    assert!(log.contains("owned") && !log.contains(['\u{1b}', '\u{7}']), "{log}");
}
