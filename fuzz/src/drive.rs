//! Runs targets on made-up bytes, without coverage, on any toolchain.
//!
//! ```text
//! drive TARGET [SECONDS] [SEED]   makes up bytes
//! drive TARGET FILE…              runs the target on files, such as those of `artifacts`
//! drive                           runs all targets on the files of `corpus`
//! drive show TARGET FILE…         prints the models of mutants or gradients
//! ```
//!
//! Bytes that make a target panic are written to `artifacts/TARGET`.

use onnxc::import::value;
use onnxc_fuzz::{
    TARGETS, choices::Choices, gradient, mutant::mutant, npy, random::Random, safetensors, seeds,
};
use onnxc_proto::Message;
use std::{
    env, fs,
    panic::catch_unwind,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

/// The time in which a target must be through with its bytes.
const SLOW: Duration = Duration::from_secs(2);

/// Changes some bytes: replaces, removes, repeats or inserts them.
fn mutate(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(8)).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.next() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..end.max(at))),
            3 => {
                let part = bytes[at..end.max(at)].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let new = random.bytes(3);
                bytes.splice(at..at, new);
            }
        }
    }
    bytes
}

/// Makes up the bytes for a target.
fn make(target: &str, random: &mut Random) -> Vec<u8> {
    match target {
        "model" => {
            let seeds = seeds::all();
            let seed = &seeds[random.below(seeds.len())];
            let text = random.below(3) == 0;
            let bytes = if text {
                onnxc::import::print::model(seed, 64).into_bytes()
            } else {
                seed.encode_to_vec()
            };
            mutate(bytes, random)
        }
        "tensor" => {
            let tensors: Vec<_> = seeds::all()
                .iter()
                .flat_map(|seed| &seed.graph)
                .flat_map(|graph| &graph.initializer)
                .collect();
            let tensor = tensors[random.below(tensors.len())].encode_to_vec();
            mutate([vec![random.next() as u8], tensor].concat(), random)
        }
        "numpy" => {
            let tensors: Vec<_> = seeds::all()
                .iter()
                .flat_map(|seed| &seed.graph)
                .flat_map(|graph| &graph.initializer)
                .filter_map(|tensor| value::read(tensor.encode_to_vec().into(), None).ok())
                .filter_map(|value| npy::write(value.tensor()?).ok())
                .collect();
            let file = tensors[random.below(tensors.len())].clone();
            [vec![random.next() as u8], mutate(file, random)].concat()
        }
        "safetensors" => mutate(safetensors::example(), random),
        _ => {
            let count = 2 + random.below(40);
            random.bytes(count)
        }
    }
}

/// Runs a target on bytes. Returns whether it panics or is slow.
fn fails(run: fn(&[u8]), bytes: &[u8]) -> bool {
    let start = Instant::now();
    let result = catch_unwind(|| run(bytes));
    // Miri takes a thousand times as long.
    let is_slow = start.elapsed() > SLOW && !cfg!(miri);
    if is_slow {
        eprintln!("it took {:?}", start.elapsed());
    }
    result.is_err() || is_slow
}

fn file_fails(run: fn(&[u8]), path: &Path) -> bool {
    let bytes = fs::read(path).expect("the file can be read");
    fails(run, &bytes)
}

/// Runs each target on the files of its corpus.
fn replay() -> ExitCode {
    let mut failed = 0;
    for (name, run) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let entries = fs::read_dir(folder).expect("each target has a corpus");
        let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        println!("{name}: {} files", paths.len());
        for path in paths.iter().filter(|path| file_fails(run, path)) {
            failed += 1;
            println!("{} FAILS", path.display());
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the models that a target makes of files.
fn show(target: &str, paths: &[String]) -> ExitCode {
    for path in paths {
        let bytes = fs::read(path).expect("the file can be read");
        let model = match target {
            "gradient" => gradient::model(&bytes).map(|(model, _)| model),
            _ => mutant(&mut Choices::new(&bytes)),
        };
        let text = model.map(|model| onnxc::import::print::model(&model, 64));
        println!("{path}: {}", text.unwrap_or_default());
    }
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let Some(name) = arguments.next() else { return replay() };
    if name == "show" {
        let target = arguments.next().unwrap_or_default();
        return show(&target, &arguments.collect::<Vec<String>>());
    }
    let Some(&(name, run)) = TARGETS.iter().find(|(target, _)| *target == name) else {
        eprintln!("usage: drive TARGET [SECONDS] [SEED], drive TARGET FILE…, or drive");
        return ExitCode::FAILURE;
    };
    let rest: Vec<String> = arguments.collect();
    if rest.first().is_some_and(|first| Path::new(first).exists()) {
        let failed = rest.iter().filter(|path| {
            let fails = file_fails(run, Path::new(path));
            println!("{path}: {}", if fails { "FAILS" } else { "passes" });
            fails
        });
        return if failed.count() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let number = |i: usize, default| rest.get(i).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (seconds, mut random) = (number(0, 60), Random(number(1, 1)));
    let (start, mut count, mut found) = (Instant::now(), 0_u64, 0_u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes = make(name, &mut random);
        count += 1;
        if fails(run, &bytes) {
            found += 1;
            let directory = Path::new("artifacts").join(name);
            fs::create_dir_all(&directory).expect("the directory can be written");
            let path = directory.join(format!("{found}"));
            fs::write(&path, &bytes).expect("the directory was made above");
            eprintln!("{} fails", path.display());
        }
    }
    println!("{name}: {count} executions, {found} failures");
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
