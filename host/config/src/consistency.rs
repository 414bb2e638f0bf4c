//! Checks of a config in which each section is valid: what one section says must exist in another one.

use mcp_host_model::uri::Mount;

use super::diagnostic::{Diagnostic, quote};
use super::issuer::Issuer;
use super::reader::Table;
use super::upstream::TokenHolder;
use super::{Config, Plugin, rule};

impl Config {
    /// Reports tokens of an upstream for principals and groups that do not exist.
    pub(super) fn report_token_holders(&self, table: &Table<'_>) {
        let upstreams = self.plugins.iter().filter_map(|plugin| Some((plugin, plugin.upstream.as_ref()?)));
        // If no table has problems, the list is complete and in the order of the file.
        for ((plugin, identity), at) in upstreams.enumerate().flat_map(|(entry, (plugin, upstream))| {
            upstream.identities.iter().enumerate().map(move |(index, identity)| ((plugin, identity), (entry, index)))
        }) {
            let (name, what, is_known) = match &identity.holder {
                TokenHolder::Principal(name) => (name, "principal", self.has_principal(name)),
                TokenHolder::Group(name) => {
                    let is_declared = self.groups.iter().any(|group| group.name.as_str() == name);
                    (name, "group", is_declared || rule::is_external_name(name))
                }
            };
            if !is_known && !table.has_problems() {
                let message = format!(
                    "upstream `{}` has a token for the {what} `{name}`, which this config does not have",
                    plugin.name
                );
                let help = format!(
                    "declare it with `[[{what}]]`, or write `ISSUER/NAME` for one that an issuer, a client CA or an application names"
                );
                let span = table.nested_element_span("upstream", at.0, &["auth", "tokens"], at.1);
                table.report(Diagnostic::new(message, help).at(span));
            }
        }
    }

    /// Reports globs that match no resource of an upstream, because its resources are served under canonical URIs.
    pub(super) fn report_spelled_globs(&self, table: &Table<'_>) {
        if table.has_problems() {
            return;
        }
        let upstreams = || self.plugins.iter().filter_map(|plugin| Some((plugin, plugin.upstream.as_ref()?)));
        for (index, rule) in self.rules.iter().enumerate() {
            for (glob, (plugin, upstream)) in
                rule.allow.iter().chain(&rule.deny).flat_map(|glob| upstreams().map(move |one| (glob, one)))
            {
                let prefix = upstream.prefix.as_ref().map_or("", Mount::as_str);
                let Some(canonical) = glob.canonical_below(&plugin.mount, prefix) else { continue };
                let message = format!(
                    "the glob {} matches nothing: resources of upstream `{}` are served with one spelling each",
                    quote(glob.as_str()),
                    plugin.name
                );
                let help = format!("write the canonical form: {}", quote(&canonical));
                table.report(Diagnostic::new(message, help).at(table.element_span("rule", index)));
            }
        }
    }

    /// Reports tools that require search, if no plugin is searched.
    pub(super) fn report_tools(&self, table: &Table<'_>) {
        let without_search = self.server.tools.iter().find(|tool| tool.needs_search() && !self.has_search());
        if let Some(tool) = without_search.filter(|_| !table.has_problems()) {
            let message = format!("the tool `{tool}` requires a plugin that is searched");
            let help = "add `search = {}` to a [[plugin]] or an [[upstream]], or remove the tool";
            table.report(Diagnostic::new(message, help).at(table.nested_span("server", "tools")));
        }
    }

    /// Reports a plugin with `search.embeddings` if the config has no endpoint for embeddings.
    pub(super) fn report_embeddings(&self, table: &Table<'_>) {
        let is_sent = |plugin: &&Plugin| plugin.search.as_ref().is_some_and(|search| search.embeddings);
        if table.has_nested("search", "embeddings") {
            return;
        }
        if let Some(plugin) = self.plugins.iter().find(is_sent).filter(|_| !table.has_problems()) {
            let message =
                format!("plugin `{}` has `search.embeddings`, and there is no endpoint for them", plugin.name);
            let help = "add the endpoint, or remove the key:\n[search.embeddings]\nurl = \"https://api.openai.com/v1/embeddings\"\n\
                        model = \"text-embedding-3-small\"\ndimensions = 1536";
            let section = if plugin.upstream.is_some() { "upstream" } else { "plugin" };
            table.report(Diagnostic::new(message, help).at(table.entry_span(section)));
        }
    }

    /// Reports issuers if the public URL, the audience of tokens, is missing, and issuers with the name of a client CA.
    pub(super) fn report_issuers(&self, table: &Table<'_>) {
        let has_public_url = self.http.public_url.is_some() || table.has_nested("http", "public-url");
        if !self.issuers.is_empty() && !has_public_url {
            let help = "add the URL by which clients know this server, which access tokens are issued for:\n[http]\npublic-url = \
                        \"https://mcp.example.com/mcp\"";
            table.report(
                Diagnostic::new("`[[issuer]]` requires `http.public-url`", help).at(table.entry_span("issuer")),
            );
        }
        let is_client_ca = |issuer: &&Issuer| self.http.client_ca.iter().any(|ca| ca.name == issuer.name);
        if let Some(issuer) = self.issuers.iter().find(is_client_ca) {
            let message = format!("an issuer and a client CA have the name `{}`", issuer.name);
            table.report(Diagnostic::new(message, "give each a name of its own").at(table.entry_span("issuer")));
        }
    }
}
