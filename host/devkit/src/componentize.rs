//! Makes a component from a core WebAssembly module: the last step of a build with a compiler that makes only core
//! modules, such as Go, or clang for `wasm32-wasip1`.
//!
//! The WIT of the contract and the adapter from WASI 0.1 (`wasi_snapshot_preview1`) to WASI 0.2 are embedded in the
//! program. The module is examined first, so that usual mistakes are reported by their cause: [`ComponentizeError`] has
//! a variant for each. The component imports only interfaces that the module imports, even if its world has more.

mod core_module;
mod error;

use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId, WorldItem, WorldKey};

pub use self::error::ComponentizeError;

use mcp_host_engine::plugin::NEEDS_SECTION;

use self::core_module::CoreModule;
use crate::wit;

/// The world of a module without an embedded one: it has all interfaces that a provider may import.
const DEFAULT_WORLD: &str = "provider-all";

/// The name of the world with `prepare`, which is made for modules that export it.
const PREPARING_WORLD: &str = "preparing";

/// The module from which programs for WASI 0.1 import functions.
const WASI_PREVIEW1: &str = "wasi_snapshot_preview1";

/// Makes a component of a core module that exports the contract.
///
/// Bindings may have embedded the component's type in the module (custom sections `component-type…`). Without it, the
/// type is the world `world`, or [`DEFAULT_WORLD`].
pub fn componentize(core: &[u8], world: Option<&str>) -> Result<Vec<u8>, ComponentizeError> {
    let module = CoreModule::parse(core)?;
    module.check_exports()?;
    let mut bytes = core.to_vec();
    match (module.has_component_type, world) {
        (true, Some(_)) => return Err(ComponentizeError::WorldEmbedded),
        (true, None) => module.check_import_modules(|_| true)?,
        (false, _) => {
            let (resolve, world) = select_world(&module, world.unwrap_or(DEFAULT_WORLD))?;
            let imports = imported_interfaces(&resolve, world);
            module.check_import_modules(|name| imports.iter().any(|import| import == name))?;
            embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).map_err(encode_error)?;
        }
    }
    encode(&bytes).map_err(encode_error)
}

/// Adds the provider's needs to a component, as a custom section at the top level, where it overrides a section in the
/// core module.
pub fn add_needs(component: &mut Vec<u8>, needs: &[u8]) {
    CustomSection { name: NEEDS_SECTION.into(), data: needs.into() }.append_to_component(component);
}

fn encode(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
    ComponentEncoder::default().module(module)?.adapter(WASI_PREVIEW1, adapter)?.validate(true).encode()
}

fn encode_error(error: anyhow::Error) -> ComponentizeError {
    ComponentizeError::Encode(format!("{error:#}"))
}

/// The world with this name for the module's exports, in the module's version of the contract.
fn select_world(module: &CoreModule<'_>, name: &str) -> Result<(Resolve, WorldId), ComponentizeError> {
    let version = module.contract_version();
    let (resolve, package) = wit::resolve(version, "").map_err(encode_error)?;
    let worlds = resolve.packages.get(package).map(|package| &package.worlds);
    let Some(world) = worlds.and_then(|worlds| worlds.get(name).copied()) else {
        let known = worlds.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        return Err(ComponentizeError::UnknownWorld { name: name.to_owned(), known });
    };
    if !module.prepares() {
        return Ok((resolve, world));
    }
    let more = format!("world {PREPARING_WORLD} {{ include {name}; export prepare; }}");
    let (resolve, package) = wit::resolve(version, &more).map_err(encode_error)?;
    let world = resolve.select_world(&[package], Some(PREPARING_WORLD)).map_err(encode_error)?;
    Ok((resolve, world))
}

/// The names of the interfaces that a world imports.
fn imported_interfaces(resolve: &Resolve, world: WorldId) -> Vec<String> {
    let imports = resolve.worlds.get(world).into_iter().flat_map(|world| &world.imports);
    let interfaces = imports.filter_map(|(key, item)| match (key, item) {
        (WorldKey::Interface(id), WorldItem::Interface { .. }) => resolve.id_of(*id),
        _ => None,
    });
    interfaces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = "mcp-host:provider/resource-provider@0.1.1";

    /// A module that exports the contract, with additional fields.
    fn provider(fields: &str) -> Vec<u8> {
        provider_of(CONTRACT, fields)
    }

    /// A module that exports this version of the contract, with additional fields.
    fn provider_of(contract: &str, fields: &str) -> Vec<u8> {
        let functions = [
            ("describe", 0),
            ("list-entries", 7),
            ("list-templates", 3),
            ("read", 2),
            ("stat", 2),
            ("complete", 8),
            ("changes", 5),
        ];
        let functions: String = functions
            .iter()
            .map(|(name, parameters)| {
                let parameters = "i32 ".repeat(*parameters);
                format!("(func (export \"{contract}#{name}\") (param {parameters}) (result i32) (i32.const 64))")
            })
            .collect();
        let realloc = "(func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 4096))";
        wat::parse_str(format!("(module {fields} (memory (export \"memory\") 1) {realloc} {functions})")).unwrap()
    }

    fn failure(core: &[u8]) -> ComponentizeError {
        componentize(core, None).unwrap_err()
    }

    #[test]
    fn a_module_becomes_a_component_that_imports_only_what_the_module_does() {
        let component = componentize(&provider(""), None).unwrap();
        assert_eq!(component.get(..8), Some(&b"\0asm\x0d\0\x01\0"[..]));
        assert!(!String::from_utf8_lossy(&component).contains("wasi:"));
        let imports = r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#;
        let component = componentize(&provider(imports), None).unwrap();
        assert!(String::from_utf8_lossy(&component).contains("wasi:cli/stdout@0.2."));
    }

    #[test]
    fn what_is_no_core_module_is_named() {
        for (bytes, found) in [(&b""[..], "it is empty"), (b"int main(void);", "the magic number"), (b"\0as", "magic")]
        {
            let error = failure(bytes);
            assert!(matches!(error, ComponentizeError::NotWasm { .. }), "{error}");
            assert!(error.to_string().contains(found), "{error}");
        }
        assert!(matches!(failure(b"\0asm\x0d\0\x01\0"), ComponentizeError::IsComponent));
        let mut cut_off = provider("");
        cut_off.truncate(60);
        assert!(matches!(failure(&cut_off), ComponentizeError::Invalid(_)));
    }

    #[test]
    fn a_command_is_told_from_a_reactor() {
        assert!(matches!(failure(&provider("(func (export \"_start\"))")), ComponentizeError::Command));
        assert!(matches!(
            failure(&wat::parse_str("(module (func (export \"_start\")))").unwrap()),
            ComponentizeError::Command
        ));
    }

    #[test]
    fn missing_exports_are_listed() {
        let one = format!("(module (func (export \"{CONTRACT}#read\") (param i32 i32) (result i32) (i32.const 0)))");
        match failure(&wat::parse_str(one).unwrap()) {
            ComponentizeError::MissingExports { missing } => {
                assert_eq!(missing.len(), 6);
                assert!(missing.contains(&format!("{CONTRACT}#stat")));
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_export_of_another_type_is_an_error_that_names_it() {
        let mut text = String::new();
        for name in ["describe", "list-entries", "list-templates", "read", "stat", "complete", "changes"] {
            text += &format!("(func (export \"{CONTRACT}#{name}\"))");
        }
        let error = failure(&wat::parse_str(format!("(module (memory (export \"memory\") 1) {text})")).unwrap());
        assert!(matches!(error, ComponentizeError::Encode(_)) && error.to_string().contains("describe"), "{error}");
    }

    #[test]
    fn undefined_symbols_and_unknown_interfaces_are_listed() {
        let error = failure(&provider(r#"(import "env" "sqlite3_open" (func))"#));
        assert!(matches!(error, ComponentizeError::UnknownImports { .. }), "{error}");
        assert!(error.to_string().contains("`env` `sqlite3_open`"), "{error}");
        let error = failure(&provider(r#"(import "wasi:nn/tensor@0.2.0" "f" (func))"#));
        assert!(error.to_string().contains("wasi:nn/tensor@0.2.0"), "{error}");
    }

    #[test]
    fn every_world_makes_a_component() {
        let (resolve, package) = wit::resolve(wit::VERSIONS[0], "").unwrap();
        let worlds: Vec<_> = resolve.packages[package].worlds.keys().cloned().collect();
        assert!(worlds.contains(&DEFAULT_WORLD.to_owned()), "{worlds:?}");
        for world in worlds {
            componentize(&provider(""), Some(&world)).unwrap();
        }
    }

    #[test]
    fn an_unknown_world_is_answered_with_those_there_are() {
        let error = componentize(&provider(""), Some("providr")).unwrap_err();
        match error {
            ComponentizeError::UnknownWorld { known, .. } => assert!(known.contains(&"provider".to_owned())),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_module_of_an_earlier_version_of_the_contract_becomes_a_component_of_that_version() {
        let component = componentize(&provider_of("mcp-host:provider/resource-provider@0.1.0", ""), None).unwrap();
        assert!(String::from_utf8_lossy(&component).contains("mcp-host:provider/resource-provider@0.1.0"));
        assert!(!String::from_utf8_lossy(&component).contains("@0.1.1"));
    }

    #[test]
    fn a_module_that_exports_prepare_becomes_a_component_that_does() {
        let prepare = "mcp-host:provider/prepare@0.1.1";
        let function = format!("(func (export \"{prepare}#prepare\") (param i32 i32 i32) (result i32) (i32.const 64))");
        for world in [None, Some("provider"), Some("provider-keyvalue")] {
            let component = componentize(&provider(&function), world).unwrap();
            assert!(String::from_utf8_lossy(&component).contains(prepare), "{world:?}");
        }
        assert!(!String::from_utf8_lossy(&componentize(&provider(""), None).unwrap()).contains(prepare));
    }

    #[test]
    fn a_module_with_its_type_embedded_keeps_it() {
        let mut module = provider("");
        let core = module.clone();
        let (resolve, world) = select_world(&CoreModule::parse(&core).unwrap(), "provider").unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        componentize(&module, None).unwrap();
        assert!(matches!(componentize(&module, Some("provider")), Err(ComponentizeError::WorldEmbedded)));
    }
}
