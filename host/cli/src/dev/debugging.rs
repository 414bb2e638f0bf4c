//! `--debug`: a server for debuggers of the provider, on loopback.
//!
//! Every program on this machine may connect, and read and write the memory of the provider: like the rest of `dev`,
//! this is for the machine of an author.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use futures::StreamExt as _;
use mcp_host_base::task;
use mcp_host_engine::debugger::Debugger;
use mcp_host_engine::{Engine, EngineOptions};
use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::NEUTRAL;
use crate::error::CliError;
use crate::messages::Messages;
use crate::serve;

/// The option, for messages.
const OPTION: &str = "--debug";

/// A server for debuggers, which is not started yet.
pub(super) struct DebugServer {
    listener: TcpListener,
    debugger: Debugger,
}

impl DebugServer {
    /// Binds a port of loopback; 0 is any free port.
    pub(super) async fn bind(port: u16) -> Result<Self, CliError> {
        let listener = serve::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into(), OPTION).await?;
        Ok(Self { listener, debugger: Debugger::new() })
    }

    /// Starts an engine whose guests can be debugged.
    pub(super) fn engine(&self) -> Result<Arc<Engine>, CliError> {
        let options = EngineOptions::new().debugger(self.debugger.clone());
        Ok(Engine::new(options).context("cannot start the engine for the debugger")?)
    }

    /// Serves debuggers until the shutdown, and prints how to connect. Where a debugger needs a guest that runs, the
    /// listing is read.
    pub(super) fn start(
        self,
        host: Arc<Host>,
        messages: &Messages,
        shutdown: CancellationToken,
    ) -> AbortOnDropHandle<Option<()>> {
        let Self { listener, debugger } = self;
        if let Ok(address) = listener.local_addr() {
            let connect = format!("process connect --plugin wasm connect://{address}");
            messages.labeled(
                "debug",
                NEUTRAL,
                &format!(
                    "LLDB (of wasi-sdk 32 or newer): {connect}\nVS Code, lldb-dap, in launch.json: \
                     {{ \"name\": \"mcp-host\", \"type\": \"lldb-dap\", \"request\": \"attach\", \"attachCommands\": [\"{connect}\"] }}"
                ),
            );
        }
        let messages = messages.clone();
        // A guest that is stopped would keep its request, and so the server, from ending.
        AbortOnDropHandle::new(task::spawn(shutdown.run_until_cancelled_owned(async move {
            let host = &host;
            let call = || async move {
                host.wait_until_loaded().await;
                // Only that the guest runs matters, which stops at once.
                let _ = host.list_all(&Principal::LOCAL).next().await;
            };
            let Err(error) = debugger.serve(listener, call).await;
            messages.error(&format!("the server for debuggers has ended: {error}"));
        })))
    }
}
