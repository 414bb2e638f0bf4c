//! Completing the variables of templates, for one principal.
//!
//! A value is offered only if the resource that it leads to may be known. So the template is expanded with each value that the
//! provider gives: as a part of the call, and to no more than the length of a URI. A value with which it would be longer leads
//! nowhere, and is not offered.

use std::collections::BTreeMap;

use super::resolve::{ValueFilter, route_error};
use super::{CompleteRequest, Host};
use crate::access::Principal;
use crate::config::Operation;
use crate::resource::{Argument, Completion, Error};
use crate::uri::Template;

impl Host {
    pub(super) async fn complete_inner(
        &self,
        principal: &Principal,
        request: CompleteRequest<'_>,
    ) -> Result<Completion, Error> {
        let now = self.generation.load_full();
        let CompleteRequest { template: requested_template, argument, context: known } = request;
        let (slot, template) =
            now.router.route_template(requested_template).map_err(|error| route_error(&error, requested_template))?;
        let not_found = || Error::NotFound { uri: requested_template.to_owned() };
        let slot = now.slots.get(*slot).ok_or_else(not_found)?;
        if !now.access.allows_template(principal, Operation::Complete, &template) {
            return Err(not_found());
        }
        let plugin = slot.loaded()?;
        let known = context_arguments(&template, known);
        let value_filter = ValueFilter::new(now.clone(), principal, &template, &argument.name, &known);
        let known = known.into_iter().map(|(name, value)| Argument { name, value }).collect();
        let completion = plugin
            .complete(template.path_template(), argument, known, move |value| value_filter.is_value_visible(value));
        completion.await.map_err(|fault| fault.into_client_error(plugin.name(), requested_template))
    }
}

/// Those of the variables that the template has, each once, with the last value that is given. There are few of them, however
/// many a client names.
fn context_arguments(template: &Template, known: Vec<Argument>) -> BTreeMap<String, String> {
    let variables: Vec<_> = template.variables().collect();
    let known = known.into_iter().filter(|known| variables.contains(&known.name.as_str()));
    known.map(|known| (known.name, known.value)).collect()
}
