//! The texts of warnings.

use std::fmt;

use super::{SensitiveFile, Warning};
use crate::ANONYMOUS;

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insecure { exposure: Some(exposure) } => write!(
                f,
                "{exposure}: `http.insecure` permits that, so whoever reaches the port may read what rules allow to its \
                 clients, or what passes on the network; {}",
                exposure.advice()
            ),
            Self::Insecure { exposure: None } => {
                f.write_str("`http.insecure` has no effect at the address of the config; remove it")
            }
            Self::NoHosts { address } => write!(
                f,
                "the server listens at `{address}`, and rejects requests from other machines (403), because no `Host` but \
                 `localhost` and loopback addresses is allowed; add the names that clients use: `http.hosts`"
            ),
            Self::AdminWithoutToken { address, users } => {
                let working =
                    if *users { "`/readyz`, `/metrics` and the console's pages for `users`" } else { "`/readyz` and `/metrics`" };
                write!(
                    f,
                    "`[admin]` has no `token`: of the listener at `{address}` only `/livez`, {working} work; `mcp-host status` and \
                     `mcp-host admin` are refused, and an administrator can log in to the console only by `serve --open`; write \
                     `token = {{ file = \"admin.token\" }}` under `[admin]`, a file that `openssl rand -hex 32` makes"
                )
            }
            Self::AnonymousAccess { rule, name, token_group } => {
                let who = match name.as_str() {
                    "*" => "`*`, which includes clients without credentials".to_owned(),
                    ANONYMOUS => "`anonymous`, the clients without credentials".to_owned(),
                    group => format!("the group `{group}`, which includes `anonymous`, the clients without credentials"),
                };
                write!(f, "{rule} allows something to {who}, and other machines can reach the server: name principals or groups")?;
                match token_group {
                    Some(group) => write!(f, "; `{group}` is the group of all access tokens with that scope"),
                    None => Ok(()),
                }
            }
            Self::NothingAllowed => f.write_str(
                "no rule allows a client over HTTP anything, so nobody sees a resource there; add a `[[rule]]` with `allow`",
            ),
            Self::UnusedGroup { name } => {
                write!(f, "no rule names the group `{name}`; name it by `groups` of a `[[rule]]`, or remove it")
            }
            Self::UnusedPrincipal { name } => write!(
                f,
                "no rule allows the principal `{name}` anything, so its tokens show it no resource; name it, or a group with it, in \
                 a `[[rule]]` with `allow`"
            ),
            Self::Certificate { problem } => problem.fmt(f),
            Self::OverlappingClientAuthorities { below, above } => write!(
                f,
                "client certificates of `{below}` of `http.client-ca` lead to `{above}`, too, so that they name two principals: \
                 clients with them are answered with 401; remove one of the two, or use authorities of which none is below the other"
            ),
            Self::PublicPath { url } => write!(
                f,
                "the path of `http.public-url` is `{}`, and the endpoint of this server is `/mcp`: unless a proxy maps one to the \
                 other, clients do not find it there; write `{}/mcp`",
                url.path(),
                url.origin()
            ),
            Self::UnusedEmbeddings => f.write_str(
                "`search.embeddings` has no effect, as the text of no plugin is sent; add `embeddings = true` to `search` of a \
                 [[plugin]] or an [[upstream]], or remove it",
            ),
            Self::EmbeddingsWithoutQueries => f.write_str(
                "`search.embeddings` has no `queries = true`: vectors of texts are computed, and no search uses them",
            ),
            Self::RelativeArgument { plugin, argument, file } => write!(
                f,
                "`command` of upstream `{plugin}` has the argument `{argument}`, and the program starts in `/`: if it is {file}, write \
                 `{file}`, and grant its directory at the same path (`grants.dirs`) unless it is one of the program's own",
                file = file.display()
            ),
            Self::GrantedFile { plugin, file, kind } => {
                let file = file.display();
                match kind {
                    SensitiveFile::Audit => write!(
                        f,
                        "the audit log {file} is in a directory that `grants.dirs` of plugin `{plugin}` grants, so its clients may \
                         read who reads what; write it elsewhere"
                    ),
                    SensitiveFile::Config => write!(
                        f,
                        "the config {file} is in a directory that plugin `{plugin}` may write to, so its provider may grant itself \
                         anything; move one of the two, or remove `mode = \"rw\"`"
                    ),
                    SensitiveFile::Secret => write!(
                        f,
                        "{file} holds a secret, and is in a directory that `grants.dirs` of plugin `{plugin}` grants; move it \
                         elsewhere"
                    ),
                    SensitiveFile::Component => write!(
                        f,
                        "the component {file} is in a directory that plugin `{plugin}` may write to, so its provider may replace it with \
                         one that has the grants of another plugin; move one of the two, set `digest`, or remove `mode = \"rw\"`"
                    ),
                    SensitiveFile::Program => write!(
                        f,
                        "{file}, which a program of an upstream consists of, is in a directory that plugin `{plugin}` may write to, so \
                         the host does not start the program; install it in another directory, or remove `mode = \"rw\"`"
                    ),
                    SensitiveFile::Opened => write!(
                        f,
                        "{file} is in a directory that plugin `{plugin}` may write to, so its provider may replace it with a link to any \
                         other file of the machine, which the host follows; move one of the two, or remove `mode = \"rw\"`"
                    ),
                }
            }
            Self::WritableFile { file, mode } => {
                let file = file.display();
                write!(f, "all users may write to {file} (mode {mode:04o}); run `chmod o-w {file}`")
            }
            Self::ReadableSecret { file, mode, chmod } => {
                let file = file.display();
                write!(
                    f,
                    "{file} holds a secret, and other users may read it (mode {mode:04o}); run `chmod {chmod} {file}`"
                )
            }
            Self::RedundantRule { rule, by } => {
                write!(f, "{rule} has no effect: other rules, such as {by}, allow and deny the same to its principals")
            }
            Self::DeniedGlob { rule, glob, by, deny } => write!(
                f,
                "`allow` of {rule} has `{glob}`, and everything that it matches is denied, by `{deny}` of {by}"
            ),
            Self::UnknownIssuer { by, name } => write!(
                f,
                "{by} names `{name}`, and no `[[issuer]]` and no `http.client-ca` of that name can bring it; only an application \
                 that embeds this host can"
            ),
            Self::EncodedSlash { rule, key, glob, found } => write!(
                f,
                "`{key}` of {rule} has `{glob}`, which matches nothing that is listed, and would match `{found}` if that had a slash for \
                 `%2F`: write `%2F` in the glob, too"
            ),
            Self::UnmatchedGlob { rule, key, glob, nearest } => {
                write!(f, "`{key}` of {rule} has `{glob}`, which matches nothing below any mount")?;
                write_nearest(f, nearest.as_ref())
            }
            Self::UnmatchedSearchGlob { plugin, key, glob, mount } => write!(
                f,
                "`{key}` of `search` of plugin `{plugin}` has `{glob}`, which matches nothing below its mount `{mount}`"
            ),
            Self::UnsearchedPrefix { search, within, plugin: Some(plugin), .. } => write!(
                f,
                "the saved search `{search}` finds nothing: its `within` is `{within}`, and plugin `{plugin}` is not searched; \
                 `search = {{}}` in its `[[plugin]]` or `[[upstream]]` turns that on"
            ),
            Self::UnsearchedPrefix { search, within, plugin: None, nearest } => {
                write!(f, "the saved search `{search}` finds nothing: its `within` is `{within}`, and no mount is there")?;
                write_nearest(f, nearest.as_ref())
            }
        }
    }
}

fn write_nearest(f: &mut fmt::Formatter<'_>, nearest: Option<&String>) -> fmt::Result {
    nearest.map_or(Ok(()), |nearest| write!(f, "; the most similar mount is `{nearest}`"))
}
