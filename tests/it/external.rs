//! Models whose weights are larger than the memory that compiling them may take.

use crate::programs;
use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
    time::Instant,
};

/// The private memory that the compiler may use in addition to mapped files, in bytes.
const MEMORY: u64 = 300 << 20;

/// The default of `ONNXC_EXTERNAL_MB`, the megabytes of weights: more than the memory limit, but
/// few for a disk.
const MEGABYTES: u64 = 640;

/// The names of the weights, one for each use of a large weight: shared by two `MatMul` nodes,
/// transposed by a `Gemm`, read by a `Conv`, the value of a `Constant`, and the table of a
/// `Gather`.
const WEIGHTS: [&str; 5] = ["shared", "transposed", "kernel", "value", "table"];

/// Returns the model as text. Each weight has `rows · wide` elements, all in one file.
fn model(rows: u64, wide: u64) -> String {
    let place = |i: u64| {
        let length = 4 * rows * wide;
        let offset = i * length;
        format!(
            "[\"location\": \"weights.data\", \"offset\": \"{offset}\", \"length\": \"{length}\"]"
        )
    };
    let filters = rows / 9;
    assert_eq!(9 * filters, rows, "`rows` is a multiple of nine");
    format!(
        "<ir_version: 10, opset_import: [\"\" : 21]>
large (float[2, {rows}] x, float[1, {wide}, 5, 5] image, int64[3] at)
    => (float[2, {wide}] y, float[2, {wide}] y_2, float[2, {wide}] t, float[1, {filters}, 3, 3] z,
        float[2, {wide}] c, float[3, {wide}] rows)
<
    float[{rows}, {wide}] shared = {},
    float[{wide}, {rows}] transposed = {},
    float[{filters}, {wide}, 3, 3] kernel = {},
    float[{rows}, {wide}] table = {}
>
{{
    y = MatMul(x, shared)
    twice = Add(x, x)
    y_2 = MatMul(twice, shared)
    t = Gemm<transB = 1>(x, transposed)
    z = Conv(image, kernel)
    value = Constant<value = float[{rows}, {wide}] = {}>()
    c = MatMul(x, value)
    rows = Gather(table, at)
}}
",
        place(0),
        place(1),
        place(2),
        place(4),
        place(3),
    )
}

/// Writes the file of the weights, each of `bytes` bytes. Each is a hole after its first bytes, so
/// that the file takes almost no disk space.
fn write_weights(path: &Path, bytes: u64) {
    let file = File::create(path).expect("the scratch directory is writable");
    file.set_len(bytes * WEIGHTS.len() as u64).expect("the scratch directory is writable");
    for (i, name) in WEIGHTS.iter().enumerate() {
        file.write_all_at(name.as_bytes(), i as u64 * bytes)
            .expect("the scratch directory is writable");
    }
}

/// Runs `onnxc` with a limit on its data segment: the heap and writable private mappings, but not
/// mapped files or code.
fn onnxc_with_memory_limit(directory: &Path) -> Command {
    let onnxc = programs::onnxc();
    let mut command = Command::new("sh");
    command.current_dir(directory).arg("-c");
    command.arg(format!("ulimit -d {} && exec \"$@\"", MEMORY >> 10)).arg("sh");
    command.arg(onnxc.get_program()).args(["model.onnxtxt", "-o", "large.rs"]);
    command
}

#[test]
fn weights_larger_than_memory_are_compiled() {
    let megabytes = env::var("ONNXC_EXTERNAL_MB").map_or(MEGABYTES, |number| {
        number.parse().expect("`ONNXC_EXTERNAL_MB` is a number of megabytes")
    });
    let wide = 2304;
    let rows = (megabytes << 20) / (WEIGHTS.len() as u64 * 4 * wide) / 144 * 144;
    let directory = programs::scratch("external");
    fs::write(directory.join("model.onnxtxt"), model(rows, wide))
        .expect("the scratch directory is writable");
    write_weights(&directory.join("weights.data"), 4 * rows * wide);
    let start = Instant::now();
    let output = onnxc_with_memory_limit(&directory).output().expect("`sh` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = directory.join("large.weights");
    let found = fs::metadata(&written).expect("the weights have a file");
    let expected = 4 * rows * wide * WEIGHTS.len() as u64;
    // Panels are padded by less than a hundredth here.
    let range = expected..expected + expected / 100;
    assert!(range.contains(&found.len()), "{} bytes for {expected}", found.len());
    println!("{megabytes} MB in {:.1} s", start.elapsed().as_secs_f64());
    // The second run finds the weights unchanged, and writes nothing.
    let output = onnxc_with_memory_limit(&directory).output().expect("`sh` runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let again = fs::metadata(&written).expect("the weights have a file");
    assert_eq!(again.modified().ok(), found.modified().ok(), "the weights were written again");
    fs::remove_dir_all(directory).expect("the scratch directory is writable");
}
