//! A protocol for all runtimes: that of the program which `onnxc bench` builds
//! (`compiler/src/cli/bench/program.rs`), as far as `compare.py` uses it.
//!
//! A program is started as `PROGRAM MODEL FOLDER THREADS`. In the folder, `manifest.txt` lists the
//! inputs and outputs of the model, a line each: `in x float32 1,3,224,224 in0.bin`, or `out …`.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The errors of a runtime are passed through.
pub type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Elements of a type that the models have as input or output.
#[derive(Clone)]
pub enum Elements {
    /// `float`.
    F32(Vec<f32>),
    /// `int64`.
    I64(Vec<i64>),
}

impl Elements {
    fn read(dtype: &str, bytes: &[u8]) -> Result<Elements> {
        Ok(match dtype {
            "float32" => Elements::F32(
                bytes.as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x)).collect(),
            ),
            "int64" => Elements::I64(
                bytes.as_chunks::<8>().0.iter().map(|&x| i64::from_le_bytes(x)).collect(),
            ),
            _ => return Err(format!("elements of type {dtype} are not compared").into()),
        })
    }

    /// Returns the elements as little-endian bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Elements::F32(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Elements::I64(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

/// An input of the model, or an output, whose elements are zeros.
#[derive(Clone)]
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements.
    pub elements: Elements,
}

/// The arguments of a program.
pub struct Job {
    /// The file of the model.
    pub model: PathBuf,
    /// The inputs.
    pub inputs: Vec<Port>,
    /// The outputs.
    pub outputs: Vec<Port>,
    /// The number of threads.
    pub threads: usize,
}

impl Job {
    fn from_arguments() -> Result<Job> {
        let arguments: Vec<String> = std::env::args().collect();
        let [_, model, folder, threads] = arguments.as_slice() else {
            return Err("a model, a folder and a number of threads are wanted".into());
        };
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for line in fs::read_to_string(Path::new(folder).join("manifest.txt"))?.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, name, dtype, sizes, file] = words.as_slice() else {
                return Err(format!("`{line}` is no line of a manifest").into());
            };
            let sizes = sizes.split(',').filter(|size| !size.is_empty());
            let shape = sizes.map(str::parse).collect::<std::result::Result<Vec<usize>, _>>()?;
            let elements = Elements::read(dtype, &fs::read(Path::new(folder).join(file))?)?;
            let ports = if *kind == "in" { &mut inputs } else { &mut outputs };
            ports.push(Port { name: (*name).into(), shape, elements });
        }
        Ok(Job { model: model.into(), inputs, outputs, threads: threads.parse()? })
    }
}

/// A runtime that has loaded a model and its inputs.
pub trait Peer {
    /// Runs the model once.
    fn run(&mut self) -> Result;

    /// Returns the outputs of the last run, in the order of the job.
    fn outputs(&mut self) -> Result<Vec<Elements>>;
}

/// Loads the model of the command line, and serves the requests on the standard input.
pub fn serve<P: Peer>(load: impl FnOnce(&Job) -> Result<P>) {
    if let Err(error) = try_serve(load) {
        let text = error.to_string().replace(['"', '\\', '\n', '\r', '\t'], " ");
        say(&format!("\"error\":\"{text}\""));
    }
}

fn try_serve<P: Peer>(load: impl FnOnce(&Job) -> Result<P>) -> Result {
    let job = Job::from_arguments()?;
    let start = Instant::now();
    let mut peer = load(&job)?;
    let loaded = start.elapsed();
    peer.run()?;
    let (load, first) = (millis(loaded), millis(start.elapsed() - loaded));
    say(&format!("\"ready\":true,\"load_ms\":{load},\"first_ms\":{first}"));
    for line in io::stdin().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "w" => {
                let (wanted, start, mut n) =
                    (Duration::from_millis(rest.parse()?), Instant::now(), 0);
                while n == 0 || start.elapsed() < wanted {
                    peer.run()?;
                    n += 1;
                }
                say(&format!("\"n\":{n},\"us\":{}", millis(start.elapsed()) * 1e3 / f64::from(n)));
            }
            "t" => {
                let (n, start) = (rest.parse::<u32>()?, Instant::now());
                for _ in 0..n {
                    peer.run()?;
                }
                say(&format!("\"us\":{}", millis(start.elapsed()) * 1e3 / f64::from(n)));
            }
            "o" => {
                let outputs = peer.outputs()?;
                for (k, output) in outputs.iter().enumerate() {
                    fs::write(Path::new(rest).join(format!("out{k}.bin")), output.bytes())?;
                }
                say(&format!("\"outputs\":{}", outputs.len()));
            }
            _ => break,
        }
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn say(fields: &str) {
    let mut to = io::stdout().lock();
    writeln!(to, "{{{fields}}}").and_then(|()| to.flush()).expect("the listener runs");
}
