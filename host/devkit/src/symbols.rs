//! Maps places in a component file to source lines, with the debug information (DWARF) that compilers of C, Rust and Go
//! put into core modules.
//!
//! The engine identifies a place by its offset in the component file
//! ([`StackFrame::offset`](mcp_host_engine::diagnostics::StackFrame)). So debug information is neither compiled nor
//! loaded with the code: it is read from the file on demand, and the code of a developed and of a served provider is
//! identical.
//!
//! Bounds: the size of a component file, and [`MAX_PLACES`] inlined functions for each offset.

use std::ops::Range;
use std::path::Path;

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use mcp_host_base::text::truncate;
use mcp_host_engine::MAX_COMPONENT_SIZE;
use mcp_host_engine::diagnostics::demangle;
use mcp_host_model::digest::Digest;
use wasmparser::{Parser, Payload};

/// The maximum number of functions that are inlined into each other at one place.
const MAX_PLACES: usize = 16;
/// The maximum number of bytes of a path.
const MAX_TEXT: usize = 256;

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The function, demangled, if it is known.
    pub function: Option<String>,
    /// The path of the file, as given to the compiler.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The column, if it is known.
    pub column: Option<u32>,
}

/// The reason why there are no places.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolsError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// The file is not the component that ran.
    #[error("the file has changed since the component was loaded")]
    Changed,
    /// The file is not a component.
    #[error("{0}")]
    Component(#[from] wasmparser::BinaryReaderError),
}

/// A core module: its range in the file, and its debug information.
struct Module<'f> {
    range: Range<u64>,
    /// The start of the code, to which addresses are relative.
    code: u64,
    sections: Vec<(&'f str, &'f [u8])>,
}

/// Returns the source places for each offset in a component file, innermost first: inlined functions come before the
/// function that contains them. Empty for an offset without debug information. Reads the file, and blocks.
///
/// # Errors
///
/// The file cannot be read, is not a component, or has another digest.
pub fn places(file: &Path, digest: Digest, offsets: &[Option<u64>]) -> Result<Vec<Vec<Place>>, SymbolsError> {
    if std::fs::metadata(file)?.len() > MAX_COMPONENT_SIZE {
        return Err(SymbolsError::Changed);
    }
    let bytes = std::fs::read(file)?;
    if Digest::compute(&bytes) != digest {
        return Err(SymbolsError::Changed);
    }
    places_in(&bytes, offsets)
}

fn places_in(bytes: &[u8], offsets: &[Option<u64>]) -> Result<Vec<Vec<Place>>, SymbolsError> {
    let modules = modules(bytes)?;
    // Debug information of a module is indexed on first use.
    let mut contexts: Vec<_> = modules.iter().map(|_| None).collect();
    let find = |offset: &Option<u64>| {
        let found = offset.and_then(|offset| {
            let index = modules.iter().position(|module| module.range.contains(&offset))?;
            let (module, context) = (modules.get(index)?, contexts.get_mut(index)?);
            let context = context.get_or_insert_with(|| context_of(module)).as_ref()?;
            Some(places_at(context, offset.checked_sub(module.code)?))
        });
        found.unwrap_or_default()
    };
    Ok(offsets.iter().map(find).collect())
}

/// The core modules of a component, including nested ones.
fn modules(bytes: &[u8]) -> Result<Vec<Module<'_>>, SymbolsError> {
    let (mut modules, mut nested) = (Vec::<Module<'_>>::new(), Vec::<Option<usize>>::new());
    for payload in Parser::new(0).parse_all(bytes) {
        let current = nested.last().copied().flatten();
        match payload? {
            Payload::ModuleSection { unchecked_range, .. } => {
                nested.push(Some(modules.len()));
                let range = unchecked_range.start as u64..unchecked_range.end as u64;
                modules.push(Module { code: range.start, range, sections: Vec::new() });
            }
            Payload::ComponentSection { .. } => nested.push(None),
            Payload::CodeSectionStart { range, .. } => {
                if let Some(module) = current.and_then(|index| modules.get_mut(index)) {
                    module.code = range.start as u64;
                }
            }
            Payload::CustomSection(section) if section.name().starts_with(".debug_") => {
                if let Some(module) = current.and_then(|index| modules.get_mut(index)) {
                    module.sections.push((section.name(), section.data()));
                }
            }
            Payload::End(_) => drop(nested.pop()),
            _ => {}
        }
    }
    Ok(modules)
}

type Slice<'f> = EndianSlice<'f, LittleEndian>;

fn context_of<'f>(module: &Module<'f>) -> Option<Context<Slice<'f>>> {
    let section = |name: &str| module.sections.iter().find(|(of, _)| *of == name).map(|(_, data)| *data);
    let load = |id: addr2line::gimli::SectionId| {
        Ok::<_, addr2line::gimli::Error>(EndianSlice::new(section(id.name()).unwrap_or_default(), LittleEndian))
    };
    section(".debug_info")?;
    Context::from_dwarf(Dwarf::load(load).ok()?).ok()
}

fn places_at(context: &Context<Slice<'_>>, address: u64) -> Vec<Place> {
    let mut places = Vec::new();
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return places };
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = &frame.location else { continue };
        let (Some(file), Some(line)) = (location.file, location.line) else { continue };
        let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
        places.push(Place {
            function: name.map(|name| demangle(&name)),
            file: truncate(file.to_owned(), MAX_TEXT),
            line,
            column: location.column.filter(|column| *column > 0),
        });
        if places.len() >= MAX_PLACES {
            break;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_without_debug_information_has_no_places() {
        let component = wat::parse_str("(component (core module (func (export \"f\") unreachable)))").unwrap();
        let offsets = [None, Some(20), Some(1 << 40)];
        assert_eq!(places_in(&component, &offsets).unwrap(), [const { Vec::new() }; 3]);
        places_in(b"no component", &offsets).unwrap_err();
    }

    #[test]
    fn a_file_that_has_changed_has_no_places() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.wasm");
        std::fs::write(&file, "new").unwrap();
        let error = places(&file, Digest::compute(b"old"), &[]).unwrap_err();
        assert!(matches!(error, SymbolsError::Changed), "{error}");
    }
}
