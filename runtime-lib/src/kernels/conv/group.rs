//! Convolutions as GEMMs: one for each group, and for each band of the output.

use super::plain::sums;
use super::planes::{Band, Window};
use super::slide::Slide;
use super::{
    Conv, ConvOperands, WeightLayout, conv_least_scratch, pack_weights, packed_at_first, product,
};
use crate::kernels::matmul::packed_a_len;
use crate::microkernel::{Addend, FusedActivation, GemmElem, Matrix, Operand, Product, Target};
use crate::simd::HAS_VECTORS;
use crate::simd::taps::Taps;
use crate::threads::{self, Scratch};

/// Computes `y = f(w ∗ x + bias + add)`.
pub(super) fn conv_real<T: GemmElem>(
    operands: &ConvOperands<'_, T>,
    y: &mut [T],
    scratch: &mut [T],
    geometry: Conv<'_>,
    f: FusedActivation<T>,
) {
    let pixels = product(geometry.out);
    if geometry.filters * pixels == 0 {
        return;
    }
    let Some(window) = Window::of(&geometry) else {
        sums(*operands, y, geometry);
        let len = y.len();
        return f.apply(y, 1, len, len);
    };
    let packed = packed_at_first(&geometry);
    if packed > 0 && scratch.len() >= conv_least_scratch(&geometry) + packed {
        let (panels, scratch) = scratch.split_at_mut(packed);
        pack_weights(operands.w, panels, &geometry);
        let operands = ConvOperands { w: panels, ..*operands };
        let geometry = Conv { weights: WeightLayout::Packed, ..geometry };
        return conv_real(&operands, y, scratch, geometry, f);
    }
    let (each, scratch) = (geometry.filters * pixels, Scratch::new(scratch));
    let cost = y.len() * geometry.depth() / threads::MACS_PER_ELEMENT;
    threads::share(y, each, cost, |first, y| {
        scratch.with(|scratch| {
            let groups = (first..).map(|index| Group::of(operands, index, &geometry));
            let groups = groups.zip(y.chunks_exact_mut(each));
            if geometry.is_pointwise() {
                return groups.for_each(|(group, y)| group.pointwise(y, scratch, f));
            }
            let mut bands = Bands::new(window, scratch, geometry.scratch_of_product(0), f);
            groups.for_each(|(group, y)| bands.run(&group, y));
        });
    });
}

/// One group of one input.
struct Group<'a, T> {
    /// The input channels of the group.
    x: &'a [T],
    /// The weights of the group: one row for each output channel.
    w: Operand<'a, T>,
    /// The bias of each output channel; empty for none.
    bias: &'a [T],
    /// The residual of the group; empty for none.
    add: &'a [T],
    filters: usize,
    depth: usize,
    /// The elements of an output channel.
    pixels: usize,
}

impl<'a, T: GemmElem> Group<'a, T> {
    /// Returns the group of image `index / groups`, number `index % groups`.
    fn of(operands: &ConvOperands<'a, T>, index: usize, geometry: &Conv<'_>) -> Group<'a, T> {
        let ConvOperands { x, w, bias, add } = *operands;
        let Conv { groups, channels, filters, .. } = *geometry;
        let depth = geometry.depth();
        let (from, pixels) = (channels * product(geometry.size), product(geometry.out));
        let group = index % groups;
        let w = match geometry.weights {
            WeightLayout::Plain => {
                let data = &w[group * filters * depth..][..filters * depth];
                Operand::Matrix(Matrix { data, row: depth, col: 1 })
            }
            WeightLayout::Packed => {
                let len = packed_a_len(&geometry.packing());
                Operand::Panels(&w[group * len..][..len])
            }
        };
        Group {
            x: &x[index * from..][..from],
            w,
            bias: bias.map_or(&[], |bias| &bias[group * filters..]),
            add: add.map_or(&[], |add| &add[index * filters * pixels..]),
            filters,
            depth,
            pixels,
        }
    }

    /// Computes the output of a pointwise convolution.
    fn pointwise(&self, y: &mut [T], scratch: &mut [T], f: FusedActivation<T>) {
        let b = Operand::Matrix(Matrix { data: self.x, row: self.pixels, col: 1 });
        self.product(b, self.pixels, 0, f).run(y, Target::whole(self.pixels), scratch);
    }

    /// Returns the product of `n` columns of the output, from element `at` of each channel on.
    fn product(
        &self,
        b: Operand<'a, T>,
        n: usize,
        at: usize,
        f: FusedActivation<T>,
    ) -> Product<'a, T> {
        let bias = Addend { data: self.bias, row: 1, col: 0, scale: T::ONE };
        let add = self.add.get(at..).unwrap_or(&[]);
        let add = Addend { data: add, row: self.pixels, col: 1, scale: T::ONE };
        Product {
            m: self.filters,
            n,
            k: self.depth,
            a: self.w,
            b,
            alpha: T::ONE,
            addends: [bias, add],
            f,
        }
    }
}

/// The bands of a convolution, and their memory.
struct Bands<'s, T> {
    window: Window,
    band: Band,
    starts: &'s [T],
    planes: &'s mut [T],
    /// The scratch memory of the products.
    scratch: &'s mut [T],
    f: FusedActivation<T>,
}

impl<'s, T: GemmElem> Bands<'s, T> {
    /// Divides the scratch memory: `rest` elements are for the products.
    fn new(
        window: Window,
        scratch: &'s mut [T],
        rest: usize,
        f: FusedActivation<T>,
    ) -> Bands<'s, T> {
        let (starts, scratch) = scratch.split_at_mut(window.starts_len());
        let band = window.band(scratch.len().saturating_sub(rest + Band::behind::<T>()));
        window.starts(&band, starts);
        let (planes, scratch) = scratch.split_at_mut(band.planes_len::<T>());
        Bands { window, band, starts, planes, scratch, f }
    }

    /// Computes the output of a group.
    fn run(&mut self, group: &Group<'_, T>, y: &mut [T]) {
        let [d, h, w] = self.window.axes;
        let mut slides = false;
        for depth in 0..d.out {
            for row in (0..h.out).step_by(self.band.rows) {
                for col in (0..w.out).step_by(self.band.cols) {
                    self.window.fill(group.x, &self.band, [depth, row, col], self.planes);
                    let rows = self.band.rows.min(h.out - row);
                    let cols = self.band.cols.min(w.out - col);
                    let at = (depth * h.out + row) * w.out + col;
                    if let Some(slide) = self.slide(group, y, [rows, cols], at) {
                        slide.compute();
                        slides = true;
                        continue;
                    }
                    let to = Target { row: group.pixels, pitch: self.band.pitch, width: cols };
                    let b = Operand::Rows { data: self.planes, starts: self.starts };
                    let product = group.product(b, self.band.columns(rows, cols), at, self.f);
                    product.run(&mut y[at..], to, self.scratch);
                }
            }
        }
        if slides {
            self.f.finish(y, 1, group.pixels, group.pixels);
        }
    }

    /// Returns the convolution of rows and columns of the output from element `at` on, if the group
    /// has one filter and the elements are `f32`. The result is clamped, but not finished.
    fn slide<'a>(
        &'a self,
        group: &Group<'a, T>,
        y: &'a mut [T],
        [rows, cols]: [usize; 2],
        at: usize,
    ) -> Option<Slide<'a>> {
        let Operand::Matrix(weights) = group.w else { return None };
        if !HAS_VECTORS || group.filters != 1 || group.pixels == 1 {
            return None;
        }
        let bias = T::as_f32(group.bias)?.first();
        let clamp = self.f.clamp().map(|(low, high)| (low.to_f64() as f32, high.to_f64() as f32));
        Some(Slide {
            planes: T::as_f32(self.planes)?,
            pitch: self.band.pitch,
            taps: Taps::new(T::as_f32(self.starts)?, T::as_f32(&weights.data[..group.depth])?),
            bias: bias.copied().unwrap_or(0.0),
            add: T::as_f32(group.add.get(at..).unwrap_or(&[]))?,
            y: T::as_f32_mut(&mut y[at..])?,
            y_row_stride: self.window.axes[2].out,
            rows,
            cols,
            clamp,
        })
    }
}
