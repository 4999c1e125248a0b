//! Runs for a long time: 24 threads share a model that is replaced meanwhile, and each keeps the
//! state of a stream; a trained model is saved while it learns, and files of it are cut at every
//! byte. Each result must be one that a thread alone computes, a file that is cut must change
//! nothing, and the memory must not grow.
//!
//! The environment variable `ONNXC_LONG_RUN` is the time in seconds.

mod learn;
mod network;
mod stream;

use learn::Learn;
use network::{Network, NetworkArena};
use onnxc_runtime::arena::{Checksum, Trailer};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::{scope, sleep, yield_now},
    time::{Duration, Instant},
};
use stream::{Stream, StreamArena};

static WEIGHTS: &[u8] = include_bytes!("network.weights");
const THREADS: usize = 24;
/// The number of images, and of the steps of a stream before it starts again.
const STEPS: usize = 32;
/// The growth of the memory that buffers of the allocator may cause, in bytes.
const SLACK: usize = 16 << 20;

/// The weights in use, by number: those of the model, and a half of each.
fn weights(number: usize) -> Vec<u8> {
    let (floats, rest) = WEIGHTS[..Network::WEIGHT_BYTES].as_chunks::<4>();
    let scale = [1.0, 0.5][number];
    let each = floats.iter().flat_map(|&bytes| (f32::from_le_bytes(bytes) * scale).to_le_bytes());
    let mut all: Vec<u8> = each.chain(rest.iter().copied()).collect();
    all.extend(Trailer::new(Network::WEIGHT_LAYOUT, &all).to_bytes());
    all
}

fn image(seed: usize) -> [f32; 24] {
    std::array::from_fn(|i| ((i * 37 + seed * 11) % 29) as f32 / 10.0 - 1.4)
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// The input of a step of a stream.
fn sound(step: usize) -> [f32; 2] {
    [0, 1].map(|i| ((step * 5 + i * 3) % 7) as f32 / 4.0 - 0.75)
}

/// The results of a thread alone.
struct Expected {
    /// The scores of each image, with the weights of each number.
    scores: [Vec<Vec<u32>>; 2],
    /// The outputs of a stream, as text.
    stream: Vec<String>,
}

impl Expected {
    fn new() -> Expected {
        let scores = [0, 1].map(|number| {
            let mut model = Network::with_weights(weights(number)).unwrap();
            (0..STEPS).map(|seed| bits(model.infer(&image(seed)).scores)).collect()
        });
        let mut stream = Stream::new();
        let stream = (0..STEPS).map(|step| format!("{:?}", stream.infer(&sound(step)))).collect();
        Expected { scores, stream }
    }
}

/// The model in use, with the number of its weights.
type Current = RwLock<Arc<(usize, Network)>>;

/// Runs the model in use, and a stream, until the end.
fn infer(current: &Current, expected: &Expected, end: Instant, me: usize) {
    let (mut arena, mut state) = (NetworkArena::new(), StreamArena::new());
    let stream = Stream::new();
    for round in me.. {
        state.reset();
        for (step, text) in expected.stream.iter().enumerate() {
            let model = current.read().unwrap().clone();
            let seed = (round + step) % STEPS;
            let scores = bits(model.1.infer_in(&mut arena, &image(seed)).scores);
            assert_eq!(scores, expected.scores[model.0][seed], "with weights {}", model.0);
            assert_eq!(format!("{:?}", stream.infer_in(&mut state, &sound(step))), *text);
        }
        if Instant::now() > end {
            return;
        }
        yield_now();
    }
}

/// Replaces the model until the end. Returns how often.
fn replace(current: &Current, end: Instant) -> usize {
    let mut count = 0;
    while Instant::now() < end {
        count += 1;
        let model = Network::with_weights(weights(count % 2)).unwrap();
        let new = Arc::new((count % 2, model));
        let old = std::mem::replace(&mut *current.write().unwrap(), new);
        drop(old);
        sleep(Duration::from_millis(1));
    }
    count
}

/// Saves a model to a new file, which then takes the name of the old one: a checksum, and a file of
/// safetensors.
fn save(model: &Mutex<Learn>, path: &Path) {
    let bytes = model.lock().unwrap().variables().to_safetensors().unwrap();
    let file = [&Checksum::of(&bytes).to_le_bytes()[..], &bytes].concat();
    let new = path.with_extension("new");
    fs::write(&new, file).unwrap();
    fs::rename(new, path).unwrap();
}

/// Returns the variables in a file, if it is whole.
fn whole(file: &[u8]) -> Option<&[u8]> {
    let (sum, bytes) = file.split_first_chunk::<8>()?;
    (Checksum::of(bytes) == u64::from_le_bytes(*sum)).then_some(bytes)
}

/// Reads files of a model until the end. Returns how many.
fn restore(path: &Path, end: Instant) -> usize {
    let mut copy = Learn::new();
    copy.init();
    let mut count = 0;
    while Instant::now() < end {
        let file = fs::read(path).unwrap();
        let bytes = whole(&file).expect("a file is replaced as a whole");
        let before = copy.variables().to_safetensors().unwrap();
        for len in 0..file.len() {
            assert!(whole(&file[..len]).is_none(), "cut at byte {len}");
            if let Some(cut) = bytes.get(..len).filter(|cut| cut.len() < bytes.len()) {
                assert!(copy.variables().load_safetensors(cut).is_err(), "cut at byte {len}");
            }
        }
        assert!(copy.variables().to_safetensors().unwrap() == before, "a cut file changes nothing");
        copy.variables().load_safetensors(bytes).unwrap();
        let again = copy.variables().to_safetensors().unwrap();
        assert!(again == bytes, "variables are written as they were read");
        count += 1;
    }
    count
}

/// Returns the resident memory in bytes, where the system tells.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

fn main() {
    let seconds = std::env::var("ONNXC_LONG_RUN").map_or(1, |text| text.parse().unwrap());
    let (start, time) = (Instant::now(), Duration::from_secs(seconds));
    let end = start + time;
    let folder: PathBuf = std::env::current_exe().unwrap().parent().unwrap().into();
    let path = folder.join("learned.safetensors");
    let expected = Expected::new();
    let model = Network::with_weights(weights(0)).unwrap();
    let current: Current = RwLock::new(Arc::new((0, model)));
    let mut learning = Learn::new();
    learning.init();
    let learning = Mutex::new(learning);
    save(&learning, &path);
    let [trained, saved] = [const { AtomicUsize::new(0) }; 2];
    scope(|scope| {
        for me in 0..THREADS {
            let (current, expected) = (&current, &expected);
            scope.spawn(move || infer(current, expected, end, me));
        }
        let replaced = scope.spawn(|| replace(&current, end));
        let restored = scope.spawn(|| restore(&path, end));
        scope.spawn(|| {
            while Instant::now() < end {
                learning.lock().unwrap().fit(&[1.0; 8], &[2.0; 4]);
                trained.fetch_add(1, Relaxed);
                yield_now();
            }
        });
        scope.spawn(|| {
            while Instant::now() < end {
                save(&learning, &path);
                saved.fetch_add(1, Relaxed);
            }
        });
        sleep(time / 10);
        let before = resident();
        let (replaced, restored) = (replaced.join().unwrap(), restored.join().unwrap());
        let after = resident();
        println!("replaced {replaced} times, restored {restored} times");
        println!("{before} bytes of memory after a tenth, {after} at the end");
        assert!(replaced > 0 && restored > 0 && after < before + before / 10 + SLACK);
    });
    println!("trained {trained:?} steps, saved {saved:?} times");
}
