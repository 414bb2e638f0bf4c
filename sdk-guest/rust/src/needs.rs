//! The macro that declares the needs of a provider.

/// Declares the grants, settings and limits that the provider needs. `mcp-host inspect` shows them as an entry
/// `[[plugin]]`, and `mcp-host check` compares them with the config. The declaration itself grants nothing.
///
/// The macro takes the members of a JSON object, all optional, so strings are written as in JSON. Invoke it once in a
/// component.
///
/// ```
/// mcp_provider::needs! {
///     "http": [{ "origin": "https://docs.rs", "why": "the pages" }],
///     "dirs": [{ "guest": "/repo", "mode": "ro", "why": "the repository" }],
///     "keyvalue": [{ "bucket": "pages", "why": "the cache" }],
///     "sql": [{ "database": "shop", "why": "orders" }],
///     "env": [{ "name": "LANG", "why": "the language of titles" }],
///     "config": {
///         "rev": { "type": "string", "default": "HEAD", "why": "the revision that is listed" },
///         "most": { "type": "integer", "default": 20 }
///     },
///     "limits": { "memory": { "min": "256MiB", "why": "the index" }, "prepare.cpu": { "min": "5m" } }
/// }
/// ```
///
/// | member | in each entry |
/// |---|---|
/// | `http` | `origin`, as `grants.http` has it: `https://docs.rs`, `https://*.example.com` |
/// | `dirs` | `guest`, the path at which the provider expects the directory, and `mode`: `ro` unless it is `rw` |
/// | `keyvalue` | `bucket`, and `optional` (`true`) if it is not opened unless it is granted |
/// | `sql` | `database`, the name of a database |
/// | `env` | `name` |
/// | `config` | by key: `type` (`string`, `integer`, `float`, `boolean`, `array`, `table`), and `default`, or `required` (`true`); `address` (`true`) if it is the address of a server, or a list of them, that must be granted |
/// | `limits` | by the key below `limits` of a plugin: `min`, the least that it works with: `memory`, `cpu`, `deadline`, `response-size`, `http.rate`, `http.body`, `http.timeout`, `prepare.cpu`, `prepare.memory` |
///
/// Each entry may have a `why`. The JSON, of at most 64 KiB, becomes the custom section `mcp-host:needs/v1` of the
/// component. On other targets than WebAssembly the macro adds nothing.
#[macro_export]
macro_rules! needs {
    ($($member:tt)*) => {
        const _: () = {
            const JSON: &::core::primitive::str = ::core::stringify!({ $($member)* });
            const _: () = ::core::assert!(JSON.len() <= 64 * 1024, "what a provider asks for has at most 64 KiB");
            #[cfg(target_family = "wasm")]
            #[used]
            #[unsafe(link_section = "mcp-host:needs/v1")]
            static SECTION: [::core::primitive::u8; JSON.len()] = match JSON.as_bytes().first_chunk() {
                ::core::option::Option::Some(bytes) => *bytes,
                ::core::option::Option::None => ::core::panic!(),
            };
        };
    };
}
