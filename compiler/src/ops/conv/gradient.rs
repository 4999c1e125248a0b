//! The gradients of convolutions: for the images, a transposed convolution of `dy` with the
//! weights; for the weights, a convolution of the images with `dy`.

use super::{Conv, transpose::ConvTranspose, weight_grad::ConvWeightGrad};
use crate::{
    diag::Result,
    dim::Dim,
    ir::{Expr, Gradient},
    ops::{
        expand::Expand,
        slice::Slice,
        window::{AutoPad, Slide, Window},
    },
};
use onnxc_runtime::kernels::epilogue::Activation;

/// A window that slides over images, with any number of axes.
pub struct SlidingWindow {
    slides: Vec<Slide>,
    group: i64,
}

impl SlidingWindow {
    /// A window with its slide along each axis, in `group` groups of channels.
    pub fn new(slides: Vec<Slide>, group: i64) -> SlidingWindow {
        SlidingWindow { slides, group }
    }

    fn axes(&self) -> usize {
        self.slides.len()
    }

    /// Weights `[1, 1, …]` of ones for one channel, of the type of `like`.
    pub fn ones<'t>(&self, g: &Gradient<'_>, like: Expr<'t>) -> Result<Expr<'t>> {
        let sizes: Option<Vec<i64>> =
            self.slides.iter().map(|slide| slide.kernel.known()).collect();
        let sizes = sizes.ok_or_else(|| unknown_sizes(g))?;
        let shape: Vec<i64> = [1, 1].into_iter().chain(sizes).collect();
        Ok(like.number(1.0).apply(Expand, &[like.tape.ints(&shape)]))
    }

    fn window(&self, strides: Vec<i64>, dilations: Vec<i64>, pads: Vec<i64>) -> Window {
        let (auto_pad, kernel_shape) = (AutoPad::NotSet, Vec::new());
        Window { auto_pad, kernel_shape, strides, pads, dilations }
    }

    fn strides(&self) -> Vec<i64> {
        self.slides.iter().map(|slide| slide.stride as i64).collect()
    }

    fn dilations(&self) -> Vec<i64> {
        self.slides.iter().map(|slide| slide.dilation as i64).collect()
    }

    /// The padding of the images at the start of each axis, if it is known.
    fn before(&self) -> Option<Vec<i64>> {
        self.slides.iter().map(|slide| slide.before.known()).collect()
    }

    /// The number of elements along an axis that `places` windows cover.
    fn extent(slide: &Slide, places: &Dim) -> Dim {
        (places - 1) * slide.stride + (&slide.kernel - 1) * slide.dilation + 1
    }

    /// The sum of the weighted elements of each window of `images`, as a convolution.
    pub fn sum_windows<'t>(
        &self,
        g: &Gradient<'_>,
        images: Expr<'t>,
        weights: Expr<'t>,
    ) -> Result<Expr<'t>> {
        let after = self.slides.iter().map(|slide| {
            let excess =
                SlidingWindow::extent(slide, &slide.windows) - &slide.image - &slide.before;
            excess.known().or(slide.after.known()).map(|after| after.max(0))
        });
        let (Some(before), Some(after)) = (self.before(), after.collect::<Option<Vec<i64>>>())
        else {
            return Err(unknown_sizes(g));
        };
        let pads = before.into_iter().chain(after).collect();
        let op = Conv {
            window: self.window(self.strides(), self.dilations(), pads),
            group: self.group,
            activation: Activation::Identity,
            fused: false,
        };
        Ok(images.apply(op, &[weights]))
    }

    /// The gradient of `images`: for each element, the sum over the windows that contain it of the
    /// element's weight times the window's `dy`.
    pub fn input_grad<'t>(
        &self,
        g: &Gradient<'_>,
        dy: Expr<'t>,
        weights: Expr<'t>,
        images: Expr<'t>,
    ) -> Result<Expr<'t>> {
        let Some(before) = self.before() else { return Err(unknown_sizes(g)) };
        if let Some(pads) = self.input_grad_pads(&before) {
            let op = Conv {
                window: self.window(Vec::new(), self.dilations(), pads),
                group: self.group,
                activation: Activation::Identity,
                fused: false,
            };
            return Ok(dy.apply(op, &[self.flip_weights(weights)]));
        }
        let op = |pads: Vec<i64>, output_padding: Vec<i64>| ConvTranspose {
            window: self.window(self.strides(), self.dilations(), pads),
            group: self.group,
            output_padding,
            output_shape: Vec::new(),
            activation: Activation::Identity,
            fused: false,
        };
        // The number of elements after the last window; negative if the window extends past the
        // end.
        let rest = self.slides.iter().zip(&before).map(|(slide, before)| {
            (&slide.image + *before - SlidingWindow::extent(slide, &slide.windows)).known()
        });
        if let Some(rest) = rest.collect::<Option<Vec<i64>>>() {
            let after = rest.iter().map(|&rest| (-rest).max(0));
            let pads = before.iter().copied().chain(after).collect();
            let output_padding = rest.iter().map(|&rest| rest.max(0)).collect();
            return Ok(dy.apply(op(pads, output_padding), &[weights]));
        }
        let all = dy.apply(op(Vec::new(), Vec::new()), &[weights]);
        let tape = images.tape;
        let after = images.sizes(2, i64::MAX) - all.sizes(2, i64::MAX) + tape.ints(&before);
        let cropped: Vec<i64> = before.iter().map(|&before| -before).collect();
        let none = tape.ints(&[0, 0]);
        Ok(all.pad(tape.concat(&[none, tape.ints(&cropped), none, after])))
    }

    /// The padding with which a convolution of `dy` with the flipped window gives the gradient of
    /// the images; `None` unless all strides are 1 and the padding is known and not negative.
    fn input_grad_pads(&self, before: &[i64]) -> Option<Vec<i64>> {
        let each = self.slides.iter().zip(before).map(|(slide, before)| {
            let extent = (slide.kernel.known()? - 1) * slide.dilation as i64;
            let front = extent - before;
            let after = (&slide.image - &slide.windows).known()? + extent - front;
            (slide.stride == 1 && front >= 0 && after >= 0).then_some((front, after))
        });
        let (front, after): (Vec<i64>, Vec<i64>) =
            each.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some([front, after].concat())
    }

    /// The weights with the window flipped along each axis, and input and output channels
    /// exchanged.
    fn flip_weights<'t>(&self, weights: Expr<'t>) -> Expr<'t> {
        let (tape, axes) = (weights.tape, self.axes());
        let all = |value: i64| tape.ints(&vec![value; axes]);
        let spatial: Vec<i64> = (2..2 + axes as i64).collect();
        let flipped = weights.apply(Slice, &[all(-1), all(i64::MIN), tape.ints(&spatial), all(-1)]);
        if self.group == 1 {
            return flipped.move_axis(0, 1);
        }
        let (channels, sizes) = (weights.size_of(1), weights.sizes(2, i64::MAX));
        let grouped = tape.concat(&[tape.ints(&[self.group, -1]), channels, sizes]);
        let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..3 + axes).collect();
        let filters = flipped.reshape_by(grouped).transpose(&order);
        let merged = tape.concat(&[tape.ints(&[-1]), filters.size_of(2), sizes]);
        filters.reshape_by(merged)
    }

    /// The gradient of the weights: for each weight, the sum over all windows of the element that
    /// it is multiplied by, times the window's `dy`. If the sizes of the window are unknown, it is
    /// a convolution of the images with `dy` as its filters, with batch and channels exchanged in
    /// both.
    pub fn conv_weight_grad<'t>(
        &self,
        g: &Gradient<'_>,
        images: Expr<'t>,
        dy: Expr<'t>,
        weights: Expr<'t>,
    ) -> Result<Expr<'t>> {
        let Some(before) = self.before() else { return Err(unknown_sizes(g)) };
        let after: Option<Vec<i64>> = self.slides.iter().map(|slide| slide.after.known()).collect();
        let Some(after) = after else { return Err(unknown_sizes(g)) };
        let pads = before.into_iter().chain(after).collect();
        let sizes: Option<Vec<i64>> =
            self.slides.iter().map(|slide| slide.kernel.known()).collect();
        if let Some(kernel_shape) = sizes {
            let window =
                Window { kernel_shape, ..self.window(self.strides(), self.dilations(), pads) };
            return Ok(images.apply(ConvWeightGrad { window, group: self.group }, &[dy]));
        }
        let op = Conv {
            window: self.window(self.dilations(), self.strides(), pads),
            group: self.group,
            activation: Activation::Identity,
            fused: false,
        };
        let tape = images.tape;
        let images = if self.group == 1 {
            images.move_axis(0, 1)
        } else {
            // [n, g·c, …] to [c, g·n, …]: each channel of a group becomes an image.
            let channels = weights.size_of(1);
            let image = images.sizes(2, i64::MAX);
            let grouped =
                tape.concat(&[images.size_of(0), tape.ints(&[self.group]), channels, image]);
            let merged = tape.concat(&[channels, tape.ints(&[-1]), image]);
            let order: Vec<usize> = [2, 1, 0].into_iter().chain(3..3 + self.axes()).collect();
            images.reshape(grouped).transpose(&order).reshape_by(merged)
        };
        let all = images.apply(op, &[dy.move_axis(0, 1)]).move_axis(0, 1);
        Ok(all.first_of(weights))
    }
}

fn unknown_sizes(g: &Gradient<'_>) -> crate::diag::Diagnostic {
    g.unsupported("for padding that depends on sizes known only at run time")
}
