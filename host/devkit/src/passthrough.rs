//! A component that exports each host function that another component imports.
//!
//! The passthrough stands between a recorded component and the host functions, which can be called only as exports of a
//! component ([`recording`](mcp_host_engine::recording)). Function `f3` calls the fourth imported function with the
//! same arguments and returns its results.
//!
//! The passthrough is made from the types of the imports, which are in the component's binary. An export has the flat
//! parameters of the import. If a function has more than one flat result, its import takes a pointer to them as the
//! last parameter, and its export returns the pointer: the address of one area with the size of the largest result.
//! Arguments and contents of results are allocated from the end of that area (a bump allocator), and are released
//! together when the caller has read the result (`cabi_post_…`). The memory grows up to the limit of the store; beyond
//! that the call traps.
//!
//! | module | subject |
//! |---|---|
//! | `core_module` | the code |
//! | `used_types` | the types of the exports |

mod core_module;
mod used_types;

use mcp_host_engine::recording::Passthrough;
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding, decode, embed_component_metadata};
use wit_parser::abi::AbiVariant;
use wit_parser::{
    Function, FunctionKind, Handle, LiftLowerAbi, ManglingAndAbi, Resolve, ResourceIntrinsic, SizeAlign, Type,
    TypeDefKind, TypeId, TypeOwner, WasmImport, WorldId, WorldItem, WorldKey,
};

use self::core_module::{Borrowed, Imported, RESULT_AREA, core_module, types};
use self::used_types::UsedTypes;

const ABI: ManglingAndAbi = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);

/// Makes the passthrough of a component.
///
/// # Errors
///
/// The file is not a component, or its imports cannot be passed through.
pub fn passthrough(component: &[u8]) -> Result<Passthrough, String> {
    make(component).map_err(|error| format!("its imports cannot be recorded: {error:#}"))
}

fn make(component: &[u8]) -> anyhow::Result<Passthrough> {
    let DecodedWasm::Component(mut resolve, world) = decode(component)? else {
        anyhow::bail!("it is no component");
    };
    let mut sizes = SizeAlign::default();
    sizes.fill(&resolve);
    let (mut imported, mut functions, mut exports, mut area) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut drops = Vec::new();
    let imports = resolve.worlds.get(world).map(|world| &world.imports).into_iter().flatten();
    for (key, item) in imports {
        let WorldItem::Interface { id, .. } = item else { continue };
        let Some(interface) = resolve.interfaces.get(*id) else { continue };
        for function in interface.functions.values() {
            let import = resolve.wasm_signature(AbiVariant::GuestImport, function);
            let export = resolve.wasm_signature(AbiVariant::GuestExport, function);
            let (module, field) =
                resolve.wasm_import_name(ABI, WasmImport::Func { interface: Some(key), func: function });
            let size = function.result.as_ref().map_or(0, |result| sizes.size(result).size_wasm32());
            area = area.max(size);
            let borrowed = borrowed(&resolve, function, &mut drops)?;
            imported.push(Imported {
                module,
                field,
                import_params: types(&import.params),
                import_results: types(&import.results),
                export_params: types(&export.params),
                export_results: types(&export.results),
                has_result_pointer: import.retptr,
                borrowed,
            });
            functions.push((resolve.name_world_key(key), function.name.clone()));
            let mut exported = function.clone();
            exported.name = format!("f{}", exports.len());
            exported.kind = FunctionKind::Freestanding;
            exports.push(exported);
        }
    }
    let mut used = UsedTypes::default();
    for function in &mut exports {
        used.replace_in(&mut resolve, world, function);
    }
    let Some(described) = resolve.worlds.get_mut(world) else { anyhow::bail!("it has no world") };
    described.imports.extend(used.items());
    described.exports = exports
        .into_iter()
        .map(|function| (WorldKey::Name(function.name.clone()), WorldItem::Function(function)))
        .collect();
    let heap = RESULT_AREA.saturating_add(u32::try_from(area)?).next_multiple_of(16);
    let component = encode(&resolve, world, core_module(&imported, &drops, heap))?;
    Ok(Passthrough { component, functions })
}

/// The parameters of a function with borrowed handles. The drop functions are added to `drops`, by module and field.
fn borrowed(
    resolve: &Resolve,
    function: &Function,
    drops: &mut Vec<(String, String)>,
) -> anyhow::Result<Vec<Borrowed>> {
    let mut borrowed = Vec::new();
    for (index, param) in function.params.iter().enumerate() {
        let (resource, is_list) = match kind(resolve, param.ty) {
            Some(TypeDefKind::Handle(Handle::Borrow(resource))) => (*resource, false),
            Some(TypeDefKind::List(item)) => match kind(resolve, *item) {
                Some(TypeDefKind::Handle(Handle::Borrow(resource))) => (*resource, true),
                _ => continue,
            },
            _ => continue,
        };
        let before = Function {
            params: function.params.iter().take(index).cloned().collect(),
            result: None,
            ..function.clone()
        };
        let before = resolve.wasm_signature(AbiVariant::GuestImport, &before);
        if resolve.wasm_signature(AbiVariant::GuestImport, function).indirect_params {
            anyhow::bail!("`{}` has too many parameters for one that is a borrowed handle", function.name);
        }
        let drop = drop_of(resolve, resource)?;
        let known = drops.iter().position(|known| *known == drop);
        let number = known.unwrap_or(drops.len());
        if known.is_none() {
            drops.push(drop);
        }
        borrowed.push(Borrowed { param: u32::try_from(before.params.len())?, is_list, drop: number });
    }
    Ok(borrowed)
}

/// The kind of a type, through aliases.
fn kind(resolve: &Resolve, ty: Type) -> Option<&TypeDefKind> {
    let Type::Id(id) = ty else { return None };
    match &resolve.types.get(id)?.kind {
        TypeDefKind::Type(other) => kind(resolve, *other),
        kind => Some(kind),
    }
}

/// The module and the field of the import that drops handles of a resource.
fn drop_of(resolve: &Resolve, resource: TypeId) -> anyhow::Result<(String, String)> {
    let ty = resolve.types.get(resource);
    match ty.map(|ty| (&ty.kind, ty.owner)) {
        Some((TypeDefKind::Type(Type::Id(other)), _)) => drop_of(resolve, *other),
        Some((TypeDefKind::Resource, TypeOwner::Interface(interface))) => {
            let key = WorldKey::Interface(interface);
            let intrinsic = ResourceIntrinsic::ImportedDrop;
            let import = WasmImport::ResourceIntrinsic { interface: Some(&key), resource, intrinsic };
            Ok(resolve.wasm_import_name(ABI, import))
        }
        _ => anyhow::bail!("a borrowed handle is of no interface"),
    }
}

fn encode(resolve: &Resolve, world: WorldId, mut module: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8)?;
    let encoder = ComponentEncoder::default().module(&module)?;
    // A component may import two versions of an interface, each with its own functions.
    encoder.merge_imports_based_on_semver(false).validate(true).encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_imported_function_has_an_export() {
        let interface = r#"(component
            (import "a:b/resources@0.2.3" (instance $resources
                (export "thing" (type $thing (sub resource)))
                (export "[constructor]thing" (func (param "name" string) (result (own $thing))))
                (export "[method]thing.read" (func (param "self" (borrow $thing)) (result (tuple string u64))))))
            (alias export $resources "thing" (type $thing))
            (import "a:b/others@0.2.3" (instance
                (alias outer 1 $thing (type $outer))
                (export "thing" (type $thing (eq $outer)))
                (export "all" (func (param "things" (list (borrow $thing))) (result (list (own $thing))))))))"#;
        let Passthrough { component, functions } = passthrough(&wat::parse_str(interface).unwrap()).unwrap();
        let names: Vec<_> = functions.iter().map(|(import, name)| (import.as_str(), name.as_str())).collect();
        let expected = [
            ("a:b/resources@0.2.3", "[constructor]thing"),
            ("a:b/resources@0.2.3", "[method]thing.read"),
            ("a:b/others@0.2.3", "all"),
        ];
        assert_eq!(names, expected);
        let DecodedWasm::Component(resolve, world) = decode(&component).unwrap() else { panic!("no component") };
        let world = &resolve.worlds[world];
        let exports: Vec<_> = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert_eq!(exports, ["f0", "f1", "f2"]);
    }

    #[test]
    fn what_is_no_webassembly_is_refused() {
        assert!(passthrough(b"nonsense").is_err());
    }
}
