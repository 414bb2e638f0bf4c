//! Actions: each is recorded in the audit log with the name of the administrator, before it is answered.

use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use mcp_host_base::task;
use mcp_host_config::Operation;
use mcp_host_model::resource::Error;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::{AdminAction, AdminSubject, PluginState};
use tokio::time::{sleep, timeout};

use super::super::console;
use super::types::{
    DEFAULT_LOG_SECONDS, ErrorAnswer, ExplainRequest, LogRequest, LoginCode, MAX_LOG_SECONDS, WhoRequest,
};
use super::viewer::named_principal;
use super::{AdminServer, Refusal, decoded, json, no_plugin, ok, read_body, receive_body, views};

/// The maximum wait for a reload. After it, the answer says that the reload continues.
const RELOAD_WAIT: Duration = Duration::from_secs(50);
/// The maximum time for comparing the config file with the served config.
const COMPARE_WAIT: Duration = Duration::from_secs(20);
/// The answer after a panic.
const PANICKED: &str = "internal error; the server's log says more";
/// The maximum time for which the answers to `enable` and `reset` wait for the plugin.
const ENABLE_WAIT: Duration = Duration::from_secs(5);
/// The interval at which the state of a plugin that was reset is looked up.
const RESET_INTERVAL: Duration = Duration::from_millis(100);

/// The operation with this name.
fn named_operation(name: &str) -> Result<Operation, Refusal> {
    Operation::ALL.into_iter().find(|operation| operation.name() == name).ok_or_else(|| {
        let names = Operation::ALL.map(Operation::name).join(", ");
        Refusal::bad_request(format!("`{name}` is not an operation; write one of {names}"))
    })
}

/// The refusal to explain a URI.
fn not_explained(error: &Error) -> Refusal {
    match error {
        Error::NotFound { .. } => {
            let help = "no plugin has a mount that owns it; `mcp-host status --wide` shows the mounts";
            Refusal::new(StatusCode::NOT_FOUND, error.to_string(), Some(help))
        }
        error => Refusal::bad_request(error.to_string()),
    }
}

impl AdminServer {
    /// Performs an action.
    pub(super) async fn act(
        &self,
        segments: &[&str],
        request: Request,
        administrator: &Principal,
    ) -> Result<Response, Refusal> {
        match *segments {
            ["reload"] => {
                let is_dry_run = match request.uri().query().unwrap_or_default() {
                    "" => false,
                    "dry-run" | "dry-run=" => true,
                    other => {
                        let error = format!("there is no parameter `{other}`; there is `dry-run`");
                        return Err(Refusal::bad_request(error));
                    }
                };
                receive_body(request).await?;
                if is_dry_run { self.compare().await } else { self.reload(administrator).await }
            }
            ["explain"] => self.explain(read_body(request).await?, administrator).await,
            ["explain", "who"] => self.who_may(read_body(request).await?, administrator).await,
            ["log"] => self.set_log(read_body(request).await?, administrator).await,
            ["login-code"] => {
                receive_body(request).await?;
                self.issue_login_code(administrator).await
            }
            ["plugins", name, action] => {
                // The body is ignored.
                receive_body(request).await?;
                let name = decoded(name)?;
                match action {
                    "disable" => self.disable(administrator, &name).await?,
                    "enable" => {
                        self.host.enable_plugin(administrator, &name)?;
                        // A plugin that compiles for longer is shown as loading.
                        let _ = timeout(ENABLE_WAIT, self.host.wait_until_plugin_loaded(&name)).await;
                    }
                    _ => {
                        self.host.reset_plugin(administrator, &name)?;
                        self.wait_until_back(&name).await;
                    }
                }
                Ok(ok(&views::plugin(&self.host, &self.traffic, &name)
                    .await
                    .ok_or_else(|| no_plugin(&self.host, &name))?))
            }
            _ => Err(Refusal::no_path()),
        }
    }

    /// Waits until a plugin is neither loading nor unreachable, for [`ENABLE_WAIT`] at most.
    async fn wait_until_back(&self, name: &str) {
        let is_unreachable = || {
            let plugin = self.host.plugins().into_iter().find(|plugin| plugin.name == name);
            plugin.is_some_and(|plugin| matches!(plugin.state, PluginState::Unreachable(_)))
        };
        let back = async {
            self.host.wait_until_plugin_loaded(name).await;
            while is_unreachable() {
                sleep(RESET_INTERVAL).await;
            }
        };
        // A plugin that does not come back in time is shown as it is.
        let _ = timeout(ENABLE_WAIT, back).await;
    }

    /// Disables a plugin in its own task, so an administrator who disconnects does not leave the plugin half
    /// disabled.
    async fn disable(&self, administrator: &Principal, name: &str) -> Result<(), Refusal> {
        let (host, administrator, name) = (self.host.clone(), administrator.clone(), name.to_owned());
        let disabling = task::spawn(async move { host.disable_plugin(&administrator, &name).await });
        // The task panicked; the panic has been logged.
        let panicked = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, PANICKED, None);
        Ok(disabling.await.map_err(panicked)??)
    }

    async fn reload(&self, administrator: &Principal) -> Result<Response, Refusal> {
        let Some(trigger) = &self.reload else {
            let help = "restart it without `--no-reload`";
            return Err(Refusal::new(StatusCode::CONFLICT, "the server does not reload", Some(help)));
        };
        // In a task: the outcome of the reload is recorded even if the administrator does not wait for it.
        let (host, trigger, administrator) = (self.host.clone(), trigger.clone(), administrator.clone());
        let reloading = task::spawn(async move {
            let reloading = async {
                trigger.reload_and_wait().await.unwrap_or_else(|| Err("the server is shutting down".to_owned()))
            };
            host.administer(&administrator, AdminAction::Reload, AdminSubject::Nothing, reloading, |_| "failed").await
        });
        let outcome = match timeout(RELOAD_WAIT, reloading).await {
            Ok(Ok(outcome)) => Some(outcome?),
            // The task panicked; the panic has been logged.
            Ok(Err(_)) => Some(Err(PANICKED.to_owned())),
            Err(_) => None,
        };
        match outcome {
            Some(Ok(report)) => Ok(ok(&views::reload(&self.host, report))),
            None => {
                let answer = ErrorAnswer {
                    error: "the reload continues".to_owned(),
                    help: Some("the log has its outcome; `GET /api/v1/status` has the generation".to_owned()),
                };
                Ok(json(StatusCode::ACCEPTED, &answer))
            }
            Some(Err(reason)) => {
                let help = "correct the config, and reload again; `mcp-host check` says what is wrong";
                Err(Refusal::new(StatusCode::CONFLICT, format!("the reload failed: {reason}"), Some(help)))
            }
        }
    }

    /// Answers with the changes that a reload would make.
    pub(super) async fn compare(&self) -> Result<Response, Refusal> {
        let Some(trigger) = &self.compare else {
            let error = "the server was started without a config file, so there is nothing to compare";
            return Err(Refusal::new(StatusCode::CONFLICT, error, None));
        };
        match timeout(COMPARE_WAIT, trigger.compare()).await {
            Ok(Some(Ok(report))) => Ok(ok(&views::reload(&self.host, report))),
            Ok(Some(Err(reason))) => {
                let help = "correct the config; `mcp-host check` says what is wrong";
                Err(Refusal::new(StatusCode::CONFLICT, format!("a reload would fail: {reason}"), Some(help)))
            }
            Ok(None) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down", None)),
            Err(_) => {
                let help = Some("try again later; the log shows whether a disk does not answer");
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the config is not read in time", help))
            }
        }
    }

    async fn explain(&self, request: ExplainRequest, administrator: &Principal) -> Result<Response, Refusal> {
        let ExplainRequest { uri, operation: name, principal, groups } = request;
        let operation = named_operation(&name)?;
        let asked = named_principal(&self.host.config(), &principal, &groups)?;
        let explaining = async { self.host.explain(&asked, operation, &uri) };
        let about = AdminSubject::Decision { uri: &uri, principal: asked.name(), operation };
        let outcome = self.host.administer(administrator, AdminAction::Explain, about, explaining, Error::kind).await?;
        match outcome {
            Ok(found) => Ok(ok(&views::explanation(found, &principal, &name))),
            Err(error) => Err(not_explained(&error)),
        }
    }

    /// Answers who may perform an operation on a resource. The audit log records the request as an explanation
    /// for all principals.
    async fn who_may(&self, request: WhoRequest, administrator: &Principal) -> Result<Response, Refusal> {
        let WhoRequest { uri, operation: name } = request;
        let operation = named_operation(&name)?;
        let (host, asked) = (self.host.clone(), uri.clone());
        // Every principal of the config is judged.
        let judging = async {
            let judged = task::spawn_blocking(move || host.who_may(operation, &asked)).await;
            judged.unwrap_or(Err(Error::ShuttingDown))
        };
        let about = AdminSubject::Decision { uri: &uri, principal: "*", operation };
        let outcome = self.host.administer(administrator, AdminAction::Explain, about, judging, Error::kind).await?;
        outcome.map(|found| ok(&views::who_may(found, &name))).map_err(|error| not_explained(&error))
    }

    /// Answers with the address of the console and a code that logs in once.
    async fn issue_login_code(&self, administrator: &Principal) -> Result<Response, Refusal> {
        if !console::exists() {
            return Err(Refusal::new(StatusCode::CONFLICT, "this program was built without the console", None));
        }
        let Some(console) = &self.console_url else {
            let help = "with `listen = \"127.0.0.1:9464\"` under `[admin]` there is a console";
            return Err(Refusal::new(StatusCode::CONFLICT, "a browser does not reach a Unix socket", Some(help)));
        };
        let issuing = async { self.authority.console.issue_code().ok_or("failed") };
        let about = AdminSubject::Nothing;
        let issued = self.host.administer(administrator, AdminAction::Open, about, issuing, |kind| *kind).await?;
        let no_randomness =
            |_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the system supplies no randomness for a code", None);
        let url = format!("{console}#code={}", issued.map_err(no_randomness)?);
        Ok(ok(&LoginCode { url, seconds: console::CODE_TIME.as_secs() }))
    }

    async fn set_log(&self, request: LogRequest, administrator: &Principal) -> Result<Response, Refusal> {
        let Some(log) = &self.log else {
            return Err(Refusal::new(StatusCode::CONFLICT, "the program has another log", None));
        };
        let refuse = |error: String| {
            let help = "send `{ \"filter\": \"debug\", \"seconds\": 600 }`, or `{ \"restore\": true }`";
            Err(Refusal::new(StatusCode::BAD_REQUEST, error, Some(help)))
        };
        let (filter, seconds) = match request {
            LogRequest { filter: Some(filter), seconds, restore: false } => {
                (Some(filter), Some(seconds.unwrap_or(DEFAULT_LOG_SECONDS)))
            }
            LogRequest { filter: None, seconds: None, restore: true } => (None, None),
            LogRequest { filter: None, restore: false, .. } => {
                return refuse("the request has no `filter`, and no `restore`".to_owned());
            }
            _ => return refuse("`restore` goes with neither `filter` nor `seconds`".to_owned()),
        };
        if let Some(seconds) = seconds.filter(|seconds| !(1..=MAX_LOG_SECONDS).contains(seconds)) {
            return refuse(format!("`seconds` is not a number from 1 to {MAX_LOG_SECONDS}: {seconds}"));
        }
        let about = AdminSubject::Log { filter: filter.as_deref(), seconds };
        let setting = async {
            match (&filter, seconds) {
                (Some(filter), Some(seconds)) => {
                    log.set(filter.clone(), Duration::from_secs(seconds), administrator.name())
                }
                _ => {
                    log.restore();
                    Ok(())
                }
            }
        };
        let outcome =
            self.host.administer(administrator, AdminAction::Log, about, setting, |_| "invalid request").await?;
        outcome.map_err(Refusal::bad_request)?;
        Ok(ok(&views::log(Some(log))))
    }
}
