//! The limits of the work that a model causes when it is compiled.

use crate::programs::root;
use onnxc::{CompiledModel, Compiler, Options, Weights, choice::Choice, limits::Limit};
use std::fs;

/// Compiles a model with limits, as the command line spells them.
fn compile(graph: &str, limits: &[&str]) -> Result<CompiledModel, String> {
    let sets = "\"\" : 21, \"ai.onnx.ml\" : 3, \"com.microsoft\" : 1, \
        \"ai.onnx.preview.training\" : 1";
    let text = format!("<ir_version: 10, opset_import: [{sets}]> g {graph}");
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
fn a_node_beyond_a_limit_is_an_error() {
    let pattern = |op: &str, element: &str, axes: &str| {
        format!("(string[2] x) => ({element}[{axes}] y) {{ y = {op} (x) }}")
    };
    let regex = pattern("RegexFullMatch <pattern = \"(a|b)*a(a|b){8}\">", "bool", "2");
    let tokens = pattern(
        "com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = \"#\",
            tokenexp = \"(a|b)*a(a|b){8}\">",
        "string",
        "2, n",
    );
    let sparse =
        "(float[64] x) => (y) <sparse_tensor(float[64]) s = {1.5} at {3}> { y = Add (x, s) }";
    let trees = "(float[1, 1] x) => (y) {
        y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1000, nodes_treeids = [0],
            nodes_nodeids = [0], nodes_featureids = [0], nodes_modes = [\"LEAF\"],
            nodes_values = [0.0], nodes_truenodeids = [0], nodes_falsenodeids = [0],
            target_treeids = [0], target_nodeids = [0], target_ids = [0], target_weights = [1.0]
        > (x)
    }";
    let classes = "(float[1, 1] x) => (label, y) {
        label, y = ai.onnx.ml.SVMClassifier <kernel_type = \"LINEAR\", coefficients = [
            1.0, 2.0, 3.0, 4.0, 5.0, 6.0], support_vectors = [1.0, 2.0, 3.0],
            vectors_per_class = [1, 1, 1], rho = [0.0, 0.0, 0.0], classlabels_ints = [0, 1, 2],
            kernel_params = [0.0, 0.0, 0.0]> (x)
    }";
    let zeros = "(float[1, 32] x, uint8[4, 2, 8] w, float[8] s, int32[32] g) => (y) {
        y = com.microsoft.MatMulNBits <N = 4, K = 32, bits = 4, block_size = 16> (x, w, s, \"\", g)
    }";
    let window = "(float[1, 40, 2] x) => (d) {
        y = LRN <size = 3> (x)
        d = ai.onnx.preview.training.Gradient <xs = [\"x\"], y = \"y\"> (x)
    }";
    for (graph, limit, message) in [
        (regex.as_str(), "pattern-bytes=1000", "1000 bytes of automata of patterns"),
        (&tokens, "pattern-bytes=1000", "1000 bytes of automata of patterns"),
        (sparse, "sparse-bytes=255", "255 bytes of sparse tensors in dense form"),
        (trees, "list-elements=999", "999 elements of results"),
        (classes, "list-elements=8", "8 elements of weights of pairs of classes"),
        (zeros, "list-elements=3", "3 elements of default zero points"),
        (window, "list-elements=1599", "1599 elements of masks of windows"),
        (CHAIN, "seconds=0", "0 seconds of one phase"),
        #[cfg(target_os = "linux")]
        (CHAIN, "memory=4K", "4096 bytes of memory"),
    ] {
        if let Err(error) = compile(graph, &[]) {
            panic!("{graph}: {error}");
        }
        let error = compile(graph, &[limit]).err().expect("the model exceeds the limit");
        let option = format!("--limit {}=N", limit.split('=').next().unwrap_or_default());
        for part in ["E0302", message, &option, "-->"] {
            assert!(error.contains(part), "{part}\n{error}");
        }
    }
}

/// Each pattern and each sparse tensor is within the limit.
#[test]
fn a_limit_is_that_of_a_whole_model() {
    let regex =
        |name: &str| format!("{name} = RegexFullMatch <pattern = \"(a|b)*a(a|b){{8}}\"> (x)");
    let patterns =
        format!("(string[2] x) => (y) {{ {}\n{}\n y = And (p, q) }}", regex("p"), regex("q"));
    let sparse = "(float[64] x) => (y) <
        sparse_tensor(float[64]) s = {1.5} at {3}, sparse_tensor(float[64]) t = {2.5} at {4}> {
        a = Add (x, s)
        y = Add (a, t)
    }";
    assert!(compile(sparse, &["sparse-bytes=512"]).is_ok());
    assert!(compile(sparse, &["sparse-bytes=511"]).is_err());
    let fits = |bytes: usize| compile(&patterns, &[&format!("pattern-bytes={bytes}")]).is_ok();
    let enough = (10..24).map(|bits| 1 << bits).find(|&bytes| fits(bytes));
    assert!(enough.is_some_and(|bytes| !fits(bytes / 2)));
}

#[test]
fn a_size_makes_no_list_as_long_as_it_says() {
    let split = "(float[4000000000000, 1] x) => (y) {
        s = SplitToSequence <axis = 0, keepdims = KEEP> (x PART)
        at = Constant <value_int = 7> ()
        y = SequenceAt (s, at)
    }";
    for (keep, part) in [("1", ""), ("0", ""), ("1", ", part")] {
        let given = if part.is_empty() { "" } else { "<int64 part = {3}>" };
        let graph = split.replace("KEEP", keep).replace("PART", part);
        let graph = graph.replace("=> (y)", &format!("=> (y) {given}"));
        assert!(calls(&graph, &[]) > 0, "{graph}");
    }
    let grouped = "(float[1, 4000000000000, 1] x) => (y) <int64[3] s = {0, 2, -1},
        float[2] ones = {1, 1}, float[2] zeros = {0, 0}> {
        shape = Shape (x)
        a = Reshape (x, s)
        b = InstanceNormalization (a, ones, zeros)
        y = Reshape (b, shape)
    }";
    assert!(calls(grouped, &[]) > 0);
}

#[test]
fn packed_weights_of_any_shape_are_no_overflow() {
    let (large, most) = (1_i64 << 40, i64::MAX);
    for (n, k, block) in [(most, 32, 16), (4, most, 16), (large, large, large)] {
        let graph = format!(
            "(float[1, 32] x, uint8[4, 2, 8] w, float[8] s, int32[32] g) => (y) {{
                y = com.microsoft.MatMulNBits <N = {n}, K = {k}, bits = 4, block_size = {block}>
                    (x, w, s, \"\", g)
            }}"
        );
        let error = compile(&graph, &[]).err().expect("no weights are so large");
        assert!(error.contains("E0302") && error.contains("must be at most"), "{error}");
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
    let transform = "(float[1, 60, 2] x) => (y) { y = DFT (x) }";
    let frames = "(float[1, 90, 1] x) => (y) <int64 step = {8}, float[6] w = {1, 2, 3, 3, 2, 1}> {
        y = STFT (x, step, w)
    }";
    for (graph, limit) in [
        (tile, "folded-bytes=0"),
        (tile, "folded-growth=0"),
        (sum, "loop-work=0"),
        (resize, "table-elements=0"),
        (transform, "table-elements=0"),
        (frames, "table-elements=0"),
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
