//! Completion of template variables, for one principal.
//!
//! A value is returned only if the principal may know of the resource that the value identifies:
//! [`completion_filter`](super::completion_filter) decides. The template is expanded with each value of the provider,
//! as part of the call. Values that expand to more than the maximum length of a URI are dropped.

use std::collections::BTreeMap;

use mcp_host_model::resource::{Argument, Completion, Error};
use mcp_host_model::uri::UriTemplate;

use super::completion_filter::CompletionFilter;
use super::resolve::ResolvedTemplate;
use super::{CompleteRequest, Host};
use crate::access::Principal;
use crate::audit::Facts;

impl Host {
    pub(super) async fn complete_inner(
        &self,
        principal: &Principal,
        request: CompleteRequest<'_>,
        facts: &Facts,
    ) -> Result<Completion, Error> {
        let CompleteRequest { template: requested_template, argument, context: known } = request;
        let mut now = self.generation.load_full();
        if now.is_loading {
            let slot = now.resolve_template(principal, requested_template, facts)?.slot;
            if slot.is_loading() {
                let plugin = slot.name.clone();
                now = self.generation_with(&plugin).await;
            }
        }
        let ResolvedTemplate { policy, slot, template } = now.resolve_template(principal, requested_template, facts)?;
        if let Some(built_in) = slot.built_in() {
            return built_in.complete_for(principal, &argument).await.map(Completion::truncated);
        }
        let plugin = slot.loaded()?;
        let known = context_arguments(&template, &argument.name, known);
        let mount = &slot.mount;
        let Some(filter) = CompletionFilter::new(now.clone(), policy, mount, &template, &argument, &known) else {
            return Ok(Completion::default());
        };
        let (is_unrestricted, tells_failures) = (filter.is_unrestricted(), filter.tells_failures());
        let known = known.into_iter().map(|(name, value)| Argument { name, value }).collect();
        let is_visible = move |value: &str| filter.is_value_visible(value);
        let completion = plugin.complete(template.path_template(), argument, known, is_unrestricted, is_visible).await;
        completion
            .or_else(|fault| CompletionFilter::visible_failure(tells_failures, fault))
            .map_err(|fault| fault.into_client_error(plugin.name(), requested_template))
    }
}

/// Returns the arguments that are other variables of the template, each once, with its last value. The template bounds
/// their number, not the client.
fn context_arguments(template: &UriTemplate, completed: &str, known: Vec<Argument>) -> BTreeMap<String, String> {
    let variables: Vec<_> = template.variables().filter(|name| *name != completed).collect();
    let known = known.into_iter().filter(|known| variables.contains(&known.name.as_str()));
    known.map(|known| (known.name, known.value)).collect()
}
