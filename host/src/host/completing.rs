//! Completing the variables of templates, for one principal.
//!
//! A value is offered only if the resource that it leads to may be known. So the template is expanded with each value that the
//! provider gives: as a part of the call, and to no more than the length of a URI. A value with which it would be longer leads
//! nowhere, and is not offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CompleteRequest, Generation, Host, refused};
use crate::access::Principal;
use crate::config::Operation;
use crate::resource::{Argument, Completion, Error};
use crate::uri::Template;

/// Bytes of a known value that are kept for expanding.
const MAX_VALUE: usize = 65_536;

impl Host {
    pub(super) async fn completed(&self, who: &Principal, request: CompleteRequest<'_>) -> Result<Completion, Error> {
        let now = self.generation.load_full();
        let CompleteRequest { template: asked, argument, known } = request;
        let (slot, template) = now.router.route_template(asked).map_err(|error| refused(&error, asked))?;
        let not_found = || Error::NotFound { uri: asked.to_owned() };
        let slot = now.slots.get(*slot).ok_or_else(not_found)?;
        if !now.access.allows_template(who, Operation::Complete, &template) {
            return Err(not_found());
        }
        let plugin = slot.loaded()?;
        let known = known_of(&template, known);
        let offers = Offers::new(now.clone(), who, &template, &argument.name, &known);
        let known = known.into_iter().map(|(name, value)| Argument { name, value }).collect();
        let completion =
            plugin.complete(template.path_template(), argument, known, move |value| offers.may_know(value));
        completion.await.map_err(|fault| fault.answer(plugin.name(), asked))
    }
}

/// Those of the variables that the template has, each once, with the last value that is given. There are few of them, however
/// many a client names.
fn known_of(template: &Template, known: Vec<Argument>) -> BTreeMap<String, String> {
    let variables: Vec<_> = template.variables().collect();
    let known = known.into_iter().filter(|known| variables.contains(&known.name.as_str()));
    known.map(|known| (known.name, known.value)).collect()
}

/// As much of a value as can make a difference: a template takes 9999 characters of it, or it must fit into a URI.
fn beginning(value: &str) -> &str {
    value.split_at_checked(value.floor_char_boundary(MAX_VALUE)).map_or(value, |(beginning, _)| beginning)
}

/// Decides which values one principal is offered for one variable of a template.
struct Offers {
    generation: Arc<Generation>,
    principal: Principal,
    template: Template,
    /// The variable that is completed.
    name: String,
    /// The others that have values.
    known: BTreeMap<String, String>,
    /// Whether all variables of the template have values then.
    is_whole: bool,
}

impl Offers {
    fn new(
        generation: Arc<Generation>,
        principal: &Principal,
        template: &Template,
        name: &str,
        known: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            generation,
            principal: principal.clone(),
            template: template.clone(),
            name: name.to_owned(),
            known: known.iter().map(|(name, value)| (name.clone(), beginning(value).to_owned())).collect(),
            is_whole: template.variables().all(|variable| variable == name || known.contains_key(variable)),
        }
    }

    /// Whether a value tells the principal of nothing that does not exist for it.
    fn may_know(&self, value: &str) -> bool {
        let known = self.known.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let Some(expanded) = self.template.expand(known.chain([(self.name.as_str(), value)])) else { return false };
        let Ok(routed) = self.generation.router.route(&expanded) else { return true };
        let access = &self.generation.access;
        match self.is_whole {
            true => access.allows(&self.principal, Operation::Read, &routed.uri),
            false => !access.denies(&self.principal, Operation::Read, &routed.uri),
        }
    }
}
