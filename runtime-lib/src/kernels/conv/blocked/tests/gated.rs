//! Compares gated convolutions with those of images that are multiplied by the gate.

use super::*;

#[test]
fn images_and_weights_are_multiplied_by_the_gate() {
    for pixels in [0, 1, 31, 32, 33, 70] {
        let (sizes, ones, no_pads) = ([pixels], [1], [0]);
        let geometry = Conv {
            batch: 2,
            groups: 1,
            channels: 21,
            filters: 24,
            size: &sizes,
            out: &sizes,
            kernel: &ones,
            strides: &ones,
            dilations: &ones,
            pads: &no_pads,
            weights: WeightLayout::Packed,
        };
        check_gate(geometry, Activation::Relu);
    }
}

fn check_gate(geometry: Conv<'_>, f: Activation) {
    let Conv { batch, channels: depth, filters, size, .. } = geometry;
    let (of_x, of_y) = (channels(batch, depth, size), channels(batch, filters, size));
    let (of_gate, pixels) = (channels(batch, depth, &[]), of_x.pixels);
    let (x, gate) = (some(batch * depth * pixels, 1), some(batch * depth, 2));
    let (w, bias, add) =
        (some(filters * depth, 3), some(filters, 4), some(batch * filters * pixels, 5));
    let gated = |(i, &x): (usize, &f32)| f64::from(x) * f64::from(gate[i / pixels]);
    let gated: Vec<f64> = x.iter().enumerate().map(gated).collect();
    let mut truth = vec![0.0; add.len()];
    let (wide_w, wide_bias, wide_add) = (wide(&w), wide(&bias), wide(&add));
    let (bias_of, add_of) = (Some(&wide_bias[..]), Some(&wide_add[..]));
    let operands = ConvOperands { x: &gated[..], w: &wide_w, bias: bias_of, add: add_of };
    conv(operands, &mut truth, geometry, f);
    let mut packed = vec![f32::NAN; packed_blocks_len(&geometry)];
    pack_blocks(&w, &mut packed, &geometry, BLOCK);
    let mut padded = bias;
    padded.resize(filters.next_multiple_of(BLOCK), 0.0);
    let (x, gate, add) = (blocked(&x, of_x), blocked(&gate, of_gate), blocked(&add, of_y));
    each_level(|level| {
        let mut scratch = vec![f32::NAN; gated_conv_nchwc_scratch(&geometry)];
        let mut y = vec![f32::NAN; add.len()];
        let operands =
            ConvOperands { x: &x[..], w: &packed, bias: Some(&padded[..]), add: Some(&add[..]) };
        gated_conv_nchwc(operands, &gate, &mut y, &mut scratch, geometry, f);
        let mut plain = vec![f32::NAN; truth.len()];
        unblock(&y, &mut plain, of_y);
        for (y, truth) in plain.iter().zip(&truth) {
            let near = (f64::from(*y) - truth).abs() <= 1e-5 * (1.0 + truth.abs());
            assert!(near, "{level:?}, {pixels} pixels: {y} is not {truth}");
        }
    });
}
