//! The imports and exports of a core module.

use std::collections::BTreeSet;

use mcp_host_base::text::quote;
use wasmparser::{Parser, Payload};

use super::WASI_PREVIEW1;
use super::error::ComponentizeError;
use crate::wit;

/// The interface of the contract without its version: the prefix of exported function names.
const CONTRACT: &str = "mcp-host:provider/resource-provider";

/// The interface of preparations without its version.
const PREPARE: &str = "mcp-host:provider/prepare";

/// The functions of the contract.
const FUNCTIONS: [&str; 7] = ["describe", "list-entries", "list-templates", "read", "stat", "complete", "changes"];

/// The prefix of exports with the standard name mangling of the component model (`cm32p2|…`). `wit-component` checks
/// these.
const STANDARD_MANGLING: &str = "cm32p2|";

/// The imports and exports of a core module.
#[derive(Debug, Default)]
pub(super) struct CoreModule<'m> {
    imports: Vec<(&'m str, &'m str)>,
    exports: BTreeSet<&'m str>,
    /// Whether bindings have embedded the type of the component.
    pub(super) has_component_type: bool,
}

impl<'m> CoreModule<'m> {
    /// Reads the imports and the exports.
    pub(super) fn parse(bytes: &'m [u8]) -> Result<Self, ComponentizeError> {
        check_preamble(bytes)?;
        Self::parse_sections(bytes).map_err(|error| ComponentizeError::Invalid(error.to_string()))
    }

    fn parse_sections(bytes: &'m [u8]) -> Result<Self, wasmparser::BinaryReaderError> {
        let mut module = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        module.imports.push((import.module, import.name));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        module.exports.insert(export?.name);
                    }
                }
                Payload::CustomSection(section) if section.name().starts_with("component-type") => {
                    module.has_component_type = true;
                }
                _ => {}
            }
        }
        Ok(module)
    }

    /// Checks that the module is a reactor and exports all functions of the contract.
    pub(super) fn check_exports(&self) -> Result<(), ComponentizeError> {
        if self.exports.contains("_start") {
            return Err(ComponentizeError::Command);
        }
        if self.exports.iter().any(|name| name.starts_with(STANDARD_MANGLING)) {
            return Ok(());
        }
        let version = self.contract_version();
        let names = FUNCTIONS.iter().map(|function| format!("{CONTRACT}@{version}#{function}"));
        let missing: Vec<_> = names.filter(|name| !self.exports.contains(name.as_str())).collect();
        if missing.is_empty() { Ok(()) } else { Err(ComponentizeError::MissingExports { missing }) }
    }

    /// The version of the contract in the names of the exports: the latest, unless an export has an earlier one.
    pub(super) fn contract_version(&self) -> &'static str {
        let [latest, ..] = wit::VERSIONS;
        let has = |version: &&str| self.exports.iter().any(|name| name.starts_with(&format!("{CONTRACT}@{version}#")));
        wit::VERSIONS.into_iter().find(has).unwrap_or(latest)
    }

    /// Whether the module exports `prepare` in addition to the contract.
    pub(super) fn prepares(&self) -> bool {
        self.exports.contains(format!("{PREPARE}@{}#prepare", self.contract_version()).as_str())
    }

    /// Checks that every import is from WASI 0.1, from an interface accepted by `has_interface`, or a built-in of the
    /// component model.
    pub(super) fn check_import_modules(&self, has_interface: impl Fn(&str) -> bool) -> Result<(), ComponentizeError> {
        let is_known = |module: &str| match module {
            WASI_PREVIEW1 | "$root" => true,
            _ if module.starts_with("[export]") || module.starts_with(STANDARD_MANGLING) => true,
            _ => module.contains(':') && has_interface(module),
        };
        let unknown = self.imports.iter().filter(|(module, _)| !is_known(module));
        let imports: Vec<_> = unknown.map(|(module, name)| format!("{} {}", quote(module), quote(name))).collect();
        if imports.is_empty() { Ok(()) } else { Err(ComponentizeError::UnknownImports { imports }) }
    }
}

fn check_preamble(bytes: &[u8]) -> Result<(), ComponentizeError> {
    let found = match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => return Err(ComponentizeError::IsComponent),
        [0, b'a', b's', b'm', ..] => "it is WebAssembly of an unknown version",
        [] => "it is empty",
        _ => "it does not begin with the magic number of WebAssembly",
    };
    Err(ComponentizeError::NotWasm { found })
}
