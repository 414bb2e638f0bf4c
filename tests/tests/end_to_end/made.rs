//! Components that no toolchain makes, and some that it does not make yet.

use wasm_encoder::{
    BlockType, CodeSection, Component, ComponentExportKind, ComponentExportSection, ComponentImportSection,
    ComponentSectionId, ComponentTypeRef, ComponentTypeSection, Function, FunctionSection, InstanceType, Module,
    ModuleSection, NestedComponentSection, PrimitiveValType, RawSection, TypeSection, ValType,
};

/// A component from its text.
pub(crate) fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// A component that imports instances with those names, each with one function.
pub(crate) fn importing<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Vec<u8> {
    let mut instance = InstanceType::new();
    instance.ty().function().params::<[(&str, PrimitiveValType); 0], PrimitiveValType>([]).result(None);
    instance.export("f", ComponentTypeRef::Func(0));
    let mut types = ComponentTypeSection::new();
    types.instance(&instance);
    let mut imports = ComponentImportSection::new();
    for name in names {
        imports.import(name.as_ref(), ComponentTypeRef::Instance(0));
    }
    let mut component = Component::new();
    component.section(&types).section(&imports);
    component.finish()
}

/// A component that imports so many instances without anything in them, which are satisfied by nothing.
pub(crate) fn importing_nothing(count: usize) -> Vec<u8> {
    let mut types = ComponentTypeSection::new();
    types.instance(&InstanceType::new());
    let mut imports = ComponentImportSection::new();
    for index in 0..count {
        imports.import(&format!("acme:many/i{index}"), ComponentTypeRef::Instance(0));
    }
    let mut component = Component::new();
    component.section(&types).section(&imports);
    component.finish()
}

/// A component that exports one type under so many names.
pub(crate) fn exporting(count: usize) -> Vec<u8> {
    let mut types = ComponentTypeSection::new();
    types.defined_type().primitive(PrimitiveValType::U8);
    let mut exports = ComponentExportSection::new();
    for index in 0..count {
        exports.export(&format!("t{index}"), ComponentExportKind::Type, 0, None);
    }
    let mut component = Component::new();
    component.section(&types).section(&exports);
    component.finish()
}

/// Components in components, so many deep.
pub(crate) fn nested(depth: usize) -> Vec<u8> {
    (0..depth).fold(Component::new().finish(), |inner, _| {
        let mut outer = Component::new();
        outer.section(&RawSection { id: ComponentSectionId::Component.into(), data: &inner });
        outer.finish()
    })
}

/// A component of a few kilobytes on which a compiler works for minutes: every local changes in every one of many loops,
/// each in the other.
pub(crate) fn slow_to_compile(locals: u32, loops: u32) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut function = Function::new([(locals, ValType::I32)]);
    {
        let mut code = function.instructions();
        for _ in 0..loops {
            code.loop_(BlockType::Empty);
        }
        for local in 0..locals {
            code.local_get((local + 1) % locals).i32_const(1).i32_add().local_set(local);
        }
        for depth in 0..loops {
            code.local_get(depth % locals).br_if(0).end();
        }
        code.end();
    }
    let mut code = CodeSection::new();
    code.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    let mut component = Component::new();
    component.section(&ModuleSection(&module));
    component.finish()
}

/// A component with so many bytes of nothing in it.
pub(crate) fn padded(bytes: usize) -> Vec<u8> {
    let mut component = Component::new();
    component.section(&wasm_encoder::CustomSection { name: "padding".into(), data: vec![0; bytes].into() });
    component.finish()
}
