//! Errors of making a component from a file.

use mcp_host_base::text::quote;

/// The maximum number of names in a message.
const MAX_LISTED_NAMES: usize = 10;

/// The reason why a file cannot be made a component.
#[derive(Debug, thiserror::Error)]
pub enum ComponentizeError {
    /// The file is not WebAssembly.
    #[error("expected a core WebAssembly module, found something else: {found}")]
    NotWasm {
        /// The kind of the file.
        found: &'static str,
    },
    /// The file is a component.
    #[error("it is a component already")]
    IsComponent,
    /// The module is truncated or corrupt.
    #[error("the module is invalid: {0}")]
    Invalid(String),
    /// The module is a program with a `main` function.
    #[error(
        "the module is a command, which exports `_start` and ends when it returns; a provider is a reactor, whose functions are called"
    )]
    Command,
    /// The module lacks functions of the contract.
    #[error("the module does not export {}", listed(missing))]
    MissingExports {
        /// The names of the functions.
        missing: Vec<String>,
    },
    /// The module imports functions that neither WASI nor the world has.
    #[error("the module imports functions that no provider gets: {}", listed(imports))]
    UnknownImports {
        /// The module and name of each import.
        imports: Vec<String>,
    },
    /// The contract has no world with this name.
    #[error("the contract has no world {}", quote(name))]
    UnknownWorld {
        /// The requested name.
        name: String,
        /// The names of the contract's worlds.
        known: Vec<String>,
    },
    /// A world is given for a module that embeds its own.
    #[error("the module embeds the type of its component, and another world cannot be chosen")]
    WorldEmbedded,
    /// The component cannot be encoded: the types do not match, or something else is missing.
    #[error("no component can be made of the module: {0}")]
    Encode(String),
}

impl ComponentizeError {
    /// Returns the help.
    pub fn help(&self) -> Option<String> {
        let help = match self {
            Self::NotWasm { .. } => {
                "name the output of the compiler: `clang --target=wasm32-wasip1 …`, or `GOOS=wasip1 GOARCH=wasm go build …`"
            }
            Self::IsComponent => "use it unchanged: `mcp-host inspect FILE` shows what it provides",
            Self::Invalid(_) => "build it again",
            Self::Command => {
                "build a reactor: `-mexec-model=reactor` for clang, `-buildmode=c-shared` for Go, `crate-type = [\"cdylib\"]` \
                 for Rust"
            }
            Self::MissingExports { .. } => {
                "link the bindings of the contract: `provider.c` of the C SDK, the package `provider` of the Go SDK, or those \
                 that wit-bindgen makes of `wit/`; and see that the linker keeps them"
            }
            Self::UnknownImports { .. } => {
                "functions of `env` are undefined at link time: link the library that defines them, and do without \
                 `--allow-undefined`; interfaces need a world that has them (`--world`)"
            }
            Self::UnknownWorld { known, .. } => return Some(format!("it has {}", known.join(", "))),
            Self::WorldEmbedded => "leave out `--world`",
            Self::Encode(_) => {
                "build it with bindings of this version of the contract, with the memory exported as `memory` and the \
                 allocator as `cabi_realloc`"
            }
        };
        Some(help.to_owned())
    }
}

fn listed(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
