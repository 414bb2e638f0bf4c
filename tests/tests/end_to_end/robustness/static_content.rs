//! What a component declares: however much of whatever kind, the host's memory stays within `limits.memory` and a fixed
//! allowance when it loads and calls the component, or the component is refused for what it has too much of.

use mcp_host_tests::{ConfigFile, Folder, Plugin, StdioServer, WatProvider, run};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::support::wasm_fixtures;

/// The components that are made, beside one with very much of each kind.
const RANDOM_CASES: usize = 20;
/// `limits.memory` of each.
const MEMORY: &str = "4MiB";
/// What a server takes at its peak with any such component: its own 60 MB, the metadata of the component, as encoded and
/// decoded, and twice the memory of the plugin (the probe of the circuit breaker has as much again).
const MAX_PEAK: u64 = 160 << 20;

/// A kind of static content: the name, the most of it that is declared, and a nested component with so many.
type Kind = (&'static str, usize, fn(usize) -> String);

fn repeat(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

/// A component that instantiates a core module with those fields.
fn module(fields: &str) -> String {
    format!("(component (core module $m {fields}) (core instance (instantiate $m)))")
}

const KINDS: [Kind; 13] = [
    ("function elements", 300_000, |n| module(&format!("(func $f) (elem func {})", "$f ".repeat(n)))),
    ("null elements", 200_000, |n| module(&format!("(elem funcref {})", "(ref.null func) ".repeat(n)))),
    ("element segments", 50_000, |n| module(&format!("(func $f) {}", "(elem func $f $f) ".repeat(n)))),
    ("globals", 400_000, |n| module(&"(global (mut i64) (i64.const 7)) ".repeat(n))),
    ("vectors", 200_000, |n| module(&"(global (mut v128) (v128.const i64x2 1 2)) ".repeat(n))),
    ("data segments", 50_000, |n| module(&format!("(memory 1) {}", "(data \"some\") ".repeat(n)))),
    ("tables", 60, |n| module(&"(table 100 funcref) ".repeat(n))),
    ("memories", 12, |n| module(&"(memory 1) ".repeat(n))),
    ("exports", 100_000, |n| {
        module(&format!("(func $f) {}", repeat(n, |i| format!("(export \"{i:020}\" (func $f))"))))
    }),
    ("core types", 40_000, |n| {
        let types = repeat(n, |i| {
            format!(
                "(type (func (param {})))",
                repeat(16, |bit| (if i >> bit & 1 == 0 { "i32 " } else { "i64 " }).into())
            )
        });
        module(&types)
    }),
    ("resources", 2_000, |n| {
        let one = |i: usize| format!("(type $r{i} (resource (rep i32))) (core func (canon resource.new $r{i}))");
        format!("(component {})", repeat(n, one))
    }),
    ("nested instances", 14, |levels| {
        let level =
            |i| format!("(component $c{} (instance (instantiate $c{i})) (instance (instantiate $c{i})))", i + 1);
        format!(
            "(component (component $c0 (core module $m) (core instance (instantiate $m))) {} (instance (instantiate $c{levels})))",
            repeat(levels, level)
        )
    }),
    ("custom sections", 5_000, |n| module(&repeat(n, |i| format!("(@custom \"{i}\" \"{}\")", "x".repeat(1000))))),
];

/// Makes a provider that also instantiates that component so many times, and asserts what the host does with it.
async fn assert_bounded(provider: &[u8], name: &str, amount: usize, nested: &str, instances: usize) -> bool {
    let nested = wat::parse_str(nested).unwrap();
    let component = wasm_fixtures::with_instances(provider.to_vec(), &nested, instances);
    let folder = Folder::with_files([("static.wasm", component)]);
    let file = folder.path().join("static.wasm");
    let plugin = Plugin::new("static", &file, "static:///").limit("memory", MEMORY);
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await;
    let answer = server.client().read_error("static:///x").await;
    let peak = server.peak_rss();
    let log = server.end().await.log;
    // The provider returns neither contents nor a failure, if it is served.
    let is_served = log.contains("reading `x` gave neither contents nor a failure");
    let case = format!("{amount} {name}, {instances} times");
    assert!(peak <= MAX_PEAK, "{case}: {peak} bytes\n{log}");
    let says_what = [
        "too large for a component: it has ",
        "too large for `limits.memory`",
        "`server.compile.",
        "count exceeds",
        "exceeds limit",
        "exceeds the limit",
        "more than `limits.memory`",
        "`limits.cpu`",
    ];
    assert!(is_served || says_what.iter().any(|said| log.contains(said)), "{case}: {answer:?}\n{log}");
    assert!(!log.contains("of another version"), "{case}: {log}");
    is_served
}

#[tokio::test]
async fn whatever_a_component_declares_the_host_takes_bounded_memory_for_it_or_says_what_is_too_much() {
    let file = WatProvider::new().build();
    let provider = std::fs::read(file.path()).unwrap();
    for (name, most, content) in KINDS {
        assert!(assert_bounded(&provider, name, 1, &content(1), 1).await, "one is served: {name}");
        assert_bounded(&provider, name, most, &content(most), 3).await;
    }
    let mut runner = TestRunner::deterministic();
    let strategy = (0..KINDS.len(), 0.0..1.0_f64, 1..12_usize);
    for _ in 0..RANDOM_CASES {
        let (kind, exponent, instances) = strategy.new_tree(&mut runner).unwrap().current();
        let (name, most, content) = KINDS[kind];
        // As many small amounts as large ones.
        let amount = (most as f64).powf(exponent) as usize;
        assert_bounded(&provider, name, amount, &content(amount), instances).await;
    }
}

#[tokio::test]
async fn a_component_whose_elements_do_not_fit_is_refused_with_their_number_also_by_inspect() {
    let file = WatProvider::new().module_fields(&format!("(func $e) (elem func {})", "$e ".repeat(300_000))).build();
    let inspected = |memory: &'static str| {
        let plugin = Plugin::new("static", &file.path(), "static:///").limit("memory", memory);
        let config = ConfigFile::new().plugin(plugin).write();
        async move {
            let server = StdioServer::start(&config).await;
            let answer = server.client().read_error("static:///x").await;
            (answer.message.to_string(), server.end().await.log)
        }
    };
    let (_, log) = inspected("4MiB").await;
    assert!(
        log.contains("is too large for `limits.memory` (4.0 MiB)") && log.contains("300000 elements of passive"),
        "{log}"
    );
    let (answer, log) = inspected("8MiB").await;
    assert!(!log.contains("too large"), "{answer}\n{log}");
    let nested = wat::parse_str(module(&format!("(func $e) (elem func {})", "$e ".repeat(300_000)))).unwrap();
    let large = wasm_fixtures::with_instances(std::fs::read(file.path()).unwrap(), &nested, 19);
    let folder = Folder::with_files([("large.wasm", large)]);
    let shown = run(["inspect".as_ref(), folder.path().join("large.wasm").as_os_str()]).await;
    let text = format!("{}{}", String::from_utf8_lossy(&shown.stdout), shown.stderr);
    assert!(text.contains("6000000 elements of passive element segments"), "{text}");
}
