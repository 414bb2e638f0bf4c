//! Many rules, of many groups.

use std::fmt::Write as _;
use std::path::Path;

use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;

/// The number of groups.
pub(crate) const GROUPS: usize = 100;
/// The number of rules. Each group has the same number.
pub(crate) const RULES: usize = 1000;

/// A config with three globs in each of its rules, and no plugin of its own.
pub(crate) fn config() -> Config {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.wasm"), "").expect("a file");
    let mut text = "[[plugin]]\nname = 'x'\ncomponent = 'x.wasm'\nmount = 'x:///'\n".to_owned();
    for group in 0..GROUPS {
        write!(text, "[[group]]\nname = 'g{group}'\ngroups = ['corp/g{group}']\n").expect("it is memory");
        for area in 0..RULES / GROUPS {
            let allow = format!("'a:///team{group}/area{area}/**', '**/shared-{group}-{area}.*'");
            let deny = format!("'**/private-{group}-{area}/**'");
            write!(text, "[[rule]]\ngroups = ['g{group}']\nallow = [{allow}]\ndeny = [{deny}]\n")
                .expect("it is memory");
        }
    }
    let parsed = Config::parse(&text, &dir.path().join(Path::new("mcp-host.toml"))).expect("a valid config");
    let mut config = Config::new();
    (config.rules, config.groups) = (parsed.rules, parsed.groups);
    config
}

/// A principal that is a member of these groups.
pub(crate) fn member_of(groups: impl IntoIterator<Item = usize>) -> Principal {
    Principal::new("corp/ada").with_groups(groups.into_iter().map(|group| format!("corp/g{group}")))
}
