//! The languages that have an SDK.

use serde::Serialize;

/// A language that has an SDK, a project template, and a toolchain that `mcp-host doctor` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Rust, for `wasm32-wasip2`.
    #[value(alias = "rs")]
    Rust,
    /// Python, by componentize-py.
    #[value(alias = "py")]
    Python,
    /// TypeScript, by esbuild and componentize-qjs.
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
    /// JavaScript, by esbuild and componentize-qjs.
    #[value(name = "javascript", alias = "js")]
    JavaScript,
    /// C, by clang and wasi-libc.
    C,
    /// Go, by the standard compiler.
    #[value(alias = "golang")]
    Go,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 6] = [Self::Rust, Self::Python, Self::TypeScript, Self::JavaScript, Self::C, Self::Go];

    /// Returns the language's name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::JavaScript => "javascript",
            Self::C => "c",
            Self::Go => "go",
        }
    }

    /// Returns the language's name in prose.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::TypeScript => "TypeScript",
            Self::JavaScript => "JavaScript",
            Self::C => "C",
            Self::Go => "Go",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn a_language_has_one_name_on_the_command_line_and_in_json() {
        assert_eq!(Language::value_variants(), Language::ALL);
        for language in Language::ALL {
            assert_eq!(language.to_possible_value().unwrap().get_name(), language.as_str());
            assert_eq!(serde_json::to_value(language).unwrap(), language.as_str());
        }
    }
}
