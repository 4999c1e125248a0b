//! The frame header, and the coefficients of the image.

use super::{Block, Hints, colors, plane::Plane, transform};
use crate::kernels::image::Image;
use alloc::{boxed::Box, vec, vec::Vec};

/// The largest number of samples of all components: 2²⁸.
const MAX_SAMPLES: usize = 1 << 28;

/// The image: its sizes and its components.
pub(super) struct Frame {
    pub progressive: bool,
    pub height: usize,
    pub width: usize,
    /// The largest vertical and horizontal sampling factors of all components.
    pub factors: [usize; 2],
    pub components: Vec<Component>,
}

/// A color component.
pub(super) struct Component {
    /// The component's identifier in the file.
    pub id: u8,
    /// The vertical and horizontal sampling factors: the blocks of a unit (MCU).
    pub factors: [usize; 2],
    /// The index of the quantization table.
    pub table: usize,
    /// The quantization table, once a scan of the component has started.
    pub quanta: Option<Box<Block<u16>>>,
    /// The number of samples, vertically and horizontally.
    pub sizes: [usize; 2],
    /// The number of blocks in whole units, vertically and horizontally.
    pub blocks: [usize; 2],
    /// The coefficients of the blocks.
    pub coefficients: Vec<Block<i16>>,
}

impl Frame {
    pub fn read(body: &[u8], progressive: bool) -> Option<Frame> {
        let [8, h0, h1, w0, w1, count, rest @ ..] = body else { return None };
        let [height, width] =
            [[*h0, *h1], [*w0, *w1]].map(|bytes| usize::from(u16::from_be_bytes(bytes)));
        let known = matches!(count, 1 | 3 | 4) && rest.len() == 3 * usize::from(*count);
        if !known || height == 0 || width == 0 {
            return None;
        }
        let mut components = Vec::new();
        for part in rest.chunks_exact(3) {
            let [id, factors, table] = [part[0], part[1], part[2]];
            let factors = [usize::from(factors & 15), usize::from(factors >> 4)];
            if factors.iter().any(|factor| !(1..=4).contains(factor)) {
                return None;
            }
            components.push(Component {
                id,
                factors,
                table: table.into(),
                quanta: None,
                sizes: [0; 2],
                blocks: [0; 2],
                coefficients: Vec::new(),
            });
        }
        // The units of a single component are its blocks, for any sampling factors.
        if let [component] = components.as_mut_slice() {
            component.factors = [1, 1];
        }
        let factors = [0, 1].map(|i| components.iter().map(|c| c.factors[i]).max().unwrap_or(1));
        let mut frame = Frame { progressive, height, width, factors, components };
        frame.lay_out()?;
        Some(frame)
    }

    /// Computes the sizes of the components, and allocates their coefficients.
    fn lay_out(&mut self) -> Option<()> {
        let units = self.units();
        let mut total = 0;
        for component in &mut self.components {
            for i in [0, 1] {
                let size = [self.height, self.width][i];
                component.sizes[i] = (size * component.factors[i]).div_ceil(self.factors[i]);
                component.blocks[i] = units[i] * component.factors[i];
            }
            total += component.blocks[0] * component.blocks[1] * 64;
        }
        if total > MAX_SAMPLES {
            return None;
        }
        for component in &mut self.components {
            component.coefficients = vec![[0; 64]; component.blocks[0] * component.blocks[1]];
        }
        Some(())
    }

    /// Returns the number of units, vertically and horizontally.
    pub fn units(&self) -> [usize; 2] {
        [0, 1].map(|i| [self.height, self.width][i].div_ceil(8 * self.factors[i]))
    }

    /// Returns whether every component had a scan.
    pub fn is_whole(&self) -> bool {
        self.components.iter().all(|component| component.quanta.is_some())
    }

    /// Returns the image in RGB.
    pub fn image(mut self, hints: Hints) -> Option<Image> {
        let ids: Vec<u8> = self.components.iter().map(|component| component.id).collect();
        let mut planes = Vec::new();
        for component in &mut self.components {
            let plane = component.plane()?;
            let factors = [0, 1].map(|i| self.factors[i].is_multiple_of(component.factors[i]));
            if factors.contains(&false) {
                return None;
            }
            let factors = [0, 1].map(|i| self.factors[i] / component.factors[i]);
            planes.push(plane.upsample(factors));
        }
        let pixels = colors::rgb(&planes, [self.height, self.width], colors::kind(&ids, hints));
        Some(Image { height: self.height, width: self.width, pixels })
    }
}

impl Component {
    /// Returns the samples of all blocks, and frees the coefficients.
    fn plane(&mut self) -> Option<Plane> {
        let quanta = self.quanta.take()?;
        let coefficients = core::mem::take(&mut self.coefficients);
        let [height, width] = self.blocks.map(|blocks| blocks * 8);
        let mut samples = vec![0; height * width];
        for (row, blocks) in coefficients.chunks(self.blocks[1]).enumerate() {
            let rows = &mut samples[row * 8 * width..(row + 1) * 8 * width];
            for (column, block) in blocks.iter().enumerate() {
                transform::inverse(block, &quanta, &mut rows[column * 8..], width);
            }
        }
        let [height, _] = self.sizes;
        samples.truncate(height * width);
        Some(Plane { samples, stride: width, sizes: self.sizes })
    }
}
