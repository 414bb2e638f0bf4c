//! The tools for provider authors: the implementation of `mcp-host test`, `new`, `doctor`, `componentize` and `dev`.
//!
//! | module | subject |
//! |---|---|
//! | [`conformance`] | tests of a provider: does it keep the contract? |
//! | [`scaffold`] | the projects that `mcp-host new` writes, from templates in the repository's `sdk-guest/templates` |
//! | [`componentize`] | a component from a core module |
//! | [`passthrough`] | a component that exports each function of the host that another one imports, for recordings |
//! | [`toolchain`], [`language`] | the tools for building a provider; the languages with an SDK |
//! | [`symbols`], [`profile`] | source lines for the stack of a guest; CPU profiles of providers |
//! | [`wit`] | the WIT package of the contract |

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub mod componentize;
pub mod conformance;
pub mod language;
pub mod passthrough;
pub mod profile;
pub mod scaffold;
pub mod symbols;
pub mod toolchain;
pub mod wit;
