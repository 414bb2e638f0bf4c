//! Completions of variables with many values: hidden values before the visible ones take no place in a response, which
//! has [`Completion::MAX_VALUES`], and are not counted in it.
//!
//! All values together are fewer than a provider offers ([`Completion::MAX_OFFERED`]). A variable with more values is
//! an exception in `docs/access.md`.

use std::sync::Arc;

use mcp_resource_host::host::Host;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::world::{self, Contents, Providers, Rules, TEMPLATES, is_allowed, started};
use super::{Client, InProcess, principal};
use crate::revision::Revision;

/// The number of pairs of worlds for each kind of rules and of paths.
const CASES: u32 = 3;
/// The numbers of paths that may be hidden in one of two worlds: none, fewer than the places of a response, as many,
/// and more.
const COUNTS: [usize; 4] = [0, 57, 100, 120];

/// Paths whose values sort before the values of [`world::paths`]. Each kind is hidden by some of the rules, and visible
/// by others. A template is visible only by rules whose globs match its text.
#[derive(Clone, Copy, Debug)]
enum Many {
    /// Revisions: only some rules allow others than `main`.
    Revisions,
    /// Files `.env` of a revision.
    EnvFiles,
    /// Files `b.txt` of a revision.
    Texts,
}

impl Many {
    fn paths(self, count: usize) -> Vec<String> {
        let path = |number: usize| match self {
            Self::Revisions => format!("blob/a{number:03}/x.md"),
            Self::EnvFiles => format!("blob/main/0{number:03}/.env"),
            Self::Texts => format!("blob/main/0{number:03}/b.txt"),
        };
        (0..count).map(path).collect()
    }
}

/// The response to the completion of a variable.
async fn complete(host: &Arc<Host>, template: &str, variable: &str, context: &Value) -> Value {
    let params = json!({
        "ref": { "type": "ref/resource", "uri": format!("part://h/{template}") },
        "argument": { "name": variable, "value": "" },
        "context": { "arguments": context },
    });
    InProcess::new(host, Revision::LATEST).send("completion/complete", &params).await.unwrap()
}

/// The responses to completions of all variables.
async fn complete_all(host: &Arc<Host>) -> Vec<(String, Value)> {
    let mut responses = Vec::new();
    for (template, variables) in TEMPLATES {
        for variable in variables {
            for context in [json!({}), json!({ "rev": "main" })] {
                let response = complete(host, template, variable, &context).await;
                responses.push((format!("{variable} of {template} with {context}"), response));
            }
        }
    }
    responses
}

fn compare(
    runtime: &Runtime,
    host: &Arc<Host>,
    providers: &Providers,
    common: &[String],
    own: [&[String]; 2],
) -> Result<(), TestCaseError> {
    let policy = host.policy(&principal());
    let drawn: Vec<String> = [common, own[0], own[1]].concat();
    let [first, second] = own.map(|own| {
        providers.set(Contents::new(&drawn, common, own, &|uri| is_allowed(&policy, uri)));
        runtime.block_on(complete_all(host))
    });
    for (one, other) in first.into_iter().zip(second) {
        prop_assert_eq!(one, other);
    }
    Ok(())
}

#[test]
fn many_hidden_values_before_the_visible_ones_change_no_completion() {
    let runtime = Runtime::new().unwrap();
    for rules in [Rules::Deny, Rules::Allow, Rules::Both, Rules::Wildcards] {
        let (_dir, providers, host) = runtime.block_on(started(rules));
        for many in [Many::Revisions, Many::EnvFiles, Many::Texts] {
            let worlds = (world::paths(4..14), prop::sample::select(COUNTS.to_vec()), world::paths(0..4));
            let mut runner = TestRunner::new(Cases {
                cases: CASES,
                rng_seed: RngSeed::Fixed(rules as u64),
                failure_persistence: None,
                ..Cases::default()
            });
            let tested = runner.run(&worlds, |(mut common, count, other)| {
                // There is something to see after what may be hidden.
                common.extend(["blob/main/c.md", "blob/main/pub/c.md"].map(str::to_owned));
                compare(&runtime, &host, &providers, &common, [&many.paths(count), &other])
            });
            tested.unwrap_or_else(|failure| panic!("{rules:?} {many:?}: {failure}"));
        }
    }
}
