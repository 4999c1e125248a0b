//! Runs the models of this project. The first argument names a file whose lines are `NUMBER`,
//! `INPUT` and `OUTPUT`, separated by tabs: the number of a model, and the files of its inputs and
//! outputs. An error is written to a file beside the output.

use std::{fs, panic, thread};

/// The size of the stack, in bytes. Debug builds need much of it.
const STACK: usize = 256 << 20;

fn main() {
    let list = std::env::args().nth(1).expect("the list of models is given");
    let list = fs::read_to_string(list).expect("the list can be read");
    let run = move || list.lines().for_each(one);
    let thread = thread::Builder::new().stack_size(STACK).spawn(run);
    thread.expect("the system can start a thread").join().expect("every model's panic is caught");
}

fn one(line: &str) {
    let mut parts = line.split('\t');
    let mut next = || parts.next().expect("a line has three parts");
    let (number, input, output) = (next(), next(), next());
    let number: usize = number.parse().expect("a model has a number");
    let run = || runner_models::run(number, &fs::read(input).expect("the inputs can be read"));
    let (path, bytes) = match panic::catch_unwind(run) {
        Ok(Ok(bytes)) => (output.to_owned(), bytes),
        Ok(Err(error)) => (format!("{output}.failed"), error.into_bytes()),
        Err(_) => (format!("{output}.failed"), b"the model panicked".to_vec()),
    };
    fs::write(path, bytes).expect("the outputs can be written");
}
