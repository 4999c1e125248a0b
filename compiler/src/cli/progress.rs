//! Shows the phase of a command that takes long, and prints the time of each phase.
//!
//! The phase is a line at the bottom of a terminal, which disappears when something is printed.

use std::{
    io::{self, IsTerminal, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The options of every command about its progress.
#[derive(clap::Args, Clone, Copy)]
#[group(skip)]
pub struct Options {
    /// Show no progress on the terminal
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Print the time of each phase to standard error
    #[arg(long, global = true)]
    timings: bool,
}

/// A phase is shown after this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two updates of the line.
const PERIOD: Duration = Duration::from_millis(100);

/// The width of the line, in columns: that of the narrowest terminal in use.
const WIDTH: usize = 79;

static PROGRESS: Mutex<Progress> = Mutex::new(Progress::new());

struct Progress {
    /// The phase, what it is about, and its start.
    phase: Option<(&'static str, String, Instant)>,
    /// Whether the line is on the terminal.
    is_shown: bool,
    /// The phases that ended, in the order of their first start.
    times: Vec<(String, Duration)>,
}

/// Starts to show progress.
pub fn start(options: Options) {
    if options.quiet || !io::stderr().is_terminal() {
        return;
    }
    // The thread ends with the process.
    thread::spawn(|| {
        loop {
            thread::sleep(PERIOD);
            progress().show();
        }
    });
}

/// Ends the current phase, and starts another one. `about` is the file or the crate in work.
pub fn enter(phase: &'static str, about: impl Into<String>) {
    let mut progress = progress();
    progress.end_phase(None);
    progress.phase = Some((phase, about.into(), Instant::now()));
}

/// Changes what the current phase is about.
pub fn set_about(about: impl Into<String>) {
    if let Some(phase) = &mut progress().phase {
        phase.1 = about.into();
    }
}

/// Records the time since the start of the current phase as that of `part`, and starts the phase
/// again.
pub fn record_part(part: &str) {
    let mut progress = progress();
    if let Some((phase, about, _)) = progress.phase.clone() {
        progress.end_phase(Some(part));
        progress.phase = Some((phase, about, Instant::now()));
    }
}

/// Ends the current phase. Records its time as that of `part`.
pub fn end_with_part(part: &str) {
    progress().end_phase(Some(part));
}

/// Removes the line from the terminal, so that something else can be printed.
pub fn hide() {
    progress().hide();
}

/// Ends the last phase. Prints the times on demand.
pub fn finish(options: Options) {
    let mut progress = progress();
    progress.end_phase(None);
    progress.hide();
    if options.timings {
        eprint!("{}", table(&progress.times));
    }
}

fn progress() -> MutexGuard<'static, Progress> {
    // A panic leaves at most a line on the terminal.
    PROGRESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    const fn new() -> Progress {
        Progress { phase: None, is_shown: false, times: Vec::new() }
    }

    /// Ends the current phase, whose time counts for `part` of it, or for the phase itself.
    fn end_phase(&mut self, part: Option<&str>) {
        let Some((phase, _, since)) = self.phase.take() else { return };
        let (name, time) = (part.unwrap_or(phase), since.elapsed());
        match self.times.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += time,
            None => self.times.push((name.to_owned(), time)),
        }
    }

    fn show(&mut self) {
        let Some((phase, about, since)) = &self.phase else { return };
        let time = since.elapsed();
        if time >= PATIENCE {
            // Carriage return, text, and the code that clears the rest of the line.
            eprint!("\r{}\x1b[K", line(phase, about, time));
            self.is_shown = true;
        }
    }

    fn hide(&mut self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
            // A terminal that is gone shows no line.
            drop(io::stderr().flush());
            self.is_shown = false;
        }
    }
}

/// Returns the line about a phase.
fn line(phase: &str, about: &str, time: Duration) -> String {
    let text = format!("{phase} {about}");
    let seconds = format!(" ({} s)", time.as_secs());
    let text: String = text.trim_end().chars().take(WIDTH - seconds.len()).collect();
    text + &seconds
}

/// Returns the table of times, with their sum.
fn table(times: &[(String, Duration)]) -> String {
    let sum = times.iter().map(|(_, time)| time).sum();
    let rows = times.iter().map(|(name, time)| (&**name, *time)).chain([("total", sum)]);
    rows.map(|(name, time)| format!("{:9.3} s  {name}\n", time.as_secs_f64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_terminal() {
        assert_eq!(line("compile", "a.onnx", Duration::from_millis(2900)), "compile a.onnx (2 s)");
        assert_eq!(line("run", &"é".repeat(200), Duration::from_secs(10)).chars().count(), WIDTH);
    }

    #[test]
    fn the_times_of_a_phase_are_added() {
        let mut progress = Progress::new();
        for (phase, part) in [("a", None), ("b", Some("c")), ("a", None)] {
            progress.phase = Some((phase, String::new(), Instant::now()));
            progress.end_phase(part);
        }
        let names: Vec<&str> = progress.times.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "c"]);
        let times = [("plan", 1500), ("emit", 1000)]
            .map(|(name, time)| (name.to_owned(), Duration::from_millis(time)));
        let rows = table(&times);
        assert_eq!(rows, "    1.500 s  plan\n    1.000 s  emit\n    2.500 s  total\n");
    }
}
