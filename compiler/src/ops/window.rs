//! Windows that slide over an image of any number of axes: the attributes and the arithmetic that
//! convolutions and pools share.

use crate::{
    diag::{Code, Result},
    dim::Dim,
    ir::{Attributes, Infer, Inferred, Reader},
};

/// How the image is padded where the attributes do not say it number by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoPad {
    /// As `pads` says.
    NotSet,
    /// So that there is a window for each stride; what is odd goes to the end.
    SameUpper,
    /// So that there is a window for each stride; what is odd goes to the start.
    SameLower,
    /// Not at all.
    Valid,
}

/// The ways to pad as a file spells them.
const AUTO_PADS: &[(&str, AutoPad)] = &[
    ("NOTSET", AutoPad::NotSet),
    ("SAME_UPPER", AutoPad::SameUpper),
    ("SAME_LOWER", AutoPad::SameLower),
    ("VALID", AutoPad::Valid),
];

/// The attributes of a window, as the file has them; a list left out is empty.
#[derive(Clone, Debug)]
pub struct Window {
    /// How the image is padded.
    pub auto_pad: AutoPad,
    /// The sizes of the window.
    pub kernel_shape: Vec<i64>,
    /// How far apart windows lie; 1 by default.
    pub strides: Vec<i64>,
    /// How far the image is padded before each axis, then after each axis; 0 by default.
    pub pads: Vec<i64>,
    /// How far apart the elements of a window lie; 1 by default.
    pub dilations: Vec<i64>,
}

/// A window that slides along one axis.
#[derive(Clone, Debug)]
pub struct Slide {
    /// The size of the image.
    pub image: Dim,
    /// The size of the window.
    pub kernel: Dim,
    /// The number of windows.
    pub places: Dim,
    /// How far apart windows lie.
    pub stride: usize,
    /// How far apart the elements of a window lie.
    pub dilation: usize,
    /// How far the image is padded before.
    pub before: Dim,
    /// How far the image is padded after.
    pub after: Dim,
    /// How large a window may be, at most: one that large has no place.
    pub room: Dim,
}

/// Whether the number of windows is rounded up, so that the last one may begin inside the image
/// and end outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// It is not.
    Down,
    /// It is.
    Up,
}

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

    /// Says every attribute that is not left out.
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

    /// Looks over the attributes, for an image of `axes` axes.
    pub fn check(&self, cx: &Infer<'_>, axes: usize) -> Inferred<()> {
        let lists = [
            ("kernel_shape", &self.kernel_shape, axes, 1),
            ("strides", &self.strides, axes, 1),
            ("pads", &self.pads, 2 * axes, 0),
            ("dilations", &self.dilations, axes, 1),
        ];
        for (name, list, len, least) in lists {
            if !list.is_empty() && list.len() != len {
                let message = format!("`{name}` must have {len} numbers, but has {}", list.len());
                return Err(cx.diagnostic(Code::BadAttribute, message));
            }
            if let Some(n) = list.iter().find(|&&n| n < least || n > i64::from(i32::MAX)) {
                let message = format!("`{name}` has the number {n}");
                return Err(cx.diagnostic(Code::BadAttribute, message));
            }
        }
        Ok(())
    }

    /// The sizes of the window as the attribute says them; a diagnostic where it does not.
    pub fn kernel(&self, cx: &Infer<'_>, axes: usize) -> Inferred<Vec<Dim>> {
        if self.kernel_shape.len() == axes {
            return Ok(self.sizes());
        }
        let message = format!("`kernel_shape` must have {axes} numbers");
        Err(cx.diagnostic(Code::BadAttribute, message))
    }

    /// The sizes of the window as the attribute says them.
    pub fn sizes(&self) -> Vec<Dim> {
        self.kernel_shape.iter().map(|&size| size.into()).collect()
    }

    /// Looks over the attributes of a convolution, whose windows are of the sizes `kernel`.
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
            let message = format!("the images have {} axes, the kernels {}", axes[0], axes[1]);
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if group < 1 || group > i64::from(i32::MAX) {
            return Err(cx.diagnostic(Code::BadAttribute, format!("`group` is {group}")));
        }
        for size in kernel {
            cx.require_at_least(size, &1.into(), "a size of the kernels")?;
        }
        for (size, of_window) in kernel.iter().zip(&self.sizes()) {
            cx.require_equal(size, of_window, "a size of the kernels and of `kernel_shape`")?;
        }
        Ok(())
    }

    /// How far apart windows lie along an axis.
    pub fn stride(&self, axis: usize) -> usize {
        number(&self.strides, axis, 1)
    }

    /// How far apart the elements of a window lie along an axis.
    pub fn dilation(&self, axis: usize) -> usize {
        number(&self.dilations, axis, 1)
    }

    /// How a window of the sizes `kernel` slides over `image`, axis by axis.
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
        let ([before, after], places) = match self.auto_pad {
            AutoPad::NotSet => {
                let places = places(image, &pads, &extent, &step, rounding);
                (pads, places)
            }
            AutoPad::Valid => {
                let pads = [Dim::from(0), Dim::from(0)];
                let places = places(image, &pads, &extent, &step, Rounding::Down);
                (pads, places)
            }
            AutoPad::SameUpper | AutoPad::SameLower => {
                let places = image.ceil_div(&step);
                // The last window starts at `(places - 1) · stride`.
                let total = (&places * &step + &extent - &step - image).at_least(&0.into());
                (halves(&total, self.auto_pad), places)
            }
        };
        let mut room = image + &before + &after + stride;
        if rounding == Rounding::Up && self.auto_pad == AutoPad::NotSet {
            // Rounded up, less than nothing by less than a step is no place, too.
            room = room + (stride - 1);
        }
        let (image, kernel) = (image.clone(), kernel.clone());
        Slide { image, kernel, places, stride, dilation, before, after, room }
    }
}

/// Number `i` of an attribute that was looked over.
fn number(list: &[i64], i: usize, default: usize) -> usize {
    list.get(i).map_or(default, |&n| usize::try_from(n).unwrap_or(default))
}

/// How far a window of that size reaches.
pub fn span(kernel: &Dim, dilation: usize) -> Dim {
    (kernel - 1) * dilation + 1
}

/// A padding cut in two; what is odd goes to the end, or to the start.
pub fn halves(total: &Dim, auto_pad: AutoPad) -> [Dim; 2] {
    let less = total.floor_div(&2.into());
    let more = total - &less;
    if auto_pad == AutoPad::SameLower { [more, less] } else { [less, more] }
}

/// The number of windows. A window that does not fit even once leaves none.
fn places(
    image: &Dim,
    [before, after]: &[Dim; 2],
    extent: &Dim,
    stride: &Dim,
    rounding: Rounding,
) -> Dim {
    let room = image + before + after + stride - extent;
    match rounding {
        Rounding::Down => room.floor_div(stride),
        // A window that would begin in what is padded after the image is left out.
        Rounding::Up => room.ceil_div(stride).at_most(&(image + before).ceil_div(stride)),
    }
}

impl Slide {
    /// A window that is the whole image.
    pub fn whole(image: &Dim) -> Slide {
        let (image, kernel) = (image.clone(), image.clone());
        let [places, before, after] = [1, 0, 0].map(Dim::from);
        let room = &image + 1;
        Slide { image, kernel, places, stride: 1, dilation: 1, before, after, room }
    }

    /// Says that the window fits the padded image.
    pub fn require(&self, cx: &mut Infer<'_>) -> Inferred<()> {
        let extent = span(&self.kernel, self.dilation);
        cx.require_at_least(&self.room, &extent, "the padded image must be as large as a window")
    }
}

/// The number of windows along each axis.
pub fn shape(slides: &[Slide]) -> Vec<Dim> {
    slides.iter().map(|slide| slide.places.clone()).collect()
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

    /// The number of windows and the padding before and after, counted one by one.
    fn counted(w: &Window, image: i64, kernel: i64, rounding: Rounding) -> [i64; 3] {
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
                let places = (image + stride - 1) / stride;
                let total = ((places - 1) * stride + extent - image).max(0);
                let (less, more) = (total / 2, total - total / 2);
                let lower = w.auto_pad == AutoPad::SameLower;
                if lower { [places, more, less] } else { [places, less, more] }
            }
        }
    }

    #[test]
    fn windows_are_as_many_as_one_can_count() {
        let symbol = Dim::symbol("n");
        let ways = [AutoPad::NotSet, AutoPad::Valid, AutoPad::SameUpper, AutoPad::SameLower];
        for code in 0..4 * 3 * 9 * 2 * 3 * 2 {
            let stride = code / 4 % 3 + 1;
            let pads = [code / 12 % 3, code / 36 % 3];
            let (dilation, kernel) = (code / 108 % 2 + 1, code / 216 % 3 + 1);
            let rounding = [Rounding::Down, Rounding::Up][(code / 648 % 2) as usize];
            let window = window(ways[(code % 4) as usize], stride, pads, dilation);
            for image in 1..12 {
                let expected = counted(&window, image, kernel, rounding);
                for size in [image.into(), symbol.clone()] {
                    let slide = window.slide(0, &size, &kernel.into(), rounding);
                    if slide.room.eval(&|_| image) < (kernel - 1) * dilation + 1 {
                        assert_eq!(expected[0], 0, "{window:?} {image} {kernel} {rounding:?}");
                        continue;
                    }
                    let found = [slide.places, slide.before, slide.after];
                    let found = found.map(|dim| dim.eval(&|_| image));
                    assert_eq!(found, expected, "{window:?} {image} {kernel} {rounding:?}");
                }
            }
        }
    }
}
