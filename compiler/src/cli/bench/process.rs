//! Runs the program that is timed, and exchanges lines with it as `program.rs` documents.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    num::NonZero,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// A running program, with pipes to it and from it.
pub struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// The time from the program's start to its first answer.
    pub load: Duration,
}

impl Process {
    /// Starts the program in its folder, which has its inputs too, with a number of threads, and
    /// waits for its first answer.
    pub fn start(program: &Path, threads: NonZero<usize>) -> Result<Process, String> {
        let folder = program.parent().ok_or("the program is in no folder")?;
        let start = Instant::now();
        let mut command = Command::new(program);
        command.arg("inputs").current_dir(folder).env("ONNXC_THREADS", threads.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let to = child.stdin.take().ok_or("the program has no standard input")?;
        let from = BufReader::new(child.stdout.take().ok_or("the program has no standard output")?);
        let mut process = Process { child, to, from, load: Duration::ZERO };
        process.read_answer()?;
        process.load = start.elapsed();
        Ok(process)
    }

    /// Sends a line, and returns the answer.
    pub fn ask(&mut self, line: &str) -> Result<serde_json::Value, String> {
        writeln!(self.to, "{line}").map_err(|error| error.to_string())?;
        self.read_answer()
    }

    fn read_answer(&mut self) -> Result<serde_json::Value, String> {
        let mut line = String::new();
        self.from.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.is_empty() {
            return Err(self.final_errors());
        }
        serde_json::from_str(&line).map_err(|error| error.to_string())
    }

    /// Returns the errors that the program printed before it ended.
    fn final_errors(&mut self) -> String {
        let errors = self.child.stderr.take();
        let text = errors.and_then(|errors| std::io::read_to_string(errors).ok());
        text.filter(|text| !text.is_empty())
            .unwrap_or_else(|| "the program ended without an answer".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail harmlessly if the program has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
