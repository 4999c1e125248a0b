//! Prints diagnostics, in color on a terminal.

use onnxc::{
    diag::{Colors, Diagnostic, Diagnostics, quoted},
    ident,
};
use std::{
    env,
    io::{self, IsTerminal},
};

/// Prints diagnostics to standard error.
pub fn print(diagnostics: &Diagnostics) {
    eprintln!("{}", diagnostics.text().colors(colors(&io::stderr())));
}

/// Prints warnings to standard error, and their number.
pub fn print_warnings(warnings: Vec<Diagnostic>) {
    let count = match warnings.len() {
        0 => return,
        1 => "one warning".to_owned(),
        count => format!("{count} warnings"),
    };
    print(&Diagnostics(warnings));
    eprintln!("\n{count}; `onnxc check` lists the rules that the model violates");
}

/// Adds the most similar of `names` to an error about an unknown name.
pub fn suggest<'n>(
    error: Diagnostic,
    name: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Diagnostic {
    match ident::nearest(name, names) {
        Some(near) => error.help(format!("did you mean {}?", quoted(near))),
        None => error,
    }
}

/// Returns the colors for output to `stream`: ANSI colors on a terminal, unless the environment
/// says otherwise.
pub fn colors(stream: &impl IsTerminal) -> Colors {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let wants = stream.is_terminal() && !is_dumb || is_set("CLICOLOR_FORCE");
    if wants && !is_set("NO_COLOR") { Colors::Ansi } else { Colors::Plain }
}
