//! Servers in other languages, for scale: what can be installed takes part.
//!
//! ```text
//! foreign/install ─→ target/foreign ─→ name, what it runs on, command
//! ```

use std::path::Path;
use std::process::{Command, Stdio};

/// A server that speaks `Content-Length` on its standard input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The library, the language and their versions.
    pub about: String,
    pub argv: Vec<String>,
}

/// Those that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// vscode-jsonrpc: `add`, `echo` and `nap`.
    pub node: Option<Program>,
    /// python-lsp-jsonrpc: `add` and `echo`.
    pub python: Option<Program>,
    /// Why others are not there, a line each.
    pub missing: Vec<String>,
}

impl Foreign {
    /// What takes part and what is missing, a line each.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let programs = [&self.node, &self.python].into_iter().flatten();
        let there = programs.map(|program| program.about.clone());
        there.chain(self.missing.iter().cloned()).collect()
    }
}

/// Installs what is not installed yet. Without a network, Node or Python some are
/// missing, and nothing else is.
#[must_use]
pub fn find() -> Foreign {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/install");
    let output = Command::new(script).stdin(Stdio::null()).output();
    match output {
        Ok(output) => {
            let [found, said] = [&output.stdout, &output.stderr];
            parse(
                &String::from_utf8_lossy(found),
                &String::from_utf8_lossy(said),
            )
        }
        Err(problem) => Foreign {
            missing: vec![format!("foreign/install: {problem}")],
            ..Foreign::default()
        },
    }
}

fn parse(found: &str, said: &str) -> Foreign {
    let program = |name: &str| {
        let fields = found.lines().map(|line| line.split('\t'));
        let mut fields = fields.filter_map(|mut fields| {
            let first = fields.next()?;
            (first == name).then_some(fields)
        });
        let mut fields = fields.next()?.map(str::to_owned);
        Some(Program {
            about: fields.next()?,
            argv: fields.collect(),
        })
    };
    Foreign {
        node: program("node"),
        python: program("python"),
        missing: said.lines().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Foreign, Program, parse};

    #[test]
    fn a_line_is_a_name_what_it_runs_on_and_a_command() {
        let found = "python\tpython-lsp-jsonrpc 1.1.2 on Python 3.11.7\tpython\ta b/server.py\n";
        let said = "node: left out: there is no node or no npm\n";
        let python = Program {
            about: "python-lsp-jsonrpc 1.1.2 on Python 3.11.7".into(),
            argv: vec!["python".into(), "a b/server.py".into()],
        };
        let expected = Foreign {
            node: None,
            python: Some(python),
            missing: vec!["node: left out: there is no node or no npm".into()],
        };
        assert_eq!(parse(found, said), expected);
        assert_eq!(parse("", ""), Foreign::default());
    }
}
