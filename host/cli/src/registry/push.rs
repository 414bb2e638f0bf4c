//! `push`: publishes a component.

use std::path::PathBuf;

use mcp_host_base::regular_file;
use mcp_host_config::registry::Reference;
use mcp_host_config::{Config, Environment};
use mcp_host_model::digest::Digest;
use mcp_host_registry::{MAX_COMPONENT_SIZE, Registries, Signer, Upload};

use super::{RegistryCommandError, inspect};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
The key is PKCS#8 in PEM without a password: ECDSA on P-256 or Ed25519. Credentials are those of `docker login`. `[registry]` of the
config counts if there is a config.

Examples:
  mcp-host push web.wasm oci://registry.example.com/acme/web:1.4.2 --sign acme.pem
  openssl genpkey -algorithm ed25519 -out acme.pem       make a key
  openssl pkey -in acme.pem -pubout -out acme.pub        what others put into `[[trust]]`";

/// Publish a component in a registry, and sign it
///
/// Writes the artifact that CNCF TAG Runtime describes, with what the provider asks for as an annotation, and a signature bundle as cosign
/// v3 writes it. A version that is there with another content is not replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,

    /// Where to: `oci://HOST/REPOSITORY:VERSION` with a whole version
    #[arg(value_name = "REF")]
    reference: Reference,

    /// Sign with that private key
    #[arg(long, value_name = "KEY.pem")]
    sign: Option<PathBuf>,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let signer = self.sign.as_deref().map(Signer::read).transpose().map_err(RegistryCommandError::from)?;
        let config = match context.config_file().exists() {
            true => Config::load_in(context.config_file(), &Environment::from_process().keep_references())
                .or_else(|error| error.config_without_secrets().cloned().ok_or(error))?,
            false => Config::new(),
        };
        let read_error = |source| CliError::ValueFile { file: self.file.clone(), source };
        let max = usize::try_from(MAX_COMPONENT_SIZE).unwrap_or(usize::MAX);
        let component = regular_file::read(&self.file, max).map_err(read_error)?;
        let inspection = inspect(&config, &self.file, None, context).await?;
        if inspection.digest != Digest::compute(&component) {
            return Err(anyhow::anyhow!("{} was changed while it was read; run this again", self.file.display()).into());
        }
        let info = inspection.info?;
        let needs = match &inspection.needs {
            Ok(needs) => needs.as_ref().map(serde_json::to_string).transpose().map_err(anyhow::Error::from)?,
            Err(error) => return Err(anyhow::anyhow!("{}", error.warning()).into()),
        };
        let upload = Upload {
            component: component.into(),
            imports: &inspection.imports,
            exports: &inspection.exports,
            title: &info.name,
            needs,
            signer: signer.as_ref(),
        };
        let spinner = context.messages.spin(format!("publishing {}", self.reference));
        let published = Registries::new(&config).push(&self.reference, upload).await;
        drop(spinner);
        let published = published.map_err(RegistryCommandError::from)?;
        let mut output = context.output();
        output.text(&format!("oci://{}@{}", self.reference.repository, published.manifest))?;
        output.flush()?;
        match &signer {
            Some(signer) => context.messages.note(&format!("signed by {}", signer.public_key().fingerprint())),
            None => context.messages.warning("it is not signed: only those accept it who say `unsigned = true`"),
        }
        Ok(())
    }
}
