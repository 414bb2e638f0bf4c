//! A component that exports each host function that another component imports.
//!
//! The passthrough stands between a recorded component and the host functions, which can be called only as exports of a component
//! ([`recording`](mcp_host_engine::recording)). Function `f3` calls the fourth imported function with the same arguments and
//! returns its results.
//!
//! The passthrough is made from the types of the imports, which are in the component's binary. An export has the flat parameters
//! of the import. If a function has more than one flat result, its import takes a pointer to them as the last parameter, and its
//! export returns the pointer: the address of one area with the size of the largest result. Arguments and contents of results are
//! allocated from the end of that area (a bump allocator), and are released together when the caller has read the result
//! (`cabi_post_…`). The memory grows up to the limit of the store; beyond that the call traps.

use std::borrow::Cow;
use std::collections::HashMap;

use mcp_host_engine::recording::Passthrough;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalSection,
    GlobalType, ImportSection, Instruction, MemArg, MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wit_component::{ComponentEncoder, DecodedWasm, StringEncoding, decode, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{
    Function as WitFunction, FunctionKind, Handle, LiftLowerAbi, ManglingAndAbi, Resolve, ResourceIntrinsic, Result_,
    SizeAlign, Span, Tuple, Type, TypeDefKind, TypeId, TypeOwner, WasmImport, WorldId, WorldItem, WorldKey,
};

/// A parameter with borrowed handles. The passthrough does not own their resources, so it must drop the handles before it
/// returns.
#[derive(Clone, Copy)]
struct Borrowed {
    /// The number of the parameter's first flat parameter.
    param: u32,
    /// Whether the parameter is a list: an address and a length.
    is_list: bool,
    /// The index of the imported drop function.
    drop: usize,
}

/// The address of the functions' results.
const RESULT_AREA: u32 = 16;
/// The size of a memory page, as a power of two.
const PAGE_BITS: i32 = 16;
const ABI: ManglingAndAbi = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);

/// Makes the passthrough of a component.
///
/// # Errors
///
/// The file is not a component, or its imports cannot be passed through.
pub fn passthrough(component: &[u8]) -> Result<Passthrough, String> {
    make(component).map_err(|error| format!("its imports cannot be recorded: {error:#}"))
}

/// An imported function.
struct Imported {
    module: String,
    field: String,
    import_params: Vec<ValType>,
    import_results: Vec<ValType>,
    export_params: Vec<ValType>,
    export_results: Vec<ValType>,
    has_result_pointer: bool,
    borrowed: Vec<Borrowed>,
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
    function: &WitFunction,
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
        let before = WitFunction {
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

/// The types of interfaces to which exports refer. A world must `use` them, each under its own name.
#[derive(Default)]
struct UsedTypes {
    /// The world's type for each interface type.
    aliases: HashMap<TypeId, TypeId>,
    /// The names, in order.
    names: Vec<(String, TypeId)>,
}

impl UsedTypes {
    /// Makes a function refer to the types of the world.
    fn replace_in(&mut self, resolve: &mut Resolve, world: WorldId, function: &mut WitFunction) {
        for param in &mut function.params {
            param.ty = self.replaced(resolve, world, param.ty);
        }
        function.result = function.result.map(|result| self.replaced(resolve, world, result));
    }

    fn replaced(&mut self, resolve: &mut Resolve, world: WorldId, ty: Type) -> Type {
        match ty {
            Type::Id(id) => Type::Id(self.replaced_id(resolve, world, id)),
            other => other,
        }
    }

    fn replaced_id(&mut self, resolve: &mut Resolve, world: WorldId, id: TypeId) -> TypeId {
        if let Some(known) = self.aliases.get(&id) {
            return *known;
        }
        let Some(mut ty) = resolve.types.get(id).cloned() else { return id };
        if ty.name.is_some() {
            let name = format!("t{}", self.names.len());
            ty.kind = TypeDefKind::Type(Type::Id(id));
            (ty.name, ty.owner) = (Some(name.clone()), TypeOwner::World(world));
            let alias = resolve.types.alloc(ty);
            self.names.push((name, alias));
            self.aliases.insert(id, alias);
            return alias;
        }
        let mut of = |ty: Type| self.replaced(resolve, world, ty);
        ty.kind = match ty.kind {
            TypeDefKind::Tuple(tuple) => TypeDefKind::Tuple(Tuple { types: tuple.types.into_iter().map(of).collect() }),
            TypeDefKind::Option(ty) => TypeDefKind::Option(of(ty)),
            TypeDefKind::Result(Result_ { ok, err }) => {
                TypeDefKind::Result(Result_ { ok: ok.map(&mut of), err: err.map(&mut of) })
            }
            TypeDefKind::List(ty) => TypeDefKind::List(of(ty)),
            TypeDefKind::FixedLengthList(ty, len) => TypeDefKind::FixedLengthList(of(ty), len),
            TypeDefKind::Map(key, value) => TypeDefKind::Map(of(key), of(value)),
            TypeDefKind::Type(ty) => TypeDefKind::Type(of(ty)),
            TypeDefKind::Handle(Handle::Own(id)) => {
                TypeDefKind::Handle(Handle::Own(self.replaced_id(resolve, world, id)))
            }
            TypeDefKind::Handle(Handle::Borrow(id)) => {
                TypeDefKind::Handle(Handle::Borrow(self.replaced_id(resolve, world, id)))
            }
            other => other,
        };
        let replaced = resolve.types.alloc(ty);
        self.aliases.insert(id, replaced);
        replaced
    }

    /// The world's imports of these types.
    fn items(&self) -> impl Iterator<Item = (WorldKey, WorldItem)> {
        let item = |(name, id): &(String, TypeId)| {
            (WorldKey::Name(name.clone()), WorldItem::Type { id: *id, span: Span::default() })
        };
        self.names.iter().map(item)
    }
}

fn encode(resolve: &Resolve, world: WorldId, mut module: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8)?;
    let encoder = ComponentEncoder::default().module(&module)?;
    // A component may import two versions of an interface, each with its own functions.
    encoder.merge_imports_based_on_semver(false).validate(true).encode()
}

fn types(types: &[WasmType]) -> Vec<ValType> {
    let ty = |ty: &WasmType| match ty {
        WasmType::I64 | WasmType::PointerOrI64 => ValType::I64,
        WasmType::F32 => ValType::F32,
        WasmType::F64 => ValType::F64,
        WasmType::I32 | WasmType::Pointer | WasmType::Length => ValType::I32,
    };
    types.iter().map(ty).collect()
}

/// The core module. Global 0 is the end of the allocated memory; the heap begins at this address.
fn core_module(imported: &[Imported], drops: &[(String, String)], heap: u32) -> Vec<u8> {
    let count = u32::try_from(imported.len()).unwrap_or(u32::MAX);
    let heap = heap.cast_signed();
    let (mut types, mut imports, mut functions) = (TypeSection::new(), ImportSection::new(), FunctionSection::new());
    let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
    let mut add_type = |params: &[ValType], results: &[ValType]| {
        let index = types.len();
        types.ty().function(params.iter().copied(), results.iter().copied());
        index
    };
    for function in imported {
        let ty = add_type(&function.import_params, &function.import_results);
        imports.import(&function.module, &function.field, EntityType::Function(ty));
    }
    let drop_type = add_type(&[ValType::I32], &[]);
    for (module, field) in drops {
        imports.import(module, field, EntityType::Function(drop_type));
    }
    let mut next = count.saturating_add(u32::try_from(drops.len()).unwrap_or(u32::MAX));
    let mut define = |name: Cow<'_, str>, ty: u32, body: &Function| {
        functions.function(ty);
        code.function(body);
        exports.export(&name, ExportKind::Func, next);
        next = next.saturating_add(1);
    };
    for (index, function) in (0..count).zip(imported) {
        let mut body = Function::new([(2, ValType::I32)]);
        for param in 0..function.export_params.len() {
            body.instruction(&Instruction::LocalGet(u32::try_from(param).unwrap_or(u32::MAX)));
        }
        let area = Instruction::I32Const(RESULT_AREA.cast_signed());
        if function.has_result_pointer {
            body.instruction(&area);
        }
        body.instruction(&Instruction::Call(index));
        let locals = u32::try_from(function.export_params.len()).unwrap_or(u32::MAX);
        for borrowed in &function.borrowed {
            drop_handles(*borrowed, count, locals, &mut body);
        }
        if function.has_result_pointer {
            body.instruction(&area);
        }
        body.instruction(&Instruction::End);
        let ty = add_type(&function.export_params, &function.export_results);
        define(format!("f{index}").into(), ty, &body);
        let mut release = Function::new([]);
        release.instruction(&Instruction::I32Const(heap));
        release.instruction(&Instruction::GlobalSet(0));
        release.instruction(&Instruction::End);
        let ty = add_type(&function.export_results, &[]);
        define(format!("cabi_post_f{index}").into(), ty, &release);
    }
    let ty = add_type(&[ValType::I32; 4], &[ValType::I32]);
    define("cabi_realloc".into(), ty, &realloc());
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None });
    exports.export("memory", ExportKind::Memory, 0);
    let mut globals = GlobalSection::new();
    let mutable = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    globals.global(mutable, &ConstExpr::i32_const(heap));
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&memories).section(&globals);
    module.section(&exports).section(&code);
    module.finish()
}

/// Drops the handles of a parameter. Imported drop functions are numbered from `first`; the two locals from `local` are free.
fn drop_handles(borrowed: Borrowed, first: u32, local: u32, body: &mut Function) {
    use Instruction as I;
    let drop = I::Call(first.saturating_add(u32::try_from(borrowed.drop).unwrap_or(u32::MAX)));
    let (address, end) = (local, local.saturating_add(1));
    let of_one = [I::LocalGet(borrowed.param), drop.clone()];
    let of_list = [
        I::LocalGet(borrowed.param),
        I::LocalTee(address),
        I::LocalGet(borrowed.param.saturating_add(1)),
        I::I32Const(2),
        I::I32Shl,
        I::I32Add,
        I::LocalSet(end),
        I::Block(BlockType::Empty),
        I::Loop(BlockType::Empty),
        I::LocalGet(address),
        I::LocalGet(end),
        I::I32GeU,
        I::BrIf(1),
        I::LocalGet(address),
        I::I32Load(MemArg { offset: 0, align: 2, memory_index: 0 }),
        drop,
        I::LocalGet(address),
        I::I32Const(4),
        I::I32Add,
        I::LocalSet(address),
        I::Br(0),
        I::End,
        I::End,
    ];
    let instructions = if borrowed.is_list { of_list.as_slice() } else { &of_one };
    for instruction in instructions {
        body.instruction(instruction);
    }
}

/// `cabi_realloc(old, old-size, align, size)`: allocates at the end, and copies the old content.
fn realloc() -> Function {
    use Instruction as I;
    let (old, old_size, align, size, place, end) = (0, 1, 2, 3, 4, 5);
    let mut body = Function::new([(2, ValType::I32)]);
    // place = (global + align - 1) & -align; end = place + size
    for instruction in [
        I::GlobalGet(0),
        I::LocalGet(align),
        I::I32Add,
        I::I32Const(1),
        I::I32Sub,
        I::I32Const(0),
        I::LocalGet(align),
        I::I32Sub,
        I::I32And,
        I::LocalTee(place),
        I::LocalGet(size),
        I::I32Add,
        I::LocalTee(end),
        // The address overflowed.
        I::LocalGet(place),
        I::I32LtU,
        I::If(BlockType::Empty),
        I::Unreachable,
        I::End,
        // Grows the memory by the missing pages: ((end + 65535) >> 16) - memory.size, if that is positive.
        I::LocalGet(end),
        I::I32Const(1),
        I::I32Sub,
        I::I32Const(PAGE_BITS),
        I::I32ShrU,
        I::MemorySize(0),
        I::I32GeU,
        I::If(BlockType::Empty),
        I::LocalGet(end),
        I::I32Const(1),
        I::I32Sub,
        I::I32Const(PAGE_BITS),
        I::I32ShrU,
        I::MemorySize(0),
        I::I32Sub,
        I::I32Const(1),
        I::I32Add,
        I::MemoryGrow(0),
        I::I32Const(-1),
        I::I32Eq,
        I::If(BlockType::Empty),
        I::Unreachable,
        I::End,
        I::End,
        I::LocalGet(end),
        I::GlobalSet(0),
    ] {
        body.instruction(&instruction);
    }
    // Copies the smaller of the two sizes.
    for instruction in [
        I::LocalGet(place),
        I::LocalGet(old),
        I::LocalGet(old_size),
        I::LocalGet(size),
        I::LocalGet(old_size),
        I::LocalGet(size),
        I::I32LtU,
        I::Select,
        I::MemoryCopy { src_mem: 0, dst_mem: 0 },
        I::LocalGet(place),
        I::End,
    ] {
        body.instruction(&instruction);
    }
    body
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
