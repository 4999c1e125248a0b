//! A diagnostic that the compiler gives, for parts of a model.

use super::{
    base,
    part::{Part, Whole},
};
use crate::cli::compare::values::Values;
use onnxc::{
    Compiler, Options,
    diag::{Code, Diagnostic, Diagnostics, quoted},
};
use onnxc_proto::{Bytes, Message};
use std::collections::BTreeSet;

/// A diagnostic that a model gives.
pub struct Diagnosis {
    code: Code,
    settings: Options,
    bytes: Bytes,
}

impl Diagnosis {
    /// Parses the code, and compiles the model.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such code, or if the model gives no such diagnostic.
    pub fn of(code: &str, bytes: Bytes, settings: Options) -> Result<Diagnosis, Diagnostics> {
        let number = code.trim_start_matches(['E', 'e']).parse().ok();
        let Some(code) = number.and_then(Code::from_number) else {
            return Err(Diagnostic::new(
                Code::BadOption,
                format!("there is no code {}", quoted(code)),
            )
            .help("`onnxc explain` lists all codes")
            .into());
        };
        let found = diagnostics(&bytes, &settings);
        if found.iter().any(|diagnostic| diagnostic.code == code) {
            return Ok(Diagnosis { code, settings, bytes });
        }
        let codes: BTreeSet<String> =
            found.iter().map(|diagnostic| diagnostic.code.to_string()).collect();
        let codes: Vec<String> = codes.into_iter().collect();
        let note = match codes.is_empty() {
            true => "it compiles without one".to_owned(),
            false => format!("it gives {}", codes.join(", ")),
        };
        let message = format!("the model gives no diagnostic {code}");
        Err(Diagnostic::new(Code::BadOption, message).note(note).into())
    }

    /// Returns a model that gives the diagnostic.
    ///
    /// # Errors
    ///
    /// Returns an error if the diagnostic does not come from a part of the model.
    pub fn whole(&self) -> Result<Whole, Diagnostics> {
        let typed = [base::folded, base::imported].into_iter();
        let typed = typed.filter_map(|of| of(&self.bytes, &self.settings));
        let typed = typed.map(|model| Whole::new(model, Default::default(), Values::new()));
        let raw = std::iter::once_with(|| base::raw(&self.bytes, &self.settings)).flatten();
        let gives = |whole: &Whole| {
            let nodes: Vec<usize> = (0..whole.len()).collect();
            whole.part(&nodes, &[]).is_some_and(|part| self.diagnostic(&part).is_some())
        };
        typed.chain(raw).find(gives).ok_or_else(|| {
            let message = format!("{} does not come from the nodes of the model", self.code);
            Diagnostic::new(Code::Unsupported, message).into()
        })
    }

    /// Returns the diagnostic, if a part gives it.
    pub fn diagnostic(&self, part: &Part) -> Option<Diagnostic> {
        let settings = base::restricted(&self.settings, &part.model);
        let found = diagnostics(&part.model.encode_to_vec().into(), &settings);
        found.into_iter().find(|diagnostic| diagnostic.code == self.code)
    }
}

/// Returns all diagnostics of a model.
fn diagnostics(bytes: &Bytes, settings: &Options) -> Vec<Diagnostic> {
    let mut compiler = Compiler::new(settings);
    let errors = compiler.plan(bytes.clone()).err().map_or(Vec::new(), |all| all.0);
    errors.into_iter().chain(compiler.take_warnings()).collect()
}
