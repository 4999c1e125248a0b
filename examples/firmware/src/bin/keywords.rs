//! Says on a Cortex-M4 which of twelve words was spoken. A second of sound is 49 slices of ten
//! cepstral coefficients; here a microphone's part is played by a formula.
#![no_std]
#![no_main]

#[rustfmt::skip]
#[path = "../models/keywords_int8.rs"]
mod keywords_int8;

use cortex_m_rt::entry;
use digits_firmware::{exit, print, print_number, print_score};
use keywords_int8::KeywordsInt8;
use onnxc_runtime::arena::{Block, InlineArena};

const SLICES: usize = 49;
const COEFFICIENTS: usize = 10;

/// What the coefficients are: each swings with its own period.
fn sound() -> [f32; SLICES * COEFFICIENTS] {
    core::array::from_fn(|i| {
        let (slice, coefficient) = (i / COEFFICIENTS, i % COEFFICIENTS);
        let period = coefficient + 5;
        (slice % period) as f32 / period as f32 * 2.0 - 1.0
    })
}

#[entry]
fn main() -> ! {
    // The variable is a static one: `entry` sees to it that it is borrowed once.
    static mut ARENA: InlineArena<{ KeywordsInt8::PEAK_ARENA_BYTES.div_ceil(Block::BYTES) }> =
        InlineArena::new();
    let mut model = KeywordsInt8::new();
    let scores = model.infer_in(ARENA, &sound());
    let mut best = 0;
    for (word, &score) in scores.iter().enumerate() {
        print_score(score);
        print("\n");
        if score > scores[best] {
            best = word;
        }
    }
    print("word ");
    print_number(best as u32, 1);
    print("\n");
    exit()
}
