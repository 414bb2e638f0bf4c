//! The supported clients: the file with the client's servers, and the form of an entry.
//!
//! | client | file of the user | file of a project | key | a token over HTTP |
//! |---|---|---|---|---|
//! | VS Code | `Code/User/mcp.json` of the config directory | `.vscode/mcp.json` | `servers` | `${input:ID}`, which VS Code asks for and stores encrypted |
//! | Claude Desktop | `Claude/claude_desktop_config.json` of the config directory | none | `mcpServers` | the file has no servers over HTTP |
//! | Claude Code | `~/.claude.json`, or the same file in `CLAUDE_CONFIG_DIR` | `.mcp.json` | `mcpServers` | `${VARIABLE}` |
//! | Cursor | `~/.cursor/mcp.json` | `.cursor/mcp.json` | `mcpServers` | `${env:VARIABLE}` |
//! | Codex | `~/.codex/config.toml`, or the same file in `CODEX_HOME` | `.codex/config.toml` | `mcp_servers` | `bearer_token_env_var` |
//! | Gemini CLI | `~/.gemini/settings.json` | `.gemini/settings.json` | `mcpServers` | `${VARIABLE}` |
//! | Zed | `zed/settings.json` of the config directory | `.zed/settings.json` | `context_servers` | the token itself: Zed has no variables |
//!
//! The config directory is `~/Library/Application Support` on macOS, but `~/.config` for Zed; elsewhere
//! `XDG_CONFIG_HOME` or `~/.config`. `docs/connect.md` has the sources.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// A client whose file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// VS Code
    #[value(name = "vscode")]
    VsCode,
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Codex
    Codex,
    /// Gemini CLI
    #[value(name = "gemini-cli", alias = "gemini")]
    GeminiCli,
    /// Zed
    Zed,
}

/// The syntax of a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// How a client's file refers to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenReference {
    /// An input of the file. The client prompts for its value.
    Input,
    /// A variable of the client's environment, between these texts.
    Variable(&'static str, &'static str),
    /// A key that names the variable.
    VariableKey(&'static str),
    /// No reference: the file has the token itself.
    Literal,
}

impl Client {
    /// The client's name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::VsCode => "VS Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Zed => "Zed",
        }
    }

    /// The client's name on the command line.
    pub(crate) fn argument(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The key of the client's file that has the servers.
    pub(crate) fn servers_key(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            Self::ClaudeDesktop | Self::ClaudeCode | Self::Cursor | Self::GeminiCli => "mcpServers",
        }
    }

    /// The syntax of the client's file.
    pub(crate) fn syntax(self) -> Syntax {
        if self == Self::Codex { Syntax::Toml } else { Syntax::Json }
    }

    /// Whether the client's file can have servers over HTTP.
    pub(crate) fn has_http(self) -> bool {
        self != Self::ClaudeDesktop
    }

    /// The prefix of a variable in the command and the arguments of an entry. The prefix cannot be escaped.
    pub(crate) fn variable_mark(self) -> Option<&'static str> {
        match self {
            // `$NAME` is a variable, too.
            Self::GeminiCli => Some("$"),
            Self::VsCode | Self::Cursor | Self::ClaudeCode => Some("${"),
            Self::ClaudeDesktop | Self::Codex | Self::Zed => None,
        }
    }

    /// How the client's file refers to a token.
    pub(crate) fn token_reference(self) -> TokenReference {
        match self {
            Self::VsCode => TokenReference::Input,
            Self::ClaudeDesktop | Self::ClaudeCode | Self::GeminiCli => TokenReference::Variable("${", "}"),
            Self::Cursor => TokenReference::Variable("${env:", "}"),
            Self::Codex => TokenReference::VariableKey("bearer_token_env_var"),
            Self::Zed => TokenReference::Literal,
        }
    }

    /// The client's file of this user.
    pub(crate) fn user_file(self, dirs: &ClientDirs) -> PathBuf {
        match self {
            Self::VsCode => dirs.config.join("Code/User/mcp.json"),
            Self::ClaudeDesktop => dirs.config.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => dirs.claude.as_ref().unwrap_or(&dirs.home).join(".claude.json"),
            Self::Cursor => dirs.home.join(".cursor/mcp.json"),
            Self::Codex => {
                dirs.codex.as_ref().map_or_else(|| dirs.home.join(".codex"), Clone::clone).join("config.toml")
            }
            Self::GeminiCli => dirs.home.join(".gemini/settings.json"),
            Self::Zed => dirs.xdg_config.join("zed/settings.json"),
        }
    }

    /// The client's file in this project directory, if the client has project files.
    pub(crate) fn project_file(self, project: &Path) -> Option<PathBuf> {
        let path = match self {
            Self::VsCode => ".vscode/mcp.json",
            Self::ClaudeDesktop => return None,
            Self::ClaudeCode => ".mcp.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::GeminiCli => ".gemini/settings.json",
            Self::Zed => ".zed/settings.json",
        };
        Some(project.join(path))
    }
}

/// The directories where clients have their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientDirs {
    home: PathBuf,
    /// The config directory of desktop programs.
    config: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    xdg_config: PathBuf,
    /// `CODEX_HOME`.
    codex: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`.
    claude: Option<PathBuf>,
}

impl ClientDirs {
    /// The directories of the user of this process; `None` without a home directory.
    pub(crate) fn of_user() -> Option<Self> {
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        // The XDG base directory specification: relative paths are ignored.
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let xdg_config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let config = match cfg!(target_os = "macos") {
            true => home.join("Library/Application Support"),
            false => xdg_config.clone(),
        };
        Some(Self { home, config, xdg_config, codex: variable("CODEX_HOME"), claude: variable("CLAUDE_CONFIG_DIR") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_file_of_its_own() {
        let dirs = ClientDirs {
            home: "/home/ada".into(),
            config: "/home/ada/.config".into(),
            xdg_config: "/home/ada/.config".into(),
            codex: None,
            claude: None,
        };
        let files: Vec<_> = Client::value_variants().iter().map(|client| client.user_file(&dirs)).collect();
        assert_eq!(
            files,
            [
                "/home/ada/.config/Code/User/mcp.json",
                "/home/ada/.config/Claude/claude_desktop_config.json",
                "/home/ada/.claude.json",
                "/home/ada/.cursor/mcp.json",
                "/home/ada/.codex/config.toml",
                "/home/ada/.gemini/settings.json",
                "/home/ada/.config/zed/settings.json",
            ]
            .map(PathBuf::from)
        );
        let moved = ClientDirs { codex: Some("/srv/codex".into()), claude: Some("/srv/claude".into()), ..dirs };
        assert_eq!(Client::Codex.user_file(&moved), Path::new("/srv/codex/config.toml"));
        assert_eq!(Client::ClaudeCode.user_file(&moved), Path::new("/srv/claude/.claude.json"));
    }
}
