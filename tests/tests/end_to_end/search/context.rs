//! Context: the best selection of passages within a budget.

use mcp_host_tests::{Folder, RawStdio, Revision};
use serde_json::{Value, json};

use super::{run_search, searched, wait_until_found};

fn contents(answer: &mcp_host_tests::RpcResponse) -> Vec<Value> {
    answer.result()["contents"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_selection_has_the_best_passages_within_its_budget_and_says_why() {
    let filler = "words that are about something else entirely\n".repeat(30);
    let folder = Folder::with_files([
        ("breaker.md", format!("{filler}\nThe circuit breaker opens after five failures.\n\n{filler}")),
        ("copy.md", format!("{filler}\nThe circuit breaker opens after five failures.\n\n{filler}")),
        ("other.md", "A circuit in a park.\n".to_owned()),
        ("none.md", "Nothing of that.\n".to_owned()),
    ]);
    let config = searched(&folder).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "circuit", 3).await;
    let read = async |wire: &mut RawStdio, uri: &str| wire.request("resources/read", json!({ "uri": uri })).await;
    let choose = async |wire: &mut RawStdio, uri: &str| loop {
        let chosen = contents(&read(wire, uri).await);
        // A busy machine may end the search early.
        if chosen[0]["_meta"]["mcp-host/left-out"]["partial"] != true {
            break chosen;
        }
    };
    let chosen = choose(&mut wire, "context:///?q=circuit%20breaker&budget=2000").await;
    assert!(chosen[0]["uri"].as_str().unwrap().starts_with("files://f/breaker.md?lines="), "{chosen:?}");
    assert!(chosen[0]["text"].as_str().unwrap().contains("five failures"));
    assert_eq!(chosen[0]["_meta"]["mcp-host/reason"], "matches circuit, breaker");
    assert_eq!(chosen[0]["_meta"]["mcp-host/left-out"]["nearCopies"], 1);
    let uris: Vec<_> = chosen.iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert!(uris.iter().any(|uri| uri.starts_with("files://f/other.md")), "{uris:?}");
    assert!(!uris.iter().any(|uri| uri.contains("none.md") || uri.contains("copy.md")), "{uris:?}");
    assert_eq!(choose(&mut wire, "context:///?q=circuit%20breaker&budget=2000").await, chosen, "it is deterministic");
    let small = choose(&mut wire, "context:///?q=circuit%20breaker&budget=20").await;
    assert!(small[0]["uri"].as_str().unwrap().starts_with("files://f/other.md"), "{small:?}");

    let of_priority = choose(&mut wire, "context:///?budget=100").await;
    assert!(of_priority.iter().any(|one| one["text"] == "Nothing of that.\n"), "{of_priority:?}");
    assert_eq!(read(&mut wire, "context:///?budget=0").await.error_code(), -32602);
    wire.end().await;
}

#[tokio::test]
async fn the_command_line_prints_a_selection() {
    let folder = Folder::with_files([("a.md", "the needle is here\n"), ("b.md", "nothing\n")]);
    let config = searched(&folder).write();
    let path = config.path();
    let arguments = ["context", "needle", "--budget", "100", "--config", path.to_str().unwrap()];
    let text = run_search(&arguments).await.text();
    assert_eq!(text, "=== files://f/a.md?lines=1-1 (lines 1-1; matches needle)\nthe needle is here\n\n");
}
