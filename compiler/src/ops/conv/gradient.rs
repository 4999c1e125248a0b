//! The derivatives of convolutions, which are convolutions again: run backward for the images, and of
//! the images with the derivatives for the weights.

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

/// A window that slides over images of any size.
pub struct SlidingWindow {
    slides: Vec<Slide>,
    group: i64,
}

impl SlidingWindow {
    /// The window over images and with weights of these sizes.
    pub fn new(slides: Vec<Slide>, group: i64) -> SlidingWindow {
        SlidingWindow { slides, group }
    }

    fn axes(&self) -> usize {
        self.slides.len()
    }

    /// Weights of 1 for a window of one channel, of the type of `like`.
    pub fn ones<'t>(&self, g: &Gradient<'_>, like: Expr<'t>) -> Result<Expr<'t>> {
        let sizes: Option<Vec<i64>> =
            self.slides.iter().map(|slide| slide.kernel.known()).collect();
        let shape: Vec<i64> = [1, 1].into_iter().chain(sizes.ok_or_else(|| open(g))?).collect();
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

    /// How far the images are padded before each axis, where that is known.
    fn before(&self) -> Option<Vec<i64>> {
        self.slides.iter().map(|slide| slide.before.known()).collect()
    }

    /// How far windows reach that lie at the first of `places`, at the last, and between.
    fn reach(slide: &Slide, places: &Dim) -> Dim {
        (places - 1) * slide.stride + (&slide.kernel - 1) * slide.dilation + 1
    }

    /// The sums over the windows, as a convolution of images that `images` are like.
    pub fn sum_windows<'t>(
        &self,
        g: &Gradient<'_>,
        images: Expr<'t>,
        weights: Expr<'t>,
    ) -> Result<Expr<'t>> {
        let behind = self.slides.iter().map(|slide| {
            let reach = SlidingWindow::reach(slide, &slide.places) - &slide.image - &slide.before;
            reach.known().or(slide.after.known()).map(|behind| behind.max(0))
        });
        let (Some(before), Some(behind)) = (self.before(), behind.collect::<Option<Vec<i64>>>())
        else {
            return Err(open(g));
        };
        let pads = before.into_iter().chain(behind).collect();
        let op = Conv {
            window: self.window(self.strides(), self.dilations(), pads),
            group: self.group,
            activation: Activation::Identity,
            fused: false,
        };
        Ok(images.apply(op, &[weights]))
    }

    /// What each element of `images` is in, summed: the weights, times the derivatives of the
    /// places of the windows that it is in.
    pub fn input_grad<'t>(
        &self,
        g: &Gradient<'_>,
        dy: Expr<'t>,
        weights: Expr<'t>,
        images: Expr<'t>,
    ) -> Result<Expr<'t>> {
        let Some(before) = self.before() else { return Err(open(g)) };
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
        // What of the images lies behind the reach of the windows, or before it where that is negative.
        let rest = self.slides.iter().zip(&before).map(|(slide, before)| {
            (&slide.image + *before - SlidingWindow::reach(slide, &slide.places)).known()
        });
        if let Some(rest) = rest.collect::<Option<Vec<i64>>>() {
            let behind = rest.iter().map(|&rest| (-rest).max(0));
            let pads = before.iter().copied().chain(behind).collect();
            let beyond = rest.iter().map(|&rest| rest.max(0)).collect();
            return Ok(dy.apply(op(pads, beyond), &[weights]));
        }
        let all = dy.apply(op(Vec::new(), Vec::new()), &[weights]);
        let tape = images.tape;
        let behind = images.sizes(2, i64::MAX) - all.sizes(2, i64::MAX) + tape.ints(&before);
        let cut: Vec<i64> = before.iter().map(|&before| -before).collect();
        let none = tape.ints(&[0, 0]);
        Ok(all.pad(tape.concat(&[none, tape.ints(&cut), none, behind])))
    }

    /// How the derivatives are padded where a convolution of them, with the window backwards, gives as
    /// many elements as the images have: where windows stand side by side.
    fn input_grad_pads(&self, before: &[i64]) -> Option<Vec<i64>> {
        let each = self.slides.iter().zip(before).map(|(slide, before)| {
            let reach = (slide.kernel.known()? - 1) * slide.dilation as i64;
            let front = reach - before;
            let behind = (&slide.image - &slide.places).known()? + reach - front;
            (slide.stride == 1 && front >= 0 && behind >= 0).then_some((front, behind))
        });
        let (front, behind): (Vec<i64>, Vec<i64>) =
            each.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some([front, behind].concat())
    }

    /// The weights with the window backwards, and with images and results in each other's places.
    fn flip_weights<'t>(&self, weights: Expr<'t>) -> Expr<'t> {
        let (tape, axes) = (weights.tape, self.axes());
        let all = |value: i64| tape.ints(&vec![value; axes]);
        let spatial: Vec<i64> = (2..2 + axes as i64).collect();
        let turned = weights.apply(Slice, &[all(-1), all(i64::MIN), tape.ints(&spatial), all(-1)]);
        if self.group == 1 {
            return turned.moved_axis(0, 1);
        }
        let (channels, sizes) = (weights.size_of(1), weights.sizes(2, i64::MAX));
        let apart = tape.concat(&[tape.ints(&[self.group, -1]), channels, sizes]);
        let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..3 + axes).collect();
        let filters = turned.reshape_by(apart).transpose(&order);
        let joined = tape.concat(&[tape.ints(&[-1]), filters.size_of(2), sizes]);
        filters.reshape_by(joined)
    }

    /// What each weight is multiplied with, summed: the elements of the images in its place in the
    /// windows, times the derivatives of the windows. Where the window's sizes are not known, batch
    /// and channels change places, so that the windows' derivatives are weights that slide over the
    /// images.
    pub fn conv_weight_grad<'t>(
        &self,
        g: &Gradient<'_>,
        images: Expr<'t>,
        dy: Expr<'t>,
        weights: Expr<'t>,
    ) -> Result<Expr<'t>> {
        let Some(before) = self.before() else { return Err(open(g)) };
        let behind: Option<Vec<i64>> =
            self.slides.iter().map(|slide| slide.after.known()).collect();
        let Some(behind) = behind else { return Err(open(g)) };
        let pads = before.into_iter().chain(behind).collect();
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
            images.moved_axis(0, 1)
        } else {
            // [n, g·c, …] as [c, g·n, …]: each group's channels are batches.
            let channels = weights.size_of(1);
            let image = images.sizes(2, i64::MAX);
            let apart =
                tape.concat(&[images.size_of(0), tape.ints(&[self.group]), channels, image]);
            let joined = tape.concat(&[channels, tape.ints(&[-1]), image]);
            let order: Vec<usize> = [2, 1, 0].into_iter().chain(3..3 + self.axes()).collect();
            let apart = images.reshape(apart).transpose(&order);
            apart.reshape_by(joined)
        };
        let all = images.apply(op, &[dy.moved_axis(0, 1)]).moved_axis(0, 1);
        Ok(all.first_of(weights))
    }
}

fn open(g: &Gradient<'_>) -> crate::diag::Diagnostic {
    g.unsupported("for padding that depends on sizes known only when running")
}
