//! The tools for building a provider: whether this machine has them, and the commands that install them.
//!
//! A tool is searched for in the same way as in a build: in PATH, or at the path in a variable of the build. Its
//! version is queried. Each query has a timeout ([`probe`]), since a tool may hang, and the tools run concurrently.

mod install;
mod probe;
mod tool;
mod version;

use futures::future::join_all;
use serde::Serialize;

use self::install::System;
use self::tool::Tool;
use crate::language::Language;

/// Whether a tool is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The tool is usable.
    Ok,
    /// The tool is missing.
    Missing,
    /// The tool is too old.
    TooOld,
    /// The tool failed.
    Failing,
    /// The tool did not answer in time, as on a busy machine.
    NoAnswer,
}

/// A tool, and the result of its examination.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The name of the tool.
    pub tool: &'static str,
    /// The required version.
    pub needed: String,
    /// The found version, or the path of an item without a version.
    pub found: Option<String>,
    /// Whether the tool is usable.
    pub status: Status,
    /// The problem, if the tool is neither missing nor too old.
    pub reason: Option<String>,
    /// The command that shows whether the tool is usable, if it did not answer.
    pub check: Option<String>,
    /// The installation on this system; `None` if the tool is usable or did not answer.
    pub install: Option<String>,
}

impl Finding {
    /// Whether the tool is usable.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}

/// The tools of a language.
#[derive(Clone, Debug, Serialize)]
pub struct Toolchain {
    /// The language.
    pub language: Language,
    /// Whether all tools are usable.
    pub ok: bool,
    /// The tools.
    pub tools: Vec<Finding>,
}

/// Examines the tools of a language.
pub async fn examine(language: Language) -> Toolchain {
    let system = System::current();
    let tools = join_all(tool::tools(language).iter().map(|tool| examine_tool(tool, &system))).await;
    Toolchain { language, ok: tools.iter().all(Finding::is_ok), tools }
}

async fn examine_tool(tool: &Tool, system: &System) -> Finding {
    let found = tool.find().await;
    let (status, found, reason) = match found {
        tool::Found::Usable(found) => (Status::Ok, Some(found), None),
        tool::Found::TooOld(found) => (Status::TooOld, Some(found), None),
        tool::Found::Missing => (Status::Missing, None, None),
        tool::Found::Failing(reason) => (Status::Failing, None, Some(reason)),
        tool::Found::Silent(time) => {
            (Status::NoAnswer, None, Some(format!("it did not answer within {} s", time.as_secs_f32())))
        }
    };
    let check = if status == Status::NoAnswer { tool.question() } else { None };
    let install = match status {
        Status::Ok | Status::NoAnswer => None,
        _ => Some(system.install(tool.installers, tool.oldest).await),
    };
    Finding { tool: tool.name, needed: tool.needed(), found, status, reason, check, install }
}
