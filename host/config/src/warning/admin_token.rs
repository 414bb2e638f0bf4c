//! `[admin]` at a TCP port without a token: administrators cannot authenticate.
//!
//! At a Unix socket they need none: its owner and root are administrators. At port 0 the listener is for an
//! application, or for `serve --open`, which logs in without a token.

use super::Warning;
use crate::Config;
use crate::admin::AdminAddress;

impl Config {
    /// Returns the warning about an administration listener that no administrator can use.
    pub(super) fn admin_token_warning(&self) -> Option<Warning> {
        let admin = self.admin.as_ref().filter(|admin| admin.token.is_none())?;
        match admin.listen {
            AdminAddress::Tcp(address) if address.socket_addr().port() != 0 => {
                Some(Warning::AdminWithoutToken { address, users: admin.users })
            }
            AdminAddress::Tcp(_) | AdminAddress::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Admin;

    fn told(admin: Admin) -> Vec<String> {
        let config = Config { admin: Some(admin), ..Config::new() };
        config.warnings().iter().map(ToString::to_string).collect()
    }

    fn tcp(address: &str) -> Admin {
        Admin::new(AdminAddress::Tcp(address.parse().unwrap()))
    }

    #[test]
    fn a_listener_at_a_port_without_a_token_is_warned_of_with_what_works_and_the_line_to_write() {
        let warning = "`[admin]` has no `token`: of the listener at `127.0.0.1:9464` only `/livez`, `/readyz` and `/metrics` work; \
                       `mcp-host status` and `mcp-host admin` are refused, and an administrator can log in to the console only by \
                       `serve --open`; write `token = { file = \"admin.token\" }` under `[admin]`, a file that `openssl rand -hex 32` \
                       makes";
        assert_eq!(told(tcp("127.0.0.1:9464")), [warning]);
        let of_users = told(Admin { users: true, ..tcp("127.0.0.1:9464") });
        assert!(of_users.len() == 1 && of_users[0].contains("`/metrics` and the console's pages for `users` work"));
    }

    #[test]
    fn a_socket_and_a_port_that_only_the_server_knows_need_no_token() {
        assert_eq!(told(Admin::new(AdminAddress::Unix("/run/admin.sock".into()))), Vec::<String>::new());
        assert_eq!(told(tcp("127.0.0.1:0")), Vec::<String>::new());
    }
}
