//! The limits that `caudal serve` takes from its command line.

use std::num::NonZeroUsize;

use caudal::http::Options;
use caudal::{Address, Config, Endpoint, ServerLimits};
use clap::Args;

use crate::endpoint::is_url;
use crate::exit::Failure;

/// Limits of `caudal serve`; the library has defaults for all.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// Connections at one time: 10000 by default; a further one is told so,
    /// unless it needs TLS, and closed
    #[arg(long, value_name = "NUMBER")]
    max_connections: Option<NonZeroUsize>,

    /// Connections of one address at one time, over HTTP: 1024 by default; programs on this
    /// machine share one address
    #[arg(long, value_name = "NUMBER")]
    max_connections_per_address: Option<NonZeroUsize>,

    /// Bytes of a message: 1048576 by default; a larger one is refused with -32600, over HTTP
    /// with 413
    #[arg(long, value_name = "BYTES")]
    max_message: Option<NonZeroUsize>,

    /// Requests of one connection that run or wait at one time: 1024 by default; a further one
    /// is refused with -32000
    #[arg(long, value_name = "NUMBER")]
    max_in_flight: Option<NonZeroUsize>,
}

impl Limits {
    /// Sets those that are given.
    pub(crate) fn set(
        &self,
        endpoint: &Endpoint,
        config: &mut Config,
        limits: &mut ServerLimits,
        options: &mut Options,
    ) -> Result<(), Failure> {
        if self.max_connections.is_some() && *endpoint.address() == Address::Stdio {
            return Err(Failure::usage(format!(
                "`--max-connections` is for servers that listen; `{endpoint}` is one connection"
            )));
        }
        if self.max_connections_per_address.is_some() && !is_url(endpoint) {
            return Err(Failure::usage(format!(
                "`--max-connections-per-address` is for HTTP and WebSocket only; for `{endpoint}` \
                 there is `--max-connections`"
            )));
        }
        for (limit, given) in [
            (&mut limits.connections, self.max_connections),
            (
                &mut options.connections_per_address,
                self.max_connections_per_address,
            ),
            (&mut config.policy.max_message, self.max_message),
            (&mut config.in_flight, self.max_in_flight),
        ] {
            *limit = given.map_or(*limit, NonZeroUsize::get);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_manual_has_the_defaults_of_the_library() {
        let (config, options) = (Config::default(), Options::default());
        let serve = crate::args::Cli::command();
        let serve = serve.find_subcommand("serve").unwrap();
        for (option, default) in [
            ("max_connections", ServerLimits::default().connections),
            (
                "max_connections_per_address",
                options.connections_per_address,
            ),
            ("max_message", config.policy.max_message),
            ("max_in_flight", config.in_flight),
        ] {
            let mut options = serve.get_arguments();
            let found = options.find(|argument| *argument.get_id() == option);
            let help = found.unwrap().get_help().unwrap().to_string();
            assert!(help.contains(&format!(": {default} by default")), "{help}");
        }
    }
}
