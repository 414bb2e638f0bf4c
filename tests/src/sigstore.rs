//! Keyless signatures for tests: by Sigstore's own signer, with its services as a mock, and verified a second time by
//! its verifier in Python.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::artifacts::{client_program, node};

/// The issuer that vouches for those who sign.
pub const ISSUER: &str = "https://token.example";

/// A statement of in-toto about a manifest, by its digest with `sha256:`.
pub fn statement(manifest: &str, predicate_type: &str, predicate: Value) -> Value {
    let digits = manifest.strip_prefix("sha256:").expect("a digest");
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "digest": { "sha256": digits } }],
        "predicateType": predicate_type,
        "predicate": predicate,
    })
}

/// What cosign signs of a manifest.
pub fn signature(manifest: &str) -> Value {
    statement(manifest, "https://sigstore.dev/cosign/sign/v1", json!({}))
}

/// Signs statements, each of a subject, and returns the bundles and their trusted root. `sign.mjs` gets `options`.
pub async fn sign_keyless(statements: &[(&str, Value)], options: Value) -> (Vec<Value>, Value) {
    let mut request = options;
    let statements = statements
        .iter()
        .map(|(subject, statement)| json!({ "subject": subject, "issuer": ISSUER, "statement": statement }));
    request["statements"] = statements.collect();
    let mut command = Command::new(node());
    command.arg(client_program("sigstore/sign.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("Node.js starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(request.to_string().as_bytes()).await.expect("the program reads its input");
    drop(input);
    let output = child.wait_with_output().await.expect("the program ends");
    assert!(output.status.success(), "signing failed: {}", String::from_utf8_lossy(&output.stderr));
    let mut answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let Value::Array(bundles) = answer["bundles"].take() else { panic!("it prints bundles") };
    (bundles, answer["root"].take())
}

/// Verifies a bundle by Sigstore's verifier in Python: the error if it is not by that subject.
pub async fn verify_in_python(root: &Path, bundle: &Path, subject: &str) -> Result<String, String> {
    let mut command = Command::new(client_program("sigstore-python/bin/python"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/sigstore-python/verify.py"));
    command.args([root, bundle]).args([subject, ISSUER]).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("Python starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
