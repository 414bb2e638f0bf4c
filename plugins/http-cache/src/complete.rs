//! Completion of the template `{+host}/{+path}`, from the listing.

use crate::HttpCache;
use crate::listing::stored_and_seed_paths;
use crate::settings::Settings;
use mcp_provider::{Argument, Completion, Template};
use std::collections::BTreeSet;

const TEMPLATE: &str = "{+host}/{+path}";
const HOST: &str = "host";

/// Returns the template of web pages.
pub(crate) fn templates(settings: &Settings) -> Vec<Template> {
    // The text does not list these hosts, because a client that may see the template may not be allowed to see all
    // hosts.
    let scheme = match settings.plain.is_empty() {
        true => "The scheme is `https`.",
        false => "The scheme is `https`, and `http` for the hosts of the config key `plain-http`.",
    };
    vec![
        Template::new(TEMPLATE, "page").title("A web page").description(format!(
            "`host` is the host, with an optional port, and `path` is the path and query. {scheme}"
        )),
    ]
}

/// Completes a variable with the hosts in the listing, or the paths of one of them.
pub(crate) fn complete(provider: &HttpCache, argument: &Argument, known: &[Argument]) -> Completion {
    let listed = stored_and_seed_paths(provider);
    let parts = listed.iter().filter_map(|path| path.split_once('/'));
    if argument.name == HOST {
        let hosts: BTreeSet<&str> = parts.map(|(host, _)| host).collect();
        return Completion::matching(hosts, &argument.value);
    }
    let host = known.iter().find(|known| known.name == HOST).map(|host| host.value.to_ascii_lowercase());
    let of_host = parts.filter(|(of, _)| host.as_deref().is_none_or(|host| host == *of));
    // A value with a percent sign would be encoded twice.
    let paths: BTreeSet<&str> = of_host.map(|(_, path)| path).filter(|path| !path.contains('%')).collect();
    Completion::matching(paths, &argument.value)
}
