//! `onnxc ops`: lists the operators, versions and types that are compiled.

mod facts;
mod probe;
mod sample;
mod table;

use crate::cli::message;
use facts::Version;
use onnxc::diag::{Code, Diagnostic, Diagnostics, quoted};
use sample::Sample;
use std::{num::NonZero, thread};
use table::Operator;

/// Lists ONNX's operators, and the versions and types that are compiled
#[derive(clap::Args)]
pub struct Options {
    /// Only operators of these names
    names: Vec<String>,
    /// Print a Markdown page
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let mut versions = facts::versions();
    let known = |name: &&String| versions.iter().any(|version| version.name == **name);
    let unknown: Vec<&String> = options.names.iter().filter(|name| !known(name)).collect();
    if !unknown.is_empty() {
        let names = || versions.iter().map(|version| version.name);
        return Err(Diagnostics(
            unknown.into_iter().map(|name| no_operator(name, names())).collect(),
        ));
    }
    if !options.names.is_empty() {
        versions.retain(|version| options.names.iter().any(|name| name == version.name));
    }
    let operators = probe_operators(&versions);
    let text = if options.markdown { table::markdown } else { table::plain };
    out!("{}", text(&operators));
    Ok(())
}

/// The error for a name that is none of the operators'.
fn no_operator<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Diagnostic {
    let message = format!("there is no operator {}", quoted(name));
    let error = Diagnostic::new(Code::BadOption, message).note("`onnxc ops` lists all");
    message::suggest(error, name, names)
}

/// Tests which versions and types of each operator are compiled, in several threads.
fn probe_operators(versions: &[Version]) -> Vec<Operator<'_>> {
    let samples = sample::samples();
    let named: Vec<&[Version]> =
        versions.chunk_by(|a, b| (a.domain, a.name) == (b.domain, b.name)).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let parts = named.chunks(named.len().div_ceil(threads).max(1));
        let parts = parts.map(|part| {
            scope.spawn(|| -> Vec<_> {
                part.iter().map(|versions| probe_operator(versions, &samples)).collect()
            })
        });
        let parts: Vec<thread::ScopedJoinHandle<'_, Vec<_>>> = parts.collect();
        let done = parts
            .into_iter()
            .map(|part| part.join().expect("the compiler returns errors and does not panic"));
        done.flatten().collect()
    })
}

/// Tests which types of the versions of one operator are compiled.
fn probe_operator<'v>(versions: &'v [Version], samples: &[Sample]) -> Operator<'v> {
    let found = |version| (version, probe::probe(version, samples));
    Operator { versions: versions.iter().map(found).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constraints of inputs and outputs that the compiler refuses.
    const REFUSED: &[(&str, &str)] = &[
        ("DecoderMaskedMultiHeadAttention", "QK"),
        ("GatedRelativePositionBias", "M"),
        ("GroupQueryAttention", "T_KV_SCALE"),
        ("MultiHeadAttention", "QK"),
        ("QMoE", "T4"),
    ];

    #[test]
    fn every_constraint_is_tried() {
        let samples = sample::samples();
        let mut missing = Vec::new();
        for version in facts::versions() {
            for (constraint, _) in &version.constraints {
                let mut values = version.inputs.iter().chain(version.outputs);
                if !values.any(|value| value.ty == *constraint) {
                    // Two operator versions have a constraint that no input or output uses.
                    continue;
                }
                if REFUSED.contains(&(version.name, constraint)) {
                    continue;
                }
                let uses = |sample: &&Sample| sample.uses(&version, constraint);
                let (name, since) = (version.name, version.since);
                let tried = Sample::of(&samples, &version).iter().any(uses);
                if !tried {
                    missing.push(format!("{name} {since}: {constraint}"));
                }
            }
        }
        assert!(missing.is_empty(), "no sample has a value of these types: {missing:?}");
    }
}
