//! Completing the variables of templates, for one principal.
//!
//! A value is offered only if the resource that it leads to may be known. So the template is expanded with each value that the
//! provider gives: as a part of the call, and to no more than the length of a URI. A value with which it would be longer leads
//! nowhere, and is not offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CompleteRequest, Generation, Host, route_error};
use crate::access::Principal;
use crate::config::Operation;
use crate::resource::{Argument, Completion, Error};
use crate::text;
use crate::uri::Template;

/// Bytes of a known value that are kept for expanding.
const MAX_VALUE_LEN: usize = 65_536;

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

/// Decides which values one principal is offered for one variable of a template.
struct ValueFilter {
    generation: Arc<Generation>,
    principal: Principal,
    template: Template,
    /// The variable that is completed.
    variable: String,
    /// The others that have values.
    context: BTreeMap<String, String>,
    /// Whether all variables of the template have values then.
    has_all_values: bool,
}

impl ValueFilter {
    fn new(
        generation: Arc<Generation>,
        principal: &Principal,
        template: &Template,
        name: &str,
        context: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            generation,
            principal: principal.clone(),
            template: template.clone(),
            variable: name.to_owned(),
            context: context
                .iter()
                .map(|(name, value)| (name.clone(), text::prefix(value, MAX_VALUE_LEN).to_owned()))
                .collect(),
            has_all_values: template.variables().all(|variable| variable == name || context.contains_key(variable)),
        }
    }

    /// Whether a value tells the principal of nothing that does not exist for it.
    fn is_value_visible(&self, value: &str) -> bool {
        let known = self.context.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let Some(expanded) = self.template.expand(known.chain([(self.variable.as_str(), value)])) else { return false };
        let Ok(routed) = self.generation.router.route(&expanded) else { return true };
        let access = &self.generation.access;
        match self.has_all_values {
            true => access.allows(&self.principal, Operation::Read, &routed.uri),
            false => !access.denies(&self.principal, Operation::Read, &routed.uri),
        }
    }
}
