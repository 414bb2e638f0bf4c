//! The imports of a component as functions that record, or that replay a record.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use wasmtime::component::types::{Component, ComponentFunc, ComponentItem};
use wasmtime::component::{InstancePre, Linker, LinkerInstance, ResourceAny, ResourceDynamic, ResourceType, Val};
use wasmtime::{Engine, Store, StoreContextMut};

use super::{HostCallOutcome, InstanceRecording, Mode, Passthrough, may_have_effects, value};
use crate::state::GuestState;

/// The type of all handles of a guest. The host does not distinguish them, because the guest was validated with its own
/// types.
const HANDLE: u32 = 0;

/// A function that a component imports.
pub struct ImportedFunction {
    /// The interface and the function, without the version.
    name: String,
    /// The export of the passthrough that calls the function. None for a replay.
    export: Option<String>,
}

/// A passthrough that is linked with the host's functions.
#[derive(Clone)]
pub struct LinkedPassthrough {
    pre: InstancePre<GuestState>,
}

impl LinkedPassthrough {
    /// Compiles and links a passthrough. Blocks.
    pub fn new(host: &Linker<GuestState>, passthrough: &Passthrough) -> wasmtime::Result<Self> {
        let component = wasmtime::component::Component::new(host.engine(), &passthrough.component)?;
        Ok(Self { pre: host.instantiate_pre(&component)? })
    }

    /// Instantiates the passthrough for a recorded instance, before the instance itself is instantiated.
    pub async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<()> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        if let Some(InstanceRecording { mode: Mode::Record { passthrough, .. }, .. }) =
            store.data_mut().recording.as_deref_mut()
        {
            *passthrough = Some(instance);
        }
        Ok(())
    }
}

/// Links all imports of a component with functions that call the `passthrough` and record its results or, without a
/// passthrough, that replay a record.
pub fn linker(
    engine: &Engine,
    component: &Component,
    passthrough: Option<&Passthrough>,
) -> wasmtime::Result<Linker<GuestState>> {
    let exports: HashMap<(&str, &str), String> = passthrough
        .iter()
        .flat_map(|passthrough| &passthrough.functions)
        .enumerate()
        .map(|(number, (import, function))| ((import.as_str(), function.as_str()), format!("f{number}")))
        .collect();
    let mut linker = Linker::new(engine);
    let mut resources = Vec::new();
    for (import, item) in component.imports(engine) {
        match item.ty {
            ComponentItem::ComponentInstance(interface) => {
                let mut instance = linker.instance(import)?;
                for (name, export) in interface.exports(engine) {
                    match export.ty {
                        ComponentItem::ComponentFunc(_) => {
                            let export = exports.get(&(import, name)).cloned();
                            let missing = || wasmtime::Error::msg(format!("`{import}` `{name}` is not passed through"));
                            if passthrough.is_some() && export.is_none() {
                                return Err(missing());
                            }
                            let name_in_record = function_name(import, name);
                            define(&mut instance, name, ImportedFunction { name: name_in_record, export })?;
                        }
                        // A resource that another interface uses is the same one, and is not defined again.
                        ComponentItem::Resource(resource) if !resources.contains(&resource) => {
                            resources.push(resource);
                            let ty = ResourceType::host_dynamic(HANDLE);
                            instance.resource_async(name, ty, |store, handle| Box::new(drop_handle(store, handle)))?;
                        }
                        _ => {}
                    }
                }
            }
            ComponentItem::ComponentFunc(_) => {
                return Err(wasmtime::Error::msg(format!("the function `{import}` is no part of an interface")));
            }
            _ => {}
        }
    }
    Ok(linker)
}

/// Returns `wasi:filesystem/types descriptor.open-at` for `wasi:filesystem/types@0.2.6` and
/// `[method]descriptor.open-at`.
fn function_name(import: &str, function: &str) -> String {
    let interface = import.split_once('@').map_or(import, |(interface, _)| interface);
    match function.strip_prefix("[constructor]") {
        Some(resource) => format!("{interface} {resource}.constructor"),
        None => format!("{interface} {}", function.rsplit_once(']').map_or(function, |(_, name)| name)),
    }
}

fn define(
    instance: &mut LinkerInstance<'_, GuestState>,
    name: &str,
    function: ImportedFunction,
) -> wasmtime::Result<()> {
    let function = Arc::new(function);
    instance.func_new_async(name, move |store, ty, params, results| {
        let function = function.clone();
        Box::new(async move {
            if function.name.starts_with("wasi:logging/") && function.export.is_none() {
                return Ok(());
            }
            match &function.export {
                Some(export) => record(store, &function.name, export, params, results).await,
                None => replay(store, &function.name, &ty, params, results),
            }
        })
    })
}

fn recording<'a>(store: &'a mut StoreContextMut<'_, GuestState>) -> wasmtime::Result<&'a mut InstanceRecording> {
    let recording = store.data_mut().recording.as_deref_mut();
    recording.ok_or_else(|| wasmtime::Error::msg("an instance with recorded imports has no record"))
}

/// Calls the host's function, and records the call.
async fn record(
    mut store: StoreContextMut<'_, GuestState>,
    name: &str,
    export: &str,
    params: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    // Memory for copies of the values, and for their text.
    let bytes = params.iter().map(value_size).fold(0, usize::saturating_add);
    let mut values = store.data_mut().memory.reserve(bytes.saturating_mul(2))?;
    let mut numbers = Vec::new();
    let mut given = Vec::with_capacity(params.len());
    for param in params {
        given.push(map_resources(param, &mut |handle| {
            let handle = handle.try_into_resource_dynamic(&mut store)?;
            let resources = &mut recording(&mut store)?.handles.resources;
            let number = handle.rep();
            numbers.push(number);
            // An owned resource moves to the host.
            let resource = if handle.owned() { resources.remove(&number) } else { resources.get(&number).copied() };
            resource.ok_or_else(|| wasmtime::Error::msg("a handle that the host does not know"))
        })?);
    }
    let is_logging = name.starts_with("wasi:logging/");
    let arguments = if is_logging { Vec::new() } else { to_json(params, &numbers)? };
    let Mode::Record { passthrough: Some(passthrough), .. } = &recording(&mut store)?.mode else {
        return Err(wasmtime::Error::msg("the passthrough of a recorded instance is not instantiated"));
    };
    let passthrough = *passthrough;
    if may_have_effects(name) {
        recording(&mut store)?.has_effects = true;
    }
    let function = passthrough.get_func(&mut store, export);
    let function = function.ok_or_else(|| wasmtime::Error::msg(format!("the passthrough has no `{export}`")))?;
    let mut returned = vec![Val::Bool(false); results.len()];
    if let Err(error) = function.call_async(&mut store, &given, &mut returned).await {
        let message = error.root_cause().to_string();
        recording(&mut store)?.record(name, arguments, HostCallOutcome::Trap(message));
        return Err(error);
    }
    drop(given);
    let bytes = returned.iter().map(value_size).fold(0, usize::saturating_add);
    store.data_mut().memory.resize(&mut values, bytes.saturating_mul(2))?;
    let mut numbers = Vec::new();
    for (result, returned) in results.iter_mut().zip(&returned) {
        *result = map_resources(returned, &mut |resource| {
            let number = recording(&mut store)?.handles.insert(resource)?;
            numbers.push(number);
            ResourceDynamic::new_own(number, HANDLE).try_into_resource_any(&mut store)
        })?;
    }
    if !is_logging {
        let result = to_json(&returned, &numbers)?.into_iter().next().unwrap_or(Value::Null);
        recording(&mut store)?.record(name, arguments, HostCallOutcome::Result(result));
    }
    Ok(())
}

/// Answers from the record.
fn replay(
    mut store: StoreContextMut<'_, GuestState>,
    name: &str,
    ty: &ComponentFunc,
    params: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    let mut numbers = Vec::new();
    for param in params {
        map_resources(param, &mut |handle| {
            numbers.push(handle.try_into_resource_dynamic(&mut store)?.rep());
            Ok(handle)
        })?;
    }
    let arguments = to_json(params, &numbers)?;
    match recording(&mut store)?.next(name, arguments) {
        Some(HostCallOutcome::Result(recorded)) => {
            for (result, ty) in results.iter_mut().zip(ty.results()) {
                *result = value::from_json(&recorded, &ty, &mut |number| {
                    ResourceDynamic::new_own(number, HANDLE).try_into_resource_any(&mut store)
                })?;
            }
            Ok(())
        }
        Some(HostCallOutcome::Trap(message)) => Err(wasmtime::Error::msg(message)),
        None => Err(wasmtime::Error::msg(format!("`{name}` is not the next host call of the record"))),
    }
}

/// Handles the drop of a handle by the guest: drops the resource of the host, if there is one.
async fn drop_handle(mut store: StoreContextMut<'_, GuestState>, handle: u32) -> wasmtime::Result<()> {
    match recording(&mut store)?.handles.resources.remove(&handle) {
        Some(resource) => resource.resource_drop_async(&mut store).await,
        None => Ok(()),
    }
}

/// The size of a value in memory, in bytes.
fn value_size(value: &Val) -> usize {
    let inner = match value {
        Val::List(items) if matches!(items.first(), Some(Val::U8(_))) => size_of_val(items.as_slice()),
        Val::List(items) | Val::Tuple(items) | Val::FixedLengthList(items) => {
            items.iter().map(value_size).fold(0, usize::saturating_add)
        }
        Val::Record(fields) => fields.iter().map(|(_, value)| value_size(value)).fold(0, usize::saturating_add),
        Val::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| value_size(key).saturating_add(value_size(value)))
            .fold(0, usize::saturating_add),
        Val::String(text) => text.len(),
        Val::Variant(_, Some(value)) | Val::Option(Some(value)) | Val::Result(Ok(Some(value)) | Err(Some(value))) => {
            value_size(value)
        }
        _ => 0,
    };
    inner.saturating_add(size_of::<Val>())
}

fn to_json(values: &[Val], numbers: &[u32]) -> wasmtime::Result<Vec<Value>> {
    let mut numbers = numbers.iter().copied();
    values.iter().map(|value| value::to_json(value, &mut numbers)).collect()
}

/// Replaces the resources in a value, in the order of [`value::to_json`].
fn map_resources(
    value: &Val,
    map: &mut impl FnMut(ResourceAny) -> wasmtime::Result<ResourceAny>,
) -> wasmtime::Result<Val> {
    let boxed = |value: &Option<Box<Val>>, map: &mut _| {
        value.as_ref().map(|value| map_resources(value, map).map(Box::new)).transpose()
    };
    Ok(match value {
        Val::Resource(resource) => Val::Resource(map(*resource)?),
        // Byte lists are copied as a whole, because they are most of the transferred data.
        Val::List(items) if matches!(items.first(), Some(Val::U8(_))) => value.clone(),
        Val::List(items) => Val::List(map_all(items, map)?),
        Val::FixedLengthList(items) => Val::FixedLengthList(map_all(items, map)?),
        Val::Tuple(items) => Val::Tuple(map_all(items, map)?),
        Val::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| Ok((map_resources(key, map)?, map_resources(value, map)?)));
            Val::Map(pairs.collect::<wasmtime::Result<_>>()?)
        }
        Val::Record(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), map_resources(value, map)?)));
            Val::Record(fields.collect::<wasmtime::Result<_>>()?)
        }
        Val::Variant(name, content) => Val::Variant(name.clone(), boxed(content, map)?),
        Val::Option(content) => Val::Option(boxed(content, map)?),
        Val::Result(Ok(content)) => Val::Result(Ok(boxed(content, map)?)),
        Val::Result(Err(content)) => Val::Result(Err(boxed(content, map)?)),
        other => other.clone(),
    })
}

fn map_all(
    items: &[Val],
    map: &mut impl FnMut(ResourceAny) -> wasmtime::Result<ResourceAny>,
) -> wasmtime::Result<Vec<Val>> {
    items.iter().map(|item| map_resources(item, map)).collect()
}

#[cfg(test)]
mod tests {
    use super::function_name;

    #[test]
    fn functions_have_the_names_of_the_log_of_host_calls() {
        for (function, expected) in [
            ("[method]descriptor.open-at", "wasi:filesystem/types descriptor.open-at"),
            ("[static]descriptor.x", "wasi:filesystem/types descriptor.x"),
            ("[constructor]descriptor", "wasi:filesystem/types descriptor.constructor"),
            ("filesystem-error-code", "wasi:filesystem/types filesystem-error-code"),
        ] {
            assert_eq!(function_name("wasi:filesystem/types@0.2.6", function), expected);
        }
    }
}
