//! Sliding windows over any number of axes: the attributes and the arithmetic that convolutions and
//! pooling share.

use crate::{
    diag::{Code, Result, counted},
    dim::Dim,
    ir::{Attributes, Infer, Inferred, Reader},
};

/// The attribute `auto_pad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoPad {
    /// Pads by the attribute `pads`.
    NotSet,
    /// Pads so that there are `⌈image / stride⌉` windows; an odd total pads one more at the end.
    SameUpper,
    /// Pads so that there are `⌈image / stride⌉` windows; an odd total pads one more at the start.
    SameLower,
    /// Does not pad.
    Valid,
}

/// The names of [`AutoPad`] in a file.
const AUTO_PADS: &[(&str, AutoPad)] = &[
    ("NOTSET", AutoPad::NotSet),
    ("SAME_UPPER", AutoPad::SameUpper),
    ("SAME_LOWER", AutoPad::SameLower),
    ("VALID", AutoPad::Valid),
];

/// The attributes of a window, as in the file; a missing list is empty.
#[derive(Clone, Debug)]
pub struct Window {
    /// The rule for padding.
    pub auto_pad: AutoPad,
    /// The size of the window along each axis.
    pub kernel_shape: Vec<i64>,
    /// The distance of adjacent windows along each axis; 1 by default.
    pub strides: Vec<i64>,
    /// The padding before each axis, then after each axis; 0 by default.
    pub pads: Vec<i64>,
    /// The distance of adjacent taps along each axis; 1 by default.
    pub dilations: Vec<i64>,
}

/// A window that slides along one axis.
#[derive(Clone, Debug)]
pub struct Slide {
    /// The size of the image.
    pub image: Dim,
    /// The number of taps of a window.
    pub kernel: Dim,
    /// The number of windows.
    pub windows: Dim,
    /// The distance of adjacent windows.
    pub stride: usize,
    /// The distance of adjacent taps.
    pub dilation: usize,
    /// The padding before the image.
    pub before: Dim,
    /// The padding after the image.
    pub after: Dim,
    /// The largest extent of a window for which the number of windows is not negative. It is 0 for
    /// this extent.
    pub max_extent: Dim,
}

/// The rounding of the number of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Down: every window ends inside the padded image.
    Down,
    /// Up: the last window may end outside the padded image.
    Up,
}

/// The largest number of places of a window over an image. Padding may make a window much larger
/// than the image, and the kernels visit each place.
pub const MAX_PLACES: i64 = 1 << 24;

impl Window {
    /// Reads the attributes.
    pub fn read(node: &mut Reader<'_>) -> Result<Window> {
        Ok(Window {
            auto_pad: node.choice("auto_pad", AUTO_PADS)?,
            kernel_shape: node.maybe_ints("kernel_shape")?.unwrap_or_default(),
            strides: node.maybe_ints("strides")?.unwrap_or_default(),
            pads: node.maybe_ints("pads")?.unwrap_or_default(),
            dilations: node.maybe_ints("dilations")?.unwrap_or_default(),
        })
    }

    /// Writes every attribute that is not missing.
    pub fn attributes(&self, a: &mut Attributes) {
        let named = AUTO_PADS.iter().find(|(_, auto_pad)| *auto_pad == self.auto_pad);
        if let (Some((name, _)), false) = (named, self.auto_pad == AutoPad::NotSet) {
            a.string("auto_pad", name);
        }
        let lists = [
            ("kernel_shape", &self.kernel_shape),
            ("strides", &self.strides),
            ("pads", &self.pads),
            ("dilations", &self.dilations),
        ];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            a.ints(name, list);
        }
    }

    /// Checks the attributes, for an image of `axes` axes.
    pub fn check(&self, cx: &Infer<'_>, axes: usize) -> Inferred<()> {
        let lists = [
            ("kernel_shape", &self.kernel_shape, axes, 1),
            ("strides", &self.strides, axes, 1),
            ("pads", &self.pads, 2 * axes, 0),
            ("dilations", &self.dilations, axes, 1),
        ];
        for (name, list, len, least) in lists {
            if !list.is_empty() && list.len() != len {
                let len = counted(len, "element");
                let message = format!("`{name}` must have {len}, but has {}", list.len());
                return Err(cx.diagnostic(Code::BadAttribute, message));
            }
            if let Some(n) = list.iter().find(|&&n| n < least || n > i64::from(i32::MAX)) {
                let message = format!("`{name}` has the element {n}, which is out of range");
                return Err(cx.diagnostic(Code::BadAttribute, message));
            }
        }
        Ok(())
    }

    /// Returns the window's size along each axis. It is an error if `kernel_shape` does not give
    /// it, or gives more than [`MAX_PLACES`].
    pub fn kernel(&self, cx: &Infer<'_>, axes: usize) -> Inferred<Vec<Dim>> {
        if self.kernel_shape.len() != axes {
            let message = format!("`kernel_shape` must have {}", counted(axes, "element"));
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let places = self.kernel_shape.iter().try_fold(1_i64, |n, &size| n.checked_mul(size));
        if places.is_none_or(|n| n > MAX_PLACES) {
            let message = format!("the window has more than {MAX_PLACES} places");
            return Err(cx.diagnostic(Code::TooLarge, message));
        }
        Ok(self.sizes())
    }

    /// Returns the attribute `kernel_shape`.
    pub fn sizes(&self) -> Vec<Dim> {
        self.kernel_shape.iter().map(|&size| size.into()).collect()
    }

    /// Checks the attributes of a convolution with windows of the sizes `kernel`.
    pub fn check_conv(
        &self,
        cx: &mut Infer<'_>,
        image: &[Dim],
        kernel: &[Dim],
        group: i64,
    ) -> Inferred<()> {
        self.check(cx, image.len())?;
        let axes = [image.len(), kernel.len()];
        if axes[0] != axes[1] || axes[0] == 0 {
            let message =
                format!("the images have {} spatial axes, and the kernels {}", axes[0], axes[1]);
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if group < 1 || group > i64::from(i32::MAX) {
            return Err(cx.diagnostic(Code::BadAttribute, format!("`group` is {group}")));
        }
        for size in kernel {
            cx.require_at_least(size, &1.into(), "a size of the kernels must be at least 1")?;
        }
        for (size, of_window) in kernel.iter().zip(&self.sizes()) {
            cx.require_equal(size, of_window, "a size of the kernels and of `kernel_shape`")?;
        }
        Ok(())
    }

    /// The distance of adjacent windows along an axis.
    pub fn stride(&self, axis: usize) -> usize {
        number(&self.strides, axis, 1)
    }

    /// The distance of adjacent taps along an axis.
    pub fn dilation(&self, axis: usize) -> usize {
        number(&self.dilations, axis, 1)
    }

    /// Returns the slide of a window of the sizes `kernel` along each axis of `image`.
    pub fn slides(&self, image: &[Dim], kernel: &[Dim], rounding: Rounding) -> Vec<Slide> {
        let sizes = image.iter().zip(kernel).enumerate();
        sizes.map(|(i, (image, kernel))| self.slide(i, image, kernel, rounding)).collect()
    }

    fn slide(&self, axis: usize, image: &Dim, kernel: &Dim, rounding: Rounding) -> Slide {
        let axes = self.pads.len() / 2;
        let (stride, dilation) = (self.stride(axis), self.dilation(axis));
        let pads = [axis, axes + axis].map(|i| Dim::from(number(&self.pads, i, 0)));
        let step = Dim::from(stride);
        let extent = span(kernel, dilation);
        let ([before, after], windows) = match self.auto_pad {
            AutoPad::NotSet => {
                let windows = count_windows(image, &pads, &extent, &step, rounding);
                (pads, windows)
            }
            AutoPad::Valid => {
                let pads = [Dim::from(0), Dim::from(0)];
                let windows = count_windows(image, &pads, &extent, &step, Rounding::Down);
                (pads, windows)
            }
            AutoPad::SameUpper | AutoPad::SameLower => {
                let windows = image.ceil_div(&step);
                // The last window starts at `(windows - 1) · stride`.
                let total = (&windows * &step + &extent - &step - image).at_least(&0.into());
                (halves(&total, self.auto_pad), windows)
            }
        };
        let mut max_extent = image + &before + &after + stride;
        if rounding == Rounding::Up && self.auto_pad == AutoPad::NotSet {
            // Rounding up makes fractions between -1 and 0 zero windows.
            max_extent = max_extent + (stride - 1);
        }
        let (image, kernel) = (image.clone(), kernel.clone());
        Slide { image, kernel, windows, stride, dilation, before, after, max_extent }
    }
}

/// Returns element `i` of a checked attribute.
fn number(list: &[i64], i: usize, default: usize) -> usize {
    list.get(i).map_or(default, |&n| usize::try_from(n).unwrap_or(default))
}

/// Returns the extent of a window with that many taps.
pub fn span(kernel: &Dim, dilation: usize) -> Dim {
    (kernel - 1) * dilation + 1
}

/// Splits a total padding in two. The end gets the larger half, or the start for `SameLower`.
pub fn halves(total: &Dim, auto_pad: AutoPad) -> [Dim; 2] {
    let less = total.floor_div(&2.into());
    let more = total - &less;
    if auto_pad == AutoPad::SameLower { [more, less] } else { [less, more] }
}

/// Returns the number of windows, 0 if not a single one fits.
fn count_windows(
    image: &Dim,
    [before, after]: &[Dim; 2],
    extent: &Dim,
    stride: &Dim,
    rounding: Rounding,
) -> Dim {
    let span = image + before + after + stride - extent;
    match rounding {
        Rounding::Down => span.floor_div(stride),
        // A window that would start in the padding after the image is left out.
        Rounding::Up => span.ceil_div(stride).at_most(&(image + before).ceil_div(stride)),
    }
}

impl Slide {
    /// Returns a window that covers the whole image.
    pub fn whole(image: &Dim) -> Slide {
        let (image, kernel) = (image.clone(), image.clone());
        let [windows, before, after] = [1, 0, 0].map(Dim::from);
        let max_extent = &image + 1;
        Slide { image, kernel, windows, stride: 1, dilation: 1, before, after, max_extent }
    }

    /// Requires the window to fit into the padded image.
    pub fn require(&self, cx: &mut Infer<'_>) -> Inferred<()> {
        let extent = span(&self.kernel, self.dilation);
        cx.require_at_least(
            &self.max_extent,
            &extent,
            "the padded image and a stride must not be smaller than a window",
        )
    }
}

/// Returns the number of windows along each axis.
pub fn shape(slides: &[Slide]) -> Vec<Dim> {
    slides.iter().map(|slide| slide.windows.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(auto_pad: AutoPad, stride: i64, pads: [i64; 2], dilation: i64) -> Window {
        Window {
            auto_pad,
            kernel_shape: Vec::new(),
            strides: vec![stride],
            pads: pads.to_vec(),
            dilations: vec![dilation],
        }
    }

    /// Counts the windows one by one. Returns their number and the padding before and after.
    fn count(w: &Window, image: i64, kernel: i64, rounding: Rounding) -> [i64; 3] {
        let (stride, extent) = (w.strides[0], (kernel - 1) * w.dilations[0] + 1);
        let count = |from: i64, to: i64, overhang: i64| {
            let starts = (0..).map(|i| from + i * stride);
            let fits = |&start: &i64| start < image && start + extent <= to + overhang;
            starts.take_while(fits).count() as i64
        };
        match w.auto_pad {
            AutoPad::NotSet => {
                let overhang = if rounding == Rounding::Up { stride - 1 } else { 0 };
                let [before, after] = [w.pads[0], w.pads[1]];
                let starts = (0..).map(|i| i * stride - before);
                let fits = |&start: &i64| {
                    start + extent <= image + after + overhang
                        && (rounding == Rounding::Down || start < image)
                };
                [starts.take_while(fits).count() as i64, before, after]
            }
            AutoPad::Valid => [count(0, image, 0), 0, 0],
            AutoPad::SameUpper | AutoPad::SameLower => {
                let windows = (image + stride - 1) / stride;
                let total = ((windows - 1) * stride + extent - image).max(0);
                let (less, more) = (total / 2, total - total / 2);
                let lower = w.auto_pad == AutoPad::SameLower;
                if lower { [windows, more, less] } else { [windows, less, more] }
            }
        }
    }

    /// ONNX's formula rounds down. ONNX Runtime rounds toward zero in pools, and refuses `Conv`.
    #[test]
    fn an_image_that_is_smaller_than_a_window_has_none() {
        for (image, kernel, stride) in [(2, 3, 2), (2, 3, 3), (1, 3, 3), (0, 3, 4), (2, 3, 1)] {
            let window = window(AutoPad::NotSet, stride, [0, 0], 1);
            let slide = window.slide(0, &image.into(), &kernel.into(), Rounding::Down);
            assert_eq!(slide.windows.known(), Some(0), "{image} {kernel} {stride}");
        }
    }

    #[test]
    fn windows_are_counted_as_by_enumeration() {
        let symbol = Dim::symbol("n");
        let auto_pads = [AutoPad::NotSet, AutoPad::Valid, AutoPad::SameUpper, AutoPad::SameLower];
        for code in 0..4 * 3 * 9 * 2 * 3 * 2 {
            let stride = code / 4 % 3 + 1;
            let pads = [code / 12 % 3, code / 36 % 3];
            let (dilation, kernel) = (code / 108 % 2 + 1, code / 216 % 3 + 1);
            let rounding = [Rounding::Down, Rounding::Up][(code / 648 % 2) as usize];
            let window = window(auto_pads[(code % 4) as usize], stride, pads, dilation);
            for image in 1..12 {
                let expected = count(&window, image, kernel, rounding);
                for size in [image.into(), symbol.clone()] {
                    let slide = window.slide(0, &size, &kernel.into(), rounding);
                    if slide.max_extent.eval(&|_| image) < (kernel - 1) * dilation + 1 {
                        assert_eq!(expected[0], 0, "{window:?} {image} {kernel} {rounding:?}");
                        continue;
                    }
                    let actual = [slide.windows, slide.before, slide.after];
                    let actual = actual.map(|dim| dim.eval(&|_| image));
                    assert_eq!(actual, expected, "{window:?} {image} {kernel} {rounding:?}");
                }
            }
        }
    }
}
