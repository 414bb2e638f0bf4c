//! Static content of a component: for any amount of any kind, the host's memory stays within `limits.memory` and a
//! fixed allowance while it loads and calls the component, or the component is rejected with the kind that exceeds its
//! limit.

use futures::{StreamExt, stream};
use mcp_host_tests::{ConfigFile, Folder, Plugin, StdioServer, WatProvider, run};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wasm_encoder::{
    CanonicalFunctionSection, CodeSection, Component, ComponentTypeSection, ConstExpr, CustomSection, DataSection,
    ElementSection, Elements, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType,
    HeapType, InstanceSection, MemorySection, MemoryType, Module, ModuleArg, ModuleSection, RefType, Section,
    TableSection, TableType, TypeSection, ValType,
};

use crate::support::wasm_fixtures;

/// The number of random components, in addition to one per kind with a very large amount.
const RANDOM_CASES: usize = 20;
/// The number of concurrent servers.
const SERVERS: usize = 4;
/// `limits.memory` of each plugin.
const MEMORY: &str = "4MiB";
/// The maximum peak memory of a server with any such component: its own 60 MB, the metadata of the component, encoded
/// and decoded, and twice the plugin's memory (the probe of the circuit breaker uses the same amount again).
const MAX_PEAK: u64 = 160 << 20;

/// A kind of static content: the name, the maximum declared amount, and a function that creates a nested component with
/// a given amount. Components are encoded directly, because parsing them as text takes ten times as long as the host's
/// work.
type Kind = (&'static str, usize, fn(usize) -> Vec<u8>);

/// Returns a component that instantiates a core module.
fn instantiated(module: &Module) -> Vec<u8> {
    let mut instances = InstanceSection::new();
    instances.instantiate::<[(&str, ModuleArg); 0], &str>(0, []);
    let mut component = Component::new();
    component.section(&ModuleSection(module)).section(&instances);
    component.finish()
}

/// Returns a component that instantiates a core module with a section.
fn module(section: &impl Section) -> Vec<u8> {
    let mut module = Module::new();
    module.section(section);
    instantiated(&module)
}

/// Returns a component that instantiates a core module with one function, and with sections before or after its code
/// that may refer to it.
fn with_function(section: &impl Section) -> Vec<u8> {
    let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
    types.ty().function([], []);
    functions.function(0);
    let mut empty = Function::new([]);
    empty.instructions().end();
    code.function(&empty);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(section).section(&code);
    instantiated(&module)
}

/// Returns a component whose core module has a passive segment of `count` elements that refer to its function.
fn function_elements(count: usize) -> Vec<u8> {
    let mut elements = ElementSection::new();
    elements.passive(Elements::Functions(vec![0; count].into()));
    with_function(&elements)
}

fn globals(val_type: ValType, value: &ConstExpr, count: usize) -> Vec<u8> {
    let mut globals = GlobalSection::new();
    for _ in 0..count {
        globals.global(GlobalType { val_type, mutable: true, shared: false }, value);
    }
    module(&globals)
}

fn memories(count: usize) -> MemorySection {
    let mut memories = MemorySection::new();
    for _ in 0..count {
        memories.memory(MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None });
    }
    memories
}

/// Returns a component with a nested component that calls `count` functions of another one. The engine generates an
/// adapter for each of them.
fn adapters(count: usize) -> Vec<u8> {
    let all = |one: fn(usize) -> String| (0..count).map(one).collect::<String>();
    let functions = all(|n| format!("(func (export \"f{n}\") (param i32))"));
    let lifted = all(|n| format!("(func (export \"f{n}\") (param \"x\" u32) (canon lift (core func $i \"f{n}\")))"));
    let imports = all(|n| format!("(import \"f{n}\" (func $f{n} (param \"x\" u32)))"));
    let lowered = all(|n| format!("(core func $g{n} (canon lower (func $f{n})))"));
    let core_imports = all(|n| format!("(import \"\" \"g{n}\" (func (param i32)))"));
    let core_arguments = all(|n| format!("(export \"g{n}\" (func $g{n}))"));
    let arguments = all(|n| format!("(with \"f{n}\" (func $a \"f{n}\"))"));
    let text = format!(
        "(component
           (component $a
             (core module $m {functions})
             (core instance $i (instantiate $m))
             {lifted})
           (component $b
             {imports} {lowered}
             (core module $m {core_imports})
             (core instance (instantiate $m (with \"\" (instance {core_arguments})))))
           (instance $a (instantiate $a))
           (instance (instantiate $b {arguments})))"
    );
    wat::parse_str(text).unwrap()
}

const KINDS: [Kind; 14] = [
    ("function elements", 300_000, function_elements),
    ("null elements", 200_000, |count| {
        let mut elements = ElementSection::new();
        let nulls = vec![ConstExpr::ref_null(HeapType::FUNC); count];
        elements.passive(Elements::Expressions(RefType::FUNCREF, nulls.into()));
        module(&elements)
    }),
    ("element segments", 50_000, |count| {
        let mut elements = ElementSection::new();
        for _ in 0..count {
            elements.passive(Elements::Functions(vec![0, 0].into()));
        }
        with_function(&elements)
    }),
    ("globals", 400_000, |count| globals(ValType::I64, &ConstExpr::i64_const(7), count)),
    ("vectors", 200_000, |count| globals(ValType::V128, &ConstExpr::v128_const(7), count)),
    ("data segments", 50_000, |count| {
        let mut data = DataSection::new();
        for _ in 0..count {
            data.passive(*b"some");
        }
        let mut module = Module::new();
        module.section(&memories(1)).section(&data);
        instantiated(&module)
    }),
    ("tables", 60, |count| {
        let mut tables = TableSection::new();
        for _ in 0..count {
            let element_type = RefType::FUNCREF;
            tables.table(TableType { element_type, table64: false, minimum: 100, maximum: None, shared: false });
        }
        module(&tables)
    }),
    ("memories", 12, |count| module(&memories(count))),
    ("exports", 100_000, |count| {
        let mut exports = ExportSection::new();
        for number in 0..count {
            exports.export(&format!("{number:020}"), ExportKind::Func, 0);
        }
        with_function(&exports)
    }),
    ("core types", 40_000, |count| {
        let mut types = TypeSection::new();
        for number in 0..count {
            let bit = |bit: usize| if number >> bit & 1 == 0 { ValType::I32 } else { ValType::I64 };
            types.ty().function((0..16).map(bit), []);
        }
        module(&types)
    }),
    ("resources", 2_000, |count| {
        let (mut types, mut functions) = (ComponentTypeSection::new(), CanonicalFunctionSection::new());
        for number in 0..u32::try_from(count).unwrap() {
            types.resource(ValType::I32, None);
            functions.resource_new(number);
        }
        let mut component = Component::new();
        component.section(&types).section(&functions);
        component.finish()
    }),
    ("nested instances", 14, |levels| {
        let level =
            |i| format!("(component $c{} (instance (instantiate $c{i})) (instance (instantiate $c{i})))", i + 1);
        let text = format!(
            "(component (component $c0 (core module $m) (core instance (instantiate $m))) {} (instance (instantiate $c{levels})))",
            (0..levels).map(level).collect::<String>()
        );
        wat::parse_str(text).unwrap()
    }),
    ("adapters", 500, adapters),
    ("custom sections", 5_000, |count| {
        let mut module = Module::new();
        for number in 0..count {
            module.section(&CustomSection { name: number.to_string().into(), data: vec![b'x'; 1000].into() });
        }
        instantiated(&module)
    }),
];

/// Creates a provider that also instantiates a component `instances` times, and asserts that the host handles it within
/// bounds.
async fn assert_bounded(provider: &[u8], name: &str, amount: usize, nested: &[u8], instances: usize) -> bool {
    let component = wasm_fixtures::with_instances(provider.to_vec(), nested, instances);
    let folder = Folder::with_files([("static.wasm", component)]);
    let file = folder.path().join("static.wasm");
    let plugin = Plugin::new("static", &file, "static:///").limit("memory", MEMORY);
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await;
    let answer = server.client().read_error("static:///x").await;
    let peak = server.peak_rss();
    let log = server.end().await.log;
    // A served provider returns neither contents nor a failure.
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
    let one_and_most = KINDS.iter().flat_map(|kind| [(kind, 1, 1), (kind, kind.1, 3)]);
    let mut runner = TestRunner::deterministic();
    let strategy = (0..KINDS.len(), 0.0..1.0_f64, 1..12_usize);
    let random = std::iter::repeat_with(move || {
        let (kind, exponent, instances) = strategy.new_tree(&mut runner).unwrap().current();
        let kind = &KINDS[kind];
        // Small amounts are as frequent as large ones.
        (kind, (kind.1 as f64).powf(exponent) as usize, instances)
    });
    let cases = stream::iter(one_and_most.chain(random.take(RANDOM_CASES)));
    cases
        .for_each_concurrent(SERVERS, |((name, _, content), amount, instances)| {
            let provider = &provider;
            async move {
                let is_served = assert_bounded(provider, name, amount, &content(amount), instances).await;
                assert!(is_served || amount > 1 || instances > 1, "one is served: {name}");
            }
        })
        .await;
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
    let nested = function_elements(300_000);
    let large = wasm_fixtures::with_instances(std::fs::read(file.path()).unwrap(), &nested, 19);
    let folder = Folder::with_files([("large.wasm", large)]);
    let shown = run(["inspect".as_ref(), folder.path().join("large.wasm").as_os_str()]).await;
    let text = format!("{}{}", String::from_utf8_lossy(&shown.stdout), shown.stderr);
    assert!(text.contains("6000000 elements of passive element segments"), "{text}");
}
