//! Targets with an operating system. Without arguments, the program prints its answers. With files,
//! it compares the answers of other targets with its own.

use onnxc_targets::{Arena, run};
use std::{collections::BTreeMap, env, fs, process::ExitCode};

/// The largest difference of a float from the host's, relative to the largest element of the
/// output.
const TOLERANCE: f32 = 1e-5;

/// An output: the kind of its elements, and their bits.
type Output = (String, Vec<u32>);

pub fn main() -> ExitCode {
    let answers = answers();
    let mut files = env::args().skip(1).peekable();
    if files.peek().is_none() {
        print!("{answers}");
        return ExitCode::SUCCESS;
    }
    let wrong: Vec<String> = files.filter_map(|file| differs(&answers, &file)).collect();
    for diagnostic in &wrong {
        println!("{diagnostic}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn answers() -> String {
    let mut bytes = Vec::new();
    run(&mut Box::new(Arena::new()), &mut |text| bytes.extend_from_slice(text));
    String::from_utf8(bytes).expect("the models print ASCII")
}

/// Compares the answers in a file with the host's; returns a message if they differ.
fn differs(wanted: &str, file: &str) -> Option<String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return Some(format!("{file}: {error}")),
    };
    let (wanted, found) = (outputs(wanted), outputs(&text));
    let mut names = found.keys().filter(|&name| name != "stack").peekable();
    if names.peek().is_none() {
        return Some(format!("{file} has no answers"));
    }
    names.find(|&name| !same(&found[name], wanted.get(name))).map(|name| {
        format!("{file}: {name} is {:x?}, on the host {:x?}", found[name], wanted.get(name))
    })
}

fn outputs(text: &str) -> BTreeMap<String, Output> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (name, kind) = (words.next()?, words.next()?);
        let bits = words.map(|word| u32::from_str_radix(&word, 16).ok());
        Some((name, (kind, bits.collect::<Option<_>>()?)))
    };
    text.lines().filter_map(line).collect()
}

fn same(found: &Output, wanted: Option<&Output>) -> bool {
    let Some(wanted) = wanted else { return false };
    if found == wanted {
        return true;
    }
    let numbers = |(_, bits): &Output| bits.iter().map(|&x| f32::from_bits(x)).collect::<Vec<_>>();
    let (x, y) = (numbers(found), numbers(wanted));
    let most = y.iter().fold(0.0f32, |most, y| most.max(y.abs()));
    let near = |(x, y): (&f32, &f32)| (x - y).abs() <= TOLERANCE * most;
    found.0 == "f" && wanted.0 == "f" && x.len() == y.len() && x.iter().zip(&y).all(near)
}
