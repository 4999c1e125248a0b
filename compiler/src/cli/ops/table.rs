//! Prints the table of operators.

use super::{
    facts::Version,
    probe::{Constraint, Found},
};

/// Names for groups of types.
const GROUPS: &[(&str, &[&str])] = &[
    ("ints", &["int8", "int16", "int32", "int64"]),
    ("uints", &["uint8", "uint16", "uint32", "uint64"]),
    ("floats", &["float16", "bfloat16", "float", "double"]),
    ("float8s", &["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"]),
    ("float6s", &["float6e2m3", "float6e3m2"]),
    ("small ints", &["int2", "int4", "uint2", "uint4"]),
    ("complexes", &["complex64", "complex128"]),
];

/// The results for all versions of one operator, the newest last.
pub struct Operator<'v> {
    pub versions: Vec<(&'v Version, Found)>,
}

impl Operator<'_> {
    /// The newest version that did not remove the operator.
    fn newest(&self) -> &(&Version, Found) {
        let live = self.versions.iter().rev().find(|(version, _)| !version.is_removal);
        live.expect("an operator was there before it was removed")
    }

    /// The implementation of the newest version.
    fn implementation(&self) -> &'static str {
        self.newest().1.implementation.unwrap_or("refused")
    }

    fn since(&self) -> String {
        let versions = self.versions.iter().filter(|(_, found)| found.implementation.is_some());
        join(versions.map(|(version, _)| version.since.to_string()), ", ")
    }

    fn types(&self) -> String {
        let constraints = self.newest().1.constraints.iter();
        let text = |c: &Constraint| format!("{}: {}", c.name, types(&c.accepted));
        join(constraints.map(text), "; ")
    }

    /// The messages for types that do not compile. Equal messages of several versions are merged.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<(String, Vec<i64>)> = Vec::new();
        for (version, found) in &self.versions {
            for constraint in &found.constraints {
                for (reason, refused) in by_reason(&constraint.refused) {
                    let colon = if reason.is_empty() { "" } else { ": " };
                    let refused = types(&refused);
                    let note = format!("{}: not {refused}{colon}{reason}", constraint.name);
                    match notes.iter_mut().find(|(other, _)| *other == note) {
                        Some((_, versions)) => versions.push(version.since),
                        None => notes.push((note, vec![version.since])),
                    }
                }
            }
        }
        let removals = self.versions.iter().filter(|(version, _)| version.is_removal);
        notes.extend(removals.map(|(version, _)| ("removed".to_owned(), vec![version.since])));
        let text = |(note, versions): (String, Vec<i64>)| {
            format!("({}) {note}", join(versions.iter().map(i64::to_string), ", "))
        };
        notes.into_iter().map(text).collect()
    }
}

fn join(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

/// Groups types by the compiler's message without the type's name.
fn by_reason<'t>(refused: &[(&'t str, String)]) -> Vec<(String, Vec<&'t str>)> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (ty, reason) in refused {
        let reason = reason.replace(&format!("of type {ty}"), "of these types");
        // The note already says that the type is not allowed.
        let reason = if reason.ends_with(NOT_ALLOWED) { String::new() } else { reason };
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, types)) => types.push(ty),
            None => reasons.push((reason, vec![ty])),
        }
    }
    reasons
}

/// The end of messages that only say that the type is not allowed.
const NOT_ALLOWED: &str = "which the operator does not allow";

/// Lists types, and abbreviates complete groups. Sequences and optionals are listed separately.
fn types(types: &[&str]) -> String {
    let mut parts = Vec::new();
    for (lead, before, after) in [
        ("", "", ""),
        ("sequences of ", "seq(", ")"),
        ("optionals of ", "optional(", ")"),
        ("optional sequences of ", "optional(seq(", "))"),
    ] {
        let inner = |ty: &&str| ty.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
        let plain = types.iter().filter_map(inner).filter(|ty| !ty.contains('('));
        let grouped = group_types(plain.collect());
        if !grouped.is_empty() {
            parts.push(format!("{lead}{}", grouped.join(", ")));
        }
    }
    let others = types.iter().filter(|ty| ty.contains("map(") || ty.contains("sparse"));
    parts.extend(others.map(ToString::to_string));
    if parts.is_empty() { "none".to_owned() } else { parts.join("; ") }
}

fn group_types(mut types: Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, group) in GROUPS {
        if group.iter().all(|ty| types.iter().any(|other| other == ty)) {
            types.retain(|ty| !group.contains(&ty.as_str()));
            found.push((*name).to_owned());
        }
    }
    found.extend(types);
    found
}

/// Prints the table as text, with a line per operator and per note.
pub fn plain(operators: &[Operator<'_>]) -> String {
    let mut text = String::new();
    for operator in operators {
        let version = operator.newest().0;
        let (name, since, how) = (version.name, operator.since(), operator.implementation());
        let types = operator.types();
        text.push_str(&format!("{name} ({}) {since}: {how}; {types}\n", version.domain));
        text.extend(operator.notes().iter().map(|note| format!("    {note}\n")));
    }
    text
}

/// Prints the table as Markdown.
pub fn markdown(operators: &[Operator<'_>]) -> String {
    let mut text = String::from(HEAD);
    let groups = GROUPS.iter().map(|(name, types)| format!("| {name} | {} |\n", types.join(", ")));
    text.extend(groups);
    text.push_str(&summary(operators));
    let mut domain = "";
    for operator in operators {
        let version = operator.newest().0;
        if version.domain != domain {
            domain = version.domain;
            text.push_str(&format!("\n## {domain}\n\n{COLUMNS}"));
        }
        let how = operator.implementation();
        let (name, since, types) = (version.name, operator.since(), operator.types());
        let notes = operator.notes().join("<br>").replace('|', "\\|");
        text.push_str(&format!("| {name} | {since} | {how} | {types} | {notes} |\n"));
    }
    text
}

fn summary(operators: &[Operator<'_>]) -> String {
    let versions = || operators.iter().flat_map(|operator| &operator.versions);
    let done = versions().filter(|(_, found)| found.implementation.is_some()).count();
    let whole = versions().filter(|(_, found)| {
        found.implementation.is_some() && found.constraints.iter().all(|c| c.refused.is_empty())
    });
    let removals = versions().filter(|(version, _)| version.is_removal).count();
    let (all, whole) = (versions().count(), whole.count());
    let operators = operators.len();
    format!(
        "\nOf {all} versions of {operators} operators, {removals} remove the operator, and {done} \
         are\naccepted, {whole} of them for every type that ONNX allows.\n"
    )
}

const COLUMNS: &str = "| operator | versions | how | types | refused |\n|---|---|---|---|---|\n";

const HEAD: &str = "\
# Operators

This page lists the operators of ONNX 1.23.2 that onnxc compiles, with their versions and types, and
those that ONNX Runtime 1.31.1 adds. For each version, constraint and type, `onnxc ops` compiles a
sample node. A type is accepted if the sample compiles with some choice of the other types.
`UPDATE=1 cargo test -p onnxc-tests` generates the page.

| how | meaning |
|---|---|
| kernel | the module calls a kernel |
| no code | the output is a view of the input, or known at compile time |
| other nodes | the operator is expanded to other operators |
| function | the operator is expanded to a function in ONNX's textual syntax |
| control flow | the operator becomes Rust's control flow |

The column *refused* names the versions and types that are not accepted.

| types | are |
|---|---|
";
