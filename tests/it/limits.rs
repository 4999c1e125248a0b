//! The limits of the work that a model causes when it is compiled.

use crate::programs::root;
use onnxc::{CompiledModel, Compiler, Options, Weights, choice::Choice, limits::Limit};
use std::fs;

/// Compiles a model with limits, as the command line spells them.
fn compile(graph: &str, limits: &[&str]) -> Result<CompiledModel, String> {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
    let mut options = Options::default();
    options.weights = Weights::Inline;
    for limit in limits {
        options.limit(limit).map_err(|diagnostic| diagnostic.to_string())?;
    }
    let compiled = Compiler::new(&options).compile_bytes(text.into(), "model");
    compiled.map_err(|diagnostics| diagnostics.to_string())
}

/// The kernel calls and the loops of a model.
fn calls(graph: &str, limits: &[&str]) -> usize {
    let compiled = compile(graph, limits).unwrap_or_else(|error| panic!("{error}"));
    let plan = compiled.plans.infer().to_string();
    plan.lines().filter(|line| line.contains(" = ") || line.contains("for ")).count()
}

const CHAIN: &str = "(float[4] x) => (y) <float[4] w = {1, 2, 3, 4}> {
    a = Add (x, w)
    b = Mul (a, w)
    y = Sub (b, w)
}";

#[test]
fn a_model_beyond_a_limit_is_an_error() {
    assert!(compile(CHAIN, &["nodes=3", "lines=1000", "inline-bytes=4K"]).is_ok());
    for (limit, message) in [
        ("nodes=2", "the model has more than 2 nodes"),
        ("lines=10", "and 10 is the limit"),
        ("inline-bytes=1", "bytes of weights do not fit in a module"),
    ] {
        let error = compile(CHAIN, &[limit]).err().expect("the model exceeds the limit");
        let option = format!("--limit {}=N", limit.split('=').next().unwrap_or_default());
        for part in ["E0302", message, &option] {
            assert!(error.contains(part), "{part}\n{error}");
        }
    }
}

#[test]
fn work_beyond_a_limit_is_left_to_the_run() {
    let tile = "(float[800] x) => (y) <float[2] w = {1, 2}, int64[1] n = {400}> {
        a = Tile (w, n)
        y = Add (x, a)
    }";
    let sum = "(float[1] x) => (y) <int64 n = {5}, float[1] w = {1}> {
        a = Loop <body = b (int64 i, bool c, float[1] p) => (bool d, float[1] q) {
            d = Identity (c)
            q = Add (p, p)
        }> (n, \"\", w)
        y = Add (x, a)
    }";
    let resize = "(float[2] x) => (y) <int64[1] s = {5}> {
        y = Resize <mode = \"nearest\"> (x, \"\", \"\", s)
    }";
    for (graph, limit) in [
        (tile, "folded-bytes=0"),
        (tile, "folded-growth=0"),
        (sum, "loop-work=0"),
        (resize, "table-elements=0"),
    ] {
        assert!(calls(graph, &[limit]) > calls(graph, &[]), "{limit}: {graph}");
    }
}

#[test]
fn a_limit_has_a_name_and_a_number() {
    for (limits, message) in [
        (&["node=2"][..], "expected `nodes` or "),
        (&["nodes"], "does not have the form `--limit NAME=N`"),
        (&["nodes=few"], "the limit `nodes` is a number, found `few`"),
        (&["nodes=3", "nodes=4"], "the limit `nodes` is given twice"),
    ] {
        let error = compile(CHAIN, limits).err().expect("the option is wrong");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn every_limit_is_documented() {
    let path = root().join("docs/reference/limits.md");
    let mut page = fs::read_to_string(&path).expect("the page is checked in");
    let rows = Limit::ALL.iter().zip(Limit::WORDS).map(|(limit, (word, help))| {
        let default = onnxc::byte_count::grouped(limit.default() as u64);
        format!("| `{word}` | {default} | {help}. |\n")
    });
    let rows: String = rows.collect();
    if std::env::var_os("UPDATE").is_some() {
        let head = "|---|--:|---|\n";
        let start = page.find(head).expect("the page has the table") + head.len();
        let end = start + page[start..].find("\n\n").map_or(0, |end| end + 1);
        page.replace_range(start..end, &rows);
        fs::write(&path, &page).expect("the page is writable");
    }
    assert!(page.contains(&rows), "run the test with UPDATE=1");
}
