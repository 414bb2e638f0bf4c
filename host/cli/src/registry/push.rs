//! `push`: publishes a component.

use std::path::PathBuf;

use mcp_host_base::regular_file;
use mcp_host_config::registry::{Reference, Selector};
use mcp_host_config::{Config, Environment};
use mcp_host_model::digest::Digest;
use mcp_host_registry::{Attachment, AttachmentError, MAX_COMPONENT_SIZE, Registries, Signer, Upload};

use super::{RegistryCommandError, inspect};
use crate::context::Context;
use crate::error::CliError;

const EXAMPLES: &str = "\
The key is PKCS#8 in PEM without a password: ECDSA on P-256 or Ed25519. Credentials come from `docker \
login`. If there is a config, its `[registry]` applies.

Examples:
  mcp-host push web.wasm oci://registry.example.com/acme/web:1.4.2 --sign acme.pem
  mcp-host push web.wasm oci://registry.example.com/acme/web:1.4.2 --sign acme.pem --sbom web.cdx.json --provenance web.slsa.json
  mcp-host push web.wasm oci://registry.example.com/acme/web:1.4.2 --bundle web.sigstore.json   from another signer
  openssl genpkey -algorithm ed25519 -out acme.pem       make a key
  openssl pkey -in acme.pem -pubout -out acme.pub        the key that others put into `[[trust]]`";

/// The maximum size of a document to read: the check of its kind rejects larger ones.
const MAX_DOCUMENT_SIZE: usize = 2 << 20;

/// Publish a component in a registry, and sign it
///
/// Writes the artifact in the format of CNCF TAG Runtime, with the needs of the provider as an annotation, and a
/// signature bundle in the format of cosign v3. An existing version with another content is not replaced. Signatures
/// and other referrers can be added to an existing version.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,

    /// The reference to publish: `oci://HOST/REPOSITORY:VERSION` with a whole version
    #[arg(value_name = "REF")]
    reference: Reference,

    /// Sign with this private key
    #[arg(long, value_name = "KEY.pem")]
    sign: Option<PathBuf>,

    /// Add a signature bundle (Sigstore, 0.3) that another program made for this manifest
    #[arg(long, value_name = "FILE.json")]
    bundle: Vec<PathBuf>,

    /// Sign and add a provenance: the predicate of SLSA 1, or a statement of in-toto with it
    #[arg(long, value_name = "FILE.json", requires = "sign")]
    provenance: Option<PathBuf>,

    /// Add a bill of materials: CycloneDX or SPDX
    #[arg(long, value_name = "FILE.json")]
    sbom: Vec<PathBuf>,
}

impl Args {
    pub(crate) async fn run(self, context: &Context) -> Result<(), CliError> {
        let attachments = self.attachments()?;
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
            attachments,
        };
        let spinner = context.messages.spin(format!("publishing {}", self.reference));
        let published = Registries::new(&config).push(&self.reference, upload).await;
        drop(spinner);
        let published = published.map_err(RegistryCommandError::from)?;
        // A whole version, or it would not have been published.
        if let Selector::Version(version) = &self.reference.selector
            && version.to_string() != info.version
        {
            context.messages.warning(&format!(
                "it is published as version {version}, and describes itself as {}: change the version in its source, too",
                info.version
            ));
        }
        let mut output = context.output();
        output.text(&format!("oci://{}@{}", self.reference.repository, published.manifest))?;
        output.flush()?;
        if published.is_foreign {
            context.messages.note(&format!(
                "the registry has this version with the same component and another manifest (by another program, with another title or \
                 other needs, or in an older format): its manifest stays, and what this command adds refers to it (compare {})",
                published.manifest
            ));
        }
        match &signer {
            Some(signer) => context.messages.note(&format!("signed by {}", signer.public_key().fingerprint())),
            None if !self.bundle.is_empty() => {}
            None => context.messages.warning("it is not signed: only configs with `unsigned = true` accept it"),
        }
        Ok(())
    }

    /// The documents that are published with the component.
    fn attachments(&self) -> Result<Vec<Attachment>, CliError> {
        let read = |file: &PathBuf, attach: fn(Vec<u8>) -> Result<Attachment, AttachmentError>| {
            let bytes = regular_file::read(file, MAX_DOCUMENT_SIZE);
            let bytes = bytes.map_err(|source| CliError::ValueFile { file: file.clone(), source })?;
            let attachment =
                attach(bytes).map_err(|source| RegistryCommandError::Attachment { file: file.clone(), source });
            Ok(attachment?)
        };
        let bundles = self.bundle.iter().map(|file| read(file, |bytes| Attachment::bundle(bytes.into())));
        let provenance = self.provenance.iter().map(|file| read(file, |bytes| Attachment::provenance(&bytes)));
        let sboms = self.sbom.iter().map(|file| read(file, |bytes| Attachment::sbom(bytes.into())));
        bundles.chain(provenance).chain(sboms).collect()
    }
}
