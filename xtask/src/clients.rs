//! Programs in other languages that the tests use, such as the official MCP clients.
//!
//! | client | sources | installed to | run as |
//! |---|---|---|---|
//! | TypeScript | `tests/clients/typescript` | `target/clients/typescript` | `node target/clients/typescript/walk.mjs …`, `tools.mjs` or `watch.mjs` |
//! | Python | `tests/clients/python` | `target/clients/python` | `target/clients/python/bin/python tests/clients/python/walk.py …`, `tools.py` or `watch.py` |
//! | official servers of npm, which are mounted as upstreams; those of PyPI and FastMCP are installed with the Python client, and one with the frameworks | `tests/clients/servers` | `target/clients/servers` | `node target/clients/servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js`, `target/clients/python/bin/mcp-server-git`, `target/clients/frameworks/bin/mcp-server-sqlite`, or with the Python client's interpreter `tests/clients/servers/server.py` |
//! | the authorization server `oidc-provider` | `tests/clients/authorization-server` | `target/clients/authorization-server` | with the same Node.js, `target/clients/authorization-server/server.mjs` |
//! | the conformance suite and MCP Inspector | `tests/clients/tools` | `target/clients/tools` | with the Node.js that is installed with them, in `node_modules/node-linux-*/bin/node` |
//! | dynaconf, an application with a layered configuration | `tests/clients/dynaconf` | `target/clients/dynaconf` | `target/clients/dynaconf/bin/dynaconf` |
//! | Google's client for Drive, and a stand-in for Drive | `tests/clients/google` | `target/clients/google` | `target/clients/google/bin/python tests/clients/google/server.py …` or `walk.py` |
//! | agents of LangChain, the OpenAI Agents SDK and Pydantic AI | `tests/clients/frameworks` | `target/clients/frameworks` | `target/clients/frameworks/bin/python tests/clients/frameworks/framework.py …` |
//! | an agent of the AI SDK | `tests/clients/ai-sdk` | `target/clients/ai-sdk` | `node target/clients/ai-sdk/agent.mjs …` |
//! | the server of NATS | `tests/clients/nats` | `target/clients/nats` | `target/clients/nats/bin/nats-server` |
//! | a validator for Kubernetes manifests | `tests/clients/kubernetes` | `target/clients/kubernetes` | `target/clients/kubernetes/bin/kubernetes-validate --strict …` |
//! | Sigstore's signer, and its services as a mock | `tests/clients/sigstore` | `target/clients/sigstore` | `node target/clients/sigstore/sign.mjs`, with the Node.js of the tools |
//! | Sigstore's verifier in Python | `tests/clients/sigstore-python` | `target/clients/sigstore-python` | `target/clients/sigstore-python/bin/python tests/clients/sigstore-python/verify.py …` |
//! | `wkg`, another client of registries: only with `--wkg`, because building it takes minutes | cargo | `target/clients/wkg` | `target/clients/wkg/bin/wkg` |
//! | a browser driver and accessibility checks, for the console | `tests/clients/console` | `target/clients/console` | `node target/clients/console/console.mjs …` |
//!
//! Versions are locked in the sources. A stamp file in each installation contains the digest of its inputs, so that a
//! change of these causes a new installation.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::install::{cargo_install, copy_into, npm_install, pip_install};
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The version of wkg.
const WKG: &str = "0.16.1";

#[derive(Debug, Args)]
pub(crate) struct Clients {
    /// Also build wkg, for the test of components from registries with that client; takes minutes
    #[arg(long)]
    wkg: bool,
}

impl Clients {
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        install(workspace, progress)?;
        if self.wkg {
            let program = cargo_install("wkg", WKG, &[], workspace, progress)?;
            copy_into(&program, &workspace.target().join("clients/wkg/bin"))?;
        }
        Ok(())
    }
}

/// Installs all programs that are missing or out of date.
pub(crate) fn install(workspace: &Workspace, progress: &Progress) -> Result<()> {
    install_typescript(workspace, progress)?;
    install_tools(workspace, progress)?;
    install_servers(workspace, progress)?;
    install_authorization_server(workspace, progress)?;
    install_python(workspace, progress)?;
    install_dynaconf(workspace, progress)?;
    install_google(workspace, progress)?;
    install_frameworks(workspace, progress)?;
    install_ai_sdk(workspace, progress)?;
    install_nats(workspace, progress)?;
    install_kubernetes(workspace, progress)?;
    install_sigstore(workspace, progress)?;
    install_console(workspace, progress)
}

/// Installs the official TypeScript client.
pub(crate) fn install_typescript(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "typescript");
    npm_install("ci", &sources, &installed, progress, "the TypeScript client", "target/clients/typescript")?;
    // Node resolves packages relative to the importing file, so the programs are copied into the folder of the
    // packages.
    ["connect.mjs", "oauth.mjs", "tools.mjs", "walk.mjs", "watch.mjs"]
        .iter()
        .try_for_each(|program| copy_into(&sources.join(program), &installed))
}

fn install_tools(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "tools");
    npm_install("ci", &sources, &installed, progress, "the conformance suite and MCP Inspector", "target/clients/tools")
}

fn install_servers(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "servers");
    npm_install("ci", &sources, &installed, progress, "the official servers", "target/clients/servers")
}

fn install_authorization_server(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "authorization-server");
    let shown = "target/clients/authorization-server";
    npm_install("ci", &sources, &installed, progress, "the authorization server", shown)?;
    copy_into(&sources.join("server.mjs"), &installed)
}

fn install_python(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "python");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "the Python client", "target/clients/python")
}

fn install_dynaconf(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "dynaconf");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "dynaconf", "target/clients/dynaconf")
}

fn install_google(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "google");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "Google's client", "target/clients/google")
}

fn install_frameworks(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "frameworks");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "agents of Python frameworks", "target/clients/frameworks")
}

fn install_ai_sdk(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "ai-sdk");
    npm_install("ci", &sources, &installed, progress, "the AI SDK", "target/clients/ai-sdk")?;
    copy_into(&sources.join("agent.mjs"), &installed)
}

/// Installs the NATS server.
pub(crate) fn install_nats(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "nats");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "the server of NATS", "target/clients/nats")
}

fn install_kubernetes(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "kubernetes");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "a validator for Kubernetes", "target/clients/kubernetes")
}

fn install_sigstore(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "sigstore");
    npm_install("ci", &sources, &installed, progress, "Sigstore's signer", "target/clients/sigstore")?;
    copy_into(&sources.join("sign.mjs"), &installed)?;
    let (sources, installed) = client_paths(workspace, "sigstore-python");
    let requirements = sources.join("requirements.txt");
    pip_install(&requirements, &installed, progress, "Sigstore's verifier", "target/clients/sigstore-python")
}

fn install_console(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "console");
    npm_install("ci", &sources, &installed, progress, "the driver of the browser", "target/clients/console")?;
    ["browser.mjs", "console.mjs", "figures.mjs", "hostile.mjs", "large.mjs", "payloads.mjs"]
        .iter()
        .try_for_each(|program| copy_into(&sources.join(program), &installed))
}

/// Returns the folders of a client's sources and of its installation.
fn client_paths(workspace: &Workspace, language: &str) -> (PathBuf, PathBuf) {
    let below = Path::new("clients").join(language);
    (workspace.root().join("tests").join(&below), workspace.target().join(below))
}
