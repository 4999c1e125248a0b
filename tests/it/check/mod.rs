//! The checker: models that break one rule each, and models that break none.
//!
//! Every malformed model is a valid one with one change. The checker must report that change alone:
//! one diagnostic, with the code and the words of the case. With `ONNXC_MALFORMED=FOLDER`, the
//! models are written there so that onnx's own checker can be run on them.

mod bases;
mod fields;
mod files;
mod functions;
mod graphs;
mod models;
mod mutations;
mod nodes;
mod program;
mod tensors;
mod training;
mod types;
mod uncompilable;
mod valid;

use onnxc::{
    CheckReport, Options,
    diag::{Code, Diagnostics},
};
use onnxc_proto::{Bytes, Message, ModelProto};
use std::{collections::BTreeSet, env, fs, path::Path};

/// A malformed model, and the diagnostic that it must cause.
struct Case {
    name: &'static str,
    code: Code,
    /// A part of the message.
    says: &'static str,
    model: Vec<u8>,
}

fn case(name: &'static str, code: Code, says: &'static str, model: impl Into<Vec<u8>>) -> Case {
    Case { name, code, says, model: model.into() }
}

/// Parses a model in ONNX's textual syntax.
fn parse(text: &str) -> ModelProto {
    onnxc::import::text::model(text).expect("the text is valid")
}

/// Returns the bytes of the model `base` after a change.
fn edit(base: &str, change: impl FnOnce(&mut ModelProto)) -> Vec<u8> {
    let mut model = parse(base);
    change(&mut model);
    model.encode_to_vec()
}

/// Returns the bytes of the model `base` with the first `from` replaced by `to`.
fn swap(base: &str, from: &str, to: &str) -> Vec<u8> {
    assert!(base.contains(from), "{from}\n{base}");
    parse(&base.replacen(from, to, 1)).encode_to_vec()
}

fn check(model: &[u8]) -> CheckReport {
    onnxc::Compiler::new(&Options::default()).check_bytes(Bytes::copy_from_slice(model))
}

fn all() -> Vec<Case> {
    let tables = [
        files::cases(),
        models::cases(),
        graphs::cases(),
        nodes::cases(),
        tensors::cases(),
        types::cases(),
        functions::cases(),
        training::cases(),
    ];
    tables.into_iter().flatten().collect()
}

#[test]
fn each_malformed_model_causes_one_diagnostic() {
    let cases = all();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "names are distinct");
    assert!(cases.len() >= 120, "only {} models", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let found = check(&case.model);
        let is_as_expected = match found.invalid.as_slice() {
            [one] => one.code == case.code && one.message.contains(case.says),
            _ => false,
        };
        if !is_as_expected {
            let text = Diagnostics(found.invalid);
            wrong.push(format!("{}: expected {}: {}\n{text}", case.name, case.code, case.says));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
    if let Some(folder) = env::var_os("ONNXC_MALFORMED") {
        write(Path::new(&folder), &cases);
    }
}

/// Writes the models to a folder, for onnx's own checker.
fn write(folder: &Path, cases: &[Case]) {
    fs::create_dir_all(folder).expect("the folder can be made");
    for case in cases {
        let path = folder.join(format!("{}.onnx", case.name));
        fs::write(path, &case.model).expect("the folder can be written to");
    }
}

#[test]
fn every_code_of_an_invalid_model_has_a_case() {
    /// Codes of files that are not models, of options, and of custom passes and operators.
    const ELSEWHERE: &[Code] =
        &[Code::Io, Code::BadOption, Code::BadSyntax, Code::Refused, Code::Container];
    let met: BTreeSet<Code> = all().iter().map(|case| case.code).collect();
    let is_missing =
        |code: &&Code| code.is_invalidity() && !met.contains(*code) && !ELSEWHERE.contains(*code);
    let missing: Vec<&Code> = Code::ALL.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no model breaks the rules of {missing:?}");
}

#[test]
fn independent_errors_are_all_reported() {
    let model = edit(bases::PLAIN, |model| {
        model.ir_version = None;
        let graph = model.graph.as_mut().expect("the base model has a graph");
        graph.node[0].op_type = Some("Frobnicate".into());
        graph.node[1].input[1] = "nowhere".into();
        graph.initializer[0].float_data.pop();
        graph.output[0].name = Some("nothing".into());
    });
    let found: Vec<Code> = check(&model).invalid.iter().map(|diagnostic| diagnostic.code).collect();
    let expected = [
        Code::IrVersion,
        Code::BadTensor,
        Code::UnknownOperator,
        Code::UndefinedValue,
        Code::UndefinedOutput,
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_diagnostic_names_the_path_to_its_node() {
    let model = swap(bases::BRANCH, "one = Relu(x)", "one = Clip<min = 1>(x)");
    let found = check(&model).invalid;
    let place = "graph `g` › node `y` (If), number 0 › attribute `then_branch` › graph `yes` › \
        node `one` (Clip), number 0";
    assert_eq!(found[0].at.join(" › "), place);
    assert_eq!(found[0].code, Code::UnknownAttribute);
}
