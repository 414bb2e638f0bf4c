//! The structure of the JSON Schema, which `../schema.json` holds.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::*;

/// The administration API. Each member is one request line; its value is the response, or the body of the request and the response.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "The administration API of mcp-host")]
#[expect(dead_code, reason = "only its schema is used")]
struct Api {
    #[schemars(rename = "GET /api/v1/status")]
    status: Option<Status>,
    #[schemars(rename = "GET /api/v1/plugins")]
    plugins: Option<Page<PluginStatus>>,
    #[schemars(rename = "GET /api/v1/plugins/NAME")]
    plugin: Option<PluginDetails>,
    #[schemars(rename = "GET /api/v1/config")]
    config: Option<ConfigView>,
    #[schemars(rename = "GET /api/v1/config/changes")]
    changes: Option<Reload>,
    #[schemars(rename = "GET /api/v1/config/warnings")]
    warnings: Option<Page<String>>,
    #[schemars(rename = "GET /api/v1/cache")]
    cache: Option<CacheView>,
    #[schemars(rename = "GET /api/v1/cluster")]
    cluster: Option<ClusterView>,
    #[schemars(rename = "GET /api/v1/sessions")]
    sessions: Option<Page<SessionView>>,
    #[schemars(rename = "GET /api/v1/subscriptions")]
    subscriptions: Option<SubscriptionsView>,
    #[schemars(rename = "GET /api/v1/search")]
    search: Option<Page<SearchView>>,
    /// Server-sent events: each member is the name of an event, with its data.
    #[schemars(rename = "GET /api/v1/audit?follow")]
    audit: Option<AuditEvents>,
    /// Server-sent events: each member is the name of an event, with its data.
    #[schemars(rename = "GET /api/v1/updates?follow")]
    updates: Option<UpdateEvents>,
    #[schemars(rename = "GET /api/v1/session")]
    session: Option<ConsoleSession>,
    #[schemars(rename = "POST /api/v1/reload")]
    reload: Option<Reload>,
    #[schemars(rename = "POST /api/v1/reload?dry-run")]
    dry_run: Option<Reload>,
    #[schemars(rename = "POST /api/v1/explain")]
    explain: Option<Exchange<ExplainRequest, Explanation>>,
    #[schemars(rename = "POST /api/v1/explain/who")]
    explain_who: Option<Exchange<WhoRequest, WhoView>>,
    #[schemars(rename = "POST /api/v1/log")]
    log: Option<Exchange<LogRequest, LogView>>,
    #[schemars(rename = "POST /api/v1/login-code")]
    login_code: Option<LoginCode>,
    #[schemars(rename = "POST /api/v1/plugins/NAME/disable")]
    disable: Option<PluginDetails>,
    #[schemars(rename = "POST /api/v1/plugins/NAME/enable")]
    enable: Option<PluginDetails>,
    #[schemars(rename = "POST /api/v1/plugins/NAME/reset")]
    reset: Option<PluginDetails>,
    #[schemars(rename = "POST /api/v1/browse/list")]
    browse_list: Option<Exchange<browse::BrowseList, browse::ResourceList>>,
    #[schemars(rename = "POST /api/v1/browse/read")]
    browse_read: Option<Exchange<browse::BrowseRead, browse::Contents>>,
    /// The response is server-sent events: each member is the name of an event, with its data.
    #[schemars(rename = "POST /api/v1/browse/watch")]
    browse_watch: Option<Exchange<browse::BrowseWatch, WatchEvents>>,
    #[schemars(rename = "POST /api/v1/browse/templates")]
    browse_templates: Option<Exchange<browse::BrowseTemplates, browse::TemplateList>>,
    #[schemars(rename = "POST /api/v1/browse/complete")]
    browse_complete: Option<Exchange<browse::BrowseComplete, browse::CompletionView>>,
    #[schemars(rename = "POST /api/v1/browse/search")]
    browse_search: Option<Exchange<browse::BrowseSearch, browse::Found>>,
    #[schemars(rename = "POST /api/v1/browse/context")]
    browse_context: Option<Exchange<browse::BrowseContext, browse::ContextView>>,
    /// The response to a failed request.
    error: Option<ErrorAnswer>,
}

/// The events of the audit log.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct AuditEvents {
    /// A line of the audit log.
    audit: serde_json::Map<String, Value>,
    missed: MissedLines,
}

/// The events of sent updates.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct UpdateEvents {
    update: SentUpdateView,
    missed: MissedLines,
}

/// The events of a view. Each event has one of these members.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct WatchEvents {
    updated: Option<UpdatedResource>,
    listing: Option<ListingChanged>,
}

/// The body of a request, and its response.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Exchange<Q, A> {
    request: Q,
    answer: A,
}

#[test]
fn the_stored_schema_is_that_of_the_types() {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Api>().to_value();
    if std::env::var_os("SNAPSHOTS").is_some_and(|action| action == "overwrite") {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/admin/api/schema.json");
        return std::fs::write(file, format!("{schema:#}\n")).unwrap();
    }
    let stored: Value = serde_json::from_str(JSON_SCHEMA).unwrap();
    assert!(stored == schema, "the types have changed: run this test with `SNAPSHOTS=overwrite` to write schema.json");
}
