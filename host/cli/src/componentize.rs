//! `componentize`: makes a component from a core module. The WIT of the contract and the adapter for WASI 0.1 are
//! embedded.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytesize::ByteSize;
use mcp_host_base::regular_file;
use mcp_host_devkit::componentize::{add_needs, componentize};
use mcp_host_engine::MAX_COMPONENT_SIZE;
use mcp_host_engine::plugin::{MAX_NEEDS_LEN, Needs};

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
For compilers that make core modules, such as Go's, or clang for wasm32-wasip1. The contract and the adapter for WASI 0.1 are part \
of this program: no other tool is needed.

Exit codes: 0 written, 1 the module cannot become a component.

Examples:
  GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o notes.core.wasm && mcp-host componentize notes.core.wasm
  mcp-host componentize build/notes.core.wasm -o plugins/notes.wasm
  mcp-host componentize notes.core.wasm --needs needs.json    embed the needs of the provider";

/// Make a component from a core module that exports the contract, such as the output of Go and clang
///
/// An existing file is replaced atomically.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The core module
    #[arg(value_name = "CORE.wasm")]
    core: PathBuf,

    /// The component [default: NAME.wasm for NAME.core.wasm, else NAME.component.wasm]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,

    /// A JSON file with the needs of the provider: `docs/providers.md` describes its format
    #[arg(long, value_name = "FILE")]
    needs: Option<PathBuf>,

    /// The world of the contract, for a module whose bindings embed none [default: everything that a provider may
    /// import]
    #[arg(long, value_name = "NAME")]
    world: Option<String>,
}

impl Args {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let read_error = |error: std::io::Error| anyhow::anyhow!("cannot read {}: {error}", self.core.display());
        let max = usize::try_from(MAX_COMPONENT_SIZE).unwrap_or(usize::MAX);
        let core = regular_file::read(&self.core, max).map_err(read_error)?;
        if core.len() > max {
            return Err(anyhow::anyhow!(
                "{} has more than {}, the maximum for a component",
                self.core.display(),
                ByteSize(MAX_COMPONENT_SIZE)
            )
            .into());
        }
        let needs = self.needs.as_deref().map(read_needs).transpose()?;
        let mut component = componentize(&core, self.world.as_deref())
            .map_err(|error| CliError::Componentize { file: self.core.clone(), error })?;
        if let Some(needs) = needs {
            add_needs(&mut component, &needs);
        }
        let output = self.output.unwrap_or_else(|| default_output(&self.core));
        write_atomically(&output, &component).map_err(|source| CliError::Save { file: output.clone(), source })?;
        let (file, size) = (output.display(), ByteSize(component.len() as u64));
        context
            .messages
            .note(&format!("wrote {file} ({size}); `mcp-host inspect {file}` shows what it provides and imports"));
        Ok(())
    }
}

/// Reads and validates the needs of a provider: the host would later ignore an invalid section.
fn read_needs(file: &Path) -> anyhow::Result<Vec<u8>> {
    let max = usize::try_from(MAX_NEEDS_LEN).unwrap_or(usize::MAX);
    let needs = regular_file::read(file, max).with_context(|| format!("cannot read {}", file.display()))?;
    anyhow::ensure!(needs.len() <= max, "{} has more than {}", file.display(), ByteSize(MAX_NEEDS_LEN));
    Needs::parse(&needs).with_context(|| format!("{} cannot be embedded", file.display()))?;
    Ok(needs)
}

/// The default output file, beside the module.
fn default_output(core: &Path) -> PathBuf {
    let stem = core.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    core.with_file_name(match stem.strip_suffix(".core") {
        Some(name) => format!("{name}.wasm"),
        None => format!("{stem}.component.wasm"),
    })
}

/// Writes a temporary file beside the file and renames it.
fn write_atomically(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A symbolic link stays; its target is replaced.
    let file = match file.canonicalize() {
        Ok(existing) => existing,
        Err(_) => file.to_owned(),
    };
    if file.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut written = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .prefix(".componentize-")
        .tempfile_in(dir)?;
    written.write_all(bytes)?;
    written.as_file().sync_all()?;
    written.persist(&file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_stands_beside_the_module_and_never_replaces_it() {
        for (core, component) in [
            ("build/notes.core.wasm", "build/notes.wasm"),
            ("notes.wasm", "notes.component.wasm"),
            ("notes", "notes.component.wasm"),
        ] {
            assert_eq!(default_output(Path::new(core)), Path::new(component));
        }
    }

    #[test]
    fn a_link_stays_and_a_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target.wasm"), dir.path().join("link.wasm"));
        std::fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink("target.wasm", &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert!(write_atomically(dir.path(), b"new").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
