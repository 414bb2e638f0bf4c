//! Providers written in WebAssembly's own text, for what no compiler would let a guest do.
//!
//! Such a provider answers every function of the contract with as little as is valid, but for those that a test writes
//! itself. Answers are laid out by the canonical ABI of the component model; memory is all zeros, and so an answer that
//! starts at any untouched place is an empty one.

use std::path::PathBuf;

use tempfile::TempDir;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::artifacts;

/// The functions of the contract as core WebAssembly has them: the name, and the parameters.
const FUNCTIONS: [(&str, &str); 7] = [
    ("describe", ""),
    ("list-entries", "i32 i32 i32 i32 i32 i32 i32"),
    ("list-templates", "i32 i32 i32"),
    ("read", "i32 i32"),
    ("stat", "i32 i32"),
    ("complete", "i32 i32 i32 i32 i32 i32 i32 i32"),
    ("changes", "i32 i32 i32 i32 i32"),
];

/// A provider that is being written.
#[derive(Clone, Debug)]
#[must_use]
pub struct WatProvider {
    function_bodies: Vec<(&'static str, String)>,
    module_fields: String,
    memory: u32,
    encoding: StringEncoding,
}

/// The file of a provider, in a directory that goes away with it.
#[derive(Debug)]
pub struct ComponentFile {
    dir: TempDir,
}

impl WatProvider {
    /// A provider that does nothing, and has 1 MiB of memory.
    pub fn new() -> Self {
        Self { function_bodies: Vec::new(), module_fields: String::new(), memory: 16, encoding: StringEncoding::UTF8 }
    }

    /// Writes a function of the contract: instructions that leave the address of an answer.
    ///
    /// An answer `ok` is the byte 0, and what it holds begins 8 bytes behind.
    pub fn function(mut self, name: &'static str, instructions: &str) -> Self {
        self.function_bodies.push((name, instructions.to_owned()));
        self
    }

    /// Adds fields to the core module: tables, data, functions, a start.
    pub fn module_fields(mut self, fields: &str) -> Self {
        self.module_fields.push_str(fields);
        self
    }

    /// How much memory it has from the beginning, in pages of 64 KiB.
    pub fn memory(mut self, pages: u32) -> Self {
        self.memory = pages;
        self
    }

    /// Its strings are UTF-16.
    pub fn utf16(mut self) -> Self {
        self.encoding = StringEncoding::UTF16;
        self
    }

    /// Makes the component.
    pub fn build(&self) -> ComponentFile {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(artifacts::repo_root().join("wit")).expect("the contract parses");
        let world = resolve.select_world(&[package], Some("provider")).expect("it has a world for providers");
        let mut module = wat::parse_str(self.to_wat()).expect("the text is WebAssembly");
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
                let export = format!("mcp-host:provider/resource-provider@0.1.0#{name}");
                format!("(func (export \"{export}\") (param {parameters}) (result i32) {body})\n")
            })
            .collect();
        // Arguments come in at 4096. One lies over the other, which does not matter to anybody here.
        format!(
            "(module
               (memory (export \"memory\") {memory})
               (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
               {functions}
               {fields})",
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
    /// Its file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("provider.wasm")
    }
}
