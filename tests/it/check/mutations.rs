//! Fuzzing: damages valid models at random. Whatever the damage, the compiler ends with a module or
//! with diagnostics, within limits of time and memory.
//!
//! `ONNXC_MUTATIONS=N` tries N models, and `ONNXC_MUTATED=FOLDER` also damages every `model.onnx`
//! below a folder.

use super::{
    bases,
    fields::{Content, Field, count, encode, find, parse_fields},
    parse,
};
use crate::programs::root;
use onnxc::{Optimize, Options, diag::Code};
use onnxc_proto::{Bytes, Message};
use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The number of models to try without `ONNXC_MUTATIONS`.
const FEW: u64 = 3_000;

/// The longest time that one compilation may take, in a debug build on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// The memory that the tests may take, in KiB.
const MOST_MEMORY: u64 = 3 << 20;

/// The stack size of a main thread, in bytes.
const STACK: usize = 8 << 20;

/// Types of values that the other bases lack: sequences, optionals and maps.
const CONTAINERS: &str = r#"
    <ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>
    g (float[N, 3] x, int64[2] at, optional(float[2]) maybe) => (seq(float[N, 3]) s, y, m, o, p)
    <int64 zero = {0}, int64[2] to = {3, -1}, string[2] words = {"a", "b"},
     uint4[3] small = {1, 2, 3}>
    {
        s = SequenceConstruct(x, x)
        e = SequenceAt(s, zero)
        sizes = Shape(e)
        flat = Reshape(e, to)
        turned = Transpose<perm = [1, 0]>(flat)
        y = Gather<axis = 1>(turned, at)
        m = ai.onnx.ml.ZipMap<classlabels_strings = ["a", "b", "c"]>(x)
        has = OptionalHasElement(maybe)
        two = Constant<value_ints = [2]>()
        o = If<
            then_branch = yes () => (value) { value = OptionalGetElement(maybe) },
            else_branch = no () => (zeros) { zeros = ConstantOfShape(two) }
        >(has)
        wide = Cast<to = 1>(small)
        p = Einsum<equation = "ij,jk->ik">(x, turned)
    }
"#;

/// Convolution, pooling and other image operators, with constants to fold.
const IMAGES: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[1, 2, 6, N] x) => (z)
    <float[2, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9},
     float[2] b = {0, 1}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1},
     float[4] scales = {1, 1, 2, 2}, int64[2] starts = {0, -2}, int64[2] ends = {9, 100}>
    {
        padded = Pad<mode = "reflect">(x, pads)
        conv = Conv<group = 2, strides = [2, 1], dilations = [1, 2],
            pads = [1, 0, 1, 0]>(padded, w, b)
        pooled = MaxPool<kernel_shape = [2, 2], ceil_mode = 1, auto_pad = "SAME_UPPER">(conv)
        none = Identity(pooled)
        big = Resize<mode = "linear">(none, "", scales)
        part = Slice(big, starts, ends)
        normal = BatchNormalization(part, b, b, b, b)
        left, right = Split<axis = 1, num_outputs = 2>(normal)
        both = Concat<axis = -1>(left, right)
        k = Constant<value_ints = [2]>()
        top, where = TopK(both, k)
        z = Softmax(top)
    }
"#;

/// Weights in a file in `tests/models`, with all entries of the external data.
const EXTERNAL: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (z)
    <float[2] w = ["location": "external.data", "offset": "0", "length": "8"],
     float[1] v = ["location": "external.data", "offset": "4"]>
    {
        c = Constant<value = float[1] = ["location": "external.data", "length": "4"]>()
        y = Mul(x, w)
        k = Sub(c, v)
        z = Add(y, k)
    }
"#;

/// Arithmetic with sizes, and sizes that grow from iteration to iteration.
const SIZES: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[a, b] x, int64 n, bool go) => (y, z, w, wide)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}>
    {
        sizes = Shape(x)
        a = Gather(sizes, zero)
        b = Gather(sizes, one)
        sum = Add(a, b)
        square = Mul(sum, sum)
        less = Sub(square, a)
        part = Div(less, two)
        most = Max(part, b)
        rest = Mod(most, b)
        to = Concat<axis = 0>(rest, a)
        wide = Expand(one, to)
        twice = Concat<axis = 0>(one, two)
        y = Tile(x, twice)
        z, w = Loop<body = iteration (int64 i, bool on, v) => (bool again, longer, short) {
            again = Identity(on)
            longer = Concat<axis = 0>(v, v, one)
            short = Slice(v, zero, one)
        }>(n, go, a)
    }
"#;

/// A random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Changes one field.
fn damage_field(model: &mut Vec<Field>, random: &mut Random) {
    const NUMBERS: &[u64] = &[
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        11,
        13,
        16,
        21,
        28,
        100,
        127,
        255,
        1 << 20,
        1 << 31,
        1 << 32,
        1 << 40,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
        u64::MAX - 1,
    ];
    let total = count(model);
    if total == 0 {
        return;
    }
    let other = {
        let (list, place) = find(model, random.below(total));
        list[place].clone()
    };
    let (list, place) = find(model, random.below(total));
    match random.below(8) {
        0 => drop(list.remove(place)),
        1 => list.insert(place, list[place].clone()),
        2 => {
            let last = random.below(list.len());
            list.swap(place, last);
        }
        3 => list[place].content = other.content,
        4 => list.insert(place, other),
        _ => match &mut list[place].content {
            Content::Number(value) => *value = NUMBERS[random.below(NUMBERS.len())],
            Content::Fixed(bytes) => {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            Content::Text(bytes) => match random.below(3) {
                0 => bytes.truncate(random.below(bytes.len())),
                1 if !bytes.is_empty() => {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
                _ => bytes.extend([0, 0xff, b'a'].into_iter().take(random.below(3))),
            },
            Content::Message(inner) => inner.reverse(),
        },
    }
}

/// Changes the text of a model: deletes, truncates, copies or inserts.
fn damage_text(text: &mut Vec<u8>, random: &mut Random) {
    const PARTS: &[&str] = &[
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "=",
        "=>",
        "\"",
        "\\",
        "#",
        "@",
        "-1",
        "1e999",
        "9223372036854775808",
        "0x",
        "nan",
        "float",
        "seq(",
        "optional(float)",
        "map(string, float)",
        "sparse_tensor",
        "\u{202e}",
        "\0",
        "\n",
        "x",
        "",
    ];
    let at = random.below(text.len());
    let end = (at + 1 + random.below(12)).min(text.len());
    match random.below(5) {
        0 => drop(text.drain(at..end)),
        1 => text.truncate(at),
        2 => {
            let part = text[at..end].to_vec();
            let to = random.below(text.len());
            drop(text.splice(to..to, part));
        }
        _ => {
            let part = PARTS[random.below(PARTS.len())].bytes();
            let end = if random.below(2) == 0 { at } else { end };
            drop(text.splice(at..end, part));
        }
    }
}

/// Returns the bytes of the model after some changes: of characters if it is text, else of fields
/// or, rarely, of a byte.
fn damage_model(model: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        random.next();
    }
    if model.trim_ascii_start().starts_with(b"<") {
        let mut text = model.to_vec();
        for _ in 0..=random.below(3) {
            damage_text(&mut text, &mut random);
        }
        return text;
    }
    if random.below(20) == 0 {
        let mut bytes = model.to_vec();
        let at = random.below(bytes.len());
        bytes[at] = random.next() as u8;
        return bytes;
    }
    let mut fields = parse_fields(model).expect("a model is a message");
    for _ in 0..=random.below(3) {
        damage_field(&mut fields, &mut random);
    }
    encode(&fields)
}

fn models() -> Vec<(String, Vec<u8>)> {
    let texts = [
        bases::PLAIN,
        bases::BRANCH,
        bases::LOOP,
        bases::CALLS,
        bases::SPARSE,
        bases::COORDINATES,
        CONTAINERS,
        IMAGES,
        EXTERNAL,
        SIZES,
    ];
    let mut models: Vec<(String, Vec<u8>)> = Vec::new();
    for (i, text) in texts.into_iter().enumerate() {
        models.push((format!("base {i}"), parse(text).encode_to_vec()));
        models.push((format!("the text of base {i}"), text.into()));
    }
    models.push(("training".into(), bases::training(bases::STEP).encode_to_vec()));
    let digits = fs::read(root().join("examples/models/digits.onnx"));
    models.push(("digits".into(), digits.expect("the model is checked in")));
    if let Some(folder) = env::var_os("ONNXC_MUTATED") {
        let mut paths = Vec::new();
        models_below(Path::new(&folder), &mut paths);
        let read = |path: PathBuf| {
            let bytes = fs::read(&path).expect("the model was listed");
            (path.display().to_string(), bytes)
        };
        models
            .extend(paths.into_iter().map(read).filter(|(_, bytes)| parse_fields(bytes).is_some()));
    }
    models
}

fn models_below(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder exists")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            models_below(&path, found);
        } else if path.ends_with("model.onnx") {
            found.push(path);
        }
    }
}

/// Returns options that find external data in `tests/models`.
fn options() -> Options {
    let mut options = Options::default();
    options.settings.directory = Some(root().join("tests/models"));
    options
}

/// Compiles a model. Returns the message of a panic or an internal error, if there is one.
fn find_fault(model: Vec<u8>, optimize: Optimize) -> Option<String> {
    let compile = || {
        let mut options = options();
        options.optimize = optimize;
        onnxc::Compiler::new(&options).compile_bytes(Bytes::from(model), "model")
    };
    match catch_unwind(AssertUnwindSafe(compile)) {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
            Some(text.unwrap_or_else(|| "a panic".into()))
        }
        Ok(Ok(_)) => None,
        Ok(Err(found)) => {
            let bug = found.0.iter().find(|diagnostic| diagnostic.code == Code::Internal);
            bug.map(ToString::to_string)
        }
    }
}

#[test]
fn base_models_compile() {
    for (name, model) in models().into_iter().take(20) {
        let model = Bytes::from(model);
        let compiled = onnxc::Compiler::new(&options()).compile_bytes(model, "model");
        assert!(compiled.is_ok(), "{name}\n{}", compiled.err().expect("compiling failed"));
    }
}

#[test]
fn damaged_models_cause_no_panic() {
    let tries = env::var("ONNXC_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(FEW);
    let first = env::var("ONNXC_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let models = models();
    let (send, receive) = mpsc::channel();
    let current = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.onnx");
    let work = move || {
        for seed in first..first + tries {
            let (name, model) = &models[(seed % models.len() as u64) as usize];
            let model = damage_model(model, seed);
            // Sent before compiling, so that the receiver knows which model hangs; and stored,
            // because an abort ends this process too.
            fs::write(&current, &model).expect("cargo made the directory");
            if send.send((seed, name.clone(), model.clone(), None)).is_err() {
                return;
            }
            let optimize = if seed % 4 == 0 { Optimize::Size } else { Optimize::Speed };
            if let Some(fault) = find_fault(model.clone(), optimize) {
                drop(send.send((seed, name.clone(), model, Some(fault))));
            }
        }
    };
    thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread starts");
    let mut faults = Vec::new();
    let mut last: Option<(u64, String, Vec<u8>)> = None;
    loop {
        match receive.recv_timeout(LONGEST) {
            Ok((seed, name, model, fault)) => {
                if let Some(fault) = fault {
                    faults.push(report_fault(seed, &name, &model, &fault));
                }
                last = Some((seed, name, model));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let (seed, name, model) = last.expect("the first model was sent");
                faults.push(report_fault(seed, &name, &model, "it does not end"));
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    let peak = peak_memory();
    assert!(peak < MOST_MEMORY, "the tests took {peak} KiB");
}

/// Formats a fault as a line, and stores the model.
fn report_fault(seed: u64, name: &str, model: &[u8], fault: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("damaged_{seed}.onnx"));
    fs::write(&path, model).expect("cargo made the directory");
    format!("{}, from {name}: {fault}", path.display())
}

/// Returns the peak resident memory of this process in KiB, or 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
