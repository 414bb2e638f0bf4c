//! Guests that no compiler would emit: answers with an invalid layout, tables and memories that grow without bound,
//! code that runs before any call. The client gets a matching error, the host's memory does not grow, and a good plugin
//! is served.

use mcp_host_tests::{ComponentFile, ConfigFile, Plugin, StdioServer, WatProvider, WrittenConfig, fixture};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

/// More than the host and its instance pool use, but less than any of these guests tries to use.
const MAX_RSS: u64 = 300 << 20;

/// A provider whose function `read` consists of these instructions.
fn provider_with_read(instructions: &str) -> WatProvider {
    WatProvider::new().function("read", instructions)
}

/// Returns instructions for an answer with one content, whose body is a text or bytes (`kind`), at an address and of a
/// length.
fn single_content(kind: u32, address: u32, length: u32) -> String {
    format!(
        "(i32.store (i32.const 1032) (i32.const 8192))
         (i32.store (i32.const 1036) (i32.const 1))
         (i32.store8 (i32.const 8360) (i32.const {kind}))
         (i32.store (i32.const 8364) (i32.const {address}))
         (i32.store (i32.const 8368) (i32.const {length}))
         (i32.const 1024)"
    )
}

fn store_byte(address: u32, value: u32) -> String {
    format!("(i32.store8 (i32.const {address}) (i32.const {value}))")
}

/// A text that a component tries to inject into the log.
const FORGED: &str = "ERROR mcp_host::plugin: forged";

const TEXT: u32 = 0;
const BLOB: u32 = 2;

fn plugin(component: &ComponentFile) -> Plugin {
    Plugin::new("bad", &component.path(), "bad://bad/").limit("cpu", "200ms")
}

fn config_with_good_plugin(bad: Plugin) -> WrittenConfig {
    ConfigFile::new().plugin(bad).plugin(Plugin::new("good", &fixture("misbehaving"), "good://good/")).write()
}

/// Reads from the plugin, and returns the text, or the kind and message of the error. Afterwards, a good plugin is
/// read.
async fn read(bad: Plugin) -> Result<Vec<u8>, Value> {
    let server = StdioServer::start(&config_with_good_plugin(bad)).await;
    let answer = match server.client().read("bad://bad/x").await {
        Ok(contents) => Ok(mcp_host_tests::content_bytes(&contents[0])),
        Err(error) => {
            assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{error:?}");
            Err(json!([error.data.unwrap()["kind"], error.message]))
        }
    };
    assert_eq!(server.client().text("good://good/good").await, "good");
    let resident = server.peak_rss();
    assert!(resident < MAX_RSS, "the host took up {} MiB", resident >> 20);
    server.end().await;
    answer
}

fn internal_error() -> Result<Vec<u8>, Value> {
    Err(json!(["internal", "plugin `bad` failed; the server's log says why"]))
}

fn unavailable_error(reason: &str) -> Result<Vec<u8>, Value> {
    Err(json!(["unavailable", format!("plugin `bad` cannot answer: {reason}")]))
}

#[tokio::test]
async fn a_provider_in_plain_text_can_be_read() {
    let component =
        provider_with_read(&single_content(TEXT, 9000, 2)).module_fields("(data (i32.const 9000) \"hi\")").build();
    assert_eq!(read(plugin(&component)).await, Ok(b"hi".to_vec()));
}

#[tokio::test]
async fn text_that_is_not_utf8_is_no_answer() {
    let component = provider_with_read(&single_content(TEXT, 9000, 2))
        .module_fields("(data (i32.const 9000) \"\\ff\\fe\")")
        .build();
    assert_eq!(read(plugin(&component)).await, internal_error());
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_no_answer() {
    for (units, answered) in [("\\3d\\d8\\00\\de", Ok("😀".as_bytes().to_vec())), ("\\3d\\d8h\\00", internal_error())]
    {
        let data = format!("(data (i32.const 9000) \"{units}\")");
        let component = provider_with_read(&single_content(TEXT, 9000, 2)).module_fields(&data).utf16().build();
        assert_eq!(read(plugin(&component)).await, answered, "{units}");
    }
}

#[tokio::test]
async fn answers_that_lie_outside_of_the_memory_are_none() {
    for (what, instructions) in [
        ("an answer behind the end", "(i32.const -8)".to_owned()),
        ("an answer at an odd place", "(i32.const 1027)".to_owned()),
        ("a body behind the end", single_content(BLOB, 1 << 20, 1)),
        ("a body as long as any", single_content(BLOB, 8, u32::MAX)),
        ("a body of no kind", single_content(9, 8, 1)),
        ("contents without end", "(i32.store (i32.const 1036) (i32.const -1)) (i32.const 1024)".to_owned()),
        ("a failure of no kind", format!("{} {} (i32.const 1024)", store_byte(1024, 1), store_byte(1032, 9))),
        ("neither an answer nor a failure", format!("{} (i32.const 1024)", store_byte(1024, 7))),
    ] {
        let component = provider_with_read(&instructions).build();
        assert_eq!(read(plugin(&component)).await, internal_error(), "{what}");
    }
}

#[tokio::test]
async fn an_answer_of_a_gibibyte_is_refused_before_it_is_copied() {
    let grow = format!("(drop (memory.grow (i32.const 16385))) {}", single_content(BLOB, 65536, 1 << 30));
    let component = provider_with_read(&grow).build();
    let bad = plugin(&component).limit("memory", "2GiB");
    assert_eq!(read(bad).await, unavailable_error("its response is larger than the 16.0 MiB allowed"));
}

#[tokio::test]
async fn a_million_entries_at_once_are_refused() {
    // Each entry is all zeros: the mount itself, without a name.
    let entries = "(i32.store (i32.const 1032) (i32.const 65536)) (i32.store (i32.const 1036) (i32.const 1000000))
                   (i32.const 1024)";
    let component = WatProvider::new().function("list-entries", entries).memory(2600).build();
    let server = StdioServer::start(&config_with_good_plugin(plugin(&component).limit("memory", "256MiB"))).await;
    let page = server.client().page(None).await.unwrap();
    let missing = serde_json::to_value(&page.meta).unwrap()["mcp-host/missing"].clone();
    assert_eq!(missing[0]["plugin"], "bad");
    assert!(page.resources.iter().any(|resource| resource.uri == "good://good/good"));
    let resident = server.peak_rss();
    assert!(resident < MAX_RSS, "the host took up {} MiB", resident >> 20);
    server.end().await;
}

#[tokio::test]
async fn a_table_does_not_grow_beyond_its_bound() {
    let grow = format!(
        "(loop $more (br_if $more (i32.ne (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1))))
         (i32.store (i32.const 9000) (table.size $table)) {}",
        single_content(BLOB, 9000, 4)
    );
    let component = provider_with_read(&grow).module_fields("(table $table 0 funcref)").build();
    let size = read(plugin(&component)).await.unwrap();
    assert!(u32::from_le_bytes(size.try_into().unwrap()) <= 60_000);
}

#[tokio::test]
async fn memory_does_not_grow_beyond_its_limit() {
    let grow = format!(
        "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
         (i32.store (i32.const 9000) (memory.size)) {}",
        single_content(BLOB, 9000, 4)
    );
    let component = provider_with_read(&grow).build();
    let bad = plugin(&component).limit("memory", "32MiB");
    let pages = read(bad).await.unwrap();
    // 32 MiB are 512 pages. The memory grows by 16 pages, and the last 16 are not available, because the maximum of
    // handles counts as well.
    assert_eq!(u32::from_le_bytes(pages.try_into().unwrap()), 496);
}

#[tokio::test]
async fn what_a_component_calls_its_functions_is_not_in_what_is_said_of_its_traps() {
    let name = format!("\\n{FORGED} fuel allocated for hostcalls has been exhausted {}", "x".repeat(60 << 10));
    let function = format!("(func $\"{name}\" (unreachable))");
    let component = provider_with_read(&format!("(call $\"{name}\") (unreachable)")).module_fields(&function).build();
    let server = StdioServer::start(&config_with_good_plugin(plugin(&component).limit("memory", "16MiB"))).await;
    let error = server.client().read_error("bad://bad/x").await;
    assert!(!error.message.contains("its response is larger"), "{}", error.message);
    assert_eq!(server.client().text("good://good/good").await, "good");
    let resident = server.peak_rss();
    assert!(resident < MAX_RSS, "the host took up {} MiB", resident >> 20);
    let log = server.end().await.log;
    assert!(log.contains("unreachable") && log.lines().all(|line| !line.starts_with(FORGED)), "{log:.2000}");
    assert!(log.lines().all(|line| line.len() < 4 << 10), "the stack in the log is cut");
}

#[tokio::test]
async fn a_component_with_a_function_of_too_long_a_name_is_refused() {
    let name = "x".repeat(8 << 20);
    let function = format!("(func $\"{name}\" (unreachable))");
    let component = provider_with_read(&format!("(call $\"{name}\") (unreachable)")).module_fields(&function).build();
    let server = StdioServer::start(&config_with_good_plugin(plugin(&component).limit("memory", "16MiB"))).await;
    assert_eq!(server.client().text("good://good/good").await, "good");
    let resident = server.peak_rss();
    assert!(resident < MAX_RSS, "the host took up {} MiB", resident >> 20);
    let log = server.end().await.log;
    assert!(log.contains("bytes in the name of a function, more than 65536"), "{log:.2000}");
}

#[tokio::test]
async fn arguments_that_a_guest_has_no_room_for_end_its_call() {
    let component = WatProvider::new().memory(0).build();
    let server = StdioServer::start(&config_with_good_plugin(plugin(&component))).await;
    assert_eq!(server.client().read_error("bad://bad/x").await.code, ErrorCode::INTERNAL_ERROR);
    assert_eq!(server.client().text("good://good/good").await, "good");
    server.end().await;
}

/// Returns the host's log about a plugin that fails before it describes itself.
async fn load_failure_line(bad: Plugin) -> String {
    let server = StdioServer::start(&config_with_good_plugin(bad)).await;
    assert_eq!(server.client().text("good://good/good").await, "good");
    let refusal = server.client().read_error("bad://bad/x").await;
    assert_eq!(refusal.data.unwrap()["kind"], "unavailable");
    let log = server.end().await.log;
    log.lines().find(|line| line.contains("could not be loaded")).unwrap_or_else(|| panic!("{log}")).to_owned()
}

#[tokio::test]
async fn code_that_runs_before_the_first_call_is_under_the_same_limits() {
    let spin = WatProvider::new().module_fields("(func $spin (loop $on (br $on))) (start $spin)").build();
    let reason = load_failure_line(plugin(&spin)).await;
    assert!(reason.contains("ran for longer than `limits.cpu`"), "{reason}");

    let trap = WatProvider::new().module_fields("(func $trap unreachable) (start $trap)").build();
    let reason = load_failure_line(plugin(&trap)).await;
    assert!(reason.contains("trapped"), "{reason}");

    let recurse = WatProvider::new().module_fields("(func $deeper (call $deeper)) (start $deeper)").build();
    let reason = load_failure_line(plugin(&recurse)).await;
    assert!(reason.contains("trapped"), "{reason}");
}

#[tokio::test]
async fn a_guest_that_begins_with_more_memory_than_its_limit_is_not_loaded() {
    let component = WatProvider::new().memory(65536).build();
    let reason = load_failure_line(plugin(&component)).await;
    assert!(reason.contains("limits.memory"), "{reason}");
}
