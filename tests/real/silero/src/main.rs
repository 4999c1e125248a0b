//! Runs the voice-activity detector on a clip of speech, window by window, and compares each
//! probability with the result of ONNX Runtime.

use onnxc_runtime::view::View;
use std::{env, error::Error, fs, path::Path};

/// Includes one of the four modules of the model.
macro_rules! compiled {
    ($($name:ident)*) => {$(
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), "/silero.rs"));
        }
    )*};
}

compiled! { constant input fixed kept }

/// The samples in a window, and the samples of the window before that precede it.
const WINDOW: usize = 256;
const CONTEXT: usize = 32;

type Input = [f32; CONTEXT + WINDOW];
type State = [f32; 2 * 128];

/// The largest difference of a probability that passes.
const TOLERANCE: f32 = 1e-4;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::var("SILERO")?;
    let clip = Clip::read(Path::new(&folder))?;

    let mut model = constant::Silero::new();
    clip.check("the sample rate a constant", |input, state| {
        let given = model.infer(View::new([1, 288], input)?, View::new([2, 1, 128], state)?)?;
        state.copy_from_slice(given.state_n.data());
        Ok(given.output.data()[0])
    })?;
    let mut model = input::Silero::new();
    clip.check("the sample rate an input", |input, state| {
        let given =
            model.infer(View::new([1, 288], input)?, View::new([2, 1, 128], state)?, 8000)?;
        state.copy_from_slice(given.state_n.data());
        Ok(given.output.data()[0])
    })?;
    let mut model = fixed::Silero::new();
    clip.check("every size fixed", |input, state| {
        let given = model.infer(input, state, 8000)?;
        *state = *given.state_n;
        Ok(given.output[0])
    })?;
    let mut model = kept::Silero::new();
    for time in ["once", "and again"] {
        clip.check_probabilities(&format!("the state kept, {time}"), |input| {
            Ok(model.infer(input)?[0])
        })?;
        model.reset();
    }
    Ok(())
}

/// The speech, and the probabilities of ONNX Runtime.
struct Clip {
    samples: Vec<f32>,
    probabilities: Vec<f32>,
    last_state: Vec<f32>,
}

impl Clip {
    fn read(folder: &Path) -> Result<Clip, Box<dyn Error>> {
        let wav = fs::read(folder.join("speech_8k.wav"))?;
        let data = wav.windows(4).position(|word| word == b"data").ok_or("no samples")? + 8;
        let samples = wav[data..].as_chunks().0.iter().map(|&bytes| i16::from_le_bytes(bytes));
        Ok(Clip {
            samples: samples.map(|sample| f32::from(sample) / 32768.0).collect(),
            probabilities: read_npy(&folder.join("expected_speech_probability.npy"))?,
            last_state: read_npy(&folder.join("expected_final_state.npy"))?,
        })
    }

    /// Calls `infer` for each window of the clip, with the window and the state, which it replaces.
    fn check(
        &self,
        name: &str,
        mut infer: impl FnMut(&Input, &mut State) -> onnxc_runtime::Result<f32>,
    ) -> Result<(), Box<dyn Error>> {
        let mut state = [0.0; 256];
        self.check_probabilities(name, |input| infer(input, &mut state))?;
        let states = state.iter().zip(&self.last_state).map(|(a, b)| a - b);
        let state = states.fold(0.0, larger);
        println!("silero, {name}: the state within {state:e}");
        if state <= TOLERANCE { Ok(()) } else { Err(format!("{name}: another state").into()) }
    }

    /// Calls `infer` for each window of the clip.
    fn check_probabilities(
        &self,
        name: &str,
        mut infer: impl FnMut(&Input) -> onnxc_runtime::Result<f32>,
    ) -> Result<(), Box<dyn Error>> {
        let mut input = [0.0; CONTEXT + WINDOW];
        let windows = self.samples.chunks_exact(WINDOW);
        let (mut worst, mut count) = (0.0, 0);
        for (window, expected) in windows.zip(&self.probabilities) {
            input.copy_within(WINDOW.., 0);
            input[CONTEXT..].copy_from_slice(window);
            worst = larger(worst, infer(&input)? - expected);
            count += 1;
        }
        println!("silero, {name}: {count} probabilities within {worst:e}");
        let good = count == self.probabilities.len() && worst <= TOLERANCE;
        if good { Ok(()) } else { Err(format!("{name}: not as ONNX Runtime").into()) }
    }
}

/// Returns the larger magnitude; NaN counts as larger than any number.
fn larger(worst: f32, difference: f32) -> f32 {
    if difference.is_nan() { f32::INFINITY } else { worst.max(difference.abs()) }
}

/// Reads a NumPy file of `float32`.
fn read_npy(path: &Path) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let numbers = bytes[10 + header..].as_chunks().0;
    Ok(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}
