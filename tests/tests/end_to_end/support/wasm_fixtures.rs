//! Components that no toolchain emits, created by the tests.

use wasm_encoder::{
    BlockType, CodeSection, Component, ComponentExportKind, ComponentExportSection, ComponentImportSection,
    ComponentInstanceSection, ComponentSection, ComponentSectionId, ComponentTypeRef, ComponentTypeSection,
    CustomSection, Function, FunctionSection, InstanceType, Module, ModuleSection, PrimitiveValType, RawSection,
    TypeSection, ValType,
};

/// Returns a component that imports instances with these names, each with one function.
pub(crate) fn component_with_imports<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Vec<u8> {
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

/// Returns a component that exports one type under `count` names.
pub(crate) fn component_with_exports(count: usize) -> Vec<u8> {
    let mut types = ComponentTypeSection::new();
    types.defined_type().primitive(PrimitiveValType::U8);
    let mut exports = ComponentExportSection::new();
    for index in 0..count {
        exports.export(format!("t{index}"), ComponentExportKind::Type, 0, None);
    }
    let mut component = Component::new();
    component.section(&types).section(&exports);
    component.finish()
}

/// Returns components nested `depth` levels deep.
pub(crate) fn nested_components(depth: usize) -> Vec<u8> {
    (0..depth).fold(Component::new().finish(), |inner, _| {
        let mut outer = Component::new();
        outer.section(&RawSection { id: ComponentSectionId::Component.into(), data: &inner });
        outer.finish()
    })
}

/// Returns a component of a few kilobytes that takes a compiler minutes or gigabytes: every local changes in each of
/// many nested loops.
pub(crate) fn hard_to_compile(locals: u32, loops: u32) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut function = Function::new([(locals, ValType::I32)]);
    let mut instructions = function.instructions();
    for _ in 0..loops {
        instructions.loop_(BlockType::Empty);
    }
    for local in 0..locals {
        instructions.local_get((local + 1) % locals).i32_const(1).i32_add().local_set(local);
    }
    for depth in 0..loops {
        instructions.local_get(depth % locals).br_if(0).end();
    }
    instructions.end();
    let mut code = CodeSection::new();
    code.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&code);
    let mut component = Component::new();
    component.section(&ModuleSection(&module));
    component.finish()
}

/// Returns an equivalent component in a different file, with an additional section without meaning.
pub(crate) fn with_padding(mut component: Vec<u8>, padding: &[u8]) -> Vec<u8> {
    CustomSection { name: "padding".into(), data: padding.into() }.append_to_component(&mut component);
    component
}

/// Returns the component with an additional, unused component in it that is instantiated `count` times.
pub(crate) fn with_instances(mut component: Vec<u8>, nested: &[u8], count: usize) -> Vec<u8> {
    let index = component_count(&component);
    RawSection { id: ComponentSectionId::Component.into(), data: nested }.append_to_component(&mut component);
    let mut instances = ComponentInstanceSection::new();
    for _ in 0..count {
        instances.instantiate::<[(&str, ComponentExportKind, u32); 0], &str>(index, []);
    }
    instances.append_to_component(&mut component);
    component
}

/// Returns the number of components at the top level of a component.
fn component_count(component: &[u8]) -> u32 {
    let (mut rest, mut count) = (&component[8..], 0);
    while let [id, sized @ ..] = rest {
        let (mut size, mut length) = (0, 0);
        for byte in sized {
            size |= usize::from(byte & 0x7f) << (7 * length);
            length += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        count += u32::from(*id == u8::from(ComponentSectionId::Component));
        rest = &sized[length + size..];
    }
    count
}
