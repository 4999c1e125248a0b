//! Convolutions in few instructions, for where space matters more than time: one loop gathers what a
//! window sees, another one multiplies it with the weights of each filter.

use super::Conv;
use crate::activation_fn::Activation;
use crate::simd::dot::dot;

/// Where windows are gathered.
pub(crate) struct Room<'a, T> {
    /// For the elements of a window of one channel.
    pub starts: &'a mut [u32],
    /// For those of all channels of a group.
    pub window: &'a mut [T],
}

/// `y = f(w ∗ x + bias + add)`. The weights are plain. `starts` and `window` are for the elements of a
/// window of one channel, and of all channels of a group.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub fn small_conv(
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    starts: &mut [u32],
    window: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    convolve(x, w, [bias, add], y, Room { starts, window }, &geometry, f.caps());
    f.apply_uncapped(y.iter_mut());
}

#[inline(never)]
fn convolve(
    x: &[f32],
    w: &[f32],
    addends: [Option<&[f32]>; 2],
    y: &mut [f32],
    room: Room<'_, f32>,
    geometry: &Conv<'_>,
    [low, high]: [f32; 2],
) {
    let [bias, add] = addends.map(|numbers| numbers.unwrap_or_default());
    each_window(
        x,
        room,
        geometry,
        |x| x.copied().unwrap_or(0.0),
        |window, filter, at| {
            let depth = window.len();
            let found = w.get(filter * depth..(filter + 1) * depth).zip(y.get_mut(at));
            if let Some((w, y)) = found {
                let sum = dot(window, w, bias.get(filter).copied().unwrap_or(0.0));
                let sum = sum + add.get(at).copied().unwrap_or(0.0);
                let sum = if sum < low { low } else { sum };
                *y = if sum > high { high } else { sum };
            }
        },
    );
}

/// Gathers what `seen` makes of the elements of a window, or of none where it reaches out of the image;
/// `then` is given that of all channels of a group, a filter of the group, and where its result belongs.
#[inline(always)]
pub(crate) fn each_window<T>(
    x: &[T],
    Room { starts, window }: Room<'_, T>,
    geometry: &Conv<'_>,
    seen: impl Fn(Option<&T>) -> T,
    mut then: impl FnMut(&[T], usize, usize),
) {
    let Conv { batch, groups, channels, filters, .. } = *geometry;
    let taps = geometry.window();
    let (elements, places) = (taps.elements(), taps.places());
    for place in 0..places {
        taps.starts(place, starts);
        let (mut planes, mut at) = (x.chunks_exact(elements.max(1)), place);
        for _ in 0..batch {
            let mut filter = 0;
            for _ in 0..groups {
                let mut to = window.iter_mut();
                for _ in 0..channels {
                    let x = planes.next().unwrap_or_default();
                    for (&start, to) in starts.iter().zip(&mut to) {
                        *to = seen(x.get(start as usize));
                    }
                }
                for _ in 0..filters {
                    then(window, filter, at);
                    (filter, at) = (filter + 1, at + places);
                }
            }
        }
    }
}
