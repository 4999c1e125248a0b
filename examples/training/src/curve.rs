//! A plot of the loss.

use std::fmt::Write;

/// The size of the picture and its margin, in pixels.
const WIDTH: f32 = 720.0;
const HEIGHT: f32 = 360.0;
const MARGIN: f32 = 40.0;

/// The weight of the previous running mean in the next one.
const KEPT: f32 = 0.95;

/// Plots the losses of all steps, and their running mean, on a logarithmic scale.
pub fn svg(losses: &[f32]) -> String {
    let mut mean = losses.first().copied().unwrap_or(1.0);
    let smooth: Vec<f32> = losses
        .iter()
        .map(|loss| {
            mean = KEPT * mean + (1.0 - KEPT) * loss;
            mean
        })
        .collect();
    let mut picture = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' \
         font-family='sans-serif' font-size='12'>\n\
         <rect width='100%' height='100%' fill='white'/>\n"
    );
    for power in LOWEST..=HIGHEST {
        let (y, value) = (height(10f32.powi(power)), 10f32.powi(power));
        let right = WIDTH - MARGIN;
        let _ = writeln!(picture, "<path d='M{MARGIN} {y:.1}H{right}' stroke='#ddd'/>");
        let _ = writeln!(picture, "<text x='2' y='{:.1}'>{value}</text>", y + 4.0);
    }
    for (values, color) in [(losses, "#b8cfe8"), (&smooth, "#1f5fa8")] {
        let points = points(values);
        let _ = writeln!(picture, "<polyline points='{points}' fill='none' stroke='{color}'/>");
    }
    let (x, y, steps) = (WIDTH / 2.0, HEIGHT - 10.0, losses.len());
    let _ = writeln!(picture, "<text x='{x}' y='{y}' text-anchor='middle'>{steps} steps</text>");
    picture + "</svg>\n"
}

/// The powers of ten between which losses are plotted.
const LOWEST: i32 = -4;
const HIGHEST: i32 = 1;

fn points(values: &[f32]) -> String {
    let step = (WIDTH - 2.0 * MARGIN) / values.len().max(2) as f32;
    let point = |(i, &value): (usize, &f32)| {
        format!("{:.1},{:.1}", MARGIN + i as f32 * step, height(value))
    };
    values.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
}

/// Returns the vertical position of a loss, from the top.
fn height(loss: f32) -> f32 {
    let [low, high] = [LOWEST, HIGHEST].map(|power| power as f32);
    let part = (loss.log10().clamp(low, high) - low) / (high - low);
    MARGIN + (1.0 - part) * (HEIGHT - 2.0 * MARGIN)
}

#[test]
fn a_picture_has_a_point_for_each_step() {
    let picture = svg(&[2.0, 1.0, 0.0, f32::NAN]);
    assert_eq!(picture.lines().filter(|line| line.contains("<polyline")).count(), 2);
    assert!(points(&[2.0, 1.0]).starts_with("40.0,"));
    assert_eq!(points(&[1.0; 5]).split(' ').count(), 5);
}
