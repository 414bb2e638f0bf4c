//! Providers written in WebAssembly's text format, for what no compiler would emit.
//!
//! Such a provider returns the smallest valid answer from every function of the contract, except for those that a test
//! writes itself. Answers are laid out by the canonical ABI of the component model. Memory is zeroed, so an answer at
//! any unused address is an empty one.

use std::path::PathBuf;

use tempfile::TempDir;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::artifacts;

/// The functions of the contract in core WebAssembly: name and parameters.
const FUNCTIONS: [(&str, &str); 7] = [
    ("describe", ""),
    ("list-entries", "i32 i32 i32 i32 i32 i32 i32"),
    ("list-templates", "i32 i32 i32"),
    ("read", "i32 i32"),
    ("stat", "i32 i32"),
    ("complete", "i32 i32 i32 i32 i32 i32 i32 i32"),
    ("changes", "i32 i32 i32 i32 i32"),
];

/// A builder for a provider.
#[derive(Clone, Debug)]
#[must_use]
pub struct WatProvider {
    function_bodies: Vec<(&'static str, String)>,
    imports: String,
    module_fields: String,
    memory: u32,
    encoding: StringEncoding,
}

/// The file of a provider, in a temporary directory.
#[derive(Debug)]
pub struct ComponentFile {
    dir: TempDir,
}

impl WatProvider {
    /// Creates a provider that does nothing, with 1 MiB of memory.
    pub fn new() -> Self {
        Self {
            function_bodies: Vec::new(),
            imports: String::new(),
            module_fields: String::new(),
            memory: 16,
            encoding: StringEncoding::UTF8,
        }
    }

    /// Sets the body of a function of the contract: instructions that leave the address of the answer on the stack.
    ///
    /// The answer `ok` is the byte 0, and its payload begins at offset 8.
    pub fn function(mut self, name: &'static str, instructions: &str) -> Self {
        self.function_bodies.push((name, instructions.to_owned()));
        self
    }

    /// Adds fields to the core module: tables, data, functions, a start function.
    pub fn module_fields(mut self, fields: &str) -> Self {
        self.module_fields.push_str(fields);
        self
    }

    /// Adds imports to the core module, which stand before its other fields.
    pub fn imports(mut self, imports: &str) -> Self {
        self.imports.push_str(imports);
        self
    }

    /// Sets the initial memory, in pages of 64 KiB.
    pub fn memory(mut self, pages: u32) -> Self {
        self.memory = pages;
        self
    }

    /// Encodes strings as UTF-16.
    pub fn utf16(mut self) -> Self {
        self.encoding = StringEncoding::UTF16;
        self
    }

    /// Builds the core module alone, as a compiler without components does.
    pub fn core_module(&self) -> Vec<u8> {
        wat::parse_str(self.to_wat()).expect("the text is WebAssembly")
    }

    /// Builds the component.
    pub fn build(&self) -> ComponentFile {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(artifacts::repo_root().join("wit")).expect("the contract parses");
        let world = resolve.select_world(&[package], Some("provider-all")).expect("it has a world for providers");
        let mut module = self.core_module();
        embed_component_metadata(&mut module, &resolve, world, self.encoding).expect("it fits the contract");
        let encoder = ComponentEncoder::default().module(&module).expect("a module with metadata");
        let bytes = encoder.validate(true).encode().expect("a component");
        let component = ComponentFile { dir: tempfile::tempdir().expect("a directory for the component") };
        std::fs::write(component.path(), bytes).expect("the component can be written");
        component
    }

    fn to_wat(&self) -> String {
        let functions: String = FUNCTIONS
            .iter()
            .map(|(name, parameters)| {
                let body = self.function_bodies.iter().find(|(written, _)| written == name);
                let body = body.map_or("(i32.const 1024)", |(_, body)| body);
                let export = format!("mcp-host:provider/resource-provider@0.1.1#{name}");
                format!("(func (export \"{export}\") (param {parameters}) (result i32) {body})\n")
            })
            .collect();
        // Arguments are allocated at 4096. They may overlap, as no function here reads them.
        format!(
            "(module
               {imports}
               (memory (export \"memory\") {memory})
               (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
               {functions}
               {fields})",
            imports = self.imports,
            memory = self.memory,
            fields = self.module_fields,
        )
    }
}

impl Default for WatProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl ComponentFile {
    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("provider.wasm")
    }
}
