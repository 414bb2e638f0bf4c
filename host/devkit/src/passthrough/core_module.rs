//! The core module of a passthrough: for each import a function that calls it, and a bump allocator.

use std::borrow::Cow;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalSection,
    GlobalType, ImportSection, Instruction, MemArg, MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wit_parser::abi::WasmType;

/// The address of the functions' results.
pub(super) const RESULT_AREA: u32 = 16;
/// The size of a memory page, as a power of two.
const PAGE_BITS: i32 = 16;

/// An imported function.
pub(super) struct Imported {
    pub(super) module: String,
    pub(super) field: String,
    pub(super) import_params: Vec<ValType>,
    pub(super) import_results: Vec<ValType>,
    pub(super) export_params: Vec<ValType>,
    pub(super) export_results: Vec<ValType>,
    pub(super) has_result_pointer: bool,
    pub(super) borrowed: Vec<Borrowed>,
}

/// A parameter with borrowed handles. The passthrough does not own their resources, so it must drop the handles before
/// it returns.
#[derive(Clone, Copy)]
pub(super) struct Borrowed {
    /// The number of the parameter's first flat parameter.
    pub(super) param: u32,
    /// Whether the parameter is a list: an address and a length.
    pub(super) is_list: bool,
    /// The index of the imported drop function.
    pub(super) drop: usize,
}

/// The core module. Global 0 is the end of the allocated memory; the heap begins at this address.
pub(super) fn core_module(imported: &[Imported], drops: &[(String, String)], heap: u32) -> Vec<u8> {
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

/// Drops the handles of a parameter. Imported drop functions are numbered from `first`; the two locals from `local` are
/// free.
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

/// Returns the types of the core module for flat types.
pub(super) fn types(types: &[WasmType]) -> Vec<ValType> {
    let ty = |ty: &WasmType| match ty {
        WasmType::I64 | WasmType::PointerOrI64 => ValType::I64,
        WasmType::F32 => ValType::F32,
        WasmType::F64 => ValType::F64,
        WasmType::I32 | WasmType::Pointer | WasmType::Length => ValType::I32,
    };
    types.iter().map(ty).collect()
}
