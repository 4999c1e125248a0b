//! Runs one model on the inputs in the file that the first argument names, and times it. It reads
//! commands from lines, and answers each with a line of JSON:
//!
//! | line | command | answer |
//! |---|---|---|
//! | | (when the program starts) | `ready`, `load_ms`, `first_ms`, `rss_before_load_mb` |
//! | `w MS` | call the model for this time | `n`, `us` per call |
//! | `t N` | call the model this many times | `us` per call |
//! | `c MS LEAST` | time each call, or bursts of short calls | `us`, a list |
//! | `f MS` | profile calls for this time, and write files as below | `runs`, `nodes` |
//! | `o DIR` | write the outputs as little-endian elements to `outK.bin` | `outputs` |
//! | `p` | measure the peak of one core in multiply-adds | `gflops` |
//! | `s` | report memory | `peak_rss_mb`, `rss_mb` |
//! | `q` | quit | |
//!
//! A profile has three numbers for each node: of executions, their nanoseconds, and those of the
//! shortest. The files are the table `profile.txt`, the stacks `stacks.folded`, and `trace.json`
//! with the nodes of one call.

mod model;
mod runner_io;

use onnxc_runtime::{
    observe::{Event, InstantClock, Profile, Times, Trace},
    simd::{self, Simd, WithSimd},
};
use runner_io::Value;
use std::{
    fmt::Write as _,
    fs,
    hint::black_box,
    io::{self, Write as _},
    time::{Duration, Instant},
};

/// A call of the model, which returns the outputs if they are its purpose.
type Call<'c> = dyn FnMut(Purpose<'_>) -> Result<Vec<Value>, String> + 'c;

/// The purpose of a call.
enum Purpose<'p> {
    Time,
    Outputs,
    Profile(&'p mut Observers),
}

/// The observers of a call.
type Observers = (Profile<Vec<Times>, InstantClock>, Trace<Vec<Event>, InstantClock>);

/// The duration of a burst, which makes the cost of reading the clock negligible.
const BURST: Duration = Duration::from_micros(20);

fn main() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("the file of the inputs is not given")?;
    let inputs = runner_io::read(&fs::read(path).map_err(text)?);
    let before = memory("VmRSS");
    let start = Instant::now();
    model::serve(&inputs, &mut |call| {
        let load = start.elapsed();
        call(Purpose::Time)?;
        let first = start.elapsed() - load;
        print_line(&format!(
            "\"ready\":true,\"load_ms\":{},\"first_ms\":{},\"rss_before_load_mb\":{before}",
            load.as_secs_f64() * 1e3,
            first.as_secs_f64() * 1e3
        ));
        for line in io::stdin().lines() {
            let line = line.map_err(text)?;
            let mut words = line.split_whitespace();
            let (word, rest) = (words.next().unwrap_or("q"), words.collect::<Vec<_>>());
            if word == "q" {
                break;
            }
            print_line(&answer(word, &rest, call)?);
        }
        Ok(())
    })
}

fn answer(word: &str, rest: &[&str], call: &mut Call) -> Result<String, String> {
    let number = |at: usize| -> Result<u64, String> {
        rest.get(at).ok_or("a number is missing")?.parse().map_err(text)
    };
    match word {
        "w" => {
            let (wanted, start, mut n) = (Duration::from_millis(number(0)?), Instant::now(), 0);
            while n == 0 || start.elapsed() < wanted {
                call(Purpose::Time)?;
                n += 1;
            }
            Ok(format!("\"n\":{n},\"us\":{}", micros(start.elapsed(), n)))
        }
        "t" => Ok(format!("\"us\":{}", micros(times(call, number(0)?)?, number(0)?))),
        "c" => {
            let all = samples(call, Duration::from_millis(number(0)?), number(1)?)?;
            let mut list = String::new();
            for us in &all {
                let comma = if list.is_empty() { "" } else { "," };
                write!(list, "{comma}{us}").map_err(text)?;
            }
            Ok(format!("\"us\":[{list}]"))
        }
        "f" => profile(call, Duration::from_millis(number(0)?)),
        "o" => {
            let directory = rest.first().ok_or("a folder is missing")?;
            let outputs = call(Purpose::Outputs)?;
            for (k, output) in outputs.iter().enumerate() {
                if let Value::Tensor { data, .. } = output {
                    fs::write(format!("{directory}/out{k}.bin"), data).map_err(text)?;
                }
            }
            Ok(format!("\"outputs\":{}", outputs.len()))
        }
        "p" => Ok(format!("\"gflops\":{}", peak())),
        "s" => {
            Ok(format!("\"peak_rss_mb\":{},\"rss_mb\":{}", memory("VmHWM"), memory("VmRSS")))
        }
        _ => Err(format!("`{word}` is not known")),
    }
}

fn times(call: &mut Call, n: u64) -> Result<Duration, String> {
    let start = Instant::now();
    for _ in 0..n {
        call(Purpose::Time)?;
    }
    Ok(start.elapsed())
}

/// Times bursts of calls for `wanted`, and at least `least` of them. Returns microseconds per call.
fn samples(call: &mut Call, wanted: Duration, least: u64) -> Result<Vec<f64>, String> {
    let once = times(call, 1)?.min(times(call, 1)?);
    let burst = (BURST.as_nanos() / once.as_nanos().max(1) + 1) as u64;
    let (start, mut all) = (Instant::now(), Vec::new());
    while (all.len() as u64) < least || start.elapsed() < wanted {
        all.push(micros(times(call, burst)?, burst));
    }
    Ok(all)
}

fn micros(time: Duration, n: u64) -> f64 {
    time.as_secs_f64() * 1e6 / n as f64
}

/// Measures the nodes of calls for `wanted`, and records one more call.
fn profile(call: &mut Call, wanted: Duration) -> Result<String, String> {
    let mut observers = observers(0);
    let start = Instant::now();
    loop {
        call(Purpose::Profile(&mut observers))?;
        if start.elapsed() >= wanted {
            break;
        }
    }
    let profile = observers.0;
    let executions: u64 = profile.times().iter().map(Times::count).sum();
    let mut observers = self::observers(executions.div_ceil(profile.runs().max(1)));
    call(Purpose::Profile(&mut observers))?;
    let mut stacks = String::new();
    profile.write_folded(&mut stacks).map_err(text)?;
    fs::write("profile.txt", profile.to_string()).map_err(text)?;
    fs::write("stacks.folded", stacks).map_err(text)?;
    fs::write("trace.json", observers.1.to_string()).map_err(text)?;
    let times = |node: &Times| format!("[{},{},{}]", node.count(), node.total(), node.least());
    let nodes: Vec<String> = profile.times().iter().map(times).collect();
    Ok(format!("\"runs\":{},\"nodes\":[{}]", profile.runs(), nodes.join(",")))
}

/// Returns observers of which the trace records this many executions of nodes.
fn observers(events: u64) -> Observers {
    let (times, events) =
        (vec![Times::NONE; model::NODES.len()], vec![Event::default(); events as usize]);
    (
        Profile::new(model::NODES, times, InstantClock::new()),
        Trace::new(model::NODES, events, InstantClock::new()),
    )
}

/// Multiply-adds without memory accesses. Each lane counts as two operations.
struct Peak {
    iterations: u32,
}

impl Peak {
    /// The number of independent accumulators: more than a core has multiply-adds in flight, and
    /// few enough for the registers of every level.
    const CHAINS: usize = 12;
}

impl WithSimd for Peak {
    /// The number of operations.
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let (x, y) = (s.splat(black_box(0.999)), s.splat(black_box(0.001)));
        let mut accumulators = [y; Peak::CHAINS];
        for _ in 0..self.iterations {
            for accumulator in &mut accumulators {
                *accumulator = s.mul_add(*accumulator, x, y);
            }
        }
        black_box(accumulators.map(|accumulator| s.sum(accumulator)));
        f64::from(self.iterations) * (2 * Peak::CHAINS * S::LANES) as f64
    }
}

/// The peak of one core in GFLOP/s, the best of several tries.
fn peak() -> f64 {
    let once = || {
        let start = Instant::now();
        let operations = simd::dispatch(Peak { iterations: black_box(1 << 20) });
        operations / start.elapsed().as_secs_f64() / 1e9
    };
    (0..5).map(|_| once()).fold(0.0, f64::max)
}

/// The memory in use, in megabytes, or 0 if the system does not report it.
fn memory(key: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    number.map_or(0.0, |kilobytes| kilobytes / 1024.0)
}

fn print_line(fields: &str) {
    let mut out = io::stdout().lock();
    // If nobody reads the output, the next input line is missing and ends the program.
    drop(writeln!(out, "{{{fields}}}").and_then(|()| out.flush()));
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
