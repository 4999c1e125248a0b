//! `onnxc compare MODEL`: compares a compiled model with a reference, node by node.

mod archive;
mod culprit;
mod given;
pub mod metrics;
mod onnxruntime;
pub mod reference;
pub mod values;

use super::{message, progress, tolerance::Tolerance};
use culprit::Culprit;
use metrics::Row;
use onnxc::diag::{Code, Diagnostic, Diagnostics, quoted};
use reference::{Reference, Sides};
use std::{path::PathBuf, process::ExitCode};
use values::{Traced, Values};

/// The number of rows that are printed.
const MOST: usize = 20;

/// The number of names that a message lists.
const SHOWN: usize = 5;

/// Compares a compiled model with a reference, node by node, and prints the first node that departs
///
/// The reference is the model before fusion, in full precision, or `--with`. The inputs are
/// `--input`, those of a reference in ONNX's layout, the first data set beside the model, or random
/// ones. Values are matched by name. The exit status is 1 if a value departs from the reference by
/// more than the tolerance.
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    #[command(flatten)]
    sides: Sides,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command. It fails if a value is outside the tolerance.
pub fn run(options: &Options) -> Result<ExitCode, Diagnostics> {
    let place = options.model.display().to_string();
    let reference = options.sides.reference()?;
    let tolerance = options.sides.tolerance(&reference)?;
    progress::enter("compile", place.clone());
    let case = options.sides.case(&options.model, &reference)?;
    progress::enter("run the reference", place.clone());
    let expected = options.sides.values(&reference, &case)?;
    progress::enter("run", place);
    let found = case.compiled.run(&case.given)?;
    let mut compared = compare(&case.compiled, &found, &expected, tolerance);
    compared.skipped.extend(case.merged.iter().map(|value| Skipped {
        value: value.clone(),
        reason: "a value that the compiled model does not keep".to_owned(),
        role: Role::Value,
    }));
    // An archive may have only values between nodes.
    compared.needs_outputs = !matches!(reference, Reference::Archive(..));
    if compared.rows.is_empty() {
        return Err(nothing_in_common(&compared, &case.compiled, &expected).into());
    }
    if options.json {
        json(&compared, &case.compiled);
    } else {
        text(&compared, &case.compiled);
    }
    Ok(message::judge(compared.first().is_none() && !compared.lacks_output()))
}

/// The errors of the values that both sides have.
pub struct Compared {
    /// The errors, in the order of the compiled nodes.
    pub rows: Vec<Row>,
    /// The values that both sides have, but that cannot be compared.
    skipped: Vec<Skipped>,
    /// Whether the reference must have all outputs.
    needs_outputs: bool,
}

/// A value that is not compared.
struct Skipped {
    value: String,
    /// The types of both sides.
    reason: String,
    role: Role,
}

/// The role of a value that is not compared.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// No output of the model.
    Value,
    /// An output that the reference lacks.
    MissingOutput,
    /// An output that the reference has with another type.
    OtherOutput,
}

impl Compared {
    /// Returns the first value that departs.
    pub fn first(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.departs())
    }

    /// Returns whether the reference lacks an output that it needs, or has it with another type.
    fn lacks_output(&self) -> bool {
        self.skipped.iter().any(|skipped| match skipped.role {
            Role::Value => false,
            Role::MissingOutput => self.needs_outputs,
            Role::OtherOutput => true,
        })
    }
}

/// Compares the values of both sides.
pub fn compare(
    compiled: &Traced,
    found: &Values,
    expected: &Values,
    tolerance: Tolerance,
) -> Compared {
    let others = compiled.others().map(|(value, ty)| Skipped {
        value: value.to_owned(),
        reason: format!("{ty}, and only tensors are compared"),
        role: Role::Value,
    });
    let skipped = others.collect();
    let mut compared = Compared { rows: Vec::new(), skipped, needs_outputs: true };
    for traced in compiled.names() {
        let name = &traced.value;
        let Some(found) = found.get(name) else { continue };
        let (role, reason) = match expected.get(name) {
            None if traced.is_output => {
                (Role::MissingOutput, "an output that the reference lacks".to_owned())
            }
            None => continue,
            Some(expected) => match metrics::compare(traced, found, expected, tolerance) {
                Some(row) => {
                    compared.rows.push(row);
                    continue;
                }
                None => {
                    let role = if traced.is_output { Role::OtherOutput } else { Role::Value };
                    (role, format!("{} here, {} in the reference", found.ty(), expected.ty()))
                }
            },
        };
        compared.skipped.push(Skipped { value: name.clone(), reason, role });
    }
    compared
}

/// The error for a reference with other values.
fn nothing_in_common(compared: &Compared, compiled: &Traced, expected: &Values) -> Diagnostic {
    let is_named = |skipped: &&Skipped| skipped.role != Role::MissingOutput;
    let named: Vec<&Skipped> = compared.skipped.iter().filter(is_named).collect();
    let message = "the model and the reference have no value of the same name and type";
    let error = Diagnostic::new(Code::BadOption, message);
    if !named.is_empty() {
        return skipped_lines(&named).into_iter().fold(error, Diagnostic::note);
    }
    let some = |names: &mut dyn Iterator<Item = &String>| {
        let names: Vec<String> = names.take(SHOWN).map(|name| quoted(name)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let own = some(&mut compiled.names().iter().rev().map(|traced| &traced.value));
    error
        .note(format!("the last values of the model: {own}"))
        .note(format!("values of the reference: {}", some(&mut expected.keys())))
}

/// Describes the values that are not compared, in lines.
fn skipped_lines(skipped: &[&Skipped]) -> Vec<String> {
    let line = |Skipped { value, reason, .. }: &&Skipped| format!("{}: {reason}", quoted(value));
    let mut lines: Vec<String> = skipped.iter().take(SHOWN).map(line).collect();
    if skipped.len() > SHOWN {
        lines.push(format!("and {} others", skipped.len() - SHOWN));
    }
    lines
}

fn text(compared: &Compared, compiled: &Traced) {
    let rows = &compared.rows;
    match Culprit::of(rows, compiled) {
        Some(culprit) => outln!("{}", culprit.text()),
        None if compared.lacks_output() => {
            outln!("the reference lacks an output, or has it with another type or shape");
        }
        None if rows.len() == 1 => outln!("the only value agrees"),
        None => outln!("all {} values agree", rows.len()),
    }
    let mut worst: Vec<&Row> = rows.iter().collect();
    worst.sort_by(|a, b| b.relative().total_cmp(&a.relative()));
    match compared.skipped.len() {
        0 => {}
        1 => outln!("one value is not compared:"),
        count => outln!("{count} values are not compared:"),
    }
    let skipped: Vec<&Skipped> = compared.skipped.iter().collect();
    skipped_lines(&skipped).iter().for_each(|line| outln!("  {line}"));
    outln!("\n{:>10} {:>10} {:>10} {:>10}  value", "max", "mean", "ULP", "cosine");
    for row in worst.iter().take(MOST) {
        let mark = if row.departs() { "  departs" } else { "" };
        let [max, mean, ulp, cosine] = row.columns();
        let Row { value, ty, operator, .. } = row;
        outln!("{max:>10} {mean:>10} {ulp:>10} {cosine:>10}  {value} {ty} ({operator}){mark}");
    }
    if rows.len() > MOST {
        outln!("the {MOST} largest errors of {} values; `--json` has all", rows.len());
    }
}

fn json(compared: &Compared, compiled: &Traced) {
    let rows = &compared.rows;
    let culprit = Culprit::of(rows, compiled);
    let computes = culprit.iter().flat_map(|culprit| &culprit.node.computes);
    let computes: Vec<&String> = computes.map(|member| &member.node).collect();
    let suspects = culprit.iter().flat_map(|culprit| &culprit.others);
    let suspects: Vec<&String> = suspects.map(|node| &node.node).collect();
    let values: Vec<serde_json::Value> = rows.iter().map(Row::json).collect();
    let skipped = compared.skipped.iter().map(
        |Skipped { value, reason, .. }| serde_json::json!({ "value": value, "reason": reason }),
    );
    let skipped: Vec<serde_json::Value> = skipped.collect();
    outln!(
        "{:#}",
        serde_json::json!({
            "first_departing_node": culprit.as_ref().map(|culprit| &culprit.node.node),
            "first_departing_value": culprit.as_ref().map(|culprit| &culprit.row.value),
            "computes": computes,
            "not_compared_before_it": suspects,
            "values": values,
            "not_compared": skipped,
        })
    );
}
