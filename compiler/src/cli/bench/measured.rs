//! The times and the memory of a compiled model.

use super::process::Process;
use serde_json::{Value, json};
use std::num::NonZero;

/// Measured times and memory.
pub struct Measured {
    /// The number of threads.
    threads: usize,
    /// The time of each call in microseconds, in ascending order.
    us: Vec<f64>,
    /// The time from the start of the program to its first answer, in microseconds.
    load_us: f64,
    /// The peak of one core, in GFLOP/s.
    peak: f64,
    /// The peak memory of the program, in megabytes.
    memory: f64,
}

impl Measured {
    /// Measures a program that runs with a number of threads, for this many seconds.
    pub fn of(
        program: &mut Process,
        threads: NonZero<usize>,
        seconds: f64,
    ) -> Result<Measured, String> {
        /// The milliseconds of untimed calls, in which the processor raises its clock.
        const WARM_UP: u32 = 200;
        const LEAST: u32 = 10;
        let load_us = program.load.as_secs_f64() * 1e6;
        program.ask(&format!("w {WARM_UP}"))?;
        let calls = program.ask(&format!("c {} {LEAST}", (seconds * 1e3) as u64))?;
        let calls = calls["us"].as_array().ok_or("the program reported no times")?;
        let mut us: Vec<f64> = calls.iter().filter_map(Value::as_f64).collect();
        us.sort_by(f64::total_cmp);
        let peak = program.ask("p")?["gflops"].as_f64().unwrap_or(0.0);
        let memory = program.ask("s")?["peak_rss_mb"].as_f64().unwrap_or(0.0);
        Ok(Measured { threads: threads.get(), us, load_us, peak, memory })
    }

    /// Returns the time within which this share of the calls ended, in microseconds.
    fn within(&self, share: f64) -> f64 {
        rounded(self.us[((self.us.len() - 1) as f64 * share).round() as usize])
    }

    /// Returns the speed of a model with `macs` multiply-adds in GFLOP/s, and as a share of the
    /// peak.
    fn speed(&self, macs: u64) -> (f64, f64) {
        let speed = 2.0 * macs as f64 / self.within(0.5) / 1e3;
        let peak = self.peak * self.threads as f64;
        (rounded(speed), if peak > 0.0 { speed / peak } else { 0.0 })
    }

    /// Prints the measurements of a model with `macs` multiply-adds.
    pub fn print(&self, name: &str, macs: u64) {
        let (speed, share) = self.speed(macs);
        outln!(
            "{name}: median {} us, least {} us, 90 % within {} us, of {} samples",
            self.within(0.5),
            self.within(0.0),
            self.within(0.9),
            self.us.len()
        );
        outln!(
            "{speed} GFLOP/s, {:.0} % of the {} that {} can do; first answer after {:.1} ms; \
             {:.1} MB",
            share * 100.0,
            rounded(self.peak * self.threads as f64),
            if self.threads == 1 { "one core".into() } else { format!("{} cores", self.threads) },
            self.load_us / 1e3,
            self.memory
        );
    }

    /// Returns the measurements of a model with `macs` multiply-adds as JSON.
    pub fn json(&self, name: &str, macs: u64) -> Value {
        let (speed, share) = self.speed(macs);
        json!({
            "model": name,
            "threads": self.threads,
            "median_us": self.within(0.5),
            "min_us": self.within(0.0),
            "p90_us": self.within(0.9),
            "load_us": rounded(self.load_us),
            "gflops": speed,
            "share_of_peak": rounded(share),
            "peak_rss_mb": rounded(self.memory),
        })
    }
}

/// Rounds a number to four significant digits.
pub fn rounded(x: f64) -> f64 {
    let digits = if x > 0.0 { (3 - x.log10().floor() as i32).clamp(0, 12) } else { 0 };
    let unit = 10f64.powi(digits);
    (x * unit).round() / unit
}
